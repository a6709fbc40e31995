"""What if: a trace's schedule made again by the real scheduler, with decisions, settings or policies changed.

In: a trace (a loaded one will do) and what to change. Out: another trace, whose nodes up to callify's body have the same
ids. Nothing runs and no cache is asked.

An override maps a value to "realize" (it gets a buffer that stays) or "fuse" (it is computed in each of its readers,
whatever that costs). The value is named by a node's id (of any stage: values that prepare made can be overridden too), by
the name of a Tensor, or by a line of the program ("model.py:7": every value of that line). What cannot be is refused with
the reason.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
>>> y = x * 2
>>> trace = capture(y.sum(), inputs={"y": y})
>>> [len(t.schedules[0].kernels) for t in (trace, trace.with_overrides({"y": "realize"}))]
[1, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tinysched.errors import ArgumentError, TinyschedError, TraceError
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.rewrite import rebuild
from tinysched.ir.uop import UOp
from tinysched.schedule import pipeline as P
from tinysched.schedule.lineage import Name, renamed
from tinysched.schedule.memory import MemoryPlan
from tinysched.schedule.planners import Greedy, NoPlan, Smallest, Tlsf
from tinysched.schedule.policy import AllLegal, BreadthFirst, Eager, MemoryAware, Policies, Upstream
from tinysched.settings import SETTINGS, Context
from tinysched.trace.build import build_again
from tinysched.trace.document import Schedule
from tinysched.trace.made import from_text
from tinysched.trace.rebuild import STARTS, Rebuilt
from tinysched.trace.recorder import Recorder, Recording, StageRecord
from tinysched.trace.targets import notes, resolve
from tinysched.trace.trace import Trace

_POLICIES: dict[str, Any] = {
    repr(p): p
    for p in (
        Upstream(), Eager(), AllLegal(), BreadthFirst(), MemoryAware(), Smallest(), Greedy(), Tlsf(), NoPlan(),
        *(Upstream(n) for n in range(65)),
    )
}  # fmt: skip
"""The policies that a file can name."""


@dataclass(frozen=True)
class Changes:
    """What is different this time.

    ``edit`` changes the program: nodes of callify's body become others. ``forget``: the overrides that the schedule had.
    ``partly``: a pass may die, and what was recorded until then is wanted.
    """

    overrides: Mapping[Any, str] | None = None
    settings: Mapping[str, int | str] | None = None
    policies: Policies | None = None
    pipeline: P.Pipeline | None = None
    edit: Callable[[Rebuilt], dict[UOp, UOp]] | None = None
    forget: bool = False
    partly: bool = False


@dataclass(frozen=True)
class Again:
    """A schedule made again: the trace, and the LINEAR over PARAMs, which can be run on any memory.

    ``died``: what a pass raised, where that was asked for; then there is no schedule, and the trace ends before that.
    """

    trace: Trace
    schedule: P.Schedule
    body: UOp
    recording: Recording
    start: Rebuilt
    died: Exception | None = None


def again(trace: Trace, changes: Changes | None = None, which: int = -1) -> Again:
    """Schedules once more what the schedule ``which`` started from. Raises :class:`ArgumentError` for what cannot be."""
    changes = changes or Changes()
    if not trace.schedules:
        raise ArgumentError(f"{trace.title!r} has no schedules", help="capture something that is computed")
    which %= len(trace.schedules)
    if trace.live is not None:
        return _again(trace, changes, which)
    try:
        return _again(trace, changes, which)
    except TinyschedError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError, OverflowError) as error:
        raise TraceError(f"this trace cannot be scheduled again: {error}", help="the file is damaged") from error


def _again(trace: Trace, changes: Changes, which: int) -> Again:
    s = trace.schedules[which]
    start = Rebuilt(s, trace.lines)
    ctx = P.PassContext(
        changes.policies or policies_of(trace, s), _overrides(trace, s, start, changes), s.choices.buffer_limit
    )
    became = changes.edit(start) if changes.edit is not None else {}
    body = rebuild(start.body, became)
    passes = changes.pipeline or _pipeline_of(trace, s)
    recorder, schedule, died = Recorder(_told_before(s, start, became)), P.Schedule(body, MemoryPlan()), None
    with _settings(s, changes.settings), watching(recorder):
        key = P.CacheKey(body, ctx.policies, passes, ctx.overrides, ctx.buffer_limit)
        recorder.on_event("cache", {"outcome": "off", "key": body.key.hex(), "steered by": key})
        try:
            schedule = P.run_pipeline(body, ctx, passes)
        except Exception as error:
            if not changes.partly:
                raise
            died = error
    recording = recorder.recordings(changes.partly)[0]
    made, died = _built(trace, which, recording, start, died, changes.partly)
    if trace.live is not None:  # what steered this schedule steers it when it is made again
        steered = replace(trace.live, policies=ctx.policies, pipeline=passes)
        object.__setattr__(made, "live", steered)
    if changes.overrides and (said := notes(trace, s, changes.overrides)):
        schedules = list(made.schedules)
        schedules[which] = replace(schedules[which], choices=replace(schedules[which].choices, notes=said))
        made = made.changed(schedules=tuple(schedules))
    return Again(made, schedule, body, recording, start, died)


def _built(
    trace: Trace, which: int, recording: Recording, start: Rebuilt, died: Exception | None, partly: bool
) -> tuple[Trace, Exception | None]:
    """The trace of what was recorded; ``partly``: without kernels where they are so wrong that nothing describes them."""
    try:
        return build_again(trace, which, recording, start), died
    except Exception as error:
        if not partly:
            raise
        told = replace(recording, stages=[s for s in recording.stages if s.end.op is not Ops.LINEAR])
        made = build_again(trace, which, told, start)
        recording.ids = told.ids
        return made, died or error


def with_overrides(trace: Trace, overrides: Mapping[Any, str], which: int = -1) -> Trace:
    """The trace of the same computation with other decisions; see the module."""
    return again(trace, Changes(overrides=overrides), which).trace


def _overrides(trace: Trace, s: Schedule, start: Rebuilt, changes: Changes) -> tuple[tuple[Name, str], ...]:
    """Those the schedule had, and the new ones."""
    had = {} if changes.forget else s.choices.overrides or {}
    before = {name: what for text, what in had.items() if (name := from_text(text)) is not None}
    names = before | resolve(trace, s, changes.overrides or {})
    return tuple((renamed(name, start.node), what) for name, what in names.items())


@contextmanager
def _settings(s: Schedule, changes: Mapping[str, int | str] | None) -> Iterator[None]:
    """The settings that the schedule was made under, and the changes; those that steer nothing stay as they are."""
    plain = {name: setting.default for name, setting in SETTINGS.items() if setting.steers}
    with Context(**{**plain, **(s.choices.settings or {}), **(changes or {})}):
        yield


def policies_of(trace: Trace, s: Schedule) -> Policies:
    """The policies a schedule was made with. Raises :class:`TraceError` for those of a file that are not our own."""
    if trace.live is not None and trace.live.policies is not None:
        return trace.live.policies  # type: ignore[no-any-return]
    names = {"fusion": s.choices.fusion, "order": s.choices.order, "memory": s.choices.memory}
    for name in names.values():
        if name and name not in _POLICIES:
            raise TraceError(f"{name:.60} is a policy of somebody's own", help="give it again, as policies=")
    return Policies(**{kind: _POLICIES[name] for kind, name in names.items() if name})


def _pipeline_of(trace: Trace, s: Schedule) -> P.Pipeline:
    if trace.live is not None and trace.live.pipeline is not None:
        return trace.live.pipeline  # type: ignore[no-any-return]
    if s.choices.stages:
        raise TraceError(
            f"the stages {', '.join(s.choices.stages)} were somebody's own", help="give them again, as pipeline="
        )
    return P.PIPELINE


def _told_before(s: Schedule, start: Rebuilt, became: dict[UOp, UOp]) -> Recording:
    """The first stages as they were told: they happen only once. (``became``: how the program was edited.)"""
    found = Recording()
    for stage in s.stages[:STARTS]:
        replaced = [(start.uops[a], start.uops[b], position) for a, b, position in stage.replaced]
        steps: list[Any] = [("decision", d) for d in start.decided(stage)]
        root, end = start.uops[stage.root], start.uops[stage.end]
        found.stages.append(StageRecord(stage.name, stage.doc, root, end, steps, replaced))
        found.flow += [(a, b) for a, b, _ in replaced]
    edited = [(a, b) for a, b in became.items() if a is not b]
    last = found.stages[-1]
    last.end = became.get(last.end, last.end)
    last.replaced += [(a, b, len(last.steps)) for a, b in edited]
    found.flow += edited
    return found
