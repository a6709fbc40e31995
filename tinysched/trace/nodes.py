"""Numbers UOps and says about each what a person wants to know: what it is called, of what kind it is, who made it.

In: UOps, graph by graph. Out: :class:`Node` values in a deterministic order, sources before readers.

>>> from tinysched.ir.uop import UOp
>>> table = NodeTable(LineTable())
>>> table.add(UOp.range(4, 0) * 3)
3
>>> [(n.label, n.kind, n.expr) for n in table.nodes()]
[('4', 'const', '4'), ('r0', 'loop', 'r0'), ('3', 'const', '3'), ('mul', 'alu', 'r0*3')]
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from tinysched.dtypes import dtypes
from tinysched.ir import lines, text
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp
from tinysched.trace import args
from tinysched.trace.document import Line, Node

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
LONGEST_EXPRESSION = 400
"""Index arithmetic with more nodes than this (counted as a tree) is written down to a depth of 12 only."""

_KINDS: Final[dict[str, frozenset[Ops]]] = {
    "memory": frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER}),
    "const": frozenset({Ops.CONST}),
    "loop": frozenset({Ops.RANGE}),
    "reduce": frozenset({Ops.REDUCE}),
    "movement": GroupOp.Movement | {Ops.STACK},
    "hint": GroupOp.Passthrough,
    "index": frozenset({Ops.INDEX, Ops.LOAD}),
    "store": frozenset({Ops.STORE, Ops.END}),
    "stage": frozenset({Ops.STAGE}),
    "device": frozenset({Ops.COPY, Ops.UNSHARD, Ops.MSTACK, Ops.MSELECT, Ops.ALLREDUCE}),
    "alu": GroupOp.Elementwise,
}
KIND_OF: Final[dict[Ops, str]] = {op: kind for kind, ops in _KINDS.items() for op in ops}
MOST_SLICES = 14
"""Letters: of many axes a label does not say what is kept of each."""
_LABELS: Final = {
    Ops.RECIPROCAL: "1/x", Ops.FDIV: "div", Ops.CMPLT: "<", Ops.CMPNE: "≠", Ops.CMPEQ: "=", Ops.FLOORDIV: "//",
    Ops.FLOORMOD: "%", Ops.CONTIGUOUS_BACKWARD: "contiguous backward", Ops.MSTACK: "stack of shards",
    Ops.MSELECT: "shard", Ops.STAGE: "stage",
}  # fmt: skip
_MADE_EARLIER: Final = frozenset({Ops.BUFFER, Ops.PARAM, Ops.CONST, Ops.SINK})
_REDUCES: Final = {Ops.ADD: "sum", Ops.MAX: "max", Ops.MUL: "prod"}


class LineTable:
    """The user's lines of a trace, each once, in the order they are met."""

    def __init__(self, known: Iterable[Line] = (), made_by: Mapping[UOp, tuple[Line, ...]] | None = None) -> None:
        """``made_by``: the lines of nodes that came out of a file."""
        self._number: dict[Line, int] = {line: i for i, line in enumerate(known)}
        self._known = {(line.file, line.number, line.function, line.gradient): line for line in self._number}
        self._plain: dict[lines.Line, Line] = {}
        self._own: dict[UOp, tuple[lines.Line, ...]] = {}
        self._from_file = made_by is not None
        self._made_by = dict(made_by or {})

    def take(self, nodes: Iterable[tuple[UOp, UOp]]) -> None:
        """Keeps the lines of the program's nodes (each with the one that stands for it) as they are now.

        The same node may be made by more lines later, and a file may be edited.
        """
        for u, mine in nodes:
            if made := lines.lines_of(u):
                self._own[mine] = made
                for line in made:
                    self._plainly(line)
            if u.op is Ops.FUNCTION:
                self.take((v, v) for body in args.nodes_in(u.arg) for v in body.toposort())

    def _lines_of(self, u: UOp) -> tuple[lines.Line, ...]:
        return self._own.get(u) or lines.lines_of(u)

    def inherit(self, graph: list[UOp]) -> None:
        """What is inside of a Tensor operation was made by the lines that made its outermost node, its reader.

        ``graph``: the tensor graph and the bodies of functions, sources first.
        """
        if self._from_file:
            return
        found: dict[UOp, tuple[lines.Line, ...]] = {}
        for u in reversed(graph):
            own = self._lines_of(u) or found.get(u, ())
            if u.op in _MADE_EARLIER:
                continue
            found[u] = own
            for s in u.src:
                found[s] = tuple(dict.fromkeys((*found.get(s, ()), *own)))[: lines.MOST_LINES]
        for u, inherited in found.items():
            if inherited and not self._lines_of(u):
                self._made_by[u] = tuple(self._plainly(line) for line in inherited)

    def add(self, u: UOp) -> tuple[int, ...]:
        """Numbers of the lines that made ``u``."""
        made = self._made_by.get(u)
        if made is None:
            made = tuple([self._plainly(line) for line in self._lines_of(u)])
        return tuple([self._number.setdefault(line, len(self._number)) for line in made])

    def is_inside_function(self, u: UOp) -> bool:
        """Whether a node that a pass made was written by the user, in the body of a function."""
        return u not in self._made_by and bool(lines.lines_of(u)) and u.device is not None

    def _plainly(self, line: lines.Line) -> Line:
        found = self._plain.get(line)
        if found is None:
            made = Line(short_file(line.file), line.number, line.code, line.function, line.gradient)
            found = self._plain[line] = self._known.get((made.file, made.number, made.function, made.gradient), made)
        return found

    def lines(self) -> tuple[Line, ...]:
        return tuple(self._number)


def short_file(path: str) -> str:
    """A file name that is the same on every machine: our own from the package down, ``cell [3]`` for a notebook's cell."""
    if path.startswith(_ROOT):
        return path[len(_ROOT) :].replace(os.sep, "/")
    return lines.file_name(path)


class NodeTable:
    """Every UOp once; see the module. ``buffers`` numbers BUFFERs as the kernel table does, ``names`` are the user's."""

    def __init__(self, lines: LineTable, buffers: dict[UOp, str] | None = None, names: dict[UOp, str] | None = None):
        self.id: dict[UOp, int] = {}
        self._lines, self.names = lines, names or {}
        self._buffers = dict(buffers or {})
        self._loops: dict[frozenset[UOp], tuple[str, ...]] = {}
        self._folded: dict[UOp, int] = {}  # of those inside their reader: how large their expression is, as a tree
        self._texts: dict[UOp, str] = {}  # of those that were written down: they are shown at every reader

    def add(self, root: UOp) -> int:
        """Numbers ``root`` and all below, and returns its number."""
        known, stack = self.id, [(root, False)]
        while stack:
            u, ready = stack.pop()
            if u in known:
                continue
            if ready or not u.src:
                known[u] = len(known)
                self._fold(u)
                continue
            stack.append((u, True))
            stack.extend((s, False) for s in reversed(u.src) if s not in known)
        return known[root]

    def nodes(self, whole: Collection[int] = ()) -> tuple[Node, ...]:
        """The nodes added so far, by number; those in ``whole`` with their arguments as data.

        What they look like is written down node by node, when somebody asks; what is numbered on the way is numbered now.
        """
        whole, stack = set(whole), [u for u, i in self.id.items() if i in whole]
        while stack:
            for inner in args.nodes_in(stack.pop().arg):
                self.add(inner)
                new = self.below([self.id[inner]]) - whole
                whole |= new
                stack += [u for u, i in self.id.items() if i in new]
        for u in self.id:
            if u.op is Ops.BUFFER:
                self._buffer(u)
        return tuple([self._node(u, i in whole) for u, i in self.id.items()])

    def below(self, ids: Iterable[int]) -> set[int]:
        """The numbers of some nodes and of all below."""
        by_number = list(self.id)
        found, stack = set(ids), [by_number[i] for i in ids]
        while stack:
            for s in stack.pop().src:
                if (i := self.id[s]) not in found:
                    found.add(i)
                    stack.append(s)
        return found

    def text(self, u: Any) -> str:
        """An expression as people write it, with buffers numbered as in this trace."""
        if not isinstance(u, UOp):
            return str(u)
        if (known := self._texts.get(u)) is not None:
            return known
        depth = 64 if self._size(u) <= LONGEST_EXPRESSION else 12
        written = text.expr(u, depth)
        if u not in self._folded:
            return re.sub(r"\bb(\d+)\b", self._renumber, written)
        self._texts[u] = written
        return written

    def is_folded(self, u: UOp) -> bool:
        """Whether views show the (numbered) node ``u`` inside its reader."""
        return u in self._folded

    def _size(self, u: UOp) -> int:
        return self._folded.get(u, LONGEST_EXPRESSION + 1 if u.src else 1)

    def _renumber(self, match: re.Match[str]) -> str:
        by_number = {str(b.arg.number): self._buffer(b) for b in self.id if b.op is Ops.BUFFER}
        return by_number.get(match[1], match[0])

    def _buffer(self, u: UOp) -> str:
        return self._buffers.setdefault(u, f"b{len(self._buffers)}")

    def _node(self, u: UOp, whole: bool) -> Node:
        return Node.later(
            functools.partial(self._looks, u, whole),
            op=u.op.name,
            src=tuple([self.id[s] for s in u.src]),
            name=self.names.get(u),
            lines=self._lines.add(u),
        )

    def _looks(self, u: UOp, whole: bool) -> dict[str, Any]:
        """The fields of a node that come later."""
        shape = u.maybe_shape
        return {
            "dtype": u.dtype.name,
            "label": self.label(u),
            "kind": KIND_OF.get(u.op, "control") if not u.is_variable else "const",
            "shape": None if shape is None else tuple(s if isinstance(s, int) else self.text(s) for s in shape),
            "arg": self._buffer_arg(u) if u.op is Ops.BUFFER else text.arg_text(u),
            "tag": "" if u.tag is None else str(u.tag),
            "expr": self.text(u) if u in self._folded else None,
            "ranges": self._ranges(u),
            "data": args.to_data(u.arg, self.id.__getitem__) if whole else None,
        }

    def _ranges(self, u: UOp) -> tuple[str, ...]:
        """The names of the open loops; many nodes have the same."""
        known = self._loops.get(u.ranges)
        if known is None:
            names = sorted(text.range_name(r) for r in u.ranges if r.op is Ops.RANGE)
            known = self._loops[u.ranges] = tuple(names)
        return known

    def _buffer_arg(self, u: UOp) -> str:
        return f"{self._buffer(u)} {u.arg.size} {u.arg.device}"

    def _fold(self, u: UOp) -> None:
        """Notes whether views show ``u`` inside its reader: constants, loops, and arithmetic on nothing but these."""
        if u.op in (Ops.CONST, Ops.RANGE) or u.is_variable:
            self._folded[u] = 1
        elif u.op in GroupOp.Elementwise and u.dtype in (dtypes.index, dtypes.bool):
            sizes = [self._folded.get(s, 0) for s in u.src]
            if all(sizes):
                self._folded[u] = 1 + sum(sizes)

    # ** labels **

    def label(self, u: UOp) -> str:
        """What a person calls ``u``, whatever its name."""
        op, arg = u.op, u.arg
        if op is Ops.REDUCE:
            return f"{_REDUCES.get(arg[0], 'reduce')} {_reduced(u)}".rstrip()
        if op in (Ops.CONST, Ops.RANGE) or u.is_variable:
            return text.arg_text(u) if not u.is_variable else str(arg.name)
        if op is Ops.BUFFER:
            return self._buffer(u)
        if op is Ops.PARAM:
            return f"p{arg.slot}"
        if op in (Ops.CAST, Ops.BITCAST):
            return f"{op.name.lower()} {u.dtype.name}"
        if op is Ops.PERMUTE:
            return "permute " + ",".join(map(str, arg))
        if op is Ops.SHRINK:
            return f"shrink {kept}" if len(kept := _slices(u)) <= MOST_SLICES else "shrink"
        if op is Ops.COPY:
            return f"copy to {arg}"
        if op in (Ops.CALL, Ops.SINK):
            return kernel_name(u) or op.name.lower()
        return _LABELS.get(op, op.name.lower())


def _slices(u: UOp) -> str:
    """``1:5,:``: what a SHRINK keeps of each axis, as in NumPy."""
    kept = ((a, b, n) for (a, b), n in zip(u.arg, u.src[0].shape))
    return ",".join(":" if a == 0 and b is n else f"{_size(a)}:{_size(b)}" for a, b, n in kept)


def _size(n: int | UOp) -> str:
    return text.expr(n) if isinstance(n, UOp) else str(n)


def _reduced(u: UOp) -> str:
    """``⟂1``: the axes of the value that the user reduced, or the loops that do it."""
    n = u.arg[1]
    if n == 0:
        return " ".join(text.range_name(r) for r in u.src[1:] if r.op is Ops.RANGE)
    moved = u.src[0]
    axes: Iterable[int] = moved.arg[:n] if moved.op is Ops.PERMUTE else range(n)
    return "⟂" + ",".join(map(str, axes))


def kernel_name(u: UOp) -> str:
    """The name of the kernel that a CALL runs or a SINK holds, '' if it is none."""
    body = u.src[0] if u.op is Ops.CALL else u
    if body.op is Ops.COPY:
        return "copy"
    return str(getattr(body.arg, "name", "") or "") if body.op is Ops.SINK else ""
