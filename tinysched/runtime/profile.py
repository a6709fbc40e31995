"""What each kernel of a schedule takes, beside what the machine could do.

In: a LINEAR (or a Plan), and others to compare it with, as the same graph scheduled eagerly. Out: a :class:`Profile`:
medians over runs that take turns, on scratch copies of all memory, so that no value and no Tensor changes.

>>> from tinysched import Tensor
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
>>> found = profile(x.softmax(-1).schedule_linear(x.softmax(-1)), repeats=1)
>>> len(found.kernels), found.seconds > 0, found.kernels[0].name
(3, True, 'r_2_2')
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.errors import ArgumentError
from tinysched.ir.options import Opts
from tinysched.ir.uop import UOp
from tinysched.runtime import linear as runner
from tinysched.runtime.cost import Cost
from tinysched.runtime.device import Buffer, buffer_of
from tinysched.runtime.limits import Limits, machine_limits
from tinysched.runtime.threads import one_blas_thread

REPEATS: Final = 7
DISTURBED: Final = 1.5
"""How many times the processor's time a run may take before a profile says that the machine was busy."""


class KernelProfile(NamedTuple):
    """One CALL: medians of its runs."""

    name: str
    seconds: float
    cpu_seconds: float
    """What the processor spent on it: less than ``seconds`` where others used the machine too, more with threads."""
    cost: Cost
    opts: Opts = ()
    """The options that it ran with."""

    @property
    def moved(self) -> int:
        """Bytes read and written, each element counted once."""
        return self.cost.bytes_read + self.cost.bytes_written

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.moved / max(self.seconds, 1e-9)

    @property
    def flops(self) -> float:
        """Operations per second."""
        return self.cost.ops / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Profile:
    """The medians of a LINEAR, and of those it was compared with."""

    kernels: tuple[KernelProfile, ...]
    limits: Limits
    others: tuple[float, ...] = ()
    """Seconds of the other LINEARs, measured in turns with this one."""

    @property
    def seconds(self) -> float:
        return sum(k.seconds for k in self.kernels)

    @property
    def cpu_seconds(self) -> float:
        return sum(k.cpu_seconds for k in self.kernels)

    @property
    def is_disturbed(self) -> bool:
        """Whether others had the processor for a good part of the time, so that the rates are too low."""
        return 0 < self.cpu_seconds < self.seconds / DISTURBED

    def share(self, k: KernelProfile) -> float:
        """Which part of the nearer limit a kernel reaches."""
        return self.limits.share(k.seconds, k.moved, k.cost.ops)

    def __str__(self) -> str:
        lines = [f"{'kernel':<32}{'us':>12}{'GB/s':>9}{'GFLOP/s':>9}{'of limit':>9}"]
        for k in self.kernels:
            rates = f"{k.bandwidth / 1e9:9.2f}{k.flops / 1e9:9.2f}{self.share(k):9.0%}"
            lines.append(f"{k.name[:31]:<32}{k.seconds * 1e6:12,.1f}{rates}  {' '.join(k.opts)}".rstrip())
        lines.append(f"{'total':<32}{self.seconds * 1e6:12,.1f}")
        lines += [f"{'compared with':<32}{s * 1e6:12,.1f}  {s / self.seconds:.2f} times as long" for s in self.others]
        if self.is_disturbed:
            lines.append(f"the machine was busy: the processor spent {self.cpu_seconds * 1e6:,.1f} us on it")
        copy, product = self.limits.bandwidth / 1e9, self.limits.flops / 1e9
        return "\n".join([*lines, f"one core copies {copy:.1f} GB/s and multiplies matrices at {product:.0f} GFLOP/s"])


def profile(
    linear: Any,
    *against: Any,
    var_vals: Mapping[str, int] | None = None,
    repeats: int = REPEATS,
    progress: Callable[[int, int], None] | None = None,
) -> Profile:
    """Measures a LINEAR or Plan, and others in turns with it: ``profile(plan(y), plan(y, policies=Policies(Eager())))``.

    The first run of each is not counted (programs are compiled then). ``progress(done, of)`` is called after each round;
    an interrupt ends it between two kernels. Nothing is committed, and no value changes. Raises :class:`RunError` where
    memory for the copies is missing.
    """
    if repeats < 1:
        raise ArgumentError(f"repeats={repeats}", help="at least one run has to be measured")
    values = {**getattr(linear, "var_vals", {}), **(var_vals or {})}
    sides = [_Side(getattr(side, "linear", side), values) for side in (linear, *against)]
    with one_blas_thread(), runner.interrupts_between_kernels() as check, np.errstate(all="ignore"):
        for done in range(repeats + 1):
            for side in sides:
                side.run(check)
            if progress is not None:
                progress(done, repeats)
    kernels, *others = (side.medians() for side in sides)
    return Profile(tuple(kernels), machine_limits(), tuple(sum(k.seconds for k in side) for side in others))


class _Side:
    """A LINEAR on memory of its own."""

    def __init__(self, linear: UOp, values: Mapping[str, int]):
        self.copies: dict[Buffer, Buffer] = {}
        values = runner.bound(linear, values)
        placed = [[self._copy(buffer_of(u)) for u in call.src[1:]] for call in linear.src]
        order = runner.order_of(placed)
        same = runner.needs_same_bits(linear)
        self.jobs = [
            runner.prepare(call, buffers, values, order, same_bits=same) for call, buffers in zip(linear.src, placed)
        ]
        self.times: list[list[tuple[float, float]]] = [[] for _ in self.jobs]

    def _copy(self, buffer: Buffer) -> Buffer:
        base = buffer if buffer.base is None else buffer.base
        if base not in self.copies:
            copy = self.copies[base] = Buffer(base.device, base.size, base.dtype).allocate()
            if base.is_allocated:
                copy.copyin(base.copyout())
        copy = self.copies[base]
        return copy if buffer is base else copy.view(buffer.offset, buffer.size, buffer.dtype).allocate()

    def run(self, check: Callable[..., None]) -> None:
        for job, times in zip(self.jobs, self.times):
            check()
            start = time.process_time()
            seconds = runner._run(job)
            times.append((seconds, time.process_time() - start))

    def medians(self) -> list[KernelProfile]:
        """The medians of all runs but the first."""
        found = []
        for job, times in zip(self.jobs, self.times):
            wall, cpu = zip(*times[1:])
            found.append(KernelProfile(job.name, median(wall), median(cpu), job.cost, job.opts()))
        return found
