"""Reading a realized value: its memory, seen through its movement ops by NumPy.

In: a value whose base is memory or a constant. Out: a new array.

>>> from tinysched.dtypes import dtypes
>>> read_value(UOp.const(2.0, dtypes.float32).expand_leading((3,))).tolist()
[2.0, 2.0, 2.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinysched.dtypes import strong_dtype
from tinysched.errors import ArgumentError
from tinysched.ir.derive import map_arg
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import is_memory, parts_of
from tinysched.ir.symbolic.affine import simplify_index
from tinysched.ir.uop import UOp
from tinysched.runtime.device import buffer_of


def read_value(value: UOp) -> np.ndarray[Any, Any]:
    """A copy of a realized value: its memory seen through its movement ops, by NumPy."""
    chain: list[UOp] = []
    base = value
    while base.op in GroupOp.Movement or base.op in (Ops.CAST, Ops.BITCAST):
        chain.append(base)
        base = base.src[0]
    dtype = strong_dtype(base.dtype).np
    if base.op is Ops.CONST:
        array: np.ndarray[Any, Any] = np.asarray(base.arg, dtype)
    elif base.op is Ops.BUFFER:
        memory = buffer_of(base)
        memory.allocate()
        array = memory.on_host
    elif is_memory(base):
        array = read_value(base.src[0]) if base.op is Ops.MSTACK else np.concatenate(shards(base), base.arg)
    elif 0 in value.shape:
        return np.zeros(value.shape, strong_dtype(value.dtype).np)
    elif 0 in base.shape:  # nothing, maybe with zeros around it
        array = np.zeros(base.shape, dtype)
    else:
        raise ArgumentError(f"{base!r} has no value yet", help="realize() it first")
    for u in reversed(chain):
        array = _moved(array, u)
    return np.array(array)


def shards(value: UOp) -> list[np.ndarray[Any, Any]]:
    """A copy of what each device has of a realized value."""
    return [read_value(part) for part in parts_of(value)]


def index_value(u: UOp) -> int:
    """The number that an index expression over bound Variables and constants is."""
    return int(simplify_index(u.substitute({b: b.src[1] for b in u.toposort() if b.op is Ops.BIND})).arg)


def _moved(array: np.ndarray[Any, Any], u: UOp) -> np.ndarray[Any, Any]:
    """One movement op (or cast) done by NumPy."""
    arg = map_arg(u.arg, index_value)
    if u.op is Ops.RESHAPE:
        return array.reshape(arg)
    if u.op is Ops.PERMUTE:
        return array.transpose(arg)
    if u.op is Ops.EXPAND:
        return np.broadcast_to(array, (*arg, *array.shape))
    if u.op is Ops.PAD:
        return np.pad(array, arg) if arg else array
    if u.op is Ops.SHRINK:
        return array[tuple(slice(a, b) for a, b in arg)]
    if u.op is Ops.FLIP:
        return np.flip(array, tuple(i for i, f in enumerate(arg) if f))
    dtype = strong_dtype(u.dtype).np
    return array.astype(dtype) if u.op is Ops.CAST else array.view(dtype)
