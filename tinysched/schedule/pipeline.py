"""The order of the passes, as data, and the schedule cache.

In: a ``CALL(body, *arguments)`` from callify. Out: a LINEAR of kernels over real buffers and the memory plan. Every pass
is a function from graph to graph; :data:`PIPELINE` is the one place where their order stands.

>>> [s.name for s in PIPELINE.stages]
['prepare', 'rangeify', 'simplify', 'limit buffers', 'add buffers', 'split kernels', 'order']
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tinysched.errors import ArgumentError, ScheduleError
from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.observe import current_observer, watching
from tinysched.ir.pattern import PatternMatcher
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.symbolic import movement
from tinysched.ir.uop import UOp
from tinysched.schedule.copies import pm_copy_from_store
from tinysched.schedule.functions import sink_of
from tinysched.schedule.indexing import Overrides
from tinysched.schedule.kernels import pm_add_buffers, split_kernels
from tinysched.schedule.lineage import Following, Name, origin_of
from tinysched.schedule.memory import MemoryPlan, memory_plan_rewrite
from tinysched.schedule.once import NotByParts, Once
from tinysched.schedule.order import create_schedule
from tinysched.schedule.policy import DEFAULT, Policies, is_structural
from tinysched.schedule.prepare import prepare
from tinysched.schedule.rangeify import rangeify
from tinysched.schedule.resolve import flatten, fresh_memory, has_calls, is_same, resolve_linear_call
from tinysched.schedule.simplify import limit_buffers, simplify
from tinysched.settings import DEBUG, MAX_KERNEL_BUFFERS, NO_MEMORY_PLANNER, PCONTIG, SCACHE, Steering, steering_key


@dataclass(frozen=True)
class PassContext:
    """What passes may depend on besides the graph.

    ``overrides`` name nodes (:mod:`tinysched.schedule.lineage`). ``what_if``: the nodes that they mean once the graph is
    prepared for the walk. ``met``: the names whose origin was in one of the graphs.
    """

    policies: Policies = DEFAULT
    overrides: tuple[tuple[Name, str], ...] = ()
    buffer_limit: int = 0
    what_if: Overrides = field(default_factory=dict, compare=False)
    met: set[Name] = field(default_factory=set, compare=False)


Pass = Callable[[UOp, PassContext], UOp]


@dataclass(frozen=True)
class Stage:
    """One pass: its name, its function, and a paragraph for those who watch."""

    name: str
    fn: Pass
    doc: str


@dataclass(frozen=True)
class Pipeline:
    """Passes in order; a value, and part of the cache key."""

    stages: tuple[Stage, ...]

    def replace(self, stage: str, by: PatternMatcher | Pass) -> Pipeline:
        """The same passes, but ``stage`` is ``by``: a function of (graph, context), or rules that are applied to it.

        Raises :class:`ArgumentError` for a stage that does not exist.
        """
        if stage not in {s.name for s in self.stages}:
            names = ", ".join(s.name for s in self.stages)
            raise ArgumentError(f"there is no stage {stage!r}", help=f"the stages are {names}")
        fn = _apply(by, stage) if isinstance(by, PatternMatcher) else by
        return Pipeline(tuple(replace(s, fn=fn) if s.name == stage else s for s in self.stages))


def _apply(rules: PatternMatcher, name: str) -> Pass:
    return lambda sink, ctx: graph_rewrite(sink, rules, ctx, name=name)


def _prepare(sink: UOp, ctx: PassContext) -> UOp:
    if not ctx.overrides:
        return prepare(sink)
    with watching(following := Following(sink, current_observer())):
        graph = prepare(sink)
    ctx.what_if.update((u, what) for name, what in ctx.overrides for u in following.nodes(name))
    return graph


def _rangeify(sink: UOp, ctx: PassContext) -> UOp:
    return rangeify(sink, ctx.what_if)


def _simplify(sink: UOp, ctx: PassContext) -> UOp:
    return simplify(sink, ctx.policies.fusion)


def _limit(sink: UOp, ctx: PassContext) -> UOp:
    return limit_buffers(sink, ctx.buffer_limit)


def _add_buffers(sink: UOp, ctx: PassContext) -> UOp:
    return pm_add_buffers(sink)


def _split(sink: UOp, ctx: PassContext) -> UOp:
    return split_kernels(sink)


def _order(sink: UOp, ctx: PassContext) -> UOp:
    return pm_copy_from_store(create_schedule(sink, ctx.policies.order))


PIPELINE = Pipeline(
    (
        Stage("prepare", _prepare, "Hints go, movement ops merge, empty values are constants, large reductions split."),
        Stage(
            "rangeify",
            _rangeify,
            "Every axis gets a loop variable and movement ops become arithmetic on it. Readers come first: a value with "
            "one reader, or with readers that loop alike, is computed where it is read; the others are stored.",
        ),
        Stage(
            "simplify",
            _simplify,
            "Algebra, sums that are arithmetic, and candidate buffers that are cheaper to compute again than to store.",
        ),
        Stage("limit buffers", _limit, "Kernels that would take more buffers than the device allows are cut."),
        Stage(
            "add buffers", _add_buffers, "Each candidate buffer that stayed becomes memory that is written and read."
        ),
        Stage("split kernels", _split, "Each closed write becomes a kernel: its program and the buffers it works on."),
        Stage("order", _order, "Kernels in an order in which every read sees the value it means."),
    )
)


# ** what repeats is done once **

_BY_PARTS = PIPELINE.stages[1:-1]


def _by_parts(sink: UOp, ctx: PassContext) -> UOp:
    """The passes from rangeify to split kernels: equal parts of the graph go through their rules once."""
    if is_structural(ctx.policies.fusion) and not PCONTIG:
        limit = MAX_KERNEL_BUFFERS.value or ctx.buffer_limit
        try:
            return Once(sink, ctx.policies.fusion, ctx.what_if, limit).run()
        except NotByParts:
            pass
    for stage in _BY_PARTS:
        sink = stage.fn(sink, ctx)
    return sink


def _unwatched(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Stages as they run if nobody watches: those that are done by parts are one, where none was replaced."""
    n = len(_BY_PARTS)
    at = next((i for i in range(len(stages)) if stages[i : i + n] == _BY_PARTS), None)
    return stages if at is None else (*stages[:at], Stage("by parts", _by_parts, ""), *stages[at + n :])


# ** the schedule cache **


@dataclass(frozen=True)
class Schedule:
    """A LINEAR over PARAMs and numbered intermediates, with its memory plan: what the cache keeps."""

    linear: UOp
    memory: MemoryPlan

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the Variables that kernels read."""
        kernels = dict.fromkeys([call.src[0] for call in self.linear.src])
        return frozenset([str(v.arg.name) for kernel in kernels for v in kernel.variables()])


MOST_SCHEDULES = 1024
schedule_cache: OrderedDict[Any, Schedule] = OrderedDict()
function_cache: OrderedDict[Any, UOp] = OrderedDict()
"""The LINEARs of precompiled functions."""


def remember(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Adds an entry; the oldest goes where there are too many."""
    cache[key] = value
    while len(cache) > MOST_SCHEDULES:
        cache.popitem(last=False)


@dataclass(frozen=True)
class CacheKey:
    """Everything that steers scheduling. ``body`` is compared by identity: equal graphs are the same node."""

    body: UOp
    policies: Policies
    pipeline: Pipeline
    overrides: tuple[tuple[Name, str], ...]
    buffer_limit: int
    settings: Steering = field(default_factory=steering_key)

    def differs_from(self, other: CacheKey) -> tuple[str, ...]:
        """The names of the parts in which two keys differ."""
        return tuple(n for n in self.__dataclass_fields__ if getattr(self, n) != getattr(other, n))


def lower_sink_to_linear(body: UOp, ctx: PassContext, pipeline: Pipeline = PIPELINE) -> tuple[Schedule, bool]:
    """The schedule of a body, from the cache where it is there. The second value says whether it was."""
    key = CacheKey(body, ctx.policies, pipeline, ctx.overrides, ctx.buffer_limit)
    started = time.perf_counter()
    known = schedule_cache.get(key) if SCACHE else None
    watcher = current_observer()
    if watcher is not None:
        outcome = "off" if not SCACHE else "miss" if known is None else "hit"
        watcher.on_event("cache", {"outcome": outcome, "key": body.key.hex(), "steered by": key})
        _explain_cache(body, key, known is not None)
    if known is not None and watcher is None:
        schedule_cache.move_to_end(key)
        _debug(known, True, started, body)
        return known, True
    schedule = run_pipeline(body, ctx, pipeline)
    if known is not None and not is_same(known.linear, schedule.linear):  # who watches sees it made again
        raise ScheduleError(
            "the same graph was scheduled otherwise before, under the same settings",
            help="a pass or a policy depends on more than the graph and its context; clear_caches() forgets what was before",
        )
    if SCACHE:
        remember(schedule_cache, key, schedule)
    _debug(schedule, known is not None, started, body)
    return schedule, known is not None


def _explain_cache(body: UOp, key: CacheKey, hit: bool) -> None:
    if hit:
        return decide(body, "callify", Verdict.CACHED, Reason.CACHE_HIT)
    near = next((k for k in schedule_cache if k.body is body), None)
    facts = (("differs in", key.differs_from(near)),) if near is not None else ()
    return decide(body, "callify", Verdict.SCHEDULED, Reason.CACHE_MISS, Values(facts))


def run_pipeline(body: UOp, ctx: PassContext, pipeline: Pipeline = PIPELINE) -> Schedule:
    """All passes over ``body``, the kernels of the functions that it calls, then the memory plan.

    Raises :class:`ArgumentError` for an override of what is in none of these graphs.
    """
    watcher = current_observer()
    graph = run_stages(body, ctx, pipeline, {})
    if strange := [name for name, _ in ctx.overrides if name not in ctx.met]:
        raise ArgumentError(
            f"an override names {origin_of(strange[0])!r}, which is not part of callify's body, nor of a function's",
            help="take a node of plan(...).call.src[0], or capture the program and override a name, a line or an id",
        )
    if watcher is not None:
        watcher.on_stage(
            "memory", "Intermediates share one arena per device: each lies where the dead ones were.", graph
        )
    linear, plan = memory_plan_rewrite(graph, (), ctx.policies.memory, bool(NO_MEMORY_PLANNER))
    if watcher is not None:
        watcher.on_stage_end("memory", linear)
    return Schedule(linear, plan)


def run_stages(body: UOp, ctx: PassContext, pipeline: Pipeline, scheduled: dict[UOp, UOp], name: str = "") -> UOp:
    """The LINEAR of a body, with those of the functions that it calls in place of the calls.

    ``scheduled``: the bodies of functions that have their LINEAR already; ``name``: of the function whose body it is.
    """
    watcher = current_observer()
    graph = body
    if ctx.overrides:
        inside = set(body.toposort())
        ctx.met.update(name for name, _ in ctx.overrides if origin_of(name) in inside)

    def resolve(linear: UOp, ctx: PassContext) -> UOp:
        return flatten(linear, lambda call: linear_of_call(call, ctx, pipeline, scheduled))

    last = Stage("resolve", resolve, "Calls of functions become the kernels of their bodies.")
    stages = pipeline.stages if watcher is not None else _unwatched(pipeline.stages)
    for stage in (*stages, last):
        if stage is last and not has_calls(graph):
            break
        if watcher is not None:
            watcher.on_stage(name + stage.name, stage.doc, graph)
        try:
            graph = stage.fn(graph, ctx)
        except Exception as error:
            error.add_note(f"in the pass {name}{stage.name}")
            raise
        if watcher is not None:
            watcher.on_stage_end(name + stage.name, graph)
    return graph


def linear_of_call(call: UOp, ctx: PassContext, pipeline: Pipeline, scheduled: dict[UOp, UOp]) -> UOp:
    """The LINEAR of a function's body: made once, however often the function is called."""
    sink = sink_of(call)
    if (watcher := current_observer()) is not None:
        watcher.on_event("body", {"call": call, "body": sink})
    ctx = replace(ctx, what_if={})
    key = CacheKey(sink, ctx.policies, pipeline, ctx.overrides, ctx.buffer_limit)
    known = scheduled.get(sink)
    cached = SCACHE and watcher is None and not ctx.overrides  # who watches sees every function scheduled once
    if known is None and cached:
        known = function_cache.get(key)
    if known is None:
        started = time.perf_counter()
        known = run_stages(sink, ctx, pipeline, scheduled, f"{call.src[0].arg.name}: ")
        if SCACHE and not ctx.overrides:
            remember(function_cache, key, known)
        if DEBUG.value >= 2:
            ms = (time.perf_counter() - started) * 1e3
            print(f"scheduled {len(known.src):5d} kernels in {ms:8.2f} ms | body of {call.src[0].arg.name}")
    scheduled[sink] = known
    return known


def _debug(schedule: Schedule, hit: bool, started: float, body: UOp) -> None:
    if DEBUG.value >= 3 or (DEBUG.value >= 1 and len(schedule.linear.src) > 1):
        from tinysched.ir.lines import user_frame
        from tinysched.ir.uop import interned_count

        frame = user_frame()
        place = f" | {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
        ms = (time.perf_counter() - started) * 1e3
        print(
            f"scheduled {len(schedule.linear.src):5d} kernels in {ms:8.2f} ms | {' cache hit' if hit else 'CACHE MISS'}"
            f" {body.key.hex()[:8]} | {interned_count():7d} uops alive{place}"
        )


def clear_caches() -> None:
    """Empties the schedule cache and every memo of the schedule layer."""
    schedule_cache.clear()
    function_cache.clear()
    movement.forget()


# ** real buffers **


def create_linear_with_vars(
    call: UOp, ctx: PassContext | None = None, pipeline: Pipeline = PIPELINE
) -> tuple[UOp, MemoryPlan]:
    """A call's kernels over real buffers, and where its intermediates lie."""
    schedule, _ = lower_sink_to_linear(call.src[0], ctx or PassContext(), pipeline)
    return resolve_linear_call(schedule.linear, call.src[1:], fresh_memory), schedule.memory
