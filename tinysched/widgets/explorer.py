"""The explorer as a widget. It holds the viewer's bundle, a packed trace, and the way to run what it shows.

In: a Tensor, several, a function, or a trace. Out: :class:`Explorer`.

>>> from tinysched import Tensor
>>> explorer = explore(Tensor([1.0, 2.0]).realize() * 3, stage="rangeify", step=1)
>>> explorer.stage, explorer.step, len(explorer.trace.schedules[0].kernels)
('rangeify', 1, 1)
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from html import escape
from typing import Any

import anywidget
import traitlets

from tinysched import viewer
from tinysched.errors import ArgumentError, TinyschedError
from tinysched.ir.lines import user_frame
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import Captured, Traced, watch
from tinysched.trace.codec import encode
from tinysched.trace.document import Trace
from tinysched.trace.names import tensors_in, variables_of
from tinysched.views.document import packed
from tinysched.views.panels import PANELS
from tinysched.views.svg import data_uri, to_svg
from tinysched.views.text import summary

HEIGHT = 640
VIEWS = ("graph", *(panel.id for panel in PANELS))
"""What can be in sight at first: the graph alone, or one of the tables below it."""


class Explorer(anywidget.AnyWidget):
    """The explorer. ``trace`` is what it shows; moving in the browser moves the traits, and the other way round."""

    _esm = viewer.SCRIPT
    _css = viewer.STYLE

    schedule = traitlets.Int(0).tag(sync=True)
    stage = traitlets.Unicode("").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selection = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    overrides = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    height = traitlets.Int(HEIGHT).tag(sync=True)
    view = traitlets.Unicode("graph").tag(sync=True)
    _packed = traitlets.Bytes().tag(sync=True)
    _run = traitlets.Unicode("").tag(sync=True)
    _can_run = traitlets.Bool(False).tag(sync=True)

    def __init__(self, captured: Captured, source: Traced | None = None, **traits: Any) -> None:
        self._captured, self._source = captured, source
        self._named = _named_tensors() if source is not None else []
        last = max(len(captured.trace.schedules) - 1, 0)
        first = {"schedule": last, "stage": _first_stage(captured.trace), "_can_run": captured.plan is not None}
        super().__init__(_packed=packed(captured.trace), **{**first, **traits})
        self.on_msg(self._asked)

    @property
    def trace(self) -> Trace:
        """What is shown, with the times and values of the last run."""
        return self._captured.trace

    def run(self, values: Any = True) -> Trace:
        """Runs what is shown (as ``realize`` would) and shows times and values."""
        trace = self._captured.run(values)
        done = trace.schedules[-1].run if trace.schedules else None
        if done is not None:
            self._run = json.dumps(encode(done), separators=(",", ":"), allow_nan=False)
        return trace

    def _asked(self, _: Any, content: Any, buffers: Any) -> None:
        """The run button. What goes wrong is said in the explorer: a callback has no cell to raise in."""
        if not isinstance(content, Mapping) or content.get("kind") != "run":
            return
        try:
            self._run = ""
            self.run()
        except Exception as error:
            text = str(error) if isinstance(error, TinyschedError) else f"{type(error).__name__}: {error}"
            self.send({"kind": "failed", "text": text})

    @traitlets.observe("overrides")
    def _what_if(self, change: Any) -> None:
        """Schedules again with some decisions turned."""
        if self._source is None or change.old is traitlets.Undefined:
            return
        inputs = {name: tensor for name, ref in self._named if (tensor := ref()) is not None}
        self._captured = watch(self._source, inputs, self.trace.title, {"overrides": change.new or None})
        self._run = ""
        self._packed = packed(self.trace)

    # ** what stays where no widget lives **

    def _ipython_display_(self) -> None:
        """Two outputs: a picture and a text, which stay in a saved notebook, and the widget, which hides the picture."""
        from IPython.display import display

        show: Any = display  # IPython is untyped
        show(_still(self.trace), raw=True)
        if (bundle := self._repr_mimebundle_()) is not None:
            show(bundle[0], metadata=bundle[1], raw=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle and ({**bundle[0], "text/plain": summary(self.trace)}, bundle[1])


def _named_tensors() -> list[tuple[str, weakref.ref[Tensor]]]:
    """What the user's variables call their Tensors, for when a callback, far from them, captures again."""
    frame = user_frame()
    scopes = (variables_of(frame), frame.f_globals) if frame is not None else ()
    return [(name, weakref.ref(tensor)) for scope in scopes for name, tensor in tensors_in(scope)]


def _still(trace: Trace) -> dict[str, str]:
    """A picture as an <img> (hidden by the viewer's style sheet while a widget lives), and the same as text."""
    text = summary(trace)
    if not trace.schedules:
        return {"text/plain": text}
    picture = f'<img class="ts-still" style="max-width:100%" alt="{escape(text)}" src="{data_uri(to_svg(trace))}">'
    return {"text/html": picture, "text/plain": text}


def _first_stage(trace: Trace) -> str:
    return trace.schedules[-1].stages[0].name if trace.schedules else ""


def explore(
    x_or_trace: Traced | Trace,
    *,
    view: str = "graph",
    stage: str | int | None = None,
    step: int | None = None,
    node: str | int | None = None,
    overrides: Mapping[Any, str] | None = None,
    height: int = HEIGHT,
) -> Explorer:
    """Shows what scheduling ``x_or_trace`` does. Nothing is computed until its run button (or :meth:`Explorer.run`).

    ``view``: a table to open below the graph. ``stage``, ``step`` and ``node`` (a number, or a Tensor's name): where to
    start. Raises :class:`ArgumentError` for places that do not exist.
    """
    if view not in VIEWS:
        raise ArgumentError(f"there is no view {view!r}", help=f"there are: {', '.join(VIEWS)}")
    if isinstance(x_or_trace, Trace):
        captured, source = Captured(x_or_trace, None), None
    else:
        captured, source = watch(x_or_trace, None, None, {"overrides": overrides}), x_or_trace
    traits: dict[str, Any] = {"height": height, "view": view, "step": step or 0}
    if captured.trace.schedules:
        schedule = captured.trace.schedules[-1]
        if stage is not None:
            traits["stage"] = schedule.stage(stage).name
        if node is not None:
            traits |= _place(captured.trace, _node(captured.trace, node), traits, step)
    return Explorer(captured, source, **traits)


def _place(trace: Trace, node: int, traits: Mapping[str, Any], step: int | None) -> dict[str, Any]:
    """A node as the selection; where no step was asked for, the one that decided about it (in the stage asked for)."""
    place: dict[str, Any] = {"selection": {"kind": "node", "id": node}}
    stages = [s.name for s in trace.schedules[-1].stages]
    told = [t for t in trace.decisions.why(node, schedule=-1).chain if traits.get("stage") in (None, stages[t.stage])]
    if step is None and told:
        place |= {"stage": stages[told[-1].stage], "step": told[-1].step + 1}
    return place


def _node(trace: Trace, node: str | int) -> int:
    """A node by its number or by the user's name."""
    nodes = trace.schedules[-1].nodes
    if isinstance(node, int) and 0 <= node < len(nodes):
        return node
    names = [n.name for n in nodes]
    if node not in names:
        known = ", ".join(dict.fromkeys(n for n in names if n)) or "none"
        raise ArgumentError(f"there is no node {node!r}", help=f"a number below {len(nodes)}, or one of: {known}")
    return names.index(str(node))
