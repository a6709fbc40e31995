"""Elementwise arithmetic, comparison, bits and choice.

In: Tensors and Python scalars. Out: Tensors, each of a few ALU nodes. Operands are promoted to one dtype; the op itself
broadcasts them.

>>> from tinysched import Tensor
>>> (Tensor([1, 2]) + 3).dtype, (Tensor([1, 2]) / 2).dtype, (Tensor([1.0]) > 0).dtype
(dtypes.int32, dtypes.float32, dtypes.bool)
"""

from __future__ import annotations

from typing import Final

from tinysched.dtypes import dtypes, least_upper_dtype
from tinysched.errors import ArgumentError, DTypeError
from tinysched.ir.lines import where as place
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor, TensorLike
from tinysched.tensor.operands import binary, cast, check_broadcast, compare, convert, promoted, reverse, unary

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
    return quotient.floor() if mode == "floor" else quotient.trunc()


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
        return Tensor.from_uop(a).exp2()
    return Tensor.from_uop(UOp(Ops.POW, a.dtype, (b, a)))


def _const_power(x: Tensor, y: float) -> Tensor:
    from tinysched.tensor.creation import const_like

    if y == 0:
        return const_like(x, 1)
    if y < 0 and (y * 2).is_integer():
        return reciprocal(_const_power(x, -y))
    if y == 0.5:
        return x.sqrt()
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
        check_broadcast(c, a, b)
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
