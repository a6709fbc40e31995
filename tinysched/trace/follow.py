"""One value followed through every pass: what each node became, and which decisions were about it.

In: a schedule. Out: for a node of the tensor graph (or of any later stage) the steps that were about it, in order, and
the user's node that a later node shows. It follows what was told at each rewrite; nothing is guessed.

>>> from tinysched import Tensor, capture
>>> s = capture((Tensor([1.0, 2.0]).realize() * 3).sum()).schedules[0]
>>> way = Follow(s)
>>> [d.reason for _, _, d in way.steps(s.stages[0].root - 1) if isinstance(d, Decided)][-1]
'FORCED_STORE'
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tinysched.trace.document import Decided, Rewrite, Schedule, Stage, Step

At = tuple[int, int, Step]
"""Stage, step, and what was told."""
_HANDS_ON = frozenset({"STAGE", "END", "DETACH", "CONTIGUOUS", "CONTIGUOUS_BACKWARD"})
MOVES = frozenset({"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP"})
_OF_A_VALUE = frozenset({"STAGE", "END", "STORE", "AFTER"})
"""Nodes that a value is handed on by, and that are nothing the user wrote."""


@dataclass(frozen=True)
class Event:
    """``old`` became ``new``, by a rule (at a step) or because something below it changed."""

    stage: int
    step: int
    old: int
    new: int
    rule: int | None = None


class Follow:
    """The ways of all values of a schedule."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.origin: dict[int, int] = {}
        """Of each node the user's node whose value it shows."""
        self.became: dict[int, list[Event]] = {}
        self.made: set[int] = set()
        """Nodes that a rule made besides the one it replaced: parts of the same value."""
        self.bodies: dict[int, int] = {}
        """Of each CALL of a function that is scheduled on its own the root of its body's graph."""
        self._seen: set[int] = set()
        for k, stage in enumerate(schedule.stages):
            if k == 0 or stage.calls:
                self._start(stage.root)
                self.bodies.update(dict.fromkeys(stage.calls, stage.root))
            for event in told(k, stage):
                self._take(event)

    def _start(self, root: int) -> None:
        """What the program wrote shows itself."""
        for i in self._new_below(root):
            if self.schedule.nodes[i].expr is None:
                self.origin[i] = i

    def _new_below(self, root: int) -> list[int]:
        """Nodes that were not seen before, and are seen now."""
        found, stack, seen = [], [root], self._seen
        while stack:
            i = stack.pop()
            if i not in seen:
                seen.add(i)
                found.append(i)
                stack.extend(self.schedule.nodes[i].src)
        return found

    def _take(self, e: Event) -> None:
        self.became.setdefault(e.old, []).append(e)
        origin = self.origin.get(e.old)
        if origin is not None:
            self.origin.setdefault(e.new, origin)
        if e.rule is None:
            self._seen.add(e.new)
            return
        for i in self._new_below(e.new):
            n = self.schedule.nodes[i]
            if origin is not None and i != e.new and n.expr is None and n.op not in _OF_A_VALUE:
                self.made.add(i)
                self.origin.setdefault(i, i if n.lines else origin)  # in the body of a function it is the user's own

    # ** of one value **

    def value_of(self, i: int) -> int:
        """The node that computes what a STAGE, a write or a hint hands on."""
        nodes = self.schedule.nodes
        while True:
            n = nodes[i]
            if n.op in _HANDS_ON and n.src:
                i = n.src[0]
            elif n.op == "STORE":
                i = n.src[1]
            elif n.op == "AFTER" and nodes[n.src[-1]].op in ("STORE", "END"):
                i = n.src[-1]
            else:
                return i

    def shows(self, i: int) -> int | None:
        """The user's node whose value node ``i`` is, or hands on."""
        value = self.origin.get(self.value_of(i))
        first, second = self.origin.get(i), value
        if self.schedule.nodes[i].op in _OF_A_VALUE:
            first, second = second, first
        return second if first is None else first

    def in_body(self, i: int) -> int | None:
        """The value in the body of a function, scheduled on its own, that its call gives as ``i``; None for others."""
        nodes, seen = self.schedule.nodes, {i}
        while not self._is_given(i):
            if (events := self.became.get(i)) and events[-1].new not in seen:
                i = events[-1].new
                seen.add(i)
            elif nodes[i].op in MOVES or nodes[i].op == "CAST":
                i = nodes[i].src[0]
            else:
                return None
        memory, call = nodes[i].src
        slot = nodes[call].src[1:].index(memory)
        while call not in self.bodies and (events := self.became.get(call)):
            call = events[-1].new
        return self.value_of(nodes[self.bodies[call]].src[slot]) if call in self.bodies else None

    def _is_given(self, i: int) -> bool:
        """Whether ``i`` is memory after the call of a function."""
        nodes, n = self.schedule.nodes, self.schedule.nodes[i]
        return n.op == "AFTER" and nodes[n.src[-1]].op == "CALL" and nodes[nodes[n.src[-1]].src[0]].op == "FUNCTION"

    @functools.cached_property
    def _about(self) -> dict[int, list[At]]:
        """Of each user's node the decisions about it, in order."""
        found: dict[int, list[At]] = {}
        for k, stage in enumerate(self.schedule.stages):
            for n, step in enumerate(stage.steps):
                node = step.node if isinstance(step, Decided) else step.before if isinstance(step, Rewrite) else None
                origin = None if node is None else self._owner(node, step)
                if origin is not None:
                    found.setdefault(origin, []).append((k, n, step))
        for steps in found.values():  # that a value is written is the last word about it
            steps.sort(key=lambda at: isinstance(at[2], Decided) and at[2].reason == "FORCED_STORE")
        return found

    def _owner(self, node: int, step: Step) -> int | None:
        if isinstance(step, Rewrite):  # only where the value itself became another
            origin = self.origin.get(node)
            return origin if origin is not None and self.shows(step.after) != origin else None
        return self.shows(node)

    def steps(self, i: int) -> list[At]:
        """The decisions about the value of ``i``, in order, and the rewrites that made another value of it."""
        origin = self.shows(i)
        return self._about.get(i if origin is None else origin, [])

    def gone(self, i: int) -> Event | None:
        """The last event after which nothing shows the value of ``i`` by itself any more; None if it lives on."""
        last, node, seen = None, i, {i}
        while (events := self.became.get(node)) and events[-1].new not in seen:
            last, node = events[-1], events[-1].new
            seen.add(node)
        return last if last is not None and self.shows(node) != self.shows(i) else None


def told(k: int, stage: Stage) -> Iterator[Event]:
    """A stage's events, in the order in which they were told."""
    replaced = iter((*stage.replaced, (0, 0, 1 << 60)))
    old, new, position = next(replaced)
    for n, step in enumerate((*stage.steps, None)):
        while position <= n and position < 1 << 60:
            yield Event(k, position, old, new)
            old, new, position = next(replaced)
        if isinstance(step, Rewrite):
            yield Event(k, n, step.before, step.after, step.rule)
