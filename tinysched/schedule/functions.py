"""Functions in a schedule: bodies are inlined, or become calls that are scheduled on their own.

In: a graph with ``GETTUPLE(FUNCTION(arguments...), i)``. Out: the same values without them. A body that is to be inlined
takes the FUNCTION's place; a precompiled one becomes ``CALL(FUNCTION, outputs..., arguments...)``, a kernel as it were,
which reads memory and writes memory: ``AFTER(output, CALL)`` is a value of it. Its FUNCTION has no sources, so what is
inside is not seen until the LINEAR of the body takes its place (:mod:`tinysched.schedule.pipeline`).

>>> [r.name for r in pm_functions]
['resolve_function', 'resolve_gettuple']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tinysched.dtypes import dtypes, strong_dtype
from tinysched.ir.decision import Reason, Verdict, decide
from tinysched.ir.derive import max_shape, prod
from tinysched.ir.function import FunctionArg, get_value, instantiate, shaped, values_of
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.sharding import SPREAD
from tinysched.ir.symbolic.movement import stretch_of
from tinysched.ir.uop import BufferArg, ParamArg, UOp
from tinysched.schedule.indexing import MEMORY
from tinysched.tensor.storage import replace_base


def resolve_functions(sink: UOp) -> UOp:
    """The graph without GETTUPLEs: inlined bodies, and calls."""
    alone = sink.tag != SPREAD  # what is spread over several devices is one graph until it has been cut
    return call_functions(graph_rewrite(sink, pm_functions, alone, name="functions"))


# ** inlined **


@rule(UPat(Ops.FUNCTION, name="f"))
def resolve_function(ctx: bool, f: UOp) -> UOp | None:
    """FUNCTION(arguments) -> TUPLE(values of the body, with the arguments for its PARAMs)"""
    if f.arg.precompile and ctx:
        return None
    decide(f, "prepare", Verdict.FUSED, Reason.INLINED)
    return UOp(Ops.TUPLE, dtypes.void, values_of(f))


@rule(UPat(Ops.GETTUPLE, src=(UPat(Ops.TUPLE, name="t"),), name="g"))
def resolve_gettuple(g: UOp, t: UOp) -> UOp:
    """GETTUPLE(TUPLE(x, y, ...), i) -> the i-th of them"""
    value: UOp = t.src[g.arg]
    return value


pm_functions = PatternMatcher([resolve_function, resolve_gettuple])


# ** called **


@dataclass
class Calls:
    """The calls of a graph under construction."""

    device: str | tuple[str, ...]
    targets: dict[UOp, UOp]  # GETTUPLE -> memory that it may be written to at once
    buffers: int = 0

    def new_buffer(self, u: UOp) -> UOp:
        """Memory for a value that nobody asked for. Numbers below 0: each run gets fresh memory for them."""
        self.buffers += 1
        size = int(prod(max_shape(u.shape)))
        return UOp(Ops.BUFFER, strong_dtype(u.dtype), (), BufferArg(-self.buffers, size, u.device or self.device))


def call_functions(sink: UOp) -> UOp:
    """GETTUPLE(FUNCTION(arguments), i) -> AFTER(output i, CALL(FUNCTION, outputs..., arguments...)), in its shape"""
    order = sink.toposort()
    calls = Calls(sink.device, dict(_direct(order)))
    became: dict[UOp, UOp] = {}
    watcher = current_observer()
    for u in order:
        src = tuple([became[s] for s in u.src])
        if u.op is Ops.FUNCTION:
            became[u] = _called(calls, u, src)
        elif u.op is Ops.GETTUPLE:
            became[u] = src[0].src[u.arg]
        elif u.op is Ops.AFTER and u.src[1].op is Ops.STORE and calls.targets.get(u.src[1].src[1]) is u.src[0]:
            became[u] = became[u.src[1].src[1]].base
        else:
            became[u] = u if src == u.src else UOp(u.op, u.dtype, src, u.arg, u.tag)
        if watcher is not None and became[u] is not u:
            watcher.on_replace(u, became[u])
    return became[sink]


def _direct(order: list[UOp]) -> Iterator[tuple[UOp, UOp]]:
    """Values of functions, each with memory of its own that it is written to, and that its function does not read."""
    reads: dict[UOp, set[UOp]] = {}
    for u in order:
        if u.op is not Ops.AFTER or len(u.src) != 2 or u.src[1].op is not Ops.STORE or u.src[0].op is not Ops.PARAM:
            continue
        memory, (target, value) = u.src[0], u.src[1].src
        if value.op is not Ops.GETTUPLE or target is not shaped(memory, value.shape):
            continue
        f = value.src[0]
        if f not in reads:
            reads[f] = {a for a in f.toposort() if a.op is Ops.PARAM}
        if memory not in reads[f]:
            yield value, memory


def is_left_by_call(write: UOp) -> bool:
    """Whether a precompiled function reads memory that all of one of its values is written to.

    Other memory can be its output, and nothing is copied.
    """
    memory, store = write.src[0], write.src[1]
    if len(write.src) != 2 or store.op is not Ops.STORE or store.src[1].op is not Ops.GETTUPLE:
        return False
    target, f = store.src[0], store.src[1].src[0]
    if f.op is not Ops.FUNCTION or not f.arg.precompile or target is not shaped(memory, target.shape):
        return False
    return prod(target.shape) == memory.size and any(memory in a.toposort() for a in f.src)


def _called(calls: Calls, f: UOp, src: tuple[UOp, ...]) -> UOp:
    """A TUPLE of the values that the call of a function leaves in memory."""
    values = [get_value(f, i) for i in range(len(f.arg.body.src))]
    made = [v for v in values if 0 not in v.shape]
    outs = {v: calls.targets[v] if v in calls.targets else calls.new_buffer(v) for v in made}
    body, args = _on_memory(f, src, len(outs))
    body = body.replace(src=tuple([b for b, v in zip(body.src, values) if v in outs]))
    call = UOp(Ops.FUNCTION, dtypes.void, (), FunctionArg(body, f.arg.name, True)).call(*outs.values(), *args)
    decide(f, "prepare", Verdict.SCHEDULED, Reason.PRECOMPILED)
    states = {v: shaped(out.after(call), v.shape).cast(v.dtype) for v, out in outs.items()}
    return UOp(Ops.TUPLE, dtypes.void, tuple([states.get(v, v.const_like(0).expand_leading(v.shape)) for v in values]))


def _on_memory(f: UOp, src: tuple[UOp, ...], first: int) -> tuple[UOp, list[UOp]]:
    """The body over flat memory, whose slots count from ``first``, and this memory.

    Constants and movement ops move into the body; what is computed gets memory.
    """
    args: dict[UOp, UOp] = {}  # memory -> its PARAM
    became: dict[int, UOp] = {}
    for slot, u in enumerate(src[: len(src) - len(f.arg.variables)]):
        found = _memory_of(u)
        if found is None:
            became[slot] = u
            continue
        memory, view = found
        if memory not in args:
            arg = ParamArg(first + len(args), int(prod(max_shape(memory.shape))), memory.device)
            args[memory] = UOp(Ops.PARAM, memory.dtype, (), arg)
        became[slot] = view(args[memory])
    return instantiate(f.arg.body, became, f.arg.passed(src)), list(args)


def _memory_of(u: UOp) -> tuple[UOp, Callable[[UOp], UOp]] | None:
    """What a call is passed for an argument, and how the argument is seen in that as flat memory; None for constants."""
    while u.op in (Ops.DETACH, Ops.CONTIGUOUS_BACKWARD):
        u = u.src[0]
    base, size = u.base, prod(u.shape)
    if (base.op is Ops.CONST and isinstance(size, int)) or 0 in u.shape:
        return None
    if base.op not in MEMORY:
        decide(u, "prepare", Verdict.REALIZED, Reason.FUNCTION_ARGUMENT)
        memory = u if u.op is Ops.CONTIGUOUS and u.arg is None else u.cast(strong_dtype(u.dtype)).contiguous()
        return memory, lambda p: shaped(p, u.shape).cast(u.dtype)
    start = 0 if size == base.size and _only_reshaped(u) else stretch_of(u)
    if start is None:
        return base, lambda p: replace_base(u, p)
    return base.shrink(((start, start + size),)), lambda p: p.reshape(u.shape)


def _only_reshaped(u: UOp) -> bool:
    while u.op is Ops.RESHAPE:
        u = u.src[0]
    return u.op in MEMORY


def sink_of(call: UOp) -> UOp:
    """The body of a call as a graph that can be scheduled: its values are written to the first slots."""
    writes = []
    for slot, u in enumerate(call.src[0].arg.body.src):
        memory = call.src[1 + slot]
        value = u.src[0] if u.op is Ops.CONTIGUOUS and u.arg is None else u
        out = UOp(Ops.PARAM, memory.dtype, (), ParamArg(slot, int(memory.size), memory.device))
        writes.append(out.after(shaped(out, u.shape).store(value.cast(out.dtype))))
    return UOp.sink(*writes)
