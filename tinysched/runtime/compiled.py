"""The helpers of lowered kernels, compiled by numba; importing this module imports numba.

In: the functions of :mod:`tinysched.runtime.fastmath`. Out: :data:`HELPERS`, by the names that kernels call.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tinysched.runtime import fastmath

jit: Final = numba.njit(nogil=True, error_model="numpy", boundscheck=False, cache=True)
_inline: Final = numba.njit(nogil=True, error_model="numpy", inline="never")


@intrinsic
def _float_of_bits(context: Any, i: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def _bits_of_float(context: Any, x: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


def _with_bits(function: Any) -> Any:
    """The function compiled, its casts of bits as single instructions."""
    known = {**vars(fastmath), "float_of_bits": _float_of_bits, "bits_of_float": _bits_of_float}
    return _inline(type(function)(function.__code__, known, function.__name__))


maximum: Final = _with_bits(fastmath.maximum)


@_inline
def add_lanes(lanes: Any) -> Any:
    n = lanes.size
    while n > 1:
        n //= 2
        for i in range(n):
            lanes[i] += lanes[i + n]
    return lanes[0]


@_inline
def multiply_lanes(lanes: Any) -> Any:
    total = lanes[0]
    for i in range(1, lanes.size):
        total *= lanes[i]
    return total


@_inline
def max_lanes(lanes: Any) -> Any:
    highest = lanes[0]
    for i in range(1, lanes.size):
        highest = maximum(highest, lanes[i])
    return highest


HELPERS: Final = {
    "jit": jit,
    "add_lanes": add_lanes,
    "multiply_lanes": multiply_lanes,
    "max_lanes": max_lanes,
    "maximum": maximum,
    "exp2": _with_bits(fastmath.exp2),
    "log2": _with_bits(fastmath.log2),
}
