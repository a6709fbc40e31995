"""What a kernel computes along two loops of one length is computed once, where arrays hold all of it anyway.

In a fused softmax the exponential stands twice: under the sum, along the sum's own loop, and in the result, along the
row. As loops these are two; as arrays they are one, and the sum runs over the axis of the result.

In: a kernel's SINK without masks. Out: the same for array programs, in which a REDUCE may run over a RANGE that is a loop
around it, or that of another REDUCE. (It is no nest of loops any more.)

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 12, "NUMPY")) for i in (0, 1))
>>> r0, r1, R2 = UOp.range(3, 0), UOp.range(4, 1), UOp.range(4, 2, AxisType.REDUCE)
>>> power = [load(x.index(r0 * 4 + r)).alu(Ops.EXP2) for r in (r1, R2)]
>>> value = power[0] * power[1].reduce(Ops.ADD, R2)
>>> shared = with_shared_loops(UOp.sink(out.index(r0 * 4 + r1).store(value).end(r0, r1)))
>>> [u.src[1:] == (r1,) for u in shared.toposort() if u.op is Ops.REDUCE]
[True]
"""

from __future__ import annotations

from itertools import permutations
from typing import Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.given import Note, substitute, unnoted
from tinysched.ir.uop import UOp
from tinysched.runtime.nest import stores_of

WORTH: Final = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV, Ops.REDUCE})
"""What is worth an array of its own; anything else is computed again in as much time as it is read."""


def with_shared_loops(sink: UOp, note: Note = unnoted) -> UOp:
    """The kernel with one loop in place of two wherever a costly value stands along both."""
    while (found := _pair(sink)) is not None:
        old, new = found
        sink = substitute(sink, {old: new}, note)
    return sink


def reduced_loops(sink: UOp) -> set[UOp]:
    """The RANGEs around a kernel that one of its REDUCEs runs over as well."""
    return {r for u in sink.toposort() if u.op is Ops.REDUCE for r in u.src[1:]} & set(stores_of(sink)[0][1])


def _pair(sink: UOp) -> tuple[UOp, UOp] | None:
    """A REDUCE's loop, and another of its length along which the same costly value is computed."""
    order = sink.toposort()
    costly = [u for u in order if u.op in WORTH and u.dtype is not dtypes.index]
    own = {r: u for u in order if u.op is Ops.REDUCE for r in u.src[1:]}
    if not own or len(costly) < 2 or any(u.op is Ops.WHERE or u.is_gated for u in order):
        return None
    for a, b in permutations(costly, 2):
        here, there = a.ranges - b.ranges, b.ranges - a.ranges
        if a.op is not b.op or len(here) != 1 or len(there) != 1:
            continue
        [r], [s] = here, there
        if r in own and s.src[0] is r.src[0] and _may_join(r, s, order) and substitute(a, {r: s}) is b:
            return r, s
    return None


def _may_join(r: UOp, s: UOp, order: list[UOp]) -> bool:
    """Whether nothing stands along both loops at once: then one of them is enough."""
    return not any({r, s} <= u.ranges for u in order if u.op in GroupOp.ALU | {Ops.LOAD, Ops.REDUCE})
