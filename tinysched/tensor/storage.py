"""The one mutable thing: a Storage holds its current value as a UOp.

In: values (UOps) and writes. Out: the current value, always an immutable graph. An expression that was built before a
write keeps the graph it was built from (a snapshot, for free); a view asks its Storage anew and so follows it.

A write into memory makes a new *state*, ``AFTER(state, STORE(view of state, value))``; states chain. A write into a
value that is not computed yet makes another expression: the old one with the region chosen by WHERE.

>>> s = Storage(UOp.new_buffer("NUMPY", 4, dtypes.float32).attach(_Allocated()))
>>> s.write((), UOp.const(1.0, dtypes.float32)).op
Ops.AFTER
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tinysched.dtypes import dtypes
from tinysched.errors import ShapeError
from tinysched.ir.derive import moved_shape
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import axis_of, copy_to, is_memory, spread_like
from tinysched.ir.symbolic.affine import affine_of
from tinysched.ir.symbolic.movement import flat_index, index_through
from tinysched.ir.uop import TRUE, Shape, UOp

if TYPE_CHECKING:
    from tinysched.tensor.core import Tensor

Step = tuple[Ops, Any]
"""One movement op of a view: the op and its argument. (Or DETACH, or BITCAST to a dtype of the same size.)"""

WRITTEN: Final = "written"
"""The tag of a value that a write made of another expression: each write is an expression of its own."""

_LIVE: dict[int, weakref.ref[Storage]] = {}
_numbers = itertools.count()


class Write(NamedTuple):
    """One write: through which view of which Storage, and its values before and after."""

    storage: Storage
    steps: tuple[Step, ...]
    value: UOp
    before: UOp
    after: UOp


NOTED: Final[ContextVar[list[Write] | None]] = ContextVar("noted writes", default=None)
"""Where the writes of a function's body are noted while it is traced (None elsewhere)."""


class Storage:
    """The current value of one or more Tensors. ``version`` grows whenever ``uop`` changes."""

    __slots__ = (
        "__weakref__",
        "_past",
        "backing",
        "lost",
        "number",
        "owner",
        "uop",
        "version",
        "viewers",
        "wants_memory",
        "writes",
    )

    def __init__(self, uop: UOp):
        self.uop = uop
        self.version = 0
        self.writes = 0  # how often it was written (being computed changes the version only)
        self.lost = ""  # why the value is gone, after a device failed in the middle of an in-place write
        self.number = number = next(_numbers)
        self.viewers: weakref.WeakSet[Tensor] | None = None
        self.owner: Callable[[], Tensor | None] = _nobody  # a weak reference to the Tensor that shows all of it
        self.wants_memory = False  # contiguous() of a constant: it is read as a constant, but written in memory
        self.backing: UOp | None = None  # that memory, filled with the constant once it is realized
        self._past: list[weakref.ref[UOp]] = []
        _LIVE[number] = weakref.ref(self, lambda _, n=number: _LIVE.pop(n, None))  # type: ignore[misc]

    def set(self, uop: UOp) -> None:
        """Another graph of the same value (after it was computed), or of a new one."""
        self.uop = uop
        self.version += 1

    def watch(self, viewer: Tensor) -> None:
        """Remembers a Tensor made by movement ops: when this Storage is written it must say whether it is a view."""
        if self.viewers is None:
            self.viewers = weakref.WeakSet()
        self.viewers.add(viewer)

    def write(self, steps: tuple[Step, ...], value: UOp) -> UOp:
        """Writes ``value`` (of the view's shape and dtype) through the view ``steps``; returns the new current value.

        Raises :class:`ShapeError`, before anything is written, for a value that would move items between shards.
        """
        if value is apply_steps(self.uop, steps):  # x[1] = x[1] changes nothing
            return self.uop
        if isinstance(value.device, tuple):
            axis_of(value)
        # what is no movement does not change where a view looks: other bits are put there, or the same ones
        steps, value = tuple(s for s in steps if s[0] in GroupOp.Movement), value.bitcast(self.uop.dtype)
        for viewer in list(self.viewers or ()):
            viewer.before_write()
        self._past = [ref for ref in self._past if ref() is not None]
        self._past.append(weakref.ref(self.uop))
        self.writes += 1
        if self.backing is not None:  # the constant's own memory is what a write goes to
            self.uop, self.backing = self.backing, None
        before = self.uop
        self.set(self._written(steps, value))
        if (noted := NOTED.get()) is not None:
            noted.append(Write(self, steps, value, before, self.uop))
        return self.uop

    def past(self) -> list[UOp]:
        """The values before the writes, as far as somebody still holds them."""
        return [u for ref in self._past if (u := ref()) is not None]

    def _written(self, steps: tuple[Step, ...], value: UOp) -> UOp:
        if self.lost and covers_all(steps):  # a new value for all of it: what was lost is not needed
            self.lost = ""
            return undo_steps(value, self.uop.shape, steps)
        state = self.uop.base
        if (state.op is Ops.AFTER or state.realized is not None) and _each_once(state.shape, steps_of(self.uop)):
            target = apply_steps(self.uop, steps)
            return replace_base(self.uop, state.after(target.store(value)))
        # the old value of an empty() that nobody computed may be anything
        old = filled(self.uop, 0) if is_memory(state) and state.realized is None else self.uop
        return overwritten(old, steps, _spread_for(apply_steps(old, steps), value))


def _spread_for(view: UOp, value: UOp) -> UOp:
    """A value as the view that it is written through lies; where that is in no shard's own order, whole on each device."""
    try:
        return spread_like(value, view)
    except ShapeError:
        return copy_to(value, view.device)


def _each_once(shape: Shape, steps: tuple[Step, ...]) -> bool:
    """Whether every element that is seen is another element of the memory, so that it can be written."""
    if covers_all(steps):
        return True
    return all(op is not Ops.EXPAND for op, _ in steps) and shows_at_constant_strides(shape, steps)


def _nobody() -> None:
    return None


class _Allocated:
    """Stands for memory in the doctest above."""

    is_allocated = True


def live_storages() -> Iterator[Storage]:
    """All Storages that somebody holds, oldest first."""
    for ref in list(_LIVE.values()):
        if (storage := ref()) is not None:
            yield storage


def next_number() -> int:
    """A number above those of all Storages so far, and below those to come."""
    return next(_numbers)


def filled(like: UOp, value: bool | int) -> UOp:
    """A constant of the shape of ``like``; True gives a bool one."""
    const = UOp.const(True, dtypes.bool) if value is True else like.const_like(value)
    return const.expand_leading(like.shape)


def apply_steps(u: UOp, steps: tuple[Step, ...]) -> UOp:
    """``u`` seen through a view."""
    for op, arg in steps:
        u = apply_step(u, op, arg)
    return u


def apply_step(u: UOp, op: Ops, arg: Any) -> UOp:
    """``u`` seen through one movement op, detached (no gradient), or with its bits read as another dtype of that size."""
    return u.bitcast(arg) if op is Ops.BITCAST else UOp(op, u.dtype, (u,), arg)


def replace_base(u: UOp, base: UOp) -> UOp:
    """The movement ops of ``u`` over another base."""
    chain: list[UOp] = []
    while u.op in GroupOp.Movement:
        chain.append(u)
        u = u.src[0]
    for m in reversed(chain):
        base = UOp(m.op, m.dtype, (base,), m.arg)
    return base


_KEEPS_STRIDES: Final = frozenset({Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.DETACH, Ops.BITCAST})


def shows_at_constant_strides(shape: Shape, steps: tuple[Step, ...]) -> bool:
    """Whether the steps show elements of memory of this shape at constant strides, and nothing that is not there."""
    apart = itertools.dropwhile(lambda step: step[0] is Ops.RESHAPE, steps)  # memory in order has any shape
    return all(op in _KEEPS_STRIDES for op, _ in apart) or _at_constant_strides(shape, steps)


@lru_cache(maxsize=4096)
def _at_constant_strides(shape: Shape, steps: tuple[Step, ...]) -> bool:
    """The same, judged on the composed index map."""
    u = UOp.const(0).expand_leading(shape)
    chain: list[UOp] = []
    for op, arg in steps:
        if op in GroupOp.Movement:
            u = UOp(op, u.dtype, (u,), arg)
            chain.insert(0, u)
    rngs = tuple(UOp.range(n, i) for i, n in enumerate(u.shape))
    flat = flat_index(shape, index_through(chain, rngs))
    visible_pad = any(
        i.get_valid() is not TRUE
        for k, m in enumerate(chain)
        if m.op is Ops.PAD
        for i in index_through(chain[: k + 1], rngs)
    )
    offset_or_stride = (a.op is Ops.RANGE or not a.ranges for a, _ in affine_of(flat).terms)  # a Variable is an offset
    return not visible_pad and not flat.is_gated and all(offset_or_stride)


def steps_of(u: UOp) -> tuple[Step, ...]:
    """The movement ops from the base of a node to it, as steps."""
    steps: list[Step] = []
    while u.op in GroupOp.Movement:
        steps.append((u.op, u.arg))
        u = u.src[0]
    return tuple(reversed(steps))


def overwritten(old: UOp, steps: tuple[Step, ...], value: UOp) -> UOp:
    """``old`` with ``value`` where the view looks, as an expression: nothing is stored."""
    if covers_all(steps):
        return undo_steps(value, old.shape, steps)
    written = undo_steps(filled(apply_steps(old, steps), True), old.shape, steps)
    return written.where(undo_steps(value, old.shape, steps), old).rtag(WRITTEN)


def covers_all(steps: tuple[Step, ...]) -> bool:
    """Whether a view shows every element (once): it only reorders."""
    return all(op in (Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP) for op, _ in steps)


def undo_steps(value: UOp, shape: tuple[Any, ...], steps: tuple[Step, ...]) -> UOp:
    """A value of the shape ``shape`` that shows ``value`` where the view looks, and zeros elsewhere."""
    shapes = [shape]
    for op, arg in steps:
        shapes.append(moved_shape(op, shapes[-1], arg))
    for (op, arg), before in zip(reversed(steps), reversed(shapes[:-1]), strict=True):
        value = _undo(value, before, op, arg)
    return value


def _undo(value: UOp, before: tuple[Any, ...], op: Ops, arg: Any) -> UOp:
    if op is Ops.RESHAPE:
        return value.reshape(before)
    if op is Ops.PERMUTE:
        return value.permute(tuple(arg.index(i) for i in range(len(arg))))
    if op is Ops.FLIP:
        return value.flip(arg)
    if op is Ops.SHRINK:
        return value.pad(tuple((a, n - b) for n, (a, b) in zip(before, arg, strict=True)))
    assert op is Ops.PAD, "a broadcast is never written through"
    return value.shrink(tuple((a, a + n) for n, (a, _) in zip(before, arg, strict=True)))
