"""Bytes, operations and time of each kernel against what the machine can do, and fused against one kernel per operation.

In: a schedule. Out: :class:`Point` per kernel, :class:`Totals` for the schedule and for the same program *eagerly*: every
operation of the tensor graph a kernel of its own, which reads its sources once and writes its value. Movement ops cost
nothing there either, and a value that is repeated (broadcast, expanded) is read as often as it has elements in memory.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
>>> s = capture((x * 2 + 1).sum()).schedules[0]
>>> fused(s)
Totals(kernels=1, bytes=20, ops=12)
>>> eager(s)
Totals(kernels=3, bytes=84, ops=12)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tinysched.dtypes import to_dtype
from tinysched.explain.speak import count, size
from tinysched.trace.document import Node, Schedule
from tinysched.trace.rebuild import below

_MOVES = frozenset({"RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP", "DETACH", "CONTIGUOUS_BACKWARD", "CAST"})
_NO_OPERATION = frozenset({"CAST", "BITCAST"})


@dataclass(frozen=True, slots=True)
class Totals:
    """Kernels, bytes read and written, operations."""

    kernels: int
    bytes: int
    ops: int


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel in the roofline: ``seconds`` None where it did not run.

    ``least_seconds``: the time at the machine's limits, ``bound``: the nearer of the two ("memory", "arithmetic", "" where
    limits are not known).
    """

    kernel: int
    bytes: int
    ops: int
    seconds: float | None = None
    least_seconds: float | None = None
    bound: str = ""

    @property
    def share(self) -> float | None:
        """The part of the limit that it reaches."""
        known = self.seconds and self.least_seconds is not None
        return self.least_seconds / self.seconds if known else None  # type: ignore[operator]


def points(s: Schedule) -> tuple[Point, ...]:
    """A point per kernel; times and limits where the schedule was run."""
    return tuple(_point(s, k) for k in range(len(s.kernels)))


def _point(s: Schedule, k: int) -> Point:
    kernel, run = s.kernels[k], s.run
    moved = kernel.bytes_read + kernel.bytes_written
    if run is None or k >= len(run.seconds):
        return Point(k, moved, kernel.ops)
    if not run.bandwidth or not run.flops:
        return Point(k, moved, kernel.ops, run.seconds[k])
    by_memory, by_arithmetic = moved / run.bandwidth, kernel.ops / run.flops
    bound = "memory" if by_memory >= by_arithmetic else "arithmetic"
    return Point(k, moved, kernel.ops, run.seconds[k], max(by_memory, by_arithmetic), bound)


def fused(s: Schedule) -> Totals:
    """What the schedule does."""
    return Totals(len(s.kernels), s.bytes_moved, sum(k.ops for k in s.kernels))


def eager(s: Schedule) -> Totals | None:
    """The same program with a kernel per operation; None where a size is not a number."""
    if not s.stages:
        return None
    graph = below(s.nodes, (s.stages[0].root,))
    kernels = moved = ops = 0
    for n in (s.nodes[i] for i in graph):
        if n.kind not in ("alu", "reduce") or n.op in _NO_OPERATION or n.expr is not None:
            continue
        reads = [_read(s, i) for i in dict.fromkeys(n.src)]
        written = _bytes(n)
        if written is None or None in reads:
            return None
        work = _elements(s.nodes[n.src[0]] if n.kind == "reduce" else n)
        kernels += 1
        moved += written + sum(r for r in reads if r is not None)
        ops += work or 0
    return Totals(kernels, moved, ops)


def _elements(n: Node) -> int | None:
    sizes = [v for v in n.shape or () if isinstance(v, int)]
    return prod(sizes) if n.shape is not None and len(sizes) == len(n.shape) else None


def _bytes(n: Node) -> int | None:
    elements = _elements(n)
    return None if elements is None else elements * to_dtype(n.dtype).itemsize


def _read(s: Schedule, i: int) -> int | None:
    """Bytes in memory that a source is: those of the value below the movement ops where that has fewer."""
    n = s.nodes[i]
    least = _bytes(n)
    while n.op in _MOVES and least is not None:
        n = s.nodes[n.src[0]]
        inner = _bytes(n)
        least = least if inner is None else min(least, inner)
    return 0 if n.kind == "const" else least


# ** as data and as text **


def data(s: Schedule) -> dict[str, Any]:
    """What the viewer is given besides the kernels themselves."""
    found = eager(s)
    return {} if found is None else {"eager": [found.kernels, found.bytes, found.ops]}


def told(s: Schedule) -> list[str]:
    """In sentences: fused against eager, and the limits."""
    now, apart = fused(s), eager(s)
    found = [f"{count(now.kernels, 'kernel')}, {size(now.bytes)} moved, {now.ops:,} operations"]
    if apart is not None and now.bytes:
        times = f"{apart.bytes / now.bytes:.1f} times the bytes"
        found.append(
            f"one kernel per operation: {count(apart.kernels, 'kernel')}, {size(apart.bytes)} moved ({times}), "
            f"{apart.ops:,} operations"
        )
    if s.run is not None and s.run.bandwidth:
        found.append(
            f"this machine at best, one thread: {size(int(s.run.bandwidth))} copied and "
            f"{s.run.flops / 1e9:.1f} G operations of a matrix product per second"
        )
    return found


def rows(s: Schedule) -> list[list[str]]:
    """A table row per kernel: number, name, bytes, operations, operations per byte, time, limit, share."""
    return [_row(s, p) for p in points(s)]


def _row(s: Schedule, p: Point) -> list[str]:
    least = "-" if p.least_seconds is None else f"{p.least_seconds * 1e6:,.0f} µs ({p.bound})"
    time = "-" if p.seconds is None else f"{p.seconds * 1e6:,.0f} µs"
    share = "-" if p.share is None else f"{p.share:.0%}"
    name, per_byte = s.kernels[p.kernel].name, f"{p.ops / max(p.bytes, 1):.2f}"
    return [str(p.kernel), name, size(p.bytes), f"{p.ops:,}", per_byte, time, least, share]
