"""The picture as PNG, for places that show no SVG: code-hosting pages, PDF, mail. The same picture as ``to_svg`` draws.

In: a trace, a stage, a step. Out: PNG bytes, the same for the same trace (and the same fonts).

>>> from tinysched.trace.document import Node, Schedule, Stage
>>> t = Trace("t", (Schedule("s", (Node("PARAM", "float32", "p", "memory"),), (Stage("tensor graph", 0, 0),)),))
>>> to_png(t)[1:4]
b'PNG'
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from tinysched.trace.document import Schedule
from tinysched.trace.trace import Trace
from tinysched.views.layout import Point
from tinysched.views.picture import COLOURS, Caption, Picture, is_quiet
from tinysched.views.svg import FAINT, GREY, HEAD, INK, PAD, PALE, PAPER, shown_by_default

MOST_NODES = 60
"""Of a larger stage the picture shows the kernels alone, unless that stage was asked for: a PNG grows with its area."""
SCALE = 2
"""Pixels per unit: sharp on dense screens."""
LARGEST = 8_000
"""Pixels along a side; a larger picture is drawn smaller."""
EDGE = "#8a9099"
_CURVE = 12  # straight pieces of a curve
_PLAIN = str.maketrans({"×": "x", "⟂": "_", "→": ">", "−": "-"})


def to_png(trace: Trace, stage: str | int | None = None, step: int | None = None, schedule: int = -1) -> bytes:
    """The graph of a stage with its kernels after ``step`` steps, as PNG bytes."""
    title, s, picture, shown, edges = shown_by_default(trace, stage, step, schedule, MOST_NODES)
    width, height = max(picture.layout.width, 260) + 2 * PAD, picture.layout.height + 2 * PAD + HEAD
    pen = Pen(width, height, min(SCALE, LARGEST / max(width, height)))
    pen.text(PAD, 20, title, 14, INK, "lm", bold=True)
    pen.origin = (PAD, PAD + HEAD)
    paint(pen, s, picture, shown, edges)
    return pen.png()


def paint(pen: Pen, s: Schedule, p: Picture, shown: dict[int, Caption], edges: list[int]) -> None:
    """Draws what is visible: hulls, edges, nodes, badges."""
    routes = {e: route for e in edges if (route := p.layout.routes[e]) is not None}
    members = p.members(shown)
    for k, slots in members:
        pen.hull(p, k, slots, routes)
    for route in routes.values():
        pen.line(list(curve(route)), EDGE, 1.2)
    stored = {b.node for b in s.buffers}
    for _, caption in sorted(shown.items()):
        node = s.nodes[caption.node]
        pen.node(caption, p, node.kind, is_quiet(node), caption.node in stored)
    pen.badges(p, members)


def curve(route: tuple[Point, ...]) -> Iterator[Point]:
    """A route as short straight pieces: it leaves and enters each rank straight down, as in SVG."""
    yield route[0]
    for (x0, y0), (x1, y1) in itertools.pairwise(route):
        if x0 == x1:
            yield x1, y1
            continue
        middle = (y0 + y1) / 2
        for i in range(1, _CURVE + 1):
            t = i / _CURVE
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield (a + b) * x0 + (c + d) * x1, a * y0 + (b + c) * middle + d * y1


class Pen:
    """Draws in the picture's units."""

    def __init__(self, width: float, height: float, scale: float):
        from PIL import Image, ImageDraw

        self.scale, self.origin = scale, (0.0, 0.0)
        self.image: Any = Image.new("RGB", (round(width * scale), round(height * scale)), PAPER)
        self.on: Any = ImageDraw.Draw(self.image)

    def png(self) -> bytes:
        out = io.BytesIO()
        self.image.quantize(48, dither=0).save(out, "PNG", optimize=True)
        return out.getvalue()

    def _at(self, x: float, y: float) -> Point:
        return (x + self.origin[0]) * self.scale, (y + self.origin[1]) * self.scale

    def line(self, points: list[Point], colour: str, width: float) -> None:
        self.on.line(
            [self._at(*p) for p in points], fill=colour, width=max(1, round(width * self.scale)), joint="curve"
        )

    def box(
        self, x: float, y: float, w: float, h: float, radius: float, fill: str, edge: str = "", width: float = 1.2
    ) -> None:
        pixels = [*self._at(x, y), *self._at(x + w, y + h)]
        line = {"outline": edge, "width": max(1, round(width * self.scale))} if edge else {}
        self.on.rounded_rectangle(pixels, radius * self.scale, fill=fill, **line)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        colour: str,
        anchor: str,
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        font, plain = _font(max(6, round(size * self.scale)), bold, mono)
        text = text.replace("⟂", "⊥") if not plain else text.translate(_PLAIN).encode("ascii", "replace").decode()
        self.on.text(self._at(x, y), text, fill=colour, font=font, anchor=anchor)

    def hull(self, p: Picture, k: int, slots: Iterable[int], routes: dict[int, tuple[Point, ...]]) -> None:
        """A kernel: its nodes and the edges between them, drawn fat."""
        inside, colour = set(slots), pale(COLOURS[k % 8])
        for e, route in routes.items():
            if inside.issuperset(p.edges[e]):
                self.line(list(curve(route)), colour, 26)
        for slot in sorted(inside):
            q = p.layout.places[slot]
            self.box(q.x - q.width / 2 - 9, q.y - q.height / 2 - 9, q.width + 18, q.height + 18, 14, colour)

    def badges(self, p: Picture, members: Iterable[tuple[int, list[int]]]) -> None:
        """The kernels' numbers, side by side where several start at one node."""
        taken: dict[int, int] = {}
        for k, slots in members:
            top = min(slots, key=lambda slot: (p.layout.places[slot].y, p.layout.places[slot].x))
            q, width = p.layout.places[top], 12 + 7 * len(str(k))
            x, y = q.x - q.width / 2 - 13 + taken.get(top, 0), q.y - q.height / 2 - 15
            taken[top] = taken.get(top, 0) + width + 2
            self.box(x, y, width, 16, 8, COLOURS[k % 8])
            self.text(x + width / 2, y + 8, str(k), 11, PAPER, "mm", bold=True)

    def node(self, c: Caption, p: Picture, kind: str, quiet: bool, stored: bool) -> None:
        stored = kind in ("memory", "stage") or (stored and not quiet)
        q = p.layout.places[c.slot]
        left, top = q.x - q.width / 2, q.y - q.height / 2
        radius = 3 if stored else 6 if quiet else min(q.height / 2, 18)
        edge = PALE if quiet else INK if stored or kind == "reduce" else GREY
        self.box(left, top, q.width, q.height, radius, FAINT if quiet else PAPER, edge, 2 if kind == "reduce" else 1.2)
        if stored:
            self.line([(left, top + q.height), (left + q.width, top + q.height)], INK, 4)
        if quiet and c.sub:
            self.text(left + 8, q.y, c.title, 11, GREY, "lm")
            self.text(left + q.width - 8, q.y, c.sub, 10, GREY, "rm", mono=True)
            return
        size = 11 if quiet else 12.5
        self.text(q.x, q.y - 6 if c.sub else q.y, c.title, size, INK, "mm", bold=not quiet)
        self.text(q.x, q.y + 9, c.sub, 10, GREY, "mm", mono=True)


def pale(colour: str) -> str:
    """A colour as it looks thin on paper."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - 0.17 * (255 - v)):02x}" for v in parts)


@cache
def _font(size: int, bold: bool, mono: bool) -> tuple[Any, bool]:
    """A font of this size, and whether it has plain letters only (Pillow's own, where no DejaVu is installed)."""
    from PIL import ImageFont

    name = f"DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    try:
        return ImageFont.truetype(name, size), False
    except OSError:
        return ImageFont.load_default(size), True
