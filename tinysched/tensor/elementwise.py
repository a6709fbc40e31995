"""Elementwise functions: operands are promoted to one dtype and broadcast by the op itself.

In: Tensors and Python scalars. Out: Tensors, each of a few ALU nodes. A scalar becomes a CONST of the result's dtype
without a shape; nothing is expanded. Functions of floats first cast whole numbers to the default float type.

>>> from tinysched import Tensor
>>> (Tensor([1, 2]) + 3).dtype, (Tensor([1, 2]) / 2).dtype, (Tensor([1.0]) > 0).dtype
(dtypes.int32, dtypes.float32, dtypes.bool)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tinysched.dtypes import DType, DTypeLike, dtypes, least_upper_dtype, least_upper_float, to_dtype
from tinysched.errors import ArgumentError, DTypeError, ShapeError
from tinysched.ir import derive
from tinysched.ir.lines import where as place
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor, TensorLike

# ** operands **

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
    if kind is not None:
        out = least_upper_dtype(a.dtype, kind)
        return convert(a, out), UOp.const(y, out)
    b = y.uop if isinstance(y, Tensor) else Tensor(y, device=a.device).uop
    if a.shape != b.shape:
        _check_broadcast(a, b)
    if a.dtype is b.dtype:
        return a, b
    out = least_upper_dtype(a.dtype, b.dtype)
    return convert(a, out), convert(b, out)


def _check_broadcast(*us: UOp) -> None:
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


def unary(op: Ops, x: Tensor) -> Tensor:
    """A function of floats; whole numbers are cast first."""
    u = x.uop
    u = convert(u, least_upper_float(u.dtype))
    return Tensor.from_uop(UOp(op, u.dtype, (u,)))


# ** dtype **


def cast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """The values as another dtype (itself where that is its dtype). Floats are cut towards 0, bool is ``!= 0``."""
    wanted = to_dtype(dtype)
    return x if x.dtype is wanted else Tensor.from_uop(convert(x.uop, wanted))


def bitcast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """The bytes read as another dtype; where the size differs the last axis grows or shrinks."""
    wanted = to_dtype(dtype)
    if x.dtype in dtypes.weaks or wanted in dtypes.weaks:
        raise DTypeError(f"bitcast {x.dtype.name} to {wanted.name}", where=place(x.uop), help="cast the scalar first")
    if x.dtype.itemsize != wanted.itemsize and (not x.shape or x.shape[-1] * x.dtype.itemsize % wanted.itemsize):
        raise ShapeError(
            f"bitcast {x.dtype.name} of shape {x.shape} to {wanted.name}",
            where=place(x.uop),
            help="the last axis must hold whole elements",
        )
    return x if x.dtype is wanted else Tensor.from_uop(x.uop.bitcast(wanted))


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


# ** arithmetic **


def add(x: Tensor, y: TensorLike) -> Tensor:
    """``x + y``"""
    return binary(Ops.ADD, x, y)


def radd(x: Tensor, y: TensorLike) -> Tensor:
    return reverse(Ops.ADD, x, y)


def _minus(a: UOp, b: UOp) -> Tensor:
    """``a + b * -1``; of bools the exclusive or, as ``b * -1`` would not change them."""
    if a.dtype is dtypes.bool:
        return Tensor.from_uop(UOp(Ops.XOR, a.dtype, (a, b)))
    return Tensor.from_uop(UOp(Ops.ADD, a.dtype, (a, _negated(b))))


def _negated(u: UOp) -> UOp:
    if u.op is Ops.CONST:
        return UOp.const(-u.arg, u.dtype)
    return UOp(Ops.MUL, u.dtype, (u, UOp.const(-1, u.dtype)))


def sub(x: Tensor, y: TensorLike) -> Tensor:
    """``x - y``"""
    return _minus(*promoted(x, y))


def rsub(x: Tensor, y: TensorLike) -> Tensor:
    a, b = promoted(x, y)
    return _minus(b, a)


def mul(x: Tensor, y: TensorLike) -> Tensor:
    """``x * y``"""
    return binary(Ops.MUL, x, y)


def rmul(x: Tensor, y: TensorLike) -> Tensor:
    return reverse(Ops.MUL, x, y)


def neg(x: Tensor) -> Tensor:
    """``-x`` (of bools: not)"""
    return logical_not(x) if x.dtype is dtypes.bool else Tensor.from_uop(_negated(x.uop))


def div(x: Tensor, y: TensorLike, rounding_mode: str | None = None) -> Tensor:
    """``x / y``: always floats, unless ``rounding_mode`` is "floor" or "trunc" and both are whole numbers.

    Whole numbers divided by 0 give 0. Raises :class:`ArgumentError` for another mode.
    """
    return _divide(*promoted(x, y), rounding_mode)


def rdiv(x: Tensor, y: TensorLike, rounding_mode: str | None = None) -> Tensor:
    a, b = promoted(x, y)
    return _divide(b, a, rounding_mode)


_ROUNDED: Final = {"floor": Ops.FLOORDIV, "trunc": Ops.CDIV}


def _divide(a: UOp, b: UOp, mode: str | None) -> Tensor:
    if mode is not None and mode not in _ROUNDED:
        raise ArgumentError(f"rounding_mode {mode!r}", help="None, 'floor' or 'trunc'")
    if mode is not None and dtypes.is_int(a.dtype):
        return Tensor.from_uop(UOp(_ROUNDED[mode], a.dtype, (a, b)))
    if not dtypes.is_float(a.dtype):
        a, b = convert(a, dtypes.default_float), convert(b, dtypes.default_float)
    if mode is None:
        return Tensor.from_uop(UOp(Ops.MUL, a.dtype, (a, _inverted(b))))
    # a * (1 / b) is off by a bit: 49 / 49 must not be cut to 0
    quotient = Tensor.from_uop(UOp(Ops.FDIV, a.dtype, (a, b)))
    return floor(quotient) if mode == "floor" else trunc(quotient)


def _inverted(u: UOp) -> UOp:
    if u.op is Ops.CONST and u.arg:
        return UOp.const(1 / u.arg, u.dtype)
    return UOp(Ops.RECIPROCAL, u.dtype, (u,))


def floordiv(x: Tensor, y: TensorLike) -> Tensor:
    """``x // y``: rounded down; whole numbers divided by 0 give 0"""
    return div(x, y, "floor")


def rfloordiv(x: Tensor, y: TensorLike) -> Tensor:
    return rdiv(x, y, "floor")


def mod(x: Tensor, y: TensorLike) -> Tensor:
    """``x % y``: the remainder of ``//``, of the sign of ``y``; whole numbers by 0 give 0"""
    return _remainder(*promoted(x, y), "floor")


def rmod(x: Tensor, y: TensorLike) -> Tensor:
    a, b = promoted(x, y)
    return _remainder(b, a, "floor")


def fmod(x: Tensor, y: TensorLike) -> Tensor:
    """The remainder of division rounded towards 0, of the sign of ``x``."""
    return _remainder(*promoted(x, y), "trunc")


def _remainder(a: UOp, b: UOp, mode: str) -> Tensor:
    if dtypes.is_int(a.dtype):
        return Tensor.from_uop(UOp(Ops.FLOORMOD if mode == "floor" else Ops.CMOD, a.dtype, (a, b)))
    return Tensor.from_uop(a) - _divide(a, b, mode) * Tensor.from_uop(b)


def reciprocal(x: Tensor) -> Tensor:
    """``1 / x``"""
    return unary(Ops.RECIPROCAL, x)


def square(x: Tensor) -> Tensor:
    """``x * x``"""
    return binary(Ops.MUL, x, x)


# ** powers **


def pow(x: Tensor, y: TensorLike) -> Tensor:
    """``x ** y``. Whole exponents are few multiplications, halves are roots; ``nan ** 0`` is 1.

    Raises :class:`DTypeError` for whole numbers to a negative whole power, as NumPy does.
    """
    if isinstance(y, (bool, int, float)):
        kind = least_upper_dtype(x.dtype, dtypes.from_py(y))
        if y < 0 and not dtypes.is_float(kind):
            raise DTypeError(f"{x.dtype.name} ** {y}", where=place(x.uop), help="cast to a float type first")
        return _const_power(cast(x, kind), float(y))
    return binary(Ops.POW, x, y)


def rpow(x: Tensor, y: TensorLike) -> Tensor:
    a, b = promoted(x, y)
    if b.op is Ops.CONST and b.arg == 2 and dtypes.is_float(b.dtype):
        return exp2(Tensor.from_uop(a))
    return Tensor.from_uop(UOp(Ops.POW, a.dtype, (b, a)))


def _const_power(x: Tensor, y: float) -> Tensor:
    from tinysched.tensor.creation import const_like

    if y == 0:
        return const_like(x, 1)
    if y < 0 and (y * 2).is_integer():
        return reciprocal(_const_power(x, -y))
    if y == 0.5:
        return sqrt(x)
    if y.is_integer() and y <= 64:
        return _multiplied(x, int(y))
    return binary(Ops.POW, x, y)


def _multiplied(x: Tensor, n: int) -> Tensor:
    """``x`` to a whole power by squaring: ``log2(n)`` squares, one product more for each further bit of ``n``."""
    result = None
    while True:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        if not n:
            assert result is not None
            return result
        x = x * x


# ** comparison, logic, bits **


def compare(op: Ops, x: Tensor, y: TensorLike) -> Tensor:
    a, b = promoted(x, y)
    return Tensor.from_uop(UOp(op, dtypes.bool, (a, b)))


def lt(x: Tensor, y: TensorLike) -> Tensor:
    """``x < y``"""
    return compare(Ops.CMPLT, x, y)


def gt(x: Tensor, y: TensorLike) -> Tensor:
    """``x > y``"""
    a, b = promoted(x, y)
    return Tensor.from_uop(UOp(Ops.CMPLT, dtypes.bool, (b, a)))


def le(x: Tensor, y: TensorLike) -> Tensor:
    """``x <= y`` (false where one is NaN)"""
    return _or_equal(*promoted(x, y))


def ge(x: Tensor, y: TensorLike) -> Tensor:
    """``x >= y`` (false where one is NaN)"""
    a, b = promoted(x, y)
    return _or_equal(b, a)


def _or_equal(a: UOp, b: UOp) -> Tensor:
    """``a <= b`` is "not b < a", but with NaN neither holds."""
    if dtypes.is_float(a.dtype):
        return Tensor.from_uop((a < b) | a.eq(b))
    return Tensor.from_uop((b < a).logical_not())


def eq(x: Tensor, y: TensorLike) -> Tensor:
    """``x == y``"""
    return compare(Ops.CMPEQ, x, y)


def ne(x: Tensor, y: TensorLike) -> Tensor:
    """``x != y``"""
    return compare(Ops.CMPNE, x, y)


def logical_not(x: Tensor) -> Tensor:
    """True where ``x`` is 0."""
    return Tensor.from_uop(convert(x.uop, dtypes.bool).logical_not())


def _whole(x: Tensor, y: TensorLike, name: str) -> tuple[UOp, UOp]:
    a, b = promoted(x, y)
    if dtypes.is_float(a.dtype):
        raise DTypeError(f"{name} of {a.dtype.name}", where=place(x.uop), help="bits are there for ints and bools")
    return a, b


def bitwise_and(x: Tensor, y: TensorLike) -> Tensor:
    """``x & y``"""
    a, b = _whole(x, y, "&")
    return Tensor.from_uop(a & b)


def bitwise_or(x: Tensor, y: TensorLike) -> Tensor:
    """``x | y``"""
    a, b = _whole(x, y, "|")
    return Tensor.from_uop(a | b)


def bitwise_xor(x: Tensor, y: TensorLike) -> Tensor:
    """``x ^ y``"""
    a, b = _whole(x, y, "^")
    return Tensor.from_uop(a.alu(Ops.XOR, b))


def bitwise_not(x: Tensor) -> Tensor:
    """``~x``: every bit flipped (of bools: not)"""
    if x.dtype is dtypes.bool:
        return logical_not(x)
    return bitwise_xor(x, int(x.dtype.max) if dtypes.is_unsigned(x.dtype) else -1)


def lshift(x: Tensor, y: TensorLike) -> Tensor:
    """``x << y``"""
    a, b = _whole(x, y, "<<")
    return Tensor.from_uop(a.alu(Ops.SHL, b))


def rlshift(x: Tensor, y: TensorLike) -> Tensor:
    a, b = _whole(x, y, "<<")
    return Tensor.from_uop(b.alu(Ops.SHL, a))


def rshift(x: Tensor, y: TensorLike) -> Tensor:
    """``x >> y`` (signed numbers keep their sign)"""
    a, b = _whole(x, y, ">>")
    return Tensor.from_uop(a.alu(Ops.SHR, b))


def rrshift(x: Tensor, y: TensorLike) -> Tensor:
    a, b = _whole(x, y, ">>")
    return Tensor.from_uop(b.alu(Ops.SHR, a))


# ** choosing **


def where(condition: Tensor, x: TensorLike, y: TensorLike) -> Tensor:
    """Elements of ``x`` where ``condition`` is true (not 0), of ``y`` elsewhere; all three broadcast."""
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        x = Tensor.from_uop(UOp.const(x, dtypes.from_py(x)))
    if isinstance(x, Tensor):
        a, b = promoted(x, y)
    else:
        b, a = promoted(y, x)
    c = convert(condition.uop, dtypes.bool)
    if c.shape != a.shape or c.shape != b.shape:
        _check_broadcast(c, a, b)
    return Tensor.from_uop(UOp(Ops.WHERE, a.dtype, (c, a, b)))


def masked_fill(x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """``value`` where ``mask`` is true, ``x`` elsewhere."""
    return where(mask, value, x)


def maximum(x: Tensor, y: TensorLike) -> Tensor:
    """The larger of two; NaN where one is NaN."""
    return binary(Ops.MAX, x, y)


def minimum(x: Tensor, y: TensorLike) -> Tensor:
    """The smaller of two; NaN where one is NaN."""
    a, b = promoted(x, y)
    if dtypes.is_float(a.dtype):
        return Tensor.from_uop(_negated(UOp(Ops.MAX, a.dtype, (_negated(a), _negated(b)))))
    return Tensor.from_uop((a < b).where(a, b))


def inverse(x: Tensor) -> Tensor:
    """The values in opposite order (``-x``, or ``~x`` which does not overflow): the least becomes the greatest."""
    return neg(x) if dtypes.is_float(x.dtype) else bitwise_not(x)


def clamp(x: Tensor, min_: TensorLike = None, max_: TensorLike = None) -> Tensor:
    """``x`` between two limits, of which one may be missing. Raises :class:`ArgumentError` without any."""
    if min_ is None and max_ is None:
        raise ArgumentError("clamp without limits", help="give min_, max_ or both")
    low = x if min_ is None else where(lt(x, min_), min_, x)
    return low if max_ is None else where(gt(low, max_), max_, low)


# ** functions of floats **


def exp2(x: Tensor) -> Tensor:
    """``2 ** x``"""
    return unary(Ops.EXP2, x)


def exp(x: Tensor) -> Tensor:
    """``e ** x``, as a power of 2; of half numbers computed in float32."""
    x = floats(x)
    return cast(exp2(cast(x, least_upper_dtype(x.dtype, dtypes.float32)) * (1 / math.log(2))), x.dtype)


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
    return reciprocal(sqrt(x))


def sin(x: Tensor) -> Tensor:
    """The sine."""
    return unary(Ops.SIN, x)


def cos(x: Tensor) -> Tensor:
    """The cosine, as a sine a quarter turn on; of half numbers computed in float32."""
    x = floats(x)
    return cast(sin(math.pi / 2 - cast(x, least_upper_dtype(x.dtype, dtypes.float32))), x.dtype)


def tan(x: Tensor) -> Tensor:
    """The tangent."""
    return sin(x) / cos(x)


# ** rounding, signs, special values **


def trunc(x: Tensor) -> Tensor:
    """Rounded towards 0."""
    return Tensor.from_uop(UOp(Ops.TRUNC, x.dtype, (x.uop,))) if dtypes.is_float(x.dtype) else x


def floor(x: Tensor) -> Tensor:
    """Rounded down."""
    cut = trunc(x)
    return x if cut is x else where(lt(x, cut), cut - 1, cut)


def ceil(x: Tensor) -> Tensor:
    """Rounded up."""
    cut = trunc(x)
    return x if cut is x else where(gt(x, cut), cut + 1, cut)


def round(x: Tensor) -> Tensor:
    """Rounded to the nearest whole number, halves to the even one."""
    cut = trunc(x)
    if cut is x:
        return x
    rest, odd = abs(x - cut), ne(trunc(cut * 0.5) * 2, cut)
    away = where(lt(x, 0), cut - 1, cut + 1)
    return where(gt(rest, 0.5) | (eq(rest, 0.5) & odd), away, cut)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN for NaN."""
    if x.dtype is dtypes.bool:
        return x
    from tinysched.tensor.creation import const_like

    signs = where(ne(x, 0), where(lt(x, 0), const_like(x, -1), const_like(x, 1)), const_like(x, 0))
    return where(ne(x, x), x, signs) if dtypes.is_float(x.dtype) else signs


def abs(x: Tensor) -> Tensor:
    """The value without its sign."""
    return x if x.dtype.kind in "bu" else maximum(x, neg(x))


def copysign(x: Tensor, y: TensorLike) -> Tensor:
    """The size of ``x`` with the sign of ``y`` (also that of -0.0)."""
    a, b = (Tensor.from_uop(u) for u in promoted(x, y))
    size = abs(a)
    return where(lt(b, 0) | lt(reciprocal(b), 0), neg(size), size)


def isnan(x: Tensor) -> Tensor:
    """Where ``x`` is not a number."""
    return ne(x, x)


def isinf(x: Tensor, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """Where ``x`` is infinite (of the signs asked for)."""
    return eq(x, math.inf) * detect_positive | eq(x, -math.inf) * detect_negative


def isfinite(x: Tensor) -> Tensor:
    """Where ``x`` is neither infinite nor NaN."""
    return logical_not(isinf(x) | isnan(x))


def isclose(x: Tensor, y: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where ``|x - y| <= atol + rtol * |y|``, or both are the same infinity (or NaN, with ``equal_nan``)."""
    y = x._wrap(y)
    near = isfinite(x) & isfinite(y) & le(abs(x - y), rtol * abs(y) + atol)
    same = (isinf(x) | isinf(y)) & eq(x, y)
    return near | same | (isnan(x) & isnan(y) & equal_nan)


def allclose(x: Tensor, y: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close (a 0-d bool Tensor)."""
    return isclose(x, y, rtol, atol, equal_nan).all()


def lerp(x: Tensor, end: Tensor, weight: TensorLike) -> Tensor:
    """``x + (end - x) * weight``"""
    return add(x, mul(end - x, weight))


def logaddexp(x: Tensor, y: TensorLike) -> Tensor:
    """``log(e**x + e**y)``, without overflow."""
    a, b = (floats(Tensor.from_uop(u)) for u in promoted(x, y))
    most = maximum(a, b)
    shift = where(isinf(most), 0, most)
    return log(exp(a - shift) + exp(b - shift)) + shift


def detach(x: Tensor) -> Tensor:
    """The same values (a view), through which no gradient flows."""
    return x.moved(Ops.DETACH, None)


def contiguous(x: Tensor) -> Tensor:
    """The value in memory of its own, in row-major order: where kernels must not fuse. Itself where it is that."""
    u = x.uop
    if u.op is Ops.CONTIGUOUS or u.base.op is Ops.CONST or x.dtype in dtypes.weaks:
        return x
    if u.op is Ops.BUFFER or (u.op is Ops.RESHAPE and u.src[0].op is Ops.BUFFER):
        return Tensor.from_uop(u)
    return Tensor.from_uop(u.contiguous())


def contiguous_backward(x: Tensor) -> Tensor:
    """The same value, whose gradient is made contiguous."""
    u = x.uop
    return Tensor.from_uop(UOp(Ops.CONTIGUOUS_BACKWARD, u.dtype, (u,)))


def clone(x: Tensor) -> Tensor:
    """The same values in a Storage of its own; memory is shared until one of the two is written."""
    made = Tensor.from_uop(x.uop)
    made.requires_grad, made.is_param = x.requires_grad, x.is_param
    return made
