"""The engine as the tensor layer knows it (:mod:`tinysched.tensor.hooks`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinysched.dtypes import DType
from tinysched.engine.plan import plan
from tinysched.engine.read import read_value
from tinysched.engine.run import realize
from tinysched.ir.uop import UOp
from tinysched.runtime.device import Buffer, Device, buffer_of
from tinysched.tensor.core import Tensor


class TensorEngine:
    """The engine as :mod:`tinysched.tensor.hooks` knows it."""

    def canonical_device(self, name: str | Sequence[str] | None) -> Any:
        if name is None or isinstance(name, str):
            return Device.canonicalize(name)
        return tuple(Device.canonicalize(n) for n in name)

    def memory_from(self, data: np.ndarray[Any, Any], dtype: DType, device: str) -> UOp:
        buffer = UOp.new_buffer(device, data.size, dtype)
        memory = Buffer(device, data.size, dtype)
        memory.allocate()
        memory.copyin(np.ascontiguousarray(data).reshape(-1))
        return buffer.attach(memory)

    def allocate(self, buffer: UOp) -> None:
        buffer_of(buffer).allocate()

    def realize(self, tensors: tuple[Tensor, ...]) -> None:
        realize(*tensors)

    def linear_with_vars(self, tensors: tuple[Tensor, ...]) -> tuple[UOp, dict[str, int]]:
        p = plan(*tensors)
        return p.linear, dict(p.var_vals)

    def read(self, value: UOp) -> np.ndarray[Any, Any]:
        return read_value(value)
