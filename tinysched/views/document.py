"""What the viewer is given: a trace, its pictures and its sentences, as one JSON text, compressed for the way.

In: a trace. Out: ``document(trace)`` (JSON values), ``packed(trace)`` (zlib bytes of it, the same for the same trace).
Positions are computed here, so that the viewer only draws.

>>> from tinysched.trace.trace import Trace
>>> document(Trace("nothing"))["pictures"]
[]
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

from tinysched.engine.plan import collector_paused
from tinysched.explain import sentence
from tinysched.trace.codec import encode
from tinysched.trace.document import Schedule, Stage
from tinysched.trace.progress import report, shown
from tinysched.trace.trace import SCHEMA, Trace
from tinysched.views.panels import PANELS
from tinysched.views.picture import Caption, Change, Picture, Shared, draw, shared
from tinysched.views.ways import ways

FORMAT = 0
"""Of the document around the trace; the viewer refuses others."""


@collector_paused()
def document(trace: Trace) -> dict[str, Any]:
    """The viewer's document."""
    known = [shared(s) for s in trace.schedules]
    return {
        "format": FORMAT,
        "trace": {"schema": SCHEMA, "tinysched": trace.tinysched, **encode(trace)},
        "pictures": [_pictures(s, k) for s, k in zip(trace.schedules, known)],
        "names": [{str(i): name for i, name in k.names.items()} for k in known],
        "kernels": [_kernels(s, k) for s, k in zip(trace.schedules, known)],
        "parts": [{p.id: p.data(trace, s) for p in PANELS if p.data is not None} for s in trace.schedules],
        "ways": [ways(trace, s) for s in trace.schedules],
        "texts": [[_texts(trace, s, stage) for stage in s.stages] for s in trace.schedules],
    }


def _pictures(s: Schedule, known: Shared) -> list[dict[str, Any]]:
    """A picture per pass. Laying them out is what takes long where the graph is large."""
    found = []
    for i, stage in enumerate(s.stages):
        report(f"drawing {stage.name}", i, len(s.stages))
        found.append(_picture(draw(s, stage, known)))
    return found


def packed(trace: Trace) -> bytes:
    """The document, compressed."""
    with shown():
        return squeezed(document(trace))


def squeezed(doc: dict[str, Any]) -> bytes:
    """A document as it travels. Each picture is a text of its own: the viewer reads it when somebody comes to that pass, and
    how many steps it has, which is all that is shown before, stands beside."""
    pictures = [[_json(p) for p in of] for of in doc["pictures"]]
    lengths = [[len(p["steps"]) for p in of] for of in doc["pictures"]]
    return zlib.compress(_json({**doc, "pictures": pictures, "lengths": lengths}).encode(), 6)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _texts(trace: Trace, schedule: Schedule, stage: Stage) -> list[str]:
    return [sentence(trace, schedule, step) for step in stage.steps]


def _kernels(schedule: Schedule, known: Shared) -> dict[str, Any] | None:
    """The kernels as a graph, for the drawer: it is there at every stage."""
    ordered = [stage for stage in schedule.stages if schedule.nodes[stage.end].op == "LINEAR"]
    return _picture(draw(schedule, replace(ordered[-1], steps=()), known)) if ordered else None


def _picture(p: Picture) -> dict[str, Any]:
    return {
        "size": [p.layout.width, p.layout.height],
        "slots": [[*map(round, (q.x, q.y, q.width, q.height)), list(h)] for q, h in zip(p.layout.places, p.hulls)],
        "edges": [[a, b, _flat(route)] for (a, b), route in zip(p.edges, p.layout.routes)],
        "start": [_shown(c) for c in p.start],
        "startEdges": list(p.start_edges),
        "steps": [_change(c) for c in p.steps],
    }


def _flat(route: tuple[tuple[float, float], ...] | None) -> list[float] | None:
    return None if route is None else [round(v) for point in route for v in point]


def _shown(c: Caption) -> list[Any]:
    return [c.slot, c.node, c.title, c.sub]


def _change(c: Change) -> dict[str, Any]:
    """Only what a step changes."""
    found = {
        "add": [_shown(s) for s in c.add],
        "remove": list(c.remove),
        "change": [_shown(s) for s in c.change],
        "rename": [[s.slot, s.node] for s in c.rename],
        "reroute": list(c.reroute),
        "on": list(c.on),
        "off": list(c.off),
        "focus": list(c.focus),
    }
    return {k: v for k, v in found.items() if v}
