"""Turns recordings into a trace: numbers the nodes, writes down steps, and follows each value to its kernel.

In: :class:`~tinysched.trace.recorder.Recording` values, once the engine is done. Out: :class:`Trace`, which is written
down when somebody first looks at it. What kernels, hulls and order show comes from the final LINEAR itself, so that they
cannot disagree with what runs.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

from tinysched import __version__
from tinysched.engine.plan import collector_paused
from tinysched.ir.decision import Decision
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import Rule as EngineRule
from tinysched.ir.sharding import is_memory, parts_of
from tinysched.ir.uop import UOp
from tinysched.schedule.lineage import origin_of, renamed
from tinysched.schedule.pipeline import PIPELINE, CacheKey
from tinysched.settings import SETTINGS
from tinysched.trace import kernels as K
from tinysched.trace import memory as M
from tinysched.trace.apart import Apart
from tinysched.trace.document import Cache, Choices, Decided, Ranges, Rewrite, Rule, Run, Schedule, Stage, Step
from tinysched.trace.later import as_now
from tinysched.trace.live import Live
from tinysched.trace.made import text_of
from tinysched.trace.nodes import LineTable, NodeTable, short_file
from tinysched.trace.rebuild import STARTS, Rebuilt, ids_of
from tinysched.trace.recorder import FIRST_STAGE, Recording, StageRecord, Told, sort
from tinysched.trace.trace import Trace
from tinysched.trace.values import run_with


class RuleTable:
    """The rules of a trace, each once, in the order they are met."""

    def __init__(self, known: Iterable[Rule] = ()) -> None:
        self._number: dict[Rule, int] = {r: i for i, r in enumerate(known)}

    def add(self, r: EngineRule) -> int:
        file, line = r.where
        return self._add(Rule(r.name, r.doc, short_file(file), line, code_of(r.fn)))

    def named(self, name: str, doc: str) -> int:
        """The number of a rule that is known by name alone."""
        return self._add(Rule(name, doc))

    def _add(self, r: Rule) -> int:
        return self._number.setdefault(r, len(self._number))

    def rules(self) -> tuple[Rule, ...]:
        return tuple(self._number)


@functools.lru_cache(512)
def code_of(fn: Any) -> str:
    """The text of a function; '' where it is not known (a rule that was typed into a plain Python prompt)."""
    try:
        return textwrap.dedent(inspect.getsource(fn)).rstrip()
    except (OSError, TypeError):
        return ""


def build(title: str, told: Iterable[Told], names: dict[UOp, str]) -> Trace:
    """The trace of what was told; ``names`` are the user's, by tensor-graph node.

    What the program may change is taken now (names, lines, settings), the rest is written down later.
    """
    apart, lines, live = Apart(), LineTable(), Live()
    mine = apart.events(told, FIRST_STAGE)
    lines.take(apart.became.items())
    live.take(apart.became)
    named = {apart.became[u]: name for u, name in _of_memory(names).items() if u in apart.became}
    write = as_now(lambda: _written(title, sort(mine), named, lines, live))
    trace = Trace.later(write, title=title, tinysched=__version__)
    object.__setattr__(trace, "live", live)
    return trace


def _written(
    title: str, recordings: list[Recording], names: dict[UOp, str], lines: LineTable, live: Live
) -> dict[str, Any]:
    """The fields of a trace that come later."""
    rules, schedules = RuleTable(), []
    for i, recording in enumerate(recordings):
        name = title if len(recordings) == 1 else f"{title}, schedule {i + 1} of {len(recordings)}"
        builder = _Builder(recording, lines, rules, names)
        schedules.append(builder.schedule(name))
        bodies = [recording.stages[STARTS - 1].end, *(stage.root for stage in recording.stages if stage.calls)]
        live.add(builder.table.id, (u for body in bodies for u in body.toposort()))
    return {"schedules": tuple(schedules), "lines": lines.lines(), "rules": rules.rules()}


def build_again(trace: Trace, which: int, recording: Recording, start: Rebuilt) -> Trace:
    """``trace`` with the schedule ``which`` as it was recorded when it was made again."""
    lines, rules = LineTable(trace.lines, start.made_by(trace.lines)), RuleTable(trace.rules)
    schedules = list(trace.schedules)
    builder = _Builder(recording, lines, rules, start.names())
    schedules[which] = builder.schedule(schedules[which].title)
    recording.ids = builder.table.id
    return trace.changed(schedules=tuple(schedules), lines=lines.lines(), rules=rules.rules(), tinysched=__version__)


class _Builder:
    """One schedule under construction."""

    def __init__(self, recording: Recording, lines: LineTable, rules: RuleTable, names: dict[UOp, str]):
        self.recording, self.rules = recording, rules
        self.calls = K.find_calls(recording)
        self.buffers = K.BufferTable(self.calls, recording)
        self.names = dict(names)
        self.names |= {p: self.names[b] for p, b in self.buffers.came.items() if b in self.names}
        self.table = NodeTable(lines, self.buffers.labels, self.names)
        self.lines = lines

    @collector_paused()
    def schedule(self, title: str) -> Schedule:
        self.lines.inherit(self.recording.graphs())
        for stage in self.recording.stages:  # first in the order of the graphs, then whatever a step shows besides
            self.table.add(stage.root)
        stages = tuple(self._stage(s) for s in self.recording.stages)
        for call in self.calls:
            self.table.add(call.src[0])
        found = K.describe(self.calls, self.buffers, self.recording, self.table, self.lines)
        memory = M.memory(self.recording, self.buffers.number)
        cache = dict(self.recording.events).get("cache", {})
        starts = {i for stage in stages[:STARTS] for i in ids_of(stage)}
        starts |= {stage.root for stage in stages if stage.calls}
        whole = self.table.below(starts)
        return Schedule(
            title=title,
            nodes=self.table.nodes(whole),
            stages=stages,
            kernels=found.kernels,
            buffers=self.buffers.describe(found, self.table.id, self.names, memory),
            order=M.order(self.recording, self.buffers.number),
            memory=memory,
            cache=Cache(str(cache.get("outcome", "off")), str(cache.get("key", ""))),
            run=_run(self.recording, len(self.calls)),
            choices=choices_of(cache.get("steered by"), self.table.id),
        )

    # ** stages **

    def _stage(self, s: StageRecord) -> Stage:
        add = self.table.add
        steps = tuple(self._step(told) for told in s.steps)
        replaced = tuple((add(old), add(new), position) for old, new, position in s.replaced)
        return Stage(s.name, add(s.root), add(s.end), s.doc, steps, replaced, tuple(map(add, s.calls)))

    def _step(self, told: Told) -> Step:
        kind = told[0]
        if kind == "rewrite":
            _, r, before, after = told
            return Rewrite(self.rules.add(r), self.table.add(before), self.table.add(after))
        if kind == "decision":
            return self._decided(told[1])
        return self._ranges(*told[1:])

    def _decided(self, d: Decision | Decided) -> Decided:
        if isinstance(d, Decided):  # out of a trace: only its evidence has nodes
            return dataclasses.replace(d, evidence=self._plain(d.evidence))
        node = self.table.add(d.node) if isinstance(d.node, UOp) else None
        return Decided(node, d.verdict.value, d.reason.name, None if d.evidence is None else self._plain(d.evidence))

    def _ranges(self, data: dict[str, Any], index: tuple[Told, ...]) -> Ranges:
        realized = data.get("realized")
        return Ranges(
            node=self.table.add(data["node"]),
            in_=self._texts(data.get("in")),
            out=self._texts(data.get("out")),
            realized=None if realized is None else tuple(realized),
            index=tuple(self._index(*told) for told in index),
        )

    def _index(self, name: str, doc: str, x: Any, d: int, result: Any) -> tuple[int, str, str]:
        return self.rules.named(name, doc), f"({_affine_text(x)}) by {d}", " and ".join(map(_affine_text, result))

    def _texts(self, parts: Iterable[Any] | None) -> tuple[str, ...]:
        return tuple(self._text(p) for p in parts or ())

    def _text(self, part: Any) -> str:
        if isinstance(part, UOp):
            self.table.add(part)
        return self.table.text(part)

    def _plain(self, value: Any) -> Any:
        """Evidence as JSON: index expressions as text, other nodes as ``{"node": id}``."""
        if value is None or value.__class__ in (bool, int, float, str):
            return value
        if isinstance(value, UOp):
            number = self.table.add(value)
            return self.table.text(value) if self.table.is_folded(value) else {"node": number}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {name: self._plain(getattr(value, name)) for name in value.__dataclass_fields__}
            facts = fields.pop("facts", ())
            return fields | {str(k): v for k, v in facts}
        if isinstance(value, (tuple, list)):
            return tuple(self._plain(v) for v in value)
        if isinstance(value, dict):
            return {str(k): self._plain(v) for k, v in value.items()}
        if isinstance(value, enum.Enum):
            return value.name
        return str(value)


def _run(recording: Recording, kernels: int) -> Run | None:
    """The times of the kernels, where this schedule was run too while it was watched."""
    told = {data["position"]: data for kind, data in recording.events if kind == "run"}
    if not kernels or told.keys() != set(range(kernels)):
        return None
    ran = [told[k] for k in range(kernels)]
    return run_with((float(d["seconds"]) for d in ran), None, [d["opts"] for d in ran], [d["tries"] for d in ran])


def choices_of(key: CacheKey | None, ids: dict[UOp, int]) -> Choices:
    """What steered a schedule, as data."""
    if key is None:
        return Choices()
    steered = dict(key.settings)
    settings = {name: steered[name] for name, s in SETTINGS.items() if steered.get(name, s.default) != s.default}
    overrides = {
        text_of(renamed(name, ids.__getitem__)): what for name, what in key.overrides if origin_of(name) in ids
    }
    p = key.policies
    stages = tuple(s.name for s in key.pipeline.stages if s not in PIPELINE.stages)
    return Choices(
        settings or None, repr(p.fusion), repr(p.order), repr(p.memory), stages, overrides or None, key.buffer_limit
    )


def _of_memory(names: dict[UOp, str]) -> dict[UOp, str]:
    """A Tensor that is in memory names the memory, not the RESHAPE that gives it its shape; on several devices each part."""
    found: dict[UOp, str] = {}
    for u, name in names.items():
        plain = u.op is Ops.RESHAPE and u.src[0].op is Ops.BUFFER
        found.setdefault(u.src[0] if plain else u, name)
        if (memory := _overwritten(u)) is not None:
            found.setdefault(memory, name)
        for part in parts_of(u) if is_memory(u) else ():
            found.setdefault(part.base, name)
    return found


def _overwritten(u: UOp) -> UOp | None:
    """The memory of which a value is a pending state, whole."""
    while u.op is Ops.RESHAPE:
        u = u.src[0]
    if u.op is not Ops.AFTER:
        return None
    while u.op in (Ops.RESHAPE, Ops.AFTER):
        u = u.src[0]
    return u if u.op is Ops.BUFFER else None


def _affine_text(x: Any) -> str:
    """A normal form as text."""
    if not hasattr(x, "terms"):
        return str(x)
    from tinysched.ir.symbolic.affine import to_uop
    from tinysched.ir.text import expr

    return expr(to_uop(x))
