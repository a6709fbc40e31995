"""Products, windows, images, norms, attention, losses."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tests.tensor_tables.elementwise import sigmoid
from tests.tensor_tables.table import INF, NAN, A, F, I, P, line

i32, f32 = np.int32, np.float32


def products() -> None:
    line("matmul", lambda x, w: x @ w, F(3, 4), F(4, 5))
    line("matmul batched", lambda x, w: x @ w, A, F(4, 5))
    line("matmul batch broadcast", lambda x, w: x @ w, F(2, 1, 3, 4), F(5, 4, 6))
    line("matmul vectors", lambda x, w: x @ w, F(4), F(4))
    line("matmul matrix vector", lambda x, w: x @ w, A, F(4))
    line("matmul vector matrix", lambda x, w: x @ w, F(4), F(4, 5))
    line("matmul ints", lambda x, w: x @ w, I(3, 4), I(4, 5))
    line("matmul halves", lambda x, w: x @ w, F(3, 4, dtype=np.float16), F(4, 5, dtype=np.float16), tol=4e-3)
    line("matmul reverse", lambda x, w: x.matmul(w, reverse=True), F(4, 5), F(3, 4), np_=lambda x, w: w @ x)
    line(
        "dot dtype",
        lambda x, w: x.dot(w, dtype="float64"),
        F(3, 4),
        F(4, 5),
        np_=lambda x, w: (x @ w).astype(np.float64),
    )
    line("linear", lambda x, w, b: x.linear(w, b), F(2, 4), F(4, 5), F(5), np_=lambda x, w, b: x @ w + b)
    line("linear 1-d", lambda x, w: x.linear(w), F(2, 4), F(4), np_=lambda x, w: x * w)
    line("sequential", lambda x: x.sequential([lambda t: t + 1, lambda t: t * 2]), A, np_=lambda x: (x + 1) * 2)
    for formula, shapes in {
        "ij,jk->ik": ((3, 4), (4, 5)),
        "ij,jk": ((3, 4), (4, 5)),
        "ii->i": ((4, 4),),
        "ii": ((4, 4),),
        "iji->j": ((3, 4, 3),),
        "bij,bkj->bki": ((2, 3, 4), (2, 5, 4)),
        "...ij,...jk->...ik": ((2, 1, 3, 4), (6, 4, 5)),
        "i,j,k->kij": ((2,), (3,), (4,)),
        "ab,c->cab": ((2, 3), (4,)),
        "b...,b->...": ((2, 3, 4), (2,)),
        "ij->": ((3, 4),),
        "zyx": ((2, 3, 4),),
    }.items():
        line(
            f"einsum {formula}",
            lambda *x, f=formula: type(x[0]).einsum(f, *x),
            *(F(*s) for s in shapes),
            np_=lambda *x, f=formula: np.einsum(f, *x),
            peer=formula not in ("iji->j", "...ij,...jk->...ik"),
        )


def convolved(x: Any, w: Any, groups: int = 1, stride: int = 1, dilation: int = 1, padding: int = 0) -> Any:
    """A convolution of images, literally."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    (n, _, h, v), (out, cin, kh, kw) = x.shape, w.shape
    oh, ow = ((s - dilation * (k - 1) - 1) // stride + 1 for s, k in ((h, kh), (v, kw)))
    result = np.zeros((n, out, oh, ow), f32)
    for o, i, j in product(range(out), range(oh), range(ow)):
        first = o // (out // groups) * cin
        part = x[:, first : first + cin, i * stride :, j * stride :]
        part = part[:, :, : dilation * kh : dilation, : dilation * kw : dilation][:, :, :kh, :kw]
        result[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return result


def transposed(x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
    (n, _, h, v), (_, out, kh, kw) = x.shape, w.shape
    full = np.zeros((n, out, (h - 1) * stride + kh, (v - 1) * stride + kw), f32)
    for i, j in product(range(h), range(v)):
        full[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += np.einsum(
            "nc,cokl->nokl", x[:, :, i, j], w
        )
    return full[:, :, padding : full.shape[2] - padding or None, padding : full.shape[3] - padding or None]


def pooled(x: Any, fn: Any, k: tuple[int, int], s: tuple[int, int]) -> Any:
    oh, ow = (x.shape[2] - k[0]) // s[0] + 1, (x.shape[3] - k[1]) // s[1] + 1
    cells = [
        [fn(x[:, :, i * s[0] : i * s[0] + k[0], j * s[1] : j * s[1] + k[1]]) for j in range(ow)] for i in range(oh)
    ]
    return np.array(cells).transpose(2, 3, 0, 1)


def places_of_largest(x: Any) -> Any:
    """Where in each plane the largest of each 2 by 2 window stands."""
    plane = np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:])
    cells = [
        [
            plane[i : i + 2, j : j + 2].reshape(-1)[x[:, :, i : i + 2, j : j + 2].reshape(*x.shape[:2], 4).argmax(-1)]
            for j in range(0, x.shape[3] - 1, 2)
        ]
        for i in range(0, x.shape[2] - 1, 2)
    ]
    return np.array(cells).transpose(2, 3, 0, 1).astype(i32)


def windows() -> None:
    x, w = F(2, 4, 7, 9), F(6, 4, 3, 2)
    line("conv2d", lambda x, w: x.conv2d(w), x, w, np_=convolved, tol=2e-5)
    line(
        "conv2d bias",
        lambda x, w, b: x.conv2d(w, b),
        x,
        w,
        F(6),
        np_=lambda x, w, b: convolved(x, w) + b[:, None, None],
        tol=2e-5,
    )
    for more in ({"stride": 2}, {"dilation": 2}, {"padding": 1}, {"stride": 3, "padding": 2, "dilation": 2}):
        line(
            f"conv2d {more}",
            lambda x, w, m=more: x.conv2d(w, **m),
            x,
            w,
            np_=lambda x, w, m=more: convolved(x, w, **m),
            tol=2e-5,
        )
    line(
        "conv2d groups",
        lambda x, w: x.conv2d(w, groups=2),
        x,
        F(6, 2, 3, 2),
        np_=lambda x, w: convolved(x, w, groups=2),
        tol=2e-5,
    )
    line(
        "conv1d",
        lambda x, w: x.conv2d(w, padding=(1, 2)),
        F(2, 3, 8),
        F(4, 3, 3),
        np_=lambda x, w: convolved(np.pad(x, ((0, 0), (0, 0), (1, 2)))[:, :, None], w[:, :, None])[:, :, 0],
        tol=2e-5,
    )
    line("conv_transpose2d", lambda x, w: x.conv_transpose2d(w), x, F(4, 3, 3, 2), np_=transposed, tol=2e-5)
    line(
        "conv_transpose2d stride",
        lambda x, w: x.conv_transpose2d(w, stride=2, padding=1),
        x,
        F(4, 3, 3, 2),
        np_=lambda x, w: transposed(x, w, 2, 1),
        tol=2e-5,
    )
    line("max_pool2d", lambda x: x.max_pool2d(), x, np_=lambda x: pooled(x, lambda p: p.max((2, 3)), (2, 2), (2, 2)))
    line(
        "max_pool2d overlap",
        lambda x: x.max_pool2d((3, 2), stride=(1, 2)),
        x,
        np_=lambda x: pooled(x, lambda p: p.max((2, 3)), (3, 2), (1, 2)),
    )
    line(
        "max_pool2d padding",
        lambda x: x.max_pool2d((3, 3), 2, padding=1),
        x,
        np_=lambda x: pooled(
            np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-INF), lambda p: p.max((2, 3)), (3, 3), (2, 2)
        ),
    )
    line(
        "max_pool2d ceil",
        lambda x: x.max_pool2d((2, 2), ceil_mode=True),
        x,
        np_=lambda x: pooled(
            np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-INF), lambda p: p.max((2, 3)), (2, 2), (2, 2)
        ),
    )
    line("max_pool2d places", lambda x: x.max_pool2d(return_indices=True)[1], x, np_=places_of_largest)
    line(
        "avg_pool2d",
        lambda x: x.avg_pool2d((3, 3), stride=2),
        x,
        np_=lambda x: pooled(x, lambda p: p.mean((2, 3)), (3, 3), (2, 2)),
    )
    line(
        "avg_pool2d padding not counted",
        lambda x: x.avg_pool2d((3, 3), 2, padding=1, count_include_pad=False),
        x,
        np_=lambda x: pooled(
            np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=NAN),
            lambda p: np.nanmean(p, (2, 3)),
            (3, 3),
            (2, 2),
        ),
    )
    line(
        "avg_pool2d ceil",
        lambda x: x.avg_pool2d((2, 2), ceil_mode=True),
        x,
        np_=lambda x: pooled(
            np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=NAN),
            lambda p: np.nanmean(p, (2, 3)),
            (2, 2),
            (2, 2),
        ),
    )


def resized(x: Any, n: int, mode: str, corners: bool = False) -> Any:
    """The last axis resampled to n."""
    old, at = x.shape[-1], np.arange(n)
    if mode != "linear":
        return x[..., ((at + (0.5 if mode == "nearest-exact" else 0)) * old / n + 1e-9).astype(int)]
    pos = at * (old - 1) / max(n - 1, 1) if corners else np.clip((at + 0.5) * old / n - 0.5, 0, old - 1)
    low, high = np.floor(pos).astype(int), np.ceil(pos).astype(int)
    return (x[..., low] + (x[..., high] - x[..., low]) * (pos - low)).astype(f32)


def images() -> None:
    x = F(2, 3, 5, 7)
    for mode in ("nearest", "nearest-exact", "linear"):
        for n in (4, 13):
            line(
                f"interpolate {mode} {n}",
                lambda x, m=mode, n=n: x.interpolate((n,), m),
                x,
                np_=lambda x, m=mode, n=n: resized(x, n, m),
                tol=2e-5,
            )
    line(
        "interpolate corners",
        lambda x: x.interpolate((13,), align_corners=True),
        x,
        np_=lambda x: resized(x, 13, "linear", True),
        tol=2e-5,
    )
    line(
        "interpolate two axes",
        lambda x: x.interpolate((8, 3)),
        x,
        np_=lambda x: resized(resized(x, 3, "linear").swapaxes(2, 3), 8, "linear").swapaxes(2, 3),
        tol=2e-5,
    )


def attention(q: Any, k: Any, v: Any, mask: Any = 0) -> Any:
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).astype(f32)


def layers() -> None:
    norm = lambda x, a: (x - x.mean(a, keepdims=True)) / np.sqrt(x.var(a, keepdims=True) + f32(1e-5))  # noqa: E731
    line("layernorm", lambda x: x.layernorm(), A, np_=lambda x: norm(x, -1), tol=3e-5)
    line("layernorm axes", lambda x: x.layernorm((1, 2)), A, np_=lambda x: norm(x, (1, 2)), tol=3e-5)
    line(
        "batchnorm",
        lambda x, w, b, m, i: x.batchnorm(w, b, m, i),
        A,
        F(3),
        F(3),
        F(3),
        P(3),
        np_=lambda x, w, b, m, i: (x - m[:, None]) * w[:, None] * i[:, None] + b[:, None],
    )
    q, k, v = F(2, 4, 3, 8), F(2, 4, 5, 8), F(2, 4, 5, 6)
    line("attention", lambda q, k, v: q.scaled_dot_product_attention(k, v), q, k, v, np_=attention)
    line(
        "attention bool mask",
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m),
        q,
        k,
        v,
        np.tri(3, 5, 1, bool),
        np_=lambda q, k, v, m: attention(q, k, v, np.where(m, 0, -INF)),
    )
    line(
        "attention added mask",
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, m),
        q,
        k,
        v,
        F(3, 5),
        np_=attention,
    )
    line(
        "attention causal",
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        q,
        q[..., :8],
        F(2, 4, 3, 6),
        np_=lambda q, k, v: attention(q, k, v, np.where(np.tri(3, 3, 0, bool), 0, -INF)),
    )
    line(
        "attention gqa",
        lambda q, k, v: q.scaled_dot_product_attention(k, v, enable_gqa=True),
        q,
        F(2, 2, 5, 8),
        F(2, 2, 5, 6),
        np_=lambda q, k, v: attention(q, k.repeat(2, 1), v.repeat(2, 1)),
    )


def losses() -> None:
    log_p = lambda x, a=-1: x - np.log(np.exp(x).sum(a, keepdims=True))  # noqa: E731
    x, y = F(6, 5), I(6, lo=0, hi=5)
    pick = lambda x, y: np.take_along_axis(log_p(x), y[:, None] % 5, 1)[:, 0]  # noqa: E731
    line(
        "sparse_categorical_crossentropy",
        lambda x, y: x.sparse_categorical_crossentropy(y),
        x,
        y,
        np_=lambda x, y: -pick(x, y).mean(),
    )
    line(
        "sparse_categorical_crossentropy none",
        lambda x, y: x.sparse_categorical_crossentropy(y, reduction="none"),
        x,
        y,
        np_=lambda x, y: -pick(x, y),
    )
    line(
        "sparse_categorical_crossentropy ignore",
        lambda x, y: x.sparse_categorical_crossentropy(y, ignore_index=2),
        x,
        y,
        np_=lambda x, y: -pick(x, y)[y != 2].mean(),
    )
    line(
        "sparse_categorical_crossentropy smooth",
        lambda x, y: x.sparse_categorical_crossentropy(y, label_smoothing=0.2),
        x,
        y,
        np_=lambda x, y: -(f32(0.8) * pick(x, y) + f32(0.2) * log_p(x).mean(-1)).mean(),
    )
    line("cross_entropy", lambda x, y: x.cross_entropy(y), x, y, np_=lambda x, y: -pick(x, y).mean())
    line(
        "cross_entropy sum smooth",
        lambda x, y: x.cross_entropy(y, "sum", 0.1),
        x,
        y,
        np_=lambda x, y: -(log_p(x) * (np.eye(5)[y] * 0.9 + 0.02)).sum().astype(f32),
    )
    line(
        "cross_entropy images",
        lambda x, y: x.cross_entropy(y),
        F(2, 5, 3),
        I(2, 3, lo=0, hi=5),
        np_=lambda x, y: -np.take_along_axis(log_p(x, 1), y[:, None], 1).mean(),
    )
    line(
        "cross_entropy probabilities",
        lambda x, y: x.cross_entropy(y),
        x,
        P(6, 5),
        np_=lambda x, y: -(log_p(x) * y).sum(1).mean(),
    )
    line("nll_loss", lambda x, y: x.nll_loss(y), x, y, np_=lambda x, y: -x[np.arange(6), y].mean())
    line(
        "nll_loss weighted",
        lambda x, y, w: x.nll_loss(y, w, ignore_index=1),
        x,
        y,
        P(5),
        np_=lambda x, y, w: -((x[np.arange(6), y] * w[y])[y != 1].sum() / w[y][y != 1].sum()),
    )
    bce = lambda p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p))  # noqa: E731
    line("binary_crossentropy", lambda x, y: x.binary_crossentropy(y), P(6), P(6), np_=lambda x, y: bce(x, y).mean())
    line(
        "binary_crossentropy_logits",
        lambda x, y: x.binary_crossentropy_logits(y),
        F(6),
        P(6),
        np_=lambda x, y: bce(sigmoid(x), y).mean(),
    )
    line(
        "binary_crossentropy_logits weight",
        lambda x, y, w: x.binary_crossentropy_logits(y, "none", w),
        F(6),
        P(6),
        P(6),
        np_=lambda x, y, w: -(w * y * np.log(sigmoid(x)) + (1 - y) * np.log(sigmoid(-x))),
    )


for group in (
    products,
    windows,
    images,
    layers,
    losses,
):
    group()
