"""The kernels whose speed is measured: each as Tensors (ours and the peer's), in NumPy as people write it, in torch.

In: nothing. Out: :data:`ROWS`. Sizes are those of the goals in docs/performance.md; float32, but for the gather's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

Array = Any
Tensor = Any


class Row(NamedTuple):
    """One kernel or a few."""

    shapes: tuple[tuple[int, ...], ...]
    tensors: Callable[..., list[Tensor]]
    """Of Tensors, of either library, to the Tensors to realize."""
    by_hand: Callable[..., Any]
    in_torch: Callable[..., Any]
    """Of the module torch, and its tensors."""
    moved: int
    """Bytes, if everything is read and written once; 0 where it is the operations that count."""
    flops: int = 0


N: Final = 4096
PLANE: Final = (N, N)
NARROW: Final = (N, 1024)
SQUARE: Final = (1024, 1024)
HEADS: Final = (8, 512, 64)
ADAM: Final = (10_000_000,)
TABLE, TOKENS = (32000, 512), (8192,)
F: Final = 4
"""Bytes of a float32."""


def arrays_of(row: Row) -> list[Array]:
    """The inputs, the same for every side; the gather's second one numbers rows of its first."""
    rng = np.random.default_rng(0)
    whole = [rng.integers(0, TABLE[0], s).astype(np.int32) if s == TOKENS else None for s in row.shapes]
    return [rng.random(s, np.float32) if w is None else w for w, s in zip(whole, row.shapes)]


# ** as people write it **


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5))


def rmsnorm(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))


def attention(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)) @ v


def conv(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.tensordot(w, windows, axes=((1, 2, 3), (1, 4, 5))).swapaxes(0, 1)


B1, B2, LR, EPS = 0.9, 0.999, 1e-3, 1e-8


def adam(p: Array, g: Array, m: Array, v: Array) -> None:
    m[...] = B1 * m + (1 - B1) * g
    v[...] = B2 * v + (1 - B2) * (g * g)
    p[...] = p - LR * m / (np.sqrt(v) + EPS)


def adam_of_tensors(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> list[Tensor]:
    m.assign(B1 * m + (1 - B1) * g)
    v.assign(B2 * v + (1 - B2) * (g * g))
    p.assign(p.detach() - LR * m / (v.sqrt() + EPS))
    return [p, m, v]


def adam_in_torch(t: Any, p: Array, g: Array, m: Array, v: Array) -> None:
    m.mul_(B1).add_(g, alpha=1 - B1)
    v.mul_(B2).addcmul_(g, g, value=1 - B2)
    p.addcdiv_(m, v.sqrt().add_(EPS), value=-LR)


ROWS: Final[dict[str, Row]] = {
    "matmul": Row((SQUARE, SQUARE), lambda a, b: [a @ b], lambda a, b: a @ b, lambda t, a, b: a @ b, 0, 2 * 1024**3),
    "matmul_sum": Row(
        (SQUARE, SQUARE),
        lambda a, b: [(a @ b).sum()],
        lambda a, b: (a @ b).sum(),
        lambda t, a, b: (a @ b).sum(),
        0,
        2 * 1024**3,
    ),
    "attention": Row(
        (HEADS,) * 3,
        lambda q, k, v: [q.scaled_dot_product_attention(k, v)],
        attention,
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        0,
        4 * 8 * 512 * 512 * 64,
    ),
    "conv3x3": Row(
        ((1, 64, 56, 56), (64, 64, 3, 3)),
        lambda x, w: [x.conv2d(w, padding=1)],
        conv,
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
        0,
        2 * 64 * 64 * 9 * 56 * 56,
    ),
    "gelu": Row(
        (PLANE,),
        lambda x: [x.gelu()],
        gelu,
        lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
        2 * F * N * N,
    ),
    "softmax": Row((PLANE,), lambda x: [x.softmax(-1)], softmax, lambda t, x: t.softmax(x, -1), 2 * F * N * N),
    "layernorm": Row(
        (NARROW,),
        lambda x: [x.layernorm(eps=1e-5)],
        layernorm,
        lambda t, x: t.nn.functional.layer_norm(x, (1024,)),
        2 * F * N * 1024,
    ),
    "rmsnorm": Row(
        (NARROW,),
        lambda x: [x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()],
        rmsnorm,
        lambda t, x: x * t.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
        2 * F * N * 1024,
    ),
    "row_sums": Row((PLANE,), lambda x: [x.sum(-1)], lambda x: x.sum(-1), lambda t, x: x.sum(-1), F * N * N),
    "big_sum": Row(((1 << 24,),), lambda x: [x.sum()], lambda x: x.sum(), lambda t, x: x.sum(), F << 24),
    "gather": Row((TABLE, TOKENS), lambda x, i: [x[i]], lambda x, i: x[i], lambda t, x, i: x[i], 2 * F * 8192 * 512),
    "adam": Row((ADAM,) * 4, adam_of_tensors, adam, adam_in_torch, 7 * F * ADAM[0]),
    "transpose_add": Row(
        (PLANE, PLANE),
        lambda a, b: [a.transpose() + b],
        lambda a, b: a.T + b,
        lambda t, a, b: a.T + b,
        3 * F * N * N,
    ),
    "cumsum": Row(
        ((1024, N),), lambda x: [x.cumsum(1)], lambda x: np.cumsum(x, 1), lambda t, x: x.cumsum(1), 2 * F * N * 1024
    ),
}
