"""Candidate buffers become buffers, and every closed write becomes a kernel.

In: a simplified graph. Out of :func:`pm_add_buffers`: STAGE is BUFFER + STORE + END. Out of :func:`split_kernels`: each
END(STORE) is ``CALL(SINK(ast, KernelInfo), buffers...)``; buffers are PARAM 0, 1, 2 in the ast and loops count from 0, so
that equal kernels are the same node and are compiled once.

>>> kernel_name([UOp.range(64, 0)], [UOp.range(128, 1)])
'r_64_128'
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinysched.dtypes import dtypes, strong_dtype
from tinysched.errors import ScheduleError
from tinysched.ir.derive import prod
from tinysched.ir.lines import where
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic.affine import is_settled, remap, simplify_index
from tinysched.ir.symbolic.conditions import conjunction
from tinysched.ir.symbolic.movement import flat_index
from tinysched.ir.uop import BufferArg, ParamArg, UOp
from tinysched.schedule.indexing import MEMORY, memory_of, valid_of


@dataclass(frozen=True)
class KernelInfo:
    """What is known of a kernel besides its ast."""

    name: str = ""
    applied_opts: tuple[str, ...] = ()
    opts_to_apply: tuple[str, ...] | None = None
    beam: int = 0


# ** STAGE -> BUFFER + STORE **


def pm_add_buffers(sink: UOp) -> UOp:
    """STAGE(x, loops) -> AFTER(BUFFER, END(STORE(BUFFER[flat], x), loops));  STAGE[i, j] -> AFTER(...)[flat]

    The new BUFFERs are numbered -1, -2, ... in order (after those that calls of functions write): a cached schedule gets
    fresh memory for them each time.
    """
    became: dict[UOp, UOp] = {}
    watcher = current_observer()
    order = sink.toposort()
    count = numbered(order)
    for u in order:
        if u.op is Ops.STAGE:
            count += 1
            new = _stored(tuple([became[s] for s in u.src]), buffer_for(u, count))
        else:
            new = _buffered(u, became)
        became[u] = new
        if watcher is not None and new is not u:
            watcher.on_replace(u, new)
    return became[sink]


def numbered(order: list[UOp]) -> int:
    """How many BUFFERs of a graph belong to its schedule: they have the numbers from -1 down."""
    return max((-u.arg.number for u in order if u.op is Ops.BUFFER and u.arg.number < 0), default=0)


def _buffered(u: UOp, became: dict[UOp, UOp]) -> UOp:
    """A node over what its sources became; reads of a STAGE are reads of its memory."""
    src = tuple([became[s] for s in u.src])
    return _read(u, src) if u.op is Ops.INDEX and u.src[0].op is Ops.STAGE else u.over(src)


def _stored(src: tuple[UOp, ...], buffer: UOp) -> UOp:
    value, loops = src[0], src[1:]
    write = buffer.index(flat_index(_sizes(loops), loops)).store(value.cast(buffer.dtype))
    return buffer.after(write.end(*(r for r in loops if r.op is Ops.RANGE)))


def buffer_for(stage: UOp, count: int) -> UOp:
    """Memory for all values of a STAGE."""
    arg = BufferArg(-count, prod(_sizes(stage.src[1:])), stage.arg.device)
    return UOp(Ops.BUFFER, strong_dtype(stage.dtype), (), arg)


def _read(index: UOp, src: tuple[UOp, ...]) -> UOp:
    state, idxs = src[0], src[1:]
    shape = _sizes(index.src[0].src[1:])
    flat = flat_index(shape, tuple(i.get_idx() for i in idxs)).valid(conjunction(valid_of(idxs)))
    return state.index(flat).cast(index.dtype)


def _sizes(loops: tuple[UOp, ...]) -> tuple[int, ...]:
    """The largest trip count of each loop (an axis without a loop has one element)."""
    return tuple(r.vmax + 1 if r.op is Ops.RANGE else 1 for r in loops)


# ** END(STORE) -> CALL **


@dataclass
class Split:
    """One kernel under construction: its memory states in order of first use, and what nodes became."""

    states: dict[UOp, UOp] = field(default_factory=dict)  # memory -> the state that is read or written
    params: dict[UOp, UOp] = field(default_factory=dict)  # memory -> PARAM
    became: dict[UOp, UOp] = field(default_factory=dict)
    opts: tuple[str, ...] | None = None

    def param(self, state: UOp) -> UOp:
        """The kernel's argument for a memory state. Raises :class:`TwoStates` if another state of it is used too."""
        memory = memory_of(state)
        known = self.states.setdefault(memory, state)
        if known is not state:
            raise TwoStates(memory, known, state)
        if memory not in self.params:
            arg = ParamArg(len(self.params), memory.arg.size, None)
            self.params[memory] = UOp(Ops.PARAM, memory.dtype, (), arg)
        return self.params[memory]


class TwoStates(ScheduleError):
    """One kernel would read a buffer as it was before and after a write."""

    def __init__(self, memory: UOp, a: UOp, b: UOp):
        super().__init__(
            f"one kernel would need {memory!r} in two states",
            where=f"{where(a)}; {where(b)}",
            help="read the old value into memory of its own first: .contiguous()",
        )
        self.memory, self.states = memory, (a, b)


def split_kernels(sink: UOp) -> UOp:
    """Every END(STORE) without open loops -> CALL(SINK(ast), buffers...)"""
    order = sink.toposort()
    looped = {u.src[0] for u in order if u.op is Ops.END}
    became: dict[UOp, UOp] = {}
    watcher = current_observer()
    for u in order:
        if (u.op is Ops.END or u.op is Ops.STORE) and u not in looped:
            became[u], inside = split_store(u, became)
            if watcher is not None:
                watcher.on_replace(u, became[u])
                watcher.on_event("kernel", {"write": u, "became": inside})
        elif u.op in MEMORY or u.op in (Ops.SINK, Ops.CALL, Ops.SHRINK):  # a call of a function has views of memory
            became[u] = u.over(tuple([became.get(s, s) for s in u.src]))
            if watcher is not None and became[u] is not u:
                watcher.on_replace(u, became[u])
    return became[sink]


def kernel_of(root: UOp, count: int) -> tuple[UOp, tuple[UOp, ...]]:
    """The program of one STAGE or write, and the states of memory and the STAGEs that it is about.

    That of a STAGE has one argument more, before these: the memory that it writes. ``count``: see :func:`numbered`.
    """
    stages: dict[UOp, UOp] = {}  # memory in place of a STAGE -> it
    write = _stored(root.src, buffer_for(root, count + 1)).src[1] if root.op is Ops.STAGE else root
    became: dict[UOp, UOp] = {}
    for u in write.toposort(_is_inside):
        if _is_inside(u):
            became[u] = _buffered(u, became)
        elif u.op is Ops.STAGE:
            became[u] = buffer_for(u, count + 2 + len(stages))
            stages[became[u]] = u
        else:
            became[u] = u
    program, *args = split_store(became[write], {})[0].src
    args = [stages.get(a, a) for a in args]
    return program, tuple(args[1:] if root.op is Ops.STAGE else args)


def _is_inside(u: UOp) -> bool:
    return u.op not in MEMORY and u.op is not Ops.STAGE


def split_store(write: UOp, outer: dict[UOp, UOp]) -> tuple[UOp, dict[UOp, UOp]]:
    """One kernel: ``write`` with PARAMs for memory, LOADs for reads, and loops that count from 0.

    Returns the CALL, and what each node of ``write`` became inside of it.
    """
    order = write.toposort(gate=lambda u: u.op not in MEMORY and not is_settled(u))
    split = Split()
    store = write.src[0] if write.op is Ops.END else write
    split.param(store.src[0].src[0])  # the output is argument 0
    loops, reduces = _number_loops(write, order, split)
    for u in order:
        if u not in split.became:
            split.became[u] = _kernel_node(u, split)
    info = KernelInfo(kernel_name(loops, reduces), opts_to_apply=split.opts)
    ast = UOp.sink(split.became[write], arg=info)
    return ast.call(*(outer.get(s, s) for s in split.states.values())), split.became


def _number_loops(write: UOp, order: list[UOp], split: Split) -> tuple[list[UOp], list[UOp]]:
    """New numbers for the loops: first those of the END, then those of the reductions as they appear."""
    loops = list(write.src[1:]) if write.op is Ops.END else []
    reduces = [r for u in order if u.op is Ops.REDUCE for r in u.src[1:]]
    for i, r in enumerate(dict.fromkeys((*loops, *reduces))):
        kind = AxisType.LOOP if r in loops else AxisType.REDUCE
        end = r.src[0]
        split.became[r] = UOp(Ops.RANGE, dtypes.index, (end,), (i, kind))
    return [split.became[r] for r in loops], [split.became[r] for r in dict.fromkeys(reduces)]


def _kernel_node(u: UOp, split: Split) -> UOp:
    if u.op in MEMORY:
        return u if u.is_variable else split.param(u)
    if u.op is Ops.CONTIGUOUS:
        split.opts = u.arg if isinstance(u.arg, tuple) else split.opts
        return split.became[u.src[0]]
    if is_settled(u):
        return remap(u, split.became)
    src = tuple([split.became[s] for s in u.src])
    new = u if src == u.src else UOp(u.op, u.dtype, src, u.arg, None)
    if new is not u and u.dtype is dtypes.index and not u.is_gated and u.op is not Ops.RANGE:
        new = simplify_index(new)
    if u.op is Ops.INDEX:
        return UOp(Ops.LOAD, u.dtype, (new,))
    if u.op is Ops.STORE:  # the address is written, not read
        return UOp(Ops.STORE, u.dtype, (src[0].src[0], *src[1:]))
    return new


def kernel_name(loops: list[UOp], reduces: list[UOp]) -> str:
    """``E_1024`` for elementwise kernels, ``r_64_128`` for kernels that reduce: the trip counts of the loops."""
    sizes = [str(r.src[0].arg) if r.src[0].op is Ops.CONST else "v" for r in (*loops, *reduces)]
    return "_".join(["r" if reduces else "E", *sizes])
