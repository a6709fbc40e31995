"""Running a LINEAR: every CALL in order, on the memory that its buffers name.

In: a LINEAR and the values of its Variables. Out: the buffers written, :data:`GlobalCounters`, and a :class:`Run` with
the seconds of each kernel and the values that were asked for. All memory is there before the first kernel starts.
Ctrl-C is taken between two kernels, so that what a kernel writes is whole.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> p0, p1 = (UOp(Ops.PARAM, dtypes.int32, (), ParamArg(i, 3, "NUMPY")) for i in (0, 1))
>>> a, b = (UOp.new_buffer("NUMPY", 3, dtypes.int32) for _ in range(2))
>>> buffer_of(b).copyin(np.array([1, 2, 3], np.int32))
>>> r0 = UOp.range(3, 0)
>>> kernel = UOp.sink(p0.index(r0).store(load(p1.index(r0)) * 10).end(r0))
>>> run = execute(UOp(Ops.LINEAR, dtypes.void, (kernel.call(a, b),)))
>>> buffer_of(a).copyout(), len(run.seconds)
(array([10, 20, 30], dtype=int32), 1)
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tinysched.errors import ArgumentError, RunError, TinyschedError
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.options import Opts
from tinysched.ir.symbolic import given
from tinysched.ir.uop import UOp
from tinysched.runtime import loops, numba, numpy, tuning
from tinysched.runtime.cost import Cost, cost_by_values, cost_of
from tinysched.runtime.counters import GlobalCounters
from tinysched.runtime.device import Array, Buffer, Device, buffer_of
from tinysched.runtime.nest import arguments_of, check_repeats, kernel_name, stores_of
from tinysched.runtime.repeats import repeated
from tinysched.runtime.threads import LARGE_PRODUCT, SMALL_PRODUCT, all_blas_threads, one_blas_thread
from tinysched.settings import BEAM, CPU, DEBUG

if TYPE_CHECKING:
    from tinysched.runtime.cupy import CupyMemory, Order


class Backend(NamedTuple):
    """One way to run kernels on the host."""

    bind: Callable[[UOp, Sequence[Array], Mapping[str, int]], tuning.Bound]
    """A kernel on certain memory, ready to run."""
    program_lines: Callable[[UOp], Sequence[loops.Line]]
    """Its text line by line, each with the nodes of the kernel that it computes."""

    def program_text(self, sink: UOp) -> str:
        return loops.text_of(self.program_lines(sink))


def _bind_loops(sink: UOp, arrays: Sequence[Array], values: Mapping[str, int]) -> tuning.Bound:
    return tuning.Bound(partial(loops.compile_kernel(sink), arrays, values), tuple)


def _bind_numpy(sink: UOp, arrays: Sequence[Array], values: Mapping[str, int]) -> tuning.Bound:
    return tuning.Bound(numpy.bind(sink, arrays, values), tuple)


def _leave_to_numpy(sink: UOp, arrays: Sequence[Array], values: Mapping[str, int]) -> tuning.Bound:
    """The same where another setting would have chosen otherwise, and the run says so."""
    return tuning.Bound(numpy.bind(sink, arrays, values), lambda: ("lowering=numpy",))


def _bind_numba(sink: UOp, arrays: Sequence[Array], values: Mapping[str, int]) -> tuning.Bound:
    run, lowering = numba.bind_and_say(sink, arrays, values)
    return tuning.Bound(run, lambda: (f"lowering={lowering}",))


def _bind_auto(sink: UOp, arrays: Sequence[Array], values: Mapping[str, int]) -> tuning.Bound:
    run = numba.bind_auto(sink, arrays, values)
    return tuning.Bound(run, lambda: (f"lowering={getattr(run, 'lowering', 'numpy')}",))


_LEFT_TO_NUMPY: Final = Backend(_leave_to_numpy, numpy.program_lines)
BACKENDS: Final = {
    "loops": Backend(_bind_loops, loops.program_lines),
    "numpy": Backend(_bind_numpy, numpy.program_lines),
    "numba": Backend(_bind_numba, numba.program_lines),
    "auto": Backend(_bind_auto, numba.auto_lines),
}


def _bind_gpu(sink: UOp, arrays: Sequence[Array], values: Mapping[str, int]) -> tuning.Bound:
    return tuning.Bound(partial(_gpu().compile_on_default(sink), arrays, values), tuple)


def _gpu() -> Any:
    """What starts kernels on GPUs, loaded when there is one."""
    from tinysched.runtime import launch

    return launch


_GPU: Final = Backend(_bind_gpu, lambda sink: tuple(_gpu().cuda.program_lines(sink)))


def backend(device: str = "NUMPY") -> Backend:
    """The one that runs kernels on a device; on the host, the one that the setting CPU names."""
    return _GPU if device.startswith("CUPY") else BACKENDS[CPU.word]


def program_text(sink: UOp, device: str = "NUMPY") -> str:
    """The program that runs a kernel now: with the options that it asks for or BEAM has found, else as CPU says."""
    return loops.text_of(program_lines(sink, device))


def program_lines(sink: UOp, device: str = "NUMPY") -> Sequence[loops.Line]:
    """The same line by line, each with the nodes of the kernel that it computes."""
    opts = None if device.startswith("CUPY") or CPU.word == "loops" else tuning.opts_of(sink)
    return backend(device).program_lines(sink) if opts is None else tuning.program_lines(sink, opts)


def clear_caches() -> None:
    """Forgets all compiled programs and what is known of kernels."""
    for cached in (arguments_of, repeated, cost_by_values, loops.compile_kernel, numpy.compile_program, numba.compiled):
        cached.cache_clear()
    _READY.clear()
    given.clear()
    numba.CHOICES.clear()
    tuning.clear()
    if "tinysched.runtime.launch" in sys.modules:
        _gpu().clear_caches()


@dataclass(frozen=True)
class Run:
    """What a run leaves besides the buffers: seconds per CALL, copies of the values asked for, and how it ran."""

    seconds: tuple[float, ...]
    kept: dict[UOp, Array] = field(default_factory=dict)
    opts: tuple[Opts, ...] = ()
    """The options that each CALL ran with (:mod:`tinysched.ir.options`)."""
    tries: tuple[tuple[tuning.Try, ...], ...] = ()
    """What BEAM has measured for each CALL."""

    def applied(self, linear: UOp) -> UOp:
        """The LINEAR as it ran: ``applied_opts`` in its kernels' :class:`KernelInfo`."""
        ran = zip(linear.src, self.opts, self.tries)
        calls = [c.replace(src=(tuning.applied(c.src[0], opts, len(tries)), *c.src[1:])) for c, opts, tries in ran]
        return linear.replace(src=tuple(calls))


class KernelTime(NamedTuple):
    """One CALL that ran."""

    name: str
    seconds: float
    cost: Cost


class _Job(NamedTuple):
    """A CALL that is ready to run."""

    call: UOp
    name: str
    buffers: list[Buffer]
    writes: list[int]
    """The positions of the buffers that it writes."""
    run: Callable[[], None]
    opts: Callable[[], Opts]
    """The options that it runs with."""
    tries: tuple[tuning.Try, ...]
    cost: Cost
    gpu: CupyMemory | None = None
    """The GPU that it is started on; it may still run when ``run`` returns, ..."""
    waits: bool = False
    """... unless somebody asks how long it takes."""


class _Ready(NamedTuple):
    """A LINEAR whose programs have been bound to memory, and what that holds for."""

    key: tuple[Any, ...]
    memory: list[tuple[UOp, Buffer]]
    jobs: list[_Job]
    multiplies: bool
    """Whether some kernel has enough to do that BLAS might start threads."""


_READY: Final[WeakKeyDictionary[UOp, _Ready]] = WeakKeyDictionary()
"""A LINEAR that runs again finds its programs here; what it holds are arrays of BUFFERs that the LINEAR holds anyway."""


def execute(
    linear: UOp,
    var_vals: Mapping[str, int] | None = None,
    *,
    keep: Collection[UOp] = (),
    profile: list[KernelTime] | None = None,
    after_kernel: Callable[[int, UOp, float], None] | None = None,
    may_stop: Callable[[int], bool] | None = None,
    on_start: Callable[[], None] | None = None,
) -> Run:
    """Runs the CALLs of a LINEAR.

    ``keep`` are buffers as they stand in CALLs: each one's value is copied when a kernel has written it (an arena's
    memory is soon overwritten). ``profile`` gets a :class:`KernelTime` per CALL, and ``after_kernel(position, call,
    seconds)`` is told as soon as it has ended. An interrupt is taken before kernel i only if ``may_stop(i)``.
    ``on_start()`` is told when all programs and memory are there. Raises :class:`RunError` where a kernel fails; what was
    written stays.
    """
    values = bound(linear, var_vals or {})
    timed = profile is not None or DEBUG.value >= 2 or current_observer() is not None
    ready = _prepared(linear, values)
    if on_start is not None:
        on_start()
    graphs = None if timed or keep else _as_graphs(linear, ready.jobs, values)
    seconds: list[float] = []
    kept: dict[UOp, Array] = {}
    with interrupts_between_kernels() as check, np.errstate(all="ignore"), one_blas_thread(ready.multiplies):
        for position, job in enumerate(ready.jobs):
            if graphs is None:
                check(may_stop is None or partial(may_stop, position))
            else:  # the later kernels have been started as well, and how long this one takes nobody knows
                job = job._replace(run=graphs[position])
            took = _run(job._replace(waits=True) if timed else job)
            seconds.append(took if graphs is None else 0.0)
            _tell(position, job, seconds[-1])
            if keep:
                written = [(job.call.src[1 + i], job.buffers[i]) for i in job.writes]
                kept |= {u: buffer.copyout() for u, buffer in written if u in keep}
            if profile is not None:
                profile.append(KernelTime(job.name, seconds[-1], job.cost))
            if after_kernel is not None:
                after_kernel(position, job.call, seconds[-1])
        for gpu in {job.gpu for job in ready.jobs if job.gpu is not None}:
            gpu.synchronize()  # what failed is said here
    return Run(tuple(seconds), kept, tuple(job.opts() for job in ready.jobs), tuple(job.tries for job in ready.jobs))


def _prepared(linear: UOp, values: Mapping[str, int]) -> _Ready:
    """The CALLs bound to memory, all of which is allocated now; those of the last run if nothing has changed."""
    key = (CPU.word, BEAM.value, tuple(sorted(values.items())))
    ready = _READY.get(linear)
    if ready is None or ready.key != key or any(u.buffer is not memory for u, memory in ready.memory):
        _check_kernels(linear)
        placed = [[buffer_of(u).allocate() for u in call.src[1:]] for call in linear.src]
        order = order_of(placed)
        same = needs_same_bits(linear)
        jobs = [prepare(call, buffers, values, order, False, same) for call, buffers in zip(linear.src, placed)]
        nodes = {u for call in linear.src for u in call.src[1:]}
        held = [(u, u.buffer) for u in {_memory_of(u) for u in nodes}]
        ready = _Ready(key, held, jobs, any(job.cost.ops > SMALL_PRODUCT for job in jobs))
        if order is None or order.alone:  # several streams are put in order anew for each run
            _READY[linear] = ready
    return ready


def _check_kernels(linear: UOp) -> None:
    """Raises :class:`RunError` for the first CALL that there cannot be a program for, before any memory is asked for."""
    for call in linear.src:
        try:
            if call.src[0].op is Ops.SINK:
                check_repeats(call.src[0])
        except RunError as e:
            e.call = call
            raise


def _memory_of(u: UOp) -> UOp:
    """The BUFFER that a CALL's argument is a piece of."""
    while u.op is not Ops.BUFFER:
        u = u.src[0]
    return u


def bound(linear: UOp, var_vals: Mapping[str, int]) -> dict[str, int]:
    """The values of the Variables, each within its bounds."""
    for v in {v for call in linear.src for v in arguments_of(call.src[0])[1]}:
        name = str(v.arg.name)
        if name not in var_vals:
            raise ArgumentError(f"the Variable {name!r} has no value", help=f"pass var_vals={{{name!r}: ...}}")
        if not v.arg.vmin <= var_vals[name] <= v.arg.vmax:
            raise ArgumentError(
                f"the Variable {name!r} is {var_vals[name]}", help=f"it lies between {v.arg.vmin} and {v.arg.vmax}"
            )
    return dict(var_vals)


def order_of(placed: Iterable[Sequence[Buffer]]) -> Order | None:
    """What puts the streams of GPUs in order, where there are any among the buffers of some CALLs."""
    devices = {b.device for buffers in placed for b in buffers}
    if not any(device.startswith("CUPY") for device in devices):
        return None
    from tinysched.runtime.cupy import Order

    return Order(alone=len(devices) == 1)


def needs_same_bits(linear: UOp) -> bool:
    """Whether one kernel compares what it computes by functions with what another did, so that they may not differ."""
    return CPU.word in ("numba", "auto") and any(
        numba.compares_functions(c.src[0]) for c in linear.src if c.src[0].op is Ops.SINK
    )


def prepare(
    call: UOp,
    buffers: list[Buffer],
    values: Mapping[str, int],
    order: Order | None,
    waits: bool = True,
    same_bits: bool = False,
) -> _Job:
    """A CALL bound to memory; raises :class:`RunError` where there is no program for its kernel.

    ``same_bits``: functions are NumPy's in every kernel (:func:`needs_same_bits`).
    """
    body, arrays = call.src[0], [b.array for b in buffers]
    gpu: Any = next((Device[b.device] for b in buffers if b.device.startswith("CUPY")), None)
    if body.op is Ops.COPY:
        cost = Cost(0, buffers[1].nbytes, buffers[0].nbytes)
        move = partial(_gpu().copy, gpu, order, buffers, arrays, values) if gpu else _copy(arrays)
        return _Job(call, "copy", buffers, [0], move, tuple, (), cost, gpu, waits)
    chosen = _LEFT_TO_NUMPY if same_bits and numba.has_functions(body) else backend()
    writes = [int(store.src[0].src[0].arg.slot) for store, _ in stores_of(body)]
    name = kernel_name(body)
    try:
        if gpu:
            made = tuning.Bound(partial(_gpu().started(body, gpu, order, buffers, writes), arrays, values), tuple)
        else:
            made = tuning.bind(body, arrays, values) or chosen.bind(body, arrays, values)
    except TinyschedError:
        raise
    except Exception as e:
        raise RunError(f"no program for the kernel {name}: {e}", help="try Context(CPU='loops')") from e
    tries = tuning.tries_of(body, values) if BEAM.value else ()
    return _Job(call, name, buffers, writes, made.run, made.opts, tries, cost_of(body, values), gpu, waits)


def _copy(arrays: Sequence[Array]) -> Callable[[], None]:
    return partial(np.copyto, arrays[0], arrays[1], casting="no")


def _as_graphs(linear: UOp, jobs: Sequence[_Job], values: Mapping[str, int]) -> list[Callable[[], None]] | None:
    """What is left to do for each CALL of a LINEAR that one GPU has run before on the same memory, if it is recorded."""
    gpus = {job.gpu for job in jobs}
    gpu = gpus.pop() if len(gpus) == 1 else None
    if gpu is None or any(job.call.src[0].op is Ops.COPY for job in jobs):
        return None
    found: list[Callable[[], None]] | None
    found = _gpu().as_graphs(linear, gpu, [[b.array for b in job.buffers] for job in jobs], values)
    return found


def _run(job: _Job) -> float:
    start = time.perf_counter()
    try:
        if job.cost.ops < LARGE_PRODUCT or job.gpu is not None:
            job.run()
        else:
            with all_blas_threads():
                job.run()
        if job.waits and job.gpu is not None:
            job.gpu.synchronize()
    except TinyschedError:
        raise
    except MemoryError as e:
        raise RunError(f"no memory for the scratch of kernel {job.name}", help="realize smaller pieces") from e
    except Exception as e:
        raise RunError(
            f"kernel {job.name} failed: {e}",
            where=", ".join(f"p{i}: {b.size} {b.dtype.name}" for i, b in enumerate(job.buffers)),
            help="the values written by the kernels before it are whole; DEBUG=4 shows its program",
        ) from e
    return time.perf_counter() - start


def _tell(position: int, job: _Job, seconds: float) -> None:
    """Counts, prints and tells the observer that a CALL has ended."""
    cost, is_copy = job.cost, job.call.src[0].op is Ops.COPY
    moved = cost.bytes_read + cost.bytes_written
    if is_copy:
        route = (job.buffers[1].device, job.buffers[0].device)
        GlobalCounters.add(copied=route, mem=cost.bytes_written, seconds=seconds)
    else:
        GlobalCounters.add(ops=cost.ops, mem=moved, seconds=seconds)
    if DEBUG.value >= 2:
        rate = moved / max(seconds, 1e-9) / 1e9
        figures = f"{seconds * 1e6:11,.1f} us {moved:13,} B {rate:7.2f} GB/s {cost.ops:13,} ops"
        print(f"{position:4} {job.buffers[0].device:8} {job.name:32} {figures} {' '.join(job.opts())}".rstrip())
    if DEBUG.value >= 4 and not is_copy:
        print(program_text(job.call.src[0], job.buffers[0].device))
    if (watcher := current_observer()) is not None:
        data = {"position": position, "call": job.call, "name": job.name, "seconds": seconds, **cost._asdict()}
        watcher.on_event("run", data | {"opts": job.opts(), "tries": job.tries})


@contextmanager
def interrupts_between_kernels() -> Iterator[Callable[[bool | Callable[[], bool]], None]]:
    """Holds Ctrl-C back until ``check(allowed)`` is called and allows it, or the block ends."""
    pending: list[tuple[int, FrameType | None]] = []
    old: Any = None

    def hold(number: int, frame: FrameType | None) -> None:
        pending.append((number, frame))

    def check(allowed: bool | Callable[[], bool] = True) -> None:
        if pending and (allowed() if callable(allowed) else allowed):
            number, frame = pending.pop()
            pending.clear()
            old(number, frame)

    # only the main thread is told of signals, and only a Python handler can be called later
    mine = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
    if mine:
        old = signal.signal(signal.SIGINT, hold)
    try:
        yield check
    finally:
        if mine:
            signal.signal(signal.SIGINT, old)
    check()
