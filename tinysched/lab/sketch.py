"""Pictures of cases that are no trace: kernels that wait for one another, buffers in an arena.

In: what an exercise is about. Out: PNG bytes, drawn when a report is shown.

>>> dag(3, [(0, 1), (0, 2)])[1:4], arena([(0, 1, 256), (1, 2, 256)], [0, 0], 256)[1:4]
(b'PNG', b'PNG')
"""

from __future__ import annotations

from collections.abc import Sequence

from tinysched.views.areas import Area, Block, areas_png
from tinysched.views.layout import layout
from tinysched.views.picture import COLOURS
from tinysched.views.png import EDGE, SCALE, Pen, curve, pale
from tinysched.views.svg import INK, PAD

NODE = (48.0, 28.0)


def dag(count: int, edges: Sequence[tuple[int, int]]) -> bytes:
    """Kernels by number, each below those that it waits for."""
    placed = layout((NODE,) * count, tuple(dict.fromkeys(edges)))
    pen = Pen(placed.width + 2 * PAD, placed.height + 2 * PAD, SCALE)
    pen.origin = (PAD, PAD)
    for route in placed.routes:
        if route is not None:
            pen.line(list(curve(route)), EDGE, 1.2)
    for k, q in enumerate(placed.places):
        colour = COLOURS[k % len(COLOURS)]
        pen.box(q.x - q.width / 2, q.y - q.height / 2, q.width, q.height, 14, pale(colour), colour)
        pen.text(q.x, q.y, str(k), 13, INK, "mm", bold=True)
    return pen.png()


def arena(lives: Sequence[tuple[int, int, int]], offsets: Sequence[int], bound: int) -> bytes:
    """Buffers (first kernel, last kernel, bytes) where an answer puts them, a letter each, and the least possible."""
    blocks = [
        Block(chr(97 + i % 26), offset, room, first, last, i)
        for i, ((first, last, room), offset) in enumerate(zip(lives, offsets))
    ]
    high = max((b.offset_bytes + b.bytes for b in blocks), default=0)
    area = Area(f"your arena: {high:,} B", f"line: the least possible, {bound:,} B", high, bound, blocks)
    return areas_png([area], max((b.last for b in blocks), default=0) + 1)
