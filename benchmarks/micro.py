"""Micro benchmarks: what one node, one step of a walk and one reshape cost.

In: a :class:`benchmarks.libs.Lib`. Out: for each name a function that prepares a reading: what to time, and how many
operations that is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from benchmarks.libs import Lib
from benchmarks.workloads import build

Reading = tuple[Callable[[], Any], int]

NODES: Final = 2000
RESHAPES: Final = 20


def _pairs(lib: Lib) -> list[tuple[Any, Any]]:
    leaves = [lib.module.UOp.const(i) for i in range(NODES + 1)]
    return list(pairwise(leaves))


def create(lib: Lib) -> Reading:
    """Nodes that did not exist before."""
    pairs = _pairs(lib)
    return lambda: lib.add_nodes(pairs), NODES


def interned(lib: Lib) -> Reading:
    """Nodes that exist already: only the look-up."""
    pairs = _pairs(lib)
    alive = lib.add_nodes(pairs)
    return lambda: (alive, lib.add_nodes(pairs)), NODES


def toposort(lib: Lib) -> Reading:
    """A walk over a transformer's graph, per node. The root is new, so that nothing cached on it helps."""
    tensors = build("gpt_tiny", lib)
    roots = [t.uop for t in tensors]
    size = lib.graph_size(tensors)
    return lambda: (tensors, lib.module.UOp.sink(*roots, *roots).toposort()), size


def reshape_heads(lib: Lib) -> Reading:
    """Splitting heads off a feature axis: four loop variables become three indices."""
    return _reshapes(lib, [((2, 128, 64 * i), (2, 128, i, 64)) for i in range(2, RESHAPES + 2)])


def reshape_mixed(lib: Lib) -> Reading:
    """Four loop variables against four axes whose borders interleave."""
    return _reshapes(lib, [((8, 24 * i, 30, 7), (12 * i, 16, 15, 14)) for i in range(1, RESHAPES + 1)])


def _reshapes(lib: Lib, shapes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Reading:
    """Every shape once, with nothing remembered: no reshape is answered by another one's memo."""
    jobs = [(i, o, tuple(lib.module.UOp.range(s, axis) for axis, s in enumerate(o))) for i, o in shapes]
    lib.forget()
    return lambda: [lib.reshape(*job) for job in jobs], len(jobs)


MICRO: Final[dict[str, Callable[[Lib], Reading]]] = {
    "create a node": create,
    "node already interned": interned,
    "toposort, per node": toposort,
    "reshape, split heads": reshape_heads,
    "reshape, mixed radix": reshape_mixed,
}
