"""Which elements of its sources an element of a value reads, as data: what the index explorer draws.

In: a schedule. Out: for every node of the tensor graph its :class:`Edge` values, in which an index is an expression over
the node's own axes ``i0, i1, …`` and, where it reduces, over the axes ``R0, R1, …`` that it sums over. Movement ops are not
described anew: the expressions are what the engine's own definition of them gives
(:func:`~tinysched.ir.symbolic.movement.apply_movement_op`).

The viewer has no Python behind it when it is a file, so it evaluates these expressions itself. They travel as nested lists,
which ten lines evaluate in either language; tables of all elements would grow with the tensors, expressions don't.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
>>> s = capture(x.T.pad(((1, 0), (0, 0))) * 2).schedules[0]
>>> found = edges(s)
>>> pad = next(i for i, n in enumerate(s.nodes) if n.op == "PAD")
>>> found[pad][0].text
'[i0 - 1 if i0 >= 1, i1]'
>>> [at(found[pad][0], element) for element in ((0, 1), (2, 1))]
[[None], [(1, 1)]]
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tinysched.errors import TraceError
from tinysched.ir import text
from tinysched.ir.derive import bound_value
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.symbolic.conditions import conjunction
from tinysched.ir.symbolic.movement import Indices, apply_movement_op
from tinysched.ir.uop import TRUE, UOp
from tinysched.schedule.indexing import indices_for
from tinysched.trace.document import Schedule
from tinysched.trace.rebuild import Rebuilt, below

Expr = Any
"""An int, the name of an axis, or ``(sign, a, b)``; ``("if", condition, index)`` has no value where the condition fails."""
Element = tuple[int, ...]
_SIGNS = {
    Ops.ADD: "+", Ops.MUL: "*", Ops.FLOORDIV: "//", Ops.FLOORMOD: "%", Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
    Ops.AND: "&", Ops.OR: "|",
}  # fmt: skip
_AT_THE_SAME_ELEMENT = GroupOp.Elementwise | GroupOp.Passthrough | {Ops.STORE, Ops.COPY}


@dataclass(frozen=True, slots=True)
class Edge:
    """A node reads ``source`` at ``index``, one expression per axis of the source (None: at the same element).

    ``loops``: the sizes of the axes ``R0, R1, …``, of which every element is read. ``text``: the index as people write it.
    ``when``: a condition under which this source is read at all (a part of a STACK, a shard, what a write covers).
    ``through``: where movement ops stand
    between, the value or memory below them, and its index in terms of this node's axes.
    """

    source: int
    index: tuple[Expr, ...] | None = None
    loops: tuple[int, ...] = ()
    text: str = ""
    when: Expr | None = None
    through: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Reads:
    """How the values of a tensor graph read one another: edges and shapes by node."""

    edges: dict[int, tuple[Edge, ...]]
    shapes: dict[int, tuple[int, ...]]


def reads(schedule: Schedule) -> Reads:
    """The reads of a schedule's tensor graph; none where the trace cannot be read back."""
    try:
        start = Rebuilt(schedule)
    except TraceError:
        return Reads({}, {})
    ids = below(schedule.nodes, (schedule.stages[0].root,))
    uops = {i: start.node(i) for i in ids if schedule.nodes[i].shape is not None}
    shapes = {i: shape for i, u in uops.items() if (shape := _sizes(u)) is not None}
    number = {uops[i]: i for i in shapes}
    found = {i: tuple(_edges(uops[i], number)) for i in shapes}
    return Reads({i: e for i, e in found.items() if e}, shapes)


def edges(schedule: Schedule) -> dict[int, tuple[Edge, ...]]:
    """Only the edges, by node."""
    return reads(schedule).edges


def _sizes(u: UOp) -> tuple[int, ...] | None:
    """The shape in numbers, with the values that Variables have here."""
    sizes = [bound_value(n) for n in u.maybe_shape or ()]
    return None if None in sizes or u.maybe_shape is None else tuple(n for n in sizes if n is not None)


def _axes(u: UOp) -> Indices:
    """A loop per axis, numbered like the axis."""
    return tuple(UOp.range(n, i) for i, n in enumerate(u.shape))


def _edges(u: UOp, number: Mapping[UOp, int]) -> Iterator[Edge]:
    axes = _axes(u)
    if u.op in GroupOp.Movement:
        if u.src[0] in number:
            yield _edge(u.src[0], apply_movement_op(u.op, u.src[0].shape, u.arg, axes), number)
    elif u.op is Ops.REDUCE and u.src[0] in number:
        n = u.arg[1]
        loops = tuple(UOp.range(size, i, AxisType.REDUCE) for i, size in enumerate(u.src[0].shape[:n]))
        sizes = tuple(size for s in u.src[0].shape[:n] if (size := bound_value(s)) is not None)
        yield replace(_through(u.src[0], loops + axes, number), loops=sizes)
    elif u.op is Ops.STACK:
        for k, s in enumerate(u.src):
            if s in number:
                yield replace(_through(s, axes[1:], number), when=("==", "i0", k))
    elif u.op is Ops.UNSHARD:
        yield from _shards(u, axes, number)
    elif u.op is Ops.AFTER and u.src[-1].op is Ops.STORE:
        yield from _written_over(u, axes, number)
    elif u.op in _AT_THE_SAME_ELEMENT:
        for s in dict.fromkeys(u.src[1:] if u.op is Ops.STORE else u.src):  # a write reads its value, not its target
            if s in number:
                same = s.shape == u.shape or u.op not in GroupOp.Broadcastable
                edge = _through(s, axes if same else indices_for(u, s, axes), number)
                yield replace(edge, index=None, text="") if s.shape == u.shape else edge


def _shards(u: UOp, axes: Indices, number: Mapping[UOp, int]) -> Iterator[Edge]:
    """A sharded value: each element lies on one device, or on every device the same."""
    parts, axis, start = u.src[0].src, u.arg, 0
    for part in parts if axis is not None else parts[:1]:
        if part not in number:
            return
        if axis is None:
            yield Edge(number[part])
            return
        n = part.shape[axis]
        local = tuple(a - start if k == axis and start else a for k, a in enumerate(axes))
        inside = ("&", ("<", start - 1, f"i{axis}"), ("<", f"i{axis}", start + n))
        yield replace(_through(part, local, number), when=inside)
        start += n


def _written_over(u: UOp, axes: Indices, number: Mapping[UOp, int]) -> Iterator[Edge]:
    """Memory after a write: what the write covers is the value written, the rest is the memory before it."""
    state, store = u.src[0], u.src[-1]
    view, chain = store.src[0], []
    while view.op in _UNDONE and view is not state:
        chain.append(view)
        view = view.src[0]
    if view is not state or store not in number:
        return
    index: Indices = axes
    for move in reversed(chain):  # from memory to the view: each movement op undone by its opposite
        op, arg = _undo(move)
        index = apply_movement_op(op, move.shape, arg, index)
    covered = conjunction(tuple(i.get_valid() for i in index))
    yield replace(_edge(store, tuple(i.get_idx() for i in index), number), when=_when(covered))
    if covered is not TRUE and state in number:
        yield Edge(number[state], when=("!", expression(covered), 0))


_UNDONE = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.SHRINK, Ops.FLIP})


def _undo(move: UOp) -> tuple[Ops, Any]:
    """The op and argument that lead back from the result of a movement op to its source."""
    source, arg = move.src[0].shape, move.arg
    if move.op is Ops.PERMUTE:
        return Ops.PERMUTE, tuple(arg.index(i) for i in range(len(arg)))
    if move.op is Ops.SHRINK:
        return Ops.PAD, tuple((start, n - end) for n, (start, end) in zip(source, arg))
    return move.op, arg if move.op is Ops.FLIP else source


def _when(condition: UOp) -> Expr | None:
    return None if condition is TRUE else expression(condition)


def _edge(source: UOp, index: Indices, number: Mapping[UOp, int]) -> Edge:
    return Edge(number[source], tuple(expression(i) for i in index), (), written(index))


def _through(source: UOp, index: Indices, number: Mapping[UOp, int]) -> Edge:
    """An edge that also says, in the engine's normal form, what is read below the movement ops."""
    edge, u = _edge(source, index, number), source
    while u.op in GroupOp.Movement and u.src[0] in number and not is_memory(u):
        index = apply_movement_op(u.op, u.src[0].shape, u.arg, index)
        u = u.src[0]
    return edge if u is source else replace(edge, through=(number[u], written(index)))


def is_memory(u: UOp) -> bool:
    """Flat memory in the shape that the program gives it."""
    return u.op is Ops.RESHAPE and u.src[0].op in (Ops.BUFFER, Ops.PARAM)


# ** expressions **


def written(index: Indices) -> str:
    """An index as people write it, over the axes ``i0, i1, …``."""
    told = "[" + ", ".join(text.expr(i, 40) for i in index) + "]"
    return re.sub(r"\b(\w+)=\d+", r"\1", re.sub(r"\br(\d+)\b", r"i\1", told))  # a bound Variable by its name


def expression(u: UOp) -> Expr:
    """An index as nested tuples. Raises :class:`TraceError` for what is no index arithmetic."""
    if u.op is Ops.CONST:
        return int(u.arg)
    if u.op is Ops.RANGE:
        n, kind = u.arg
        return f"{'R' if kind is AxisType.REDUCE else 'i'}{n}"
    if u.op is Ops.BIND:
        return int(u.src[1].arg)
    if u.is_gated:
        return "if", expression(u.src[0]), expression(u.src[1])
    if u.op in _SIGNS:
        return _SIGNS[u.op], expression(u.src[0]), expression(u.src[1])
    raise TraceError(f"{u.op} is no index arithmetic", help="index expressions have +, *, //, %, <, & and | only")


def evaluate(e: Expr, axes: Mapping[str, int]) -> int | None:
    """The value of an expression; None where its condition fails.

    >>> evaluate(("if", ("<", "i0", 3), ("+", ("*", "i0", 4), 1)), {"i0": 2}), evaluate(("if", ("<", "i0", 3), 0), {"i0": 5})
    (9, None)
    """
    if isinstance(e, int):
        return e
    if isinstance(e, str):
        return axes[e]
    sign, a, b = e
    if sign == "if":
        return evaluate(b, axes) if evaluate(a, axes) else None
    x, y = evaluate(a, axes), evaluate(b, axes)
    assert x is not None and y is not None, "conditions stand on top"
    return int(_COMPUTE[sign](x, y))


_COMPUTE: dict[str, Any] = {
    "+": lambda x, y: x + y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "<": lambda x, y: x < y,
    "!=": lambda x, y: x != y,
    "==": lambda x, y: x == y,
    "&": lambda x, y: bool(x) and bool(y),
    "|": lambda x, y: bool(x) or bool(y),
    "!": lambda x, y: not x,
}


def at(edge: Edge, element: Element) -> list[Element | None]:
    """The elements of the source that ``element`` reads through ``edge``; None stands for padding."""
    axes = {f"i{k}": v for k, v in enumerate(element)}
    if edge.when is not None and not evaluate(edge.when, axes):
        return []
    if edge.index is None:
        return [element]
    found: list[Element | None] = []
    for loops in itertools.product(*map(range, edge.loops)):
        here = axes | {f"R{k}": v for k, v in enumerate(loops)}
        values = [evaluate(e, here) for e in edge.index]
        found.append(None if None in values else tuple(v for v in values if v is not None))
    return found


# ** one element, all the way down **

MOST = 4096
"""Elements of one value that are followed; what is left out is said."""


@dataclass
class Seen:
    """The elements of one value that are read, how often padding is read instead, and whether all were followed."""

    elements: dict[Element, None]
    padding: int = 0
    whole: bool = True


def read_below(found: Reads, node: int, element: Element) -> dict[int, Seen]:
    """Everything that ``element`` of ``node`` reads, down to memory: elements by node, readers first.

    Raises :class:`TraceError` where the node has no such element.
    """
    shape = found.shapes.get(node)
    if shape is None or len(shape) != len(element) or not all(0 <= i < n for i, n in zip(element, shape)):
        raise TraceError(f"node {node} has no element {list(element)}", help=f"its shape is {shape}")
    seen = {node: Seen({element: None})}
    for i in sorted(_below(found, node), reverse=True):
        for edge in found.edges.get(i, ()):
            _follow(seen[i], edge, seen.setdefault(edge.source, Seen({})))
    return seen


def _below(found: Reads, node: int) -> set[int]:
    reached, stack = {node}, [node]
    while stack:
        for edge in found.edges.get(stack.pop(), ()):
            if edge.source not in reached:
                reached.add(edge.source)
                stack.append(edge.source)
    return reached


def _follow(reader: Seen, edge: Edge, source: Seen) -> None:
    source.whole = source.whole and reader.whole
    for element in reader.elements:
        for read in at(edge, element):
            if read is None:
                source.padding += 1
            elif len(source.elements) < MOST:
                source.elements[read] = None
            elif read not in source.elements:
                source.whole = False
                return


@cache
def _letters(n: int) -> str:
    return ", ".join(f"i{k}" for k in range(n))


def rows(schedule: Schedule, node: int, element: Element) -> list[list[str]]:
    """The same as table rows: node, shape, how it is read, elements."""
    found = reads(schedule)
    seen = read_below(found, node, element)
    how = {e.source: e for i in seen for e in found.edges.get(i, ())}
    told = (i for i in sorted(seen, reverse=True) if schedule.nodes[i].kind != "const")
    return [_row(schedule, found, i, seen[i], how.get(i)) for i in told]


def _row(schedule: Schedule, found: Reads, i: int, seen: Seen, edge: Edge | None) -> list[str]:
    n = schedule.nodes[i]
    first = [str(list(e)) for e in itertools.islice(seen.elements, 6)]
    more = len(seen.elements) - len(first)
    told = " ".join(first) + (f" and {more:,} more" if more > 0 else "") + ("" if seen.whole else " (at least)")
    told += f" and padding {seen.padding:,} times" if seen.padding else ""
    index = "" if edge is None else edge.text or f"[{_letters(len(found.shapes[i]))}]"
    shape = "×".join(map(str, found.shapes[i])) or "one value"
    return [n.name or n.label, shape, index or "picked", told or "none"]


def data(schedule: Schedule) -> dict[str, Any]:
    """What the viewer is given: shapes and edges of :func:`reads` as JSON values."""
    found = reads(schedule)
    return {
        "shapes": {str(i): shape for i, shape in found.shapes.items()},
        "edges": {str(i): [_plain(e) for e in es] for i, es in found.edges.items()},
    }


def _plain(e: Edge) -> list[Any]:
    """``[source, index, loops, text, when, through]``, without what is None at its end."""
    fields = [e.source, e.index, e.loops, e.text, e.when, e.through]
    while fields[-1] is None:
        fields.pop()
    return fields
