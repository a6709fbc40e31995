"""The graph at every step of a stage: what is there at the start, and what each step changes.

In: a schedule and a stage. Out: :class:`StageGraph`: *slots* (places in the picture, each with the node that stands there),
edges between them, and per step the difference. A node that is only rebuilt, because something below it changed, keeps
its slot; so does one that a rule replaces by another of the same op. Constants, loops and index arithmetic have no slot:
they are *stubs*, text at their reader.

>>> from tinysched.trace.document import Node, Rewrite, Schedule, Stage
>>> x, y = Node("PARAM", "float32", "x", "memory"), Node("EXP2", "float32", "exp2", "alu", (0,))
>>> z = Node("SIN", "float32", "sin", "alu", (0,))
>>> graph = replay(Schedule("s", (x, y, z)), Stage("demo", 1, 2, steps=(Rewrite(0, 1, 2),)))
>>> graph.steps[0].add, graph.steps[0].remove
(((2, 2, ()),), (1,))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tinysched.trace.document import Decided, Node, Ranges, Rewrite, Schedule, Stage, Step

Shown = tuple[int, int, tuple[str, ...]]
"""A slot, the node that stands there, and its stubs."""
HIDDEN = frozenset({"SINK", "NOOP", "LINEAR", "TUPLE"})
"""Nodes that only join others."""
_NO_STUBS = frozenset({"REDUCE", "RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP"})


@dataclass(frozen=True, slots=True)
class StepChange:
    """What one step does to the picture.

    ``change``: slots that now show something else; ``rename``: those that show the same under another number (rebuilt);
    ``reroute``: those that read something else; ``focus``: those that the step is about.
    """

    add: tuple[Shown, ...] = ()
    remove: tuple[int, ...] = ()
    change: tuple[Shown, ...] = ()
    rename: tuple[Shown, ...] = ()
    reroute: tuple[int, ...] = ()
    on: tuple[int, ...] = ()
    off: tuple[int, ...] = ()
    focus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StageGraph:
    """All steps of a stage. ``slots`` counts places, ``edges`` are (source slot, reader slot) by number."""

    slots: int
    edges: tuple[tuple[int, int], ...]
    start: tuple[Shown, ...]
    start_edges: tuple[int, ...]
    steps: tuple[StepChange, ...]

    def at(self, step: int) -> tuple[dict[int, Shown], set[int]]:
        """What is visible after ``step`` steps: slots and edges."""
        shown = {s[0]: s for s in self.start}
        edges = set(self.start_edges)
        for change in self.steps[:step]:
            for s in change.remove:
                shown.pop(s, None)
            shown.update({s[0]: s for s in (*change.add, *change.change, *change.rename)})
            edges.difference_update(change.off)
            edges.update(change.on)
        return shown, edges


def is_stub(node: Node) -> bool:
    """Whether a node is shown as text at its reader."""
    return node.expr is not None


def replay(schedule: Schedule, stage: Stage) -> StageGraph:
    """Plays a stage from its start to its end; the last step shows what the pass left, where steps did not tell all."""
    return _Player(schedule, stage).play()


@dataclass
class _Live:
    """The graph as it stands: slots with their nodes, sources and readers."""

    nodes: tuple[Node, ...]
    node: dict[int, int] = field(default_factory=dict)  # of a slot
    slot: dict[int, int] = field(default_factory=dict)  # of a node
    src: dict[int, tuple[int, ...]] = field(default_factory=dict)
    readers: dict[int, dict[int, int]] = field(default_factory=dict)  # slot -> how often each reader reads it
    count: int = 0
    touched: set[int] = field(default_factory=set)

    def sources(self, node: int) -> tuple[int, ...]:
        """The sources that are walked: the inside of a kernel is not part of the graph around it."""
        n = self.nodes[node]
        hidden = n.op == "CALL" and n.src and self.nodes[n.src[0]].label not in ("sink", "")
        return n.src[1:] if hidden else n.src

    def show(self, root: int) -> int:
        """Gives ``root`` and all below a slot, and returns the slot of ``root``."""
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self.slot:
                continue
            sources = self.sources(node)
            if not ready:
                stack.append((node, True))
                stack.extend((s, False) for s in reversed(sources) if s not in self.slot)
                continue
            slot = self.slot[node] = self.count
            self.count += 1
            self.node[slot], self.readers[slot] = node, {}
            self.wire(slot, tuple(self.slot[s] for s in sources))
        return self.slot[root]

    def wire(self, slot: int, sources: tuple[int, ...]) -> None:
        """Makes ``slot`` read ``sources``."""
        old = self.src.get(slot, ())
        self.src[slot] = sources
        self.touched.add(slot)
        for s in sources:
            self.readers[s][slot] = self.readers[s].get(slot, 0) + 1
        for s in old:
            self._unread(s, slot)

    def rename(self, slot: int, node: int) -> None:
        """Another node stands in ``slot``."""
        del self.slot[self.node[slot]]
        self.slot[node], self.node[slot] = slot, node
        self.touched.add(slot)

    def _unread(self, slot: int, reader: int) -> None:
        left = self.readers[slot].get(reader, 0) - 1
        if left > 0:
            self.readers[slot][reader] = left
        else:
            self.readers[slot].pop(reader, None)

    def drop_unread(self, candidates: Iterable[int], roots: set[int]) -> None:
        """Takes away what nobody reads any more."""
        stack = list(candidates)
        while stack:
            slot = stack.pop()
            if slot not in self.node or self.readers[slot] or slot in roots:
                continue
            node = self.node.pop(slot)
            if self.slot.get(node) == slot:
                del self.slot[node]
            self.touched.add(slot)
            for s in self.src.pop(slot):
                self._unread(s, slot)
                stack.append(s)

    def contains(self, root: int, node: int) -> set[int]:
        """The nodes of the graph below ``root`` that ``node`` is below of (ids of sources are smaller)."""
        above: set[int] = set()
        for n in self._between(root, node):
            if any(s == node or s in above for s in self.sources(n)):
                above.add(n)
        return above

    def _between(self, root: int, node: int) -> list[int]:
        found, stack = {root}, [root]
        while stack:
            for s in self.sources(stack.pop()):
                if s > node and s not in found:
                    found.add(s)
                    stack.append(s)
        return sorted(found)


class _Player:
    """Plays the events of one stage on a :class:`_Live` graph and notes the differences."""

    def __init__(self, schedule: Schedule, stage: Stage):
        self.nodes, self.stage = schedule.nodes, stage
        self.live = _Live(schedule.nodes)
        self.edge: dict[tuple[int, int], int] = {}
        self.shown: dict[int, Shown] = {}
        self.on: dict[int, set[int]] = {}  # the edges into each visible slot
        self.waiting: list[tuple[int, int]] = []
        self.root = self.live.show(stage.root)

    def play(self) -> StageGraph:
        start = self._difference(())
        after: dict[int, list[tuple[int, int]]] = {}
        for old, new, position in self.stage.replaced:
            after.setdefault(position, []).append((old, new))
        self._rebuild(after.get(0, []))
        steps = [self._step(step, after.get(i + 1, [])) for i, step in enumerate(self.stage.steps)]
        rest = self._rest()
        if rest != StepChange():
            steps.append(rest)
        return StageGraph(self.live.count, tuple(self.edge), start.add, start.on, tuple(steps))

    def _step(self, step: Step, replaced: list[tuple[int, int]]) -> StepChange:
        about = [step.node] if isinstance(step, (Decided, Ranges)) else [step.before]
        focus = self._visible(self.live.slot[n] for n in about if n is not None and n in self.live.slot)
        if isinstance(step, Rewrite):
            self._replace(step.before, step.after)
        self._rebuild(replaced)
        if isinstance(step, Rewrite) and step.after in self.live.slot:
            focus = focus | self._visible([self.live.slot[step.after]])
        return self._difference(focus)

    def _rebuild(self, replaced: list[tuple[int, int]]) -> None:
        """A node whose sources changed is another node in the same slot; what is more than that waits for the end."""
        for old, new in replaced:
            slot = self.live.slot.get(old)
            if slot is None or new in self.live.slot:
                continue
            if tuple(self.live.slot.get(s, -1) for s in self.live.sources(new)) == self.live.src[slot]:
                self.live.rename(slot, new)
            else:
                self.waiting.append((old, new))

    def _rest(self) -> StepChange:
        """What the pass left: nodes that it wrote anew, one for one, keep their slots."""
        end = set(self._below(self.stage.end))
        for old, new in self.waiting:
            slot = self.live.slot.get(old)
            alike = self.nodes[old].op == self.nodes[new].op
            if slot is not None and alike and new in end and old not in end and new not in self.live.slot:
                self.live.rename(slot, new)
        for node in sorted(end):
            self.live.show(node)
        self.root = self.live.slot[self.stage.end]
        self._settle()
        self._drop_unreachable()
        return self._difference(())

    def _drop_unreachable(self) -> None:
        """Slots that only read one another in a circle are gone too."""
        found, stack = {self.root}, [self.root]
        while stack:
            for s in self.live.src[stack.pop()]:
                if s not in found:
                    found.add(s)
                    stack.append(s)
        for slot in [s for s in self.live.node if s not in found]:
            self.live.readers[slot] = {}
            self.live.drop_unread([slot], {self.root})

    def _settle(self) -> None:
        """Wires every slot as its node says, where events left something out."""
        for node in self._below(self.stage.end):
            slot = self.live.slot[node]
            sources = tuple(self.live.show(s) for s in self.live.sources(node))
            if self.live.src[slot] != sources:
                old = self.live.src[slot]
                self.live.wire(slot, sources)
                self.live.drop_unread(old, {self.root})

    def _below(self, root: int) -> list[int]:
        found, stack = {root}, [root]
        while stack:
            for s in self.live.sources(stack.pop()):
                if s not in found:
                    found.add(s)
                    stack.append(s)
        return sorted(found, reverse=True)

    def _replace(self, old: int, new: int) -> None:
        live = self.live
        if old not in live.slot or old == new:
            return
        slot = live.slot[old]
        inner = live.contains(new, old)
        if new not in live.slot and not inner and self.nodes[old].op == self.nodes[new].op:
            self._rename(slot, new)
            return
        readers = [r for r in live.readers[slot] if live.node[r] not in inner]
        target = live.show(new)
        for r in readers:
            live.wire(r, tuple(target if s == slot else s for s in live.src[r]))
        if slot == self.root:
            self.root = target
        live.drop_unread([slot], {self.root})

    def _rename(self, slot: int, new: int) -> None:
        live = self.live
        sources = tuple(live.show(s) for s in live.sources(new))
        live.rename(slot, new)
        before = live.src[slot]
        live.wire(slot, sources)
        live.drop_unread(before, {self.root})

    # ** what is visible of it **

    def _hides(self, slot: int) -> bool:
        node = self.nodes[self.live.node[slot]]
        return is_stub(node) or node.op in HIDDEN

    def _visible(self, slots: Iterable[int]) -> frozenset[int]:
        """The slots, or those of their readers that are visible."""
        found, stack, seen = set(), list(slots), set()
        while stack:
            slot = stack.pop()
            if slot in seen or slot not in self.live.node:
                continue
            seen.add(slot)
            if self._hides(slot):
                stack.extend(self.live.readers[slot])
            else:
                found.add(slot)
        return frozenset(found)

    def _picture(self, slot: int) -> Shown:
        node = self.live.node[slot]
        stubs: list[str] = []
        if self.nodes[node].op not in _NO_STUBS:
            for s in self.live.src[slot]:
                text = self.nodes[self.live.node[s]].expr
                if text is not None:
                    stubs.append(text)
        return slot, node, tuple(stubs)

    def _edges_into(self, slot: int) -> set[int]:
        sources = {s for s in self.live.src[slot] if not self._hides(s)}
        return {self.edge.setdefault((s, slot), len(self.edge)) for s in sorted(sources)}

    def _difference(self, focus: Iterable[int]) -> StepChange:
        """Compares the touched slots with what was shown last."""
        touched = set(self.live.touched)
        for slot in self.live.touched:
            if slot in self.live.node and self._hides(slot):
                touched.update(self.live.readers[slot])
        self.live.touched = set()
        found = _Difference(focus)
        for slot in sorted(touched):
            if slot not in self.live.node or self._hides(slot):
                found.gone(slot, self.shown.pop(slot, None), self.on.pop(slot, set()))
                continue
            old, before = self.shown.get(slot), self.on.get(slot, set())
            new, edges = self._picture(slot), self._edges_into(slot)
            self.shown[slot], self.on[slot] = new, edges
            found.here(old, new, before, edges, self._looks_alike(old, new))
        return found.change()

    def _looks_alike(self, old: Shown | None, new: Shown) -> bool:
        if old is None or old[2] != new[2]:
            return False
        a, b = self.nodes[old[1]], self.nodes[new[1]]
        return (a.label, a.shape, a.arg, a.dtype) == (b.label, b.shape, b.arg, b.dtype)


class _Difference:
    """Collects what one step changed."""

    def __init__(self, focus: Iterable[int]):
        self.focus = tuple(sorted(focus))
        self.add: list[Shown] = []
        self.changed: list[Shown] = []
        self.rename: list[Shown] = []
        self.remove: list[int] = []
        self.reroute: list[int] = []
        self.on: list[int] = []
        self.off: list[int] = []

    def gone(self, slot: int, old: Shown | None, edges: set[int]) -> None:
        self.off += sorted(edges)
        if old is not None:
            self.remove.append(slot)

    def here(self, old: Shown | None, new: Shown, before: set[int], edges: set[int], alike: bool) -> None:
        self.on += sorted(edges - before)
        self.off += sorted(before - edges)
        if old is None:
            self.add.append(new)
            return
        if old != new:
            (self.rename if alike else self.changed).append(new)
        if edges != before:
            self.reroute.append(new[0])

    def change(self) -> StepChange:
        return StepChange(
            add=tuple(self.add),
            remove=tuple(self.remove),
            change=tuple(self.changed),
            rename=tuple(self.rename),
            reroute=tuple(self.reroute),
            on=tuple(self.on),
            off=tuple(self.off),
            focus=self.focus,
        )
