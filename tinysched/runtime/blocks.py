"""In which blocks a kernel's arrays are computed, so that what lies between two operations stays in the cache.

In: an :class:`Analysis`. Out: the :class:`Block` loops, outermost first, and how many of them each value stands in.
Matrix products and what they multiply are computed before the loops: BLAS makes blocks of its own.
"""

from __future__ import annotations

from math import prod
from typing import Final

from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.analyze import Analysis
from tinysched.runtime.axes import Axis
from tinysched.runtime.forms import Contraction, Gather, View
from tinysched.runtime.program import Block
from tinysched.runtime.sharing import reduced_loops

BLOCK: Final = 1 << 16
"""Elements of the largest array within a block: 256 KiB of float32, of which three fit into a core's cache of 1 MiB."""

TILE: Final = (128, 256)
PAGE: Final = 4096
"""Elements so many bytes apart compete for the same lines of the nearest cache."""


def choose_blocks(a: Analysis, most: int = BLOCK) -> tuple[Block, ...]:
    """Blocks of the outer axes with arrays of up to ``most`` elements (0: no blocks).

    None where all arrays are small, or where there are none between memory and memory.
    """
    if not most:
        return ()
    if tiles := _tiles(a):
        return tiles
    whole = whole_values(a)
    sizes = {u: dict(a.spans(u)) for u in a.order if u not in whole and not isinstance(a.accesses.get(u), View)}
    large = {u for u, spans in sizes.items() if prod(hi - lo for lo, hi in spans.values()) > most}
    if large <= {a.store.src[1]}:  # a single operation goes straight from memory to memory, as rows by number do
        return ()
    whole_axes = _bounded_axes(a) | set(a.axes.of(reduced_loops(a.sink)))
    candidates = [x for x in a.axes.loops if x.size > 1 and x not in whole_axes and a.target.coefs.get(x)]
    steps: dict[Axis, int] = {}
    for axis in candidates:
        volumes = [(u, prod(steps.get(x, hi - lo) for x, (lo, hi) in spans.items())) for u, spans in sizes.items()]
        if max(n for _, n in volumes) <= 2 * most:
            break
        largest = max((n for u, n in volumes if axis in sizes[u]), default=0)
        if largest > most:
            steps[axis] = _step(axis.size, max(1, axis.size * most // largest))
    return tuple(Block(axis, step, f"b{i}") for i, (axis, step) in enumerate(steps.items()) if step < axis.size)


def is_across(a: Analysis, u: UOp) -> bool:
    """Whether a LOAD reads large memory along its columns, a page or more apart: that is fast in tiles only."""
    access, axes = a.accesses.get(u), [x for x in a.axes.loops if x.size > 1]
    if (
        not isinstance(access, View)
        or len(axes) < 2
        or axes[-1].at != a.axes.ndim - 1
        or axes[-2].at != a.axes.ndim - 2
    ):
        return False
    far, near = (access.strides.get(x, 0) for x in (axes[-1], axes[-2]))
    large = all(x.size >= 2 * n for x, n in zip(axes[-2:], TILE))
    return large and near == 1 and far * u.dtype.itemsize % PAGE == 0 and far > 0


def _tiles(a: Analysis) -> tuple[Block, ...]:
    """Tiles of the two innermost axes, for elementwise kernels that read along columns."""
    if any(u.op is Ops.REDUCE for u in a.order) or not any(is_across(a, u) for u in a.order) or _bounded_axes(a):
        return ()
    axes = [x for x in a.axes.loops if x.size > 1]
    steps = [1] * (len(axes) - 2) + [_step(x.size, n) for x, n in zip(axes[-2:], TILE)]
    return tuple(Block(axis, step, f"b{i}") for i, (axis, step) in enumerate(zip(axes, steps)))


def _step(size: int, most: int) -> int:
    """A divisor of the size if one is near, so that all blocks are equal."""
    return next((n for n in range(min(most, size), most // 2, -1) if size % n == 0), min(most, size))


def _bounded_axes(a: Analysis) -> set[Axis]:
    """Axes along which some value is only computed in part."""
    nodes = [*a.order, a.store]
    return {x for u in nodes for x in a.domain.get(u, ())} | {x for c in a.choices.values() for x in c.box}


def is_product(a: Analysis, u: UOp) -> bool:
    """Whether a REDUCE is a matrix product that BLAS should see as a whole."""
    c = a.sums.get(u)
    if not isinstance(c, Contraction) or not c.inner:
        return False
    return bool(c.rows and c.columns) or all(isinstance(a.accesses.get(f), View) for f in (c.left, c.right))


def whole_values(a: Analysis) -> set[UOp]:
    """The values that are computed as a whole: matrix products, and everything that they are computed from."""
    whole: set[UOp] = set()
    for u in reversed(a.order):
        if u in whole or is_product(a, u):
            c = a.sums.get(u)
            whole.add(u)
            whole.update(a.needs[u])
            whole.update((c.left, c.right) if isinstance(c, Contraction) else (c,) if isinstance(c, UOp) else ())
    return whole


def levels_of(a: Analysis, blocks: tuple[Block, ...]) -> dict[UOp, int]:
    """In how many of the block loops each value stands."""
    whole = whole_values(a)
    levels: dict[UOp, int] = {}
    for u in a.order:
        access = a.accesses.get(u)
        in_memory = access is not None and not isinstance(access, Gather) and not (blocks and is_across(a, u))
        if u in whole or in_memory or u.op is Ops.RANGE:
            levels[u] = 0
        else:
            levels[u] = max((i for i, b in enumerate(blocks, 1) if b.axis in a.axes_of[u]), default=0)
    return levels
