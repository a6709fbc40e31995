"""Operands: one dtype for both sides, scalars as constants, and the nodes that functions of one or two values are.

In: Tensors and Python scalars. Out: nodes of equal dtype whose shapes broadcast. A scalar takes the dtype of what it
meets where that can hold its kind of number (``int8 + 1`` is int8); nothing is expanded.

>>> from tinysched import Tensor
>>> [u.dtype for u in promoted(Tensor([1, 2]), 2.5)]
[dtypes.weakfloat, dtypes.weakfloat]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tinysched.dtypes import DType, DTypeLike, dtypes, least_upper_dtype, least_upper_float, to_dtype
from tinysched.errors import DTypeError, ShapeError
from tinysched.ir import derive
from tinysched.ir.lines import where as place
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor, TensorLike

_WEAK: Final[dict[type, DType]] = {bool: dtypes.bool, int: dtypes.weakint, float: dtypes.weakfloat}


def convert(u: UOp, dtype: DType) -> UOp:
    """``u`` as ``dtype``; a constant at once (but for a leaf, to which a gradient may flow)."""
    if u.dtype is dtype:
        return u
    if u.op is Ops.CONST and u.tag is None:
        return UOp.const(u.arg, dtype)
    return UOp(Ops.CAST, dtype, (u,))


def promoted(x: Tensor, y: TensorLike) -> tuple[UOp, UOp]:
    """The two operands as nodes of one dtype. Raises :class:`ShapeError` where their shapes do not broadcast."""
    a = x.uop
    kind = _WEAK.get(y.__class__)
    if kind is None and isinstance(y, (int, float)):  # np.float64 is a float
        kind, y = dtypes.from_py(y), y + 0
    if kind is not None:
        out = least_upper_dtype(a.dtype, kind)
        return convert(a, out), UOp.const(y, out)
    b = y.uop if isinstance(y, Tensor) else operand(y, x).uop
    if a.shape != b.shape:
        check_broadcast(a, b)
    if a.dtype is b.dtype:
        return a, b
    out = least_upper_dtype(a.dtype, b.dtype)
    return convert(a, out), convert(b, out)


def operand(y: TensorLike, like: Tensor) -> Tensor:
    """What a Tensor is combined with, as a Tensor on its device. Raises :class:`DTypeError` for what is no number."""
    if isinstance(y, Tensor):
        return y
    if y is None:
        raise DTypeError(
            "None is no operand", where=place(like.uop), help="give a Tensor, a number, a list or an array"
        )
    return Tensor(y, device=like.uop.device)


def check_broadcast(*us: UOp) -> None:
    try:
        derive.broadcast([u.shape for u in us])
    except ShapeError as error:
        raise ShapeError(error.what, where=place(us[-1]), help=error.help) from None


def binary(op: Ops, x: Tensor, y: TensorLike) -> Tensor:
    """``op`` on two operands at their common dtype."""
    a, b = promoted(x, y)
    return Tensor.from_uop(UOp(op, a.dtype, (a, b)))


def reverse(op: Ops, x: Tensor, y: TensorLike) -> Tensor:
    """``op`` with ``y`` on the left."""
    a, b = promoted(x, y)
    return Tensor.from_uop(UOp(op, a.dtype, (b, a)))


def compare(op: Ops, x: Tensor, y: TensorLike) -> Tensor:
    """A comparison of two operands at their common dtype."""
    a, b = promoted(x, y)
    return Tensor.from_uop(UOp(op, dtypes.bool, (a, b)))


def unary(op: Ops, x: Tensor) -> Tensor:
    """A function of floats; whole numbers are cast first."""
    u = x.uop
    u = convert(u, least_upper_float(u.dtype))
    return Tensor.from_uop(UOp(op, u.dtype, (u,)))


# ** dtype **


def cast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """The values as another dtype; a new value also where it is the same. Floats are cut towards 0, bool is ``!= 0``."""
    return Tensor.from_uop(convert(x.uop, to_dtype(dtype)))


def bitcast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """The bytes read as another dtype: a view. Where the size differs the last axis grows or shrinks: a new value."""
    wanted = to_dtype(dtype)
    if x.dtype in dtypes.weaks or wanted in dtypes.weaks:
        raise DTypeError(f"bitcast {x.dtype.name} to {wanted.name}", where=place(x.uop), help="cast the scalar first")
    if x.dtype.itemsize != wanted.itemsize and (not x.shape or x.shape[-1] * x.dtype.itemsize % wanted.itemsize):
        raise ShapeError(
            f"bitcast {x.dtype.name} of shape {x.shape} to {wanted.name}",
            where=place(x.uop),
            help="the last axis must hold whole elements",
        )
    if x.dtype is wanted:
        return x
    if x.dtype.itemsize > wanted.itemsize:
        return _in_pieces(x, wanted)
    return _joined(x, wanted) if x.dtype.itemsize < wanted.itemsize else x.moved(Ops.BITCAST, wanted)


_UNSIGNED: Final = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def _in_pieces(x: Tensor, wanted: DType) -> Tensor:
    """Each element as several smaller ones, the lowest bits first."""
    bits = x.bitcast(_UNSIGNED[x.dtype.itemsize])
    count, width = x.dtype.itemsize // wanted.itemsize, wanted.itemsize * 8
    pieces = [(bits >> i * width).cast(_UNSIGNED[wanted.itemsize]) for i in range(count)]
    return Tensor.stack(*pieces, dim=-1).flatten(-2).bitcast(wanted)


def _joined(x: Tensor, wanted: DType) -> Tensor:
    """Several elements as one larger one, the first in the lowest bits."""
    count, width = wanted.itemsize // x.dtype.itemsize, x.dtype.itemsize * 8
    bits = x.bitcast(_UNSIGNED[x.dtype.itemsize]).cast(_UNSIGNED[wanted.itemsize]).unflatten(-1, (-1, count))
    whole = bits[..., 0]
    for i in range(1, count):
        whole = whole | bits[..., i] << i * width
    return whole.bitcast(wanted)


def _caster(dtype: DType) -> Callable[[Tensor], Tensor]:
    def as_dtype(x: Tensor) -> Tensor:
        return cast(x, dtype)

    as_dtype.__doc__ = f"The values as {dtype.name}."
    return as_dtype


to_float, to_half, to_double = _caster(dtypes.float32), _caster(dtypes.float16), _caster(dtypes.float64)
to_bfloat16, to_bool = _caster(dtypes.bfloat16), _caster(dtypes.bool)
to_int, to_long, to_short = _caster(dtypes.int32), _caster(dtypes.int64), _caster(dtypes.int16)


def floats(x: Tensor) -> Tensor:
    """``x``, cast to the float type that functions compute in where it holds whole numbers."""
    return cast(x, least_upper_float(x.dtype))
