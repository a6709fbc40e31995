"""How fast kernels and training steps run: ours, NumPy by hand, the peer, torch, on one core, taking turns.

In: the names of rows (all without one). Out: a line per row: the CPU milliseconds of each side (median of runs that take
turns), and what the machine's own copy and matrix product, measured first, would allow.

    python -m benchmarks.speed                       all rows; the sides that are installed
    python -m benchmarks.speed gelu adam --reps 9 --sides numpy torch
    python -m benchmarks.speed steps                 training steps, and the time to the first result from the import on
    python -m benchmarks.speed overhead              what a kernel costs to start and to plan

The peer needs clang and the module tinygrad; torch is a side where it can be imported.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Final

from benchmarks.kernel_rows import ROWS, Row, arrays_of
from benchmarks.libs import Ours
from benchmarks.speed_sides import SIDES, Run, Side, cpu_ms, missing
from benchmarks.workloads import build
from tinysched.runtime.limits import Limits, machine_limits

STEPS: Final = ("mlp", "mnist")


# ** tables **


def turns(runs: dict[str, Run], reps: int) -> dict[str, float]:
    """Median CPU milliseconds of runs that take turns, garbage collector off; two rounds warm caches first."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()
    gc.disable()
    try:
        for repeat in range(reps + 2):
            for name, run in runs.items():
                ms = cpu_ms(run)
                times[name] += [ms] if repeat > 1 else []
    finally:
        gc.enable()
    return {name: median(t) for name, t in times.items()}


def limit_ms(row: Row, limits: Limits) -> float:
    """Milliseconds that the machine needs at least."""
    return max(row.moved / limits.bandwidth, row.flops / limits.flops) * 1e3


def line(name: str, cells: Iterable[object]) -> str:
    return f"{name:<18}" + "".join(f"{c:>12.2f}" if isinstance(c, float) else f"{c or '':>12}" for c in cells)


def ratios(found: dict[str, float]) -> dict[str, float | str]:
    """How many times as fast as each other side our backends are."""
    ours = [s for s in ("numpy", "numba") if s in found]
    return {f"{s}/{o}": found[s] / found[o] for o in ours for s in ("by hand", "peer", "torch") if s in found}


def table(title: str, names: Iterable[str], runs_of: Any, sides: Sequence[Side], reps: int, limit_of: Any) -> None:
    """A line per row, as soon as it is measured."""
    heads = [s.name for s in sides]
    pairs = list(ratios(dict.fromkeys(heads, 1.0)))
    print(f"\n{title}\n" + line("CPU ms", ["limit", *heads, *(p.replace("by hand", "hand") for p in pairs)]))
    for name in names:
        runs = {s.name: run for s in sides if (run := runs_of(name, s)) is not None}
        found = turns(runs, reps)
        shown = ratios(found)
        cells = [limit_of(name), *(found.get(h, "") for h in heads), *(shown.get(p, "") for p in pairs)]
        print(line(name, cells), flush=True)


def kernels(names: Sequence[str], sides: Sequence[Side], reps: int) -> None:
    limits = machine_limits()
    print(f"one core copies {limits.bandwidth / 1e9:.1f} GB/s and multiplies at {limits.flops / 1e9:.0f} GFLOP/s")
    inputs: dict[str, Any] = {}

    def run(name: str, side: Side) -> Run:
        if name not in inputs:
            inputs.clear()  # one row's memory at a time
            inputs[name] = arrays_of(ROWS[name])
        return side.kernel(ROWS[name], inputs[name])

    table("kernels", names, run, sides, reps, lambda name: limit_ms(ROWS[name], limits))


# ** training steps **


def steps(sides: Sequence[Side], reps: int) -> None:
    table("training steps (batch 64)", STEPS, lambda name, s: s.step(name), sides, reps, lambda name: "")
    print("\nseconds of CPU from the import to the first loss, in a process of its own\n" + line("", STEPS))
    for s in sides:
        print(line(s.name, [_first(name, s.name) for name in STEPS]), flush=True)


_FIRST: Final = """
import os, sys
from benchmarks.speed_sides import SIDES
step = SIDES[sys.argv[1]]().step(sys.argv[2])
if step is not None:
    step()
    print(sum(os.times()[:4]))  # with the compilers that it has started
"""


def _first(name: str, side: str) -> float | str:
    """A fresh process, with nothing compiled before."""
    env = os.environ | {"NUMBA_CACHE_DIR": f"{os.environ.get('TMPDIR', '/tmp')}/speed-{os.getpid()}", "CACHELEVEL": "0"}
    done = subprocess.run([sys.executable, "-c", _FIRST, side, name], env=env, capture_output=True, text=True)
    if done.returncode:
        return "failed"
    return float(done.stdout) if done.stdout.strip() else ""


# ** what a kernel costs besides its work **


def overhead(reps: int) -> None:
    """Starting a kernel, and making its program."""
    from tinysched import Context, Tensor, clear_caches
    from tinysched.runtime import numpy
    from tinysched.runtime.linear import execute

    print("\nstarting a kernel of 16 elements, microseconds (100 in a row)")
    for ufuncs in (1, 2, 4):
        x = Tensor.ones(16).contiguous().realize()
        for _ in range(100):
            for k in range(ufuncs):
                x = x + k if k % 2 else x * 1.001
            x = x.contiguous()
        linear = x.schedule_linear(x)
        with Context(CPU="numpy"):
            found = turns({"run": lambda linear=linear: [execute(linear) for _ in range(20)]}, reps)  # type: ignore[misc]
        print(line(f"{ufuncs} ufuncs", [found["run"] * 1e3 / 20 / len(linear.src)]))
    print("\nmaking a kernel's NumPy program, milliseconds\n" + line("", ["kernels", "mean", "most"]))
    for name in ("softmax", "mlp_train_sgd", "mnist_train_sgd", "gpt_tiny_train_sgd", "resnet18"):
        lib = Ours()
        distinct = list(dict.fromkeys(call.src[0] for call in lib.linear(build(name, lib)).src))
        clear_caches()
        gc.collect()
        gc.disable()
        ms = [cpu_ms(lambda k=k: numpy.compile_program(k, (), False, True, numpy.BLOCK)) for k in distinct]  # type: ignore[misc]
        gc.enable()
        print(line(name, [len(ms), sum(ms) / len(ms), max(ms)]), flush=True)


# ** command **

ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def main() -> None:
    if not os.environ.keys() >= ONE_THREAD.keys():  # BLAS reads them when NumPy is imported: start again
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.speed", *sys.argv[1:]], os.environ | ONE_THREAD)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [*ROWS, "steps", "overhead"]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(every)} (default: all)")
    parser.add_argument("--reps", type=int, default=5, help="runs of each side (default: 5)")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    options = parser.parse_args()
    if unknown := set(options.rows) - set(every):
        parser.error(f"no row {', '.join(sorted(unknown))}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in options.sides:
        if lacks := missing(name):
            print(f"left out: {name} (no {lacks})")
    sides = [SIDES[name]() for name in options.sides if missing(name) is None]
    rows = options.rows or every
    if chosen := [r for r in rows if r in ROWS]:
        kernels(chosen, sides, options.reps)
    if "steps" in rows:
        steps(sides, options.reps)
    if "overhead" in rows:
        overhead(options.reps)


if __name__ == "__main__":
    main()
