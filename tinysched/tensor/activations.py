"""Activation functions, and the less common functions of floats: formulas over :mod:`tinysched.tensor.elementwise`.

In: a Tensor. Out: a Tensor of its shape.

>>> from tinysched import Tensor
>>> Tensor.empty(3, 4).gelu().shape
(3, 4)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError
from tinysched.tensor.core import Tensor


def relu(x: Tensor) -> Tensor:
    """``max(x, 0)``; at 0 the gradient is 0, and NaN stays NaN."""
    return x.maximum(0)


def relu6(x: Tensor) -> Tensor:
    """``min(max(x, 0), 6)``"""
    return x.relu() - (x - 6).relu()


def leaky_relu(x: Tensor, neg_slope: float = 0.01) -> Tensor:
    """``x``, below 0 times ``neg_slope``."""
    return (x < 0).where(x * neg_slope, x)


def sigmoid(x: Tensor) -> Tensor:
    """``1 / (1 + e**-x)``"""
    return ((x * (-1 / math.log(2))).exp2() + 1).reciprocal()


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent, ``2 * sigmoid(2x) - 1``."""
    return (x * 2.0).sigmoid() * 2.0 - 1.0


def gelu(x: Tensor, approximate: str = "tanh") -> Tensor:
    """``x`` times the share of the normal distribution below it; "tanh" approximates, "none" does not."""
    if approximate == "tanh":
        return x * 0.5 * (((x + x**3 * 0.044715) * math.sqrt(2 / math.pi)).tanh() + 1)
    if approximate == "none":
        return x * 0.5 * ((x / math.sqrt(2)).erf() + 1.0)
    raise ArgumentError(f"gelu approximate={approximate!r}", help="'tanh' or 'none'")


def quick_gelu(x: Tensor) -> Tensor:
    """``x * sigmoid(1.702 x)``"""
    return x * (x * 1.702).sigmoid()


def silu(x: Tensor) -> Tensor:
    """``x * sigmoid(x)`` (swish)"""
    return x * x.sigmoid()


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``x``, below 0 ``alpha * (e**x - 1)``."""
    return x.relu() - (1 - x.exp()).relu() * alpha


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``max(x, 0) + min(0, alpha * (e**(x / alpha) - 1))``"""
    return x.maximum(0) + (((x / alpha).exp() - 1) * alpha).minimum(0)


def selu(x: Tensor, alpha: float = 1.67326, gamma: float = 1.0507) -> Tensor:
    """``gamma`` times ``x``, below 0 times ``alpha * (e**x - 1)``."""
    return (x < 0).where((x.exp() - 1) * alpha, x) * gamma


def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """``log(1 + e**(beta x)) / beta``"""
    return (x * beta).logaddexp(0.0) * (1 / beta)


def mish(x: Tensor) -> Tensor:
    """``x * tanh(softplus(x))``"""
    return x * x.softplus().tanh()


def logsigmoid(x: Tensor) -> Tensor:
    """``log(sigmoid(x))``, without overflow."""
    return -(-x).softplus()


def softsign(x: Tensor) -> Tensor:
    """``x / (1 + |x|)``"""
    return x / (x.abs() + 1)


def hardswish(x: Tensor) -> Tensor:
    """``x * relu6(x + 3) / 6``"""
    return x * (x + 3).relu6() * (1 / 6)


def hardsigmoid(x: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """``alpha * x + beta``, between 0 and 1."""
    line = x * alpha + beta
    return line.relu() - (line - 1).relu()


def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """``x`` between two limits."""
    return x.clamp(min_val, max_val)


def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine."""
    return (x.exp() - (-x).exp()) / 2


def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine."""
    return (x.exp() + (-x).exp()) / 2


def asinh(x: Tensor) -> Tensor:
    """The inverse of sinh; of ``|x|`` with the sign put back, since below 0 the logarithm's argument cancels."""
    size = x.abs()
    return (size + (size.square() + 1).sqrt()).log() * x.sign()


def acosh(x: Tensor) -> Tensor:
    """The inverse of cosh; NaN below 1."""
    return (x + (x.square() - 1).sqrt()).log()


def atanh(x: Tensor) -> Tensor:
    """The inverse of tanh; NaN outside of -1 to 1."""
    return ((x + 1) / (1 - x)).log() / 2


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """A polynomial by Horner's rule, the highest power first."""
    result: Any = 0.0
    for c in coefficients:
        result = x * result + c
    return result  # type: ignore[no-any-return]


# Abramowitz and Stegun, Handbook of Mathematical Functions, 4.4.46 (error below 2e-8) and 7.1.26 (below 1.5e-7)
_ASIN = (
    -0.0012624911,
    0.0066700901,
    -0.0170881256,
    0.0308918810,
    -0.0501743046,
    0.0889789874,
    -0.2145988016,
    1.5707963050,
)
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def asin(x: Tensor) -> Tensor:
    """The inverse of sin; NaN outside of -1 to 1. Error below 1e-6."""
    size = x.abs()
    return x.sign() * (math.pi / 2 - (1.0 - size).sqrt() * polynomial(size, _ASIN))


def acos(x: Tensor) -> Tensor:
    """The inverse of cos; NaN outside of -1 to 1."""
    return math.pi / 2 - x.asin()


def atan(x: Tensor) -> Tensor:
    """The inverse of tan."""
    return (x / (x * x + 1).sqrt()).asin()


def erf(x: Tensor) -> Tensor:
    """The error function. Error below 1e-6."""
    t = 1.0 / (x.abs() * 0.3275911 + 1.0)
    return x.sign() * (1.0 - t * polynomial(t, _ERF) * (-x.square()).exp())


def is_floating_point(x: Tensor) -> bool:
    """Whether the elements are floats."""
    return bool(dtypes.is_float(x.dtype))
