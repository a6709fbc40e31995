"""Memory over time as a picture: a block is as wide as it is alive, and as high as it is large.

In: :class:`Area` values, one below the other. Out: PNG bytes. Where two blocks that are alive at once lie on one another, the
part that they share is framed.

>>> area = Area("arena", "", 512, 512, (Block("a", 0, 256, 0, 1), Block("b", 256, 256, 1, 1)))
>>> areas_png([area], kernels=2)[1:4]
b'PNG'
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinysched.explain.speak import size
from tinysched.views.picture import COLOURS
from tinysched.views.png import SCALE, Pen, pale
from tinysched.views.svg import FAINT, GREY, INK

WIDTH, HEIGHT, LEFT, GAP = 640, 190, 76, 58
ALARM = "#b3261e"
MOST_COMPARED = 200
"""Blocks that are looked at in pairs; where the engine placed more, none of them meet."""


@dataclass(frozen=True)
class Block:
    """A buffer in its place, from its first kernel to its last. ``colour``: a kernel's number."""

    name: str
    offset_bytes: int
    bytes: int
    first: int
    last: int
    colour: int = 0


@dataclass(frozen=True)
class Area:
    """One arena. ``bound_bytes``: the least that is possible, drawn as a line."""

    title: str
    note: str
    bytes: int
    bound_bytes: int
    blocks: Sequence[Block]


def areas_png(areas: Sequence[Area], kernels: int) -> bytes:
    """The picture, a column for each of ``kernels``."""
    pen = Pen(LEFT + WIDTH + 24, len(areas) * (HEIGHT + GAP) + 8, SCALE)
    for i, area in enumerate(areas):
        pen.origin = (0, i * (HEIGHT + GAP) + 30)
        _Scale(area, max(kernels, 1)).draw(pen)
    return pen.png()


@dataclass(frozen=True)
class _Scale:
    area: Area
    kernels: int

    def x(self, kernel: float) -> float:
        return LEFT + kernel / self.kernels * WIDTH

    def y(self, byte: int) -> float:
        return HEIGHT - byte / max(self.area.bytes, 1) * HEIGHT

    def draw(self, pen: Pen) -> None:
        area = self.area
        pen.text(LEFT, -14, area.title, 13, INK, "lm", bold=True)
        pen.text(LEFT + WIDTH, -14, area.note, 11, GREY, "rm")
        pen.box(LEFT, 0, WIDTH, HEIGHT, 0, FAINT)
        for block in area.blocks:
            self._block(pen, block)
        for x, y, width, height in self._shared():
            pen.box(x, y, width, height, 0, pale(ALARM), ALARM, 2.4)
        for block in area.blocks:
            self._name(pen, block)
        bound = self.y(area.bound_bytes)
        pen.line([(LEFT, bound), (LEFT + WIDTH, bound)], ALARM, 1.2)
        pen.text(LEFT - 6, 6, size(area.bytes), 10, GREY, "rm")
        pen.text(LEFT - 6, HEIGHT - 4, "0 B", 10, GREY, "rm")
        pen.text(LEFT - 6, HEIGHT + 12, "kernel", 10, GREY, "rm")
        for k in range(0, self.kernels, -(-self.kernels // 24)):
            pen.text(self.x(k + 0.5), HEIGHT + 12, str(k), 10, GREY, "mm")

    def _block(self, pen: Pen, b: Block) -> None:
        colour = COLOURS[b.colour % len(COLOURS)]
        x, width = self.x(b.first) + 1, self.x(b.last + 1) - self.x(b.first) - 2
        top, height = self.y(b.offset_bytes + b.bytes), self.y(b.offset_bytes) - self.y(b.offset_bytes + b.bytes)
        pen.box(x, top, max(width, 2), max(height - 1, 1.5), 2, pale(colour), colour)

    def _name(self, pen: Pen, b: Block) -> None:
        """Above all blocks, where there is room for it."""
        x, width = self.x(b.first), self.x(b.last + 1) - self.x(b.first)
        top, height = self.y(b.offset_bytes + b.bytes), self.y(b.offset_bytes) - self.y(b.offset_bytes + b.bytes)
        if height > 12 and width > 7 * len(b.name):
            pen.text(x + width / 2, top + height / 2, b.name, 11, INK, "mm")

    def _shared(self) -> Iterator[tuple[float, float, float, float]]:
        """What two blocks have in common, in memory and in time."""
        blocks = self.area.blocks if len(self.area.blocks) <= MOST_COMPARED else ()
        for a, b in itertools.combinations(blocks, 2):
            first, last = max(a.first, b.first), min(a.last, b.last)
            low, high = max(a.offset_bytes, b.offset_bytes), min(a.offset_bytes + a.bytes, b.offset_bytes + b.bytes)
            if first <= last and low < high:
                yield self.x(first), self.y(high), self.x(last + 1) - self.x(first), self.y(low) - self.y(high)
