"""Which elements of one value another value's element is computed from, by the users' names.

In: a trace, the names of two values in it, and an index. Out: indices of elements, in order.
:mod:`tinysched.views.reads` follows them.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
>>> y = x.T.pad(((1, 0), (0, 0))) + 1
>>> trace = capture(y)
>>> elements_read(trace, "x", "y", (1, 1)), elements_read(trace, "x", "y", (0, 1))
([(1, 0)], [])
>>> way(trace, "x", "y", (1, 1)), way(trace, "x", "y", (0, 1))
('y[1, 1] ← pad[1, 1] ← permute 1,0[0, 1] ← x[1, 0]', 'y[0, 1] ← pad[0, 1] ← permute 1,0: padding')
"""

from __future__ import annotations

from tinysched.errors import ArgumentError
from tinysched.trace.document import Schedule
from tinysched.trace.targets import find
from tinysched.trace.trace import Trace
from tinysched.views.reads import Element, Reads, Seen, read_below, reads

MOST_LEVELS = 8


def elements_read(trace: Trace, source: str, result: str, at: Element) -> list[Element]:
    """The elements of ``source`` that ``result[at]`` is computed from. Raises :class:`ArgumentError` for unknown names
    and places."""
    s = trace.schedules[-1]
    seen, named = _seen(trace, s, source, result, at)
    return sorted({element for i in named if i in seen for element in seen[i].elements})


def way(trace: Trace, source: str, result: str, at: Element) -> str:
    """The same element on every level from ``result`` to ``source``; '' where there are more than :data:`MOST_LEVELS`."""
    s = trace.schedules[-1]
    seen, named = _seen(trace, s, source, result, at)
    found, levels = reads(s), [i for i in seen if i not in named and s.nodes[i].op != "STORE"]
    levels = [
        i for i in levels if any(n in seen and n in read_below(found, i, (0,) * len(found.shapes[i])) for n in named)
    ]
    if len(levels) > MOST_LEVELS:
        return ""
    told = [_told(s.nodes[i].name or s.nodes[i].label, seen[i]) for i in levels]
    empty = next((k for k, i in enumerate(levels) if not seen[i].elements), None)
    if empty is not None:
        return " ← ".join(told[: empty + 1])
    return " ← ".join([*told, *(_told(source, seen[i]) for i in named[-1:] if i in seen)])


def _told(name: str, seen: Seen) -> str:
    if not seen.elements:
        return f"{name}: padding"
    only, *others = seen.elements
    return f"{name}: {len(seen.elements)} elements" if others else f"{name}[{', '.join(map(str, only))}]"


def _seen(trace: Trace, s: Schedule, source: str, result: str, at: Element) -> tuple[dict[int, Seen], list[int]]:
    """What ``result[at]`` reads, by node, readers first; and the nodes that ``source`` names."""
    found = reads(s)
    asked = [i for i in find(trace, s, result) if i in found.shapes]
    if not asked or len(at) != len(shape := found.shapes[asked[-1]]) or any(not 0 <= k < n for k, n in zip(at, shape)):
        raise ArgumentError(f"{result}[{', '.join(map(str, at))}] is no element", help=f"see {result}.shape")
    named = [i for i in _as_written(s, found, find(trace, s, source)) if i != asked[-1]]
    return read_below(found, asked[-1], at), named


def _as_written(s: Schedule, found: Reads, ids: list[int]) -> list[int]:
    """A Tensor's memory is flat; the RESHAPE over it has the Tensor's shape."""
    memory = {i for i in ids if s.nodes[i].op == "BUFFER"}
    shaped = [i for i in found.shapes if s.nodes[i].op == "RESHAPE" and s.nodes[i].src[0] in memory]
    return [i for i in ids if i not in memory or not shaped] + shaped
