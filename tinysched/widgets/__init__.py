"""Notebook widgets: :func:`explore` shows a schedule in an :class:`Explorer`; its parts are widgets too.

In: Tensors, a function, or a trace. Out: anywidgets with synced traits (``schedule``, ``stage``, ``step``, ``selection``,
``overrides``), so that ``jslink`` and ``interact`` can drive them. Widgets of one trace move together.
"""

from tinysched.widgets.explorer import Explorer, explore
from tinysched.widgets.small import (
    ArenaView,
    BytesView,
    DecisionsView,
    GraphView,
    IndexExplorer,
    KernelView,
    OrderView,
    RangesView,
    RewriteStepper,
    TimelineView,
    ValuesView,
    WhyView,
)

__all__ = [
    "ArenaView", "BytesView", "DecisionsView", "Explorer", "GraphView", "IndexExplorer", "KernelView", "OrderView",
    "RangesView", "RewriteStepper", "TimelineView", "ValuesView", "WhyView", "explore",
]  # fmt: skip
