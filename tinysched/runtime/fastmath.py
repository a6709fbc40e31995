"""Functions of float32 without a branch or a call, so that a compiler can apply them to many values at once.

In: a float32. Out: a float32, within :data:`ULP` units in the last place of the exact value, over all of float32: NaN,
infinities, subnormal numbers and the sign of zero are as IEEE 754 has them. The tests measure it against mpmath at every
exponent; a run over every 17th float32 of all has found nothing larger.

They are plain Python on NumPy scalars; :mod:`tinysched.runtime.compiled` compiles them with the kernels. Polynomials are
minimax fits but for those of exp2 and the logarithms, which are series.

>>> [round(float(f(np.float32(0.5))), 4) for f in (exp2, log2, sin)]
[1.4142, -1.0, 0.4794]
>>> float(exp(np.float32(-np.inf))), float(tanh(np.float32(-0.0))), float(erf(np.float32(9)))
(0.0, -0.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

ULP: Final = {"exp2": 2, "log2": 3, "exp": 1, "log": 2, "sin": 2, "tanh": 7, "erf": 3}
"""How many units in the last place the results may be off."""

f32, f64 = np.float32, np.float64
i32, i64, u64 = np.int32, np.int64, np.uint64


def float_of_bits(i: Any) -> Any:
    """The float32 whose bits are those of an int32."""
    return i32(i).view(np.float32)


def bits_of_float(x: Any) -> Any:
    """The bits of a float32 as an int32."""
    return f32(x).view(np.int32)


_HALF, _ONE, _TWO, _ZERO = f32(0.5), f32(1), f32(2), f32(0)
_ROOT, _TINY, _UP, _INF, _NAN = f32(2**0.5), f32(2.0**-126), f32(2.0**24), f32(np.inf), f32(np.nan)
_BIAS, _FRACTION, _SHIFT, _UNIT, _24 = i32(127), i32(0x7FFFFF), i32(23), i32(127 << 23), f32(24)
_LN2: Final = np.log(2)


# ** powers **

_TOP, _BOTTOM = f32(129), f32(-151)
_E1, _E2, _E3, _E4, _E5, _E6, _E7 = (f32(_LN2**k / np.prod(np.arange(1.0, k + 1))) for k in range(1, 8))


def power_of_two(p: Any, whole: Any) -> Any:
    """``p * 2**whole``, in two steps: their product may be subnormal, or too large."""
    n = i32(whole)
    half = i32(n >> i32(1))
    return p * float_of_bits(i32((half + _BIAS) << _SHIFT)) * float_of_bits(i32((i32(n - half) + _BIAS) << _SHIFT))


def exp2(x: Any) -> Any:
    """``2 ** x``: the Taylor series of the fraction within half of 0, times a power of two."""
    y = _TOP if x > _TOP else x
    y = _BOTTOM if y < _BOTTOM else y
    whole = np.floor(y + _HALF)
    r = y - whole
    p = _E5 + r * (_E6 + r * _E7)
    p = _E2 + r * (_E3 + r * (_E4 + r * p))
    p = _ONE + r * (_E1 + r * p)
    return power_of_two(p, whole) if x == x else x


_MOST, _LEAST, _LOG2E = f32(89), f32(-105), f32(1 / _LN2)
_LN2_HIGH: Final = f32(0.693359375)
"""So few digits that its product with a whole number is exact."""
_LN2_LOW: Final = f32(_LN2 - 0.693359375)
_X3, _X4, _X5, _X6, _X7 = (
    f32(c)
    for c in (
        0.16666666805628655,
        0.041666458738061365,
        0.00833327503705488,
        0.0013935488036822769,
        0.00019913316368974,
    )
)


def exp(x: Any) -> Any:
    """``e ** x``: as exp2, with what lies above a multiple of log(2)."""
    y = _MOST if x > _MOST else x
    y = _LEAST if y < _LEAST else y
    whole = np.floor(y * _LOG2E + _HALF)
    r = (y - whole * _LN2_HIGH) - whole * _LN2_LOW
    p = _X3 + r * (_X4 + r * (_X5 + r * (_X6 + r * _X7)))
    p = _ONE + (r + r * r * (_HALF + r * p))
    return power_of_two(p, whole) if x == x else x


# ** logarithms **

_L3, _L5, _L7, _L9, _L11 = (f32(2 / k) for k in (3, 5, 7, 9, 11))
_2_LOG2E: Final = f32(2 / _LN2)
_2_LOG2E_LOW: Final = f32(2 / _LN2 - float(_2_LOG2E))


def exponent_of(x: Any) -> Any:
    """The whole number k of ``x = 2**k * m`` with m near 1."""
    small = x < _TINY
    bits = bits_of_float(x * _UP if small else x)
    k = f32(i32(i32(bits >> _SHIFT) - _BIAS)) - (_24 if small else _ZERO)
    return k + (_ONE if float_of_bits(i32(i32(bits & _FRACTION) | _UNIT)) > _ROOT else _ZERO)


def mantissa_of(x: Any) -> Any:
    """m of ``x = 2**k * m``, between the root of a half and the root of two."""
    bits = bits_of_float(x * _UP if x < _TINY else x)
    m = float_of_bits(i32(i32(bits & _FRACTION) | _UNIT))
    return m * _HALF if m > _ROOT else m


def log_of(x: Any, y: Any) -> Any:
    """The logarithm y of a positive number; of others what they have."""
    y = -_INF if x == _ZERO else y
    y = _NAN if x < _ZERO else y
    return x if x == _INF or x != x else y


def log2(x: Any) -> Any:
    """The exponent, plus the logarithm of the mantissa m as the series of ``2 atanh(s)``, s = (m - 1) / (m + 1)."""
    m = mantissa_of(x)
    s = (m - _ONE) / (m + _ONE)
    q = s * s
    rest = s * (q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))))
    return log_of(x, exponent_of(x) + (s * _2_LOG2E + (rest * _LOG2E + s * _2_LOG2E_LOW)))


def log(x: Any) -> Any:
    """The same to base e."""
    m, k = mantissa_of(x), exponent_of(x)
    s = (m - _ONE) / (m + _ONE)
    q = s * s
    rest = s * (q * (_L3 + q * (_L5 + q * (_L7 + q * (_L9 + q * _L11)))))
    return log_of(x, k * _LN2_HIGH + (_TWO * s + (rest + k * _LN2_LOW)))


# ** sine **


def _quarter_turns() -> tuple[Any, Any]:
    """For each exponent, how many quarter turns the last bit of a mantissa stands for: modulo four, in 2**-62 and in
    2**-94 of one. (2 / pi to 300 bits, from Machin's formula for pi in whole numbers.)"""
    one = 1 << 400

    def arccot(n: int) -> int:
        power, total, k = one // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    two_over_pi = (2 * one * one) // (4 * (4 * arccot(5) - arccot(239)))  # in units of 2**-400
    parts = []
    for exponent in range(255):
        shift = max(exponent, 1) - 150 + 94 - 400
        parts.append((two_over_pi << shift if shift >= 0 else two_over_pi >> -shift) % (1 << 96))
    return np.array([p >> 32 for p in parts] + [0], u64), np.array([p & 0xFFFFFFFF for p in parts] + [0], u64)


_TURNS_HIGH, _TURNS_LOW = _quarter_turns()
_MANTISSA, _HIDDEN, _MAGNITUDE = i32(0x7FFFFF), i32(0x800000), i32(0x7FFFFFFF)
_32, _62, _EIGHTH, _QUARTER, _1U, _2U = u64(32), u64(62), u64(1 << 61), i64((1 << 62) - 1), u64(1), u64(2)
_TURN: Final = f64(np.pi / 2 / 2**62)
_EIGHTH_TURN: Final = f32(np.pi / 4)
_S1, _S2, _S3 = (f32(c) for c in (-0.16666654945520115, 0.008332178145404188, -0.0001951729331403412))
_C1, _C2, _C3 = (f32(c) for c in (0.04166664688166179, -0.0013887367969703983, 2.4438482894160076e-05))


def sin(x: Any) -> Any:
    """The sine of what is left of a number of quarter turns, in 64 bits: right for large numbers, too (Payne, Hanek)."""
    bits = i32(bits_of_float(x) & _MAGNITUDE)
    exponent = bits >> _SHIFT
    mantissa = u64(i32(bits & _MANTISSA) | (_HIDDEN if exponent > 0 else i32(0)))
    turns = mantissa * _TURNS_HIGH[exponent] + ((mantissa * _TURNS_LOW[exponent]) >> _32)
    nearest = u64(turns + _EIGHTH)
    rest = f32(f64(i64(i64(nearest) & _QUARTER) - i64(_EIGHTH)) * _TURN)
    a = float_of_bits(bits)
    near = a < _EIGHTH_TURN
    quarter = u64(0) if near else u64(nearest >> _62)
    r = a if near else rest
    z = r * r
    sine = r + r * (z * (_S1 + z * (_S2 + z * _S3)))
    cosine = _ONE - z * _HALF + z * z * (_C1 + z * (_C2 + z * _C3))
    y = cosine if (quarter & _1U) != u64(0) else sine
    y = -y if (quarter & _2U) != u64(0) else y
    y = -y if bits_of_float(x) < i32(0) else y
    return y if a < _INF else _NAN


# ** tanh and erf **

_P0, _P1, _P2, _P3, _P4, _P5 = (
    f32(c)
    for c in (
        0.9999999987340674, 0.13679903175110583, 0.0038683112759967647, 2.8007036757353513e-05,
        3.0583674507052305e-08, -1.2202190929325293e-11,
    )
)  # fmt: skip
_Q1, _Q2, _Q3, _Q4 = (
    f32(c) for c in (0.47013235258451835, 0.027245782545745386, 0.00039385988155034323, 1.2873325626366119e-06)
)
_FAR: Final = f32(9.02)
"""From here on tanh is 1."""


def tanh(x: Any) -> Any:
    """An odd polynomial over an even one."""
    y = x if x < _FAR else _FAR
    y = y if y > -_FAR else -_FAR
    z = y * y
    p = _P0 + z * (_P1 + z * (_P2 + z * (_P3 + z * (_P4 + z * _P5))))
    q = _ONE + z * (_Q1 + z * (_Q2 + z * (_Q3 + z * _Q4)))
    return y * p / q if x == x else x


_F0, _F1, _F2, _F3, _F4, _F5, _F6 = (
    f32(c)
    for c in (
        1.1283791659146543, -0.37612627140440547, 0.11283600211815889, -0.026854445581508075, 0.005189536461939261,
        -0.0008020845698406905, 7.889119157487838e-05,
    )
)  # fmt: skip
_G0, _G1, _G2, _G3, _G4, _G5, _G6, _G7 = (
    f32(c)
    for c in (
        0.00027127191, -1.6296371345562566, -0.9135433042006577, -0.15641483808590897, 0.03636776409454074,
        -0.006065878577673697, 0.0006367096194802398, -3.1287176895111115e-05,
    )
)  # fmt: skip
_4: Final = f32(4)


def erf(x: Any) -> Any:
    """A polynomial up to 1, elsewhere ``1 - 2**p(|x|)``."""
    a = x if x > _ZERO else -x
    b = a if a < _4 else _4
    p = _G4 + b * (_G5 + b * (_G6 + b * _G7))
    far = _ONE - exp2(_G0 + b * (_G1 + b * (_G2 + b * (_G3 + b * p))))
    z = x * x
    near = x * (_F0 + z * (_F1 + z * (_F2 + z * (_F3 + z * (_F4 + z * (_F5 + z * _F6))))))
    y = near if a < _ONE else (-far if x < _ZERO else far)
    return y if x == x else x


# ** the largest, and what lanes come to **


def maximum(a: Any, b: Any) -> Any:
    """The larger; NaN if one of them is."""
    return a if a > b or a != a else b


def add_lanes(lanes: Any) -> Any:
    """The sum of an array of a power of two elements, by halves."""
    n = lanes.size
    while n > 1:
        n //= 2
        for i in range(n):
            lanes[i] += lanes[i + n]
    return lanes[0]


def multiply_lanes(lanes: Any) -> Any:
    """The product of an array."""
    total = lanes[0]
    for i in range(1, lanes.size):
        total *= lanes[i]
    return total


def max_lanes(lanes: Any) -> Any:
    """The largest of an array; NaN if one of them is."""
    highest = lanes[0]
    for i in range(1, lanes.size):
        highest = maximum(highest, lanes[i])
    return highest


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    f.__name__: f
    for f in (
        power_of_two, exp2, exp, exponent_of, mantissa_of, log_of, log2, log, sin, tanh, erf, maximum, add_lanes,
        multiply_lanes, max_lanes,
    )
}  # fmt: skip
"""By name, each after those that it calls."""
