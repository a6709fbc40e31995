"""Random programs of views, expressions and writes: every Tensor shows what the NumPy array shows, at every step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tinysched import Tensor

SHAPE = (2, 3, 4)


@dataclass
class World:
    """Pairs of a Tensor and the array it stands for. A broadcast array of NumPy cannot be written, so none is made."""

    pairs: list[tuple[Tensor, np.ndarray]] = field(default_factory=list)
    count: int = 0

    def numbers(self, shape: tuple[int, ...]) -> np.ndarray:
        """Values that were never there before."""
        size = int(np.prod(shape))
        self.count += size
        return np.arange(self.count - size, self.count, dtype=np.float32).reshape(shape) + 1000

    def add(self, x: Tensor, a: np.ndarray) -> None:
        self.pairs.append((x, a))

    def check(self) -> None:
        for x, a in self.pairs:
            np.testing.assert_array_equal(x.numpy(), a)


def new(world: World, draw) -> None:
    a = world.numbers(SHAPE)
    kind = draw(st.sampled_from(["memory", "lazy", "constant"]))
    if kind == "constant":
        a = np.full(SHAPE, 7, np.float32)
        world.add(Tensor.full(SHAPE, 7.0), a)
    else:
        x = Tensor(a).realize() if kind == "memory" else Tensor(a) + 0
        world.add(x, a.copy())


def pick(world: World, draw) -> tuple[Tensor, np.ndarray]:
    return world.pairs[draw(st.integers(0, len(world.pairs) - 1))]


def index(a: np.ndarray, draw) -> tuple:
    """A basic index: ints, slices with any step, new axes."""
    key: list = []
    for n in a.shape:
        if draw(st.booleans()):
            start, stop = draw(st.integers(-n - 1, n + 1)), draw(st.integers(-n - 1, n + 1))
            key.append(slice(start, stop, draw(st.sampled_from([1, 2, -1, -2, None]))))
        else:
            key.append(draw(st.integers(-n, n - 1)) if n and draw(st.booleans()) else slice(None))
    return (None, *key) if draw(st.integers(0, 5)) == 0 else tuple(key)


def view(world: World, draw) -> None:
    x, a = pick(world, draw)
    kind = draw(st.sampled_from(["index", "permute", "flip", "reshape", "detach"]))
    if kind == "index":
        key = index(a, draw)
        world.add(x[key], a[key] if a[key].ndim else a[key].reshape(()))
        if not isinstance(world.pairs[-1][1], np.ndarray) or not np.shares_memory(world.pairs[-1][1], a):
            world.pairs.pop()  # NumPy gives a scalar of an element, we a view of it
    elif kind == "permute":
        order = draw(st.permutations(range(a.ndim)))
        world.add(x.permute(*order), a.transpose(order))
    elif kind == "flip":
        axes = tuple(i for i in range(a.ndim) if draw(st.booleans()))
        world.add(x.flip(axes), np.flip(a, axes))
    elif kind == "reshape":
        shape = (a.size,) if draw(st.booleans()) else (1, *a.shape[::-1])
        world.add(x.reshape(shape), a.reshape(shape))
    else:
        world.add(x.detach(), a[...])


def expression(world: World, draw) -> None:
    x, a = pick(world, draw)
    kind = draw(st.sampled_from(["add", "contiguous", "clone", "repeat", "pad"]))
    if kind == "add":
        world.add(x + 1, a + 1)
    elif kind == "repeat":
        world.add(x.repeat(*(2,) * a.ndim), np.tile(a, (2,) * a.ndim))
    elif kind == "pad":
        world.add(x.pad(((1, 0),) * a.ndim), np.pad(a, ((1, 0),) * a.ndim))
    else:
        world.add(getattr(x, kind)(), a.copy())


def write(world: World, draw) -> None:
    x, a = pick(world, draw)
    kind = draw(st.sampled_from(["scalar", "values", "assign", "+=", "self"]))
    if kind == "assign":
        value = world.numbers(a.shape)
        a[...] = value
        x.assign(value)
    elif kind == "+=":
        a += 10
        x += 10
    else:
        key = index(a, draw)
        value = np.float32(world.count) if kind == "scalar" else world.numbers(a[key].shape)
        if kind == "self":
            a[key] = a[key] * 2
            x[key] = x[key] * 2
        else:
            a[key] = value
            x[key] = value if kind == "values" else float(value)


def read(world: World, draw) -> None:
    x, a = pick(world, draw)
    np.testing.assert_array_equal(x.numpy(), a)


def realize(world: World, draw) -> None:
    pick(world, draw)[0].realize()


@settings(max_examples=60)
@given(st.data())
def test_numpys_model(data):
    world = World()
    new(world, data.draw)
    for _ in range(data.draw(st.integers(2, 9))):
        data.draw(st.sampled_from([new, view, view, expression, write, write, read, realize]))(world, data.draw)
    world.check()
