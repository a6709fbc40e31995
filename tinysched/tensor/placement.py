"""Where a value is computed and kept: on which device, in memory of its own, with or without a gradient.

In: a Tensor. Out: a Tensor of the same values: with a Storage of its own (memory is shared until one of the two is
written), but for ``detach``, which is a view.

>>> from tinysched import Tensor
>>> x = Tensor.empty(2, 3)
>>> (x + 1).contiguous().uop.op, x.to("NUMPY").uop is x.uop
(Ops.CONTIGUOUS, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.options import Options, Opts
from tinysched.ir.sharding import axis_of, is_memory
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor
from tinysched.tensor.hooks import engine


def to(x: Tensor, device: str | tuple[str, ...] | None) -> Tensor:
    """The same value on a device, or whole on each of several; a constant is everywhere. Raises :class:`DeviceError`."""
    name, u = engine().canonical_device(device), x.uop
    moved = Tensor.from_uop(u if u.device in (None, name) else UOp(Ops.COPY, u.dtype, (u,), name))
    moved.requires_grad, moved.is_param = x.requires_grad, x.is_param
    if x.grad is not None:
        moved.grad = to(x.grad, device)
    return moved


def to_(x: Tensor, device: str | tuple[str, ...] | None) -> Tensor:
    """Moves this Tensor itself to another device."""
    moved = to(x, device)
    if moved.uop is not x.uop:
        x._set_storage(moved.storage, ())
        x.grad = moved.grad
    return x


def contiguous(x: Tensor, arg: Opts | None = None) -> Tensor:
    """The value in memory, in row-major order: where kernels must not fuse (a constant gets some to be written to).

    ``arg``: how the kernel that computes it should run (``opts_to_apply``), as ``("lowering=numpy", "block=8192")``; what
    there is: :mod:`tinysched.ir.options`. Raises :class:`ArgumentError` for other words.
    """
    u = x.uop
    if arg is not None:
        arg = (arg,) if isinstance(arg, str) else tuple(arg)
        Options.of(arg)
        u = u.src[0] if u.op is Ops.CONTIGUOUS else u
    there = u.op is Ops.CONTIGUOUS or is_memory(u) or (u.op is Ops.RESHAPE and u.src[0].op is Ops.BUFFER)
    if there or u.base.op is Ops.CONST or x.dtype in dtypes.weaks:
        made = Tensor.from_uop(u)
        made.storage.wants_memory = u.base.op is Ops.CONST and x.dtype not in dtypes.weaks
        return made
    return Tensor.from_uop(u.contiguous(arg))


def contiguous_backward(x: Tensor) -> Tensor:
    """The same value, whose gradient is made contiguous."""
    u = x.uop
    return Tensor.from_uop(UOp(Ops.CONTIGUOUS_BACKWARD, u.dtype, (u,)))


def detach(x: Tensor) -> Tensor:
    """The same values (a view), through which no gradient flows."""
    return x.moved(Ops.DETACH, None)


def clone(x: Tensor) -> Tensor:
    """The same values in a Storage of its own; memory is shared until one of the two is written."""
    made = Tensor.from_uop(x.uop)
    made.requires_grad, made.is_param = x.requires_grad, x.is_param
    return made


# ** copies as Python makes them: copy.copy, copy.deepcopy, pickle **


def copied(x: Tensor) -> Tensor:
    """``copy.copy(x)``: a clone, with the name."""
    made = clone(x)
    made.name = x.name
    return made


def deeply_copied(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """``copy.deepcopy(x)``: the values (which are computed for it) in memory that is another leaf, and so for the gradient."""
    made: Tensor = x.clone() if x.uop.base.op is Ops.CONST else _restored(*reduced(x)[1])
    memo[id(x)], made.name = made, x.name
    if x.grad is not None:
        made.grad = memo.get(id(x.grad)) or deeply_copied(x.grad, memo)
    return made


def reduced(x: Tensor, protocol: int = 0) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """``pickle.dumps(x)``: the values (which are computed for it) and where they lie, without how they came about."""
    device = x.device
    axis = axis_of(x.uop) if isinstance(device, tuple) else None
    return _restored, (x.numpy(), device, axis, x.name, x.requires_grad, x.is_param)


def _restored(
    array: Any, device: Any, axis: int | None, name: str | None, requires_grad: bool | None, is_param: bool
) -> Tensor:
    made = Tensor(array, device=device if axis is None else device[0], name=name)
    if axis is not None:
        made = made.shard(device, axis)
        made.name = name
    made.requires_grad, made.is_param = requires_grad, is_param
    return made
