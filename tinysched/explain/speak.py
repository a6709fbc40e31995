"""What things are called in sentences: the user's name, else what it is; sizes, counts and lists as people write them.

In: a trace, a schedule of it, and ids. Out: words. A node of a late stage is called what the user's node is called whose
value it shows.

>>> count(1, "kernel"), count(3, "kernel"), size(67_108_864), listed(["a", "b", "c"])
('1 kernel', '3 kernels', '67 MB', 'a, b and c')
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from tinysched.dtypes import to_dtype
from tinysched.errors import TinyschedError
from tinysched.ir.lines import place
from tinysched.trace.document import Line, Node, Ranges, Schedule
from tinysched.trace.follow import Follow
from tinysched.trace.rebuild import below
from tinysched.trace.trace import Trace

MOVES = frozenset({"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP"})


def size(n: int) -> str:
    """Bytes as people read them."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= step:
            return f"{n / step:.1f} {unit}" if n < 10 * step else f"{n / step:.0f} {unit}"
    return f"{n} B"


def count(n: int, what: str) -> str:
    """``1 kernel``, ``1,200 kernels``."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; of many the first few, and how many more there are."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "nobody"


class Speaker:
    """Names the nodes of one schedule."""

    def __init__(self, trace: Trace, schedule: Schedule):
        self.trace, self.schedule = trace, schedule
        self.follow = Follow(schedule)

    def node(self, i: int) -> Node:
        """The user's node that node ``i`` shows, else the node itself."""
        origin = self.follow.shows(i)
        return self.schedule.nodes[self.follow.value_of(i) if origin is None else origin]

    def name(self, i: int) -> str:
        """A node as sentences name it."""
        own, shown = self.schedule.nodes[i], self.node(i)
        if own.name is not None or shown.name is not None:
            return f"`{own.name or shown.name}`"
        if own.expr is not None:
            return own.expr
        if shown.op == "INDEX":  # of memory, or it would show a value of the program
            memory = shown.src[0]
            while self.schedule.nodes[memory].op == "AFTER":
                memory = self.schedule.nodes[memory].src[0]
            return f"what is read of {self.name(memory)}"
        if own.op == "PARAM":  # the kernel table calls memory by its buffer
            return shown.label if shown.op == "BUFFER" else own.label
        return shown.label if own.op in ("STAGE", "INDEX", "AFTER", "END", "STORE", shown.op) else own.label

    def names(self, parts: Iterable[Any] | None) -> list[str]:
        """The nodes and index expressions that evidence names."""
        return [self.name(p["node"]) if is_node(p) else str(p) for p in parts or ()]

    def readers(self, parts: Iterable[Any] | None) -> list[str]:
        """Readers, seen through movement ops: who computes with the value."""
        return [self._reader(p["node"]) if is_node(p) else str(p) for p in parts or ()]

    def are_its_write(self, parts: Iterable[Any] | None, i: int) -> bool:
        """Whether the one reader of node ``i`` is the write that stores it."""
        nodes = self.schedule.nodes
        return all(is_node(p) and nodes[p["node"]].op == "STORE" and nodes[p["node"]].src[1] == i for p in parts or ())

    def _reader(self, i: int) -> str:
        nodes, seen = self.schedule.nodes, i
        while nodes[seen].op in MOVES and nodes[seen].name is None and len(up := self._readers.get(seen, [])) == 1:
            seen = up[0]
        if nodes[seen].op == "STORE":
            return f"the write of {self.name(nodes[seen].src[1])}"
        if seen == i:
            return self.name(i)
        return f"{self.name(seen)} (through {nodes[i].label.split()[0]})"

    @functools.cached_property
    def _readers(self) -> dict[int, list[int]]:
        """Who reads a node when the walk meets it."""
        stage = next((s for s in self.schedule.stages if s.name.endswith("rangeify")), None)
        found: dict[int, list[int]] = {}
        for i in below(self.schedule.nodes, () if stage is None else (stage.root,)):
            for s in dict.fromkeys(self.schedule.nodes[i].src):
                found.setdefault(s, []).append(i)
        return found

    @functools.cached_property
    def loops(self) -> dict[str, str]:
        """The trip count of each loop of the walk, by name. (Later passes use the names again.)"""
        nodes = self.schedule.nodes
        ends = [s.end for s in self.schedule.stages if s.name == "rangeify"]
        ranges = (nodes[i] for i in below(nodes, ends) if nodes[i].op == "RANGE")
        return {str(n.expr): str(nodes[n.src[0]].expr) for n in ranges}

    @functools.cached_property
    def loop_of(self) -> dict[str, str]:
        """Of each loop of the walk, by name, whose it is: the value that is stored, or reduced, in loops of its own."""
        found: dict[str, str] = {}
        stage = next((s for s in self.schedule.stages if s.name == "rangeify"), None)
        for step in stage.steps if stage is not None else ():
            if isinstance(step, Ranges):
                new = [*step.out, *(i for i in step.in_ if is_reduce_loop(i))]
                for loop in new:
                    if loop.isalnum() and not loop.isdecimal() and loop not in found:
                        found[loop] = self.name(step.node)
        return found

    def shape(self, i: int) -> str:
        """``4,096 × 4,096, 67 MB``; '' for what has no shape."""
        n = self.node(i)
        if n.op == "INDEX":  # one element of what a buffer holds
            n = self.schedule.nodes[i]
        sizes = n.shape
        if sizes is None:
            return ""
        text = " × ".join(f"{d:,}" if isinstance(d, int) else _of_variables(d) for d in sizes) or "one element"
        nbytes = self.nbytes(n)
        return text if nbytes is None else f"{text}, {size(nbytes)}"

    @staticmethod
    def nbytes(n: Node) -> int | None:
        """How large a value is, None where a Variable decides that."""
        total = 1
        for d in n.shape or ():
            if not isinstance(d, int):
                return None
            total *= d
        try:
            return total * to_dtype(n.dtype).itemsize
        except TinyschedError:
            return None

    def lines(self, i: int) -> list[Line]:
        """The user's lines that made a node, or the value that it shows."""
        own = self.schedule.nodes[i].lines or self.node(i).lines
        return [self.trace.lines[n] for n in own]

    def place(self, i: int) -> str:
        """``attention.py:7: scores = q @ k.T``, every line; '' where none is known."""
        return "; ".join(line_text(line) for line in self.lines(i))


def _of_variables(text: str) -> str:
    """A size with Variables in it, without the values that they are bound to."""
    plain = re.sub(r"\b(\w+)=\d+", r"\1", text)
    return f"({plain})" if " " in plain else plain


def is_reduce_loop(index: str) -> bool:
    """Whether an index is the loop of a reduction: ``R3``."""
    return index[:1] == "R" and index[1:].isdecimal()


def line_text(line: Line) -> str:
    """A line as sentences show it."""
    what = f": `{line.code}`" if line.code else ""
    return f"{place(line.file, line.number)}{' (its gradient)' if line.gradient else ''}{what}"


def is_node(part: Any) -> bool:
    """Whether a part of evidence names a node."""
    return isinstance(part, dict) and part.keys() == {"node"}


_SPEAKERS: OrderedDict[int, Speaker] = OrderedDict()
MOST_SPEAKERS = 8


def speaker(trace: Trace, schedule: Schedule) -> Speaker:
    """The speaker of a schedule; the last few are remembered, for following every value takes a while."""
    known = _SPEAKERS.get(id(schedule))
    if known is None or known.schedule is not schedule or known.trace.lines is not trace.lines:
        known = _SPEAKERS[id(schedule)] = Speaker(trace, schedule)
        while len(_SPEAKERS) > MOST_SPEAKERS:
            _SPEAKERS.popitem(last=False)
    return known
