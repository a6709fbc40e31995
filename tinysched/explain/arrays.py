"""What one operation does to arrays, in plain NumPy: elementwise, a reduction, a movement op.

In: arrays, and the node whose operation it is. Out: an array. Nothing of the engine's own arithmetic is used.

What a program computes in float32 is computed in float64 here (:func:`kind_of`): two ways to compute a value that differ by
rounding only then agree in far more digits than a wrong rewrite leaves, also where rounding is all that a value is (Adam
divides a gradient that should be 0 by its own size).

>>> moved(np.arange(6).reshape(2, 3), Ops.PERMUTE, (1, 0), 0).shape
(3, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinysched.dtypes import DType, dtypes, strong_dtype
from tinysched.errors import TraceError
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp

Array = np.ndarray[Any, Any]


def _threefry(x: Array, key: Array) -> Array:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of 64-bit numbers, whose low words come first."""
    bits, word = np.uint64(32), np.uint64(0xFFFFFFFF)
    low, high, first, second = x & word, x >> bits, key & word, key >> bits
    keys = (first, second, first ^ second ^ np.uint64(0x1BD11BDA))
    low, high = low + first & word, high + second & word
    turns = (13, 15, 26, 6, 17, 29, 16, 24)
    for count in range(20):
        low = low + high & word
        turned = high << np.uint64(turns[count % 8])
        high = (turned & word | turned >> bits) ^ low
        if count % 4 == 3:
            n = count // 4 + 1
            low = low + keys[n % 3] & word
            high = high + keys[(n + 1) % 3] + np.uint64(n) & word
    return high << bits | low


_BINARY: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.FDIV: np.true_divide, Ops.POW: np.power, Ops.MAX: np.maximum,
    Ops.FLOORDIV: np.floor_divide, Ops.FLOORMOD: np.mod, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal, Ops.XOR: np.bitwise_xor, Ops.OR: np.bitwise_or, Ops.AND: np.bitwise_and,
    Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, Ops.CMOD: np.fmod, Ops.WHERE: np.where, Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal,
    Ops.THREEFRY: _threefry,
}  # fmt: skip
_CLOSE = {2: (3e-2, 1e-2), 8: (1e-6, 1e-8)}
"""Relative and absolute tolerance by size of a float: constants are folded in float32, and float16 is computed as it is."""
REDUCE: dict[Ops, Any] = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}


@dataclass(frozen=True)
class Spread:
    """Values over loops: one axis per loop in ``loops``, then the axes of the node's shape."""

    loops: tuple[UOp, ...]
    array: Array

    def over(self, loops: Sequence[UOp], ndim: int) -> Array:
        """The array with an axis for each of ``loops`` (of one element where nothing changes), then ``ndim`` axes."""
        own = self.array.ndim - len(self.loops)
        order = sorted(range(len(self.loops)), key=lambda i: loops.index(self.loops[i]))
        array = self.array.transpose((*order, *range(len(self.loops), self.array.ndim)))
        sizes = dict(zip((self.loops[i] for i in order), array.shape))
        return array.reshape((*(sizes.get(r, 1) for r in loops), *(1,) * (ndim - own), *array.shape[len(self.loops) :]))


def kind_of(dtype: DType) -> np.dtype[Any]:
    """The NumPy type that values of ``dtype`` have here.

    >>> kind_of(dtypes.float32), kind_of(dtypes.float16)
    (dtype('float64'), dtype('float16'))
    """
    kind: np.dtype[Any] = strong_dtype(dtype).np
    return np.dtype(np.float64) if kind == np.float32 else kind


def bits(array: Array, of: DType, to: DType) -> Array:
    """Values of one dtype, the bits of which are seen as another."""
    if strong_dtype(of) is strong_dtype(to):
        return array
    exact = np.asarray(array, strong_dtype(of).np, order="C")
    return exact.view(strong_dtype(to).np).astype(kind_of(to), copy=False)


def union(spreads: Iterable[Spread]) -> tuple[UOp, ...]:
    """All loops of some values, in one order."""
    found = {r for s in spreads for r in s.loops}
    return tuple(sorted(found, key=lambda r: (r.arg[0], str(r.arg[1]))))


def alu(u: UOp, args: Sequence[Array]) -> Any:
    """One elementwise operation, as NumPy computes it at the dtype of its operands."""
    op, dtype = u.op, u.src[-1].dtype
    if op is Ops.SUB:
        return np.not_equal(*args) if dtype is dtypes.bool else np.subtract(*args)
    if op is Ops.NEG:
        return np.logical_not(*args) if dtype is dtypes.bool else np.negative(*args)
    if op is Ops.TRUNC:
        return np.trunc(*args) if dtype.kind == "f" else args[0]
    if op is Ops.CDIV:
        a, b = args
        return np.floor_divide(a, b) + ((np.mod(a, b) != 0) & ((a < 0) != (b < 0)))
    if op not in _BINARY:
        raise TraceError(f"a check does not know what {op.name} means", help="check a part of the program without it")
    return _BINARY[op](*args)


def total(ufunc: Any, array: Array, axes: tuple[int, ...], dtype: Any) -> Array:
    """A reduction over some axes; of nothing, what it starts from."""
    start = {np.add: 0, np.multiply: 1, np.maximum: dtype.min}[ufunc]
    kind = kind_of(dtype)
    return np.asarray(ufunc.reduce(array.astype(kind, copy=False), axis=axes, dtype=kind, initial=kind.type(start)))


def moved(array: Array, op: Ops, arg: Any, lead: int) -> Array:
    """One movement op on the axes after the first ``lead``."""
    loops = array.shape[:lead]
    if op is Ops.RESHAPE:
        return array.reshape((*loops, *arg))
    if op is Ops.PERMUTE:
        return array.transpose((*range(lead), *(i + lead for i in arg)))
    if op is Ops.FLIP:
        return np.flip(array, tuple(i + lead for i, f in enumerate(arg) if f))
    if op is Ops.SHRINK:
        return array[(*(slice(None),) * lead, *(slice(a, b) for a, b in arg))]
    if op is Ops.PAD:
        return np.pad(array, (*((0, 0),) * lead, *arg)) if array.ndim else array
    inner = array.reshape((*loops, *(1,) * len(arg), *array.shape[lead:]))
    return np.broadcast_to(inner, (*loops, *arg, *array.shape[lead:]))


def close(a: Array, b: Array) -> bool:
    """Equal, but for rounding in floats (and for how a value that is the same everywhere is written)."""
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError:
        return False
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    relative, absolute = _CLOSE[min(a.dtype.itemsize, b.dtype.itemsize)]
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 1.0
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=relative, atol=absolute * max(scale, 1.0), equal_nan=True))
