"""Planning: what realizing some Tensors would run. Asking is free: no value, no Tensor and no later plan changes.

In: Tensors. Out: a :class:`Plan`. Where a kernel would need a buffer before and after a write, or where kernels wait for
one another, the write goes to fresh memory and the plan is made again.

>>> from tinysched import Tensor
>>> x = Tensor([[1.0, 2.0, 3.0]])
>>> p = plan((x * 2).sum())
>>> len(p.linear.src), p.var_vals
(1, {})
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tinysched.engine.outcome import Outcome, write_depth
from tinysched.engine.recall import Scheduled, keep, recipes, structure_of
from tinysched.errors import DTypeError, ScheduleError
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import memories
from tinysched.ir.uop import UOp
from tinysched.runtime.device import Device
from tinysched.schedule.callify import Asked, asked_graph, graph_of, look_around, transform_to_call
from tinysched.schedule.kernels import TwoStates
from tinysched.schedule.memory import MemoryPlan
from tinysched.schedule.pipeline import PIPELINE, PassContext, Pipeline, lower_sink_to_linear
from tinysched.schedule.policy import DEFAULT, Policies
from tinysched.schedule.resolve import fresh_memory, resolve_linear_call
from tinysched.settings import DEBUG, SCACHE
from tinysched.tensor.core import Tensor
from tinysched.tensor.storage import Storage

MOST_ATTEMPTS = 64
"""Each attempt gives one more write fresh memory; a graph that needs more than this is reported."""


@dataclass(frozen=True)
class Plan:
    """What realizing some Tensors would run: kernels over real buffers, and what their outcome will mean.

    ``outcome`` says which Tensors the plan was made for and where their values will be.
    """

    linear: UOp
    var_vals: Mapping[str, int]
    memory: MemoryPlan
    body: UOp
    args: tuple[UOp, ...]
    outcome: Outcome

    @property
    def call(self) -> UOp:
        """callify's CALL: the body and its arguments."""
        return self.body.call(*self.args)

    @property
    def buffer_map(self) -> Mapping[UOp, UOp]:
        """A node of the user's graph -> where its value will be."""
        return self.outcome.buffer_map


# ** planning **


@contextmanager
def collector_paused() -> Iterator[None]:
    """Graphs, traces and documents are acyclic and freed by reference counts; the cycle collector would walk them again
    and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def plan(
    *tensors: Tensor,
    policies: Policies | None = None,
    pipeline: Pipeline | None = None,
    overrides: Mapping[Any, str] | None = None,
) -> Plan:
    """What realizing ``tensors`` together would run. Changes no value, no Tensor and no later plan.

    ``overrides`` map nodes of callify's body, or what rules make of them ((node, rule, ordinal), see
    :mod:`tinysched.schedule.lineage`) to "realize" or "fuse". Raises :class:`ScheduleError` where no order exists, and
    :class:`ArgumentError` for an override of what is not part of the graph.
    """
    for t in tensors:
        if not isinstance(t, Tensor):
            raise DTypeError(f"only Tensors can be planned, not a {type(t).__name__}", help="Tensor(...) makes one")
    storages = list(dict.fromkeys([t.storage for t in tensors]))
    usual = policies is None and pipeline is None and not overrides
    if usual and SCACHE and not DEBUG and current_observer() is None:
        return _to_run(storages, _recalled(storages))
    ctx = PassContext(policies or DEFAULT, tuple((overrides or {}).items()))
    return _to_run(storages, _scheduled(storages, ctx, pipeline or PIPELINE))


def _to_run(storages: list[Storage], made: Scheduled) -> Plan:
    body, args, schedule, buffer_map, var_vals = made
    linear = resolve_linear_call(schedule.linear, args, fresh_memory)
    if var_vals:
        var_vals = {name: value for name, value in var_vals.items() if name in schedule.variables}
    outcome = Outcome(buffer_map, tuple([(s, s.uop, s.writes) for s in storages]), frozenset(args))
    linear._plan = outcome  # so that run_linear(linear) knows what it computes
    return Plan(linear, var_vals, schedule.memory, body, args, outcome)


def _recalled(storages: list[Storage]) -> Scheduled:
    """What was scheduled for an equal graph, over this one's memory; where there was none, this one is scheduled."""
    device = Device.DEFAULT
    graph = structure_of(storages, device)
    recipe = recipes.get(graph.key)
    if recipe is not None:
        recipes.move_to_end(graph.key)
        return recipe.over(graph)
    around = graph.around or look_around(storages, graph.order, device)
    made = _scheduled(storages, PassContext(), PIPELINE, around)
    keep(graph, made)
    return made


def _scheduled(storages: list[Storage], ctx: PassContext, pipeline: Pipeline, around: Asked | None = None) -> Scheduled:
    """What callify and the passes make of what is asked for."""
    with collector_paused():  # as a decorator it would be taken for the user's line (test_debug)
        return _attempts(storages, ctx, pipeline, around)


def _attempts(storages: list[Storage], ctx: PassContext, pipeline: Pipeline, around: Asked | None) -> Scheduled:
    device = Device.DEFAULT
    watcher = current_observer()
    if watcher is not None:
        asked = graph_of([s.uop for s in storages])[-1]
    around = around or look_around(storages, asked_graph(storages), device)
    fresh: frozenset[UOp] = frozenset()
    for _ in range(MOST_ATTEMPTS):
        if watcher is not None:
            watcher.on_stage("callify", str(transform_to_call.__doc__).splitlines()[0], asked)
        call, buffer_map, var_vals = transform_to_call(around, device=device, fresh=fresh)
        if watcher is not None:
            watcher.on_stage_end("callify", call.src[0])
        try:
            schedule, _ = lower_sink_to_linear(call.src[0], replace(ctx, what_if={}, met=set()), pipeline)
        except ScheduleError as error:
            more = _writes_to_free(error, call, buffer_map, fresh)
            if not more:
                raise
            fresh |= more
            continue
        return Scheduled(call.src[0], call.src[1:], schedule, buffer_map, var_vals)
    raise ScheduleError("no order of the kernels was found", help="realize some of the values before writing to them")


def _writes_to_free(
    error: ScheduleError, call: UOp, buffer_map: Mapping[UOp, UOp], fresh: frozenset[UOp]
) -> frozenset[UOp]:
    """The writes of the user's graph that should go to fresh memory too, so that old and new states can both be read."""
    needed = [error.memory] if isinstance(error, TwoStates) else getattr(error, "buffers", ())
    real = {call.src[1:][m.arg.slot] for m in needed if m.op is Ops.PARAM}
    writes = [n for n, place in buffer_map.items() if n.op is Ops.AFTER and not real.isdisjoint(memories(place))]
    writes.sort(key=write_depth)
    left = [w for w in writes if w not in fresh]
    if isinstance(error, TwoStates):  # the write that follows the older of the two states is enough
        depth = min(write_depth(s) for s in error.states)
        following = [w for w in writes[max(depth - 1, 0) : depth + 1] if w in left]
        return frozenset(following[-1:] or left)
    return frozenset(left)
