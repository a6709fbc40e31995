"""What a graph is made of after the walk: parts, each a value in memory or a write with all that it is computed from.

In: a node that the walk wants in memory, and its :class:`Ranges`. Out: an :class:`Outline`, whose key is equal for parts
that differ only in the memory that they read and in the numbers of their loops. Such parts become equal kernels: equal
operations over equal shapes that read one another in the same way get equal indices from the rules.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.schedule.indexing import run_rangeify
>>> def memory(slot): return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 8, "NUMPY"))
>>> def write(to, of): return memory(to).after(memory(to).store(memory(of) * 2.0))
>>> writes = [write(0, 1), write(2, 3)]
>>> ranges = run_rangeify(UOp.sink(*writes))
>>> first, second = (outline(w.src[1], ranges, lambda u: None) for w in writes)
>>> first.key == second.key, second.border == (memory(2), memory(3)), second.loops
(True, True, (<index r0>,))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.movement import ZERO
from tinysched.ir.uop import UOp
from tinysched.schedule.indexing import MEMORY, Ranges, memory_of, sources


class Outline(NamedTuple):
    """A part of a graph: what equal parts share, and what they may differ in.

    ``key``: None for a part that is like no other. ``border``: the values in memory and the states of memory that it
    reads. ``inside``: its nodes, sources first.
    """

    key: Hashable
    border: tuple[UOp, ...]
    loops: tuple[UOp, ...]
    inside: tuple[UOp, ...]


def outline(root: UOp, ranges: Ranges, about: Callable[[UOp], Hashable]) -> Outline:
    """The part below ``root``. ``about`` says what rules may ask about a value in memory besides its dtype and shape."""
    realized = ranges.realize
    key: list[Any] = [about(root)]  # then for each node a None, what it is, and which nodes it is made of
    number: dict[UOp, int] = {}  # of each node: the how manieth it is
    border: list[UOp] = []
    inside: list[UOp] = []
    loops = [r for r in ranges.out[root] if r is not ZERO]
    stack = [(root, iter(sources(root)))]
    while stack:
        u, below = stack[-1]
        for s in below:
            if s in number:
                continue
            if s in realized:
                border.append(s)
                key += (None, s.dtype, s.shape, about(s))
            elif not s.src or s.op in MEMORY:
                if s.op in MEMORY and not s.is_variable:
                    border.append(s)
                    memory = memory_of(s).arg
                    key += (None, s.dtype, memory.size, memory.device)
                else:
                    key += (None, s)
            else:
                stack.append((s, iter(sources(s))))
                break
            number[s] = len(number)
        else:
            number[u] = len(number)
            inside.append(u)
            key += (None, u.op, u.dtype, u.arg, *[number[s] for s in sources(u)])
            if u.op is Ops.REDUCE:
                loops += [r for r in ranges.ins[u][: u.arg[1]] if r is not ZERO]
            stack.pop()
    alone = any(_is_read_elsewhere(u, ranges, number) for u in inside[:-1])
    return Outline(None if alone else tuple(key), tuple(border), tuple(dict.fromkeys(loops)), tuple(inside))


def _is_read_elsewhere(u: UOp, ranges: Ranges, inside: dict[UOp, int]) -> bool:
    """Whether the conditions of other parts are among those of a value's indices, for a reader there agrees."""
    if u in ranges.sole_reader or u not in ranges.out or not any(i.is_gated for i in ranges.out[u]):
        return False
    return not all(reader in inside for reader in ranges.readers[u])
