"""The functions that lowered kernels call, compiled by numba; importing this module imports numba.

In: the plain Python of :mod:`tinysched.runtime.fastmath`. Out: :data:`HELPERS`, by the names that kernels call.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tinysched.runtime import fastmath

jit: Final = numba.njit(nogil=True, error_model="numpy", boundscheck=False, cache=True)
jit_in_memory: Final = numba.njit(nogil=True, error_model="numpy", boundscheck=False)
_helper: Final = numba.njit(nogil=True, error_model="numpy", forceinline=True)


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


def _compiled() -> dict[str, Any]:
    """Each function with compiled ones in place of those it calls, its casts of bits as single instructions."""
    known = {**vars(fastmath), "float_of_bits": _float_of_bits, "bits_of_float": _bits_of_float}
    for name, function in fastmath.FUNCTIONS.items():
        known[name] = _helper(FunctionType(function.__code__, known, name))
    return {name: known[name] for name in fastmath.FUNCTIONS}


HELPERS: Final = {"jit": jit, "jit_in_memory": jit_in_memory, **_compiled()}
