"""What a trace is made of, as frozen data (docs/trace-schema.md describes its JSON form).

In: nothing of the engine; a recording is turned into these by ``build``, a file by :mod:`tinysched.trace.codec`.
Out: the only thing that explanations, views, widgets and the viewer know. All ids are small ints: nodes, lines, rules,
kernels and buffers are named by their position. :mod:`tinysched.trace.trace` is the whole.

>>> Kernel("E_4", 0, "NUMPY", bytes_read=16, bytes_written=16, ops=8).intensity
0.25
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tinysched.errors import TraceError
from tinysched.trace.later import Later, late, none


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


@dataclass(frozen=True)
class Node(Later):
    """A UOp. ``expr`` is set for index arithmetic, conditions and constants, which views show inside their reader.

    ``data``: the argument as data, for the nodes that scheduling starts from (:mod:`tinysched.trace.args`).
    """

    op: str
    dtype: str
    label: str
    kind: str
    src: tuple[int, ...] = ()
    shape: tuple[int | str, ...] | None = late(none)
    arg: str = late(str)
    tag: str = late(str)
    expr: str | None = late(none)
    ranges: tuple[str, ...] = late(tuple)
    name: str | None = None
    lines: tuple[int, ...] = ()
    data: Any = late(none)


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
    """A pass: the graph below ``root`` became that below ``end``. ``replaced``: (old, new, steps told before).

    ``calls``: of the first pass over the body of a function, the CALLs that it is the body of.
    """

    name: str
    root: int
    end: int
    doc: str = ""
    steps: tuple[Rewrite | Decided | Ranges, ...] = ()
    replaced: tuple[tuple[int, int, int], ...] = ()
    calls: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel(Later):
    """One CALL of the LINEAR. ``nodes``: every node, of every stage, whose value is computed inside.

    ``writes``: which of ``buffers``, by position; ``updates``: those of them that it reads too.
    The texts come later. ``links``: for each (``loops``, ``program``, ``cuda``) the tensor-graph nodes that a line computes.
    """

    name: str
    node: int
    device: str
    kind: str = "kernel"
    buffers: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    loops: str = late(str)
    program: str | None = late(none)
    cuda: str = late(str)
    links: dict[str, tuple[tuple[int, ...], ...]] | None = late(none)
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
    """Memory that kernels read or write; ``node``: the tensor-graph node whose value it holds.

    ``role``: "input" (only read), "output" (only written, or written before it is read), "state" (its old values are
    read, and it is written), "intermediate" (in the arena).
    """

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
