"""Random movement chains and random tensor graphs, each built twice: of UOps, and in NumPy, which judges.

A graph is drawn as a list of plain steps that are read as a program, so that a failing one shrinks to a few steps.
TINYSCHED_EXAMPLES multiplies the number of examples (CI: 4 times the default; 100 for a long search).
"""

import os
import random
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from tests.evaluate import moved
from tinysched.dtypes import dtypes
from tinysched.ir.derive import prod
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor

FACTOR = float(os.environ.get("TINYSCHED_EXAMPLES", "4" if "CI" in os.environ else "1"))

Step = tuple[Ops, Any]


def examples(n: int) -> hypothesis.settings:
    """Settings for a property that is tried ``n`` times, more often if the environment says so."""
    slow = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much]
    return hypothesis.settings(max_examples=max(1, int(n * FACTOR)), deadline=None, suppress_health_check=slow)


# ** movement chains **


def random_step(rng: random.Random, shape: tuple[int, ...]) -> Step | None:
    """One movement op that fits ``shape``; None where the kind that came up needs an axis."""
    kind = rng.choice(["reshape", "reshape", "permute", "flip", "shrink", "pad", "expand"])
    if kind == "reshape":
        return Ops.RESHAPE, factorization(rng, prod(shape))
    if not shape:
        return None
    if kind == "permute":
        return Ops.PERMUTE, tuple(rng.sample(range(len(shape)), len(shape)))
    if kind == "flip":
        return Ops.FLIP, tuple(rng.random() < 0.5 for _ in shape)
    if kind == "shrink":
        starts = [rng.randint(0, min(2, n - 1)) for n in shape]
        return Ops.SHRINK, tuple((a, rng.randint(max(a + 1, n - 2), n)) for a, n in zip(starts, shape, strict=True))
    if kind == "pad":
        return Ops.PAD, tuple((rng.randint(0, 2), rng.randint(0, 2)) if rng.random() < 0.4 else (0, 0) for _ in shape)
    return Ops.EXPAND, (rng.randint(2, 3),)


def factorization(rng: random.Random, size: int) -> tuple[int, ...]:
    """A shape of ``size`` elements."""
    sizes: list[int] = []
    while size > 1:
        n = rng.choice([d for d in range(2, size + 1) if size % d == 0])
        sizes.append(n)
        size //= n
    if rng.random() < 0.3:
        sizes.insert(rng.randint(0, len(sizes)), 1)
    return tuple(sizes)


def random_chain(rng: random.Random, most: int = 6, limit: int = 400) -> tuple[tuple[int, ...], list[Step]]:
    """A shape whose axis sizes differ, and movement ops that fit one after the other (no array above ``limit``)."""
    shape = tuple(rng.sample([2, 3, 4, 5, 6, 7], rng.randint(1, 3)))
    steps, now = [], np.empty(shape, np.int8)
    for _ in range(rng.randint(1, most)):
        step = random_step(rng, now.shape)
        if step is not None and (after := moved(now, *step)).size <= limit:
            steps.append(step)
            now = after
    return shape, steps


def chains(most: int = 6, limit: int = 400) -> st.SearchStrategy[tuple[tuple[int, ...], list[Step]]]:
    return st.randoms(use_true_random=False).map(lambda rng: random_chain(rng, most, limit))


# ** tensor graphs **

KINDS = (
    "unary", "binary", "binary", "reduce", "reduce", "move", "move", "move", "where", "contiguous", "stack", "cast",
    "window", "leaf",
)  # fmt: skip
UNARY = ("neg", "relu", "exp2", "square", "reciprocal", "plus one")
BINARY = {
    "add": (UOp.__add__, np.add), "mul": (UOp.__mul__, np.multiply), "max": (UOp.maximum, np.maximum),
    "sub": (lambda u, v: u.alu(Ops.SUB, v), np.subtract),
}  # fmt: skip
MOST_ELEMENTS, LARGEST = 1500, 1e5


@dataclass
class Graph:
    """A program as it is built: values, each as a node and as an array, and the lines that say how."""

    values: list[tuple[UOp, np.ndarray]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    keep: list[Tensor] = field(default_factory=list)

    def add(self, line: str, uop: UOp, array: Any) -> None:
        """Notes a value, unless it is too large (in either sense) to be compared exactly."""
        array = np.asarray(array)
        finite = array.size and np.all(np.isfinite(array)) and np.abs(array.astype(np.float64)).max() <= LARGEST
        if finite and array.size <= MOST_ELEMENTS and array.ndim <= 5:
            assert uop.shape == array.shape and uop.dtype.np == array.dtype, line
            self.lines.append(f"x{len(self.values)} = {line}  # {uop.shape} {uop.dtype.name}")
            self.values.append((uop, array))

    def pick(self, i: int) -> tuple[str, UOp, np.ndarray]:
        i %= len(self.values)
        return f"x{i}", *self.values[i]

    def step(self, kind: str, i: int, j: int, seed: int) -> None:
        rng = random.Random(seed)
        if kind == "leaf" or not self.values:
            self.leaf(rng)
        else:
            getattr(self, kind)(rng, i, j)

    def leaf(self, rng: random.Random) -> None:
        shape = tuple(rng.sample([2, 3, 4, 5], rng.randint(1, 3)))
        dtype = rng.choice([np.float32, np.float32, np.float32, np.int32])
        array = np.random.RandomState(rng.randint(0, 10**6)).randint(-3, 4, size=shape).astype(dtype)
        self.keep.append(Tensor(array))
        self.add(f"leaf {array.tolist()}", self.keep[-1].uop, array)

    def unary(self, rng: random.Random, i: int, j: int) -> None:
        x, u, a = self.pick(i)
        name = rng.choice(UNARY)
        if name == "neg":
            self.add(f"-{x}", -u, -a)
        elif name == "relu":
            self.add(f"relu({x})", u.maximum(0), np.maximum(a, 0))
        elif name == "square":
            self.add(f"{x} * {x}", u * u, a * a)
        elif name == "plus one":
            self.add(f"{x} + 1", u + 1, a + a.dtype.type(1))
        elif u.dtype is dtypes.float32:
            clipped, b = u.maximum(-3.0).minimum(3.0), np.clip(a, -3, 3)
            if name == "exp2":
                self.add(f"exp2(clip({x}))", clipped.alu(Ops.EXP2), np.exp2(b))
            else:
                self.add(f"1 / (4 + clip({x}))", (clipped + 4.0).alu(Ops.RECIPROCAL), 1 / (b + np.float32(4)))

    def binary(self, rng: random.Random, i: int, j: int) -> None:
        (x, u, a), (y, v, b) = self.pick(i), self.pick(j)
        if u.dtype is not v.dtype:
            v, b, y = v.cast(u.dtype), b.astype(a.dtype), f"{u.dtype.name}({y})"
        if not broadcasts(a.shape, b.shape):
            if not a.ndim:
                return
            axis = rng.randrange(a.ndim)
            y = f"max({x}, axis={axis})"
            b = a.max(axis, keepdims=True)
            v = u.rop(Ops.MAX, (axis,)).reshape(b.shape)
        name = rng.choice(list(BINARY))
        node, array = BINARY[name]
        self.add(f"{name}({x}, {y})", node(u, v), array(a, b))

    def reduce(self, rng: random.Random, i: int, j: int) -> None:
        x, u, a = self.pick(i)
        if not a.ndim:
            return
        axes = tuple(sorted(rng.sample(range(a.ndim), rng.randint(1, a.ndim))))
        if rng.random() < 0.7:
            self.add(f"sum({x}, {axes})", u.rop(Ops.ADD, axes), a.sum(axes, dtype=a.dtype))
        else:
            self.add(f"max({x}, {axes})", u.rop(Ops.MAX, axes), a.max(axes))

    def move(self, rng: random.Random, i: int, j: int) -> None:
        x, u, a = self.pick(i)
        if (step := random_step(rng, a.shape)) is not None:
            op, arg = step
            self.add(f"{op.name.lower()}({x}, {arg})", UOp(op, u.dtype, (u,), arg), moved(a, op, arg))

    def window(self, rng: random.Random, i: int, j: int) -> None:
        """A value with zeros around a part of it: readers that look at the same place under different conditions."""
        x, u, a = self.pick(i)
        bounds = [(lo, rng.randint(lo + 1, n)) for n in a.shape for lo in [rng.randrange(n)]]
        inside = tuple(slice(lo, hi) for lo, hi in bounds)
        b = np.zeros_like(a)
        b[inside] = a[inside]
        around = tuple((lo, n - hi) for n, (lo, hi) in zip(a.shape, bounds, strict=True))
        self.add(f"window({x}, {bounds})", u.shrink(tuple(bounds)).pad(around), b)

    def where(self, rng: random.Random, i: int, j: int) -> None:
        (x, u, a), (y, v, b) = self.pick(i), self.pick(j)
        if u.dtype is v.dtype and broadcasts(a.shape, b.shape):
            self.add(
                f"where({x} < {y}, {x}, {y} * 2)", (u < v).where(u, v * 2), np.where(a < b, a, b * a.dtype.type(2))
            )

    def contiguous(self, rng: random.Random, i: int, j: int) -> None:
        x, u, a = self.pick(i)
        self.add(f"contiguous({x})", u.contiguous(), a)

    def stack(self, rng: random.Random, i: int, j: int) -> None:
        (x, u, a), (y, v, b) = self.pick(i), self.pick(j)
        if u.dtype is v.dtype and a.shape == b.shape and a.ndim <= 3:
            self.add(f"stack({x}, {y}, {x})", UOp(Ops.STACK, u.dtype, (u, v, u)), np.stack([a, b, a]))

    def cast(self, rng: random.Random, i: int, j: int) -> None:
        x, u, a = self.pick(i)
        to = rng.choice([dtypes.float32, dtypes.int32])
        self.add(f"{to.name}({x})", u.cast(to), a.astype(to.np))


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))  # the shorter one ends it


@dataclass(frozen=True)
class Program:
    """Steps, and which of the values they make are asked for."""

    steps: tuple[tuple[str, int, int, int], ...]
    asked: tuple[int, ...]

    def build(self) -> tuple[Graph, list[tuple[UOp, np.ndarray]]]:
        """The graph (it keeps its leaves alive) and the asked values."""
        graph = Graph()
        for step in self.steps:
            graph.step(*step)
        if not graph.values:
            graph.leaf(random.Random(0))
        outputs = [graph.values[-1 - i % len(graph.values)] for i in self.asked]
        return graph, outputs

    def __repr__(self) -> str:
        graph, outputs = self.build()
        last = len(graph.values) - 1
        asked = ", ".join(f"x{last - i % len(graph.values)}" for i in self.asked)
        needed = set(UOp.sink(*(u for u, _ in outputs)).toposort())
        lines = [line for (u, _), line in zip(graph.values, graph.lines, strict=True) if u in needed]
        return "\n".join(["", *lines, f"realize {asked}"])


_NUMBER = st.integers(0, 1000)


def programs(most: int = 22, kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Program]:
    """Random programs: one to three of the last values are asked for (0 is the last)."""
    step = st.tuples(st.sampled_from(kinds), _NUMBER, _NUMBER, st.integers(0, 10**6))
    asked = st.lists(st.integers(0, 6), max_size=2, unique=True).map(lambda more: (0, *(i for i in more if i)))
    return st.builds(Program, st.lists(step, min_size=6, max_size=most).map(tuple), asked)
