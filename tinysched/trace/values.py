"""Running a plan for its times, and values in short.

In: a schedule and its plan. Out: :class:`Run`. A value is told by its statistics and a small sample, never whole.

>>> value_of_array(np.array([[1.0, np.nan], [3.0, np.inf]], np.float32), (2, 2))
Value(shape=(2, 2), min=1.0, max=3.0, mean=2.0, nan=1, inf=1, sample=((1.0, nan), (3.0, inf)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tinysched.errors import ArgumentError
from tinysched.ir.uop import UOp
from tinysched.trace.document import Run, Schedule, Try, Value

MOST_ROWS, MOST_COLUMNS = 16, 24


def run_of(schedule: Schedule, plan: Any, values: Any, run_linear: Callable[..., Any]) -> Run:
    """Runs ``plan``; ``values`` are buffer names to keep, or True for every buffer that a kernel writes."""
    wanted = _wanted(schedule, values)
    keep: dict[int, UOp] = {}
    for kernel, call in zip(schedule.kernels, plan.linear.src):
        for position in kernel.writes:
            if kernel.buffers[position] in wanted:
                keep[kernel.buffers[position]] = call.src[1 + position]
    done = run_linear(plan, keep=tuple(keep.values()))
    found = {
        str(b): value_of_array(done.kept[u], _shape(schedule, b)) for b, u in sorted(keep.items()) if u in done.kept
    }
    return run_with(done.seconds, found or None, done.opts, done.tries)


def run_with(seconds: Iterable[float], values: dict[str, Value] | None, opts: Any, tries: Any) -> Run:
    """A run as it was told; what no kernel has is left out."""
    opts, tries = tuple(map(tuple, opts)), tuple(tuple(Try(tuple(t.opts), t.seconds) for t in of) for of in tries)
    return Run(tuple(seconds), values, opts if any(opts) else (), tries if any(tries) else ())


def _wanted(schedule: Schedule, values: Any) -> set[int]:
    written = {k.buffers[i] for k in schedule.kernels for i in k.writes}
    if values is True:
        return written
    names = {schedule.buffers[b].name or f"b{b}": b for b in sorted(written)}
    chosen = [values] if isinstance(values, str) else list(values if isinstance(values, Iterable) else ())
    if unknown := [v for v in chosen if v not in names]:
        raise ArgumentError(f"no kernel writes {unknown[0]!r}", help=f"written are: {', '.join(names)}")
    return {names[v] for v in chosen}


def _shape(schedule: Schedule, b: int) -> tuple[int, ...]:
    """The shape of the value that a buffer holds; flat where it is not known."""
    node = schedule.buffers[b].node
    shape = schedule.nodes[node].shape if node is not None else None
    sizes = tuple(n for n in shape or () if isinstance(n, int))
    fits = (
        shape is not None
        and len(sizes) == len(shape)
        and int(np.prod(sizes, dtype=np.int64)) == schedule.buffers[b].elements
    )
    return sizes if fits else (schedule.buffers[b].elements,)


def value_of_array(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Value:
    """Statistics over the finite elements, how many are not, and the first rows and columns."""
    if array.size == 0:
        return Value(shape)
    numbers = array.reshape(-1)
    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
    columns = shape[-1] if shape else 1
    grid = numbers[: MOST_ROWS * columns] if columns else numbers
    rows = grid.reshape(-1, columns)[:MOST_ROWS, :MOST_COLUMNS]
    nan = int(np.isnan(numbers).sum()) if numbers.dtype.kind == "f" else 0
    return Value(
        shape=shape,
        min=float(finite.min()) if finite.size else None,
        max=float(finite.max()) if finite.size else None,
        mean=float(finite.mean(dtype=np.float64)) if finite.size else None,
        nan=nan,
        inf=numbers.size - finite.size - nan,
        sample=tuple(tuple(round(float(v), 7) for v in row) for row in rows),
    )
