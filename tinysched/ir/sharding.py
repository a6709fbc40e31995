"""Values on several devices: how they are written down, and along which axis they are cut.

In: a value, the names of devices, an axis. Out: nodes. ``MSTACK(a, b)`` is a value that is whole on each device: ``a`` on
the first, ``b`` on the second. ``UNSHARD(MSTACK(a, b), axis)`` is a value that is cut: ``a``, then ``b`` along the axis.
The parts are ordinary values of one device each.

>>> from tinysched.dtypes import dtypes
>>> x = UOp.new_buffer("NUMPY", 6, dtypes.float32).reshape((2, 3))
>>> y = shard(x, ("NUMPY", "NUMPY:1"), 0)
>>> y.op, y.shape, y.device, [part.shape for part in y.src[0].src]
(Ops.UNSHARD, (2, 3), ('NUMPY', 'NUMPY:1'), [(1, 3), (1, 3)])
>>> axis_of(y.permute((1, 0)) + 1)
1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from tinysched.dtypes import dtypes
from tinysched.errors import DeviceError, ShapeError
from tinysched.ir.derive import prod
from tinysched.ir.lines import where
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import Shape, UOp

Devices = tuple[str, ...]
MANY_DEVICES = frozenset({Ops.UNSHARD, Ops.MSTACK, Ops.MSELECT, Ops.ALLREDUCE, Ops.COPY})
"""Nodes that show that a graph is about more than one device."""

SPREAD = "many devices"
"""The tag of a body's SINK if its values lie on more than one device."""


# ** making them **


def replicate(parts: Iterable[UOp]) -> UOp:
    """One value, whole on each device."""
    parts = tuple(parts)
    return UOp(Ops.MSTACK, parts[0].dtype, parts)


def unshard(parts: Iterable[UOp], axis: int | None, home: Devices | None = None) -> UOp:
    """Parts on their devices as one value: one after another along ``axis``, or each the whole of it (None).

    ``home``: the devices that it is shared among, where some of them have no part now (while a graph is expanded).
    """
    stack = replicate(parts)
    return stack if axis is None else UOp(Ops.UNSHARD, stack.dtype, (stack,), axis, home)


def copy_to(u: UOp, device: str | Devices) -> UOp:
    """A value on another device, or whole on several."""
    return UOp(Ops.COPY, u.dtype, (u,), device)


def shard(u: UOp, devices: Devices, axis: int | None) -> UOp:
    """A value spread over devices: whole on each (None), or in equal parts along ``axis``.

    Raises :class:`ShapeError` where the axis does not divide.
    """
    if axis is None:
        return copy_to(u, devices)
    n, size = len(devices), u.shape[axis]
    if not isinstance(size, int) or size % n:
        raise ShapeError(
            f"axis {axis} of shape {u.shape} does not divide into {n} equal shards",
            where=where(u),
            help=f"pad it to a multiple of {n}, shard another axis, or None for a whole copy on each device",
        )
    bounds = pairwise(range(0, size + 1, size // n)) if size else ((0, 0) for _ in devices)
    parts = [cut(u, axis, a, b) for a, b in bounds]
    return unshard([copy_to(part, device) for part, device in zip(parts, devices, strict=True)], axis)


def spread_like(u: UOp, other: UOp) -> UOp:
    """A value spread over the devices of another, along the same axis; itself where it is, or is a constant."""
    if u.device is None or not isinstance(other.device, tuple):
        return u
    axis = axis_of(other)
    return u if u.device == other.device and axis_of(u) == axis else shard(u, other.device, axis)


def cut(u: UOp, axis: int, start: int, end: int) -> UOp:
    """Elements ``start`` to ``end`` of one axis, all of the others."""
    return u.shrink(tuple((start, end) if i == axis else (0, n) for i, n in enumerate(u.shape)))


def parts_of(u: UOp) -> tuple[UOp, ...]:
    """The parts of a value on several devices; () for other values."""
    stack = u.src[0] if u.op is Ops.UNSHARD else u
    return stack.src if stack.op is Ops.MSTACK else ()


def bounds_of(parts: Sequence[UOp], axis: int) -> list[tuple[int, int]]:
    """Where each part starts and ends along the axis."""
    return list(pairwise(accumulate((p.shape[axis] for p in parts), initial=0)))


def joined(parts: Sequence[UOp], axis: int) -> UOp:
    """Values of one device, one after another along an axis."""
    if len(parts) == 1:
        return parts[0]
    if len({p.shape for p in parts}) == 1:
        stack = UOp(Ops.STACK, parts[0].dtype, tuple(parts))
        order = (*range(1, axis + 1), 0, *range(axis + 1, stack.ndim))
        shape = parts[0].shape
        return stack.permute(order).reshape((*shape[:axis], len(parts) * shape[axis], *shape[axis + 1 :]))
    bounds = bounds_of(parts, axis)
    size = bounds[-1][1]
    result = None
    for p, (a, b) in zip(parts, bounds, strict=True):
        widths = tuple((a, size - b) if i == axis else (0, 0) for i in range(p.ndim))
        here = UOp.const(True, dtypes.bool).expand_leading(p.shape).pad(widths)
        result = p.pad(widths) if result is None else here.where(p.pad(widths), result)
    assert result is not None
    return result


# ** memory **


def memories(u: UOp) -> tuple[UOp, ...]:
    """The BUFFERs or PARAMs below states and views: one, or one for each device."""
    found: list[UOp] = []
    stack = [u]
    while stack:
        u = stack.pop()
        while u.op not in (Ops.BUFFER, Ops.PARAM, Ops.MSTACK) and u.src:
            u = u.src[0]
        if u.op is Ops.MSTACK:
            stack.extend(reversed(u.src))
        else:
            found.append(u)
    return tuple(dict.fromkeys(found))


def is_memory(u: UOp) -> bool:
    """Whether a value is memory as it is, on one device or on several."""
    parts = parts_of(u)
    return u.op is Ops.BUFFER or (bool(parts) and all(p.base.op is Ops.BUFFER for p in parts))


def in_memory(u: UOp, make: Callable[[str, int], UOp]) -> UOp:
    """A state like ``u`` (BUFFERs in the same places) over other memory, which ``make(device, size)`` gives."""
    became = {m: make(m.arg.device, m.arg.size) for m in memories(u)}
    return u.substitute(became)


# ** along which axis **


def axis_of(root: UOp, known: dict[UOp, int | None] | None = None) -> int | None:
    """The axis along which a value will be cut; None for one that is whole on each of its devices.

    Raises :class:`ShapeError` for a RESHAPE that would move items between shards. ``known`` keeps what was found.
    """
    known = {} if known is None else known
    settled = MANY_DEVICES | {Ops.BUFFER, Ops.CONST, Ops.STORE, Ops.AFTER}
    for u in root.toposort(gate=lambda u: u not in known and u.op not in settled):
        if u not in known:
            known[u] = _axis(u, known) if isinstance(u.device, tuple) else None
    return known[root]


def _axis(u: UOp, known: dict[UOp, int | None]) -> int | None:
    if u.op in MANY_DEVICES:
        return u.arg if u.op is Ops.UNSHARD else None
    if u.op is Ops.AFTER:  # of many writes only the chain is followed, not what each of them wrote
        while u.op is Ops.AFTER and u not in known:
            u = u.src[0]
        return axis_of(u, known)
    if u.op in GroupOp.Broadcastable or u.op is Ops.STACK:
        cuts = [(s.size, -(a + u.ndim - s.ndim)) for s in u.src if (a := known[s]) is not None]
        return -max(cuts)[1] if cuts else None  # as the largest; of equals, as the one that is cut further left
    axis = known[u.src[0]] if u.src and u.op is not Ops.STORE else None
    return None if axis is None else _moved_axis(u, axis)


def _moved_axis(u: UOp, axis: int) -> int | None:
    """The axis after an op with one source."""
    if u.op is Ops.REDUCE:
        return axis - u.arg[1] if axis >= u.arg[1] else None
    if u.op is Ops.EXPAND:
        return axis + len(u.arg)
    if u.op is Ops.PERMUTE:
        return int(u.arg.index(axis))
    if u.op is Ops.RESHAPE:
        new = reshaped_axis(u.src[0].shape, u.arg, axis)
        if new is None or u.arg[new] % len(u.device):
            raise moves_items(u, axis)
        return new
    if u.op in (Ops.SHRINK, Ops.PAD) and u.shape[axis] != u.src[0].shape[axis]:
        size = u.shape[axis]
        return axis if isinstance(size, int) and size and size % len(u.device) == 0 else None
    return axis


def reshaped_axis(old: Shape, new: Shape, axis: int) -> int | None:
    """The axis of the new shape that starts where ``axis`` of the old one does; None if there is none."""
    if all(isinstance(n, int) for n in (*old, *new)):
        before = prod(old[:axis])
        starts = [i for i in range(len(new)) if prod(new[:i]) == before]
        return starts[-1] if starts and isinstance(new[starts[-1]], int) else None
    if old[: axis + 1] == new[: axis + 1]:
        return axis
    back = len(old) - axis
    return len(new) - back if back <= len(new) and old[axis:] == new[len(new) - back :] else None


def moves_items(u: UOp, axis: int) -> ShapeError:
    """The error for a RESHAPE that no device can do with its own shard."""
    return ShapeError(
        f"RESHAPE from {u.src[0].shape} to {u.shape} would move items between the shards of axis {axis}",
        where=where(u),
        help=f"shard another axis, or gather it first: .to('{u.device[0]}') or .shard({u.device}, None)",
    )


# ** do devices agree **


def about_devices(values: Iterable[UOp], graph: UOp) -> bool:
    """Whether values, or the graph that computes them, are about more than one device."""
    devices = {u.device for u in values} - {None}
    several = len(devices) > 1 or any(isinstance(device, tuple) for device in devices)
    return several or any(u.op in MANY_DEVICES for u in graph.toposort())


_APART = MANY_DEVICES | {Ops.SINK, Ops.STORE}  # a STORE is looked at with its AFTER, which has the user's line


def check_devices(order: Iterable[UOp]) -> None:
    """Raises :class:`DeviceError` for the first operation whose operands lie on different devices.

    Raises :class:`ShapeError` for a RESHAPE that would move items between shards, if they are read through it: what is
    written through it stays where it is.
    """
    order, known = list(order), dict[UOp, int | None]()
    written_through = {view for u in order if u.op is Ops.STORE for view in _views(u.src[0])}
    for u in order:
        if u not in written_through:
            axis_of(u, known)
        if u.op in _APART or len(u.src) < 2:
            continue
        operands = (u.src[0], *(s.src[1] for s in u.src[1:] if s.op is Ops.STORE)) if u.op is Ops.AFTER else u.src
        found = list(dict.fromkeys(s.device for s in operands if s.device is not None))
        if len(found) > 1:
            raise DeviceError(
                f"{'write' if u.op is Ops.AFTER else u.op.name} of values on {_names(found[0])} and on {_names(found[1])}",
                where=where(u),
                help="bring them together: x.to(device), x.shard(devices, axis), or x.shard(devices, None)",
            )


def _views(u: UOp) -> Iterator[UOp]:
    """The movement ops from a node down to its base."""
    while u.op in GroupOp.Movement:
        yield u
        u = u.src[0]


def _names(device: str | Devices) -> str:
    return device if isinstance(device, str) else " + ".join(device)
