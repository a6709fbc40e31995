"""What the tensor layer asks of the layers above it: an engine registers itself here when the package is imported.

In: an object with the methods of :class:`Engine`. Out: :func:`engine`, which the Tensor methods call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tinysched.errors import ScheduleError

if TYPE_CHECKING:
    import numpy as np

    from tinysched.dtypes import DType
    from tinysched.ir.uop import UOp
    from tinysched.tensor.core import Tensor


class Engine(Protocol):
    """Realizing, planning and memory, as the tensor layer knows them."""

    def canonical_device(self, name: str | Sequence[str] | None) -> Any:
        """The full name of a device (None: the default one), or a tuple of them. Raises :class:`DeviceError`."""

    def memory_from(self, data: np.ndarray[Any, Any], dtype: DType, device: str) -> UOp:
        """A flat BUFFER with a copy of ``data``."""

    def allocate(self, buffer: UOp) -> None:
        """Gives a BUFFER its memory, uninitialised."""

    def realize(self, tensors: tuple[Tensor, ...]) -> None:
        """Computes the tensors and commits their values."""

    def linear_with_vars(self, tensors: tuple[Tensor, ...]) -> tuple[UOp, dict[str, int]]:
        """The plan's LINEAR and the values of its Variables; changes nothing."""

    def read(self, value: UOp) -> np.ndarray[Any, Any]:
        """A copy of a realized value, with its shape."""


_engine: Engine | None = None


def register(engine: Engine) -> None:
    """Called once by the package's import."""
    global _engine
    _engine = engine


def engine() -> Engine:
    """The registered engine."""
    if _engine is None:
        raise ScheduleError("no engine is registered", help="import tinysched, not tinysched.tensor alone")
    return _engine
