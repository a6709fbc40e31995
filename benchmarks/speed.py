"""How fast kernels run: ours on each host backend against NumPy as people write it, one core, taking turns.

In: the names of rows (all without one). Out: a line per row: CPU milliseconds (median), and what a limit of the machine
(a copy, a matrix product; both measured first) would allow.

    python -m benchmarks.speed                      all rows, NumPy backend, and numba where it is installed
    python -m benchmarks.speed gelu adam --reps 9
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched import Context, Tensor
from tinysched.runtime.limits import Limits, machine_limits
from tinysched.runtime.linear import execute

Array = Any


class Row(NamedTuple):
    """One kernel (or a few): ours on Tensors, the same in NumPy, and what it has to move and to compute."""

    inputs: tuple[tuple[int, ...], ...]
    ours: Callable[..., list[Tensor]]
    by_hand: Callable[..., Any]
    moved: int
    """Bytes, if everything is read and written once."""
    flops: int = 0


N: Final = 4096
B1, B2, LR, EPS = 0.9, 0.999, 1e-3, 1e-8


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


def adam(p: Array, g: Array, m: Array, v: Array) -> None:
    m[...] = B1 * m + (1 - B1) * g
    v[...] = B2 * v + (1 - B2) * (g * g)
    p[...] = p - LR * m / (np.sqrt(v) + EPS)


def ours_adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> list[Tensor]:
    m.assign(B1 * m + (1 - B1) * g)
    v.assign(B2 * v + (1 - B2) * (g * g))
    p.assign(p.detach() - LR * m / (v.sqrt() + EPS))
    return [p, m, v]


def ours_rmsnorm(x: Tensor) -> list[Tensor]:
    return [x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()]


F: Final = 4
PLANE: Final = (N, N)
NARROW: Final = (N, 1024)
HEADS: Final = (8, 512, 64)
ADAM: Final = (10_000_000,)

ROWS: Final[dict[str, Row]] = {
    "matmul": Row(((1024, 1024),) * 2, lambda a, b: [a @ b], lambda a, b: a @ b, 3 * F << 20, 2 << 30),
    "matmul_sum": Row(((1024, 1024),) * 2, lambda a, b: [(a @ b).sum()], lambda a, b: (a @ b).sum(), 0, 2 << 30),
    "attention": Row(
        (HEADS,) * 3, lambda q, k, v: [q.scaled_dot_product_attention(k, v)], attention, 0, 4 * 8 * 512 * 512 * 64
    ),
    "conv3x3": Row(
        ((1, 64, 56, 56), (64, 64, 3, 3)),
        lambda x, w: [x.conv2d(w, padding=1)],
        conv,
        0,
        2 * 64 * 64 * 9 * 56 * 56,
    ),
    "gelu": Row((PLANE,), lambda x: [x.gelu()], gelu, 2 * F * N * N),
    "softmax": Row((PLANE,), lambda x: [x.softmax(-1)], softmax, 2 * F * N * N),
    "layernorm": Row((NARROW,), lambda x: [x.layernorm(eps=1e-5)], layernorm, 2 * F * N * 1024),
    "rmsnorm": Row((NARROW,), ours_rmsnorm, rmsnorm, 2 * F * N * 1024),
    "row_sums": Row((PLANE,), lambda x: [x.sum(-1)], lambda x: x.sum(-1), F * N * N),
    "big_sum": Row(((1 << 24,),), lambda x: [x.sum()], lambda x: x.sum(), F << 24),
    "gather": Row(((32000, 512),), lambda x: [x[TOKENS]], lambda x: x[HAND_TOKENS], 2 * F * 8192 * 512),
    "adam": Row((ADAM,) * 4, ours_adam, adam, 7 * F * ADAM[0]),
    "transpose_add": Row((PLANE,) * 2, lambda a, b: [a.transpose() + b], lambda a, b: a.T + b, 3 * F * N * N),
    "cumsum": Row(((1024, N),), lambda x: [x.cumsum(1)], lambda x: np.cumsum(x, 1), 2 * F * N * 1024),
}

HAND_TOKENS: Final = np.random.default_rng(1).integers(0, 32000, 8192).astype(np.int32)
TOKENS: Final = Tensor(HAND_TOKENS).realize()


def timed(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


def measured(row: Row, backends: Sequence[str], reps: int) -> dict[str, float]:
    """CPU milliseconds of each side, the median of runs that take turns; ``first`` is our first run, with planning."""
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32) for shape in row.inputs]
    runs: dict[str, Callable[[], Any]] = {"by hand": lambda: row.by_hand(*arrays)}
    for cpu in backends:
        tensors = [Tensor(a).realize() for a in arrays]
        outs = row.ours(*tensors)
        linear = outs[0].schedule_linear(*outs)
        runs[cpu] = lambda cpu=cpu, linear=linear: _run(cpu, linear)  # type: ignore[misc]
    first = {f"{cpu} first": timed(runs[cpu]) for cpu in backends}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(reps):
        for name, run in runs.items():
            times[name].append(timed(run))
    return {name: median(t) for name, t in times.items()} | first


def _run(cpu: str, linear: Any) -> None:
    with Context(CPU=cpu):
        execute(linear)


def limit(row: Row, limits: Limits) -> float:
    """Milliseconds that the machine needs at least."""
    return max(row.moved / limits.bandwidth, row.flops / limits.flops) * 1e3


ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def main() -> None:
    if not os.environ.keys() >= ONE_THREAD.keys():  # BLAS reads them when NumPy is imported: start again
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.speed", *sys.argv[1:]], os.environ | ONE_THREAD)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"which rows ({', '.join(ROWS)}; default: all)")
    parser.add_argument("--reps", type=int, default=5, help="runs of each side (default: 5)")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    backends = ["numpy", *(["numba"] if find_spec("numba") else [])]
    limits = machine_limits()
    print(f"copy {limits.bandwidth / 1e9:.1f} GB/s, matrix product {limits.flops / 1e9:.0f} GFLOP/s")
    print(f"{'CPU ms':<16}{'limit':>9}{'by hand':>9}" + "".join(f"{b:>9}{'ratio':>7}{'first':>8}" for b in backends))
    for name in options.rows or ROWS:
        found = measured(ROWS[name], backends, options.reps)
        ours = (f"{found[b]:9.2f}{found['by hand'] / found[b]:7.2f}{found[b + ' first']:8.0f}" for b in backends)
        print(f"{name:<16}{limit(ROWS[name], limits):9.2f}{found['by hand']:9.2f}" + "".join(ours), flush=True)


if __name__ == "__main__":
    main()
