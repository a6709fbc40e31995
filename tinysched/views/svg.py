"""The graph as an SVG picture, for places without JavaScript: saved notebooks, code-hosting pages, documents.

In: a trace, a stage (by name or number), a step. Out: SVG text with a viewBox; nothing in it is looked up elsewhere, and no
element has an id, so that two pictures on a page do not meet. Labels are escaped.

>>> from tinysched.trace.document import Node, Schedule, Stage
>>> t = Trace("t", (Schedule("s", (Node("PARAM", "float32", "<p>", "memory"),), (Stage("tensor graph", 0, 0),)),))
>>> "<p>" in to_svg(t), "&lt;p&gt;" in to_svg(t)
(False, True)
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator
from html import escape

from tinysched.errors import ArgumentError
from tinysched.trace.document import Schedule
from tinysched.trace.trace import Trace
from tinysched.views.layout import Place, Point
from tinysched.views.picture import COLOURS, Caption, Picture, draw, is_quiet
from tinysched.views.static import dot_svg, find, to_dot

MOST_NODES = 500
"""Of a larger stage the picture shows the kernels alone, unless that stage was asked for."""
PAD, HEAD = 24, 34
INK, GREY, PALE, PAPER, FAINT = "#1c2024", "#60666d", "#cfd4d9", "#fff", "#f6f7f8"
"""A picture has its own paper, so it reads the same on light and dark pages."""


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; ``stroke_width`` is written ``stroke-width``, floats as short as they can be."""
    written = "".join(f' {k.replace("_", "-")}="{_text(v)}"' for k, v in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def to_svg(
    trace: Trace,
    stage: str | int | None = None,
    step: int | None = None,
    schedule: int = -1,
    engine: str = "own",
) -> str:
    """The graph of a stage with its kernels after ``step`` steps (by default: what the user wrote, as it came out).

    ``engine="dot"``: laid out by Graphviz, where there is one and the graph has at most :data:`MOST_NODES` nodes.
    """
    if engine not in ("own", "dot"):
        raise ArgumentError(f"there is no engine {engine!r:.40}", help="engine='own' or engine='dot'")
    title, s, picture, shown, edges = shown_by_default(trace, stage, step, schedule, MOST_NODES)
    if engine == "dot" and len(shown) <= MOST_NODES:
        drawn = dot_svg(
            to_dot(trace, 0 if stage is None else stage, len(picture.steps) if step is None else step, schedule).source
        )
        if drawn is not None:
            return drawn
    return _frame(title, picture, "".join(drawing(s, picture, shown, edges)))


def shown_by_default(
    trace: Trace, stage: str | int | None, step: int | None, schedule: int, most: int
) -> tuple[str, Schedule, Picture, dict[int, Caption], list[int]]:
    """What a still picture shows: its title, and what is visible. Without a stage: the user's graph, as it came out; its
    kernels alone where that has more than ``most`` nodes."""
    s, where = find(trace, 0 if stage is None else stage, schedule)
    picture = draw(s, where)
    if stage is None and len(picture.hulls) > most:
        where = s.stages[-1]
        picture = draw(s, where)
    shown, edges = picture.at(len(picture.steps) if step is None else step)
    count = f", {len(s.kernels)} kernel{'s' * (len(s.kernels) != 1)}" if s.kernels else ""
    at = f", step {step}" if step else ""
    title = f"{s.title}: {where.name}{at}{count}"
    return title, s, picture, shown, sorted(edges)


def data_uri(svg: str) -> str:
    """The picture as the ``src`` of an <img>, which code-hosting pages keep where they drop inline SVG."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _frame(title: str, p: Picture, drawing: str) -> str:
    width, height = max(p.layout.width, 260) + 2 * PAD, p.layout.height + 2 * PAD + HEAD
    head = tag("text", escape(title), x=PAD, y=24, font_size=14, font_weight=600, fill=INK)
    parts = [tag("title", escape(title)), tag("rect", width="100%", height="100%", fill=PAPER), head]
    body = tag("g", drawing, transform=f"translate({PAD} {PAD + HEAD})")
    return tag(
        "svg",
        "".join([*parts, body]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        font_family="system-ui, DejaVu Sans, sans-serif",
        role="img",
    )


def drawing(s: Schedule, p: Picture, shown: dict[int, Caption], edges: list[int]) -> Iterator[str]:
    """What is visible, as elements: hulls, edges, nodes, badges."""
    routes = {e: route for e in edges if (route := p.layout.routes[e]) is not None}
    members = p.members(shown)
    for k, slots in members:
        yield _hull(p, k, slots, routes)
    for route in routes.values():
        yield tag("path", d=path(route), fill="none", stroke="#8a9099")
    stored = {b.node for b in s.buffers}
    for slot, caption in sorted(shown.items()):
        node = s.nodes[caption.node]
        yield _node(caption, p.layout.places[slot], node.kind, is_quiet(node), caption.node in stored)
    yield from _badges(p, members)


def path(route: tuple[Point, ...]) -> str:
    """A route that leaves and enters each rank straight down."""
    text = f"M{route[0][0]:g} {route[0][1]:g}"
    for (x0, y0), (x1, y1) in itertools.pairwise(route):
        middle = (y0 + y1) / 2
        text += f"L{x1:g} {y1:g}" if x0 == x1 else f"C{x0:g} {middle:g} {x1:g} {middle:g} {x1:g} {y1:g}"
    return text


def _hull(p: Picture, k: int, slots: Iterable[int], routes: dict[int, tuple[Point, ...]]) -> str:
    """A kernel: its nodes and the edges between them, drawn fat."""
    inside = set(slots)
    parts = [
        tag("path", d=path(route), fill="none", stroke_width=26, stroke_linecap="round")
        for e, route in routes.items()
        if inside.issuperset(p.edges[e])
    ]
    for slot in sorted(inside):
        q = p.layout.places[slot]
        left, top = q.x - q.width / 2 - 9, q.y - q.height / 2 - 9
        parts.append(tag("rect", x=left, y=top, width=q.width + 18, height=q.height + 18, rx=14, stroke="none"))
    return tag("g", "".join(parts), opacity=0.16, fill=COLOURS[k % 8], stroke=COLOURS[k % 8])


def _badges(p: Picture, members: Iterable[tuple[int, list[int]]]) -> Iterator[str]:
    """The kernels' numbers, side by side where several start at one node."""
    taken: dict[int, int] = {}
    for k, slots in members:
        top = min(slots, key=lambda slot: (p.layout.places[slot].y, p.layout.places[slot].x))
        q, width = p.layout.places[top], 12 + 7 * len(str(k))
        x, y = q.x - q.width / 2 - 13 + taken.get(top, 0), q.y - q.height / 2 - 15
        taken[top] = taken.get(top, 0) + width + 2
        yield tag("rect", x=x, y=y, width=width, height=16, rx=8, fill=COLOURS[k % 8])
        place = {"x": x + width / 2, "y": y + 12, "text_anchor": "middle"}
        yield tag("text", str(k), font_size=11, font_weight=700, fill=PAPER, **place)


def _node(c: Caption, q: Place, kind: str, quiet: bool, stored: bool) -> str:
    stored = kind in ("memory", "stage") or (stored and not quiet)
    x, y = q.x - q.width / 2, q.y - q.height / 2
    box = tag(
        "rect",
        x=x,
        y=y,
        width=q.width,
        height=q.height,
        rx=3 if stored else 6 if quiet else min(q.height / 2, 18),
        fill=FAINT if quiet else PAPER,
        stroke=PALE if quiet else INK if stored or kind == "reduce" else GREY,
        stroke_width=2 if kind == "reduce" else 1.2,
    )
    floor = tag("path", d=f"M{x:g} {y + q.height:g}h{q.width:g}", stroke=INK, stroke_width=4) if stored else ""
    return box + floor + _caption(c, q, quiet)


def _caption(c: Caption, q: Place, quiet: bool) -> str:
    title, sub = escape(c.title), escape(c.sub)
    if quiet and sub:
        left, right = q.x - q.width / 2 + 8, q.x + q.width / 2 - 8
        small = {"y": q.y + 4, "fill": GREY}
        return tag("text", title, x=left, font_size=11, **small) + tag(
            "text", sub, x=right, font_size=10, text_anchor="end", font_family="monospace", **small
        )
    middle = {"x": q.x, "text_anchor": "middle"}
    size, weight = (11, 400) if quiet else (12.5, 600)
    head = tag("text", title, y=q.y - 2 if sub else q.y + 4, font_size=size, font_weight=weight, fill=INK, **middle)
    return head + (
        tag("text", sub, y=q.y + 12, font_size=10.5, fill=GREY, font_family="monospace", **middle) if sub else ""
    )
