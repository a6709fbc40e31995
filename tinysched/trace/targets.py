"""Which value an override means, and whether it may be made.

In: a node's id, a Tensor or its name, a line of the program, or a buffer ("b3"), with "realize" or "fuse". Out: ids in
callify's body (or that of a function that is scheduled on its own), or for what a pass made ``(origin's id, rule,
ordinal)``, as text "12/split_reduceop/0" (:mod:`tinysched.schedule.lineage`). Raises :class:`ArgumentError` that says why
a value cannot be stored, or must be.

>>> from tinysched import Tensor, capture
>>> out = (Tensor([1.0, 2.0]).realize() * 3).sum()
>>> capture(out).with_overrides({"out": "fuse"})
Traceback (most recent call last):
...
tinysched.errors.ArgumentError: `out` cannot be fused: it was asked for, so it must be in memory
...
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.ir.lines import place
from tinysched.ir.uop import UOp
from tinysched.schedule.lineage import Name
from tinysched.tensor.core import Tensor
from tinysched.trace.document import Line, Node, Schedule
from tinysched.trace.made import Made, from_text
from tinysched.trace.rebuild import STARTS, below
from tinysched.trace.trace import Trace

MOST_LINES = 12
_BUFFER = re.compile(r"b(\d{1,9})")
WORDS = ("realize", "fuse")
_MOVES = frozenset({"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP", "DETACH", "CONTIGUOUS_BACKWARD"})


def find(trace: Trace, s: Schedule, key: Any) -> list[int]:
    """The ids, in the tensor graph or callify's body, that ``key`` means. Raises :class:`ArgumentError` if none."""
    if isinstance(key, (Tensor, UOp)):
        known = trace.live.find(key) if trace.live is not None else None
        if known is not None and trace.schedules[known[0]] is s:
            return [known[1]]
        raise ArgumentError("this Tensor is not part of the trace", help="give its name, its line or a node's id")
    if isinstance(key, int) and 0 <= key < len(s.nodes):
        return [key]
    if isinstance(key, Node) and key in s.nodes:
        return [s.nodes.index(key)]
    if (name := _made_name(key)) is not None and (made := Made(trace, s).node(name)) is not None:
        return [made]
    graph = below(s.nodes, written_graphs(s))
    if found := [i for i in graph if s.nodes[i].name == key and key is not None]:
        return found[-1:]
    if (stored := _stored_in(s, key)) is not None:
        return [stored]
    inside = {i for kernel in s.kernels for i in kernel.nodes}.difference(graph)
    written = [*graph, *sorted(i for i in inside if s.nodes[i].lines)]  # also in the bodies of functions
    if found := [i for i in written if any(is_line(trace.lines[n], key) for n in s.nodes[i].lines)]:
        return found
    names = dict.fromkeys(f"`{s.nodes[i].name}`" for i in graph if s.nodes[i].name)
    places = sorted({(line.file, line.number) for i in written for line in (trace.lines[n] for n in s.nodes[i].lines)})
    lines = ", ".join(place(*found) for found in places[:MOST_LINES]) + (" …" if len(places) > MOST_LINES else "")
    raise ArgumentError(
        f"{key!r} is no node, no name and no line of {s.title}",
        help=f"names are: {', '.join(names) or 'none'}; lines are: {lines or 'none'}",
    )


def _stored_in(s: Schedule, key: Any) -> int | None:
    """The value that a buffer holds, for a buffer as tables call those without a name: "b3"."""
    number = _BUFFER.fullmatch(key) if isinstance(key, str) else None
    return s.buffers[int(number[1])].node if number is not None and int(number[1]) < len(s.buffers) else None


def _made_name(key: Any) -> Name | None:
    """``(12, "split_reduceop", 0)``, or the same as text."""
    if isinstance(key, tuple) and len(key) == 3:
        return key
    return from_text(key) if isinstance(key, str) and "/" in key else None


def is_line(line: Line, key: Any) -> bool:
    """Whether ``key`` ("model.py:7", "cell [3], line 7", ("model.py", 7), 7 as text, or a Line) means a line."""
    if isinstance(key, Line):
        return line == key
    if isinstance(key, tuple) and len(key) == 2:
        return (line.file, line.number) == key
    short = line.file.rpartition("/")[2]
    number = line.number
    return isinstance(key, str) and key in (
        place(line.file, number),
        f"{line.file}:{number}",
        f"{short}:{number}",
        str(number),
    )


def resolve(trace: Trace, s: Schedule, overrides: Mapping[Any, str]) -> dict[Name, str]:
    """Names for the keys of ``overrides``: ids in callify's body, or of what rules made."""
    found: dict[Name, str] = {}
    for key, what in overrides.items():
        if what not in WORDS:
            raise ArgumentError(f"an override says 'realize' or 'fuse', not {what!r}")
        ids = find(trace, s, key)
        refused = ""
        legal: list[Name] = []
        for i in ids:
            target, why = _target(trace, s, i, what)
            refused = why
            legal += [] if why else [target]
        if not legal:
            raise ArgumentError(
                f"{_called(s.nodes[ids[-1]])} cannot be {'stored' if what == 'realize' else 'fused'}: {refused}",
                help="override a value that the scheduler is free to store or to compute again",
            )
        found.update(dict.fromkeys(legal, what))
    return found


def notes(trace: Trace, s: Schedule, overrides: Mapping[Any, str]) -> tuple[str, ...]:
    """What somebody who overrides a line should know: values that other lines made too."""
    found = []
    for key in overrides:
        if isinstance(key, (int, Tensor, UOp, Node)) or _made_name(key) is not None or _stored_in(s, key) is not None:
            continue
        for i in find(trace, s, key):
            others = [trace.lines[n] for n in s.nodes[i].lines if not is_line(trace.lines[n], key)]
            if others and not any(s.nodes[i].name == key for _ in (0,)):
                places = ", ".join(place(line.file, line.number) for line in others)
                found.append(f"{_called(s.nodes[i])} was made by {places} too")
    return tuple(dict.fromkeys(found))


def _target(trace: Trace, s: Schedule, i: int, what: str) -> tuple[Name, str]:
    """The name of what computes the value of ``i``, and why it may not be overridden ('' if it may)."""
    nodes, body = s.nodes, s.stages[STARTS - 1]
    if i in below(nodes, (s.stages[0].root, body.end)):
        roots = {r: k for k, r in enumerate(nodes[body.end].src)}
        became = {old: new for old, new, _ in body.replaced if new not in roots}
        stored = {old for old, new, _ in body.replaced if new in roots}
        stored |= {_stored(nodes, r) for old, r, _ in body.replaced if r in roots and nodes[old].op != "AFTER"}
        wanted = "it was asked for"
    elif (root := next((r for r in written_graphs(s)[1:] if i in below(nodes, (r,))), None)) is not None:
        became, stored = {}, {_stored(nodes, r) for r in nodes[root].src}
        wanted = "a function that is scheduled on its own (precompile=True) gives it"
    else:
        return _made(trace, s, i, what)
    asked = i in stored
    while nodes[i].op in _MOVES or nodes[i].op == "CONTIGUOUS":
        if nodes[i].op == "CONTIGUOUS" and what == "fuse":
            return i, "contiguous() asks for memory; leave it out of the program"
        i = nodes[i].src[0]
        asked = asked or i in stored
    i = became.get(i, i)
    if asked and not _no_value(nodes[i]):
        return i, f"{wanted}, so it " + ("must be in memory" if what == "fuse" else "is in memory anyway")
    return i, _no_value(nodes[i])


def written_graphs(s: Schedule) -> list[int]:
    """The roots of what the program wrote: the tensor graph, and the bodies of functions that are scheduled on their own."""
    return [stage.root for stage in s.stages if stage is s.stages[0] or stage.calls]


def _stored(nodes: tuple[Node, ...], root: int) -> int:
    """The value that a root of callify's body stores (it may be cast to a strong type first)."""
    value = nodes[nodes[root].src[-1]].src[-1]
    return nodes[value].src[0] if nodes[value].op == "CAST" else value


def _no_value(n: Node) -> str:
    """Why a node is nothing that could be stored or fused, '' if it is."""
    if n.expr is not None or n.kind == "const":
        return "it is a constant or index arithmetic, which no kernel computes"
    if n.kind == "memory" and n.op != "AFTER":
        return "it is memory already"
    if n.kind in ("store", "control") or n.op == "AFTER":
        return "it is a write, which has to happen"
    return "it brings a value from one device to another, which needs memory" if n.kind == "device" else ""


def _made(trace: Trace, s: Schedule, i: int, what: str) -> tuple[Name, str]:
    """As :func:`_target`, for a node that is no part of callify's body."""
    made = Made(trace, s)
    name, why = made.find(i, _MOVES)
    if why or name is None:
        return name, why
    if not isinstance(name, tuple):
        return _target(trace, s, name, what)
    node = made.prepared[name]
    if what == "fuse" and (hint := made.kept_by(node)) is not None:
        name, node = made.name[hint], hint
    why = _no_value(s.nodes[node])
    if not why and what == "realize" and s.nodes[node].op == "CONTIGUOUS":
        why = "it is in memory anyway, because a pass says so"
    if not why and what == "fuse" and made.is_copied(node):
        why = "a copy to another device reads it, and copies read memory"
    return name, why


def _called(n: Node) -> str:
    return f"`{n.name}`" if n.name else n.label
