"""The two libraries behind one interface: build inputs, schedule, forget caches, read memory plans and values.

In: the names of the sides, ``ours`` and ``peer``. Out: :class:`Lib` objects. Everything that reaches into the peer's
insides stands in :mod:`benchmarks.peer`; a library is imported only when its side is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Lib(ABC):
    """One library. Its :meth:`settings` must be entered around building, scheduling and reading."""

    module: Any
    """The top-level module: Tensor, dtypes, UOp, Variable, function."""

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def settings(self) -> AbstractContextManager[Any]:
        """The settings (device, backend) under which this side works."""

    @abstractmethod
    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """A Tensor over its own memory, without values."""

    @abstractmethod
    def forget(self) -> None:
        """Drops every cache that a first schedule would not find."""

    @abstractmethod
    def memory(self, build: Callable[[], list[Any]]) -> dict[str, int]:
        """``arena`` and ``lower`` bound in bytes of the plan of what ``build`` returns."""

    @abstractmethod
    def add_nodes(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """An ADD node over each pair, made the way the library's own rewriting makes one."""

    @abstractmethod
    def reshape(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], ranges: tuple[Any, ...]) -> Any:
        """The index into ``in_shape`` for loop variables over ``out_shape``."""

    def load(self, array: Array) -> Any:
        """A Tensor over its own memory that holds the array's values."""
        return self.module.Tensor(array).realize()

    def linear(self, tensors: Sequence[Any]) -> Any:
        """The LINEAR that would realize the Tensors: scheduled and planned, not compiled and not run."""
        return self.module.Tensor.linear_with_vars(*tensors)[0]

    def graph_size(self, tensors: Sequence[Any]) -> int:
        """How many nodes the Tensors' graph has."""
        return len(self.module.UOp.sink(*[t.uop for t in tensors]).toposort())

    def values(self, tensors: Sequence[Any]) -> list[Array]:
        """The values of the Tensors, all realized in one call."""
        self.module.Tensor.realize(*tensors)
        return [np.asarray(t.numpy()) for t in tensors]


class Ours(Lib):
    """tinysched, with its kernels lowered for ``cpu``."""

    def __init__(self, cpu: str = "numpy") -> None:
        self.module, self.cpu = import_module("tinysched"), cpu

    def version(self) -> str:
        return f"tinysched {self.module.__version__}"

    def settings(self) -> AbstractContextManager[Any]:
        return self.module.Context(CPU=self.cpu)  # type: ignore[no-any-return]

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return self.module.Tensor.empty(*shape, dtype=getattr(self.module.dtypes, dtype)).realize()

    def forget(self) -> None:
        self.module.clear_caches()

    def memory(self, build: Callable[[], list[Any]]) -> dict[str, int]:
        plan = self.module.plan(*build()).memory
        return {"arena": _total(plan.arena_bytes), "lower": _total(plan.lower_bound_bytes)}

    def add_nodes(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        make, add, dtype = self.module.UOp, self.module.Ops.ADD, self.module.dtypes.index
        return [make(add, dtype, pair) for pair in pairs]

    def reshape(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], ranges: tuple[Any, ...]) -> Any:
        apply = import_module("tinysched.schedule.indexing").apply_movement_op
        return apply(self.module.Ops.RESHAPE, in_shape, out_shape, ranges)


def _total(lanes: Any) -> int:
    """Bytes over all lanes of a plan (a plan of one lane may give a plain number)."""
    return sum(lanes.values()) if hasattr(lanes, "values") else int(lanes)


SIDES: Final = ("ours", "peer")


def open_side(name: str) -> Lib:
    """The library of a side; raises ImportError where it is not installed."""
    if name == "ours":
        return Ours()
    from benchmarks.peer import Peer

    return Peer()


def counts(linear: Any) -> dict[str, int]:
    """Kernels, copies, and different kernels of a LINEAR."""
    kernels = [call.src[0] for call in linear.src if call.src[0].op.name == "SINK"]
    return {
        "kernels": len(kernels),
        "copies": len(linear.src) - len(kernels),
        "unique": len({kernel.key for kernel in kernels}),
    }
