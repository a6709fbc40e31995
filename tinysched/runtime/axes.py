"""A kernel's RANGEs as axes of arrays, and its index arithmetic as sums over them.

In: a kernel's RANGEs and indices. Out: an :class:`Axis` (or several) per RANGE, the :class:`Linear` form of indices,
and the :data:`Box` in which a condition holds. A RANGE that is used through ``//`` and ``%`` is split where the
divisors divide one another: ``r // 4`` and ``r % 4`` of 12 are the axes of a 3 by 4 array.

>>> r0 = UOp.range(12, 0)
>>> axes = Axes([r0], [], [r0 // 4, r0 % 4])
>>> axes.loops
(r0a:3, r0b:4)
>>> axes.linear(r0 % 4 * 3 + r0 // 4)
Linear(coefs={r0b:4: 3, r0a:3: 1}, others=(), const=0)
>>> axes.box(r0 < 8)
({r0a:3: (0, 2)}, [])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.affine import Term, affine_of
from tinysched.ir.symbolic.conditions import bound_of, clauses
from tinysched.ir.text import range_name
from tinysched.ir.uop import UOp

Span = tuple[int, int]
"""From (inclusive) and to (exclusive) along an axis."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis: the same position ``at`` in every array of a program (with length 1 where the array does not vary)."""

    name: str
    size: int
    at: int

    def __repr__(self) -> str:
        return f"{self.name}:{self.size}"


Box = dict[Axis, Span]
"""Part of the iteration space: a span for each axis that is not taken whole."""


class Linear(NamedTuple):
    """An index: ``sum(coefficient * axis) + sum(coefficient * other) + const``; others are values, as loaded ones."""

    coefs: dict[Axis, int]
    others: tuple[Term, ...]
    const: int

    def bounds(self, box: Mapping[Axis, Span]) -> Span:
        """The smallest value within a box, and the largest plus one."""
        low = high = self.const
        for axis, c in self.coefs.items():
            start, stop = box.get(axis, (0, axis.size))
            ends = (c * start, c * (stop - 1))
            low, high = low + min(ends), high + max(ends)
        return low, high + 1


def meet(a: Box, b: Box) -> Box:
    """What lies in both boxes."""
    both = dict(a)
    for x, (low, high) in b.items():
        start, stop = both.get(x, (low, high))
        both[x] = (max(low, start), min(high, stop))
    return both


def hull(a: Box, b: Box) -> Box:
    """The smallest box around both."""
    return {x: (min(a[x][0], b[x][0]), max(a[x][1], b[x][1])) for x in a if x in b}


def is_empty(box: Box) -> bool:
    return any(low >= high for low, high in box.values())


def within(box: Box, outer: Box) -> bool:
    """Whether all of ``box`` lies in ``outer``."""
    spans = {x: box.get(x, (0, x.size)) for x in outer}
    return all(low <= spans[x][0] and spans[x][1] <= high for x, (low, high) in outer.items())


class Axes:
    """The axes of one kernel, and what its index arithmetic says about them."""

    def __init__(self, loops: Iterable[UOp], reduces: Iterable[UOp], indices: Iterable[UOp]):
        self.parts: dict[UOp, tuple[tuple[Axis, int], ...]] = {}  # r = sum(axis * weight)
        self._linear: dict[UOp, Linear] = {}
        cuts = _cuts(indices)
        for r in loops:
            self._split(r, cuts.get(r, set()), self.ndim)
        self.loops = tuple(a for parts in self.parts.values() for a, _ in parts)
        for u in reduces:  # readers first, so that the loops around a reduction have their place already
            taken = [a.at for r in (u.ranges | u.src[0].ranges) if r in self.parts for a, _ in self.parts[r]]
            at = max([len(self.loops) - 1, *taken]) + 1
            for r in u.src[1:]:
                if r not in self.parts:
                    self._split(r, cuts.get(r, set()), at)
                    at += len(self.parts[r])

    @property
    def ndim(self) -> int:
        """How many axes arrays have."""
        return max((a.at for parts in self.parts.values() for a, _ in parts), default=-1) + 1

    def _split(self, r: UOp, cuts: set[int], at: int) -> None:
        size = max(0, int(r.src[0].arg))
        weights = [1]
        for c in sorted(cuts):
            if 1 < c < size and c % weights[-1] == 0 and size % c == 0:
                weights.append(c)
        parts = []
        for i, w in enumerate(reversed(weights)):
            above = size if i == 0 else weights[len(weights) - i]
            name = range_name(r) + (chr(ord("a") + i) if len(weights) > 1 else "")
            parts.append((Axis(name, above // w, at + i), w))
        self.parts[r] = tuple(parts)

    def of(self, ranges: Iterable[UOp]) -> tuple[Axis, ...]:
        """The axes of some RANGEs."""
        return tuple(a for r in ranges for a, _ in self.parts[r])

    # ** indices **

    def linear(self, index: UOp) -> Linear:
        """An index as a sum over axes."""
        found = self._linear.get(index)
        if found is None:
            form = affine_of(index)
            coefs: dict[Axis, int] = {}
            others = []
            for atom, c in form.terms:
                digits = self._digits(atom)
                if digits is None:
                    others.append((atom, c))
                for axis, w in digits or ():
                    coefs[axis] = coefs.get(axis, 0) + c * w
            coefs = {a: c for a, c in coefs.items() if c}
            found = self._linear[index] = Linear(coefs, tuple(others), form.const)
        return found

    def _digits(self, atom: UOp) -> list[tuple[Axis, int]] | None:
        """The axes (and weights) that make up a RANGE or a digit of one; None for anything else."""
        found = _digit(atom)
        if found is None or found[0] not in self.parts:
            return None
        r, a, m = found
        size = int(r.src[0].arg)
        weights = {w for _, w in self.parts[r]} | {1}
        top = size if m is None else a * m
        if not ((a in weights or a >= size) and (top in weights or top >= size)):
            return None
        return [(axis, w // a) for axis, w in self.parts[r] if a <= w < top]

    # ** conditions **

    def box(self, condition: UOp) -> tuple[Box, list[UOp]]:
        """The box in which the clauses of a condition hold that bound one axis, and the other clauses."""
        found: Box = {}
        rest = []
        for c in clauses(condition):
            span = self._span(c)
            if span is None:
                rest.append(c)
            else:
                found = meet(found, dict([span]))
        return found, rest

    def bound(self, clause: UOp) -> tuple[Linear, int] | None:
        """``(form, limit)`` for a clause that says ``form <= limit`` about index arithmetic; None for others."""
        bound = bound_of(clause)
        if bound is None or bound[0].dtype is not dtypes.index:
            return None
        expr, upper, limit = bound
        form = self.linear(expr)
        if upper:
            return form, limit
        flipped = {a: -c for a, c in form.coefs.items()}
        return Linear(flipped, tuple((u, -c) for u, c in form.others), -form.const), -limit

    def _span(self, clause: UOp) -> tuple[Axis, Span] | None:
        """The span of one axis that a clause comes to, if it does."""
        bound = self.bound(clause)
        if bound is None or bound[0].others or not bound[0].coefs:
            return None
        form, limit = bound
        axis = max(form.coefs, key=lambda a: abs(form.coefs[a]))
        c = form.coefs[axis]
        low, high = form._replace(coefs={a: k for a, k in form.coefs.items() if a is not axis}).bounds({})
        ends = {(limit - x) // abs(c) for x in (low, high - 1)}  # the same whatever the lower digits are?
        if len(ends) > 1:
            return None
        end = ends.pop()
        return axis, ((0, min(axis.size, end + 1)) if c > 0 else (max(0, -end), axis.size))


def _digit(atom: UOp) -> tuple[UOp, int, int | None] | None:
    """``(r, a, m)`` for ``(r // a) % m``; without ``%`` m is None."""
    a, m = 1, None
    if atom.op is Ops.FLOORMOD and atom.src[1].op is Ops.CONST:
        atom, m = atom.src[0], int(atom.src[1].arg)
    if atom.op is Ops.FLOORDIV and atom.src[1].op is Ops.CONST:
        atom, a = atom.src[0], int(atom.src[1].arg)
    return (atom, a, m) if atom.op is Ops.RANGE else None


def _cuts(indices: Iterable[UOp]) -> dict[UOp, set[int]]:
    """Where the digits that are used would split each RANGE."""
    cuts: dict[UOp, set[int]] = {}
    for u in indices:
        for atom, _ in affine_of(u).terms:
            found = _digit(atom)
            if found is not None and atom.op is not Ops.RANGE:
                r, a, m = found
                cuts.setdefault(r, set()).update((a, a * (m or 1)))
    return cuts
