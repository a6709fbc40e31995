"""Exercises 7: 7.2 is the critical path. 7.1 is the ready queue: no kernel runs before those it waits for.

The answer is ``in_order(count, edges) -> list``: kernels are numbered from 0, and ``(before, after)`` in ``edges`` says
that one must run before the other. Random graphs first, then the engine runs real models in the learner's order: its
pass "order" finds the edges (read after write, write after read) and takes the order from the answer.

>>> from tinysched.lab.check import check
>>> print(str(check(lambda count, edges: list(range(count)), "7.1")).splitlines()[2])
  kernel 0 comes before kernel 1, which it waits for
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from tinysched.ir.uop import UOp
from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import Array, differs, floats, tensor
from tinysched.lab.sketch import dag
from tinysched.nn import optim
from tinysched.schedule.copies import pm_copy_from_store
from tinysched.schedule.hazards import Hazards
from tinysched.schedule.order import create_schedule
from tinysched.schedule.pipeline import PIPELINE, PassContext, Pipeline
from tinysched.schedule.policy import Live, Ready
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import capture

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Kernels that wait for one another; the edges make no circle."""

    count: int
    edges: tuple[Edge, ...]

    def __str__(self) -> str:
        return f"{self.count} kernels, edges {list(self.edges)}"


@dataclass(frozen=True)
class Model:
    """A real program, by name."""

    name: str

    def __str__(self) -> str:
        return f"the kernels of {self.name}"


def _case(draw: Draw) -> Graph:
    """A random order is drawn first; edges then go forward in it, so that numbers say nothing about the order."""
    count = draw.integer(1, 9)
    left = list(range(count))
    order = [left.pop(draw.integer(0, len(left) - 1)) for _ in range(count)]
    edges = dict.fromkeys(_edge(draw, order) for _ in range(draw.integer(0, 14)) if count > 1)
    return Graph(count, tuple(edges))


def _edge(draw: Draw, order: Sequence[int]) -> Edge:
    first = draw.integer(0, len(order) - 2)
    return order[first], order[draw.integer(first + 1, len(order) - 1)]


# ** the judge **


def problem(order: Any, count: int, edges: Sequence[Edge]) -> str:
    """What is wrong with an order, '' if nothing."""
    order = list(order)
    if sorted(order) != list(range(count)):
        return f"every kernel runs once: wanted is an order of 0 to {count - 1}, not {order}"
    at = {kernel: position for position, kernel in enumerate(order)}
    late = next(((a, b) for a, b in edges if at[a] > at[b]), None)
    return f"kernel {late[1]} comes before kernel {late[0]}, which it waits for" if late else ""


def _judge(answer: Any, case: Graph | Model) -> Wrong | None:
    if isinstance(case, Model):
        return _run_model(answer, case)
    text = problem(given(answer, case.count, list(case.edges)), case.count, case.edges)
    return _wrong(text, case) if text else None


def _wrong(text: str, case: Graph) -> Wrong:
    return Wrong(text, drawing=_drawn(case), picture=lambda: dag(case.count, case.edges))


def _drawn(case: Graph) -> str:
    waits: dict[int, list[int]] = {k: [] for k in range(case.count)}
    for before, after in case.edges:
        waits[after].append(before)
    return "\n".join(
        f"kernel {k} " + (f"waits for {', '.join(map(str, sorted(on)))}" if on else "can start")
        for k, on in waits.items()
    )


# ** in the engine **


@dataclass(frozen=True)
class InThisOrder:
    """An order policy that follows a list of kernel numbers."""

    order: tuple[int, ...]

    def pick(self, ready: Sequence[Ready], live: Live) -> int:
        rank = {kernel: position for position, kernel in enumerate(self.order)}
        return min(range(len(ready)), key=lambda i: rank[ready[i].kernel])


def with_order(in_order: Callable[[int, list[Edge]], Any]) -> Pipeline:
    """The engine's passes, with the order of the kernels by ``in_order``."""

    def ordered(sink: UOp, ctx: PassContext) -> UOp:
        create_schedule(sink)  # raises for kernels in a circle: the engine then gives a write memory of its own
        hazards = Hazards(sink)
        edges = list(dict.fromkeys((before, after) for before, after, _, _ in hazards.edges))
        order = list(given(in_order, len(hazards.calls), edges))
        if text := problem(order, len(hazards.calls), edges):
            raise ValueError(text)
        return pm_copy_from_store(create_schedule(sink, InThisOrder(tuple(order))))

    return PIPELINE.replace("order", ordered)


def _update() -> tuple[list[Tensor], list[Array]]:
    """Two writes that each need the old value of the other."""
    x, y = floats((3, 4)), floats((3, 4), 1)
    a, b = tensor(x), tensor(y)
    old = a + 0
    a.assign(a + b)
    b.assign(b * old)
    return [a, b], [x + y, y * x]


def _step() -> tuple[list[Tensor], list[Array]]:
    """A step of gradient descent on a small network; NumPy does it by hand."""
    x, w, v = floats((5, 4), 0, -2, 2), floats((4, 6), 1, -2, 2), floats((6, 3), 2, -2, 2)
    tx, tw, tv = tensor(x), tensor(w), tensor(v)
    for t in (tw, tv):
        t.requires_grad = True
    step = optim.SGD([tw, tv], lr=0.5)
    ((tx @ tw).relu() @ tv).sum().backward()
    hidden = x @ w
    dv = np.maximum(hidden, 0).T @ np.ones((5, 3), np.float32)
    dw = x.T @ ((np.ones((5, 3), np.float32) @ v.T) * (hidden > 0))
    return [*step.schedule_step(), tw, tv][-2:], [w - 0.5 * dw, v - 0.5 * dv]


MODELS: dict[str, Callable[[], tuple[list[Tensor], list[Array]]]] = {
    "two writes that need one another": _update,
    "a training step": _step,
}


def _run_model(answer: Any, model: Model) -> Wrong | None:
    outs, expected = MODELS[model.name]()
    trace = capture(outs, pipeline=with_order(answer), run=True, title=model.name)
    wrong = (differs(out, array, trace) for out, array in zip(outs, expected))
    return next((w for w in wrong if w is not None), None)


def _judge_longest(answer: Any, case: Graph) -> Wrong | None:
    graph = nx.DiGraph(case.edges)
    graph.add_nodes_from(range(case.count))
    path = nx.dag_longest_path(graph)
    said = given(answer, case.count, list(case.edges))
    if said == len(path):
        return None
    return _wrong(f"you say {said}; {' → '.join(map(str, path))} is a chain of {len(path)}", case)


EXERCISES = (
    Exercise(
        "7.1",
        "the ready queue",
        "in_order(count, edges): all kernels, each after those that it waits for",
        _case,
        _judge,
        hint="count for each kernel how many it still waits for; whoever waits for nobody is ready",
        by_hand=(Graph(2, ((1, 0),)), Graph(4, ((3, 1), (1, 0), (3, 2), (2, 0))), *map(Model, MODELS)),
        count=60,
    ),
    Exercise(
        "7.2",
        "the critical path",
        "longest(count, edges): how many kernels the longest chain has of which each waits for the one before",
        _case,
        _judge_longest,
        hint="in an order in which nobody comes before those it waits for, the answer for a kernel needs only earlier ones",
        by_hand=(Graph(1, ()), Graph(3, ((2, 1), (1, 0), (2, 0)))),
        count=60,
    ),
)
