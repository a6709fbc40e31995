"""Two programs on several devices, written once for both libraries: a data-parallel MLP, a tensor-parallel block.

In: a :class:`benchmarks.libs.Lib` and how many devices. Out: the Tensors to realize, and :func:`moved`, what a LINEAR runs
on each device and moves between them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from benchmarks.libs import Array, Lib

Tensor = Any


class Moved(NamedTuple):
    """Kernels and copies of a LINEAR, each counted on each device that it runs on, and the bytes of the copies."""

    kernels: int
    copies: int
    bytes: int


def moved(linear: Any) -> Moved:
    """The peer has one CALL for several devices, whose buffers then name all of them."""
    kernels = copies = size = 0
    for call in linear.src:
        device = call.src[1].device
        times = len(device) if isinstance(device, tuple) else 1
        if call.src[0].op.name == "COPY":
            copies += times
            size += times * call.src[1].nbytes()
        else:
            kernels += times
    return Moved(kernels, copies, size)


def devices(lib: Lib, n: int) -> tuple[str, ...]:
    """The first ``n`` devices of a library's kind."""
    first = str(lib.module.Tensor([0.0]).realize().device)
    return tuple(first if i == 0 else f"{first}:{i}" for i in range(n))


def training(lib: Lib) -> AbstractContextManager[Any]:
    """The setting under which an optimizer steps."""
    return lib.module.Context(TRAINING=1)  # type: ignore[no-any-return]


class Made:
    """Inputs from a seed, placed on ``n`` devices."""

    def __init__(self, lib: Lib, n: int) -> None:
        self.lib, self.names, self.rng = lib, devices(lib, n), np.random.default_rng(0)

    def put(self, array: Array, axis: int | None) -> Tensor:
        t = self.lib.load(array)
        return t.shard(self.names, axis).realize() if len(self.names) > 1 else t

    def floats(self, *shape: int, axis: int | None = None) -> Tensor:
        return self.put((self.rng.standard_normal(shape) * 0.3).astype(np.float32), axis)

    def parameter(self, *shape: int, axis: int | None = None) -> Tensor:
        t = self.floats(*shape, axis=axis)
        t.is_param = True
        return t


def mlp_step(lib: Lib, n: int, optimizer: str, **options: Any) -> Callable[[], list[Tensor]]:
    """One training step of a small MLP: the batch is cut, the parameters are whole on each device."""
    make = Made(lib, n)
    w1, b1, w2, b2 = params = [make.parameter(*shape) for shape in ((16, 12), (16,), (8, 16), (8,))]
    x, y = make.floats(8, 12, axis=0), make.put(make.rng.integers(0, 8, 8).astype(np.int32), 0)
    opt = getattr(lib.module.nn.optim, optimizer)(params, lr=0.1, **options)

    def step() -> list[Tensor]:
        for p in params:
            p.grad = None
        hidden = x.linear(w1.transpose(), b1).relu()
        loss = hidden.linear(w2.transpose(), b2).sparse_categorical_crossentropy(y)
        loss.backward()
        return [loss, *opt.schedule_step()]

    return step


def block(lib: Lib, n: int, gradients: bool = False) -> list[Tensor]:
    """A transformer block: the first matrix of each pair is cut along its outputs, the second along its inputs."""
    make, batch, time, width, heads = Made(lib, n), 2, 8, 16, 4
    q, k, v = (make.floats(width, width, axis=0) for _ in range(3))
    o = make.floats(width, width, axis=1)
    up, down = make.floats(2 * width, width, axis=0), make.floats(width, 2 * width, axis=1)
    scale1, scale2 = make.floats(width), make.floats(width)
    x = make.floats(batch, time, width)

    def split(t: Tensor) -> Tensor:
        return t.reshape(batch, time, heads, width // heads).transpose(1, 2)

    h = x.layernorm() * scale1
    seen = split(h.linear(q.transpose())).scaled_dot_product_attention(
        split(h.linear(k.transpose())), split(h.linear(v.transpose())), is_causal=True
    )
    mixed = x + seen.transpose(1, 2).reshape(batch, time, width).linear(o.transpose())
    wide = (mixed.layernorm() * scale2).linear(up.transpose()).gelu()
    out = mixed + wide.linear(down.transpose())
    if not gradients:
        return [out]
    loss = (out * out).mean()
    return [loss, *loss.gradient(q, k, v, o, up, down, scale1, scale2)]
