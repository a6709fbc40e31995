"""A kernel's loops before threads take them over: neighbours that memory does not tell apart become one.

In: a kernel's SINK. Out: an equal SINK with fewer RANGEs: loops over 3 and 5 that every index adds up as ``r0*5 + r1``
are one loop over 15. Loops of one REDUCE are merged as well.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime import loops
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 15, "CUPY")) for i in (0, 1))
>>> r0, r1 = UOp.range(3, 0), UOp.range(5, 1)
>>> value = load(x.index(r0 * 5 + r1)) * 2.0
>>> print(loops.program_text(merged(UOp.sink(out.index(r0 * 5 + r1).store(value).end(r0, r1)))))
def kernel(p0, p1):
    for r0 in range(15):
        p0[r0] = p1[r0]*float32(2.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.affine import affine_of, simplify_index
from tinysched.ir.symbolic.conditions import at_least, conjunction, disjunction, less
from tinysched.ir.uop import TRUE, UOp
from tinysched.runtime.nest import Ranges
from tinysched.runtime.origins import Origins


def replaced(root: UOp, mapping: Mapping[UOp, UOp], origins: Origins) -> UOp:
    """A graph with some nodes replaced, and the index arithmetic and conditions in normal form again."""
    became = dict(mapping)
    for u in root.toposort(gate=lambda u: u not in mapping):
        if u not in became:
            src = tuple(became[s] for s in u.src)
            became[u] = u if src == u.src else _normal(u.replace(src=src))
        origins.note(u, became[u])
    return became[root]


def flat(ranges: Ranges) -> UOp:
    """The place in memory that holds one element for each place in the RANGEs, in their order."""
    index = UOp.const(0)
    for r in ranges:
        index = index * r.src[0] + r
    return simplify_index(index)


def _normal(u: UOp) -> UOp:
    if u.op is Ops.CMPLT and u.src[0].dtype is dtypes.index:
        a, b = u.src
        return less(a, b.arg) if b.op is Ops.CONST else at_least(b, a.arg + 1) if a.op is Ops.CONST else u
    if u.op in (Ops.AND, Ops.OR) and u.dtype is dtypes.bool:
        return conjunction(u.src) if u.op is Ops.AND else disjunction(u.src)
    if u.op is Ops.WHERE and u.src[0] is TRUE:
        return u.src[1]
    if u.op is Ops.INDEX:
        index = u.src[1]
        return u.replace(src=(u.src[0], simplify_index(index.get_idx()).valid(index.get_valid())))
    return u


# ** merging **


def merged(sink: UOp, origins: Origins | None = None) -> UOp:
    """The kernel with as few RANGEs as its indices allow."""
    origins = origins or Origins(sink)
    while (pair := _mergeable(sink)) is not None:
        sink = _merge(sink, *pair, origins)
    return sink


def _mergeable(sink: UOp) -> tuple[UOp, UOp] | None:
    """Two RANGEs in neighbouring places, outer and inner, that are only ever used as one number."""
    nodes = sink.toposort()
    groups = [u.src[1:] for u in nodes if u.op in (Ops.END, Ops.REDUCE)]
    known = [(a, b) for group in groups for a, b in pairwise(group) if _is_known(a) and _is_known(b)]
    if not known:
        return None
    forms = [affine_of(u.src[1].get_idx()) for u in nodes if u.op is Ops.INDEX]
    bare = _read_elsewhere(sink)
    for outer, inner in known:
        n = inner.vmax + 1
        if outer.vmax == 0:
            return outer, inner
        if outer in bare or inner in bare:
            continue
        coefs = [dict(form.terms) for form in forms]
        if all(c.get(outer, 0) == n * c.get(inner, 0) for c in coefs):
            return outer, inner
    return None


def _is_known(r: UOp) -> bool:
    return r.src[0].op is Ops.CONST and r.vmax >= 0


def _read_elsewhere(sink: UOp) -> frozenset[UOp]:
    """The RANGEs that are used for more than a term of an index: as values, in conditions, in digits."""
    found: set[UOp] = set()
    stack, seen = [sink], set[UOp]()
    while stack:
        u = stack.pop()
        if u in seen:
            continue
        seen.add(u)
        if u.op is Ops.RANGE:
            found.add(u)
        elif u.op is Ops.INDEX:
            index = u.src[1]
            stack += [
                index.get_valid(),
                *(atom for atom, _ in affine_of(index.get_idx()).terms if atom.op is not Ops.RANGE),
            ]
        else:
            stack += u.src[:1] if u.op in (Ops.END, Ops.REDUCE) else u.src
    return frozenset(found)


def _merge(sink: UOp, outer: UOp, inner: UOp, origins: Origins) -> UOp:
    n = inner.vmax + 1
    both = UOp.range((outer.vmax + 1) * n, *outer.arg)
    # every index holds c * (outer*n + inner): with outer at 0, inner may as well run over all of it
    became: dict[UOp, UOp] = {outer: UOp.const(0), inner: both}
    for u in sink.toposort():
        if u in became:
            continue
        ends = u.op in (Ops.END, Ops.REDUCE) and outer in u.src
        src = tuple(became[s] for s in u.src if not (ends and s is outer))
        became[u] = u if src == u.src else _normal(u.replace(src=src))
        origins.note(u, became[u])
    return became[sink]


# ** splitting **


def split(sink: UOp, parts: Mapping[UOp, Sequence[tuple[UOp, int]]], origins: Origins) -> UOp:
    """The kernel with several RANGEs in place of one, ``r = sum(part * weight)``."""
    became = {r: simplify_index(_sum([part * weight for part, weight in made])) for r, made in parts.items()}
    for u in sink.toposort(gate=lambda u: u not in parts):
        if u in became:
            continue
        if u.op in (Ops.END, Ops.REDUCE):
            over = [[part for part, _ in parts[r]] if r in parts else [became[r]] for r in u.src[1:]]
            src: tuple[UOp, ...] = (became[u.src[0]], *(r for ranges in over for r in ranges))
        else:
            src = tuple(became[s] for s in u.src)
        became[u] = u if src == u.src else _normal(u.replace(src=src))
        origins.note(u, became[u])
    return became[sink]


def _sum(terms: Sequence[UOp]) -> UOp:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


# ** in which order is memory read? **


def reads_rows(u: UOp) -> bool:
    """Whether a REDUCE's own loops, and not the loops around it, run over neighbours in memory."""
    votes = 0
    for v in u.src[0].toposort():
        if v.op is not Ops.LOAD:
            continue
        coefs = {r: abs(c) for r, c in affine_of(v.src[0].src[1].get_idx()).terms if r.op is Ops.RANGE}
        weight = prod(r.vmax + 1 for r in coefs)
        votes += weight * (coefs.get(u.src[-1]) == 1)
        votes -= weight * any(c == 1 for r, c in coefs.items() if r in u.ranges)
    return votes >= 0
