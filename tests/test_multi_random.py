"""Random programs on sharded Tensors do what they do on one device: movement, arithmetic, sharding anew, writes, copies.

A program is drawn step by step. Each step makes one more Tensor (or writes into one) twice: sharded and on one device.
What a step may refuse (a RESHAPE that would move items between shards) is left out of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tinysched import Context, Tensor
from tinysched.errors import ShapeError
from tinysched.ir.sharding import check_devices

MESHES = (
    ("NUMPY", "NUMPY:1"),
    ("NUMPY:2", "NUMPY:3", "NUMPY"),
    ("NUMPY:1", "NUMPY", "NUMPY:2", "NUMPY:3"),
)
MOST_ELEMENTS = 1000


class Pair(NamedTuple):
    """One value, on several devices and on one."""

    many: Tensor
    one: Tensor

    def both(self, fn: Callable[[Tensor], Tensor]) -> Pair:
        return Pair(fn(self.many), fn(self.one))


class Program:
    """The values made so far, and how to draw the next step."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object], devices: tuple[str, ...]) -> None:
        self.draw, self.devices, self.n = draw, devices, len(devices)
        self.values: list[Pair] = []
        for _ in range(self.int(1, 3)):
            self.new()

    # ** drawing **

    def int(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))  # type: ignore[return-value]

    def one_of(self, *choices):  # type: ignore[no-untyped-def]
        return self.draw(st.sampled_from(choices))

    def value(self) -> Pair:
        return self.values[self.int(0, len(self.values) - 1)]

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(self.int(0, 99)).integers(-4, 5, shape).astype(np.float32)

    def axis(self, shape: tuple[int, ...]) -> int | None:
        return self.one_of(None, *(i for i, s in enumerate(shape) if s % self.n == 0))

    def region(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        bounds = [sorted((self.int(0, s), self.int(0, s))) for s in shape]
        return tuple(slice(a, max(b, a + 1)) if a < s else slice(s - 1, s) for (a, b), s in zip(bounds, shape))

    # ** steps **

    def new(self) -> None:
        n = self.n
        array = self.array(self.one_of((2 * n, 3 * n), (2 * n, 1), (1, n), (3 * n,), (n, 2, n)))
        made = Pair(Tensor(array).shard(self.devices, self.axis(array.shape)), Tensor(array))
        if self.one_of(True, False):
            Tensor.realize(*made)
        self.values.append(made)

    def arithmetic(self) -> None:
        a, b = self.value(), self.value()
        try:
            size = np.prod(np.broadcast_shapes(a.one.shape, b.one.shape))
        except ValueError:
            return
        fn = self.one_of(Tensor.add, Tensor.mul, Tensor.sub, Tensor.maximum, Tensor.lt)
        if size <= MOST_ELEMENTS:
            self.keep(Pair(fn(a.many, b.many).float(), fn(a.one, b.one).float()))

    def reduced(self) -> None:
        x = self.value()
        axis = self.one_of(None, *range(x.one.ndim))
        self.keep(x.both(self.one_of(lambda t: t.sum(axis), lambda t: t.max(axis), lambda t: t.mean(axis))))

    def matmul(self) -> None:
        a, b = self.value(), self.value()
        if a.one.ndim == b.one.ndim == 2 and a.one.shape[1] == b.one.shape[1]:
            self.keep(Pair(a.many @ b.many.T, a.one @ b.one.T))

    def moved(self) -> None:
        x = self.value()
        shape = x.one.shape
        if not shape:
            return
        axis, widths = self.int(0, len(shape) - 1), [(self.int(0, 3), self.int(0, 3)) for _ in shape]
        order, region = self.draw(st.permutations(range(len(shape)))), self.region(shape)
        self.keep(
            x.both(
                self.one_of(
                    lambda t: t.permute(order),
                    lambda t: t.flip(axis),
                    lambda t: t.pad(tuple(widths)),
                    lambda t: t[region],
                    lambda t: t.unsqueeze(0).expand(2, *shape),
                    lambda t: t.cat(t + 1, dim=axis),
                    lambda t: Tensor.stack(t, t * 2),
                )
            )
        )

    def reshaped(self) -> None:
        x = self.value()
        shape = list(x.one.shape)
        i = self.int(0, max(len(shape) - 1, 0))
        if len(shape) > 1 and i < len(shape) - 1 and self.one_of(True, False):
            shape[i : i + 2] = [shape[i] * shape[i + 1]]
        elif shape:
            k = self.one_of(*(k for k in range(1, shape[i] + 1) if shape[i] % k == 0))
            shape[i : i + 1] = [k, shape[i] // k]
        self.keep(x.both(lambda t: t.reshape(tuple(shape))))

    def sharded(self) -> None:
        x = self.value()
        axis = self.axis(x.one.shape)
        self.keep(Pair(x.many.shard(self.devices, axis), x.one.clone()))

    def there_and_back(self) -> None:
        x, device = self.value(), self.one_of(*self.devices, "NUMPY:7")
        axis = self.axis(x.one.shape)
        self.keep(Pair((x.many.to(device) + 1).shard(self.devices, axis), x.one + 1))

    def stored(self) -> None:
        self.keep(self.value().both(lambda t: (t * 2).contiguous()))

    def snapshot(self) -> None:
        self.keep(self.value().both(self.one_of(lambda t: t + 0, Tensor.contiguous, Tensor.clone)))

    def written(self) -> None:
        x = self.value()
        if not x.one.shape:
            return
        region = self.region(x.one.shape)
        array = self.array(tuple(s.stop - s.start for s in region))
        kind = self.one_of("number", "array", "own", "other axis")
        for t in x:
            if kind == "number":
                t[region] = 7.0
            elif kind == "own":
                t[region] = t[region].flip(0) * 2
            elif kind == "other axis" and t is x.many:
                t[region] = Tensor(array).shard(self.devices, self.axis(array.shape))
            else:
                t[region] = Tensor(array, device=t.device)

    def realized(self) -> None:
        chosen = [self.value() for _ in range(self.int(1, 3))]
        Tensor.realize(*(x.many for x in chosen))
        Tensor.realize(*(x.one for x in chosen))

    def keep(self, made: Pair) -> None:
        """Keeps a new value, unless it is too large or its graph would move items between shards."""
        if made.one.numel() > MOST_ELEMENTS:
            return
        try:
            check_devices(made.many.uop.toposort())
        except ShapeError:
            return
        self.values.append(made)

    def step(self) -> None:
        steps = (
            self.arithmetic, self.arithmetic, self.reduced, self.matmul, self.moved, self.moved, self.reshaped,
            self.sharded, self.there_and_back, self.stored, self.snapshot, self.written, self.written, self.realized,
        )  # fmt: skip
        self.one_of(*steps)()


@settings(max_examples=100)
@given(st.data(), st.sampled_from(MESHES), st.sampled_from([{}, {"RING": 2}, {"ALL2ALL": 2}]))
def test_a_sharded_program_does_what_it_does_on_one_device(data: st.DataObject, devices, how: dict[str, int]) -> None:
    program = Program(data.draw, devices)
    with Context(**how):
        for _ in range(program.int(2, 9)):
            program.step()
        order = data.draw(st.permutations(range(len(program.values))))
        if program.one_of(True, False):
            Tensor.realize(*(program.values[i].many for i in order))
        for i in order:
            many, one = program.values[i]
            np.testing.assert_allclose(many.numpy(), one.numpy(), rtol=1e-4, atol=1e-3)
