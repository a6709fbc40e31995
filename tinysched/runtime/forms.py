"""The forms in which array programs read memory, choose by index, and sum products.

In: what :mod:`analyze` found. Out: frozen values that say what to do with which axes.

>>> row = Axis("r0", 4, 0)
>>> edge = Coordinate({row: 1}, -1, 5, (0, 4), 1)
>>> padded = Padded(View(UOp.const(0), 0, {}), (edge,))
>>> padded.shape, padded.view()
((6,), (1, {r0:4: 1}))
"""

from __future__ import annotations

from dataclasses import dataclass

from tinysched.errors import TinyschedError
from tinysched.ir.uop import UOp
from tinysched.runtime.axes import Axis, Box, Linear, Span


class Unsupported(TinyschedError):
    """A kernel that array programs cannot express as they are; the loops can."""


@dataclass(frozen=True)
class View:
    """Memory as it lies: an offset and a stride per axis, in elements."""

    memory: UOp
    offset: int  # of the element that all axes are 0 for
    strides: dict[Axis, int]


@dataclass(frozen=True)
class Coordinate:
    """One axis of a padded copy: ``sum(coefs * axis)``, from ``low`` to ``high``; memory has it within ``valid``."""

    coefs: dict[Axis, int]
    low: int
    high: int
    valid: Span
    stride: int


@dataclass(frozen=True)
class Padded:
    """A masked read: a copy of what is there with zeros around it, and a view of the copy."""

    source: View
    coordinates: tuple[Coordinate, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(c.high - c.low for c in self.coordinates)

    def view(self) -> tuple[int, dict[Axis, int]]:
        """Offset and strides of the loop's axes in the copy."""
        offset, strides, step = 0, dict[Axis, int](), 1
        for c in reversed(self.coordinates):
            offset -= c.low * step
            for axis, k in c.coefs.items():
                strides[axis] = strides.get(axis, 0) + k * step
            step *= c.high - c.low
        return offset, strides


@dataclass(frozen=True)
class Gather:
    """A read at computed rows: ``rows`` (an index form) times ``step`` elements, and a view along the other axes."""

    source: View
    step: int
    count: int
    rows: Linear
    mask: UOp | None
    """Where to read; elsewhere the value is 0. Without a mask a row outside of memory is an error."""
    needs: tuple[UOp, ...]


Access = View | Padded | Gather


@dataclass(frozen=True)
class Contraction:
    """A sum of products of two values: which axes both keep, each keeps, and both sum over."""

    left: UOp
    right: UOp
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    alone: tuple[tuple[Axis, ...], tuple[Axis, ...]]
    """Axes that only one of the two has: they are summed over before."""


@dataclass(frozen=True)
class Scan:
    """Running sums of memory along an axis."""

    source: View
    axis: Axis


@dataclass(frozen=True)
class Choice:
    """A WHERE by index: ``inside`` within the box (where ``mask`` holds too), else ``outside``."""

    box: Box
    mask: UOp
    inside: UOp
    outside: UOp
