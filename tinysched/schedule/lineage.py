"""Names for nodes that passes make, and where each node went: so that an override can mean any of them.

In: the nodes that scheduling starts from, then every (old, new) that is told. Out: of each node its name, and of each name
the node that it is now. A node of callify's body is its own name; one that a rule made beside what it replaced is named by
where it came from: ``(origin, rule, ordinal)``, the ordinal counting what this rule made of this origin. It works on nodes
and on a trace's ids alike.

>>> below = {"sum": ["x"], "sum of sums": ["sums"], "sums": ["x"], "x": []}
>>> way = Lineage(["sum", "x"], below.__getitem__)
>>> way.became("sum", "sum of sums", "split_reduceop")
>>> way.name["sums"], way.now["sum"]
(('sum', 'split_reduceop', 0), 'sum of sums')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tinysched.errors import ScheduleError
from tinysched.ir.observe import Observer
from tinysched.ir.sharding import parts_of
from tinysched.ir.uop import UOp

if TYPE_CHECKING:
    from tinysched.ir.pattern import Rule

N = TypeVar("N")
Name = Any
"""A node that scheduling starts from, or (the name of the origin, rule, ordinal)."""


class Lineage(Generic[N]):
    """Where nodes came from and what they are now; see the module."""

    def __init__(self, start: Iterable[N], sources: Callable[[N], Iterable[N]]):
        self.name: dict[N, Name] = {u: u for u in start}
        self.now: dict[Name, N] = {u: u for u in self.name}
        self._sources = sources
        self._seen = set(self.name)
        self._made: Counter[Name] = Counter()

    def became(self, old: N, new: N, rule: str = "") -> None:
        """``old`` is ``new`` now: by a rule, or (without one) because something below it changed."""
        name = self.name.get(old)
        made = self._unseen(new)
        if name is None:
            return
        if self.now[name] == old:
            self.now[name] = new
            self.name.setdefault(new, name)
        for u in made if rule else ():
            if u != new:
                self._named(u, (name, rule, self._made[name, rule]))
                self._made[name, rule] += 1

    def _named(self, u: N, name: Name) -> None:
        self.name[u] = name
        self.now[name] = u

    def _unseen(self, root: N) -> list[N]:
        """The nodes that were not there before, sources first."""
        found: list[N] = []
        stack = [(root, False)]
        while stack:
            u, ready = stack.pop()
            if ready:
                found.append(u)
            elif u not in self._seen:
                self._seen.add(u)
                stack.append((u, True))
                stack.extend((s, False) for s in reversed(tuple(self._sources(u))))
        return found


class Following:
    """An Observer that keeps the lineage of one graph, and hands on what it hears to another one."""

    def __init__(self, sink: UOp, listener: Observer | None):
        self.lineage = Lineage(sink.toposort(), lambda u: u.src)
        self._listener = listener

    def on_rewrite(self, rule: Rule, before: UOp, after: UOp) -> None:
        self.lineage.became(before, after, rule.name)
        if self._listener is not None:
            self._listener.on_rewrite(rule, before, after)

    def on_replace(self, before: UOp, after: UOp) -> None:
        self.lineage.became(before, after)
        if self._listener is not None:
            self._listener.on_replace(before, after)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """What else is told is only handed on."""
        return _nobody if self._listener is None else getattr(self._listener, name)

    def nodes(self, name: Name) -> tuple[UOp, ...]:
        """The nodes that ``name`` means now: one, or one for each device; none if its origin is not in the graph.

        Raises :class:`ScheduleError` where the rule made no such node.
        """
        if origin_of(name) not in self.lineage.now:
            return ()
        if name not in self.lineage.now:
            raise ScheduleError(f"an override names number {name[2]} of what rule {name[1]} made, and there is none")
        u = self.lineage.now[name]
        if not (parts := parts_of(u)):
            return (u,)
        return tuple(v for p in parts for v in (self.nodes(self.lineage.name[p]) if p in self.lineage.name else (p,)))


def origin_of(name: Name) -> Any:
    """The node of the graph at the start that a name leads back to."""
    while isinstance(name, tuple):
        name = name[0]
    return name


def renamed(name: Name, node: Callable[[Any], Any]) -> Name:
    """The same name with another node for its origin."""
    return (renamed(name[0], node), *name[1:]) if isinstance(name, tuple) else node(name)


def _nobody(*told: Any) -> None:
    pass
