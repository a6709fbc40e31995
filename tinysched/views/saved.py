"""What a notebook keeps of an explorer when no kernel is there: a picture, and a page that steps by itself.

In: a trace. Out: display bundles. The picture shows wherever a notebook is shown; the page starts in a trusted notebook, and
then hides the picture before it and the dead widget after it. A page is at most :data:`BUDGET` bytes: of a larger trace the
longest passes lose their steps, and the page says which.

>>> from tinysched import Tensor, capture
>>> sorted(picture_output(capture(Tensor([1.0, 2.0]).realize() * 3))[0])
['image/png', 'text/plain']
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import cache
from html import escape
from typing import Any

from tinysched import viewer
from tinysched.trace.trace import Trace
from tinysched.views.document import document, squeezed
from tinysched.views.png import SCALE
from tinysched.views.stills import Place, still

BUDGET = 1_000_000
"""Bytes of one output: more would make notebooks slow to save, and code-hosting pages refuse them."""
_HTML = """<div class="ts-saved">\
<p class="ts-saved-note">{note}</p>\
<script type="application/json" class="ts-saved-data">{data}</script>\
<script type="module">{loader}</script>\
</div>"""
_NOTE = "The explorer steps here without a kernel once this notebook is trusted (in JupyterLab: Trust Notebook)."
_TOO_LARGE = "This trace is too large to be kept in a notebook: trace.to_html('explorer.html') writes it to a file."


def picture_output(
    trace: Trace, part: str = "explorer", place: Place | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    """A picture and the same in words (of some parts words alone), and how large the picture is to be shown."""
    found = still(trace, part, place or {})
    if found.png is None:
        return {"text/plain": found.text}, {}
    width, height = (int.from_bytes(found.png[i : i + 4]) // SCALE for i in (16, 20))  # of a PNG's header
    data = {"image/png": _base64(found.png), "text/plain": found.text}
    return data, {"image/png": {"width": width, "height": height}}


def page_output(trace: Trace, part: str, height: int, place: dict[str, Any], budget: int = BUDGET) -> dict[str, str]:
    """A page for one output. ``part``: "explorer", or a part of it by itself; ``place``: where it opens."""
    if not trace.schedules:
        return {"text/html": '<div class="ts-saved"></div>', "text/plain": ""}
    shell = len(_page({"doc": "", "part": part, "height": height, "place": place}))
    packed = fitted(trace, (budget - shell) * 3 // 4)
    if packed is None:
        return {"text/html": f'<div class="ts-saved"><p>{escape(_TOO_LARGE)}</p></div>', "text/plain": _TOO_LARGE}
    group = "" if part == "explorer" else hashlib.sha256(packed).hexdigest()[:12]  # parts of one trace move together
    html = _page({"doc": _base64(packed), "part": part, "height": height, "place": place, "group": group})
    return {"text/html": html, "text/plain": ""}


def _page(data: dict[str, Any]) -> str:
    text = json.dumps({**data, **_viewer()}, separators=(",", ":")).replace("<", "\\u003c")
    return _HTML.format(note=escape(_NOTE), data=text, loader=viewer.loader())


@cache
def _viewer() -> dict[str, str]:
    """The viewer's script and style, compressed: every output has its own."""
    return {
        "script": _base64(zlib.compress(viewer.script().encode(), 9)),
        "style": _base64(zlib.compress(viewer.style().encode(), 9)),
    }


def fitted(trace: Trace, most: int) -> bytes | None:
    """The packed document in at most ``most`` bytes: the longest passes lose their steps, then their graphs; kernels, their
    order and the arena stay. None: not even so."""
    doc = document(trace)
    found = squeezed(doc)
    if len(found) <= most:
        return found
    doc["left_out"] = []
    for leave_out in (_without_steps, _without_graph):
        for s, k in _by_size(doc):
            if leave_out(doc, s, k):
                found = squeezed(doc)
                if len(found) <= most:
                    return found
    return None


def _by_size(doc: dict[str, Any]) -> list[tuple[int, int]]:
    """Schedule and pass of each picture, the largest first."""
    pictures = [(s, k, p) for s, pictures in enumerate(doc["pictures"]) for k, p in enumerate(pictures)]
    return [(s, k) for s, k, p in sorted(pictures, key=lambda found: -len(json.dumps(found[2])))]


def _without_steps(doc: dict[str, Any], s: int, k: int) -> bool:
    """Leaves the start of a pass and nothing else; False where there is no more than that."""
    stage, picture = doc["trace"]["schedules"][s]["stages"][k], doc["pictures"][s][k]
    if not picture["steps"]:
        return False
    doc["left_out"].append(f"{len(picture['steps']):,} steps of {stage['name']}")
    visible = {c[0] for c in picture["start"]}
    stage["steps"], stage["replaced"], doc["texts"][s][k], picture["steps"] = [], [], [], []
    picture["edges"] = [[a, b, route if {a, b} <= visible else None] for a, b, route in picture["edges"]]
    return True


def _without_graph(doc: dict[str, Any], s: int, k: int) -> bool:
    """Leaves nothing of a pass but its name; False for those of kernels, which are small and tell most."""
    schedule = doc["trace"]["schedules"][s]
    stage = schedule["stages"][k]
    if schedule["nodes"][stage["end"]]["op"] == "LINEAR":
        return False
    doc["left_out"].append(f"the graph of {stage['name']}")
    doc["pictures"][s][k] = {"size": [1, 1], "slots": [], "edges": [], "start": [], "startEdges": [], "steps": []}
    return True


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
