"""Notebook widgets: :func:`explore` shows a schedule in an :class:`Explorer`; its parts are widgets too.

In: Tensors, a function, or a trace. Out: anywidgets with synced traits (``schedule``, ``stage``, ``step``, ``selection``,
``overrides``), so that ``jslink`` and ``interact`` can drive them. Widgets of one trace move together.
"""

from tinysched.widgets.explorer import Explorer, explore
from tinysched.widgets.small import ArenaView, GraphView, KernelView, OrderView, WhyView

__all__ = ["ArenaView", "Explorer", "GraphView", "KernelView", "OrderView", "WhyView", "explore"]
