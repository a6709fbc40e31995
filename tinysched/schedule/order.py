"""Kernels in an order in which every read sees the state it means.

In: a SINK of ``AFTER(state, CALL...)`` nodes, where each CALL names the *states* it uses: a BUFFER or PARAM as it came,
or the AFTER that some kernel left. Out: ``LINEAR(CALL...)`` over plain buffers. :mod:`tinysched.schedule.hazards` finds
what must come before what; Kahn's algorithm puts the kernels in order, and a policy says which of those that could run
next does.

>>> from tinysched.ir.uop import ParamArg
>>> b = UOp.new_buffer("NUMPY", 4, dtypes.float32)
>>> r, p = UOp.range(4, 0), UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 4, "NUMPY"))
>>> def set_to(value): return UOp.sink(p.index(r).store(UOp.const(value, dtypes.float32)).end(r))
>>> one = b.after(set_to(1.0).call(b))
>>> two = one.after(set_to(2.0).call(one))
>>> linear = create_schedule(UOp.sink(two))
>>> [call.src[0] is set_to(v) for call, v in zip(linear.src, (1.0, 2.0))], linear.src[1].src[1] is b
([True, True], True)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tinysched.dtypes import dtypes
from tinysched.errors import ScheduleError
from tinysched.ir.lines import lines_of
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.text import expr
from tinysched.ir.uop import UOp
from tinysched.schedule.hazards import Hazards, Kind
from tinysched.schedule.policy import DEFAULT, Live, OrderPolicy, Ready


@dataclass(frozen=True, slots=True)
class Edge:
    """Kernel ``before`` runs before kernel ``after`` (positions in the LINEAR), for what both do to ``buffer``."""

    before: int
    after: int
    kind: Kind
    buffer: UOp


def create_schedule(sink: UOp, policy: OrderPolicy = DEFAULT.order) -> UOp:
    """The CALLs below ``sink`` as a LINEAR. Raises :class:`ScheduleError` where kernels wait for one another."""
    hazards = Hazards(sink)
    order = _in_order(hazards, policy)
    linear = UOp(Ops.LINEAR, dtypes.void, tuple(hazards.on_plain_buffers(k) for k in order))
    if (watcher := current_observer()) is not None:
        position = {k: i for i, k in enumerate(order)}
        edges = [Edge(position[a], position[b], kind, buffer) for a, b, kind, buffer in hazards.edges]
        if all(call.src[0].op is not Ops.FUNCTION for call in linear.src):  # else there are more kernels to come
            watcher.on_event("order", {"edges": sorted(edges, key=lambda e: (e.after, e.before))})
        for k, call in zip(order, linear.src, strict=True):
            watcher.on_replace(hazards.calls[k], call)
    return linear


def _in_order(hazards: Hazards, policy: OrderPolicy) -> list[int]:
    """Kahn's algorithm: of the kernels that wait for nobody any more, the policy takes one after the other."""
    followers: list[list[int]] = [[] for _ in hazards.calls]
    waiting = [0] * len(hazards.calls)
    for before, after, _, _ in hazards.edges:
        followers[before].append(after)
        waiting[after] += 1
    kernels = [Ready(k, name_of(call), hazards.buffers[k]) for k, call in enumerate(hazards.calls)]
    ready, live, order = deque(k for k in kernels if not waiting[k.kernel]), Live(hazards.buffers), list[int]()
    while ready:
        i = policy.pick(ready, live)
        if not 0 <= i < len(ready):
            raise ScheduleError(f"{policy!r} picked kernel {i} of {len(ready)}", help="pick a position in `ready`")
        kernel = ready[i]
        del ready[i]
        live.run(kernel)
        order.append(kernel.kernel)
        for k in followers[kernel.kernel]:
            waiting[k] -= 1
            if not waiting[k]:
                ready.append(kernels[k])
    if len(order) < len(kernels):
        raise _cycle(hazards, {k for k, n in enumerate(waiting) if n})
    return order


def name_of(call: UOp) -> str:
    """What a kernel is called: the name in its KernelInfo, or its op."""
    return str(getattr(call.src[0].arg, "name", call.src[0].op.name))


# ** the error **


class CycleError(ScheduleError):
    """Kernels that wait for one another. ``buffers``: memory that one of them overwrites and another still reads."""

    def __init__(self, what: str, *, where: str, help: str, buffers: tuple[UOp, ...]):
        super().__init__(what, where=where, help=help)
        self.buffers = buffers


def _cycle(hazards: Hazards, stuck: set[int]) -> ScheduleError:
    """The error for kernels that wait for one another; each of ``stuck`` waits for another of them."""
    waits_for = {edge[1]: edge for edge in hazards.edges if edge[0] in stuck and edge[1] in stuck}
    path, k = dict[int, None](), min(waits_for)
    while k not in path:
        path[k] = None
        k = waits_for[k][0]
    kernels = list(path)
    around = [waits_for[k] for k in reversed(kernels[kernels.index(k) :])]
    overwrites = [edge for edge in around if edge[2] == "WAR"]
    if len(overwrites) == 1 and len({edge[3] for edge in around}) == 1:
        reader, buffer = hazards.calls[overwrites[0][0]], expr(overwrites[0][3])
        what = f"{name_of(reader)} reads {buffer} in two states: as it was before a write, and as it is after it"
    else:
        names = [name_of(hazards.calls[edge[0]]) for edge in around]
        what = f"kernels wait for one another: {' -> '.join([*names, names[0]])}"
    return CycleError(
        what,
        where="; ".join(_sentence(hazards.calls[a], hazards.calls[b], kind, u) for a, b, kind, u in around),
        help="read the old value before the write, into memory of its own: contiguous() or clone()",
        buffers=tuple(dict.fromkeys(edge[3] for edge in overwrites)),
    )


def _sentence(before: UOp, after: UOp, kind: Kind, buffer: UOp) -> str:
    verb = {"RAW": "makes the {} that {} uses", "WAR": "reads {} before {} overwrites it", "WAW": "writes {} before {}"}
    return f"{_origin(before)} {verb[kind].format(_origin_of([buffer], expr(buffer)), _origin(after))} ({kind})"


def _origin(call: UOp) -> str:
    return _origin_of([call, call.src[0], *call.src[1:]], name_of(call))


def _origin_of(nodes: Iterable[UOp], name: str) -> str:
    """A name, and the first user line that is known for one of the nodes."""
    line = next((lines_of(u)[-1] for u in nodes if lines_of(u)), None)
    return name if line is None else f"{name} ({line}: {line.code})"
