"""Movement: other axes, another order, parts, repeats. Nothing moves; only the index through which one looks changes.

In: Tensors and what is wanted of their axes. Out: views of the same Storage (writes go through them), except for
``cat``, ``stack`` and padding with a value, which make new values.

>>> from tinysched import Tensor
>>> Tensor.empty(2, 3, 4).permute(2, 0, 1).reshape(4, 6).shape
(4, 6)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

from tinysched.dtypes import Scalar, dtypes, least_upper_dtype
from tinysched.errors import ArgumentError, ShapeError
from tinysched.ir import sharding
from tinysched.ir.derive import bound_value, broadcast, prod
from tinysched.ir.lines import where as place
from tinysched.ir.ops import Ops
from tinysched.ir.uop import Shape, Sint, UOp
from tinysched.tensor.checks import Axes, axes_of, axis_of, many, sizes_of
from tinysched.tensor.core import Tensor
from tinysched.tensor.moves import Moves, Pair, ceil_div, is_one
from tinysched.tensor.sharding import whole_along

Widths = Sequence[Any]


# ** shape **


def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in row-major order. One size may be -1 (it follows); None keeps that axis' size.

    Raises :class:`ShapeError` where the number of elements differs.
    """
    sizes = _kept(x, shape)
    if (unknown := sizes.count(-1)) > 1:
        raise ShapeError(f"reshape to {sizes}: only one size can follow from the others", where=place(x.uop))
    if unknown:
        known = prod(s for s in sizes if not (isinstance(s, int) and s == -1))
        if isinstance(known, int) and (known == 0 or (isinstance(x.numel(), int) and x.numel() % known)):
            raise ShapeError(f"cannot reshape {x.shape} to {sizes}", where=place(x.uop), help=f"{x.numel()} elements")
        sizes = tuple(x.numel() // known if isinstance(s, int) and s == -1 else s for s in sizes)
    return x.seen_through(_at(x, lambda: Moves(x.shape).reshape(sizes)).steps)


def _kept(x: Tensor, shape: Sequence[Any]) -> Shape:
    """Sizes as given, with None as the size that stands there."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    if None not in shape:
        return sizes_of((tuple(shape),))
    return sizes_of((tuple(x.shape[i] if s is None else s for i, s in enumerate(shape)),))


def _at(x: Tensor, build: Any) -> Moves:
    """Runs ``build``; its ShapeErrors say which Tensor it was about."""
    try:
        return build()  # type: ignore[no-any-return]
    except ShapeError as error:
        raise ShapeError(error.what, where=place(x.uop), help=error.help) from None


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` (inclusive) as one. Raises :class:`ShapeError` where the end is before the start."""
    if not x.shape:
        return reshape(x, 1)
    start, end = axis_of(start_dim, x.ndim), axis_of(end_dim, x.ndim)
    if end < start:
        raise ShapeError(
            f"flatten from axis {start} to {end}", where=place(x.uop), help="the first axis, then the last"
        )
    return x.seen_through(Moves(x.shape).merge(start, end).steps)


def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Axis ``dim`` as several, one of which may be -1."""
    dim = axis_of(dim, x.ndim)
    return reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def squeeze(x: Tensor, dim: Axes = None) -> Tensor:
    """Without the axes ``dim`` (default: all) of size 1; others stay."""
    axes = axes_of(dim, x.ndim)
    return x.seen_through(
        Moves(x.shape).reshape(tuple(s for i, s in enumerate(x.shape) if i not in axes or not is_one(s))).steps
    )


def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new axis of size 1 before axis ``dim`` (-1: after the last)."""
    return x.seen_through(Moves(x.shape).insert(axis_of(dim, x.ndim + 1)).steps)


def size(x: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one axis."""
    return x.shape if dim is None else x.shape[axis_of(dim, x.ndim)]


# ** order **


def permute(x: Tensor, *order: Any) -> Tensor:
    """The axes in another order. Raises :class:`ShapeError` where ``order`` does not name each axis once."""
    given = sizes_of(order)
    axes = tuple(axis_of(a, x.ndim) for a in given)
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(
            f"permute({given}) of a {x.ndim}-d Tensor", where=place(x.uop), help="name every axis exactly once"
        )
    return x.seen_through(Moves(x.shape).permute(axes).steps)


def transpose(x: Tensor, dim0: int = 1, dim1: int = 0) -> Tensor:
    """Two axes swapped."""
    return x.seen_through(Moves(x.shape).swap(axis_of(dim0, x.ndim), axis_of(dim1, x.ndim)).steps)


def T(x: Tensor) -> Tensor:
    """The first two axes swapped (a Tensor of fewer axes as it is)."""
    return transpose(x) if x.ndim > 1 else x


def flip(x: Tensor, *axes: Any) -> Tensor:
    """The elements of the given axes in reverse order."""
    chosen = axes_of(sizes_of(axes), x.ndim)
    return x.seen_through(Moves(x.shape).flip(tuple(i in chosen for i in range(x.ndim))).steps)


# ** parts and padding **


def shrink(x: Tensor, *bounds: Any) -> Tensor:
    """Elements ``start`` to ``end`` (exclusive) of each axis; None keeps an axis whole."""
    pairs = _pairs(x, bounds, lambda s: (0, s))
    for (a, b), s in zip(pairs, x.shape):
        start, end, size = bound_value(a), bound_value(b), bound_value(s)
        if start is not None and end is not None and size is not None and not 0 <= start <= end <= size:
            raise ShapeError(
                f"shrink to {pairs} of shape {x.shape}", where=place(x.uop), help="0 <= start <= end <= size"
            )
    return x.seen_through(Moves(x.shape).shrink(pairs).steps)


def _pairs(x: Tensor, given: Sequence[Any], whole: Any) -> tuple[Pair, ...]:
    if (len(given) == 1 and len(given[0]) != 2) or (len(given) == 1 and not isinstance(given[0][0], (int, UOp))):
        given = given[0]
    if len(given) != x.ndim:
        raise ShapeError(f"{len(given)} pairs for shape {x.shape}", where=place(x.uop), help="one pair for each axis")
    return tuple(whole(s) if p is None else tuple(p) for p, s in zip(given, x.shape))


def shrink_to(x: Tensor, *shape: Any) -> Tensor:
    """The first elements of each axis (None: all)."""
    return shrink(x, tuple((0, s) for s in _kept(x, shape)))


def pad_to(x: Tensor, *shape: Any) -> Tensor:
    """Zeros after the last element of each axis, up to ``shape`` (None: none)."""
    return x.seen_through(Moves(x.shape).pad_to(_kept(x, shape)).steps)


def pad(x: Tensor, padding: Widths, mode: str = "constant", value: Scalar = 0.0) -> Tensor:
    """Elements before and after those of each axis.

    ``padding``: one pair ``(before, after)`` or None for each axis, or a flat list that starts with the last axis.
    Negative widths cut off. ``mode``: "constant" (``value``), "reflect", "replicate" or "circular".
    """
    widths = _widths(x, padding)
    if mode == "constant":
        return pad_constant(x, widths, value)
    from tinysched.tensor.padding import MODES

    if mode not in MODES:
        raise ArgumentError(f"pad mode {mode!r}", help=f"one of constant, {', '.join(MODES)}")
    return MODES[mode](x, widths)


def _widths(x: Tensor, padding: Widths) -> tuple[Pair, ...]:
    if isinstance(padding, (int, UOp)):
        raise ShapeError(
            f"padding {padding} for shape {x.shape}", where=place(x.uop), help="one pair for each axis, or two widths"
        )
    padding = tuple(padding)
    if padding and all(isinstance(p, (int, UOp)) for p in padding):
        if len(padding) % 2 or len(padding) > 2 * x.ndim:
            raise ShapeError(
                f"padding {padding} for shape {x.shape}", where=place(x.uop), help="two widths for each axis"
            )
        given = [(padding[i], padding[i + 1]) for i in range(0, len(padding), 2)][::-1]
        return (*((0, 0),) * (x.ndim - len(given)), *given)
    if len(padding) != x.ndim:
        raise ShapeError(f"padding {padding} for shape {x.shape}", where=place(x.uop), help="one pair for each axis")
    return tuple((0, 0) if p is None else (p[0], p[1]) for p in padding)


def pad_constant(x: Tensor, widths: tuple[Pair, ...], value: Scalar) -> Tensor:
    """``value`` around the elements; PAD itself gives zeros, so another value is put there by WHERE."""
    cut = tuple((_positive(-a, a), s - _positive(-b, b)) for (a, b), s in zip(widths, x.shape))
    x = x.seen_through(Moves(x.shape).shrink(cut).steps)
    moves = Moves(x.shape).pad(tuple((_positive(a, -a), _positive(b, -b)) for a, b in widths))
    zeros = x.seen_through(moves.steps)
    if zeros is x or (value == 0 and not (isinstance(value, float) and str(value) == "-0.0")):
        return zeros
    from tinysched.tensor.creation import const_like

    inside = const_like(x, True, dtypes.bool).seen_through(moves.steps)
    return inside.where(zeros, value)


def _positive(width: Sint, opposite: Sint) -> Sint:
    """``max(width, 0)``, where a symbolic width counts as its own sign says."""
    if isinstance(width, int):
        return max(width, 0)
    return 0 if width.vmax <= 0 or (isinstance(opposite, UOp) and opposite.vmin >= 0) else width


def roll(x: Tensor, shifts: int | Sequence[int], dims: Axes = None) -> Tensor:
    """Elements moved along ``dims`` by ``shifts``; what leaves at one end comes back at the other."""
    if dims is None:
        return reshape(roll(flatten(x), shifts, 0), x.shape)
    axes = axes_of(dims, x.ndim)
    by = dict(zip(axes, many(shifts, len(axes))))
    if 0 in x.shape:
        return x
    for axis in by:
        x = whole_along(x, axis)
    moves = Moves(x.shape).repeat(tuple(2 if i in by else 1 for i in range(x.ndim)))
    starts = {i: x.shape[i] - by[i] % x.shape[i] for i in by}
    moves.shrink(tuple((starts.get(i, 0), starts.get(i, 0) + s) for i, s in enumerate(x.shape)))
    return x.seen_through(moves.steps)


def split(x: Tensor, sizes: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive parts along ``dim``: of ``sizes`` elements each (the last may be smaller), or of the sizes given."""
    dim = axis_of(dim, x.ndim)
    size = x.shape[dim]
    if isinstance(sizes, int):
        if sizes < 0 or (sizes == 0 and size):
            raise ArgumentError(f"split into parts of {sizes}", where=place(x.uop))
        sizes = [min(sizes, size - i) for i in range(0, max(1, size), max(1, sizes))]
    if sum(sizes) != size:
        raise ShapeError(f"parts of {tuple(sizes)} do not add up to axis {dim} of {x.shape}", where=place(x.uop))
    ends = list(accumulate(sizes, initial=0))
    whole = [(0, s) for s in x.shape]
    return tuple(shrink(x, (*whole[:dim], (a, b), *whole[dim + 1 :])) for a, b in pairwise(ends))


def chunk(x: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    """At most ``chunks`` parts of equal size along ``dim`` (the last may be smaller)."""
    if chunks <= 0:
        raise ArgumentError(f"{chunks} chunks", where=place(x.uop), help="at least one")
    size = x.shape[axis_of(dim, x.ndim)]
    return list(split(x, ceil_div(size, chunks) if size else [0] * chunks, dim))


# ** repeats **


def expand(x: Tensor, *shape: Any) -> Tensor:
    """Axes of size 1 repeated to the sizes of ``shape``, new axes in front; -1 or None keeps a size."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    given = (1,) * (x.ndim - len(given)) + tuple(given)
    new = len(given) - x.ndim
    kept = tuple(
        x.shape[i - new] if s is None or (isinstance(s, int) and s == -1 and i >= new) else s
        for i, s in enumerate(given)
    )
    return broadcast_to(x, sizes_of((kept,)))


def broadcast_to(x: Tensor, shape: Shape) -> Tensor:
    """``x`` with axes of size 1 repeated and leading axes added. Raises :class:`ShapeError` where that cannot be."""
    if x.shape == shape:
        return x
    return x.seen_through(_at(x, lambda: Moves(x.shape).broadcast(shape)).steps)


def repeat(x: Tensor, *repeats: Any) -> Tensor:
    """The whole Tensor, several times along each axis; more numbers than axes add axes in front."""
    times = sizes_of(repeats)
    if len(times) < x.ndim:
        raise ShapeError(f"repeat{times} of shape {x.shape}", where=place(x.uop), help="one number for each axis")
    for axis, n in enumerate(times[len(times) - x.ndim :]):  # the copies of a shard would not lie together
        x = whole_along(x, axis) if n != 1 else x
    moves = Moves(x.shape).reshape((*(1,) * (len(times) - x.ndim), *x.shape))
    return x.seen_through(moves.repeat(times).steps)


def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each element ``repeats`` times in a row along ``dim`` (None: of the flattened Tensor)."""
    if dim is None:
        x, dim = flatten(x), 0
    dim = axis_of(dim, x.ndim)
    s = x.shape
    moves = Moves(s).insert(dim + 1).broadcast((*s[: dim + 1], repeats, *s[dim + 1 :])).merge(dim, dim + 1)
    return x.seen_through(moves.steps)


def pool(x: Tensor, kernel: Shape, stride: int | Sequence[int] = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Sliding windows over the last ``len(kernel)`` axes, as new last axes of sizes ``kernel``."""
    if x.ndim < len(kernel):
        raise ShapeError(f"a window of {kernel} over shape {x.shape}", where=place(x.uop))
    n = len(kernel)
    for axis in range(x.ndim - n, x.ndim):  # windows reach from one shard into the next
        x = whole_along(x, axis)
    return x.seen_through(_at(x, lambda: Moves(x.shape).pool(kernel, many(stride, n), many(dilation, n))).steps)


def unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` every ``step`` elements along ``dim``; the elements of a window are the new last axis."""
    if size < 0 or step <= 0:
        raise ArgumentError(f"unfold by size {size}, step {step}", help="size >= 0, step > 0")
    dim = axis_of(dim, x.ndim)
    last = transpose(x, dim, -1) if x.ndim > 1 else x
    windows = pool(last, (size,), step)
    return transpose(windows, dim, -2) if x.ndim > 1 else windows


# ** several Tensors **


def broadcast_all(*xs: Tensor) -> tuple[Tensor, ...]:
    """The Tensors at their common broadcast shape."""
    shape = broadcast([x.shape for x in xs])
    return tuple(broadcast_to(x, shape) for x in xs)


def stack(x: Tensor | Sequence[Tensor], *others: Tensor, dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis ``dim``. Raises :class:`ShapeError` where shapes differ."""
    tensors = _tensors(x, others)
    first = tensors[0]
    if any(t.shape != first.shape for t in tensors):
        raise ShapeError(
            f"stack of shapes {[t.shape for t in tensors]}", where=place(first.uop), help="use equal shapes"
        )
    dtype = least_upper_dtype(*(t.dtype for t in tensors))
    dim = axis_of(dim, first.ndim + 1)
    joined = Tensor.from_uop(UOp(Ops.STACK, dtype, tuple(t.cast(dtype).uop for t in tensors)))
    return permute(joined, *range(1, dim + 1), 0, *range(dim + 1, joined.ndim)) if dim else joined


def cat(x: Tensor | Sequence[Tensor], *others: Tensor, dim: int = 0) -> Tensor:
    """Tensors one after another along ``dim``. Raises :class:`ShapeError` where the other axes differ.

    Parts of equal size are a STACK whose new axis merges with ``dim``; others are padded to the whole and added up, and so
    are those that lie on several devices in parts along ``dim``, for these the new axis would not merge.
    """
    tensors = _tensors(x, others)
    dim, first = axis_of(dim, tensors[0].ndim), tensors[0].shape
    rest = [(*t.shape[:dim], *t.shape[dim + 1 :]) for t in tensors]
    if any(t.ndim != len(first) or r != rest[0] for t, r in zip(tensors, rest)) or not first:
        raise ShapeError(
            f"cat of shapes {[t.shape for t in tensors]} along axis {dim}",
            where=place(tensors[0].uop),
            help="all other axes must be equal",
        )
    if all(t.shape[dim] == first[dim] and sharding.axis_of(t.uop) != dim for t in tensors):
        return flatten(stack(tensors, dim=dim), dim, dim + 1)
    ends = list(accumulate((t.shape[dim] for t in tensors), initial=0))
    none: list[Pair] = [(0, 0)] * len(first)
    padded = [
        pad_constant(t, (*none[:dim], (a, ends[-1] - b), *none[dim + 1 :]), 0)
        for t, a, b in zip(tensors, ends, ends[1:])
    ]
    dtype = least_upper_dtype(*(t.dtype for t in tensors))
    join = (lambda a, b: a | b) if dtype is dtypes.bool else (lambda a, b: a + b)
    return reduce(join, padded)


def _tensors(x: Tensor | Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    given = [*x, *others] if isinstance(x, (list, tuple)) else [x, *others]
    if not given:
        raise ArgumentError("no Tensor to join", help="give at least one")
    return [t if isinstance(t, Tensor) else Tensor(t) for t in given]


def meshgrid(x: Tensor, *others: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """1-d Tensors as the axes of a grid: each repeated along the others' axes."""
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid indexing {indexing!r}", help="'ij' or 'xy'")
    tensors = (x, *others)
    axes = list(range(len(tensors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    n = len(tensors)
    return broadcast_all(*(reshape(t, *(-1 if i == a else 1 for i in range(n))) for t, a in zip(tensors, axes)))


# ** diagonals **


def diag(x: Tensor) -> Tensor:
    """A square matrix with the elements of a 1-d Tensor on its diagonal."""
    if x.ndim != 1:
        raise ShapeError(f"diag of shape {x.shape}", where=place(x.uop), help="give a 1-d Tensor, or use diagonal()")
    n = x.shape[0]
    moves = Moves(x.shape).insert(1).pad_to((n, n + 1)).reshape((n * (n + 1),)).shrink_to((n * n,)).reshape((n, n))
    return x.seen_through(moves.steps)


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal ``offset`` (above the main one if positive) of the matrices of two axes, as the last axis."""
    a, b = axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)
    if a == b:
        raise ShapeError(f"diagonal of axis {a} with itself", where=place(x.uop))
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    moves = Moves(x.shape).permute((*rest, a, b))
    *lead, rows, cols = moves.shape
    n = max(0, min(rows + min(offset, 0), cols - max(offset, 0)))
    if n == 0:
        return x.seen_through(moves.shrink_to((*lead, 0, 0)).reshape((*lead, 0)).steps)
    first = (max(-offset, 0), max(offset, 0))
    moves.shrink((*((0, s) for s in lead), *((f, f + n) for f in first)))
    moves.reshape((*lead, n * n)).pad_to((*lead, n * (n + 1))).reshape((*lead, n, n + 1))
    return x.seen_through(moves.shrink_to((*lead, n, 1)).reshape((*lead, n)).steps)
