"""Sums that are arithmetic: a loop that nothing depends on, counts (`arange`), and picks (one-hot, gather).

In: REDUCE over RANGEs. Out: the same value with fewer loops. A sum of a comparison over a range is a clamp; a sum in which
one element is picked is that element.

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.rewrite import graph_rewrite
>>> from tinysched.ir.symbolic.rules import symbolic
>>> r0, r1 = UOp.range(5, 0), UOp.range(5, 1, AxisType.REDUCE)
>>> ones = (r0 + r1 >= 4).where(UOp.const(1, dtypes.int32), 0)
>>> graph_rewrite(ones.reduce(Ops.ADD, r1), symbolic + pm_reduce_simplify)
<CAST int32 ()>
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tinysched.dtypes import DType, dtypes
from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.symbolic.affine import (
    Affine,
    add,
    affine_of,
    constant,
    is_settled,
    make,
    remap,
    scale,
    simplify_index,
    to_uop,
)
from tinysched.ir.symbolic.conditions import at_least, bound_of, clauses, conjunction, in_bounds, less
from tinysched.ir.uop import INVALID, TRUE, UOp


def reindex(value: UOp, mapping: dict[UOp, UOp], valid: UOp = TRUE, known: dict[UOp, UOp] | None = None) -> UOp:
    """``value`` with loop variables replaced by indices, in normal form; its loads happen only where ``valid`` holds.

    ``known``: what nodes became when other values were reindexed in the same way.
    """
    keys = frozenset(mapping)
    became: dict[UOp, UOp] = {} if known is None else known

    def enters(u: UOp) -> bool:
        """Whether a node changes because one below it does; of the others it is noted what they become."""
        if u in became:
            return False
        if u in mapping:
            became[u] = mapping[u]
        elif is_settled(u):
            became[u] = remap(u, mapping)
        elif keys.isdisjoint(u.ranges):  # a STAGE's own loops may be called the same
            became[u] = u
        else:
            return True
        return False

    for u in value.toposort(enters):
        if u in became or (not u.src and not enters(u)):  # the walk asks about nodes with sources only
            continue
        src = tuple([became.get(s, s) for s in u.src])
        new = u.over(src)
        if new is not u and u.dtype is dtypes.index and not u.is_gated:
            new = simplify_index(new)
        if u.op is Ops.INDEX and valid is not TRUE:
            new = gated(new, valid)
        became[u] = new
    if (watcher := current_observer()) is not None:
        watcher.on_event("copied", {"became": became})
    return became[value]


def gated(index: UOp, valid: UOp) -> UOp:
    """A read that happens only where ``valid`` holds too."""
    memory, *idxs = index.src
    if not idxs:
        return index
    first = idxs[0]
    both = conjunction((first.get_valid(), valid))
    return UOp(Ops.INDEX, index.dtype, (memory, first.get_idx().valid(both), *idxs[1:]))


@rule(UPat(Ops.REDUCE, name="red"))
def reduce_unparented(red: UOp) -> UOp | None:
    """sum over r of x -> x * size of r, max over r of x -> x,  where x does not depend on r"""
    op, n = red.arg
    if n or op is Ops.MUL:
        return None
    value, loops = red.src[0], red.src[1:]
    idle = [r for r in loops if r not in value.ranges]
    if not idle or (op is Ops.ADD and not all(_multiplies(r.src[0], value.dtype) for r in idle)):
        return None
    result = value.reduce(op, *(r for r in loops if r in value.ranges))
    if op is Ops.ADD:
        for r in idle:
            size = r.src[0]
            result = result * (result.const_like(size.arg) if size.op is Ops.CONST else size.cast(result.dtype))
    decide(red, "simplify", Verdict.FUSED, Reason.DEAD_AXIS, Values((("loops", tuple(idle)),)))
    return result


_MOST: Final = {dtypes.fp8e4m3: 448, dtypes.fp8e5m2: 57_344, dtypes.float16: 65_504}
"""The largest number of the small float types: a larger count would be inf, and 0 * inf is NaN."""


def _multiplies(count: UOp, dtype: DType) -> bool:
    """Whether ``count`` times a value is the sum of that many (0 times inf is NaN, and the sum of none is 0)."""
    return dtype.kind != "f" or (count.vmin > 0 and count.vmax <= _MOST.get(dtype, math.inf))


@dataclass(frozen=True)
class Masked:
    """``value`` where all ``conditions`` hold, 0 elsewhere."""

    conditions: tuple[UOp, ...]
    value: UOp


def masked(u: UOp) -> Masked | None:
    """A value of the form WHERE(conditions, x, 0); for integers also x * CAST(condition) and CAST(condition)."""
    if u.op is Ops.WHERE and _is_zero(u.src[2]):
        return Masked(tuple(clauses(u.src[0])), u.src[1])
    if u.op is Ops.WHERE and _is_zero(u.src[1]):
        return Masked((u.src[0].logical_not(),), u.src[2])
    if u.op is Ops.CAST and u.src[0].dtype is dtypes.bool:
        return Masked(tuple(clauses(u.src[0])), u.const_like(1))
    return None


def _is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg is not INVALID and u.arg == 0 and str(u.arg)[0] != "-"


@rule(UPat(Ops.REDUCE, name="red"))
def reduce_collapse(red: UOp) -> UOp | None:
    """sum over r of (a <= r < b ? x : 0) -> clamp(b - a) * x;  sum over r of (r == i ? x[r] : 0) -> x[i]"""
    op, n = red.arg
    if n or op is not Ops.ADD:
        return None
    value = red.src[0]
    for r in red.src[1:]:
        if r.src[0].op is not Ops.CONST or (m := masked(value)) is None:
            continue
        new = _pick(m, r)
        if new is None:
            new = _count(m, r)
        if new is not None:
            decide(red, "simplify", Verdict.FUSED, Reason.CLOSED_FORM, Values((("loop", r),)))
            return new.reduce(Ops.ADD, *(x for x in red.src[1:] if x is not r))
    return None


def _pick(m: Masked, r: UOp) -> UOp | None:
    """The one element whose position a condition names."""
    for c in m.conditions:
        where = _position(c, r)
        if where is None:
            continue
        inside = in_bounds(where, 0, r.src[0].arg)
        rest = conjunction(_replaced(x, r, where) for x in m.conditions if x is not c)
        valid = conjunction((inside, rest))
        return valid.where(reindex(m.value, {r: where}, inside), 0)
    return None


def _replaced(condition: UOp, r: UOp, index: UOp) -> UOp:
    return reindex(condition, {r: index}) if r in condition.ranges else condition


def _position(condition: UOp, r: UOp) -> UOp | None:
    """The index i for which ``condition`` says r == i."""
    if condition.op is Ops.CMPNE and condition.src[1] is TRUE and condition.src[0].op is Ops.CMPNE:
        a, b = condition.src[0].src
    elif condition.op is Ops.CMPEQ:
        a, b = condition.src
    else:
        return None
    if r in a.ranges:
        a, b = b, a
    if r in a.ranges or r not in b.ranges or a.dtype.kind not in "iu":
        return None
    inner = b.src[0] if b.op is Ops.CAST and b.src[0].dtype is dtypes.index else b
    if inner.dtype is not dtypes.index or not b.dtype.min <= inner.vmin <= inner.vmax <= b.dtype.max:
        return None  # it is no position, or one that wraps around
    form = affine_of(inner)
    rest = Affine(tuple(t for t in form.terms if t[0] is not r), form.const)
    if dict(form.terms).get(r) not in (1, -1) or any(r in u.ranges for u, _ in rest.terms):
        return None
    sign = dict(form.terms)[r]
    target = a if a.dtype is dtypes.index else a.cast(dtypes.index)
    return to_uop(scale(add(affine_of(target), scale(rest, -1)), sign))


def _count(m: Masked, r: UOp) -> UOp | None:
    """How often r lies between its bounds, times a value that does not depend on r."""
    if r in m.value.ranges:
        return None
    size = r.src[0].arg
    lower, upper, rest = [UOp.const(0)], [UOp.const(size)], []
    for c in m.conditions:
        if r not in c.ranges:
            rest.append(c)
            continue
        bound = _bound_on(c, r)
        if bound is None:
            return None
        (upper if bound[1] else lower).append(bound[0])
    if len(lower) == len(upper) == 1:
        return None
    low, high = lower[0], upper[0]
    for x in lower[1:]:
        low = _max(low, x)
    for x in upper[1:]:
        high = _min(high, x)
    count = _max(simplify_index(high - low), UOp.const(0))
    if not _multiplies(count, m.value.dtype):
        if count.vmax > _MOST.get(m.value.dtype, math.inf):
            return None
        rest += [] if _is_finite(m.value) else [at_least(count, 1)]
    total = count.cast(m.value.dtype) * m.value
    valid = conjunction(rest)
    return total if valid is TRUE else valid.where(total, 0)


def _is_finite(value: UOp) -> bool:
    return value.op is Ops.CONST and math.isfinite(value.arg)


def _bound_on(condition: UOp, r: UOp) -> tuple[UOp, bool] | None:
    """``(limit, is_upper)`` for ``r < limit`` or ``r >= limit`` with r's coefficient 1 or -1."""
    b = bound_of(condition)
    if b is None or b[0].dtype is not dtypes.index:
        return None
    expr, is_upper, c = b
    form = affine_of(expr)
    terms = dict(form.terms)
    k = terms.pop(r, 0)
    if k not in (1, -1) or any(r in u.ranges for u in terms):
        return None
    rest = make(terms, form.const)
    if k == 1:  # rest + r <= c  is  r < c + 1 - rest;  rest + r >= c  is  r >= c - rest
        return to_uop(add(constant(c + 1 if is_upper else c), scale(rest, -1))), is_upper
    # rest - r <= c  is  r >= rest - c;  rest - r >= c  is  r < rest - c + 1
    return to_uop(add(rest, constant(-c if is_upper else 1 - c))), not is_upper


def _max(a: UOp, b: UOp) -> UOp:
    return a if a.vmin >= b.vmax else b if b.vmin >= a.vmax else a.maximum(b)


def _min(a: UOp, b: UOp) -> UOp:
    if a.vmax <= b.vmin:
        return a
    if b.vmax <= a.vmin:
        return b
    smaller = less(simplify_index(a - b), 0)
    return smaller.where(a, b)


pm_reduce_simplify = PatternMatcher([reduce_unparented, reduce_collapse])
