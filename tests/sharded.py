"""Sharded Tensors for tests: how to make them, and what a plan of them runs and moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tinysched import Tensor
from tinysched.ir.decision import Decision, Reason
from tinysched.ir.ops import Ops
from tinysched.schedule.copies import bytes_between

Array = np.ndarray[Any, Any]
AXES = (None, 0, 1)


def names(n: int) -> tuple[str, ...]:
    return tuple("NUMPY" if i == 0 else f"NUMPY:{i}" for i in range(n))


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ramp(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def spread(array: Array, n: int, axis: int | None) -> Tensor:
    return Tensor(array).shard(names(n), axis).realize()


def calls(*tensors: Tensor) -> tuple[int, int]:
    """Kernels and copies of a plan."""
    linear = Tensor.schedule_linear(*tensors)
    copies = sum(call.src[0].op is Ops.COPY for call in linear.src)
    return len(linear.src) - copies, copies


def moved(*tensors: Tensor) -> int:
    """Bytes that a plan moves between devices."""
    return sum(bytes_between(Tensor.schedule_linear(*tensors)).values())


class Told:
    """An observer that keeps decisions."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: None

    def reasons(self) -> set[Reason]:
        return {d.reason for d in self.decisions}


def listed(result: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def agree(fn: Callable[..., Any], arrays: list[Array], n: int, axes: tuple[int | None, ...]) -> None:
    """The function gives on ``n`` devices what it gives on one."""
    want = listed(fn(*map(Tensor, arrays)))
    got = listed(fn(*[spread(a, n, axis) for a, axis in zip(arrays, axes, strict=True)]))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5)
