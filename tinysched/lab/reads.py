"""Which elements of one value another value's element is computed from, by the users' names.

In: a trace, the names of two values in it, and an index. Out: indices of elements, in order.
:mod:`tinysched.views.reads` follows them.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
>>> y = x.T.pad(((1, 0), (0, 0))) + 1
>>> trace = capture(y)
>>> elements_read(trace, "x", "y", (1, 1)), elements_read(trace, "x", "y", (0, 1))
([(1, 0)], [])
"""

from __future__ import annotations

from tinysched.errors import ArgumentError
from tinysched.trace.document import Schedule
from tinysched.trace.targets import find
from tinysched.trace.trace import Trace
from tinysched.views.reads import Element, Reads, read_below, reads


def elements_read(trace: Trace, source: str, result: str, at: Element) -> list[Element]:
    """The elements of ``source`` that ``result[at]`` is computed from. Raises :class:`ArgumentError` for unknown names
    and places."""
    s = trace.schedules[-1]
    found = reads(s)
    asked = [i for i in find(trace, s, result) if i in found.shapes]
    if not asked or len(at) != len(shape := found.shapes[asked[-1]]) or any(not 0 <= k < n for k, n in zip(at, shape)):
        raise ArgumentError(f"{result}[{', '.join(map(str, at))}] is no element", help=f"see {result}.shape")
    seen = read_below(found, asked[-1], at)
    named = _as_written(s, found, find(trace, s, source))
    return sorted({element for i in named if i in seen and i != asked[-1] for element in seen[i].elements})


def _as_written(s: Schedule, found: Reads, ids: list[int]) -> list[int]:
    """A Tensor's memory is flat; the RESHAPE over it has the Tensor's shape."""
    memory = {i for i in ids if s.nodes[i].op == "BUFFER"}
    shaped = [i for i in found.shapes if s.nodes[i].op == "RESHAPE" and s.nodes[i].src[0] in memory]
    return [i for i in ids if i not in memory or not shaped] + shaped
