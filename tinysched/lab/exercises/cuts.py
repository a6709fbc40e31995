"""Exercises 6: recompute or store. 6.2 asks for a formula for the bytes moved, 6.1 for a search.

The answer to 6.1 is ``choose(trace, names, cost) -> overrides``: for each name in ``names`` "fuse", "realize", or nothing, such
that ``cost(trace.with_overrides(overrides))`` is as small as any choice makes it. ``cost`` counts bytes moved, and
operations at a price that changes from case to case: which choice is best depends on it, and on the sizes.

The reference tries every choice there is.

>>> from tinysched.lab.check import check
>>> check(lambda trace, names, cost: {}, "6.1").ok
False
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import floats, tensor
from tinysched.lab.score import Figures, figures
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import capture
from tinysched.trace.compare import compare
from tinysched.trace.trace import Trace

CHOICES = ("", "fuse", "realize")


@dataclass(frozen=True)
class Price:
    """What a schedule costs: bytes moved, and so many bytes for each operation."""

    per_operation: float

    def __call__(self, trace: Trace) -> float:
        return self.of(figures(trace))

    def of(self, f: Figures) -> float:
        return f.bytes_moved + self.per_operation * f.operations


@dataclass(frozen=True)
class Program:
    """A program by its name, its sizes, and the price of an operation."""

    name: str
    n: int
    m: int
    price: float

    def trace(self) -> tuple[Trace, tuple[str, ...]]:
        """Its schedule, and the names of the values that there is a choice about."""
        outs, named = PROGRAMS[self.name](self.n, self.m)
        inputs = {**named, **{f"out{i}": t for i, t in enumerate(outs)}}
        return capture(outs, title=self.name, inputs=inputs), tuple(named)

    def __str__(self) -> str:
        return f"{self.name}, n = {self.n}, m = {self.m}, an operation costs as much as {self.price:g} bytes"


Made = tuple[tuple[Tensor, ...], dict[str, Tensor]]


def _two_sums(n: int, m: int) -> Made:
    x = tensor(floats((n, m)))
    e = x.exp()
    return (e.sum(0), e.sum(1)), {"e": e}


def _four_sums(n: int, m: int) -> Made:
    """Two values that don't know of one another: where storing pays, both have to be stored."""
    x, y = (tensor(floats((n, m), seed)) for seed in range(2))
    e, f = x.exp(), y.exp()
    return (e.sum(0), e.sum(1), f.sum(0), f.sum(1)), {"e": e, "f": f}


def _attention(n: int, m: int) -> Made:
    q, k, v = (tensor(floats((n, m), seed)) for seed in range(3))
    scores = q @ k.T
    probs = scores.softmax()
    return (probs @ v,), {"scores": scores, "probs": probs}


def _chain(n: int, m: int) -> Made:
    a, b = tensor(floats((n, 1))), tensor(floats((1, m), 1))
    outer = a * b
    shared = (outer + 1) * (outer - 1)
    return (shared.sum(0), shared.max(1)), {"outer": outer, "shared": shared}


PROGRAMS: dict[str, Callable[[int, int], Made]] = {
    "two sums": _two_sums,
    "four sums": _four_sums,
    "attention": _attention,
    "chain": _chain,
}


def _case(draw: Draw) -> Program:
    name = draw.one_of(tuple(PROGRAMS))
    n, m = draw.shape(2, low=4, high=24)
    return Program(name, n, m, draw.one_of((0.5, 0.01, 0.1, 2.0, 8.0)))


def choices(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """All overrides there are, those of few names first."""
    every = itertools.product(CHOICES, repeat=len(names))
    for choice in sorted(every, key=lambda choice: sum(map(bool, choice))):
        yield {name: what for name, what in zip(names, choice) if what}


def best(trace: Trace, names: Sequence[str], cost: Callable[[Trace], float]) -> tuple[float, dict[str, str]]:
    """The cheapest of all choices, by trying each."""
    return min(((cost(trace.with_overrides(o)), o) for o in choices(names)), key=lambda found: found[0])


@lru_cache(maxsize=256)
def _every(name: str, n: int, m: int) -> tuple[tuple[Figures, dict[str, str]], ...]:
    """What each choice gives: the same at every price, and whenever a learner asks for the check again."""
    trace, names = Program(name, n, m, 0.0).trace()
    return tuple((figures(trace.with_overrides(o)), o) for o in choices(names))


def _judge(answer: Any, program: Program) -> Wrong | None:
    trace, names = program.trace()
    price = Price(program.price)
    overrides = given(answer, trace, names, price)
    if not isinstance(overrides, Mapping) or not set(overrides) <= set(names):
        return Wrong(f"a dict from names out of {names} to 'fuse' or 'realize' is wanted, not {overrides!r:.80}")
    yours = trace.with_overrides(overrides)
    found = ((price.of(f), o) for f, o in _every(program.name, program.n, program.m))
    least, reference = min(found, key=lambda found: found[0])
    if price(yours) > least * 1.0001:
        return Wrong(f"{dict(overrides)} costs {price(yours):,.0f}; {reference} costs {least:,.0f}", yours)
    return None if compare(yours, trace).same else Wrong("the values are others", yours)


def _bytes(answer: Any, shape: tuple[int, int]) -> Wrong | None:
    """What the two schedules of :func:`_two_sums` move."""
    program = Program("two sums", *shape, 0.0)
    trace, _ = program.trace()
    fused, stored = (trace.with_overrides({"e": what}) for what in ("fuse", "realize"))
    moved = figures(fused).bytes_moved, figures(stored).bytes_moved
    said = given(answer, *shape)
    if not isinstance(said, (tuple, list)) or len(said) != 2:
        return Wrong(f"two numbers are wanted, fused and stored, and {said!r:.60} came back")
    same = tuple(said) == moved
    return None if same else Wrong(f"you say {tuple(said)}; the engine says {moved}: fused, stored", stored)


EXERCISES = (
    Exercise(
        "6.1",
        "the cheapest set of cuts",
        "choose(trace, names, cost): overrides with the smallest cost(trace.with_overrides(overrides))",
        _case,
        _judge,
        hint="with few names every combination can be tried; the best choice for one name may depend on the other",
        by_hand=tuple(Program(name, 6, 8, price) for name in PROGRAMS for price in (0.01, 8.0)),
        count=8,
    ),
    Exercise(
        "6.2",
        "a model of bytes",
        "moved(n, m): (bytes if fused, bytes if stored) of e.sum(0) and e.sum(1), e = x.exp(), x of n × m floats of 4 bytes",
        lambda draw: draw.shape(2, low=3, high=30),
        _bytes,
        hint="write down for each kernel what it reads and what it writes, then add up",
        describe=lambda shape: f"n = {shape[0]}, m = {shape[1]}",
        count=20,
    ),
)
