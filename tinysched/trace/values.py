"""Running a plan for its times, and values in short.

In: a schedule and its plan. Out: :class:`Run`. A value is told by its statistics and a small sample, never whole.

>>> found = value_of_array(np.array([[1.0, np.nan], [3.0, np.inf]], np.float32), (2, 2))
>>> found.min, found.max, found.mean, found.nan, found.inf, found.sample
(1.0, 3.0, 2.0, 1, 1, ((1.0, nan), (3.0, inf)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tinysched.errors import ArgumentError
from tinysched.ir.observe import watching
from tinysched.ir.uop import UOp
from tinysched.runtime.limits import Limits, machine_limits
from tinysched.trace.document import Run, Schedule, Try, Value
from tinysched.trace.progress import counting_kernels

MOST_CELLS, MOST_COLUMNS = 384, 24
"""Of a sample."""
BINS = 24
PIECE = 1 << 18
"""Elements that are looked at in one go."""


def run_of(schedule: Schedule, plan: Any, values: Any, run_linear: Callable[..., Any]) -> Run:
    """Runs ``plan``; ``values`` are buffer names to keep, or True for every buffer that a kernel writes."""
    wanted = _wanted(schedule, values)
    keep: dict[int, UOp] = {}
    for kernel, call in zip(schedule.kernels, plan.linear.src):
        for position in kernel.writes:
            if kernel.buffers[position] in wanted:
                keep[kernel.buffers[position]] = call.src[1 + position]
    with watching(counting_kernels(len(schedule.kernels))):
        done = run_linear(plan, keep=tuple(keep.values()))
    found = {
        str(b): value_of_array(done.kept[u], _shape(schedule, b)) for b, u in sorted(keep.items()) if u in done.kept
    }
    on_host = all(k.device.startswith("NUMPY") for k in schedule.kernels)
    best = machine_limits() if on_host else Limits(0.0, 0.0)
    run = run_with(done.seconds, found or None, done.opts, done.tries)
    return replace(run, bandwidth=best.bandwidth, flops=best.flops)


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
    """Statistics over the finite elements, how many are not, and a sample that goes from the first to the last.

    The array is walked piece by piece: it may be larger than what is left of memory.
    """
    if array.size == 0:
        return Value(shape)
    numbers = array.reshape(-1)
    count, nan, total, least, most = 0, 0, 0.0, np.inf, -np.inf
    for piece in _pieces(numbers):
        finite = piece[np.isfinite(piece)]
        nan += int(np.isnan(piece).sum())
        count += finite.size
        if finite.size:
            total += float(finite.sum(dtype=np.float64))
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
    columns = _spread(_width(shape), MOST_COLUMNS)
    rows = _spread(numbers.size // _width(shape), MOST_CELLS // len(columns))
    at = numbers[np.add.outer(np.array(rows) * _width(shape), np.array(columns))]
    return Value(
        shape=shape,
        min=least if count else None,
        max=most if count else None,
        mean=total / count if count else None,
        nan=nan,
        inf=numbers.size - count - nan,
        sample=tuple(tuple(round(float(v), 7) for v in row) for row in at),
        rows=rows,
        columns=columns,
        histogram=_histogram(numbers, least, most) if count else (),
    )


def _width(shape: tuple[int, ...]) -> int:
    """Elements of a row, where a value is seen as a matrix."""
    return shape[-1] if shape else 1


def _spread(n: int, most: int) -> tuple[int, ...]:
    """At most so many of 0 … n - 1, evenly spread, the first and the last among them.

    >>> _spread(3, 4), _spread(100, 4)
    ((0, 1, 2), (0, 33, 66, 99))
    """
    return tuple(range(n)) if n <= most else tuple(int(i) for i in np.linspace(0, n - 1, most))


def _pieces(numbers: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """A flat array in pieces, as numbers that can be finite or not."""
    for start in range(0, numbers.size, PIECE):
        piece = numbers[start : start + PIECE]
        yield piece if piece.dtype.kind == "f" else piece.astype(np.float64)


def _histogram(numbers: np.ndarray[Any, Any], least: float, most: float) -> tuple[int, ...]:
    """How many finite values lie in each of :data:`BINS` equal parts; one part where all are the same."""
    if least == most:
        return (sum(int(np.isfinite(p).sum()) for p in _pieces(numbers)),)
    counts = np.zeros(BINS, np.int64)
    for piece in _pieces(numbers):
        finite = piece[np.isfinite(piece)].astype(np.float64)
        part = ((finite / 2 - least / 2) / (most / 2 - least / 2) * BINS).astype(np.int64)  # halves: no overflow
        counts += np.bincount(np.minimum(part, BINS - 1), minlength=BINS)
    return tuple(int(c) for c in counts)
