"""The views below the graph, one line each: this and ``viewer/src/panels.js`` are the places that list them.

In: nothing. Out: :data:`PANELS`. A new view is a file of its own: a function that says it as text (for terminals, tests and
screen readers), one that computes what the viewer draws, and a line here and in ``panels.js``.

>>> [p.id for p in PANELS][:3]
['kernels', 'order', 'arena']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinysched.trace.document import Schedule
from tinysched.trace.trace import Trace
from tinysched.views import arenas, ranges, reads, roofline, text


@dataclass(frozen=True)
class Panel:
    """A view. ``text``: the same in words. ``data``: JSON values that travel to the viewer (``schedule.part(id)``)."""

    id: str
    text: Callable[[Trace, Schedule], str]
    data: Callable[[Trace, Schedule], Any] | None = None


PANELS = (
    Panel("kernels", lambda trace, s: text.kernels(s)),
    Panel("order", lambda trace, s: text.order(s)),
    Panel("arena", lambda trace, s: text.arenas(s), lambda trace, s: arenas.data(s)),
    Panel("bytes", lambda trace, s: text.traffic(s), lambda trace, s: roofline.data(s)),
    Panel("timeline", lambda trace, s: text.timeline(s)),
    Panel("values", lambda trace, s: text.values(s)),
    Panel("ranges", text.walk, lambda trace, s: ranges.data(s)),
    Panel("index", lambda trace, s: text.indices(s), lambda trace, s: reads.data(s)),
    Panel("rewrites", text.rewrites),
    Panel("compare", lambda trace, s: text.turned(s)),
    Panel("decisions", text.decisions),
    Panel("nodes", lambda trace, s: text.graph(s, s.stages[0]) if s.stages else ""),
)
