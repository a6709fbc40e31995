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
(True, True, ())
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

    ``key``: None for a part that is like no other. ``loops``: those of its
    reductions. ``border``: the values in memory and the states of memory that it
    reads. ``nodes``: all of it, sources first, the border included.
    """

    key: Hashable
    border: tuple[UOp, ...]
    loops: tuple[UOp, ...]
    nodes: tuple[UOp, ...]


def outline(root: UOp, ranges: Ranges, about: Callable[[UOp], Hashable]) -> Outline:
    """The part below ``root``. ``about`` says what rules may ask about a value in memory besides its dtype and shape."""
    realized, sole_reader = ranges.realize, ranges.sole_reader
    key: list[Any] = [about(root)]  # then for each node a None, what it is, and which nodes it is made of
    number: dict[UOp, int] = {}  # of each node: the how manieth it is
    count = 0
    border: list[UOp] = []
    shared: list[UOp] = []
    loops: list[UOp] = []
    src = sources(root)
    stack = [(root, src, iter(src))]
    while stack:
        u, src, below = stack[-1]
        for s in below:
            if s in number:
                continue
            if s in realized:
                border.append(s)
                key += (None, s.dtype, s.shape, about(s))
            elif s.op in MEMORY or not s.src:
                key += _at_the_end(s, border)
            else:
                src = sources(s)
                stack.append((s, src, iter(src)))
                break
            number[s] = count
            count += 1
        else:
            number[u] = count
            count += 1
            key += (None, u.op, u.dtype, u.arg, *[number[s] for s in src])
            if u.op is Ops.REDUCE:
                loops += [r for r in ranges.ins[u][: u.arg[1]] if r is not ZERO]
            if u not in sole_reader and u is not root:
                shared.append(u)
            stack.pop()
    alone = any(_takes_from_elsewhere(u, ranges, number) for u in shared)
    return Outline(None if alone else tuple(key), tuple(border), tuple(dict.fromkeys(loops)), tuple(number))


def _at_the_end(u: UOp, border: list[UOp]) -> tuple[Any, ...]:
    """What is told of memory (which is of the border), and of a constant or a Variable."""
    if u.op not in MEMORY or u.is_variable:
        return None, u
    border.append(u)
    memory = memory_of(u).arg
    return None, u.dtype, memory.size, memory.device


def _takes_from_elsewhere(u: UOp, ranges: Ranges, inside: dict[UOp, int]) -> bool:
    """Whether a reader in another part adds its conditions to those of a value's indices."""
    if u not in ranges.out or not any(i.is_gated for i in ranges.out[u]):
        return False
    return not all(reader in inside for reader in ranges.readers[u])
