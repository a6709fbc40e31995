"""Which elements of one value another value's element is computed from: indices followed against the edges.

In: a trace, the names of two values in it, and an index. Out: indices of elements, in order. Every movement op is the
engine's own definition (:func:`~tinysched.ir.symbolic.movement.apply_movement_op`), at indices that are numbers.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
>>> y = x.T.pad(((1, 0), (0, 0))) + 1
>>> trace = capture(y)
>>> elements_read(trace, "x", "y", (1, 1)), elements_read(trace, "x", "y", (0, 1))
([(1, 0)], [])
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tinysched.errors import ArgumentError
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.movement import apply_movement_op
from tinysched.ir.uop import TRUE, UOp
from tinysched.schedule.indexing import broadcast_axes
from tinysched.trace.document import Trace
from tinysched.trace.rebuild import Rebuilt
from tinysched.trace.targets import find

Place = tuple[int, ...]
MOST_PLACES = 200_000


def elements_read(trace: Trace, source: str, result: str, at: Place) -> list[Place]:
    """The elements of ``source`` that ``result[at]`` is computed from. Raises :class:`ArgumentError` for unknown names,
    and where too much would have to be followed."""
    s = trace.schedules[-1]
    start = Rebuilt(s)
    sources = {start.uops[i] for i in find(trace, s, source) if i in start.uops}
    root = start.uops[find(trace, s, result)[-1]]
    if len(at) != len(root.shape) or any(not 0 <= k < n for k, n in zip(at, root.shape)):
        raise ArgumentError(f"{result} has shape {root.shape}, and {list(at)} is no place in it")
    found: dict[Place, None] = {}
    seen, todo = {(root, at)}, [(root, at)]
    while todo:
        u, place = todo.pop()
        if u is not root and (u in sources or _shows(u, sources)):
            found[place] = None
            continue
        if len(seen) > MOST_PLACES:
            raise ArgumentError(
                f"{result}{list(at)} depends on too many elements to list", help="use a smaller example"
            )
        for step in _below(u, place):
            if step not in seen:
                seen.add(step)
                todo.append(step)
    return sorted(found)


def _shows(u: UOp, sources: set[UOp]) -> bool:
    """Whether ``u`` is a Tensor's memory in the Tensor's shape."""
    return u.op is Ops.RESHAPE and u.src[0].op is Ops.BUFFER and u.src[0] in sources


def _below(u: UOp, at: Place) -> Iterator[tuple[UOp, Place]]:
    """The elements of its sources that one element of ``u`` reads."""
    if u.op in GroupOp.Movement:
        indices = apply_movement_op(u.op, u.src[0].shape, u.arg, tuple(UOp.const(k) for k in at))
        if all(i.get_valid() is TRUE for i in indices):
            yield u.src[0], tuple(int(i.get_idx().arg) for i in indices)
    elif u.op is Ops.REDUCE:
        axes = (range(int(n)) for n in u.src[0].shape[: u.arg[1]])
        yield from ((u.src[0], (*lead, *at)) for lead in itertools.product(*axes))
    elif u.op is Ops.STACK:
        yield u.src[at[0]], at[1:]
    elif u.op is Ops.AFTER:
        raise ArgumentError("an element of memory that was written to is not followed", help="ask about a value")
    elif u.op is not Ops.BUFFER and u.op is not Ops.CONST:
        yield from ((s, _at(u, s, at)) for s in u.src)


def _at(u: UOp, source: UOp, at: Place) -> Place:
    """The place in one source of an elementwise op: element 0 along axes that it is repeated on."""
    extra, repeats = len(at) - len(source.shape), set(broadcast_axes(source.shape, u.shape))
    return tuple(0 if i in repeats else k for i, k in enumerate(at) if i >= extra)
