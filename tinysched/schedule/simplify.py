"""Simplify: algebra, sums that are arithmetic, and candidate buffers that are not worth their memory.

In: a graph after rangeify. Out: the same values with the STAGEs that stay. ``remove_bufferize`` decides by the fusion
policy (the default: keep what reads more than 3 buffers, scalars not counted, or has a reduction that reads one);
``fix_store_hazard`` fuses a write with what it reads only where the indices prove that no element is read after it was
overwritten.

>>> [r.name for r in pm_remove_bufferize]
['fix_store_hazard', 'store_to_itself', 'end_noop', 'after_nothing', 'stage_const', 'cleanup_dead_axes', 'remove_bufferize']
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tinysched.dtypes import dtypes
from tinysched.errors import ScheduleError
from tinysched.ir.decision import Cost, Hazard, Limit, Reason, Values, Verdict, decide
from tinysched.ir.lines import where
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.symbolic.affine import is_settled
from tinysched.ir.symbolic.conditions import conjunction
from tinysched.ir.symbolic.rules import symbolic
from tinysched.ir.uop import UOp
from tinysched.schedule.indexing import MEMORY, memory_of, valid_of
from tinysched.schedule.policy import Choice, FusionPolicy, Upstream, ask_fusion
from tinysched.schedule.prepare import after_nothing
from tinysched.schedule.rangeify import GLOBAL, BufferizeOpts
from tinysched.schedule.reduce_simplify import pm_reduce_simplify, reindex
from tinysched.settings import MAX_KERNEL_BUFFERS, PCONTIG

MOST_BUFFERS = 3


@dataclass
class SimplifyContext:
    """The fusion policy, and what was found out about each STAGE."""

    policy: FusionPolicy = field(default_factory=Upstream)
    costs: dict[UOp, Cost] = field(default_factory=dict)
    choices: dict[UOp, Choice] = field(default_factory=dict)
    like: dict[UOp, UOp] = field(default_factory=dict)  # a name of a STAGE's equal -> that STAGE (schedule/once.py)
    axes: dict[UOp, list[int] | None] = field(default_factory=dict)
    copies: dict[Hashable, dict[UOp, UOp]] = field(default_factory=dict)  # for each way to reindex: what nodes became
    told: set[tuple[UOp, str]] = field(default_factory=set)

    def tell(self, stage: UOp, verdict: Verdict, reason: Reason, evidence: object = None) -> None:
        """A Decision about a STAGE, once however many readers it has."""
        if (stage, verdict.name) not in self.told:
            self.told.add((stage, verdict.name))
            decide(stage, "simplify", verdict, reason, evidence)  # type: ignore[arg-type]

    def cost(self, stage: UOp) -> Cost:
        """What computing the STAGE's value where it is read would read."""
        value = stage.src[0]
        found = self.costs.get(value)
        if found is None:
            found = cost_of(value, self.costs)
            if found.buffers:  # what reads memory of one element only is not told from what reads none
                self.costs[value] = found
        return found

    def alive(self, stage: UOp) -> list[int] | None:
        """The axes that a STAGE keeps, or None where it keeps all."""
        key = self.like.get(stage, stage)
        if key not in self.axes:
            self.axes[key] = _alive(key)
        return self.axes[key]

    def choice(self, stage: UOp) -> Choice:
        """What the policy says about the STAGE (asked once for those that are alike)."""
        key = self.like.get(stage, stage)
        found = self.choices.get(key)
        if found is None:
            found = self.choices[key] = ask_fusion(self.policy, stage, self.cost(stage))
        return found


def cost_of(value: UOp, known: dict[UOp, Cost]) -> Cost:
    """The buffers that ``value`` reads, and its reductions that read one. ``known``: the costs of values that it may use."""
    buffers: dict[UOp, None] = {}
    reduces: list[UOp] = []
    reading: set[UOp] = set()  # what memory is read for
    for u in value.toposort(gate=lambda u: _not_memory(u) and u not in known):
        if (cost := known.get(u)) is not None:
            buffers |= dict.fromkeys(cost.buffers)
            reduces += cost.reduces
        elif _not_memory(u):
            if reading.isdisjoint(u.src):
                continue
            if u.op is Ops.REDUCE and u.src[0] in reading:
                reduces.append(u)
        elif u.is_variable:
            continue
        elif not _is_scalar(u):
            buffers[_buffer(u)] = None
        reading.add(u)
    return Cost(tuple(buffers), MOST_BUFFERS, tuple(reduces))


def _not_memory(u: UOp) -> bool:
    return u.op not in MEMORY and (u.op is not Ops.STAGE or u.arg.addrspace != GLOBAL)


def _is_stage(u: UOp) -> bool:
    return u.op is Ops.STAGE and u.arg.addrspace == GLOBAL


def _is_read(u: UOp) -> bool:
    return (u.op in MEMORY or _is_stage(u)) and not u.is_variable


def _buffer(u: UOp) -> UOp:
    return u if u.op is Ops.STAGE else memory_of(u)


def _is_scalar(u: UOp) -> bool:
    return bool(u.size == 1)


# ** hazards **


_READ = UPat(Ops.INDEX, src=(UPat(Ops.STAGE, name="st"),), rest=True, name="idx")


@rule(UPat(Ops.STORE, src=(UPat(Ops.INDEX, name="to"), _READ)))
def fix_store_hazard(ctx: SimplifyContext, to: UOp, st: UOp, idx: UOp) -> UOp | None:
    """memory[i] = STAGE(f(memory[i])) -> memory[i] = f(memory[i])  where each element only reads itself"""
    if not st.arg.hazard or not st.arg.removable:
        return None
    memory = memory_of(to.src[0])
    fused = _inlined(ctx, st, idx)
    if not all(_apart(u, to) for u in fused.toposort(gate=_not_memory) if u.op is Ops.INDEX and memory_of(u) is memory):
        ctx.tell(st, Verdict.KEPT, Reason.STORE_READS_TARGET, Hazard(memory))
        return None
    if not st.arg.sole and ctx.choice(st):
        return None
    ctx.tell(st, Verdict.REMOVED, Reason.ONLY_REORDERS, lambda: ctx.cost(st))
    return to.store(fused)


def _apart(read: UOp, write: UOp) -> bool:
    """Whether a read of the written memory touches the very element that is written, or none that is ever written."""
    if read.src[0].op is Ops.STAGE:
        return True
    i, j = read.src[1].get_idx(), write.src[1].get_idx()
    return i is j or i.vmax < j.vmin or j.vmax < i.vmin


@rule(UPat(Ops.STORE, src=(UPat.var("x"), UPat.var("x"))))
def store_to_itself(x: UOp) -> UOp:
    """memory[i] = memory[i] -> nothing"""
    return UOp(Ops.NOOP, dtypes.void)


@rule(UPat(Ops.END, src=(UPat(Ops.NOOP, name="x"),), rest=True))
def end_noop(x: UOp) -> UOp:
    """END(nothing) -> nothing"""
    return x


# ** candidate buffers **


@rule(UPat(Ops.INDEX, src=(UPat(Ops.STAGE, src=(UPat(Ops.CONST, name="c"),), rest=True, name="st"),), rest=True))
def stage_const(ctx: SimplifyContext, c: UOp, st: UOp) -> UOp | None:
    """STAGE(constant)[i] -> constant"""
    if not st.arg.removable:
        return None
    ctx.tell(st, Verdict.NO_BUFFER, Reason.CONSTANT)
    return c


@rule(_READ)
def cleanup_dead_axes(ctx: SimplifyContext, st: UOp, idx: UOp) -> UOp | None:
    """STAGE(x, r0, r1)[i, j] -> STAGE(x, r0)[i]  where x does not depend on r1"""
    alive = ctx.alive(st)
    if alive is None:
        return None
    dead = tuple(r for k, r in enumerate(st.src[1:]) if r.op is Ops.RANGE and k not in alive)
    if dead:
        ctx.tell(st, Verdict.KEPT, Reason.DEAD_AXIS, Values((("loops", dead),)))
    return along(st, alive).index(*[idx.src[1 + k] for k in alive])


def _alive(st: UOp) -> list[int] | None:
    """The axes along which a STAGE's value changes, where there are others that can go."""
    if not st.arg.removable:
        return None
    loops = st.src[0].ranges
    alive = [k for k, r in enumerate(st.src[1:]) if r.op is Ops.RANGE and r in loops]
    if len(alive) == len(st.src) - 1 or any(r.op is Ops.RANGE and r.src[0].op is not Ops.CONST for r in st.src[1:]):
        return None
    return alive


def along(st: UOp, axes: Iterable[int]) -> UOp:
    """A STAGE along some of its axes."""
    return UOp(Ops.STAGE, st.dtype, (st.src[0], *[st.src[1 + k] for k in axes]), st.arg)


@rule(_READ)
def remove_bufferize(ctx: SimplifyContext, st: UOp, idx: UOp) -> UOp | None:
    """STAGE(f(r0, r1), r0, r1)[i, j] -> f(i, j)  where the fusion policy does not want the buffer"""
    opts: BufferizeOpts = st.arg
    if not opts.removable:
        ctx.tell(st, Verdict.KEPT, Reason.OVERRIDE if opts.override else Reason.USER_FORCED)
        return None
    if opts.hazard:  # only its STORE may take it in: fix_store_hazard
        return None
    cost = ctx.cost(st)
    if opts.override == "fuse":
        ctx.tell(st, Verdict.REMOVED, Reason.OVERRIDE, cost)
        return _inlined(ctx, st, idx)
    choice = ctx.choice(st)
    ctx.tell(st, Verdict.KEPT if choice else Verdict.REMOVED, choice.reason, cost)
    return None if choice else _inlined(ctx, st, idx)


def _inlined(ctx: SimplifyContext, st: UOp, idx: UOp) -> UOp:
    """The STAGE's value at the indices of one reader."""
    pairs = zip(st.src[1:], idx.src[1:], strict=True)
    mapping = {r: i.get_idx() for r, i in pairs if r.op is Ops.RANGE}
    valid = conjunction(valid_of(idx.src[1:]))
    copies = ctx.copies.setdefault((*mapping.items(), valid), {})
    value = reindex(st.src[0], mapping, valid, copies)
    cost = ctx.costs.get(st.src[0])
    if cost is not None and not cost.reduces and all(i.op is Ops.RANGE for i in mapping.values()):
        ctx.costs.setdefault(value, cost)  # at other loops it reads the same
    return value


pm_remove_bufferize = PatternMatcher(
    [fix_store_hazard, store_to_itself, end_noop, after_nothing, stage_const, cleanup_dead_axes, remove_bufferize]
)
pm_simplify = symbolic + pm_reduce_simplify + pm_remove_bufferize


def simplify(sink: UOp, policy: FusionPolicy | None = None) -> UOp:
    """Algebra, closed sums and buffer removal, until nothing applies; partial buffers that stay become whole ones."""
    simple = rewritten(sink, SimplifyContext(policy or Upstream()), {})
    if not PCONTIG:
        return simple
    return graph_rewrite(simple, pm_promote_partial, PromoteContext(fresh_numbers(simple)), name="promote partial")


def rewritten(root: UOp, ctx: SimplifyContext, became: dict[UOp, UOp]) -> UOp:
    """What the rules make of a graph, or of one part of it. ``became``: what they made of nodes before."""
    return graph_rewrite(root, pm_simplify, ctx, name="simplify", became=became, settled=is_settled)


# ** buffers for some axes only **


@dataclass
class PromoteContext:
    """Fresh numbers for loops, and what partial STAGEs became: a whole one, and the loops it is also read at."""

    numbers: Iterator[int]
    whole: dict[UOp, tuple[UOp, tuple[UOp, ...]]] = field(default_factory=dict)


def fresh_numbers(sink: UOp) -> Iterator[int]:
    """Numbers that no loop below ``sink`` has."""
    return itertools.count(max((int(u.arg[0]) for u in sink.toposort() if u.op is Ops.RANGE), default=-1) + 1)


def own_loops(value: UOp, loops: Iterable[UOp], numbers: Iterator[int]) -> tuple[UOp, tuple[UOp, ...], tuple[UOp, ...]]:
    """``value`` over loops of its own instead of ``loops``; both kinds of loops in order."""
    outer = tuple(sorted(loops, key=lambda r: int(r.arg[0])))
    fresh = tuple(UOp.range(r.src[0], next(numbers), AxisType.LOOP) for r in outer)
    return reindex(value, dict(zip(outer, fresh, strict=True))), fresh, outer


@rule(UPat(Ops.INDEX, src=(UPat(Ops.STAGE, name="st"),), rest=True, name="idx"))
def promote_partial(ctx: PromoteContext, st: UOp, idx: UOp) -> UOp | None:
    """STAGE(x, r1)[i] within the loop r0 that x depends on -> STAGE(x, r0, r1)[r0, i]"""
    if st.arg.addrspace == GLOBAL:
        return None
    if st not in ctx.whole:
        value, fresh, outer = own_loops(st.src[0], st.ranges, ctx.numbers)
        opts = replace(st.arg, addrspace=GLOBAL)
        ctx.whole[st] = UOp(Ops.STAGE, st.dtype, (value, *fresh, *st.src[1:]), opts), outer
    whole, outer = ctx.whole[st]
    return whole.index(*outer, *idx.src[1:])


pm_promote_partial = PatternMatcher([promote_partial])


# ** the buffer limit of a kernel **


@dataclass
class LimitContext:
    """The most buffers of one kernel, and fresh numbers for loops."""

    limit: int
    numbers: Iterator[int]
    buffers: dict[UOp, frozenset[UOp]] = field(default_factory=dict)

    def reads(self, root: UOp) -> frozenset[UOp]:
        """The buffers read to compute ``root`` in one kernel."""
        for u in root.toposort(gate=lambda u: u not in self.buffers and _not_memory(u)):
            if u not in self.buffers:
                own = frozenset((u,)) if _is_read(u) else frozenset()
                self.buffers[u] = own or frozenset().union(*(self.buffers[s] for s in u.src))
        return self.buffers[root]


_COMPUTED = GroupOp.Elementwise | {Ops.REDUCE}


@rule(UPat(GroupOp.Binary | GroupOp.Ternary, name="root"))
def limit_bufs(ctx: LimitContext, root: UOp) -> UOp | None:
    """op(x, y) -> op(STAGE(x)[..], STAGE(y)[..])  where together they read too many buffers"""
    if root.dtype is dtypes.index or (n := len(ctx.reads(root))) < ctx.limit:
        return None
    src = tuple(_staged(ctx, s) if s.op in _COMPUTED and ctx.reads(s) else s for s in root.src)
    if src == root.src:
        return None
    decide(root, "limit buffers", Verdict.LIMITED, Reason.BUFFER_LIMIT, Limit(n + 1, ctx.limit))
    return root.replace(src=src)


def _staged(ctx: LimitContext, value: UOp) -> UOp:
    body, fresh, outer = own_loops(value, value.ranges, ctx.numbers)
    return UOp(Ops.STAGE, value.dtype, (body, *fresh), BufferizeOpts(value.device)).index(*outer)


pm_limit_bufs = PatternMatcher([limit_bufs])


def limit_buffers(sink: UOp, device_limit: int = 0) -> UOp:
    """Cuts kernels that would read more buffers than a kernel may have (one of them is the output).

    Raises :class:`ScheduleError` where a single operation needs more than that.
    """
    limit = MAX_KERNEL_BUFFERS.value or device_limit
    if not limit:
        return sink
    ctx = LimitContext(limit, fresh_numbers(sink))
    sink = graph_rewrite(sink, pm_limit_bufs, ctx, name="limit buffers")
    for u in sink.toposort():
        if u.op is Ops.STAGE or u.op is Ops.STORE:
            _check_limit(ctx, u)
    return sink


def _check_limit(ctx: LimitContext, write: UOp) -> None:
    """Whether the kernel that a STAGE or STORE will be keeps the limit."""
    reads = ctx.reads(write.src[0]) if write.op is Ops.STAGE else ctx.reads(write.src[1])
    written = memory_of(write.src[0]) if write.op is Ops.STORE else write
    count = len({_buffer(u) for u in reads} | {written})
    if count > ctx.limit:
        raise ScheduleError(
            f"a kernel needs {count} buffers, and a kernel may have {ctx.limit}",
            where=where(write),
            help=f"MAX_KERNEL_BUFFERS={count} or more",
        )
