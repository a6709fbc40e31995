"""What has run so far in this process: kernels, copies, operations, bytes, time.

In: one call of :meth:`Counters.add` per kernel or copy. Out: :data:`GlobalCounters`.

>>> mine = Counters()
>>> mine.add(ops=6, mem=64, seconds=0.5)
>>> mine.add(copied=("NUMPY", "NUMPY:1"), mem=32, seconds=0.25)
>>> mine.kernel_count, mine.copy_count, mine.global_ops, mine.global_mem, mine.time_sum_s
(1, 1, 6, 64, 0.75)
>>> mine.moved
{('NUMPY', 'NUMPY:1'): 32}
"""

from __future__ import annotations

import threading
from typing import Final


class Counters:
    """Sums over everything that ran since :meth:`reset`; safe to add to from several threads."""

    kernel_count: int
    """Kernels that ran; copies are not counted."""
    copy_count: int
    global_ops: int
    """Applications of ALU and REDUCE operations (:mod:`tinysched.runtime.cost`)."""
    global_mem: int
    """Bytes that kernels read and wrote."""
    time_sum_s: float
    moved: dict[tuple[str, str], int]
    """Bytes that copies moved, by (from, to)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.kernel_count = self.copy_count = self.global_ops = self.global_mem = 0
            self.time_sum_s = 0.0
            self.moved = {}

    def add(self, *, copied: tuple[str, str] | None = None, ops: int = 0, mem: int = 0, seconds: float = 0.0) -> None:
        """Counts one kernel, or one copy of ``mem`` bytes from one device to another."""
        with self._lock:
            self.time_sum_s += seconds
            if copied is not None:
                self.copy_count += 1
                self.moved[copied] = self.moved.get(copied, 0) + mem
                return
            self.kernel_count += 1
            self.global_ops += ops
            self.global_mem += mem


GlobalCounters: Final = Counters()
