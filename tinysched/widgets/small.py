"""Parts of the explorer as widgets of their own, to be laid out as a lesson likes: they move together.

In: an :class:`Explorer` (or another small widget) to go along with, a trace, or something to capture. Out: a widget with the
same traits. Widgets of one trace are in step with one another, in the browser, so also without a kernel.

>>> from tinysched import Tensor, capture
>>> trace = capture(Tensor([1.0, 2.0]).realize() * 3)
>>> graph, why = GraphView(trace, stage="rangeify"), WhyView(trace)
>>> graph.part, why.part, graph.trace is why.trace
('graph', 'why', True)
"""

from __future__ import annotations

from typing import Any, ClassVar

from tinysched.trace.capture import Traced, watch
from tinysched.trace.trace import Trace
from tinysched.widgets.session import Session, session_of
from tinysched.widgets.view import View


class _Part(View):
    """One part. Traits start where those of the widget that it goes along with are."""

    _part: ClassVar[str]
    _height: ClassVar[int] = 360

    def __init__(self, x: View | Trace | Traced, **traits: Any) -> None:
        given = {k: getattr(x, k) for k in ("schedule", "stage", "step", "selection")} if isinstance(x, View) else {}
        super().__init__(_session(x), **{"height": self._height, **given, **traits})
        self.set_trait("part", self._part)


class GraphView(_Part):
    """The graph at a step."""

    _part, _height = "graph", 480


class WhyView(_Part):
    """What was decided about the selection, and what would change it."""

    _part = "why"


class KernelView(_Part):
    """The kernels and their programs."""

    _part = "kernels"


class OrderView(_Part):
    """The order of the kernels, and why."""

    _part, _height = "order", 560


class ArenaView(_Part):
    """Where in memory intermediates lie."""

    _part, _height = "arena", 470


class RangesView(_Part):
    """The walk of rangeify: the loops that flow from readers to sources, node by node."""

    _part, _height = "ranges", 420


class IndexExplorer(_Part):
    """Which elements an element reads, through every movement op, and who reads it."""

    _part, _height = "index", 480


class RewriteStepper(_Part):
    """One rewrite at a time: the rule, what it matched, what it left, and its code."""

    _part, _height = "rewrites", 460


class BytesView(_Part):
    """Bytes and operations of each kernel against the machine's limits, and fused against one kernel per operation."""

    _part = "bytes"


class TimelineView(_Part):
    """A run in order: kernels over time, by device."""

    _part, _height = "timeline", 260


class ValuesView(_Part):
    """The values that a run kept: heat maps, histograms, two of them compared."""

    _part = "values"


class DecisionsView(_Part):
    """Every decision, to sort and to filter."""

    _part = "decisions"


def _session(x: View | Trace | Traced) -> Session:
    if isinstance(x, View):
        return x._session
    return session_of(x) if isinstance(x, Trace) else Session(watch(x, None, None, {}), x)
