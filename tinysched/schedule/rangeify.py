"""Movement ops vanish: the graph after the walk has loops, index arithmetic and candidate buffers only.

In: a prepared graph and the :class:`Ranges` of the walk. Out: REDUCE over RANGEs, PAD and STACK as WHERE, views of memory
as INDEX, stored values as STAGE + INDEX, writes as END(STORE). Each kind of node has one named rule.

>>> sorted(r.name for r in pm_apply_rangeify)[:4]
['apply_after', 'apply_call', 'apply_contiguous', 'apply_copy']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tinysched.ir.observe import current_observer
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.conditions import conjunction
from tinysched.ir.symbolic.movement import ZERO, Indices, apply_movement_op, flat_index
from tinysched.ir.uop import TRUE, UOp
from tinysched.schedule.indexing import MEMORY, Overrides, Ranges, indices_for, is_leaf, run_rangeify, valid_of
from tinysched.tensor.storage import replace_base

GLOBAL, LOCAL = "global", "local"


@dataclass(frozen=True)
class BufferizeOpts:
    """Where a STAGE would live, and whether fusion may remove it.

    ``hazard``: it feeds a write to memory that it reads; ``sole``: that write is its only reader.
    """

    device: str | tuple[str, ...] | None
    addrspace: str = GLOBAL
    removable: bool = True
    hazard: bool = False
    sole: bool = False
    override: str = ""


@dataclass
class ApplyContext:
    """The walk's outcome, what each node became, and the overrides."""

    ranges: Ranges
    became: dict[UOp, UOp]
    overrides: Overrides
    device: str | tuple[str, ...] | None = None
    one_device: bool = False  # all of the graph is on ``device``
    leaves: dict[tuple[UOp, Indices], UOp] = field(default_factory=dict)  # views that were read at some indices
    stages: dict[UOp, UOp] = field(default_factory=dict)


@dataclass(frozen=True)
class ApplyRule:
    """One rule of ``pm_apply_rangeify``: how a node of these ops is written with loops."""

    name: str
    doc: str
    ops: frozenset[Ops]
    fn: Callable[[ApplyContext, UOp], UOp]


def read_leaf(u: UOp, indices: Indices) -> UOp:
    """A view of memory at some indices: one INDEX with one flat index; padding is a condition on it."""
    conditions: list[UOp] = []
    while u.op in GroupOp.Movement:
        indices = apply_movement_op(u.op, u.src[0].shape, u.arg, indices)
        if u.op is Ops.PAD:  # an EXPAND further down drops the index that carries the condition
            conditions += valid_of(indices)
        u = u.src[0]
    conditions += valid_of(indices)
    valid = conjunction(conditions)
    if u.op not in MEMORY or u.is_variable:  # a constant, or a number that is one while the kernel runs
        return u if valid is TRUE else valid.where(u, 0)
    flat = flat_index(u.shape, tuple(i.get_idx() for i in indices))
    return u.index(flat.valid(valid))


def read(ctx: ApplyContext, reader: UOp, source: UOp) -> UOp:
    """What ``reader`` reads instead of ``source``: an INDEX of memory, an INDEX of a STAGE, or the value itself."""
    walked = source in ctx.ranges.out
    axes = ctx.ranges.realize.get(source)
    if walked and axes is None:
        return ctx.became[source]
    indices = indices_for(reader, source, ctx.ranges.ins[reader])
    if not walked or axes is None:  # a view of memory
        known = ctx.leaves.get((source, indices))
        if known is None:
            known = ctx.leaves[source, indices] = _onto(ctx, read_leaf(source, indices))
        return known
    return stage(ctx, source, axes).index(*(indices[i] for i in axes))


def _onto(ctx: ApplyContext, index: UOp) -> UOp:
    """An INDEX whose memory is what that memory became (constants stay)."""
    if index.op is not Ops.INDEX:
        return index
    memory = ctx.became.get(index.src[0], index.src[0])
    return index if memory is index.src[0] else UOp(Ops.INDEX, index.dtype, (memory, *index.src[1:]))


def stage(ctx: ApplyContext, source: UOp, axes: list[int]) -> UOp:
    """The candidate buffer of a stored value."""
    if (known := ctx.stages.get(source)) is not None:
        return known
    value, out = ctx.became[source], ctx.ranges.out[source]
    opts = options(ctx, source, whole=len(axes) == len(source.shape))
    new = ctx.stages[source] = UOp(Ops.STAGE, value.dtype, (value, *[out[i] for i in axes]), opts)
    return new


def options(ctx: ApplyContext, source: UOp, *, whole: bool = True) -> BufferizeOpts:
    """Where the candidate buffer of a stored value (``whole``: on all axes) would live, and whether it may go."""
    device = None if ctx.one_device else source.device
    return BufferizeOpts(
        ctx.device if device is None else device,
        GLOBAL if whole else LOCAL,
        ctx.ranges.removable.get(source, True),
        source in ctx.ranges.hazards,
        source in ctx.ranges.sole_reader,
        ctx.overrides.get(source, ""),
    )


def apply_reduce(ctx: ApplyContext, x: UOp) -> UOp:
    """REDUCE(op, n leading axes) -> REDUCE(op) over n RANGEs"""
    loops = [r for r in ctx.ranges.ins[x][: x.arg[1]] if r is not ZERO]
    value = read(ctx, x, x.src[0])
    return value.reduce(x.arg[0], *loops)


def apply_pad(ctx: ApplyContext, x: UOp) -> UOp:
    """PAD(x) -> WHERE(the index is inside, x, 0)"""
    value = read(ctx, x, x.src[0])
    valid = conjunction(valid_of(ctx.ranges.ins[x]))
    return value if valid is TRUE else valid.where(value, 0)


def apply_stack(ctx: ApplyContext, x: UOp) -> UOp:
    """STACK(a, b, c) -> WHERE(r == 0, a, WHERE(r == 1, b, c)) on the leading index"""
    values = [read(ctx, x, s) for s in x.src]
    lead = ctx.ranges.out[x][0].get_idx()
    result = values[-1]
    for k in range(len(values) - 2, -1, -1):
        result = lead.eq(k).where(values[k], result)
    return result


def apply_movement(ctx: ApplyContext, x: UOp) -> UOp:
    """RESHAPE, PERMUTE, EXPAND, SHRINK, FLIP(x) -> x, read at other indices"""
    return read(ctx, x, x.src[0])


def apply_elementwise(ctx: ApplyContext, x: UOp) -> UOp:
    """op(a, b) -> op(a at these indices, b at these indices)"""
    return UOp(x.op, x.dtype, tuple([read(ctx, x, s) for s in x.src]), x.arg)


def apply_contiguous(ctx: ApplyContext, x: UOp) -> UOp:
    """CONTIGUOUS(x) -> x, which its readers read from a STAGE that stays"""
    value = read(ctx, x, x.src[0])
    return value if x.arg is None else UOp(Ops.CONTIGUOUS, x.dtype, (value,), x.arg)


def apply_copy(ctx: ApplyContext, x: UOp) -> UOp:
    """COPY(x, device) -> x, which its readers read from a STAGE on that device"""
    return read(ctx, x, x.src[0])


def apply_store(ctx: ApplyContext, x: UOp) -> UOp:
    """STORE(view of memory, value) -> END(STORE(INDEX(memory, i), value), RANGEs)"""
    target, value = x.src
    indices = ctx.ranges.out[x]
    address = _onto(ctx, read_leaf(target, indices))
    stored = _hazardous_view(ctx, x, value) if value in ctx.ranges.hazards and is_leaf(value) else read(ctx, x, value)
    loops = [r for r in indices if r.op is Ops.RANGE]
    return address.store(stored).end(*loops)


def _hazardous_view(ctx: ApplyContext, store: UOp, value: UOp) -> UOp:
    """A view of the very memory that is written: through a STAGE, until the indices prove that none is needed."""
    loops = tuple(ctx.ranges.new_range(n) for n in store.shape)
    opts = BufferizeOpts(value.device, hazard=True, sole=True)
    copy = UOp(Ops.STAGE, value.dtype, (_onto(ctx, read_leaf(value, loops)), *loops), opts)
    return copy.index(*ctx.ranges.out[store])


def apply_after(ctx: ApplyContext, x: UOp) -> UOp:
    """AFTER(memory, STORE) -> AFTER(memory, END(STORE))"""
    state = x.src[0]
    while state.op in GroupOp.Movement:  # the state below is what matters: memory is flat
        state = state.src[0]
    return ctx.became[state].after(*(ctx.became[s] for s in x.src[1:]))


def apply_call(ctx: ApplyContext, x: UOp) -> UOp:
    """CALL(function, views of memory, CONTIGUOUS(y)) -> CALL(function, the memory's states, STAGE(y))"""
    src = []
    for s in x.src[1:]:
        if is_leaf(s):
            src.append(s if s.is_variable else replace_base(s, ctx.became[s.base]))
        else:
            src.append(stage(ctx, s, list(range(len(s.shape)))))
    return UOp(Ops.CALL, x.dtype, (x.src[0], *src), x.arg)


def apply_other(ctx: ApplyContext, x: UOp) -> UOp:
    """SINK, memory and constants stay, over what their sources became"""
    return x if not x.src else UOp(x.op, x.dtype, tuple(ctx.became[s] for s in x.src), x.arg, x.tag)


_RULES = (
    (apply_reduce, {Ops.REDUCE}),
    (apply_pad, {Ops.PAD}),
    (apply_stack, {Ops.STACK}),
    (apply_movement, GroupOp.Movement - {Ops.PAD}),
    (apply_elementwise, GroupOp.Elementwise),
    (apply_contiguous, {Ops.CONTIGUOUS}),
    (apply_copy, {Ops.COPY}),
    (apply_store, {Ops.STORE}),
    (apply_after, {Ops.AFTER}),
    (apply_call, {Ops.CALL}),
    (apply_other, set(Ops)),
)
pm_apply_rangeify: tuple[ApplyRule, ...] = tuple(
    ApplyRule(fn.__name__, str(fn.__doc__), frozenset(ops), fn) for fn, ops in _RULES
)
_BY_OP = {op: next(r for r in pm_apply_rangeify if op in r.ops) for op in Ops}


def rule_of(u: UOp) -> str:
    """The name of the rule that writes a node with loops."""
    return _BY_OP[u.op].name


def rangeify(sink: UOp, overrides: Overrides | None = None) -> UOp:
    """The walk, then the rewrite: a graph without movement ops."""
    return apply_rangeify(sink, run_rangeify(sink, overrides), overrides or {})


def context_of(order: list[UOp], ranges: Ranges, overrides: Overrides) -> ApplyContext:
    """What the rules need to know of a graph (whose SINK is the last in order)."""
    devices = {u.arg.device for u in order if u.op is Ops.PARAM or u.op is Ops.BUFFER} - {None}
    alone = len(devices) == 1 and Ops.COPY not in {u.op for u in order}
    return ApplyContext(ranges, {}, overrides, order[-1].device, alone)


def apply_rule(ctx: ApplyContext, u: UOp) -> UOp:
    """A node with loops, by the rule for its op; remembered."""
    new = ctx.became[u] = _BY_OP[u.op].fn(ctx, u)
    return new


def apply_rangeify(sink: UOp, ranges: Ranges, overrides: Overrides) -> UOp:
    """Writes every node with the loops that the walk gave it, sources first."""
    order = ranges.order if ranges.order[-1:] == [sink] else sink.toposort()
    ctx = context_of(order, ranges, overrides)
    watcher = current_observer()
    for u in order:
        if u.op in MEMORY and u.op is not Ops.AFTER:
            ctx.became[u] = u if not u.src else apply_other(ctx, u)
            continue
        walked = u in ranges.ins or u.op in (Ops.AFTER, Ops.CALL, Ops.SINK)
        if not walked:  # a view of memory, which its readers index themselves
            continue
        new = apply_rule(ctx, u)
        if watcher is not None and new is not u:
            watcher.on_replace(u, new)
    return ctx.became[sink]
