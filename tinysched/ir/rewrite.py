"""Applying rules to a whole graph, without recursion.

In: a root and a :class:`PatternMatcher`. Out: the root of the graph in which no rule applies any more.

>>> from tinysched.ir.ops import Ops
>>> from tinysched.ir.pattern import PatternMatcher, UPat, rule
>>> from tinysched.ir.uop import UOp
>>> @rule(UPat(Ops.ADD, src=[UPat.var("x"), UPat.const(0)]))
... def add_zero(x):
...     '''x + 0 -> x'''
...     return x
>>> r = UOp.range(4, 0)
>>> graph_rewrite((r + 0) + 0, PatternMatcher([add_zero])) is r
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tinysched.errors import RewriteError
from tinysched.ir.lines import file_name, place
from tinysched.ir.observe import current_observer
from tinysched.ir.pattern import PatternMatcher, Rule
from tinysched.ir.uop import UOp

Settled = Callable[[UOp], bool] | None

MOST_REWRITES_IN_A_ROW = 1_000
"""Rewrites on top of one another that no one wonders about."""
MOST_REWRITES_PER_NODE = 16
"""With more on top of one another than this for each node that the graph had, they are in a loop."""


class _Rewriter:
    """The state of one graph_rewrite: what each node became, and which rewrites are under way."""

    def __init__(self, root: UOp, pm: PatternMatcher, ctx: Any, name: str, done: dict[UOp, UOp], settled: Settled):
        self.order: list[UOp] | None = None
        self.root, self.pm, self.ctx, self.name, self.settled = root, pm, ctx, name, settled
        self.watcher = current_observer()
        self.done = done
        self.most = MOST_REWRITES_IN_A_ROW

    def told(self, r: Rule, u: UOp, new: UOp, depth: int) -> UOp:
        """What a rule made of a node, for those who watch. Rewrites that do not end stop here."""
        if depth > self.most:
            self.allow_for_depth()
            if depth > self.most:
                _endless(self.name, r, u)
        if self.watcher is not None:
            self.watcher.on_rewrite(r, u, new)
        return new

    def allow_for_depth(self) -> None:
        """A path of many nodes may take as many rewrites, one below the other."""
        self.most = max(self.most, MOST_REWRITES_PER_NODE * len(self.root.toposort()))

    def rebuild(self, u: UOp) -> UOp:
        new = u.over(tuple([self.done[s] for s in u.src]))
        if new is not u and self.watcher is not None:
            self.watcher.on_replace(u, new)
        return new

    def sources_first(self) -> UOp:
        done = self.done
        # what is under way: the nodes of a graph, its root, and whose rewrite gave it
        stack: list[tuple[Iterator[UOp], UOp, tuple[UOp, ...]]] = [(self.left(self.root), self.root, ())]
        while stack:
            nodes, root, given_by = stack[-1]
            for u in nodes:
                if u in done:
                    continue
                v = self.rebuild(u) if u.src else u
                if v is not u and v in done:
                    done[u] = done[v]
                    continue
                if (found := self.pm.rewrite(v, self.ctx)) is None:
                    done[u] = done[v] = v
                    continue
                new = self.told(found[0], v, found[1], len(stack) - 1)
                stack.append((self.left(new), new, (u, v)))
                break
            else:
                stack.pop()
                for u in given_by:
                    done[u] = done[root]
        return done[self.root]

    def left(self, root: UOp) -> Iterator[UOp]:
        """What is left to do below a node, sources first."""
        if root in self.done:
            return iter(())
        if root is self.root and self.order is not None:
            return iter(self.order)
        return iter(root.toposort(self.enters if self.done or self.settled is not None else None))

    def enters(self, u: UOp) -> bool:
        if u in self.done:
            return False
        if self.settled is not None and self.settled(u):
            self.done[u] = u
            return False
        return True

    def node_first(self) -> UOp:
        root, done = self.root, self.done
        stack: list[tuple[UOp, UOp | None, bool, int]] = [(root, None, False, 0)]
        while stack:
            u, became, entered, depth = stack.pop()
            if became is not None:
                done[u] = done[became]
                continue
            if u in done:
                continue
            if not entered and (found := self.pm.rewrite(u, self.ctx)) is not None:
                new = self.told(found[0], u, found[1], depth)
                stack.append((u, new, True, depth))
                stack.append((new, None, False, depth + 1))
                continue
            missing = [(s, None, False, depth) for s in u.src if s not in done]
            if missing:
                stack.append((u, None, True, depth))
                stack.extend(reversed(missing))
                continue
            v = self.rebuild(u) if u.src else u
            if v is u:
                done[u] = u
            else:  # a node with other sources is a new node: the rules see it too
                stack.append((u, v, True, depth))
                stack.append((v, None, False, depth + 1))
        return done[root]


def _endless(name: str, r: Rule, u: UOp) -> None:
    file, line = r.where
    raise RewriteError(
        f"the rewrites of {name or 'a pass'} do not end: rule {r.name} ({r.doc}) keeps applying",
        where=f"{u!r}, rule at {place(file_name(file), line)}",
        help="a rule must bring a node nearer to its final form; look at what it returns",
    )


def graph_rewrite(
    root: UOp,
    pm: PatternMatcher,
    ctx: Any = None,
    *,
    name: str = "",
    bottom_up: bool = False,
    became: dict[UOp, UOp] | None = None,
    settled: Settled = None,
    order: list[UOp] | None = None,
) -> UOp:
    """Applies ``pm`` everywhere until no rule applies.

    By default a node's sources are rewritten before the node; with ``bottom_up`` (upstream's word) a rule sees a node
    before its sources. Each rewrite is told to the observer. ``became``, if given, is filled with what each node became.
    ``settled`` says of which nodes it is known that no rule applies to them or below: they are not entered. ``order``: the
    graph's nodes, sources first, where they are known.
    Raises :class:`RewriteError` where rewrites never end.
    """
    state = _Rewriter(root, pm, ctx, name, {} if became is None else became, settled)
    state.order = order
    return state.node_first() if bottom_up else state.sources_first()


def rebuild(root: UOp, became: dict[UOp, UOp], order: list[UOp] | None = None) -> UOp:
    """``root`` with the nodes in ``became`` replaced (replacements are not entered). ``became`` gains what was rebuilt."""
    watcher = current_observer()
    for u in order if order is not None else root.toposort(gate=lambda u: u not in became):
        if u in became:
            continue
        src = tuple([became[s] for s in u.src])
        if src == u.src:
            became[u] = u
            continue
        new = became[u] = u.over(src)
        if watcher is not None:
            watcher.on_replace(u, new)
    return became[root]


def substitute(root: UOp, mapping: dict[UOp, UOp]) -> UOp:
    """``root`` with the mapped nodes replaced. Nodes that no mapped node is part of stay the same objects."""
    return rebuild(root, dict(mapping)) if mapping else root


def map_nodes(root: UOp, fn: Callable[[UOp], UOp | None]) -> UOp:
    """One pass, sources first: each node (with its new sources) becomes ``fn(node)``, or stays where that is None."""
    became: dict[UOp, UOp] = {}
    watcher = current_observer()
    for u in root.toposort():
        src = tuple([became[s] for s in u.src])
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg, u.tag)
        new = fn(v)
        became[u] = v if new is None else new
        if watcher is not None and became[u] is not u:
            watcher.on_replace(u, became[u])
    return became[root]
