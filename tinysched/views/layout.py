"""A layered layout: sources above, readers below, nothing on top of anything, the same for the same graph.

In: sizes of the nodes and edges from sources to readers. Out: :class:`Layout`, a place for each node and a route for each
edge. Ranks are longest paths, sources are pulled down to their first reader; sweeps of barycentres order each rank; places
are the nearest that keep the order (isotonic regression), so that chains are straight. Edges over more than
:data:`FARTHEST` ranks get no route: views show them as a label at either end.

>>> found = layout(((40, 20), (40, 20), (40, 20)), ((0, 1), (1, 2)))
>>> [place.x for place in found.places], [place.y for place in found.places]
([20.0, 20.0, 20.0], [10.0, 39.0, 68.0])
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import networkx as nx

FARTHEST = 9
"""Ranks that a drawn edge may span."""
GAP_X, GAP_Y, LANE = 26.0, 14.0, 14.0
"""Room between nodes of a rank, between ranks, and between an edge and its neighbours."""
LOW, GAP_LOW = 22.0, 9.0
"""Nodes this low that follow straight upon one another stand closer: they only move indices."""
SWEEPS = 6
LARGE = 1_500
"""Nodes, from which on half the sweeps have to do: nobody sees the difference in a picture this size."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Place:
    """The middle of a node, and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Places by node and routes by edge (None: too long to draw), and the size of the whole."""

    places: tuple[Place, ...]
    routes: tuple[tuple[Point, ...] | None, ...]
    width: float
    height: float


@functools.lru_cache(maxsize=64)
def layout(
    sizes: tuple[tuple[float, float], ...], edges: tuple[tuple[int, int], ...], strong: tuple[int, ...] | None = None
) -> Layout:
    """Lays out nodes of the given (width, height). The same graph is laid out once: several passes show the same.

    ``strong``: the edges that are to be straight before others, by position (all, where not given): of a graph that
    changes, those that are seen first.
    """
    if not sizes:
        return Layout((), tuple(None for _ in edges), 0.0, 0.0)
    graph = _acyclic(len(sizes), edges)
    rank = ranks(graph)
    return _Layered(sizes, list(edges), rank, None if strong is None else frozenset(strong)).place()


# ** ranks **


def _acyclic(count: int, edges: Iterable[tuple[int, int]]) -> nx.DiGraph:
    """The graph without edges that would close a circle (a union of steps may have some)."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from((a, b) for a, b in edges if a != b)
    if not nx.is_directed_acyclic_graph(graph):
        graph.remove_edges_from(_back_edges(graph))
    return graph


def _back_edges(graph: nx.DiGraph) -> list[tuple[int, int]]:
    """Edges to a node that is under way in a depth-first walk."""
    found, state = [], dict.fromkeys(graph, 0)
    for root in graph:
        stack = [(root, iter(graph[root]))] if not state[root] else []
        state[root] = max(state[root], 1)
        while stack:
            node, readers = stack[-1]
            for r in readers:
                if state[r] == 1:
                    found.append((node, r))
                elif not state[r]:
                    state[r] = 1
                    stack.append((r, iter(graph[r])))
                    break
            else:
                state[node] = 2
                stack.pop()
    return found


def ranks(graph: nx.DiGraph) -> list[int]:
    """The longest path to each node; then each is pulled towards its readers where that shortens edges."""
    order = list(nx.topological_sort(graph))
    rank = [0] * len(order)
    for node in order:
        rank[node] = max((rank[s] + 1 for s in graph.pred[node]), default=0)
    for node in reversed(order):
        readers = graph.succ[node]
        if readers and len(readers) >= len(graph.pred[node]):
            rank[node] = min(rank[r] for r in readers) - 1
    for node in order:
        if graph.pred[node] and len(graph.succ[node]) < len(graph.pred[node]):
            rank[node] = max(rank[s] for s in graph.pred[node]) + 1
    return rank


# ** order within ranks, and places **


class _Layered:
    """Nodes and the bends of long edges ("dummies"), rank by rank."""

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        edges: list[tuple[int, int]],
        rank: list[int],
        strong: frozenset[int] | None,
    ):
        self.sizes, self.edges = list(sizes), edges
        self.count = len(sizes)
        self.rank = list(rank)
        self.chains: list[list[int] | None] = []
        self.up: list[list[int]] = [[] for _ in sizes]
        self.down: list[list[int]] = [[] for _ in sizes]
        for a, b in edges:
            self.chains.append(self._chain(a, b))
        self.above, self.below = self._pulling(strong)
        self.rows = self._rows()

    def _chain(self, a: int, b: int) -> list[int] | None:
        """The nodes and bends that an edge runs through; None where it is not drawn."""
        span = self.rank[b] - self.rank[a]
        if not 0 < span <= FARTHEST:
            return None
        chain = [a]
        for r in range(self.rank[a] + 1, self.rank[b]):
            chain.append(len(self.sizes))
            self.sizes.append((LANE, 0.0))
            self.rank.append(r)
            self.up.append([])
            self.down.append([])
        chain.append(b)
        for above, below in itertools.pairwise(chain):
            self.up[below].append(above)
            self.down[above].append(below)
        return chain

    def _pulling(self, strong: frozenset[int] | None) -> tuple[list[list[int]], list[list[int]]]:
        """The neighbours above and below that each node is pulled to: those by strong edges, where it has any."""
        if strong is None:
            return self.up, self.down
        above: list[list[int]] = [[] for _ in self.sizes]
        below: list[list[int]] = [[] for _ in self.sizes]
        for e in sorted(strong):
            for a, b in itertools.pairwise(self.chains[e] or ()):
                above[b].append(a)
                below[a].append(b)
        known = [bool(a or b) for a, b in zip(above, below)]
        return (
            [near if ok else every for near, every, ok in zip(above, self.up, known)],
            [near if ok else every for near, every, ok in zip(below, self.down, known)],
        )

    def _rows(self) -> list[list[int]]:
        """The ranks, at first in the order of a walk from the outputs, which keeps what belongs together near."""
        rows: list[list[int]] = [[] for _ in range(max(self.rank) + 1)]
        seen = [False] * len(self.sizes)
        roots = sorted(range(len(self.sizes)), key=lambda n: (bool(self.down[n]), -self.rank[n], n))
        for root in roots:
            stack = [root]
            while stack:
                node = stack.pop()
                if not seen[node]:
                    seen[node] = True
                    rows[self.rank[node]].append(node)
                    stack.extend(reversed(self.up[node]))
        return rows

    def place(self) -> Layout:
        best, fewest = self.rows, self._crossings(self.rows)
        for sweep in range(SWEEPS):
            if not fewest:
                break
            self._sweep(down=sweep % 2 == 0)
            crossings = self._crossings(self.rows)
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best
        x = self._columns()
        return self._layout(x, self._heights(x))

    def _sweep(self, down: bool) -> None:
        """Orders each rank by the mean position of its neighbours in the rank before."""
        position = {n: float(i) for row in self.rows for i, n in enumerate(row)}
        for i in range(len(self.rows)) if down else reversed(range(len(self.rows))):
            near = self.up if down else self.down
            row = self.rows[i]
            key = {n: sum(position[m] for m in near[n]) / len(near[n]) if near[n] else position[n] for n in row}
            self.rows[i] = row = sorted(row, key=lambda n: (key[n], position[n]))
            position.update({n: float(k) for k, n in enumerate(row)})

    def _crossings(self, rows: list[list[int]]) -> int:
        """How many pairs of edges cross between neighbouring ranks."""
        position = {n: i for row in rows for i, n in enumerate(row)}
        total = 0
        for row in rows:
            ends = [position[m] for n in row for m in sorted(self.down[n], key=position.__getitem__)]
            total += _inversions(ends)
        return total

    # ** places **

    def _columns(self) -> list[float]:
        """x of each node: pulled to its neighbours, with the order and the gaps kept."""
        x = [0.0] * len(self.sizes)
        for row in self.rows:
            left = 0.0
            for n in row:
                x[n] = left + self.sizes[n][0] / 2
                left += self.sizes[n][0] + self._gap(n)
        offsets = [self._offsets(row) for row in self.rows]
        up, down = self._pull(self.above), self._pull(self.below)
        for sweep in range(2 * SWEEPS if self.count < LARGE else SWEEPS):
            forth = sweep % 2 == 0
            for i in range(len(self.rows)) if forth else reversed(range(len(self.rows))):
                _settle(self.rows[i], x, offsets[i], self.above if forth else self.below, up if forth else down)
        both = [a + b for a, b in zip(self.above, self.below)]
        pull = self._pull(both)
        for row, offset in zip(self.rows, offsets):
            _settle(row, x, offset, both, pull)
        self._straighten(x)
        return x

    def _offsets(self, row: list[int]) -> list[float]:
        """How far right of the first each node of a rank must be at least."""
        found = [0.0]
        for a, b in itertools.pairwise(row):
            found.append(found[-1] + self._apart(a, b))
        return found

    def _pull(self, near: list[list[int]]) -> list[float]:
        """How strongly each node wants to be near its neighbours: the bends of an edge most, so that it is straight."""
        bend = [n >= self.count for n in range(len(self.sizes))]
        return [
            (1.0 if near[n] else 0.2) * (6.0 if bend[n] or any(bend[m] for m in near[n]) else 1.0)
            for n in range(len(bend))
        ]

    def _straighten(self, x: list[float]) -> None:
        """Lines up chains (a node with its only reader, the bends of one edge) as far as their neighbours allow."""
        place = {n: (row, i) for row in self.rows for i, n in enumerate(row)}
        for chain in self._lines() * 2:
            run: list[int] = []
            low, high = float("-inf"), float("inf")
            for n in chain:
                a, b = self._limits(*place[n], x)
                if run and max(low, a) > min(high, b):
                    _align(run, low, high, x)
                    run, low, high = [], float("-inf"), float("inf")
                run.append(n)
                low, high = max(low, a), min(high, b)
            _align(run, low, high, x)

    def _limits(self, row: list[int], i: int, x: list[float]) -> tuple[float, float]:
        """How far the node at place ``i`` may go to either side."""
        n, low, high = row[i], float("-inf"), float("inf")
        if i:
            low = x[row[i - 1]] + self._apart(row[i - 1], n)
        if i + 1 < len(row):
            high = x[row[i + 1]] - self._apart(n, row[i + 1])
        return low, max(high, low)

    def _apart(self, a: int, b: int) -> float:
        """The least distance of two neighbours' middles."""
        return (self.sizes[a][0] + self.sizes[b][0]) / 2 + max(self._gap(a), self._gap(b))

    def _lines(self) -> list[list[int]]:
        """The chains, longest first."""
        follows = {}
        for a, below in enumerate(self.below):
            if len(below) == 1 and self.above[below[0]] == [a]:
                follows[a] = below[0]
        starts = sorted(set(follows) - set(follows.values()))
        lines = []
        for n in starts:
            line = [n]
            while line[-1] in follows:
                line.append(follows[line[-1]])
            lines.append(line)
        bends = [c[1:-1] for c in self.chains if c is not None and len(c) > 3]
        return sorted(lines + bends, key=len, reverse=True)

    def _gap(self, n: int) -> float:
        return LANE / 2 if n >= self.count else GAP_X

    def _heights(self, x: list[float]) -> list[float]:
        """y of each rank's middle."""
        self.tall = [max((self.sizes[n][1] for n in row), default=0.0) for row in self.rows]
        y, bottom = [], 0.0
        for i, height in enumerate(self.tall):
            gap = self._room(i, x)
            y.append(bottom + (gap if i else 0.0) + height / 2)
            bottom = y[-1] + height / 2
        return y

    def _room(self, i: int, x: list[float]) -> float:
        """Room above rank ``i``: more where many edges run across, and far."""
        ways = [abs(x[n] - x[m]) for n in self.rows[i] for m in self.up[n]]
        low = all(max(self.sizes[n][1], self.sizes[m][1]) <= LOW for n in self.rows[i] for m in self.up[n])
        if low and max(ways, default=1.0) < 1:
            return GAP_LOW
        return GAP_Y + min(sum(way > 1 for way in ways), 30) * 0.8 + min(max(ways, default=0.0) * 0.06, 24.0)

    def _layout(self, x: list[float], y: list[float]) -> Layout:
        left = min(x[n] - self.sizes[n][0] / 2 for n in range(len(x)))
        places = tuple(
            Place(round(x[n] - left, 1), round(y[self.rank[n]], 1), *self.sizes[n]) for n in range(self.count)
        )
        routes = tuple(None if c is None else self._route(c, x, y, left) for c in self.chains)
        width = max(x[n] + self.sizes[n][0] / 2 for n in range(len(x))) - left
        return Layout(
            places, routes, round(width, 1), round(y[-1] + max(self.sizes[n][1] for n in self.rows[-1]) / 2, 1)
        )

    def _route(self, chain: list[int], x: list[float], y: list[float], left: float) -> tuple[Point, ...]:
        """From the lower edge of the source by the bends to the upper edge of the reader."""
        a, b = chain[0], chain[-1]
        points = [(x[a], y[self.rank[a]] + self.sizes[a][1] / 2)]
        for n in chain[1:-1]:  # straight through the rank, so that no neighbour is cut
            half = self.tall[self.rank[n]] / 2
            points += [(x[n], y[self.rank[n]] - half), (x[n], y[self.rank[n]] + half)]
        points.append((x[b], y[self.rank[b]] - self.sizes[b][1] / 2))
        return tuple((round(px - left, 1), round(py, 1)) for px, py in points)


def _settle(row: list[int], x: list[float], offsets: list[float], near: list[list[int]], pull: list[float]) -> None:
    """Moves the nodes of a rank as near to the middle of their neighbours as the order and the gaps allow."""
    if len(row) == 1:
        x[row[0]] = _middle(row[0], x, near)
        return
    wanted = [_middle(n, x, near) - offset for n, offset in zip(row, offsets)]
    for n, value, offset in zip(row, isotonic(wanted, [pull[n] for n in row]), offsets):
        x[n] = value + offset


def _middle(n: int, x: list[float], near: list[list[int]]) -> float:
    """The median of a node's neighbours; its own place where it has none."""
    found = near[n]
    if len(found) == 1:
        return x[found[0]]
    places = sorted([x[m] for m in found])
    return (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2 if places else x[n]


def _align(run: list[int], low: float, high: float, x: list[float]) -> None:
    """Gives all nodes of a run the x nearest to their mean that all of them may have."""
    if run:
        mean = sum(x[n] for n in run) / len(run)
        for n in run:
            x[n] = min(max(mean, low), high)


def isotonic(wanted: list[float], weights: list[float]) -> list[float]:
    """The nearest values (in weighted squares) that never fall: neighbours that would cross share their mean.

    >>> isotonic([1.0, 5.0, 3.0], [1.0, 1.0, 1.0])
    [1.0, 4.0, 4.0]
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(wanted, weights):
        size = 1
        while blocks and blocks[-1][0] > value:
            mean, heavy, count = blocks.pop()
            value = (mean * heavy + value * weight) / (heavy + weight)
            weight, size = weight + heavy, size + count
        blocks.append((value, weight, size))
    return [mean for mean, _, count in blocks for _ in range(count)]


def _inversions(values: list[int]) -> int:
    """Pairs in the wrong order, counted by a binary indexed tree."""
    if not values:
        return 0
    size = max(values) + 2
    tree, total = [0] * (size + 1), 0
    for seen, v in enumerate(values):
        i, smaller = v + 1, 0
        while i > 0:
            smaller += tree[i]
            i -= i & -i
        total += seen - smaller
        i = v + 1
        while i <= size:
            tree[i] += 1
            i += i & -i
    return total
