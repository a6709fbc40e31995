"""How much the loops of a kernel compute again, counted on its graph, before a single loop is written down.

In: a kernel's SINK. Out: numbers. Each loop computes again what is in it: where two reductions that follow one another
read one value, it stands in the loops of both, and so do the reductions within it. Fused without end, such kernels have
statements without end. A REDUCE counts what stands in its loops once, so that the time goes by the size of the graph.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 1), (1, 6)))
>>> R0, R1 = UOp.range(6, 0, AxisType.REDUCE), UOp.range(6, 1, AxisType.REDUCE)
>>> largest, root = (UOp(Ops.LOAD, dtypes.float32, (x.index(r),)).alu(Ops.SQRT) for r in (R0, R1))
>>> total = (root + largest.reduce(Ops.MAX, R0)).reduce(Ops.ADD, R1)
>>> repeated(UOp.sink(out.index(UOp.const(0)).store(total)))
0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import prod
from typing import Final

from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp

Ranges = tuple[UOp, ...]
VALUES: Final = GroupOp.Elementwise | {Ops.LOAD, Ops.REDUCE}
"""What loops compute."""


def stores_of(sink: UOp) -> list[tuple[UOp, Ranges]]:
    """Each STORE of a kernel with the RANGEs that END closes, outermost first."""
    return [(u.src[0], u.src[1:]) if u.op is Ops.END else (u, ()) for u in sink.src]


@lru_cache(maxsize=4096)
def repeated(sink: UOp) -> int:
    """How many statements in a kernel's loops compute what another one computes as well."""
    orders = [store.toposort() for store, _ in stores_of(sink)]
    once = sum((u.op in VALUES) + (u.op is Ops.REDUCE) for order in orders for u in order)
    return total(sink, lambda u: 1, lambda r: 1) - once


def total(sink: UOp, of: Callable[[UOp], int], size: Callable[[UOp], int]) -> int:
    """The sum of ``of(value)``, and of 1 for a step of a REDUCE, over all places where it stands, times its loops' sizes."""
    inside: dict[UOp, int] = {}

    def of_loops(values: Iterable[UOp], ranges: Ranges) -> int:
        """A value stands within the loops up to the last of which it knows."""
        sizes, found = [size(r) for r in ranges], 0
        for u in values:
            depth = max((i for i, r in enumerate(ranges, 1) if r in u.ranges), default=0)
            found += prod(sizes[:depth]) * (of(u) + inside.get(u, 0))
        return found

    for u in sink.toposort():
        if u.op is Ops.REDUCE:
            inside[u] = of_loops(_in_loops_of(u), u.src[1:]) + prod(size(r) for r in u.src[1:])
    stores = [(store.toposort(), ranges) for store, ranges in stores_of(sink)]
    return sum(of_loops((u for u in order if u.op in VALUES and u.ranges <= set(r)), r) for order, r in stores)


def _in_loops_of(reduce: UOp) -> list[UOp]:
    """The values in the loops of a REDUCE, without those in loops within: what changes along its RANGEs, and no others."""
    closed, known = set(reduce.src[1:]), reduce.src[0].ranges
    order = reduce.src[0].toposort(lambda u: not closed.isdisjoint(u.ranges))
    return [u for u in order if u.op in VALUES and u.ranges <= known and not closed.isdisjoint(u.ranges)]
