"""Where the parts of a value lie, and how another device comes by the elements that it needs.

In: a value (of one device; MSTACK: whole on each; UNSHARD: cut along an axis) and a :class:`Layout` that says which device
needs which elements. Out: for each device a value of its own, with COPYs where the elements lie elsewhere.

While a graph is expanded, parts may be of any sizes, on some of the devices only, or all on one. Whoever cuts a value
(:data:`Ops.SHRINK`, :data:`Ops.PAD`) leaves its parts where they lie and notes its ``home``, the devices that it is
shared among: an operation that computes deals it out evenly again, if that can be done.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.sharding import unshard
>>> a, b = (UOp.new_buffer(device, 4, dtypes.float32) for device in ("NUMPY", "NUMPY:1"))
>>> x = unshard((a, b), 0)
>>> layout_of(x)
Layout(devices=('NUMPY', 'NUMPY:1'), axis=0, bounds=((0, 4), (4, 8)))
>>> on_one(x, "NUMPY").op, [p.op for p in spread(x, Layout(("NUMPY", "NUMPY:1"), None), 1)]
(Ops.RESHAPE, [Ops.RESHAPE, Ops.RESHAPE])
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import Devices, bounds_of, copy_to, cut, joined, parts_of
from tinysched.ir.uop import UOp


@dataclass(frozen=True)
class Layout:
    """Devices, and for each the elements of ``axis`` that it has (None: it has all of the value)."""

    devices: Devices
    axis: int | None
    bounds: tuple[tuple[int, int], ...] = ()

    def shifted(self, by: int) -> Layout:
        """The layout of a value with ``by`` more leading axes."""
        return self if self.axis is None else Layout(self.devices, self.axis + by, self.bounds)


def layout_of(u: UOp) -> Layout | None:
    """How a value lies on several devices; None for values of one device, and for parts that are all on one."""
    parts = parts_of(u)
    devices = tuple(p.device for p in parts)
    if len(set(devices)) < 2:
        return None
    return Layout(devices, u.arg, tuple(bounds_of(parts, u.arg))) if u.op is Ops.UNSHARD else Layout(devices, None)


def home_of(u: UOp) -> Devices:
    """The devices that a value is shared among, also if some of them have no part of it now."""
    return u.tag or tuple(p.device for p in parts_of(u))


def dealt(u: UOp) -> Layout | None:
    """How a value should lie where it is computed with: evenly on all devices of its home, if it can be divided so."""
    layout, home = layout_of(u), home_of(u)
    n = len(home)
    if u.op is not Ops.UNSHARD or len(set(home)) < 2 or u.shape[u.arg] % n:
        return layout
    size = u.shape[u.arg] // n
    even = layout is not None and all(b - a == size for a, b in layout.bounds) and len(layout.devices) == n
    return layout if even else Layout(home, u.arg, tuple(pairwise(range(0, n * size + 1, size))))


def common_layout(x: UOp) -> Layout | None:
    """Where an operation is done: where its largest operand that is cut lies, else where one lies that is whole.

    Of two that are as large the one that is cut further left: rows of the other can be copied to it as they lie.
    """
    found = [(s.size, layout.shifted(x.ndim - s.ndim)) for s in x.src if (layout := dealt(s)) is not None]
    if not found:
        return None
    return max(found, key=lambda one: (one[1].axis is not None, one[0], -(one[1].axis or 0)))[1]


# ** bringing elements to where they are needed **


class Pieces(NamedTuple):
    """Values of one device that together, one after another along an axis, are a value."""

    values: list[UOp]
    axis: int

    def joined(self) -> UOp:
        return joined(self.values, self.axis)


def moved(u: UOp, device: str) -> UOp:
    """A value of one device on another; straight from where it came from, if it is a copy itself."""
    while u.op is Ops.COPY and u.device != device and u.src[0].device is not None:
        u = u.src[0]
    return u if u.device is None or u.device == device else copy_to(u, device)


def part_from(u: UOp, axis: int, start: int, end: int) -> UOp:
    """Some elements of a value; of a copy, only these are copied."""
    if (start, end) == (0, u.shape[axis]):
        return u
    if u.op is Ops.COPY and isinstance(u.arg, str):
        return copy_to(part_from(u.src[0], axis, start, end), u.arg)
    return cut(u, axis, start, end)


def pieces(u: UOp, device: str) -> Pieces:
    """All of a value on one device."""
    parts = parts_of(u)
    if u.op is Ops.UNSHARD:
        return Pieces([moved(p, device) for p in parts], u.arg)
    here = [p for p in parts if p.device == device]
    return Pieces([moved((*here, *parts, u)[0], device)], 0)


def pieces_between(u: UOp, device: str, axis: int, start: int, end: int) -> Pieces:
    """The elements ``start`` to ``end`` of one axis of a value on one device."""
    if u.op is not Ops.UNSHARD or u.arg != axis:
        whole = pieces(u, device)
        return Pieces([moved(part_from(v, axis, start, end), device) for v in whole.values], whole.axis)
    parts = parts_of(u)
    found = [
        moved(part_from(p, axis, max(a, start) - a, min(b, end) - a), device)
        for p, (a, b) in zip(parts, bounds_of(parts, axis), strict=True)
        if max(a, start) < min(b, end)
    ]
    return Pieces(found, axis)


def on_one(u: UOp, device: str) -> UOp:
    """All of a value as a value of one device."""
    return pieces(u, device).joined()


def spread(u: UOp, layout: Layout, ndim: int) -> list[UOp]:
    """A value as each device needs it that works on its part of a result with ``ndim`` axes."""
    return [p.joined() for p in spread_pieces(u, layout, ndim)]


def spread_pieces(u: UOp, layout: Layout, ndim: int) -> list[Pieces]:
    """The same, not joined yet."""
    axis = None if layout.axis is None else layout.axis - (ndim - u.ndim)
    _tell(u, layout, axis)
    if axis is None or axis < 0 or u.shape[axis] == 1:  # whole on each, or broadcast along the axis
        return [pieces(u, device) for device in layout.devices]
    return [pieces_between(u, d, axis, a, b) for d, (a, b) in zip(layout.devices, layout.bounds, strict=True)]


def _tell(u: UOp, layout: Layout, axis: int | None) -> None:
    """A Decision about a value that does not lie as it is needed."""
    if u.op is not Ops.UNSHARD or layout_of(u) == Layout(layout.devices, axis, layout.bounds):
        return
    facts = (("axis", u.arg), ("devices", home_of(u)), ("wanted along", axis), ("wanted on", layout.devices))
    reason = Reason.REPLICATED if axis is None else Reason.RESHARDED
    decide(u, "prepare", Verdict.COPIED, reason, Values(facts))
