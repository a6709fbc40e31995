"""Writes down what the engine tells, as cheaply as it can: a tuple per event, and the nodes themselves.

In: the calls of the :class:`~tinysched.ir.observe.Observer` protocol. Out: :class:`Recording` values, one per schedule,
which ``build`` turns into a trace once the engine is done. Nothing is formatted while the engine runs.

>>> from tinysched import Tensor, plan
>>> from tinysched.ir.observe import watching
>>> recorder = Recorder()
>>> with watching(recorder):
...     _ = plan(Tensor([1.0, 2.0]) * 3)
>>> [stage.name for stage in recorder.recordings()[0].stages][:3]
['tensor graph', 'callify', 'prepare']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.trace.progress import report

if TYPE_CHECKING:
    from tinysched.ir.decision import Decision
    from tinysched.ir.pattern import Rule

FIRST_STAGE = "callify"
ASKED = "tensor graph", "What was asked for, as the program wrote it. Nothing is computed yet."
"""The stage before the first: the graph that the first starts from."""
Told = tuple[Any, ...]
"""An event: its kind, then what it told."""


@dataclass
class StageRecord:
    """A pass as it was told; ``replaced`` holds (old, new, steps told before), ``calls`` those whose body it begins with."""

    name: str
    doc: str
    root: UOp
    end: UOp
    steps: list[Told] = field(default_factory=list)
    replaced: list[tuple[UOp, UOp, int]] = field(default_factory=list)
    calls: list[UOp] = field(default_factory=list)
    ended: bool = False


@dataclass
class Recording:
    """One schedule as it was told. ``events`` are those that belong to no graph (cache, placement, order, run)."""

    stages: list[StageRecord] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    flow: list[tuple[UOp, UOp]] = field(default_factory=list)  # every (old, new), in the order of events
    ids: dict[UOp, int] = field(default_factory=dict)  # the number of each node, once the trace is written down

    def graphs(self) -> list[UOp]:
        """What the program wrote: the tensor graph and the bodies of functions scheduled on their own, sources first."""
        roots = [stage.root for stage in self.stages if stage is self.stages[0] or stage.calls]
        return list(dict.fromkeys(u for root in roots for u in root.toposort()))


class Recorder:
    """An Observer that appends tuples. ``start``: what a schedule that is made again has told before."""

    def __init__(self, start: Recording | None = None) -> None:
        self.start = start
        self.told: list[Told] = []
        self.stages = 0
        self._tell = self.told.append

    def on_stage(self, name: str, doc: str, root: UOp) -> None:
        self._tell(("stage", name, doc, root))
        self.stages += 1
        report(f"scheduling: {name}", self.stages, 0)

    def on_stage_end(self, name: str, root: UOp) -> None:
        self._tell(("end", name, root))

    def on_rewrite(self, rule: Rule, before: UOp, after: UOp) -> None:
        self._tell(("rewrite", rule, before, after))

    def on_replace(self, before: UOp, after: UOp) -> None:
        self._tell(("replace", before, after))

    def on_index(self, rule: str, doc: str, x: Any, d: int, result: Any) -> None:
        self._tell(("index", rule, doc, x, d, result))

    def on_decision(self, decision: Decision) -> None:
        self._tell(("decision", decision))

    def on_event(self, kind: str, data: dict[str, Any]) -> None:
        self._tell(("event", kind, data))

    def recordings(self, partly: bool = False) -> list[Recording]:
        """One recording per schedule, in the order they were made; ``partly``: also of those that did not end."""
        return sort(self.told, self.start, partly)


def sort(told: Iterable[Told], start: Recording | None = None, partly: bool = False) -> list[Recording]:
    """One recording per schedule, in the order they were made."""
    found = _Sorter(start).sort(told)
    return [r for r in found if r.stages and (partly or r.stages[-1].end.op is Ops.LINEAR)]


class _Sorter:
    """Hands each event to the stage that was open when it was told."""

    def __init__(self, start: Recording | None) -> None:
        self.found: list[Recording] = [] if start is None else [start]
        self.open: list[StageRecord] = []
        self.index: list[Told] = []
        self.bodies: dict[UOp, list[UOp]] = {}
        """Of the bodies of functions the CALLs that they are told to be of."""

    def sort(self, told: Iterable[Told]) -> list[Recording]:
        for event in told:
            getattr(self, "_" + event[0])(*event[1:])
        return self.found

    @property
    def current(self) -> Recording:
        if not self.found:
            self.found.append(Recording())
        return self.found[-1]

    @property
    def stage(self) -> StageRecord | None:
        """The innermost open stage; between stages the last one, which what follows still belongs to."""
        if self.open:
            return self.open[-1]
        return self.current.stages[-1] if self.current.stages else None

    def _stage(self, name: str, doc: str, root: UOp) -> None:
        if name == FIRST_STAGE:
            self.open.clear()  # an attempt that failed never ends its stage
            self.found.append(Recording([StageRecord(*ASKED, root, root)]))
            self.bodies = {}
        self.index = []  # the walk's index rules are told before its ranges; those of other passes belong to no step
        record = StageRecord(name, doc, root, root, calls=self._calls_of(root))
        self.current.stages.append(record)
        self.open.append(record)

    def _end(self, name: str, root: UOp) -> None:
        while self.open:
            record = self.open.pop()
            if record.name == name:
                record.end, record.ended = root, True
                return

    def _calls_of(self, root: UOp) -> list[UOp]:
        """The CALLs whose body a stage begins with. (More of them may be told later.)"""
        calls = self.bodies.get(root, [])
        return [] if any(s.calls is calls for s in self.current.stages) else calls

    def _rewrite(self, rule: Rule, before: UOp, after: UOp) -> None:
        self.current.flow.append((before, after))
        if (stage := self.stage) is not None:
            stage.steps.append(("rewrite", rule, before, after))

    def _replace(self, before: UOp, after: UOp) -> None:
        self.current.flow.append((before, after))
        if (stage := self.stage) is not None:
            stage.replaced.append((before, after, len(stage.steps)))

    def _index(self, *told: Any) -> None:
        self.index.append(told)

    def _decision(self, decision: Decision) -> None:
        if (stage := self.stage) is not None:
            stage.steps.append(("decision", decision))

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "copied":
            copies = data["became"].items()
            self.current.flow += [(old, new) for old, new in copies if old is not new and old.dtype is not dtypes.index]
        elif kind == "body":
            self.bodies.setdefault(data["body"], []).append(data["call"])
        elif kind == "ranges" and (stage := self.stage) is not None:
            stage.steps.append(("ranges", data, tuple(self.index)))
            self.index = []
        else:
            self.current.events.append((kind, data))
