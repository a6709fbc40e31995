"""Conditions on indices: inequalities of affine forms, and their AND.

In: an index node and bounds. Out: a bool node in normal form: ``expr < c`` or ``c < expr`` with no constant in ``expr``,
coefficients without a common factor and the first one positive; True or False where the bounds decide.

>>> from tinysched.ir.uop import UOp
>>> r = UOp.range(8, 0)
>>> less(r * 2 + 1, 9)
<bool r0 < 4>
>>> less(r, 8).arg, at_least(r, 0).arg
(True, True)
>>> less((UOp.range(6, 1) * 24 + UOp.range(24, 0)) % 25, 20)
<bool r0 + r1*-1 >= 0 & r0 + r1*-1 < 20>
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any

from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.affine import Affine, affine_of, form_rank, make, to_uop
from tinysched.ir.uop import FALSE, TRUE, UOp, all_of


def less(x: UOp, c: int) -> UOp:
    """The condition ``x < c``."""
    return _inequality(affine_of(x), c)


def at_least(x: UOp, c: int) -> UOp:
    """The condition ``x >= c``."""
    a = affine_of(x)
    return _inequality(Affine(tuple((u, -k) for u, k in a.terms), -a.const), 1 - c)


def in_bounds(x: UOp, low: int, high: int) -> UOp:
    """The condition ``low <= x < high``."""
    return conjunction((at_least(x, low), less(x, high)))


def _inequality(a: Affine, c: int) -> UOp:
    """``a < c`` with the constant on the right, divided by the common factor."""
    low, high = a.bounds
    if high < c:
        return TRUE
    if low >= c:
        return FALSE
    limit = c - a.const
    g = gcd(*(k for _, k in a.terms))
    limit = -(-limit // g)  # rounded up: g*x < limit  is  x < ceil(limit / g)
    terms = tuple((u, k // g) for u, k in a.terms)
    if len(terms) == 1 and terms[0][0].op is Ops.FLOORMOD and (found := _one_turn(*terms[0], limit)) is not None:
        return found
    if terms[0][1] > 0:
        return to_uop(Affine(terms, 0)).alu(Ops.CMPLT, UOp.const(limit))
    return UOp.const(-limit).alu(Ops.CMPLT, to_uop(Affine(tuple((u, -k) for u, k in terms), 0)))


def _one_turn(digit: UOp, sign: int, limit: int) -> UOp | None:
    """``x % m < c`` as bounds on ``x`` itself, where ``x`` reaches that part of one turn only; the same for ``>=``.

    With r < 24 and R < 6 the number R*24 + r is R*25 + (r - R), so that ``(R*24 + r) % 25 < 20`` is ``0 <= r - R < 20``.
    """
    x, modulus = affine_of(digit.src[0]), digit.src[1]
    if modulus.op is not Ops.CONST or modulus.arg <= 0:
        return None
    m = int(modulus.arg)
    start, stop = (0, limit) if sign > 0 else (1 - limit, m)
    near = make({u: k - m * round(k / m) for u, k in x.terms}, x.const % m)
    low, high = near.bounds
    first, last = (low - stop) // m + 1, (high - start) // m  # the turns that reach it
    if first < last:
        return None
    return in_bounds(to_uop(near), first * m + start, first * m + stop) if first == last else FALSE


def clauses(condition: UOp) -> list[UOp]:
    """The conditions that an AND joins."""
    out: list[UOp] = []
    stack = [condition]
    while stack:
        c = stack.pop()
        if c.op is Ops.AND:
            stack.extend(reversed(c.src))
        elif c is not TRUE:
            out.append(c)
    return out


def bound_of(clause: UOp) -> tuple[UOp, bool, int] | None:
    """``(expr, is_upper, c)`` for ``expr <= c`` (upper) or ``expr >= c``; None for other conditions."""
    if clause.op is not Ops.CMPLT or clause.src[0].dtype.kind not in "iu":
        return None
    a, b = clause.src
    if b.op is Ops.CONST:
        return (a, True, b.arg - 1)
    return (b, False, a.arg + 1) if a.op is Ops.CONST else None


def bounds_where(condition: UOp, x: UOp) -> tuple[int, int]:
    """The least and the largest value that an index can have where a condition holds.

    >>> row = UOp.range(100, 0)
    >>> bounds_where(less(row, 7), row * 5 + UOp.range(5, 1))
    (0, 34)
    """
    spans: dict[UOp, tuple[int, int]] = {}
    for u, is_upper, c in filter(None, map(bound_of, clauses(condition))):
        low, high = spans.get(u) or (u.vmin, u.vmax)
        spans[u] = (low, min(high, c)) if is_upper else (max(low, c), high)
    form = affine_of(x)
    ends = [(k, *(spans.get(u) or (u.vmin, u.vmax))) for u, k in form.terms]
    lows, highs = zip(*((min(k * a, k * b), max(k * a, k * b)) for k, a, b in ends)) if ends else ((), ())
    return form.const + sum(lows), form.const + sum(highs)


def conjunction(conditions: Iterable[UOp]) -> UOp:
    """The AND of conditions: of two bounds on one expression the tighter stays; a contradiction is False."""
    kept: dict[object, UOp] = {}
    for c in (c for cond in conditions for c in clauses(cond)):
        if c is FALSE:
            return FALSE
        b = bound_of(c)
        slot: object = (b[0], b[1]) if b is not None else c
        old = kept.get(slot)
        if old is not None and b is not None:
            limit = bound_of(old)[2]  # type: ignore[index]  # what is kept under a slot is a bound
            c = old if (limit <= b[2] if b[1] else limit >= b[2]) else c
        kept[slot] = c
    for slot in list(kept):
        if isinstance(slot, tuple) and slot[1] and (slot[0], False) in kept:
            upper, lower = bound_of(kept[slot]), bound_of(kept[slot[0], False])
            if upper is not None and lower is not None and lower[2] > upper[2]:
                return FALSE
    return all_of(sorted(kept.values(), key=_order) if len(kept) > 1 else kept.values())


def _order(clause: UOp) -> tuple[Any, ...]:
    """Bounds first, the lower bound of an expression before its upper one: a canonical and readable order."""
    b = bound_of(clause)
    if b is None:
        return (1 << 30, clause.key, False)
    first = min((r.arg[0] for r in b[0].ranges), default=1 << 29)
    return (first, form_rank(affine_of(b[0])), b[1])


def disjunction(conditions: Iterable[UOp]) -> UOp:
    """The OR of conditions; equal ones once, True wins. What all of them demand stays outside."""
    each = [frozenset(clauses(c)) for c in dict.fromkeys(conditions)]
    if not each:
        return FALSE
    common = frozenset.intersection(*each)
    rests = [conjunction(e - common) for e in each]
    if any(r is TRUE for r in rests):
        return conjunction(common)
    total = rests[0]
    for r in rests[1:]:
        total = total | r
    return conjunction((*common, total))
