"""A stage as it is drawn: captions, sizes, places, routes and hulls, for the union of its steps.

In: a schedule and one of its stages. Out: :class:`Picture`, which stays put while steps show and hide parts of it. A stage
that orders or places kernels is drawn as its kernels, with an arrow from each to those that wait for it.

>>> from tinysched.trace.document import Node, Schedule, Stage
>>> x, y = Node("PARAM", "float32", "p0", "memory", shape=(4, 5)), Node("EXP2", "float32", "exp2", "alu", (0,), (4, 5))
>>> p = draw(Schedule("s", (x, y)), Stage("tensor graph", 1, 1))
>>> [(shown.title, shown.sub) for shown in p.start], p.edges
([('p0', '4×5'), ('exp2', '4×5')], ((0, 1),))
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tinysched.trace.document import Kernel, Node, Rewrite, Schedule, Stage, Step
from tinysched.trace.follow import Follow
from tinysched.views.layout import Layout, layout
from tinysched.views.steps import Shown, StageGraph, StepChange, replay

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#7a5195")
"""Of kernels: safe for the colour-blind, and the same as the viewer's. The number decides, not the colour."""
LONGEST_TITLE, LONGEST_SUB = 22, 26
QUIET = frozenset({"movement", "hint", "control"})
"""Kinds that are drawn small."""
NAMED = frozenset({"alu", "reduce", "movement", "stage", "memory"})
"""Kinds that carry a value's name on through the stages."""
Maker = Callable[[Schedule, Mapping[int, str], Shown], tuple[str, str]]
"""Makes the two lines of a caption, from the schedule, the names and what is shown."""


@dataclass(frozen=True, slots=True)
class Caption:
    """A slot, the node in it, and its two lines of text."""

    slot: int
    node: int
    title: str
    sub: str


@dataclass(frozen=True, slots=True)
class Change:
    """A :class:`~tinysched.views.steps.StepChange` with captions."""

    add: tuple[Caption, ...]
    remove: tuple[int, ...]
    change: tuple[Caption, ...]
    rename: tuple[Caption, ...]
    reroute: tuple[int, ...]
    on: tuple[int, ...]
    off: tuple[int, ...]
    focus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """One stage. ``hulls``: for each slot the kernels that compute what stands there."""

    layout: Layout
    edges: tuple[tuple[int, int], ...]
    hulls: tuple[tuple[int, ...], ...]
    start: tuple[Caption, ...]
    start_edges: tuple[int, ...]
    steps: tuple[Change, ...]

    def at(self, step: int) -> tuple[dict[int, Caption], set[int]]:
        """What is visible after ``step`` steps: captions by slot, and edges."""
        shown = {c.slot: c for c in self.start}
        edges = set(self.start_edges)
        for change in self.steps[:step]:
            for slot in change.remove:
                shown.pop(slot, None)
            shown.update({c.slot: c for c in (*change.add, *change.change, *change.rename)})
            edges.difference_update(change.off)
            edges.update(change.on)
        return shown, edges

    def members(self, slots: Iterable[int]) -> list[tuple[int, list[int]]]:
        """The kernels of some slots, in order, each with its slots."""
        found: dict[int, list[int]] = {}
        for slot in sorted(slots):
            for k in self.hulls[slot]:
                found.setdefault(k, []).append(slot)
        return sorted(found.items())


def names_in(schedule: Schedule) -> dict[int, str]:
    """The user's names, also of the nodes that show a named value in later stages."""
    follow, nodes = Follow(schedule), schedule.nodes
    found = {i: n.name for i, n in enumerate(nodes) if n.name is not None}
    for i, n in enumerate(nodes):
        if i in found or n.kind not in NAMED:
            continue
        origin = follow.shows(i)
        if origin in found and n.op in ("STAGE", nodes[origin].op):
            found[i] = found[origin]
    return found


@dataclass(frozen=True)
class Shared:
    """What all pictures of a schedule are made with: the names of nodes, and the kernels that compute each."""

    names: Mapping[int, str]
    kernels: Mapping[int, tuple[int, ...]]


def shared(schedule: Schedule) -> Shared:
    """Computed once, for who draws several stages."""
    kernels: dict[int, tuple[int, ...]] = {}
    for k, kernel in enumerate(schedule.kernels):
        for node in kernel.nodes:
            kernels[node] = (*kernels.get(node, ()), k)
    return Shared(names_in(schedule), kernels)


def draw(schedule: Schedule, stage: Stage, known: Shared | None = None) -> Picture:
    """The picture of a stage; ``known`` is what :func:`shared` gives, for who draws several."""
    known = known or shared(schedule)
    of_kernels = schedule.nodes[stage.end].op == "LINEAR" if schedule.nodes else False
    graph = kernel_graph(schedule, stage) if of_kernels else _without_gaps(replay(schedule, stage))
    caption = _kernel_caption if of_kernels else _caption
    pictured = _Captions(schedule, known.names, caption)
    start = pictured.all(graph.start)
    steps = tuple(pictured.change(c) for c in graph.steps)
    sizes = [pictured.size.get(s, (40.0, 24.0)) for s in range(graph.slots)]
    hulls = _kernel_hulls(graph) if of_kernels else _hulls(known, pictured)
    seen_first = graph.start_edges if steps else None
    placed = layout(tuple(sizes), graph.edges, seen_first)
    return Picture(placed, graph.edges, hulls, start, graph.start_edges, steps)


def _without_gaps(graph: StageGraph) -> StageGraph:
    """Numbers the slots that are ever visible from 0, without gaps."""
    shown = [*graph.start, *(s for c in graph.steps for s in c.add)]
    new = {slot: i for i, slot in enumerate(sorted({s[0] for s in shown}))}

    def renumbered(parts: Iterable[Shown]) -> tuple[Shown, ...]:
        return tuple((new[s], node, stubs) for s, node, stubs in parts)

    def slots(parts: Iterable[int]) -> tuple[int, ...]:
        return tuple(new[s] for s in parts if s in new)

    steps = tuple(
        replace(
            c,
            add=renumbered(c.add),
            change=renumbered(c.change),
            rename=renumbered(c.rename),
            remove=slots(c.remove),
            reroute=slots(c.reroute),
            focus=slots(c.focus),
        )
        for c in graph.steps
    )
    edges = tuple((new[a], new[b]) for a, b in graph.edges)
    return StageGraph(len(new), edges, renumbered(graph.start), graph.start_edges, steps)


# ** kernels as a graph **


def kernel_graph(schedule: Schedule, stage: Stage) -> StageGraph:
    """A slot per kernel, an edge from each to those that wait for it; steps change nothing but what they are about."""
    calls = schedule.nodes[stage.end].src
    edges = tuple(dict.fromkeys((e.before, e.after) for e in schedule.order))
    start: tuple[Shown, ...] = tuple((k, node, ()) for k, node in enumerate(calls))
    number = {node: k for root in (stage.root, stage.end) for k, node in enumerate(schedule.nodes[root].src)}
    steps = tuple(StepChange(focus=_kernels_of(schedule, step, number)) for step in stage.steps)
    edges = tuple((a, b) for a, b in edges if a < len(calls) and b < len(calls))
    return StageGraph(len(calls), edges, start, tuple(range(len(edges))), steps)


def _kernels_of(schedule: Schedule, step: Step, number: dict[int, int]) -> tuple[int, ...]:
    """The kernels that a step is about: the CALL it names, or those that write the buffer it names."""
    node = step.before if isinstance(step, Rewrite) else step.node
    if node is None:
        return ()
    if node in number:
        return (number[node],)
    label = schedule.nodes[node].label
    return tuple(k for k, kernel in enumerate(schedule.kernels) if label in _written(kernel))


def _written(kernel: Kernel) -> set[str]:
    return {f"b{kernel.buffers[i]}" for i in kernel.writes}


def _kernel_hulls(graph: StageGraph) -> tuple[tuple[int, ...], ...]:
    return tuple((k,) for k in range(graph.slots))


# ** captions **


class _Captions:
    """Captions of all states of all slots; a slot is as large as its largest."""

    def __init__(self, schedule: Schedule, names: Mapping[int, str], caption: Maker):
        self.schedule, self.names, self.caption = schedule, names, caption
        self.size: dict[int, tuple[float, float]] = {}
        self.nodes: dict[int, set[int]] = {}

    def all(self, parts: Iterable[Shown]) -> tuple[Caption, ...]:
        return tuple(self._one(p) for p in parts)

    def _one(self, shown: Shown) -> Caption:
        slot, node, _ = shown
        title, sub = self.caption(self.schedule, self.names, shown)
        width, height = measure(is_quiet(self.schedule.nodes[node]), title, sub)
        old = self.size.get(slot, (0.0, 0.0))
        self.size[slot] = (max(width, old[0]), max(height, old[1]))
        self.nodes.setdefault(slot, set()).add(node)
        return Caption(slot, node, title, sub)

    def change(self, c: StepChange) -> Change:
        return Change(
            self.all(c.add), c.remove, self.all(c.change), self.all(c.rename), c.reroute, c.on, c.off, c.focus
        )


def _caption(schedule: Schedule, names: Mapping[int, str], shown: Shown) -> tuple[str, str]:
    """What it is, and below it its shape (its loops, where it has no shape) or what it reads besides."""
    _, number, stubs = shown
    node, name = schedule.nodes[number], names.get(number)
    title = name or node.label
    if node.kind == "alu" and len(stubs) == 1 and len(stubs[0]) <= 8 and name is None:
        title, stubs = f"{title} {stubs[0]}", ()
    if name is not None and (node.kind != "memory" or node.op == "PARAM"):
        stubs = (node.label, *stubs)
    if node.kind == "index" and node.src[0] in names:
        title = f"{names[node.src[0]]}[…]"
    if node.kind == "index":
        sub = "[" + ", ".join(stubs) + "]"
    elif node.kind in ("store", "stage"):
        sub = shape_text(node) or " ".join(stubs)
    else:
        sub = " · ".join(p for p in (shape_text(node), *stubs) if p)
    return shorten(title, LONGEST_TITLE), shorten(sub, LONGEST_SUB)


def _kernel_caption(schedule: Schedule, names: Mapping[int, str], shown: Shown) -> tuple[str, str]:
    k = shown[0]
    if k >= len(schedule.kernels):
        return schedule.nodes[shown[1]].label, ""
    kernel = schedule.kernels[k]
    writes = ", ".join(buffer_name(schedule, kernel.buffers[i]) for i in kernel.writes)
    return shorten(f"{k} {kernel.name}", LONGEST_TITLE), shorten(
        f"{_gist(schedule, kernel)} → {writes}".strip(), LONGEST_SUB
    )


def _gist(schedule: Schedule, kernel: Kernel) -> str:
    """A kernel in a word or two: the reductions that it is about, else its last operation."""
    last = schedule.stages[0].root if schedule.stages else -1  # the tensor graph's nodes come first
    inside = [schedule.nodes[i] for i in sorted(kernel.nodes) if i <= last]
    labels = {kind: [n.label.split()[0] for n in inside if n.kind == kind] for kind in ("reduce", "alu")}
    return " ".join(dict.fromkeys(labels["reduce"] or labels["alu"][-1:]))


def buffer_name(schedule: Schedule, b: int) -> str:
    """The user's name of a buffer, or its number."""
    return schedule.buffers[b].name or f"b{b}"


def shape_text(node: Node) -> str:
    """``4×5``, or the loops of a value without a shape."""
    if node.shape:
        return "×".join(map(str, node.shape))
    return " ".join(node.ranges) if node.kind in ("alu", "reduce") else ""


def shorten(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def columns(text: str) -> int:
    """How many columns a text takes: wide characters (and emoji) take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def is_quiet(node: Node) -> bool:
    """Whether a node is drawn small."""
    return node.kind in QUIET and node.op != "CALL"


def measure(quiet: bool, title: str, sub: str) -> tuple[float, float]:
    """The size of a node with these captions."""
    if quiet:
        return max(36.0, columns(title) * 6.2 + (columns(sub) * 5.9 + 6 if sub else 0) + 18), 22.0
    width = max(columns(title) * 7.4, columns(sub) * 6.1) + 22
    return max(48.0, width), 40.0 if sub else 28.0


# ** hulls **


def _hulls(known: Shared, pictured: _Captions) -> tuple[tuple[int, ...], ...]:
    """The kernels of each slot."""
    count = max(pictured.nodes, default=-1) + 1
    return tuple(_kernels_in(known, pictured.nodes.get(s, set())) for s in range(count))


def _kernels_in(known: Shared, nodes: set[int]) -> tuple[int, ...]:
    if len(nodes) == 1:
        return known.kernels.get(next(iter(nodes)), ())
    return tuple(sorted({k for n in nodes for k in known.kernels.get(n, ())}))
