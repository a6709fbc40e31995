"""Inputs that are made up: which arguments of a call hold the same, and the same numbers but for rounding.

In: callify's body. Out: of each PARAM that is a copy of a value that is whole on several devices the first of them, so that
whoever makes up inputs makes them alike.

Some results are decided by rounding alone: the gradient of a bias before a batch norm is 0, what is computed is noise, and
Adam divides noise by its size. A result that changes when every input is a hair off (:func:`nudged`) says nothing about a
schedule.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.sharding import replicate, unshard
>>> a, b = (UOp.new_buffer(device, 4, dtypes.float32) for device in ("NUMPY", "NUMPY:1"))
>>> alike(UOp.sink(replicate((a, b)))) == {b: a}, alike(UOp.sink(unshard((a, b), 0)))
(True, {})
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinysched.ir.ops import Ops
from tinysched.ir.sharding import memories
from tinysched.ir.uop import UOp


def alike(body: UOp) -> dict[UOp, UOp]:
    """Of each PARAM that holds a copy of what another one holds, that one."""
    found: dict[UOp, UOp] = {}
    for reader in body.toposort():
        for u in reader.src if reader.op not in (Ops.UNSHARD, Ops.ALLREDUCE, Ops.MSELECT) else ():
            if u.op is Ops.MSTACK and all(p.base.op in (Ops.PARAM, Ops.BUFFER) for p in u.src):
                first, *others = memories(u)
                found |= dict.fromkeys(others, first)
    return found


def nudged(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same floats, by turns the next one up and the next one down; other numbers as they are.

    >>> nudged(np.array([1.0, 2.0], np.float32)) - np.float32([1.0, 2.0])
    array([ 1.1920929e-07, -1.1920929e-07], dtype=float32)
    """
    if array.dtype.kind != "f":
        return array
    up = np.arange(array.size).reshape(array.shape) % 2 == 0
    return np.asarray(np.nextafter(array, np.where(up, np.inf, -np.inf).astype(array.dtype)))
