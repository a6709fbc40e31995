"""Fresh inputs for each check, and the comparison with NumPy.

In: shapes and seeds. Out: small random integers (sums of them are exact in any order), Tensors of them that are
realized, and :func:`differs`, which says in a sentence where values are not what NumPy says.

>>> integers((2, 3)).shape, differs(tensor(integers((2, 3))) + 1, integers((2, 3)) + 1)
((2, 3), None)
>>> differs(tensor(integers((2, 3))) + 2, integers((2, 3)) + 1).text.splitlines()[0]
'the values are not those of NumPy: at [0, 0]'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinysched.errors import RunError
from tinysched.lab.exercise import Wrong
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import watch
from tinysched.trace.trace import Trace

Array = np.ndarray[Any, Any]


def integers(shape: tuple[int, ...], seed: int = 0, low: int = -9, high: int = 9) -> Array:
    """Random whole numbers, the same for the same seed."""
    return np.random.default_rng(seed).integers(low, high, size=shape, endpoint=True, dtype=np.int32)


def floats(shape: tuple[int, ...], seed: int = 0, low: int = -9, high: int = 9) -> Array:
    """The same as float32: whole numbers are exact in it."""
    return integers(shape, seed, low, high).astype(np.float32)


def tensor(values: Array) -> Tensor:
    """A realized Tensor: memory of its own, nothing pending."""
    return Tensor(values).realize()


def ran(
    out: Tensor, expected: Array, title: str, inputs: Mapping[str, Tensor], tolerance: float = 1e-4, **how: Any
) -> Wrong | None:
    """Schedules ``out`` with policies or passes of somebody's own, runs it, and compares with NumPy."""
    captured = watch(out, inputs, title, {"policies": None, "pipeline": None, **how})
    try:
        captured.run(())
    except RunError as error:
        return Wrong(f"it was scheduled, and did not run: {error.what}", captured.trace)
    return differs(out, expected, captured.trace, tolerance)


def differs(got: Any, expected: Array, trace: Trace | None = None, tolerance: float = 1e-4) -> Wrong | None:
    """What is wrong with values, or None. Whole numbers must be equal, floats close (NaN is equal to NaN)."""
    array = np.asarray(got.numpy() if isinstance(got, Tensor) else got)
    if array.shape != expected.shape:
        return Wrong(f"the shape is {array.shape}, and NumPy says {expected.shape}", trace)
    exact = array.dtype.kind in "iub" and expected.dtype.kind in "iub"
    close = array == expected if exact else np.isclose(array, expected, tolerance, tolerance, equal_nan=True)
    if close.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~close)[0]) if array.ndim else ()
    return Wrong(
        f"the values are not those of NumPy: at {list(at)}\nyours {array[at]}, NumPy's {expected[at]}\n"
        f"yours\n{_short(array)}\nNumPy's\n{_short(expected)}",
        trace,
    )


def _short(array: Array) -> str:
    return np.array2string(array, threshold=60, precision=4, prefix="")
