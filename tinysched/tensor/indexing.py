"""Indexing as NumPy has it: ints, slices, None, Ellipsis, lists and Tensors of whole numbers; and writing through it.

In: a Tensor and an index. Out: a view where only ints, slices, None and ``...`` are used. With Tensors a sum over
one-hot masks (the scheduler makes a direct load of it), which is a value of its own. An int takes its axis away before
Tensors are looked at, as upstream and in PyTorch (to NumPy it is one more list: ``x[0, :, [1, 2]]`` has its axes swapped).

>>> from tinysched import Tensor
>>> x = Tensor.empty(4, 5, 6)
>>> x[1, ..., ::2].shape, x[:, None, -1].shape, x[[0, 2]].shape
((5, 3), (4, 1, 6), (2, 5, 6))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import index as as_int
from typing import Any, NamedTuple

import numpy as np

from tinysched.dtypes import dtypes
from tinysched.errors import IndexingError
from tinysched.ir.derive import bound_value, broadcast, prod
from tinysched.ir.lines import where as place
from tinysched.ir.uop import Shape, Sint, UOp
from tinysched.tensor.core import Tensor, TensorLike
from tinysched.tensor.creation import const_like
from tinysched.tensor.moves import Moves


class Part(NamedTuple):
    """What one entry of an index does to one axis: elements ``start`` to ``end`` (exclusive), every ``stride``-th.

    ``new``: an axis that was not there. ``gone``: an int was given, the axis leaves. ``pick``: places to look up.
    """

    start: Sint
    end: Sint
    stride: int = 1
    new: bool = False
    gone: bool = False
    pick: Tensor | None = None

    @property
    def size(self) -> Sint:
        length = self.end - self.start
        return -(-length // abs(self.stride)) if self.stride not in (1, -1) else length


# ** reading an index **


def parse(x: Tensor, index: Any) -> list[Part]:
    """One Part for each axis of ``x`` and each new one. Raises :class:`IndexingError`."""
    entries = _entries(x, index)
    parts, axis = [], 0
    for entry in entries:
        if entry is None:
            parts.append(Part(0, 1, new=True))
            continue
        parts.append(_part(x, entry, x.shape[axis], axis))
        axis += 1
    return parts


def _entries(x: Tensor, index: Any) -> list[Any]:
    """The entries with ``...`` and missing axes filled up by whole slices."""
    entries = list(index) if isinstance(index, tuple) else [index]
    used = [e for e in entries if e is not None and e is not Ellipsis]
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(dots) > 1:
        raise IndexingError("an index has at most one ...", where=place(x.uop))
    if len(used) > x.ndim:
        raise IndexingError(f"{len(used)} indices for shape {x.shape}", where=place(x.uop), help=f"at most {x.ndim}")
    at = dots[0] if dots else len(entries)
    entries[at : at + 1] = [slice(None)] * (x.ndim - len(used))
    return entries


def _part(x: Tensor, entry: Any, size: Sint, axis: int) -> Part:
    if isinstance(entry, slice):
        return _slice(x, entry, size)
    if isinstance(entry, (bool, np.bool_)):
        raise IndexingError("a bool is no position", where=place(x.uop), help="use where() or masked_fill()")
    if isinstance(entry, (list, tuple, np.ndarray, Tensor)):
        return Part(0, size, pick=_picked(x, entry, size, axis))
    if isinstance(entry, UOp):
        _check_inside(x, entry, entry + 1, size)
        return Part(entry, entry + 1, gone=True)
    try:
        at = as_int(entry)
    except TypeError:
        raise IndexingError(
            f"an index of {type(entry).__name__}",
            where=place(x.uop),
            help="use ints, slices, None, ..., lists, Tensors",
        ) from None
    if isinstance(size, int) and not -size <= at < size:
        raise IndexingError(f"index {at} of axis {axis} with {size} elements", where=place(x.uop))
    at = at + size if at < 0 else at
    return Part(at, at + 1, gone=True)


def _slice(x: Tensor, s: slice, size: Sint) -> Part:
    if any(isinstance(v, UOp) for v in (s.start, s.stop, size)):
        return _symbolic_slice(x, s, size)
    try:
        start, stop, step = s.indices(size)
    except (TypeError, ValueError) as error:
        raise IndexingError(
            f"slice {s}: {error}", where=place(x.uop), help="bounds and step are ints or None"
        ) from None
    count = len(range(start, stop, step))
    if count == 0:
        return Part(0, 0)
    last = start + (count - 1) * step
    if step < 0:
        return Part(last, start + 1, step)
    return Part(start, min(stop, size), step)


def _symbolic_slice(x: Tensor, s: slice, size: Sint) -> Part:
    start, stop = 0 if s.start is None else s.start, size if s.stop is None else s.stop
    start, stop = (v + size if isinstance(v, int) and v < 0 else v for v in (start, stop))
    if s.step not in (None, 1):
        raise IndexingError(f"slice {s} with a step and a Variable", where=place(x.uop), help="use a step of 1")
    _check_inside(x, start, stop, size)
    return Part(start, stop)


def _check_inside(x: Tensor, start: Sint, stop: Sint, size: Sint) -> None:
    """Raises :class:`IndexingError` where bound Variables reach outside: the size could not be cut off to fit."""
    first, end, most = bound_value(start), bound_value(stop), bound_value(size)
    if first is not None and end is not None and most is not None and not 0 <= first <= end <= most:
        raise IndexingError(
            f"elements {first} to {end} of an axis of {most}",
            where=place(x.uop),
            help="with a Variable in its bounds a slice must lie inside",
        )


def _picked(x: Tensor, entry: Any, size: Sint, axis: int) -> Tensor:
    """Whole numbers that count from the end where negative. Lists of ints are checked now, Tensors give 0 outside."""
    return _listed(x, entry, size, axis) if not isinstance(entry, Tensor) else _counted(entry, size)


def _listed(x: Tensor, entry: Any, size: Sint, axis: int) -> Tensor:
    array = np.asarray([e.numpy() if isinstance(e, Tensor) else e for e in entry])
    if array.size == 0:
        array = array.astype(np.int32)
    if array.dtype.kind == "b":
        return _from_mask(x, array, size, axis)
    if array.dtype.kind not in "iu" or not isinstance(size, int):
        return _counted(Tensor(array, device=x.uop.device), size)
    if array.size and (array.min() < -size or array.max() >= size):
        text = f"indices {array.min()} to {array.max()} of axis {axis} with {size} elements"
        raise IndexingError(text, where=place(x.uop))
    return Tensor(np.where(array < 0, array + size, array).astype(np.int32), device=x.uop.device)


def _counted(pick: Tensor, size: Sint) -> Tensor:
    if not dtypes.is_int(pick.dtype):
        raise IndexingError(
            f"an index of dtype {pick.dtype.name}",
            where=place(pick.uop),
            help="the shape would depend on values: use where(), or masked_select(mask, size=...)"
            if pick.dtype is dtypes.bool
            else "cast it to a whole number type",
        )
    if pick.dtype.itemsize < dtypes.default_int.itemsize:  # sizes and strides have to fit
        pick = pick.cast(dtypes.default_int)
    return pick if dtypes.is_unsigned(pick.dtype) else (pick < 0).where(pick + size, pick)


def _from_mask(x: Tensor, mask: np.ndarray[Any, Any], size: Sint, axis: int) -> Tensor:
    if mask.shape != (size,):
        raise IndexingError(
            f"a mask of shape {mask.shape} for axis {axis} of {x.shape}",
            where=place(x.uop),
            help="one bool per element",
        )
    return Tensor(np.flatnonzero(mask).astype(np.int32), device=x.uop.device)


# ** looking through it **


def view_moves(shape: Shape, parts: list[Part]) -> Moves:
    """The view part of an index: cut, reversed, every n-th; then new axes in and axes of ints out."""
    old = [p for p in parts if not p.new]
    moves = Moves(shape).shrink(tuple((p.start, p.end) for p in old))
    moves.flip(tuple(p.stride < 0 for p in old)).every([abs(p.stride) for p in old])
    return moves.reshape(tuple(p.size for p in parts if not p.gone))


def getitem(x: Tensor, index: Any) -> Tensor:
    """``x[index]``. Raises :class:`IndexingError` for what is out of range (lists too; a Tensor's values give 0)."""
    parts = parse(x, index)
    view = x.seen_through(view_moves(x.shape, parts).steps)
    return view if all(p.pick is None for p in parts) else _gather(view, [p for p in parts if not p.gone])


def _gather(x: Tensor, parts: list[Part]) -> Tensor:
    """Elements of ``x`` at the picked positions. Neighbouring picks become one flat position, so one mask."""
    dims = [d for d, p in enumerate(parts) if p.pick is not None]
    picks = [p.pick for p in parts if p.pick is not None]
    shape = _common_shape(x, picks)
    first, last = dims[0], dims[-1]
    together = dims == list(range(first, last + 1))
    if len(dims) == 1 or not together or any(not isinstance(x.shape[d], int) for d in dims):
        return _masked_sum(x, dims, picks, shape)[0]
    sizes = x.shape[first : last + 1]
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    flat: Tensor = reduce(lambda a, b: a + b, (t * s for t, s in zip(picks, strides)))
    inside: Tensor = reduce(lambda a, b: a & b, ((t >= 0) & (t < s) for t, s in zip(picks, sizes)))
    merged = x.flatten(first, last)
    found = _masked_sum(merged, [first], [inside.where(flat, 0)], shape)[0]
    return inside.reshape(*shape, *(1,) * (x.ndim - last - 1)).where(found, const_like(found, 0))


def _common_shape(x: Tensor, picks: list[Tensor]) -> Shape:
    try:
        return broadcast([t.shape for t in picks])
    except ValueError:
        shapes = " and ".join(str(t.shape) for t in picks)
        raise IndexingError(f"index shapes {shapes} do not broadcast", where=place(x.uop)) from None


def _masked_sum(x: Tensor, dims: list[int], picks: list[Tensor], shape: Shape) -> tuple[Tensor, Tensor]:
    """The sum over the picked axes of ``x`` where the position equals the pick, and that mask.

    The axes of the picks come before the first picked axis; at the front, as NumPy has it, if picks are not neighbours.
    """
    first, n = dims[0], len(shape)
    masks = []
    for d, pick in zip(dims, picks):
        aligned = pick.reshape(*(1,) * (n - pick.ndim), *pick.shape, *(1,) * (x.ndim - first))
        masks.append(one_hot_along(aligned, x.shape[d], d - x.ndim))
    mask: Tensor = reduce(lambda a, b: a & b, masks)
    mask = mask.reshape(*(1,) * (x.ndim + n - mask.ndim), *mask.shape)
    apart = x.reshape(*x.shape[:first], *(1,) * n, *x.shape[first:])
    found = mask.where(apart, 0).sum(tuple(d + n for d in dims), dtype=x.dtype)
    if _apart(dims):
        found = found.permute(*range(first, first + n), *range(first), *range(first + n, found.ndim))
    return found, mask


def _apart(dims: list[int]) -> bool:
    """Whether picks are no neighbours: then NumPy puts their axes in front."""
    return dims[0] > 0 and dims != list(range(dims[0], dims[-1] + 1))


def one_hot_along(x: Tensor, classes: Sint, dim: int = -1) -> Tensor:
    """Where the position along ``dim`` (of size 1 or ``classes``) equals the value of ``x``."""
    after = -1 - dim if dim < 0 else x.ndim - dim - 1
    return x.eq(Tensor.arange(classes).reshape(classes, *(1,) * after))


def one_hot(x: Tensor, num_classes: int) -> Tensor:
    """A new last axis that is 1 where its position equals the value, else 0 (values outside give only 0)."""
    if not dtypes.is_int(x.dtype):
        raise IndexingError(f"one_hot of {x.dtype.name}", where=place(x.uop), help="cast it to a whole number type")
    if num_classes < 0:
        raise IndexingError(f"one_hot of {num_classes} classes", where=place(x.uop))
    return one_hot_along(x.unsqueeze(-1), num_classes).where(1, 0)


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """``x[i][index[i][j]]``-wise for ``dim`` 1, and alike for others: a Tensor of the shape of ``index``.

    All axes but ``dim`` of ``index`` are at most those of ``x``. Raises :class:`IndexingError`.
    """
    from tinysched.tensor.checks import axis_of

    dim = axis_of(dim, x.ndim)
    if index.ndim != x.ndim or any(i > s for d, (i, s) in enumerate(zip(index.shape, x.shape)) if d != dim):
        raise IndexingError(
            f"gather of {x.shape} by indices {index.shape}",
            where=place(index.uop),
            help="same number of axes, no larger",
        )
    if not dtypes.is_int(index.dtype):
        raise IndexingError(f"gather by {index.dtype.name}", where=place(index.uop), help="cast it to whole numbers")
    cut = x.shrink_to(tuple(s if d == dim else i for d, (s, i) in enumerate(zip(x.shape, index.shape))))
    apart = cut.unsqueeze(-1).transpose(-1, dim)
    return one_hot_along(index.unsqueeze(-1), x.shape[dim]).where(apart, 0).sum(-1, dtype=x.dtype)


def rows(x: Tensor) -> Iterator[Tensor]:
    """The parts along the first axis, one after another. Raises :class:`IndexingError` for a 0-d Tensor."""
    if not x.shape:
        raise IndexingError("iteration over a 0-d Tensor", where=place(x.uop), help="use item()")
    return (getitem(x, i) for i in range(x.shape[0]))


# ** writing through it **


def setitem(x: Tensor, index: Any, value: TensorLike) -> None:
    """``x[index] = value``: cast to the dtype of ``x`` and broadcast. Raises before anything is written.

    Ints and slices write through a view. Tensors and lists choose by masks within that view, which is then written as a
    whole (of places named twice the last counts); a bool Tensor chooses by WHERE.
    """
    v = (value if isinstance(value, Tensor) else Tensor(value, device=x.uop.device)).cast(x.dtype)
    if isinstance(index, Tensor) and index.dtype is dtypes.bool:
        x.assign(_where_mask(x, index, v))
        return
    parts = parse(x, index)
    moves = view_moves(x.shape, parts)
    if any(p.pick is not None for p in parts):
        v = _merged(x.seen_through(moves.steps), [p for p in parts if not p.gone], v)
    write_view(x, moves, v)


def write_view(x: Tensor, moves: Moves, value: Tensor) -> None:
    """Writes into the part of ``x`` that the moves show; nothing into an empty one."""
    if value.ndim > len(moves.shape):  # NumPy drops leading axes of size 1
        value = value.reshape(value.shape[value.ndim - len(moves.shape) :])
    new = value.broadcast_to(moves.shape).uop
    if 0 not in moves.shape:
        x.write_through(moves.steps, new)


def _where_mask(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """``value`` (without the axes of the mask) where the mask over the first axes is true."""
    if mask.shape != x.shape[: mask.ndim] or value.ndim > x.ndim - mask.ndim:
        raise IndexingError(
            f"write of shape {value.shape} by a mask of shape {mask.shape} into {x.shape}",
            where=place(mask.uop),
            help="the mask covers the first axes, one value goes to every place",
        )
    return mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)).where(value, x)


def _merged(x: Tensor, parts: list[Part], value: Tensor) -> Tensor:
    """``x`` with ``value`` at the picked places."""
    dims = [d for d, p in enumerate(parts) if p.pick is not None]
    picks = [p.pick for p in parts if p.pick is not None]
    shape = _common_shape(x, picks)
    if 0 in shape:
        return x
    first, n = dims[0], len(shape)
    found, mask = _masked_sum(x, dims, picks, shape)
    spread = value.broadcast_to(found.shape)
    if _apart(dims):
        spread = spread.permute(*range(n, n + first), *range(n), *range(n + first, spread.ndim))
    for d in dims:
        spread = spread.unsqueeze(d + n)
    return last_of(spread, mask, x, tuple(range(first, first + n)))


def last_of(values: Tensor, mask: Tensor, old: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Along ``axes`` the last of ``values`` whose ``mask`` is true; where none is, ``old`` (which lacks these axes)."""
    for axis in reversed(axes):
        count = max(mask.shape[axis], values.shape[axis])
        pairs = zip(_each(mask, axis, count), _each(values, axis, count))
        mask, values = reduce(lambda a, b: (a[0] | b[0], b[0].where(b[1], a[1])), pairs)
    for axis in reversed(axes):
        mask, values = mask.squeeze(axis), values.squeeze(axis)
    return mask.where(values, old)


def _each(x: Tensor, axis: int, count: int) -> Sequence[Tensor]:
    """The ``count`` elements along an axis, which may be one that stands for all."""
    return x.split(1, axis) if x.shape[axis] == count else [x] * count
