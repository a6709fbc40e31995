"""exp2 and log2 of float32 without a branch or a call, so that a compiler can apply them to many values at once.

In: a float32. Out: a float32, within :data:`ULP` units in the last place of the exact value, over all of float32 (the
tests compare with float64 on a fine sample of it). Everything else that tensors are made of, as exp, log, tanh, sigmoid
and erf, is an expression of these two in the graph already.

The functions are plain Python on NumPy scalars; :mod:`tinysched.runtime.numba` compiles them with the kernels.

>>> float(exp2(np.float32(10))), float(log2(np.float32(0.125))), float(exp2(np.float32(-np.inf)))
(1024.0, -3.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

ULP: Final = 3
"""How many units in the last place the results may be off."""

f32 = np.float32
i32 = np.int32


def float_of_bits(i: Any) -> Any:
    """The float32 whose bits are those of an int32."""
    return i32(i).view(np.float32)


def bits_of_float(x: Any) -> Any:
    """The bits of a float32 as an int32."""
    return f32(x).view(np.int32)


_E1, _E2, _E3, _E4, _E5, _E6, _E7 = (f32(np.log(2) ** k / np.prod(np.arange(1.0, k + 1))) for k in range(1, 8))
_L1, _L3, _L5, _L7, _L9, _L11 = (f32(2 / np.log(2) / k) for k in (1, 3, 5, 7, 9, 11))
_LOW: Final = f32(2 / np.log(2) - float(_L1))
_HALF, _ONE, _ZERO, _TOP, _BOTTOM = f32(0.5), f32(1), f32(0), f32(129), f32(-151)
_ROOT, _TINY, _UP, _INF, _NAN = f32(2**0.5), f32(2.0**-126), f32(2.0**24), f32(np.inf), f32(np.nan)
_BIAS, _FRACTION, _SHIFT, _UNIT, _24 = i32(127), i32(0x7FFFFF), i32(23), i32(127 << 23), f32(24)


def exp2(x: Any) -> Any:
    """``2 ** x``: the Taylor series of the fraction within half of 0, times two powers of two (their product may be
    subnormal, or too large)."""
    y = _TOP if x > _TOP else x
    y = _BOTTOM if y < _BOTTOM else y
    whole = np.floor(y + _HALF)
    r = y - whole
    p = _E5 + r * (_E6 + r * _E7)
    p = _E2 + r * (_E3 + r * (_E4 + r * p))
    p = _ONE + r * (_E1 + r * p)
    n = i32(whole)
    half = i32(n >> i32(1))
    power = p * float_of_bits(i32((half + _BIAS) << _SHIFT)) * float_of_bits(i32((i32(n - half) + _BIAS) << _SHIFT))
    return power if x == x else x


def log2(x: Any) -> Any:
    """The exponent, plus the logarithm of a mantissa m near 1 as the series of ``2 atanh(s)``, s = (m - 1) / (m + 1)."""
    small = x < _TINY
    bits = bits_of_float(x * _UP if small else x)
    exponent = f32(i32(i32(bits >> _SHIFT) - _BIAS)) - (_24 if small else _ZERO)
    m = float_of_bits(i32(i32(bits & _FRACTION) | _UNIT))
    above = m > _ROOT
    exponent = exponent + (_ONE if above else _ZERO)
    m = m * _HALF if above else m
    t = m - _ONE
    s = t / (m + _ONE)
    q = s * s
    p = q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))) + _LOW
    y = exponent + (s * _L1 + s * p)
    y = -_INF if x == _ZERO else y
    y = _NAN if x < _ZERO else y
    return x if x == _INF or x != x else y


def maximum(a: Any, b: Any) -> Any:
    """The larger; NaN if one of them is."""
    return a if a > b or a != a else b


BRANCHFREE: Final[dict[str, Callable[..., Any]]] = {"exp2": exp2, "log2": log2, "maximum": maximum}
