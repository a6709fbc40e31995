"""How the engine is watched: a small protocol, and who watches in this context.

In: nothing. Out: :class:`Observer` (what is told) and :func:`current_observer` (None when nobody watches, which costs one
look-up per pass). The engine never imports those who watch.

>>> with watching(None):
...     print(current_observer())
None
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tinysched.ir.decision import Decision
    from tinysched.ir.pattern import Rule
    from tinysched.ir.uop import UOp


class Observer(Protocol):
    """What the engine tells while it works."""

    def on_stage(self, name: str, doc: str, root: UOp) -> None:
        """A stage starts with the graph ``root``."""

    def on_stage_end(self, name: str, root: UOp) -> None:
        """A stage ends with the graph ``root``."""

    def on_rewrite(self, rule: Rule, before: UOp, after: UOp) -> None:
        """A rule replaced one node by another."""

    def on_replace(self, before: UOp, after: UOp) -> None:
        """A node was rebuilt because something below it changed."""

    def on_index(self, rule: str, doc: str, x: Any, d: int, result: Any) -> None:
        """A mixed-radix rule took ``x // d`` and ``x % d`` (normal forms) to ``result``."""

    def on_decision(self, decision: Decision) -> None:
        """A pass decided something about a node, for or against."""

    def on_event(self, kind: str, data: dict[str, Any]) -> None:
        """Anything else: 'ranges' of a node, nodes 'copied' for another reader, what nodes became in a 'kernel', 'order'
        edges, a 'placement', a 'cache' look-up, a 'run' of a kernel."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("tinysched_observer", default=None)
current_observer = _OBSERVER.get


@contextmanager
def watching(observer: Observer | None) -> Iterator[None]:
    """Within the block ``observer`` (or nobody) is told what the engine does in this context."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)
