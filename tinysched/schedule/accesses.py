"""Which bytes of each argument a kernel reads and writes.

In: the body of a CALL (a kernel's SINK, or a COPY). Out: for each slot one interval of bytes read and one written;
it is never too small, for it spans every index that the loops can reach, gates left aside.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> p, q = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 8, "NUMPY")) for slot in (0, 1))
>>> r = UOp.range(4, 0)
>>> read = UOp(Ops.LOAD, dtypes.float32, (q.index(r),))
>>> accesses(UOp.sink(p.index(r + 4).store(read).end(r)))
Accesses(reads={1: (0, 16)}, writes={0: (16, 32)})
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinysched.errors import ScheduleError
from tinysched.ir.lines import where
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp

Span = tuple[int, int]
"""An interval of bytes; the end is exclusive."""

EVERYTHING: Span = (0, 1 << 62)
_VIEWS = GroupOp.Movement | {Ops.INDEX, Ops.BITCAST, Ops.AFTER}


@dataclass(frozen=True)
class Accesses:
    """Bytes read and written of each argument, by slot."""

    reads: dict[int, Span] = field(default_factory=dict)
    writes: dict[int, Span] = field(default_factory=dict)


def overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def written_slots(body: UOp) -> list[int]:
    """The arguments that a kernel writes, without a look at what it computes."""
    if body.op is Ops.COPY:
        return [0]
    if body.op is Ops.FUNCTION:  # a call: its first arguments are what it writes
        return list(range(len(body.arg.body.src)))
    if body.op is not Ops.SINK:
        raise ScheduleError(
            f"no kernel can be made of a CALL of {body.op.name}", where=where(body), help="call a SINK or a COPY"
        )
    stores = [root.src[0] if root.op is Ops.END else root for root in body.src]
    params = [_param(store.src[0]) for store in stores if store.op is Ops.STORE]
    return list(dict.fromkeys(p.arg.slot for p in params if p is not None))


def accesses(body: UOp) -> Accesses:
    """All that a kernel reads and writes."""
    if body.op is Ops.COPY:
        return Accesses({1: EVERYTHING}, {0: EVERYTHING})
    if body.op is Ops.FUNCTION:
        params = {u.arg.slot: EVERYTHING for u in body.arg.body.toposort() if u.op is Ops.PARAM and not u.is_variable}
        return Accesses(params, dict.fromkeys(written_slots(body), EVERYTHING))
    found = Accesses()
    for u in body.toposort():
        if u.op is Ops.STORE:
            _note(found.writes, u.src[0])
        # memory under a view is read by whoever reads the view; what a view is indexed with is read by the view
        for s in u.src[1:] if u.op is Ops.STORE or u.op in _VIEWS else u.src:
            _note(found.reads, s)
    return found


def _note(spans: dict[int, Span], view: UOp) -> None:
    if (view.op is Ops.PARAM or view.op in _VIEWS) and (p := _param(view)) is not None:
        a, b = _span(view), spans.get(p.arg.slot)
        spans[p.arg.slot] = a if b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _param(u: UOp) -> UOp | None:
    """The argument that a view shows, None for other values and for Variables."""
    while u.op in _VIEWS:
        u = u.src[0]
    return u if u.op is Ops.PARAM and not u.is_variable else None


def _span(u: UOp) -> Span:
    """The bytes that ``INDEX(PARAM, i)`` can reach; everything for other views."""
    if u.op is not Ops.INDEX or u.src[0].op is not Ops.PARAM or len(u.src) != 2:
        return EVERYTHING
    low, high = u.src[1].get_idx().bounds
    size, item = u.src[0].arg.size, u.dtype.itemsize
    return max(low, 0) * item, min(high + 1, size) * item
