"""What stands where no widget lives: for each part of the explorer the picture that says the same, and its words.

In: a trace, a part ("explorer", "graph", "why" or the id of a panel) and the place where it opens. Out: :class:`Still`.
The arena is drawn as memory over time, the order as kernels that wait for one another, the graph at its pass and step;
parts that are tables are their words, and "why" is about the selection alone.

>>> from tinysched import Tensor, capture
>>> trace = capture((Tensor([1.0, 2.0]).realize() * 3).sum() + 1)
>>> [bool(still(trace, part, {}).png) for part in ("graph", "order", "arena", "decisions")]
[True, True, False, False]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinysched.explain.decisions import Decisions
from tinysched.explain.speak import size
from tinysched.trace.document import Schedule
from tinysched.trace.trace import Trace
from tinysched.views.areas import Area, Block, areas_png
from tinysched.views.panels import PANELS
from tinysched.views.picture import buffer_name, draw
from tinysched.views.png import MOST_NODES, to_png
from tinysched.views.text import decisions, summary

Place = Mapping[str, Any]
"""Where a view opens: "schedule", "stage", "step", "selection", "view"; what is left out is as at the start."""


@dataclass(frozen=True)
class Still:
    """``png`` is None where words say it better."""

    png: bytes | None
    text: str


def still(trace: Trace, part: str, place: Place) -> Still:
    """The picture and the words of ``part``."""
    if not trace.schedules:
        return Still(None, summary(trace))
    s = trace.schedules[place.get("schedule", -1)]
    shown = place.get("view", "graph") if part == "explorer" else part
    png = _pictured(trace, s, shown, place)
    if part == "why":
        return Still(None, _why(trace, s, place.get("selection")))
    if part in ("explorer", "graph"):
        return Still(png or _graph(trace, s, place), summary(trace))
    panel = next(p for p in PANELS if p.id == part)
    return Still(png, panel.text(trace, s))


def _pictured(trace: Trace, s: Schedule, shown: str, place: Place) -> bytes | None:
    """The picture of a view that has one of its own."""
    if shown == "arena" and s.memory.lanes:
        return arena_png(s)
    if shown == "order" and s.kernels:
        stage = next((i for i, found in enumerate(s.stages) if found.name == "order"), len(s.stages) - 1)
        return to_png(trace, stage, schedule=trace.schedules.index(s))
    return None


def _graph(trace: Trace, s: Schedule, place: Place) -> bytes:
    """The graph where it opens; from the start, the user's graph as it came out."""
    stage = next((i for i, found in enumerate(s.stages) if found.name == place.get("stage")), 0)
    schedule = trace.schedules.index(s)
    if stage == 0 or len(draw(s, s.stages[stage]).hulls) > MOST_NODES:
        return to_png(trace, schedule=schedule)
    return to_png(trace, stage, place.get("step", 0), schedule)


def _why(trace: Trace, s: Schedule, selection: Mapping[str, Any] | None) -> str:
    """The decisions about what is selected, else all."""
    kind, which = (selection or {}).get("kind"), (selection or {}).get("id")
    nodes: list[int | None] = []
    if kind == "node":
        nodes = [which]
    elif kind == "kernel" and which is not None:
        nodes = [s.buffers[s.kernels[which].buffers[w]].node for w in s.kernels[which].writes]
    elif kind == "buffer" and which is not None:
        nodes = [s.buffers[which].node]
    told = [str(Decisions(trace).why(n, schedule=trace.schedules.index(s))) for n in nodes if n is not None]
    return "\n\n".join(told) or decisions(trace, s)


# ** the arena **


def arena_png(s: Schedule) -> bytes:
    """The arenas of all devices; a block has the colour of the kernel that writes it."""
    writer = {kernel.buffers[w]: k for k, kernel in reversed([*enumerate(s.kernels)]) for w in kernel.writes}
    areas = []
    for i, lane in enumerate(s.memory.lanes):
        places = [p for p in s.memory.placements if p.lane == i]
        blocks = [
            Block(buffer_name(s, p.buffer), p.offset_bytes, p.bytes, p.first, p.last, writer.get(p.buffer, 0))
            for p in places
        ]
        title = f"arena of {lane.device}{', what copies read or write' * lane.copy}: {size(lane.arena_bytes)}"
        note = f"line: the least possible, {size(lane.lower_bound_bytes)}; without reuse {size(lane.unplanned_bytes)}"
        areas.append(Area(title, note, lane.arena_bytes, lane.lower_bound_bytes, blocks))
    return areas_png(areas, len(s.kernels))
