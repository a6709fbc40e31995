"""The trace document: what a schedule did, as frozen data (docs/trace-schema.md describes its JSON form).

In: nothing of the engine; a recording is turned into these by ``build``, a file by :func:`Trace.from_json`.
Out: the only thing that explanations, views, widgets and the viewer know. All ids are small ints: nodes, lines, rules,
kernels and buffers are named by their position.

>>> empty = Trace(title="nothing")
>>> Trace.from_json(empty.to_json()) == empty
True
>>> Trace.from_json('{"schema": 99}')
Traceback (most recent call last):
...
tinysched.errors.TraceError: this trace has schema 99, and 0 is what this version reads
...
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tinysched import __version__
from tinysched.errors import TraceError
from tinysched.trace import codec

SCHEMA = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's program; ``gradient``: it made a value whose gradient this is."""

    file: str
    number: int
    code: str = ""
    function: str = ""
    gradient: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rewrite: what it does in one line, where it is written, and its code."""

    name: str
    doc: str = ""
    file: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A UOp. ``expr`` is set for index arithmetic, conditions and constants, which views show inside their reader.

    ``data``: the argument as data, for the nodes that scheduling starts from (:mod:`tinysched.trace.args`).
    """

    op: str
    dtype: str
    label: str
    kind: str
    src: tuple[int, ...] = ()
    shape: tuple[int | str, ...] | None = None
    arg: str = ""
    tag: str = ""
    expr: str | None = None
    ranges: tuple[str, ...] = ()
    name: str | None = None
    lines: tuple[int, ...] = ()
    data: Any = None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule replaced ``before`` by ``after``."""

    KIND: ClassVar[str] = "rewrite"
    rule: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Decided:
    """A pass decided something about ``node``; ``evidence`` holds the numbers and index expressions it went by."""

    KIND: ClassVar[str] = "decision"
    node: int | None
    verdict: str
    reason: str
    evidence: Any = None


@dataclass(frozen=True, slots=True)
class Ranges:
    """The loops that ``node`` got: ``out`` for its value, ``in_`` for its sources; the index rules used on the way."""

    KIND: ClassVar[str] = "ranges"
    node: int
    in_: tuple[str, ...] = ()
    out: tuple[str, ...] = ()
    realized: tuple[int, ...] | None = None
    index: tuple[tuple[int, str, str], ...] = ()


Step = Rewrite | Decided | Ranges


@dataclass(frozen=True, slots=True)
class Stage:
    """A pass: the graph below ``root`` became that below ``end``. ``replaced``: (old, new, steps told before)."""

    name: str
    root: int
    end: int
    doc: str = ""
    steps: tuple[Rewrite | Decided | Ranges, ...] = ()
    replaced: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One CALL of the LINEAR. ``nodes``: every node, of every stage, whose value is computed inside.

    ``links``: for a text (``loops``, ``program``, ``cuda``) the nodes of the tensor graph that each of its lines computes.
    """

    name: str
    node: int
    device: str
    kind: str = "kernel"
    buffers: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    loops: str = ""
    program: str | None = None
    cuda: str = ""
    links: dict[str, tuple[tuple[int, ...], ...]] | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    ops: int = 0
    nodes: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    key: str = ""

    @property
    def intensity(self) -> float:
        """Operations per byte moved."""
        return self.ops / max(self.bytes_read + self.bytes_written, 1)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that kernels read or write; ``node``: the tensor-graph node whose value it holds."""

    bytes: int
    elements: int
    dtype: str
    device: str
    role: str
    name: str | None = None
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """Kernel ``after`` runs after kernel ``before``, because of ``buffer``."""

    before: int
    after: int
    kind: str
    buffer: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One arena: its size, the least possible, the size without reuse, and what each planner tried would need."""

    device: str
    arena_bytes: int
    lower_bound_bytes: int
    unplanned_bytes: int
    copy: bool = False
    planners: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A buffer's place in an arena, and its life: first and last kernel that use it."""

    buffer: int
    lane: int
    offset_bytes: int
    bytes: int
    first: int
    last: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory plan."""

    planner: str = ""
    lanes: tuple[Lane, ...] = ()
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class Cache:
    """What the schedule cache did, or would have done."""

    outcome: str = "off"
    key: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """What steered a schedule: settings that are not the default, policies, replaced stages, overrides by node id."""

    settings: dict[str, int | str] | None = None
    fusion: str = ""
    order: str = ""
    memory: str = ""
    stages: tuple[str, ...] = ()
    overrides: dict[str, str] | None = None
    buffer_limit: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flip:
    """What scheduling again with one decision turned gave: the change, the new verdict, and the differences."""

    stage: int
    step: int
    change: str
    turned: bool = False
    kernels: int = 0
    bytes: int = 0
    ops: int = 0
    arena_bytes: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """The values of a buffer in short: statistics over the finite ones, counts of the others, a small sample.

    ``sample`` holds the elements at ``rows`` and ``columns`` (of the value seen as a matrix with its last axis across), evenly
    spread from the first to the last. ``histogram``: how many finite values lie in each of some equal parts of min … max.
    """

    shape: tuple[int, ...]
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nan: int = 0
    inf: int = 0
    sample: tuple[tuple[float, ...], ...] = ()
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Try:
    """A variant of a kernel that BEAM has measured."""

    opts: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """A run: seconds per kernel, the values asked for by buffer, how each kernel ran where there was a choice, and what the
    machine can do at best.

    ``bandwidth`` (bytes per second) and ``flops`` (operations per second) were measured in the same process; 0 where not.
    """

    seconds: tuple[float, ...] = ()
    values: dict[str, Value] | None = None
    opts: tuple[tuple[str, ...], ...] = ()
    tries: tuple[tuple[Try, ...], ...] = ()
    bandwidth: float = 0.0
    flops: float = 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """One scheduling, from the tensor graph to the memory plan."""

    title: str
    nodes: tuple[Node, ...] = ()
    stages: tuple[Stage, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    order: tuple[Edge, ...] = ()
    memory: Memory = Memory()
    cache: Cache = Cache()
    run: Run | None = None
    choices: Choices = Choices()
    flips: tuple[Flip, ...] = ()

    @property
    def bytes_moved(self) -> int:
        """Bytes that all kernels read and write."""
        return sum(k.bytes_read + k.bytes_written for k in self.kernels)

    def stage(self, which: str | int) -> Stage:
        """A stage by name or position; raises :class:`TraceError` with the names there are."""
        found = self.stages[which] if isinstance(which, int) and -len(self.stages) <= which < len(self.stages) else None
        found = found or next((s for s in self.stages if s.name == which), None)
        if found is None:
            raise TraceError(
                f"there is no stage {which!r}", help=f"there are: {', '.join(s.name for s in self.stages)}"
            )
        return found


@dataclass(frozen=True)
class Trace:
    """Everything that was recorded; see the module. Methods that draw are added by the layers above."""

    title: str
    schedules: tuple[Schedule, ...] = field(default_factory=tuple)
    lines: tuple[Line, ...] = field(default_factory=tuple)
    rules: tuple[Rule, ...] = field(default_factory=tuple)
    schema: int = SCHEMA
    tinysched: str = __version__

    live: ClassVar[Any] = None
    """What this process knows of a trace that it made (:mod:`tinysched.trace.live`); None for a loaded one."""

    @classmethod
    def later(cls, title: str, write: Callable[[], Trace]) -> Trace:
        """A trace whose document ``write`` makes when somebody first looks at it; asking again gives the same."""
        new = object.__new__(cls)
        new.__dict__.update(title=title, tinysched=__version__, _write=functools.cache(write))
        return new

    if not TYPE_CHECKING:  # a checker sees the fields

        def __getattr__(self, name: str) -> Any:
            write = self.__dict__.get("_write")
            if write is None or name not in ("schedules", "lines", "rules"):
                raise AttributeError(f"a Trace has no {name!r}")
            self.__dict__.update({k: v for k, v in vars(write()).items() if k in ("schedules", "lines", "rules")})
            self.__dict__.pop("_write", None)
            return self.__dict__[name]

    def changed(self, **fields: Any) -> Trace:
        """The same trace with some fields changed; what the process knows of it stays."""
        new = dataclasses.replace(self, **fields)
        object.__setattr__(new, "live", self.live)
        return new

    def __repr__(self) -> str:
        kernels = sum(len(s.kernels) for s in self.schedules)
        return f"<Trace {self.title!r}: {len(self.schedules)} schedules, {kernels} kernels>"

    def to_json(self) -> str:
        """The document as JSON: the same trace gives the same bytes."""
        data = {"schema": SCHEMA, "tinysched": self.tinysched, **codec.encode(self)}
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str | bytes) -> Trace:
        """A trace from its JSON. Raises :class:`TraceError` for anything that is not a whole, consistent document."""
        from tinysched.trace.check import check

        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"this is no trace: {error}", help="the file is truncated or was not made by to_json"
            ) from None
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise TraceError(
                f"this trace has schema {schema!r:.40}, and {SCHEMA} is what this version reads",
                help="make the trace again, or read it with the version that made it",
            )
        trace: Trace = codec.decode(Trace, data)
        check(trace)
        return trace

    @functools.cached_property
    def flipped(self) -> dict[tuple[int, int, int], Flip]:
        """The decisions that were turned to see what would happen: remembered, no part of the document."""
        return {}

    @property
    def decisions(self) -> Any:
        """Why each value was fused or got a buffer: ``trace.decisions.why(x)``."""
        return view("decisions")(self)

    def with_overrides(self, overrides: Mapping[Any, str], schedule: int = -1) -> Trace:
        """What if: the same computation with other decisions (:mod:`tinysched.trace.whatif`)."""
        from tinysched.trace.whatif import with_overrides

        return with_overrides(self, overrides, schedule)

    def check(self, inputs: Mapping[Any, Any] | None = None, *, schedule: int = -1, pipeline: Any = None) -> Any:
        """Which pass, and in it which rewrite, changes a value: every graph is evaluated on the same inputs."""
        return view("check")(self, inputs, schedule=schedule, pipeline=pipeline)

    def to_networkx(self, stage: str | int = 0, step: int = 0, schedule: int = -1) -> Any:
        """The visible graph after ``step`` steps of a stage, as a ``networkx.DiGraph`` from sources to readers."""
        return view("to_networkx")(self, stage, step, schedule)

    def to_dot(self, stage: str | int = 0, step: int = 0, schedule: int = -1) -> Any:
        """The same as a ``graphviz.Source``; drawing it needs Graphviz, its text does not."""
        return view("to_dot")(self, stage, step, schedule)

    def to_svg(
        self, stage: str | int | None = None, step: int | None = None, schedule: int = -1, engine: str = "own"
    ) -> str:
        """A picture of the graph with its kernels, as SVG text. ``engine="dot"``: laid out by Graphviz, where there is one."""
        return view("to_svg")(self, stage, step, schedule, engine)  # type: ignore[no-any-return]

    def to_png(self, stage: str | int | None = None, step: int | None = None, schedule: int = -1) -> bytes:
        """The same picture as PNG bytes, for places that show no SVG."""
        return view("to_png")(self, stage, step, schedule)  # type: ignore[no-any-return]

    def to_svg_frames(
        self,
        stage: str | int = "rangeify",
        steps: Iterable[int] | None = None,
        *,
        folder: str | Path | None = None,
        schedule: int = -1,
    ) -> tuple[str, ...]:
        """A pass as pictures, one SVG text per step; with ``folder`` they are also written there."""
        return view("to_svg_frames")(self, stage, steps, folder=folder, schedule=schedule)  # type: ignore[no-any-return]

    def to_gif(
        self,
        path: str | Path,
        stage: str | int = "rangeify",
        steps: Iterable[int] | None = None,
        *,
        seconds: float = 1.2,
        schedule: int = -1,
    ) -> Path:
        """Writes a pass as an animated GIF, ``seconds`` per step, and returns its path."""
        return view("to_gif")(self, path, stage, steps, seconds=seconds, schedule=schedule)  # type: ignore[no-any-return]

    def to_text(self) -> str:
        """Kernels, order and memory as a table, for terminals and screen readers."""
        return view("to_text")(self)  # type: ignore[no-any-return]

    def to_html(self, path: str | Path) -> Path:
        """Writes the explorer as one file that steps from disk, without Python and without a network."""
        return view("to_html")(self, path)  # type: ignore[no-any-return]


VIEWS: dict[str, Callable[..., Any]] = {}
"""What can be drawn of a trace. The layer above fills this when it is imported: a trace does not know its views."""
MADE_BY = {"decisions": "tinysched.explain", "flips": "tinysched.explain", "check": "tinysched.explain"}
DRAWN_BY = "tinysched.views"
"""Who fills it, by name only."""


def view(name: str) -> Callable[..., Any]:
    """A registered view; loads the layer that has it on first use."""
    if name not in VIEWS:
        importlib.import_module(MADE_BY.get(name, DRAWN_BY))
    return VIEWS[name]
