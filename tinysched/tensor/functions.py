"""Functions of one number: exponentials, roots, angles, rounding, signs, and what is NaN or infinite.

In: a Tensor. Out: a Tensor of its shape. Functions of floats cast whole numbers to the default float type first;
rounding leaves whole numbers as they are. NaN goes through all of them.

>>> from tinysched import Tensor
>>> Tensor([-1.5, 0.5, 2.5]).round().tolist(), Tensor([0, 4]).sqrt().dtype
([-2.0, 0.0, 2.0], dtypes.float32)
"""

from __future__ import annotations

import math

from tinysched.dtypes import dtypes, least_upper_dtype
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor, TensorLike
from tinysched.tensor.operands import floats, operand, promoted, unary

# ** exponentials, roots, angles **


def exp2(x: Tensor) -> Tensor:
    """``2 ** x``"""
    return unary(Ops.EXP2, x)


def _wide(x: Tensor) -> Tensor:
    """Half numbers as float32, for what has to be multiplied before the function is taken."""
    return x.cast(least_upper_dtype(x.dtype, dtypes.float32))


def exp(x: Tensor) -> Tensor:
    """``e ** x``, as a power of 2."""
    x = floats(x)
    return (_wide(x) * (1 / math.log(2))).exp2().cast(x.dtype)


def log2(x: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return unary(Ops.LOG2, x)


def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return log2(x) * math.log(2)


def log10(x: Tensor) -> Tensor:
    """The logarithm to base 10."""
    return log2(x) * math.log10(2)


def sqrt(x: Tensor) -> Tensor:
    """The square root; NaN below 0."""
    return unary(Ops.SQRT, x)


def rsqrt(x: Tensor) -> Tensor:
    """``1 / sqrt(x)``"""
    return sqrt(x).reciprocal()


def sin(x: Tensor) -> Tensor:
    """The sine."""
    return unary(Ops.SIN, x)


def cos(x: Tensor) -> Tensor:
    """The cosine, as a sine a quarter turn on."""
    x = floats(x)
    return (math.pi / 2 - _wide(x)).sin().cast(x.dtype)


def tan(x: Tensor) -> Tensor:
    """The tangent."""
    return sin(x) / cos(x)


def logaddexp(x: Tensor, y: TensorLike) -> Tensor:
    """``log(e**x + e**y)``, without overflow."""
    a, b = (floats(Tensor.from_uop(u)) for u in promoted(x, y))
    most = a.maximum(b)
    shift = most.isinf().where(0, most)
    return ((a - shift).exp() + (b - shift).exp()).log() + shift


# ** rounding **


def trunc(x: Tensor) -> Tensor:
    """Rounded towards 0."""
    return Tensor.from_uop(UOp(Ops.TRUNC, x.dtype, (x.uop,)) if dtypes.is_float(x.dtype) else x.uop)


def floor(x: Tensor) -> Tensor:
    """Rounded down."""
    cut = trunc(x)
    return cut if not dtypes.is_float(x.dtype) else (x < cut).where(cut - 1, cut)


def ceil(x: Tensor) -> Tensor:
    """Rounded up."""
    cut = trunc(x)
    return cut if not dtypes.is_float(x.dtype) else (x > cut).where(cut + 1, cut)


def round(x: Tensor) -> Tensor:
    """Rounded to the nearest whole number, halves to the even one."""
    cut = trunc(x)
    if not dtypes.is_float(x.dtype):
        return cut
    rest, odd = (x - cut).abs(), (cut * 0.5).trunc() * 2 != cut
    return ((rest > 0.5) | ((rest == 0.5) & odd)).where((x < 0).where(cut - 1, cut + 1), cut)


# ** signs **


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN for NaN."""
    if x.dtype is dtypes.bool:
        return x.clone()
    signs = (x != 0).where((x < 0).where(x.const_like(-1), x.const_like(1)), x.const_like(0))
    return x.isnan().where(x, signs) if dtypes.is_float(x.dtype) else signs


def abs(x: Tensor) -> Tensor:
    """The value without its sign."""
    return x.clone() if x.dtype.kind in "bu" else x.maximum(-x)


def copysign(x: Tensor, y: TensorLike) -> Tensor:
    """The size of ``x`` with the sign of ``y`` (also that of -0.0)."""
    a, b = (Tensor.from_uop(u) for u in promoted(x, y))
    size = abs(a)
    return ((b < 0) | (b.reciprocal() < 0)).where(-size, size)


# ** special values, closeness **


def isnan(x: Tensor) -> Tensor:
    """Where ``x`` is not a number."""
    return x.ne(x)


def isinf(x: Tensor, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """Where ``x`` is infinite (of the signs asked for)."""
    return x.eq(math.inf) & detect_positive | x.eq(-math.inf) & detect_negative


def isfinite(x: Tensor) -> Tensor:
    """Where ``x`` is neither infinite nor NaN."""
    return (isinf(x) | isnan(x)).logical_not()


def isclose(x: Tensor, y: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where ``|x - y| <= atol + rtol * |y|``, or both are the same infinity (or NaN, with ``equal_nan``)."""
    other = operand(y, x)
    near: Tensor = isfinite(x) & isfinite(other) & ((x - other).abs() <= other.abs() * rtol + atol)
    same = (isinf(x) | isinf(other)) & x.eq(other)
    return near | same | (isnan(x) & isnan(other) & equal_nan)


def allclose(x: Tensor, y: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close (a 0-d bool Tensor)."""
    return isclose(x, y, rtol, atol, equal_nan).all()


def lerp(x: Tensor, end: Tensor, weight: TensorLike) -> Tensor:
    """``x + (end - x) * weight``"""
    return x.add((end - x).mul(weight))
