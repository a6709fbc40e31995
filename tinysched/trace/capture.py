"""Capture: the real scheduler at work, watched.

In: a Tensor, several, or a function without arguments that returns Tensors. Out: a :class:`Trace`. A function's own
realizes happen as they would anyway and are recorded, one schedule each; what it returns is planned and no more, unless
``run`` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinysched.engine import Plan, plan, run_linear
from tinysched.errors import ArgumentError
from tinysched.ir.lines import user_frame
from tinysched.ir.observe import watching
from tinysched.ir.uop import UOp
from tinysched.schedule.lineage import renamed
from tinysched.tensor.core import Tensor
from tinysched.trace.build import build
from tinysched.trace.names import called, names_in, title_of
from tinysched.trace.progress import shown
from tinysched.trace.recorder import Recorder
from tinysched.trace.targets import resolve
from tinysched.trace.trace import Trace, view
from tinysched.trace.values import run_of

Traced = Tensor | Iterable[Any] | Callable[[], Any]


@dataclass
class Captured:
    """A trace, and the plan of its last schedule, which can be run. (The plan keeps memory alive; a trace does not.)"""

    trace: Trace
    plan: Plan | None

    def run(self, values: Any = True) -> Trace:
        """Runs the plan, commits its values, and returns the trace with times and the values asked for."""
        if self.plan is None or not self.trace.schedules:
            return self.trace
        *others, last = self.trace.schedules
        done = run_of(last, self.plan, values, run_linear)
        self.trace = self.trace.changed(schedules=(*others, replace(last, run=done)))
        return self.trace


def capture(
    x: Traced,
    *,
    inputs: Mapping[str, Tensor] | None = None,
    run: bool = False,
    values: Any = (),
    flips: str = "none",
    policies: Any = None,
    pipeline: Any = None,
    overrides: Mapping[Any, str] | None = None,
    title: str | None = None,
) -> Trace:
    """What scheduling ``x`` does, as data. Nothing is computed that would not be anyway.

    ``inputs`` names Tensors (those in the caller's variables are found by themselves). ``run=True`` runs the plan too, for
    times; ``values`` are the names of intermediates to keep, or True for all. ``policies``, ``pipeline`` and ``overrides``
    are those of :func:`tinysched.plan`; an override may also name a Tensor or a line (:mod:`tinysched.trace.whatif`).
    ``flips="boundaries"`` also schedules again with each stored value fused, so that the trace can say what that would
    give. Raises :class:`ArgumentError` for what is no Tensor.
    """
    if flips not in ("none", "boundaries"):
        raise ArgumentError(f"flips={flips!r} is not known", help="flips='none' or flips='boundaries'")
    choices = {"policies": policies, "pipeline": pipeline, "overrides": overrides}
    with shown():
        captured = watch(x, inputs, title, choices)
        trace = captured.run(values) if run else captured.trace
        return view("flips")(trace) if flips != "none" else trace


def watch(x: Traced, inputs: Mapping[str, Tensor] | None, title: str | None, choices: Mapping[str, Any]) -> Captured:
    """Captures ``x`` and keeps the plan."""
    frame = user_frame()
    names = names_in(frame, inputs)
    title = title or title_of(x, frame)
    recorder = Recorder()
    own: dict[UOp, str] = {}
    with watching(recorder):
        if callable(x) and not isinstance(x, Tensor):
            x, inside = called(x)
            own = names_in(inside, {})
            if inside is not None:
                inside.clear()  # what only the function held is let go before it is planned
        tensors = tensors_of(x)
        how = {k: v for k, v in choices.items() if k != "overrides"}
        before = len(recorder.told)
        planned = plan(*tensors, **how) if tensors else None
    names = {**names_in(frame, {}), **own, **names}  # a realize gives Tensors other nodes: both carry the name
    for t in tensors:
        if t.name:
            names[t.uop] = t.name
    trace = build(title, recorder.told, names)
    overrides = choices.get("overrides")
    if overrides and planned is not None:
        found = resolve(trace, trace.schedules[-1], overrides)
        nodes = {i: u for u, i in trace.live.nodes[-1].items()}
        with watching(again := Recorder()):
            planned = plan(
                *tensors, **how, overrides={renamed(i, nodes.__getitem__): what for i, what in found.items()}
            )
        trace = build(title, [*recorder.told[:before], *again.told], names)
    trace.live.policies, trace.live.pipeline = choices.get("policies"), choices.get("pipeline")
    return Captured(trace, planned)


def tensors_of(x: Any) -> tuple[Tensor, ...]:
    """The Tensors that ``x`` is or holds. Raises :class:`ArgumentError` for anything else (None is no Tensor at all)."""
    if x is None:
        return ()
    if isinstance(x, Tensor):
        return (x,)
    if isinstance(x, Mapping):
        x = x.values()
    if isinstance(x, Iterable) and not isinstance(x, (str, bytes)):
        return tuple(t for part in x for t in tensors_of(part))
    raise ArgumentError(
        f"a {type(x).__name__} cannot be captured",
        help="give a Tensor, several, or a function without arguments that returns Tensors",
    )
