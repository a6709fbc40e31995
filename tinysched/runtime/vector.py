"""What the NumPy programs call besides NumPy: strided views of flat memory, and operations that NumPy lacks.

In: arrays. Out: arrays. A view that would reach outside of its memory is refused by NumPy itself.

>>> memory = np.arange(12)
>>> view(memory, 2, (2, 3), (4, 1)).tolist()
[[2, 3, 4], [6, 7, 8]]
>>> view(memory, 2, (2, 3), (8, 1))
Traceback (most recent call last):
    ...
ValueError: strides is incompatible with shape of requested array and size of buffer
>>> fold(np.maximum, np.array([[3, 1, 2], [4, 6, 5]]), (1,)).tolist()
[[3], [6]]
>>> cdiv(np.array([-7, 7, 1]), 2).tolist(), power(np.array([2, -1, 0]), np.array([3, -3, -1])).tolist()
([-3, 3, 0], [8, -1, 0])
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WINDOWS: Final = 1 << 18
"""Elements of the windows that are copied at a time."""


@lru_cache(maxsize=4096)
def _bytes(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(s * itemsize for s in strides)


def view(memory: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Contiguous ``memory`` seen from ``offset`` on, with ``strides`` in elements."""
    size = memory.itemsize
    return np.ndarray(shape, memory.dtype, memory, offset * size, _bytes(strides, size))


def blas(x: Array) -> Array:
    """Matrices that BLAS can take as they are: one of the last two axes lies densely."""
    return x if x.itemsize in x.strides[-2:] else np.ascontiguousarray(x)


def matmul_by_blocks(windows: Array, rows: int, matrix: Array, across: bool) -> Array:
    """The product of overlapping windows (``rows`` axes of rows, then those that are summed) and a matrix.

    A copy of all windows at once would go through main memory; blocks of them stay in the cache. ``across`` copies with
    the rows innermost; the product is turned then.
    """
    count, inner = prod(windows.shape[:rows]), len(matrix)
    out = np.empty((matrix.shape[1], count) if across else (count, matrix.shape[1]), windows.dtype)
    each = count // len(windows)
    step = max(1, WINDOWS // max(1, each * inner))
    order = (*range(rows, windows.ndim), *range(rows))
    for start in range(0, len(windows), step):
        block, here = windows[start : start + step], slice(start * each, (start + step) * each)
        if across:
            np.matmul(matrix.T, block.transpose(order).reshape(inner, -1), out=out[:, here])
        else:
            np.matmul(block.reshape(-1, inner), matrix, out=out[here])
    return out


def gather(source: Array, rows: Array, mask: Array | bool = True, out: Array | None = None) -> Array:
    """Rows of ``source``, and zeros where the mask says so."""
    taken: Array = source.take(rows, axis=0, mode="clip", out=out)
    if not np.all(mask):
        np.copyto(taken, taken.dtype.type(0), where=np.logical_not(mask))
    return taken


def turned(tile: Array) -> Array:
    """A tile copied along its columns, to memory whose columns do not all fall into the same lines of the cache."""
    rows, columns = tile.shape[-2:]
    scratch = np.empty((*tile.shape[:-2], columns, rows + 16), tile.dtype).swapaxes(-1, -2)
    scratch[..., :rows, :] = tile
    return scratch[..., :rows, :]


def fold(function: np.ufunc, x: Array, axes: tuple[int, ...], out: Array | None = None) -> Array:
    """``function.reduce`` over a few elements: an operation on whole arrays for each, in place of many short loops."""
    first, *rest = np.ndindex(*(x.shape[i] for i in axes))

    def part(place: tuple[int, ...]) -> Array:
        cut = [slice(None)] * x.ndim
        for i, k in zip(axes, place):
            cut[i] = slice(k, k + 1)
        return x[tuple(cut)]

    if not rest:
        return np.positive(part(first), out=out) if x.dtype != bool else np.logical_or(part(first), False, out=out)
    total: Array = function(part(first), part(rest[0]), out=out)
    for place in rest[1:]:
        function(total, part(place), out=total)
    return total


def within(rows: Array, count: int) -> Array:
    """``rows`` if all of them exist. (NumPy would count negative ones from the end.)"""
    if rows.size and not (rows.min() >= 0 and rows.max() < count):
        wrong = rows[(rows < 0) | (rows >= count)]
        raise IndexError(f"index {wrong.flat[0]} is outside of the {count} elements of the buffer")
    return rows


def scatter(memory: Array, index: Array, value: Any, mask: Any = True) -> None:
    """Writes ``value`` to computed elements, where ``mask`` holds."""
    index, value, mask = np.broadcast_arrays(index, value, mask)
    memory[within(index[mask], memory.size)] = value[mask]


def cdiv(a: Any, b: Any) -> Any:
    """Division of integers that truncates towards zero; by zero it is 0."""
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
    return quotient + inexact.astype(quotient.dtype)


def power(a: Any, b: Any) -> Any:
    """``a ** b``; integers to a negative power truncate towards zero."""
    a, b = np.broadcast_arrays(a, b)
    negative = b < 0
    if a.dtype.kind == "f" or not negative.any():
        return np.power(a, b)
    small = np.where(a == 1, a, np.where(a == -1, np.where(b % 2 == 0, -a, a), a.dtype.type(0)))
    return np.where(negative, small, np.power(a, np.where(negative, b.dtype.type(0), b)))


def threefry(x: Any, key: Any) -> Any:
    """Threefry-2x32 with 20 rounds: two 32-bit words in, two out, the low word first."""
    low, high = _words(x)
    k0, k1 = _words(key)
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    low, high = low + k0, high + k1
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            low = low + high
            high = (high << np.uint32(turn) | high >> np.uint32(32 - turn)) ^ low
        low = low + keys[(group + 1) % 3]
        high = high + keys[(group + 2) % 3] + np.uint32(group + 1)
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def _words(x: Any) -> tuple[Array, Array]:
    x = np.asarray(x, np.uint64)
    return x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)
