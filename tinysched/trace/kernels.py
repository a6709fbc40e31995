"""The kernel table and the buffers, read off the final LINEAR.

In: a recording (its last graph is the LINEAR that runs) and the numbered nodes. Out: :class:`Kernel` and :class:`Buffer`
values. Buffers are numbered by first use; planned intermediates are shown as the buffer they were before they got a place
in an arena.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tinysched.errors import DTypeError, RunError
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp
from tinysched.trace import provenance
from tinysched.trace.document import Buffer, Kernel, Memory
from tinysched.trace.later import as_now
from tinysched.trace.nodes import KIND_OF, LineTable, NodeTable, kernel_name
from tinysched.trace.recorder import Recording

_ELSEWHERE = frozenset({"memory", "const", "loop", "control"})
"""Kinds of nodes that no kernel computes."""
MOST_KERNELS = 512
"""Texts of so many kernels are remembered: what-ifs meet the same kernels again and again."""
Line = tuple[str, tuple[UOp, ...]]
"""A line of a program, and the nodes that it computes."""
Links = dict[str, tuple[tuple[int, ...], ...]]
Linked = dict[UOp, int]
"""For nodes of a kernel the number of the tensor-graph node that each computes."""
_MOVES = GroupOp.Movement | GroupOp.Passthrough


def find_linear(recording: Recording) -> UOp | None:
    """The LINEAR that runs: the end of the last stage that ends in one."""
    ends = (stage.end for stage in reversed(recording.stages))
    return next((end for end in ends if end.op is Ops.LINEAR), None)


def find_calls(recording: Recording) -> tuple[UOp, ...]:
    """The CALLs of the LINEAR, in execution order."""
    linear = find_linear(recording)
    return () if linear is None else linear.src


def _unplanned(recording: Recording, calls: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """The same CALLs as they were before the memory plan put their buffers into arenas."""
    for stage in recording.stages:
        if stage.name == "memory" and stage.root.op is Ops.LINEAR and len(stage.root.src) == len(calls):
            return stage.root.src
    return calls


def memory_below(u: UOp) -> UOp:
    """The BUFFER (or PARAM) that an argument of a CALL is, or is a view of."""
    while u.src and (u.op in GroupOp.Movement or u.op in (Ops.BITCAST, Ops.AFTER, Ops.MSELECT)):
        u = u.src[0]
    return u


def written(call: UOp) -> tuple[int, ...]:
    """Which arguments of a CALL its kernel writes, by position."""
    body = call.src[0]
    if body.op is Ops.COPY:
        return (0,)
    stores = (u for u in body.toposort() if u.op is Ops.STORE)
    return tuple(sorted({memory_below(_address(s)).arg.slot for s in stores}))


def updated(call: UOp) -> tuple[int, ...]:
    """Which of :func:`written` the kernel reads too."""
    body = call.src[0]
    if body.op is Ops.COPY:
        return ()
    read = {memory_below(_address(u)) for u in body.toposort() if u.op is Ops.LOAD}
    slots = {u.arg.slot for u in read if u.op is Ops.PARAM}
    return tuple(i for i in written(call) if i in slots)


def _address(access: UOp) -> UOp:
    """The memory that a STORE or a LOAD goes to."""
    target = access.src[0]
    return target.src[0] if target.op is Ops.INDEX else target


class BufferTable:
    """The buffers that kernels use, numbered by first use."""

    def __init__(self, calls: tuple[UOp, ...], recording: Recording):
        self.logical = _unplanned(recording, calls)
        self.number: dict[UOp, int] = {}
        for call in self.logical:
            for argument in call.src[1:]:
                self.number.setdefault(memory_below(argument), len(self.number))
        self.came = {new: old for old, new in recording.flow if new.op is Ops.PARAM and old.op is Ops.BUFFER}
        self.labels = {self.came.get(u, u): f"b{i}" for u, i in self.number.items()}
        self.written = {memory_below(c.src[1 + i]) for c in self.logical for i in written(c)}
        self.read_first = self._read_first()

    def _read_first(self) -> set[UOp]:
        """The memory whose old values some kernel reads."""
        found, seen = set[UOp](), set[UOp]()
        for call in self.logical:
            fresh = set(range(len(call.src) - 1)).difference(written(call)).union(updated(call))
            used = [memory_below(a) for a in call.src[1:]]
            found.update(u for i, u in enumerate(used) if i in fresh and u not in seen)
            seen.update(used)
        return found

    def of(self, k: int) -> tuple[int, ...]:
        """The arguments of kernel ``k``."""
        return tuple(self.number[memory_below(a)] for a in self.logical[k].src[1:])

    def describe(self, found: Described, ids: dict[UOp, int], names: dict[UOp, str], m: Memory) -> tuple[Buffer, ...]:
        """A :class:`Buffer` each."""
        placed = {p.buffer for p in m.placements}
        return tuple(self._describe(u, i in placed, found, ids, names) for u, i in self.number.items())

    def _describe(self, u: UOp, placed: bool, found: Described, ids: dict[UOp, int], names: dict[UOp, str]) -> Buffer:
        argument = "input" if u not in self.written else "state" if u in self.read_first else "output"
        memory = self.came.get(u, u)
        return Buffer(
            bytes=u.nbytes(),
            elements=int(u.size),
            dtype=u.dtype.name,
            device=str(u.device),
            role="intermediate" if placed else argument,
            name=found.named.get(u) or names.get(memory),
            node=ids.get(found.stored.get(u, memory)),
        )


@dataclass
class Described:
    """The kernels, and for each buffer the tensor-graph node whose value it is given, and what the user calls it."""

    kernels: tuple[Kernel, ...]
    stored: dict[UOp, UOp]
    named: dict[UOp, str]


def describe(
    calls: tuple[UOp, ...], buffers: BufferTable, recording: Recording, table: NodeTable, lines: LineTable
) -> Described:
    """The kernel table."""
    writes = provenance.cut_from(buffers.logical, recording.flow)
    found = provenance.follow(writes, recording.flow)
    tensor_graph = recording.graphs()
    _only_where_read(tensor_graph, found)
    inside: list[list[UOp]] = [[] for _ in calls]
    for u in table.id:
        if KIND_OF.get(u.op, "control") not in _ELSEWHERE:
            for k in found.kernels(u):
                inside[k].append(u)
    asked = set(tensor_graph)
    became = {data["write"]: data["became"] for kind, data in recording.events if kind == "kernel"}
    origins = functools.cache(lambda: provenance.origins(tensor_graph, recording.flow))
    linked = [
        functools.partial(_linked, became.get(write, {}), origins, inside[k], table) for k, write in enumerate(writes)
    ]
    moved = _moved(asked, recording.flow, found)
    values = [
        [u for u in inside[k] if u in asked or lines.is_inside_function(u)]
        or moved.get(k)
        or [origins()[u] for u in inside[k] if u in origins()]
        for k in range(len(calls))
    ]
    kernels = tuple(
        _kernel(call, k, inside[k], values[k], buffers, table, lines, linked[k]) for k, call in enumerate(calls)
    )
    kernels = tuple(_with_lines_of_source(kernel, kernels) for kernel in kernels)
    pairs = list(_stored(tensor_graph, found, buffers))
    stored = dict(pairs)
    for k, nodes in moved.items():
        for position in written(buffers.logical[k]):
            stored.setdefault(memory_below(buffers.logical[k].src[1 + position]), nodes[-1])
    named = {buffer: table.names[u] for buffer, u in (*stored.items(), *pairs) if u in table.names}
    return Described(kernels, stored, named)


def _with_lines_of_source(kernel: Kernel, kernels: tuple[Kernel, ...]) -> Kernel:
    """A copy that a pass made is there for the lines of what it copies."""
    if kernel.kind != "copy" or kernel.lines:
        return kernel
    makers = [k for k in kernels if k is not kernel and {k.buffers[w] for w in k.writes} & set(kernel.buffers[1:])]
    return replace(kernel, lines=makers[-1].lines) if makers else kernel


def _moved(asked: set[UOp], flow: list[tuple[UOp, UOp]], found: provenance.Provenance) -> dict[int, list[UOp]]:
    """Of each kernel the user's values that it writes; those that compute nothing, but only move, have nothing else."""
    nodes: dict[int, list[UOp]] = {}
    for old, new in flow:
        if old in asked and old.op is not Ops.AFTER and new.op is Ops.AFTER:
            for k in {k for store in new.src[1:] for k in provenance.numbers(found.computed.get(store, 0))}:
                nodes.setdefault(k, []).append(old)
    return nodes


def _only_where_read(tensor_graph: list[UOp], found: provenance.Provenance) -> None:
    """A movement op or a hint has no value of its own: it stands in those kernels with its source that read it."""
    read: dict[UOp, int] = {}
    for u in reversed(tensor_graph):
        table = found.reads if u in found.reads else found.computed
        bits = table.get(u, 0)
        if u.op in _MOVES and bits & read.get(u, 0):
            bits = table[u] = bits & read[u]
        for s in u.src:
            read[s] = read.get(s, 0) | bits


def _fills(u: UOp, memory: UOp) -> bool:
    """Whether a value has as many elements as some memory: a part of what is stored is not what is stored.

    On several devices each has all of it, or its part.
    """
    shape = u.maybe_shape
    if shape is None or any(not isinstance(n, int) for n in shape):
        return u.op not in _MOVES
    parts = len(u.device) if isinstance(u.device, tuple) else 1
    return math.prod(shape) in (memory.size, parts * memory.size)


def _stored(tensor_graph: list[UOp], found: provenance.Provenance, buffers: BufferTable) -> Iterator[tuple[UOp, UOp]]:
    """(buffer, node) pairs; of several nodes with the same value the last that computes something."""
    for u in sorted(tensor_graph, key=lambda u: u.op not in _MOVES):
        if KIND_OF.get(u.op, "control") in _ELSEWHERE:
            continue
        for k in provenance.numbers(found.stored.get(u, 0)):
            for position in written(buffers.logical[k]):
                memory = memory_below(buffers.logical[k].src[1 + position])
                if _fills(u, memory):
                    yield memory, u


def _kernel(
    call: UOp,
    k: int,
    inside: list[UOp],
    tensors: list[UOp],
    buffers: BufferTable,
    table: NodeTable,
    lines: LineTable,
    linked: Callable[[], Linked],
) -> Kernel:
    body = call.src[0]
    made_by = sorted({number for u in tensors for number in lines.add(u)})
    facts = facts_of(call)
    return Kernel.later(
        as_now(functools.partial(_texts, body, linked)),
        name=kernel_name(call) or "kernel",
        node=table.id[body],
        device=str(memory_below(buffers.logical[k].src[1]).device),
        kind="copy" if body.op is Ops.COPY else "kernel",
        buffers=buffers.of(k),
        writes=written(call),
        updates=updated(call),
        bytes_read=facts[0],
        bytes_written=facts[1],
        ops=facts[2],
        nodes=tuple(sorted(table.id[u] for u in inside)),
        lines=tuple(made_by),
        key=body.key.hex(),
    )


def _texts(body: UOp, linked: Callable[[], Linked]) -> dict[str, Any]:
    """The texts of a kernel, and what their lines compute."""
    lines = {"loops": loops_of(body), "program": program_of(body), "cuda": cuda_of(body)}
    texts: dict[str, Any] = {name: "\n".join(text for text, _ in of) for name, of in lines.items()}
    links = _links(body, lines, linked()) if body.op is Ops.SINK else None
    return {**texts, "program": texts["program"] or None, "links": links}


def _linked(
    became: dict[UOp, UOp], origins: Callable[[], dict[UOp, UOp]], inside: list[UOp], table: NodeTable
) -> Linked:
    """For the nodes of a kernel the number of the tensor-graph node that each computes, or computes a part of.

    A value that a kernel only reads, masked, comes from one as well: it is none of those ``inside``.
    """
    computed = ((new, _computed(old)) for old, new in reversed(became.items()))
    came = {new: origins()[u] for new, u in computed if u in origins() and not provenance.hands_on(u)}
    here = set(inside)
    return {new: table.id[u] for new, u in came.items() if u in here and not table.is_folded(u)}


def _computed(u: UOp) -> UOp:
    """What a node computes, or, where it writes, what it writes."""
    while u.op is Ops.STORE or (u.op is Ops.CAST and provenance.hands_on(u)):
        u = u.src[-1]
    return u


def _links(body: UOp, texts: dict[str, tuple[Line, ...]], linked: Linked) -> Links:
    """For each line of some texts the nodes of the tensor graph that it computes, or helps to compute."""
    order = body.toposort()
    near = {u: {linked[u]} if u in linked else set[int]() for u in order}
    for u in reversed(order):  # what only reads or moves values is part of what they are read for, ...
        for s in u.src:
            near[s] |= near[u] if s not in linked else set()
    for u in order:  # ... or, where nothing computes with them, of what they are
        near[u] = near[u].union(*(near[s] for s in u.src)) if not near[u] else near[u]

    def of(nodes: tuple[UOp, ...]) -> tuple[int, ...]:
        found = {linked[u] for u in nodes if u in linked}
        return tuple(sorted(found or set[int]().union(*(near.get(u, ()) for u in nodes))))

    return {name: tuple(of(nodes) for _, nodes in lines) for name, lines in texts.items()}


# ** what the run times say about a kernel; they are only loaded when there is a kernel to describe **


@functools.lru_cache(MOST_KERNELS)
def loops_of(body: UOp) -> tuple[Line, ...]:
    """The kernel as Python loops."""
    if body.op is not Ops.SINK:
        return ()
    from tinysched.runtime.loops import program_lines

    return _text(program_lines, body, "#")


def program_of(body: UOp) -> tuple[Line, ...]:
    """The program that runs on the host (NumPy, by default); none where the loops themselves do."""
    from tinysched.runtime import numba, tuning
    from tinysched.runtime.linear import BACKENDS, backend

    if body.op is not Ops.SINK or backend() is BACKENDS["loops"]:
        return ()
    return _program_of(body, backend(), tuning.opts_of(body), numba.CHOICES.get(body))


@functools.lru_cache(MOST_KERNELS)
def _program_of(body: UOp, *choices: Any) -> tuple[Line, ...]:
    """Remembered for as long as the choices are the same: the setting, options, what ``CPU=auto`` has found hot."""
    from tinysched.runtime.linear import program_lines

    return _text(program_lines, body, "#")


def cuda_of(body: UOp) -> tuple[Line, ...]:
    """The kernel as CUDA C, without its helpers: lines, and the nodes that each computes."""
    if body.op is not Ops.SINK:
        return ()
    from tinysched.runtime.cuda import program

    return _text(lambda kernel: program(kernel).lines, body, "//")


def _text(lines: Callable[[UOp], Iterable[Line]], body: UOp, comment: str) -> tuple[Line, ...]:
    """The lines of a kernel; where there is no program for it, why, and what to do about it, as a comment."""
    try:
        return tuple(lines(body))
    except (DTypeError, RunError) as e:
        return tuple((f"{comment} {text}", ()) for text in (e.what, e.help and f"help: {e.help}") if text)


def facts_of(call: UOp) -> tuple[int, int, int]:
    """Bytes read, bytes written, operations."""
    body = call.src[0]
    if body.op is not Ops.SINK:
        return call.src[2].nbytes(), call.src[1].nbytes(), 0
    from tinysched.runtime.cost import cost_of

    cost = cost_of(body)
    return cost.bytes_read, cost.bytes_written, cost.ops
