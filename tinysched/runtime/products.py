"""Products of matrices, and how cuBLAS is asked for them.

In: a :class:`Product` of matrices that lie in memory. Out: :class:`Gemm` values, a call of cuBLAS each: matrices one behind
the other at a fixed distance, which is 0 for one that is used again and again. cuBLAS counts matrices by columns, so that
memory in rows is a transposed matrix to it: for ``out = left @ right`` it is asked for ``out.T = right.T @ left.T``, and
nothing is copied.

>>> x, y = Matrix(1, 0, (2, 5, 3), (15, 3, 1)), Matrix(2, 0, (2, 3, 4), (0, 1, 3))
>>> out = Matrix(0, 0, (2, 5, 4), (20, 4, 1))
>>> [gemm] = gemms(x, y, out)
>>> gemm.a  # y: the same for both, in columns
Side(slot=2, offset=0, turned=True, lead=3, step=0, dtype=dtypes.float32)
>>> gemm.m, gemm.n, gemm.k, gemm.times
(4, 5, 3, 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as places
from typing import NamedTuple

from tinysched.dtypes import DType, dtypes
from tinysched.ir.uop import UOp


class Matrix(NamedTuple):
    """Matrices as they lie in the memory of a slot, in elements: axes of the batch, rows, columns."""

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType = dtypes.float32


class Product(NamedTuple):
    """``out = left @ right``, by cuBLAS: factors of one type, of which 16-bit floats may be summed up as float32."""

    left: Matrix
    right: Matrix
    out: Matrix
    node: UOp


class Side(NamedTuple):
    """A factor or the result: where it starts, whether it lies in columns, how far rows (or columns) and matrices lie apart."""

    slot: int
    offset: int
    turned: bool
    lead: int
    step: int
    dtype: DType


class Gemm(NamedTuple):
    """One call: ``times`` times ``c = a @ b`` of m × k and k × n, counted by columns."""

    m: int
    n: int
    k: int
    a: Side
    b: Side
    c: Side
    times: int


def gemms(left: Matrix, right: Matrix, out: Matrix) -> Iterator[Gemm]:
    """The calls for ``out = left @ right``: one, unless the batch has axes that are no even steps through memory."""
    sizes, steps = _batch(left, right, out)
    along = max(range(len(sizes)), key=lambda i: sizes[i], default=0)
    count, step = (sizes[along], steps[along]) if sizes else (1, (0, 0, 0))
    others = [i for i in range(len(sizes)) if i != along]
    (m, k), n = left.shape[-2:], right.shape[-1]
    for place in places(*(range(sizes[i]) for i in others)):
        at = [sum(p * steps[i][side] for p, i in zip(place, others)) for side in range(3)]
        a, b, c = (_side(x, at[i], step[i]) for i, x in enumerate((left, right, out)))
        yield Gemm(n, m, k, b, a, c, count)


def _batch(*sides: Matrix) -> tuple[list[int], list[tuple[int, ...]]]:
    """The axes of a batch, neighbours as one where they are one for all sides."""
    sizes: list[int] = []
    steps: list[tuple[int, ...]] = []
    for i, size in enumerate(sides[0].shape[:-2]):
        step = tuple(x.strides[i] for x in sides)
        if size == 1:
            continue
        if steps and all(outer == size * inner for outer, inner in zip(steps[-1], step)):
            sizes[-1], steps[-1] = sizes[-1] * size, step
        else:
            sizes.append(size)
            steps.append(step)
    return sizes, steps


def _side(x: Matrix, at: int, step: int) -> Side:
    rows, columns = x.shape[-2:]
    turned = lies_in(*x.shape[-2:], *x.strides[-2:]) == "columns"
    lead = (x.strides[-1] if columns > 1 else rows) if turned else (x.strides[-2] if rows > 1 else columns)
    return Side(x.slot, x.offset + at, turned, lead, step, x.dtype)


def lies_in(rows: int, columns: int, down: int, right: int) -> str | None:
    """Whether a matrix lies in memory in ``rows`` or ``columns`` that don't overlap; ``down`` and ``right`` are strides."""
    if (right == 1 or columns == 1) and (down >= columns or rows == 1):
        return "rows"
    if (down == 1 or rows == 1) and (right >= rows or columns == 1):
        return "columns"
    return None
