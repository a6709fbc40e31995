"""Index arithmetic where a condition holds: what a bound says about ``//`` and ``%``.

In: a condition, and an index or another condition that is only asked for where it holds. Out: the same in simpler form.
A sum that a condition bounds is a number like a loop variable of that many values: put into the index in place of one
of its terms, it lets the mixed-radix rules take digits apart that they could not before.

>>> r, R = UOp.range(24, 0), UOp.range(6, 1)
>>> s, inside = R * 24 + r, in_bounds(r - R, 0, 20)
>>> simplify_given(inside, s % 25), simplify_given(inside, s // 25)
(<index r0 + r1*-1>, <index r1>)
>>> tidy(conjunction((inside, less(s, 125))))
<bool r0 + r1*-1 >= 0 & r0 + r1*-1 < 20 & r1 < 5>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.affine import Affine, affine_of, is_settled, make, remap, simplify_index, to_uop
from tinysched.ir.symbolic.conditions import at_least, bound_of, clauses, conjunction, disjunction, in_bounds, less
from tinysched.ir.uop import FALSE, TRUE, UOp

NUMBER: Final = 1 << 20
"""The first number of the loop variables that stand for bounded sums."""


class Window(NamedTuple):
    """``low <= total < high``; ``pivot`` is a term of ``total`` with coefficient ``sign``, 1 or -1."""

    total: UOp
    low: int
    high: int
    pivot: UOp
    sign: int


def windows(condition: UOp) -> Iterator[Window]:
    """The sums of loop variables that a condition bounds from both sides."""
    spans: dict[UOp, tuple[int, int]] = {}
    for b in filter(None, map(bound_of, clauses(condition))):
        low, high = spans.get(b[0]) or (b[0].vmin, b[0].vmax + 1)
        spans[b[0]] = (low, min(high, b[2] + 1)) if b[1] else (max(low, b[2]), high)
    for total, (low, high) in spans.items():
        terms = affine_of(total).terms
        units = [(u, c) for u, c in terms if abs(c) == 1 and u.op is Ops.RANGE]
        if units and low < high and all(u.op is Ops.RANGE for u, _ in terms):
            yield Window(total, low, high, *max(units, key=lambda t: t[0].vmax))


@lru_cache(maxsize=1024)
def simplify_given(condition: UOp, index: UOp) -> UOp:
    """``index`` with the values that it has where ``condition`` holds."""
    for i, w in enumerate(windows(condition)):
        index = _through(w, i, index, simplify_index)
    return index


@lru_cache(maxsize=1024)
def tidy(condition: UOp, given: UOp = TRUE) -> UOp:
    """A condition as it reads where ``given`` and its own bounds on sums hold."""
    condition = conjunction(map(_tight, map(folded, _on_digits(clauses(condition)))))
    known = list(windows(conjunction((condition, given))))
    for i, w in enumerate(known):
        if i and w not in windows(conjunction((condition, given))):  # its bounds read otherwise by now
            continue
        kept = [c for c in clauses(condition) if (b := bound_of(c)) is not None and b[0] is w.total]
        rest = [c for c in clauses(condition) if c not in kept]
        condition = conjunction((*kept, *(_through(w, i, c, _tight) for c in rest)))
    return condition


@lru_cache(maxsize=4096)
def _through(w: Window, number: int, u: UOp, simplify: Callable[[UOp], UOp]) -> UOp:
    """``u`` simplified with a loop variable for the sum of a window, if that rids it of digits or terms."""
    if w.pivot not in u.ranges or (w.total is w.pivot and not _has_digits(u)):
        return u
    if any(v.op is Ops.LOAD for v in u.toposort()):  # what is read has to be there wherever this is computed
        return u
    inner = UOp.range(w.high - w.low, NUMBER + number)
    others = make({t: -c * w.sign for t, c in affine_of(w.total).terms if t is not w.pivot}, w.low * w.sign)
    inside = simplify(substitute(u, {w.pivot: simplify_index(to_uop(others) + inner * w.sign)}))
    back = simplify(substitute(inside, {inner: simplify_index(w.total - w.low)}))
    return back if _weight(back) < _weight(u) else u


def _weight(u: UOp) -> int:
    """How much there is to compute: digits count most."""
    return sum(100 if v.op in (Ops.FLOORDIV, Ops.FLOORMOD) else 1 for v in u.toposort() if v.op in GroupOp.ALU)


def _has_digits(u: UOp) -> bool:
    return any(v.op in (Ops.FLOORDIV, Ops.FLOORMOD) and v.dtype is dtypes.index for v in u.toposort())


def _tight(condition: UOp) -> UOp:
    """Bounds without the lower digits that cannot change their outcome: ``r*25 + y < 125`` is ``r < 5`` for y < 25."""
    return conjunction(map(_without_low_digits, clauses(condition))) if condition is not TRUE else TRUE


def _without_low_digits(clause: UOp) -> UOp:
    bound = bound_of(clause)
    if bound is None or bound[0].dtype is not dtypes.index:
        return clause
    expr, upper, limit = bound
    form = affine_of(expr)
    for i in range(1, len(form.terms)):
        leading, rest = form.terms[:i], Affine(form.terms[i:], 0)
        unit = abs(leading[-1][1])
        low, high = rest.bounds
        if any(c % unit for _, c in leading) or high - low >= unit:
            continue
        head = to_uop(Affine(tuple((u, c // unit) for u, c in leading), 0))
        ends = {(limit - x) // unit if upper else -((x - limit) // unit) for x in (low, high)}
        if len(ends) == 1:
            end = ends.pop()
            return less(head, end + 1) if upper else at_least(head, end)
    return clause


def _on_digits(parts: list[UOp]) -> Iterator[UOp]:
    """``x < 20 & x % 2 < 1`` is ``x < 19 & x % 2 < 1``: the largest number that both allow."""
    limits = {b[0]: b[2] for c in parts if (b := bound_of(c)) is not None and b[1]}
    for c in parts:
        b = bound_of(c)
        if b is None or not b[1]:
            yield c
            continue
        top = b[2]
        for x, most in limits.items():
            if x.op is Ops.FLOORMOD and x.src[0] is b[0] and x.src[1].op is Ops.CONST:
                top -= max(0, top % x.src[1].arg - most)
        yield c if top == b[2] else less(b[0], top + 1)


Note = Callable[[UOp, UOp], None]
"""Is told of a node and of what stands in its place."""


def unnoted(old: UOp, new: UOp) -> None:
    """Nobody asks what stands for what."""


def substitute(root: UOp, values: Mapping[UOp, UOp], note: Note = unnoted) -> UOp:
    """``root`` with other nodes in place of some, and everything above them in normal form again."""
    became: dict[UOp, UOp] = dict(values)
    of_loops = all(u.op is Ops.RANGE or u.dtype is not dtypes.index for u in values)

    def at_once(u: UOp) -> bool:
        """Index arithmetic over loops alone: its normal form is made in one go, not node by node."""
        return of_loops and is_settled(u) and u not in values

    for u in root.toposort(lambda u: u not in values and not at_once(u)):
        if u in became:
            note(u, became[u])
            continue
        if at_once(u):
            became[u] = remap(u, values) if not u.ranges.isdisjoint(values) else u
            continue
        src = tuple([became[s] for s in u.src])
        became[u] = u if src == u.src else folded(UOp(u.op, u.dtype, src, u.arg))
        note(u, became[u])
    return became[root]


def folded(u: UOp) -> UOp:
    """Arithmetic and conditions of indices in normal form: a loop over 10 - 3 elements is one over 7."""
    if u.dtype is dtypes.index and u.op in GroupOp.ALU and u.op is not Ops.WHERE:
        return simplify_index(u)
    if u.op is Ops.CMPLT and u.src[0].dtype is dtypes.index:
        a, b = u.src
        return less(a, b.arg) if b.op is Ops.CONST else at_least(b, a.arg + 1) if a.op is Ops.CONST else u
    if u.op is Ops.AND and u.dtype is dtypes.bool:
        return conjunction(u.src)
    if u.op is Ops.OR and u.dtype is dtypes.bool:
        return disjunction(u.src)
    if u.op is Ops.WHERE and (u.src[0] is TRUE or (u.src[0] is FALSE and not u.is_gated)):
        return u.src[1] if u.src[0] is TRUE else u.src[2]
    return u


def clear() -> None:
    """Forgets all conditions: kernels that are much alike ask for the same ones."""
    for cached in (simplify_given, tidy, _through):
        cached.cache_clear()


__all__ = [
    "Note",
    "Window",
    "clear",
    "folded",
    "in_bounds",
    "simplify_given",
    "substitute",
    "tidy",
    "unnoted",
    "windows",
]
