"""Movement as data: chains of the six movement ops, built and checked on shapes alone.

In: a shape, and what is wanted of it (other axes, another order, windows, ...). Out: a list of steps ``(op, argument)``
that a Tensor (:meth:`Tensor.seen_through`) or a node (:func:`apply_steps`) is then looked at through.

>>> Moves((3, 1)).broadcast((2, 3, 4)).steps
[(Ops.RESHAPE, (3,)), (Ops.EXPAND, (2, 4)), (Ops.PERMUTE, (0, 2, 1))]
>>> Moves((7,)).every((3,)).shape
(3,)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinysched.errors import ShapeError
from tinysched.ir.derive import bound_value, moved_shape, plain, prod
from tinysched.ir.ops import Ops
from tinysched.ir.uop import Shape, Sint
from tinysched.tensor.storage import Step

Pair = tuple[Sint, Sint]


def is_one(size: Sint) -> bool:
    return isinstance(size, int) and size == 1


def ceil_div(a: Any, b: Any) -> Any:
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else (a + (b - 1)) // b


class Moves:
    """A chain of movement ops over a shape; every method adds to it (nothing, where nothing moves) and returns it."""

    __slots__ = ("shape", "steps")

    def __init__(self, shape: Shape):
        self.shape = shape
        self.steps: list[Step] = []

    def _add(self, op: Ops, arg: Any) -> Moves:
        self.shape = moved_shape(op, self.shape, arg)
        self.steps.append((op, arg))
        return self

    # ** the six ops **

    def reshape(self, shape: Shape) -> Moves:
        """The same elements in row-major order. Raises :class:`ShapeError` where their number differs."""
        shape = tuple(map(plain, shape))  # equal sizes are the same node
        if shape == self.shape:
            return self
        have, want = bound_value(prod(self.shape)), bound_value(prod(shape))
        if have is not None and want is not None and have != want:
            raise ShapeError(f"cannot reshape {self.shape} to {shape}", help=f"{have} elements against {want}")
        return self._add(Ops.RESHAPE, shape)

    def permute(self, order: tuple[int, ...]) -> Moves:
        return self if order == tuple(range(len(order))) else self._add(Ops.PERMUTE, order)

    def expand(self, sizes: Shape) -> Moves:
        """New leading axes."""
        return self._add(Ops.EXPAND, tuple(map(plain, sizes))) if sizes else self

    def pad(self, widths: tuple[Pair, ...]) -> Moves:
        return self if all(w == (0, 0) for w in widths) else self._add(Ops.PAD, widths)

    def shrink(self, bounds: tuple[Pair, ...]) -> Moves:
        if all(isinstance(a, int) and a == 0 and b == s for (a, b), s in zip(bounds, self.shape, strict=True)):
            return self
        return self._add(Ops.SHRINK, bounds)

    def flip(self, axes: tuple[bool, ...]) -> Moves:
        return self._add(Ops.FLIP, axes) if any(axes) else self

    # ** made of them **

    def shrink_to(self, shape: Shape) -> Moves:
        """The first elements of each axis."""
        return self.shrink(tuple((0, s) for s in shape))

    def pad_to(self, shape: Shape) -> Moves:
        """Zeros after the last element of each axis."""
        return self.pad(tuple((0, n - s) for n, s in zip(shape, self.shape, strict=True)))

    def broadcast(self, shape: Shape) -> Moves:
        """Repeats axes of size 1 and adds leading ones. The repeated axes leave by RESHAPE and return by EXPAND."""
        if shape == self.shape:
            return self
        new = len(shape) - len(self.shape)
        pairs = list(zip(self.shape, shape[new:])) if new >= 0 else []
        grown = [i for i, (s, n) in enumerate(pairs) if is_one(s) and not is_one(n)]
        if new < 0 or any(s != n for i, (s, n) in enumerate(pairs) if i not in grown):
            raise ShapeError(
                f"cannot broadcast {self.shape} to {shape}", help="sizes must be equal or 1, from the last axis"
            )
        kept = [i for i in range(len(pairs)) if i not in grown]
        front = [*range(new), *(new + i for i in grown)]
        where = {axis: at for at, axis in enumerate([*front, *(new + i for i in kept)])}
        self.reshape(tuple(self.shape[i] for i in kept))
        self.expand(tuple(shape[i] for i in front))
        return self.permute(tuple(where[i] for i in range(len(shape))))

    def insert(self, axis: int) -> Moves:
        """A new axis of size 1."""
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    def swap(self, a: int, b: int) -> Moves:
        order = list(range(len(self.shape)))
        order[a], order[b] = order[b], order[a]
        return self.permute(tuple(order))

    def merge(self, first: int, last: int) -> Moves:
        """Axes ``first`` to ``last`` (inclusive) become one."""
        s = self.shape
        return self.reshape((*s[:first], prod(s[first : last + 1]), *s[last + 1 :]))

    def repeat(self, times: Shape) -> Moves:
        """The whole, ``times`` over along each axis (as many as the shape has): a new axis before each, merged."""
        sizes = self.shape
        apart = tuple(n for t, s in zip(times, sizes, strict=True) for n in ((s,) if is_one(t) else (1, s)))
        grown = tuple(n for t, s in zip(times, sizes) for n in ((s,) if is_one(t) else (t, s)))
        return self.reshape(apart).broadcast(grown).reshape(tuple(t * s for t, s in zip(times, sizes)))

    def every(self, strides: Sequence[int]) -> Moves:
        """Every n-th element of each axis: padded to whole groups, of which the first element is kept."""
        if all(n == 1 for n in strides):
            return self
        groups = tuple(ceil_div(s, n) for s, n in zip(self.shape, strides, strict=True))
        self.pad_to(tuple(g * n for g, n in zip(groups, strides)))
        self.reshape(tuple(x for g, n in zip(groups, strides) for x in (g, n)))
        return self.shrink_to(tuple(x for g in groups for x in (g, 1))).reshape(groups)

    def pool(self, kernel: Shape, stride: Shape, dilation: Shape) -> Moves:
        """Sliding windows over the last axes: their places, then ``kernel`` as new last axes.

        One axis of ``n`` elements is repeated until row ``j`` of rows of ``n*f + d`` elements starts ``j*d`` further
        on; the columns of that matrix are the windows. No element is looked up by more than index arithmetic.
        """
        lead, sizes = self.shape[: len(self.shape) - len(kernel)], self.shape[len(self.shape) - len(kernel) :]
        if any(d * (k - 1) + 1 > n for n, k, d in zip(sizes, kernel, dilation) if isinstance(n, int)):
            raise ShapeError(f"a window of {kernel} is larger than {sizes}", help="pad, or use a smaller kernel")
        places = [ceil_div(n - d * (k - 1), s) for n, k, s, d in zip(sizes, kernel, stride, dilation)]
        factor = [max(1, ceil_div(o * s - d, n)) for n, o, s, d in zip(sizes, places, stride, dilation)]
        rows = [n * f + d for n, f, d in zip(sizes, factor, dilation)]
        self.repeat((*(1,) * len(lead), *(ceil_div(k * r, n) for k, r, n in zip(kernel, rows, sizes))))
        self.shrink_to((*lead, *(k * r for k, r in zip(kernel, rows))))
        self.reshape((*lead, *_pairs(kernel, rows)))
        self.shrink_to((*lead, *_pairs(kernel, [o * s for o, s in zip(places, stride)])))
        self.reshape((*lead, *(x for k, o, s in zip(kernel, places, stride) for x in (k, o, s))))
        self.shrink_to((*lead, *(x for k, o in zip(kernel, places) for x in (k, o, 1))))
        self.reshape((*lead, *_pairs(kernel, places)))
        n, k = len(lead), len(kernel)
        return self.permute((*range(n), *(n + 2 * i + 1 for i in range(k)), *(n + 2 * i for i in range(k))))


def _pairs(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [x for pair in zip(a, b) for x in pair]
