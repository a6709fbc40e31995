"""Notebook widgets: :func:`explore` shows a schedule, and :class:`Explorer` is the widget it returns.

In: Tensors, a function, or a trace. Out: an anywidget with synced traits (``schedule``, ``stage``, ``step``,
``selection``, ``overrides``), so that ``jslink`` and ``interact`` can drive it.
"""

from tinysched.widgets.explorer import Explorer, explore

__all__ = ["Explorer", "explore"]
