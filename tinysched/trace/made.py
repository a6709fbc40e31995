"""Nodes of later stages, by the name that an override can use: what they came from, and what rules made beside.

In: a schedule. Out: for a node of any stage the id in callify's body whose value it is, or ``(origin, rule, ordinal)``
(:mod:`tinysched.schedule.lineage`), and why that may not be overridden. What prepare made may be: the walk decides about it
as about the user's own values. What is made later may not: then the walk is over.

>>> from tinysched import Context, Tensor, capture
>>> x = Tensor([[float(i) for i in range(16)]] * 16).realize()
>>> with Context(REDUCEOP_SPLIT_THRESHOLD=64):
...     trace = capture(x.sum())
>>> made = Made(trace, trace.schedules[0])
>>> sorted({text_of(name)[2:] for name in made.prepared if isinstance(name, tuple)})[:2]
['split_reduceop/0', 'split_reduceop/1']
"""

from __future__ import annotations

from typing import Any

from tinysched.schedule.lineage import Lineage, Name
from tinysched.trace.document import Schedule
from tinysched.trace.follow import Follow, told
from tinysched.trace.rebuild import STARTS, below
from tinysched.trace.trace import Trace

MOST_ORIGINS = 20
"""Of what was made of what was made of ...: names are no longer than this."""


def text_of(name: Name) -> str:
    """A name as text: ``12``, or ``12/split_reduceop/0``."""
    return f"{text_of(name[0])}/{name[1]}/{name[2]}" if isinstance(name, tuple) else str(name)


def from_text(text: str) -> Name | None:
    """The name that :func:`text_of` wrote, None for another text."""
    first, *rest = text.split("/")
    if not first.isdecimal() or len(first) > 9 or len(rest) % 2 or len(rest) > 2 * MOST_ORIGINS:
        return None
    name: Any = int(first)
    for rule, ordinal in zip(rest[::2], rest[1::2]):
        if not rule.isidentifier() or not ordinal.isdecimal() or len(ordinal) > 9:
            return None
        name = (name, rule, int(ordinal))
    return name


class Made:
    """The names of all nodes of a schedule; see the module."""

    def __init__(self, trace: Trace, s: Schedule):
        self.schedule, self._follow = s, Follow(s)
        self.name: dict[int, Name] = {}
        """Of each node its name."""
        self.prepared: dict[Name, int] = {}
        """Of each name the node that the walk meets."""
        self._graph: list[int] = []
        ways: dict[str, Lineage[int]] = {}
        for k, stage in enumerate(s.stages[STARTS:], STARTS):
            function = stage.name.rpartition(": ")[0]  # what is inside of a function is scheduled by itself
            begins = k == STARTS or bool(stage.calls)
            if begins:
                ways[function] = Lineage(below(s.nodes, (stage.root,)), lambda i: s.nodes[i].src)
            way = ways[function]
            for e in told(k, stage):
                way.became(e.old, e.new, "" if e.rule is None else trace.rules[e.rule].name)
            if begins:
                self._graph += (graph := below(s.nodes, (stage.end,)))
                there = set(graph)
                self.prepared = {name: i for name, i in way.now.items() if i in there} | self.prepared
            self.name = way.name | self.name

    def node(self, name: Name) -> int | None:
        """The node that a name means in the graph that the walk meets."""
        return self.prepared.get(name)

    def find(self, i: int, moves: frozenset[str]) -> tuple[Name | None, str]:
        """The name of the value that node ``i`` shows, and why it may not be overridden ('' if it may)."""
        nodes, name = self.schedule.nodes, self.name.get(i)
        if name is None or nodes[i].op in ("STORE", "AFTER", "END"):
            name = self.name.get(self._follow.value_of(i))
        if name is None:
            return None, "it is no value that the walk decided about"
        node = self.prepared.get(name)
        if not isinstance(name, tuple) or node is None:
            return name, "" if not isinstance(name, tuple) else "it was made after the walk had decided what is stored"
        while nodes[node].op in moves:
            node = nodes[node].src[0]
        return self.name.get(node, name), ""

    def kept_by(self, node: int) -> int | None:
        """The CONTIGUOUS that prepare made of a node, so that it is stored; None if there is none."""
        nodes = self.schedule.nodes
        hints = (i for i in self._graph if nodes[i].op == "CONTIGUOUS" and nodes[i].src[0] == node)
        return next((i for i in hints if isinstance(self.name.get(i), tuple)), None)

    def is_copied(self, node: int) -> bool:
        """Whether a copy to another device reads a node of the prepared graph."""
        nodes = self.schedule.nodes
        return any(nodes[i].op == "COPY" and self._root(nodes[i].src[0]) == node for i in self._graph)

    def _root(self, i: int) -> int:
        while self.schedule.nodes[i].op in ("RESHAPE", "SHRINK"):
            i = self.schedule.nodes[i].src[0]
        return i
