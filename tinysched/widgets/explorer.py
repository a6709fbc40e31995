"""The explorer as a widget.

In: a Tensor, several, a function, or a trace. Out: :class:`Explorer`.

>>> from tinysched import Tensor
>>> explorer = explore(Tensor([1.0, 2.0]).realize() * 3, stage="rangeify", step=1)
>>> explorer.stage, explorer.step, len(explorer.trace.schedules[0].kernels)
('rangeify', 1, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.trace.capture import Traced, watch
from tinysched.trace.trace import Trace
from tinysched.views.panels import PANELS
from tinysched.widgets.session import Session, session_of
from tinysched.widgets.view import HEIGHT, View

VIEWS = ("graph", *(panel.id for panel in PANELS))
"""What can be in sight at first: the graph alone, or one of the tables below it."""


class Explorer(View):
    """The whole explorer; see :class:`~tinysched.widgets.view.View` for its traits."""


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
    session = (
        session_of(x_or_trace)
        if isinstance(x_or_trace, Trace)
        else Session(watch(x_or_trace, None, None, {}), x_or_trace)
    )
    if overrides:
        session.turn(overrides)
    trace = session.trace
    traits: dict[str, Any] = {"height": height, "view": view, "step": step or 0}
    if trace.schedules:
        schedule = trace.schedules[-1]
        if stage is not None:
            traits["stage"] = schedule.stage(stage).name
        if node is not None:
            traits |= _place(trace, _node(trace, node), traits, step)
    return Explorer(session, **traits)


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
