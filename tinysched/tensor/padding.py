"""Padding with the Tensor's own elements: mirrored, repeated, or coming round again.

In: a Tensor and a pair of widths for each axis (negative ones cut off). Out: a larger Tensor.

>>> from tinysched import Tensor
>>> Tensor.empty(3, 4).pad([(1, 0), (2, 2)], mode="reflect").shape
(4, 8)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tinysched.errors import ArgumentError
from tinysched.ir.lines import where as place
from tinysched.tensor.core import Tensor
from tinysched.tensor.moves import Moves, Pair

Widths = tuple[Pair, ...]


def _cut(x: Tensor, widths: Widths) -> Tensor:
    """Negative widths taken off."""
    bounds = tuple((max(-a, 0), s - max(-b, 0)) for (a, b), s in zip(widths, x.shape))
    return x.seen_through(Moves(x.shape).shrink(bounds).steps)


def _along(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    return x.shrink(tuple((start, end) if i == axis else None for i in range(x.ndim)))


def _joined(x: Tensor, axis: int, before: Tensor | None, after: Tensor | None) -> Tensor:
    parts = [p for p in (before, x, after) if p is not None]
    return parts[0].cat(*parts[1:], dim=axis) if len(parts) > 1 else x


def circular(x: Tensor, widths: Widths) -> Tensor:
    """What leaves at one end comes back at the other, at most once round."""
    x = _cut(x, widths)
    grown = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    if any(a > s or b > s for (a, b), s in zip(grown, x.shape)):
        raise ArgumentError(
            f"circular padding {grown} of shape {x.shape}", where=place(x.uop), help="at most once round"
        )
    moves = Moves(x.shape).repeat(tuple(1 + bool(a) + bool(b) for a, b in grown))
    starts = [s - a if a else 0 for (a, _), s in zip(grown, x.shape)]
    moves.shrink(tuple((f, f + s + a + b) for f, (a, b), s in zip(starts, grown, x.shape)))
    return x.seen_through(moves.steps)


def reflect(x: Tensor, widths: Widths) -> Tensor:
    """Mirrored at the first and the last element, which are not repeated."""
    for axis, (a, b) in enumerate(widths):
        s = x.shape[axis]
        if max(a, b, 0) >= s and max(a, b) > 0:
            raise ArgumentError(
                f"reflect padding ({a}, {b}) of axis {axis} of {x.shape}", where=place(x.uop), help="less than the size"
            )
        before = _along(x, axis, 1, a + 1).flip(axis) if a > 0 else None
        after = _along(x, axis, s - 1 - b, s - 1).flip(axis) if b > 0 else None
        x = _joined(x, axis, before, after)
    return _cut(x, widths)


def replicate(x: Tensor, widths: Widths) -> Tensor:
    """The first and the last element repeated."""
    for axis, (a, b) in enumerate(widths):
        s = x.shape[axis]
        before = _along(x, axis, 0, 1).expand(*x.shape[:axis], a, *x.shape[axis + 1 :]) if a > 0 else None
        after = _along(x, axis, s - 1, s).expand(*x.shape[:axis], b, *x.shape[axis + 1 :]) if b > 0 else None
        x = _joined(x, axis, before, after)
    return _cut(x, widths)


MODES: Final[dict[str, Callable[[Tensor, Widths], Tensor]]] = {
    "circular": circular,
    "reflect": reflect,
    "replicate": replicate,
}
