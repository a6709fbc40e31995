"""Tensors on several devices: cut along an axis, or whole on each.

In: a Tensor, device names, an axis. Out: a Tensor of the same value; what is computed from it is computed on the devices
that have the parts. Devices are virtual (``NUMPY``, ``NUMPY:1``, …), so that all of it runs on one machine.

>>> from tinysched import Tensor
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("NUMPY", "NUMPY:1"), axis=0)
>>> x.device, (x + 1).sum().tolist()
(('NUMPY', 'NUMPY:1'), 14.0)
"""

from __future__ import annotations

from collections.abc import Sequence

from tinysched.errors import ArgumentError
from tinysched.ir import sharding
from tinysched.tensor.checks import axis_of
from tinysched.tensor.core import Tensor
from tinysched.tensor.hooks import engine
from tinysched.tensor.placement import to


def shard(x: Tensor, devices: Sequence[str], axis: int | None = None) -> Tensor:
    """The same value in equal parts along ``axis``, one for each device; or, without an axis, whole on each.

    A Tensor that is on several devices already is spread anew. Raises :class:`ShapeError` where the axis does not divide,
    :class:`DeviceError` for unknown names.
    """
    names = engine().canonical_device(_listed(devices))
    if len(names) == 1:
        return to(x, names[0])
    along = None if axis is None else axis_of(axis, x.ndim)
    if _lies(x, names, along):
        return to(x, names)
    made = Tensor.from_uop(sharding.shard(x.uop, names, along))
    made.requires_grad, made.is_param = x.requires_grad, x.is_param
    if x.grad is not None:
        made.grad = shard(x.grad, names, axis)
    return made


def _listed(devices: Sequence[str]) -> tuple[str, ...]:
    if isinstance(devices, str) or not devices:
        raise ArgumentError(f"shard over {devices!r}", help='give a tuple of names: ("NUMPY", "NUMPY:1")')
    return tuple(devices)


def _lies(x: Tensor, devices: tuple[str, ...], axis: int | None) -> bool:
    """Whether a value will be spread in this way anyhow."""
    return x.uop.device == devices and sharding.axis_of(x.uop) == axis


def shard_(x: Tensor, devices: Sequence[str], axis: int | None = None) -> Tensor:
    """Spreads this Tensor itself over devices."""
    spread = shard(x, devices, axis)
    x._set_storage(spread.storage, ())
    x.grad = spread.grad
    return x


def shard_like(x: Tensor, y: Tensor) -> Tensor:
    """The value of ``x`` spread as ``y`` is."""
    devices = y.uop.device
    return shard(x, devices, sharding.axis_of(y.uop)) if isinstance(devices, tuple) else to(x, devices)


def whole_along(x: Tensor, axis: int) -> Tensor:
    """``x``, whole on each of its devices if it is cut along ``axis``: for what needs all elements of an axis."""
    devices = x.uop.device
    return shard(x, devices) if isinstance(devices, tuple) and sharding.axis_of(x.uop) == axis else x


def flat(x: Tensor) -> Tensor:
    """``x`` with one axis. If it is cut along another than the first, no shard is a stretch of that: it is gathered."""
    devices = x.uop.device
    return (shard(x, devices) if isinstance(devices, tuple) and sharding.axis_of(x.uop) else x).flatten()
