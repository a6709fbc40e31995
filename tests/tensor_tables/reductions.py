"""Reductions, places of extremes, running reductions, sorting, exponentials."""

from __future__ import annotations

import numpy as np

from tests.tensor_tables.table import INF, NAN, SPECIAL, A, B, F, I, line


def reductions() -> None:
    for name in ("sum", "prod", "max", "min", "mean", "any", "all"):
        fn = getattr(np, name)
        line(name, lambda x, n=name: getattr(x, n)(), A, np_=fn)
        line(f"{name} axis", lambda x, n=name: getattr(x, n)(1), A, np_=lambda x, fn=fn: fn(x, 1))
        line(
            f"{name} axes keepdim",
            lambda x, n=name: getattr(x, n)((0, -1), keepdim=True),
            A,
            np_=lambda x, fn=fn: fn(x, axis=(0, 2), keepdims=True),
        )
        line(f"{name} of size 1", lambda x, n=name: getattr(x, n)(1), F(3, 1, 4), np_=lambda x, fn=fn: fn(x, 1))
        line(f"{name} 0-d", lambda x, n=name: getattr(x, n)(), F(), np_=fn)
    for name in ("max", "min", "sum", "prod"):
        line(
            f"{name} with NaN",
            lambda x, n=name: getattr(x, n)(0),
            np.stack([SPECIAL, SPECIAL[::-1]]),
            np_=lambda x, n=name: getattr(np, n)(x, 0),
        )
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint32, bool):
        a = I(5, 6, lo=0, dtype=dtype)
        wide = {np.int8: np.int32, np.uint8: np.uint32, bool: np.int32}.get(dtype, dtype)
        line(f"sum {dtype.__name__}", lambda x: x.sum(0), a, np_=lambda x, wide=wide: x.sum(0, dtype=wide))
        line(f"max {dtype.__name__}", lambda x: x.max(1), a, np_=lambda x: x.max(1))
        line(f"min {dtype.__name__}", lambda x: x.min(1), a, np_=lambda x: x.min(1))
        line(f"prod {dtype.__name__}", lambda x: x.prod(1), a, np_=lambda x, d=dtype: x.prod(1, dtype=d))
        line(f"mean {dtype.__name__}", lambda x: x.mean(1), a, np_=lambda x: x.mean(1).astype(np.float32))
    line(
        "sum half in float32",
        lambda x: x.sum(),
        np.full(5000, 0.1, np.float16),
        np_=lambda x: np.float16(x.astype(np.float32).sum()),
        tol=1e-3,
    )
    line("sum dtype", lambda x: x.sum(1, dtype="float64"), A, np_=lambda x: x.sum(1, dtype=np.float64))
    line("sum of nothing", lambda x: x.sum(1), F(3, 0), np_=lambda x: x.sum(1))
    line("prod of nothing", lambda x: x.prod(1), F(3, 0), np_=lambda x: x.prod(1))
    line("any of nothing", lambda x: x.any(), F(0), np_=np.any)
    line("all of nothing", lambda x: x.all(), F(0), np_=np.all)
    line("mean of nothing", lambda x: x.mean(1), F(3, 0), np_=lambda x: np.full(3, NAN, np.float32))
    line("var", lambda x: x.var(1), A, np_=lambda x: x.var(1, ddof=1))
    line(
        "std no correction",
        lambda x: x.std((0, 2), keepdim=True, correction=0),
        A,
        np_=lambda x: x.std((0, 2), keepdims=True),
    )
    line("var of ints", lambda x: x.var(), I(7), np_=lambda x: x.var(ddof=1).astype(np.float32))
    line("var of one", lambda x: x.var(0), F(1, 3), np_=lambda x: np.full(3, NAN, np.float32))
    line("var_mean", lambda x: x.var_mean(1)[0] + x.var_mean(1)[1], A, np_=lambda x: x.var(1, ddof=1) + x.mean(1))
    line("std_mean", lambda x: x.std_mean(1)[0] + x.std_mean(1)[1], A, np_=lambda x: x.std(1, ddof=1) + x.mean(1))


def places() -> None:
    i32 = np.int32
    for name in ("argmax", "argmin"):
        fn = getattr(np, name)
        line(name, lambda x, n=name: getattr(x, n)(), A, np_=lambda x, fn=fn: i32(fn(x)))
        line(f"{name} axis", lambda x, n=name: getattr(x, n)(1), A, np_=lambda x, fn=fn: fn(x, 1).astype(i32))
        line(
            f"{name} keepdim",
            lambda x, n=name: getattr(x, n)(-1, keepdim=True),
            A,
            np_=lambda x, fn=fn: fn(x, -1, keepdims=True).astype(i32),
        )
        line(
            f"{name} ties, first",
            lambda x, n=name: getattr(x, n)(1),
            I(4, 9, lo=0, hi=3),
            np_=lambda x, fn=fn: fn(x, 1).astype(i32),
        )
        line(
            f"{name} uint8",
            lambda x, n=name: getattr(x, n)(1),
            I(4, 9, lo=0, hi=255, dtype=np.uint8),
            np_=lambda x, fn=fn: fn(x, 1).astype(i32),
        )
        line(
            f"{name} int8 limits",
            lambda x, n=name: getattr(x, n)(),
            np.array([0, -128, 127, -128], np.int8),
            np_=lambda x, fn=fn: i32(fn(x)),
        )
        line(f"{name} bool", lambda x, n=name: getattr(x, n)(1), B(4, 9), np_=lambda x, fn=fn: fn(x, 1).astype(i32))
        line(
            f"{name} NaN, first",
            lambda x, n=name: getattr(x, n)(1),
            np.stack([SPECIAL, SPECIAL[::-1]]),
            np_=lambda x, fn=fn: fn(x, 1).astype(i32),
        )
        line(f"{name} 0-d", lambda x, n=name: getattr(x, n)(), F(), np_=lambda x: i32(0))
    line("cumsum", lambda x: x.cumsum(1), A, np_=lambda x: x.cumsum(1))
    line("cumsum bool", lambda x: x.cumsum(), B(9), np_=lambda x: x.cumsum(dtype=i32))
    line("cumsum long", lambda x: x.cumsum(1), I(3, 700), np_=lambda x: x.cumsum(1, dtype=i32))
    line("cumsum first axis, long", lambda x: x.cumsum(0), I(600, 3), np_=lambda x: x.cumsum(0, dtype=i32))
    line("cumsum empty", lambda x: x.cumsum(0), F(0, 3), np_=lambda x: x)
    for shape in ((0,), (0, 3), (3, 0)):
        for name in ("cumprod", "logcumsumexp", "softmax", "log_softmax"):
            line(f"{name} empty {shape}", lambda x, n=name: getattr(x, n)(0), F(*shape), np_=lambda x: x)
        for name in ("cummax", "cummin", "sort"):
            line(f"{name} empty {shape}", lambda x, n=name: getattr(x, n)(0)[0], F(*shape), np_=lambda x: x)
            line(f"{name} empty {shape}, places", lambda x, n=name: getattr(x, n)(0)[1], F(*shape),
                 np_=lambda x: x.astype(i32))  # fmt: skip
    line("cumprod", lambda x: x.cumprod(0), A, np_=lambda x: x.cumprod(0))
    line("cumprod long", lambda x: x.cumprod(0), 1 + F(600) / 100, np_=lambda x: x.cumprod(), tol=1e-4)
    line("cummax", lambda x: x.cummax(1)[0], A, np_=lambda x: np.maximum.accumulate(x, 1))
    line("cummax NaN", lambda x: x.cummax(0)[0], SPECIAL, np_=np.maximum.accumulate)
    line("cummax places", lambda x: x.cummax(1)[1], I(3, 9, lo=0, hi=4), np_=last_best)
    line("cummin", lambda x: x.cummin(1)[0], A, np_=lambda x: np.minimum.accumulate(x, 1))
    line("logcumsumexp", lambda x: x.logcumsumexp(1), A, np_=lambda x: np.log(np.exp(x).cumsum(1)), tol=2e-5)
    line("sort", lambda x: x.sort(1)[0], A, np_=lambda x: np.sort(x, 1))
    line("sort descending, 5", lambda x: x.sort(descending=True)[0], I(3, 5), np_=lambda x: -np.sort(-x))
    line(
        "sort places, stable",
        lambda x: x.sort(0)[1],
        I(9, 2, lo=0, hi=3),
        np_=lambda x: np.argsort(x, 0, kind="stable").astype(i32),
    )
    line("sort of one", lambda x: x.sort()[1], F(3, 1), np_=lambda x: np.zeros((3, 1), i32))
    line("argsort", lambda x: x.argsort(1), F(3, 6), np_=lambda x: np.argsort(x, 1).astype(i32))
    line("topk", lambda x: x.topk(2, 1)[0], F(3, 6), np_=lambda x: -np.sort(-x, 1)[:, :2])
    line(
        "topk places smallest",
        lambda x: x.topk(2, 1, largest=False)[1],
        F(3, 6),
        np_=lambda x: np.argsort(x, 1)[:, :2].astype(i32),
    )


def last_best(x: np.ndarray) -> np.ndarray:
    """Where the running maximum last stood."""
    best = np.zeros_like(x)
    for row, out in zip(x, best):
        for j in range(1, len(row)):
            out[j] = j if row[j] >= row[out[j - 1]] else out[j - 1]
    return best


def exponentials() -> None:
    def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    line("softmax", lambda x: x.softmax(), A, np_=softmax)
    line("softmax axis", lambda x: x.softmax(0), A, np_=lambda x: softmax(x, 0))
    line("softmax large", lambda x: x.softmax(), F(3, 4) * 200, np_=softmax)
    line("softmax masked", lambda x: x.softmax(), np.array([[1, -INF, 2], [-INF, 0, -INF]], np.float32), np_=softmax)
    line(
        "softmax dtype",
        lambda x: x.softmax(dtype="float32"),
        F(3, 4, dtype=np.float16),
        np_=lambda x: softmax(x.astype(np.float32)),
        tol=1e-3,
    )
    line("log_softmax", lambda x: x.log_softmax(1), A, np_=lambda x: np.log(softmax(x, 1)))
    line(
        "logsumexp",
        lambda x: x.logsumexp(1),
        A * 50,
        np_=lambda x: np.log(np.exp(x.astype(np.float64)).sum(1)).astype(np.float32),
    )
    line(
        "logsumexp all keepdim",
        lambda x: x.logsumexp((0, 2), keepdim=True),
        A,
        np_=lambda x: np.log(np.exp(x).sum((0, 2), keepdims=True)),
    )
    line("normalize", lambda x: x.normalize(dim=1), F(3, 4), np_=lambda x: x / np.linalg.norm(x, axis=1, keepdims=True))
    line("normalize 1", lambda x: x.normalize(1, dim=0), F(3, 4), np_=lambda x: x / np.abs(x).sum(0))


for group in (
    reductions,
    places,
    exponentials,
):
    group()
