"""The table behind test_tensor.py: a line for each method and edge case of the public Tensor API.

A line is a function of Tensors, the function of NumPy arrays that gives the same values, and the inputs. Where one
expression serves both, the second is left out. The first is also applied to the peer's Tensors, for dtype and shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

RNG = np.random.default_rng(7)
INF, NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Line:
    """``tol``: relative and absolute. ``peer``: whether the peer has the same dtype and shape (a word says why not)."""

    name: str
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    tol: float = 1e-5
    peer: bool | str = True


LINES: list[Line] = []


def line(name: str, ours: Callable[..., Any], *inputs: Any, np_: Callable[..., Any] | None = None, **more: Any) -> None:
    LINES.append(Line(name, ours, np_ or ours, tuple(np.asarray(a) for a in inputs), **more))


def F(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Floats around 0."""
    return RNG.standard_normal(shape).astype(dtype)


def P(*shape: int) -> np.ndarray:
    """Floats between 0.1 and 0.9."""
    return RNG.uniform(0.1, 0.9, shape).astype(np.float32)


def I(*shape: int, lo: int = -5, hi: int = 6, dtype: Any = np.int32) -> np.ndarray:  # noqa: E743
    """Whole numbers."""
    return RNG.integers(lo, hi, shape).astype(dtype)


def B(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype(bool)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


SPECIAL = f32(-INF, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0, INF, NAN)
A, A1, V = F(2, 3, 4), F(3, 1), F(4)
X = F(1)  # stands for "no input": its type gives the Tensor class
