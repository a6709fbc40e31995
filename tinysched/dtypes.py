"""Element types, and which type an operation results in.

In: names, NumPy dtypes, Python scalars. Out: :class:`DType` values and the promotion rules of upstream 0.14
(tests/test_dtypes.py compares the tables with the installed peer).

Python scalars are *weak*: they take the type of what they meet (``int8 + 1`` is ``int8``).

>>> least_upper_dtype(dtypes.int8, dtypes.weakint)
dtypes.int8
>>> least_upper_dtype(dtypes.uint8, dtypes.int8)
dtypes.int16
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tinysched.errors import DTypeError

Scalar = bool | int | float


@dataclass(frozen=True, eq=False)
class DType:
    """One element type. Compared by identity; ``priority`` orders the promotion, ``itemsize`` is in bytes."""

    priority: int
    itemsize: int
    name: str
    kind: str  # 'b' bool, 'u' unsigned, 'i' signed, 'f' float, 'v' no value
    np_name: str = ""

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __lt__(self, other: DType) -> bool:
        return self.priority < other.priority

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (to_dtype, (self.name,))

    @property
    def np(self) -> np.dtype[Any]:
        """The NumPy dtype that holds such elements; raises :class:`DTypeError` where NumPy has none."""
        if not self.np_name:
            raise DTypeError(
                f"{self.name} has no NumPy type",
                help="use float16 or float32 on NUMPY devices (bfloat16 and fp8: CUPY)",
            )
        return np.dtype(self.np_name)

    @property
    def min(self) -> Scalar:
        if self.kind == "i":
            return -(1 << (self.itemsize * 8 - 1))
        return {"b": False, "u": 0}.get(self.kind, -math.inf)

    @property
    def max(self) -> Scalar:
        if self.kind in "iu":
            return (1 << (self.itemsize * 8 - (self.kind == "i"))) - 1
        return True if self.kind == "b" else math.inf


class dtypes:
    """All element types, by name. ``index`` is for index arithmetic (a Python int without a width)."""

    void: Final = DType(-1, 0, "void", "v")
    index: Final = DType(-2, 8, "index", "i", "int64")
    bool: Final = DType(0, 1, "bool", "b", "bool")
    weakint: Final = DType(1, 4, "weakint", "i", "int32")
    int8: Final = DType(2, 1, "int8", "i", "int8")
    uint8: Final = DType(3, 1, "uint8", "u", "uint8")
    int16: Final = DType(4, 2, "int16", "i", "int16")
    uint16: Final = DType(5, 2, "uint16", "u", "uint16")
    int32: Final = DType(6, 4, "int32", "i", "int32")
    uint32: Final = DType(7, 4, "uint32", "u", "uint32")
    int64: Final = DType(8, 8, "int64", "i", "int64")
    uint64: Final = DType(9, 8, "uint64", "u", "uint64")
    weakfloat: Final = DType(10, 4, "weakfloat", "f", "float32")
    fp8e4m3: Final = DType(11, 1, "fp8e4m3", "f")
    fp8e5m2: Final = DType(12, 1, "fp8e5m2", "f")
    float16: Final = DType(13, 2, "float16", "f", "float16")
    bfloat16: Final = DType(14, 2, "bfloat16", "f")
    float32: Final = DType(15, 4, "float32", "f", "float32")
    float64: Final = DType(16, 8, "float64", "f", "float64")

    half = float16
    float = float32
    double = float64
    char, uchar, short, ushort = int8, uint8, int16, uint16
    int, uint, long, ulong = int32, uint32, int64, uint64
    default_float: DType = float32
    default_int: DType = int32

    fp8s: Final = (fp8e4m3, fp8e5m2)
    floats: Final = (fp8e4m3, fp8e5m2, float16, bfloat16, float32, float64)
    uints: Final = (uint8, uint16, uint32, uint64)
    sints: Final = (int8, int16, int32, int64)
    ints: Final = uints + sints
    weaks: Final = (weakint, weakfloat)

    @staticmethod
    def is_float(dtype: DType) -> Any:
        return dtype.kind == "f"

    @staticmethod
    def is_int(dtype: DType) -> Any:
        """Signed, unsigned or weak integers (not bool)."""
        return dtype.kind in "iu"

    @staticmethod
    def is_unsigned(dtype: DType) -> Any:
        return dtype.kind == "u"

    @staticmethod
    def from_py(value: object) -> DType:
        """The weak or strong type of a Python scalar, or the default type of a nested sequence of scalars."""
        return _dtype_of_py(value)


_BY_NAME: Final[dict[str, DType]] = {k: v for k, v in vars(dtypes).items() if isinstance(v, DType)}
_BY_NP: Final[dict[np.dtype[Any], DType]] = {d.np: d for d in (dtypes.bool, *dtypes.ints, *dtypes.floats) if d.np_name}

# what each type is promoted to next; the least common ancestor is the result type of a binary operation
_PROMOTES_TO: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool: (dtypes.weakint,),
    dtypes.weakint: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.int16: (dtypes.int32,),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.int32: (dtypes.int64,),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.int64: (dtypes.weakfloat,),
    dtypes.uint64: (dtypes.weakfloat,),
    dtypes.weakfloat: dtypes.fp8s,
    dtypes.fp8e4m3: (dtypes.float16, dtypes.bfloat16),
    dtypes.fp8e5m2: (dtypes.float16, dtypes.bfloat16),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


@functools.cache
def _ancestors(dtype: DType) -> frozenset[DType]:
    return frozenset({dtype}.union(*(_ancestors(d) for d in _PROMOTES_TO[dtype])))


@functools.cache
def least_upper_dtype(*ds: DType) -> DType:
    """The smallest type that all of ``ds`` promote to."""
    return min(frozenset.intersection(*(_ancestors(d) for d in ds)))


def least_upper_float(dtype: DType) -> DType:
    """The float type that a function like ``exp`` computes in, given its input type."""
    if dtype is dtypes.weakint:
        return dtypes.weakfloat
    return dtype if dtypes.is_float(dtype) else least_upper_dtype(dtype, dtypes.default_float)


def strong_dtype(dtype: DType) -> DType:
    """What a weak type is stored as; strong types are themselves."""
    return {dtypes.weakint: dtypes.default_int, dtypes.weakfloat: dtypes.default_float}.get(dtype, dtype)


def sum_acc_dtype(dtype: DType) -> DType:
    """The type that a sum accumulates in."""
    if dtypes.is_unsigned(dtype):
        return least_upper_dtype(dtype, dtypes.uint32)
    if dtypes.is_int(dtype) or dtype is dtypes.bool:
        return least_upper_dtype(dtype, dtypes.int32)
    return least_upper_dtype(dtype, dtypes.float32)


def to_dtype(value: DType | str | type | np.dtype[Any]) -> DType:
    """A DType from a DType, its name, a Python type or a NumPy dtype. Raises :class:`DTypeError` for others."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    python = {bool: dtypes.bool, int: dtypes.default_int, float: dtypes.default_float}
    if isinstance(value, type) and value in python:
        return python[value]
    try:
        return _BY_NP[np.dtype(value).newbyteorder("=")]
    except (TypeError, KeyError):
        raise DTypeError(
            f"{value!r} is no dtype of tinysched", help="use dtypes.float32, 'int8', np.float64, bool, int or float"
        ) from None


DTypeLike = DType | str | type


def _dtype_of_py(value: object) -> DType:
    if isinstance(value, (bool, np.bool_)):
        return dtypes.bool
    if isinstance(value, (int, np.integer)):
        return dtypes.weakint
    if isinstance(value, (float, np.floating)):
        return dtypes.weakfloat
    if isinstance(value, (list, tuple)):
        kinds = [_dtype_of_py(v) for v in value]
        return strong_dtype(max(kinds)) if kinds else dtypes.default_float
    raise DTypeError(
        f"no dtype for a Python {type(value).__name__}", help="give numbers, bools, or (nested) lists of them"
    )


def as_scalar(value: Scalar, dtype: DType) -> Scalar:
    """``value`` as the Python scalar that a constant of ``dtype`` holds: wrapped, rounded, or made a bool."""
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind == "f":
        if dtype.np_name in ("float16", "float32") and dtype is not dtypes.weakfloat:  # weak: as exact as it was given
            with np.errstate(over="ignore"):
                return float(np.dtype(dtype.np_name).type(value))
        return float(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            with np.errstate(invalid="ignore"):
                return int(np.float64(value).astype(dtype.np))
        value = int(value)
    value = int(value)
    if dtype is dtypes.index or dtype is dtypes.weakint:
        return value
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
