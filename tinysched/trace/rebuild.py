"""The graphs that a trace started from, as nodes again: what was asked for, and callify's body.

In: a :class:`Schedule`, maybe of a file. Out: UOps by id, also of the bodies of functions. Memory is new and empty: a
trace holds none. Raises :class:`TraceError` for what is no legal graph.

>>> from tinysched import Tensor, capture
>>> s = capture((Tensor([1.0, 2.0]).realize() * 3).sum()).schedules[0]
>>> start = Rebuilt(s)
>>> start.body.op, len(start.uops) <= len(s.nodes)
(Ops.SINK, True)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from tinysched.dtypes import to_dtype
from tinysched.errors import TinyschedError, TraceError
from tinysched.ir import lines as ir_lines
from tinysched.ir.lines import add_line
from tinysched.ir.ops import Ops
from tinysched.ir.spec import verify
from tinysched.ir.uop import UOp
from tinysched.trace.args import from_data
from tinysched.trace.document import Decided, Line, Node, Ranges, Rewrite, Schedule, Stage

STARTS = 2
"""The stages that are rebuilt: the tensor graph, and callify."""


def below(nodes: tuple[Node, ...], roots: Iterable[int], known: Container[int] = ()) -> list[int]:
    """The ids of some nodes and of all below, in order; what is ``known`` is not entered."""
    found, stack = set(roots), list(roots)
    while stack:
        for s in nodes[stack.pop()].src:
            if s not in found and s not in known:
                found.add(s)
                stack.append(s)
    return sorted(found)


def ids_in(value: Any) -> Iterator[int]:
    """The nodes that evidence names."""
    if isinstance(value, dict):
        if value.keys() == {"node"}:
            yield value["node"]
            return
        value = tuple(value.values())
    if isinstance(value, tuple):
        for part in value:
            yield from ids_in(part)


def ids_of(stage: Stage) -> set[int]:
    """Every node that a stage names."""
    found = {stage.root, stage.end}
    found.update(i for old, new, _ in stage.replaced for i in (old, new))
    for step in stage.steps:
        if isinstance(step, Rewrite):
            found |= {step.before, step.after}
        elif isinstance(step, Ranges):
            found.add(step.node)
        else:
            found.update(ids_in(step.evidence), () if step.node is None else (step.node,))
    return found


class Rebuilt:
    """Nodes of a schedule by id: those that its first stages name, the bodies of functions, and what lies below."""

    def __init__(self, schedule: Schedule, lines: tuple[Line, ...] = ()):
        """``lines``: the trace's, where what is made of the graph should know them."""
        self.lines = lines
        if len(schedule.stages) <= STARTS:
            raise TraceError(f"{schedule.title!r} has no stages to start from", help="trace the program again")
        self.schedule = schedule
        self.uops: dict[int, UOp] = {}
        self._open: set[int] = set()
        bodies = {stage.root for stage in schedule.stages if stage.calls}
        for i in sorted(bodies.union(*map(ids_of, schedule.stages[:STARTS]))):
            self.node(i)
        self.root = self.uops[schedule.stages[0].root]
        self.body = self.uops[schedule.stages[STARTS - 1].end]
        try:
            verify(self.body, "call")
        except (TinyschedError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise TraceError(f"the trace's graph is not legal: {error}", help="the file is damaged") from None

    def node(self, i: int) -> UOp:
        """The node with id ``i``; all below come with it."""
        nodes = self.schedule.nodes
        if i.__class__ is not int or not 0 <= i < len(nodes) or i in self._open:
            raise TraceError(f"an argument names the node {i!r:.20}, which is not below it", help="the file is damaged")
        if i not in self.uops:
            self._open.add(i)
            for j in below(nodes, (i,), self.uops):
                self.uops[j] = self._made(nodes[j])
            self._open.discard(i)
        return self.uops[i]

    def _made(self, n: Node) -> UOp:
        arg = from_data(n.data, self.node)
        try:
            dtype = to_dtype(n.dtype)
            if arg.__class__ is tuple and arg[:1] == ("buffer",):
                return UOp.new_buffer(arg[2], arg[1], dtype)
            made = UOp(Ops[n.op], dtype, tuple(self.uops[s] for s in n.src), arg, n.tag or None)
            for line in self._lines_inside(n, made):
                add_line(made, line)
            _ = made.maybe_shape
            return made
        except (TinyschedError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise TraceError(f"{n.op} {n.arg!r:.60} is no node: {error}", help="the file is damaged") from None

    def _lines_inside(self, n: Node, made: UOp) -> Iterator[ir_lines.Line]:
        """The lines of a node in the body of a function, which its copies take from it."""
        table = self.lines
        if self._open and table and not ir_lines.lines_of(made):
            for line in (table[i] for i in n.lines):
                yield ir_lines.Line(line.file, line.number, line.function, line.gradient)

    def evidence(self, value: Any) -> Any:
        """Evidence with nodes where it names ids."""
        if isinstance(value, dict):
            if value.keys() == {"node"}:
                return self.uops[value["node"]]
            return {k: self.evidence(v) for k, v in value.items()}
        return tuple(self.evidence(v) for v in value) if isinstance(value, tuple) else value

    def names(self) -> dict[UOp, str]:
        """The names that the user gave."""
        named = ((u, self.schedule.nodes[i].name) for i, u in self.uops.items())
        return {u: name for u, name in named if name is not None}

    def made_by(self, table: tuple[Line, ...]) -> dict[UOp, tuple[Line, ...]]:
        """The user's lines of each node."""
        return {u: tuple(table[n] for n in self.schedule.nodes[i].lines) for i, u in self.uops.items()}

    def decided(self, stage: Stage) -> Iterator[Decided]:
        """A stage's decisions, with nodes in their evidence, but for what the cache did."""
        for step in stage.steps:
            if isinstance(step, Decided) and step.verdict not in ("cached", "scheduled"):
                yield Decided(step.node, step.verdict, step.reason, self.evidence(step.evidence))
