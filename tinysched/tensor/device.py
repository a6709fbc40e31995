"""Moving values between devices.

In: a Tensor and a device name. Out: a Tensor whose value is there (itself where it already is).
"""

from __future__ import annotations

from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor
from tinysched.tensor.hooks import engine


def to(x: Tensor, device: str | None) -> Tensor:
    """The same value on another device; a constant is everywhere. Raises :class:`DeviceError` for unknown names."""
    name = engine().canonical_device(device)
    here = x.uop.device
    if here is None or here == name:
        return x
    moved = Tensor.from_uop(UOp(Ops.COPY, x.dtype, (x.uop,), name))
    moved.requires_grad, moved.is_param = x.requires_grad, x.is_param
    if x.grad is not None:
        moved.grad = to(x.grad, device)
    return moved


def to_(x: Tensor, device: str | None) -> Tensor:
    """Moves this Tensor itself to another device."""
    moved = to(x, device)
    if moved is not x:
        x._set_storage(moved.storage, moved.steps)
        x.grad = moved.grad
    return x
