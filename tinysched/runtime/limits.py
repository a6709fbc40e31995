"""What this machine can do at best with one core: bytes copied and floats multiplied and added per second.

Measured once per process, when it is first asked for: the fastest of some copies of 64 MiB, and of some products of
matrices. Figures of kernels mean something only beside these.

>>> limits = Limits(8e9, 80e9)
>>> limits.share(seconds=1.0, moved=2e9, ops=20e9), limits.seconds(moved=4e9, ops=20e9)
(0.25, 0.5)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tinysched.runtime.threads import one_blas_thread


class Limits(NamedTuple):
    """Per second."""

    bandwidth: float
    """Bytes read and written by a copy."""
    flops: float
    """Float operations of a matrix product."""

    def share(self, seconds: float, moved: float, ops: float) -> float:
        """Which part of the nearer limit something reaches that moves bytes and computes for some seconds."""
        return self.seconds(moved, ops) / max(seconds, 1e-9)

    def seconds(self, moved: float, ops: float) -> float:
        """How long it takes at least to move bytes and to compute: the roofline."""
        return max(moved / self.bandwidth, ops / self.flops)


@cache
def machine_limits() -> Limits:
    """The limits of this machine, for one thread."""
    source, target = np.ones(1 << 24, np.float32), np.empty(1 << 24, np.float32)
    a, b, c = (np.ones((768, 768), np.float32) for _ in range(3))
    with one_blas_thread():
        copy = _fastest(lambda: np.copyto(target, source))
        product = _fastest(lambda: np.matmul(a, b, out=c))
    return Limits(2 * source.nbytes / copy, 2 * 768**3 / product)


def _fastest(run: Callable[[], Any], times: int = 7) -> float:
    run()
    seconds = []
    for _ in range(times):
        start = time.thread_time()
        run()
        seconds.append(time.thread_time() - start)
    return min(seconds)
