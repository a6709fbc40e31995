"""GPUs through CuPy: memory, streams, and the kernels of :mod:`cuda` compiled and started.

In: buffers on devices ``CUPY``, ``CUPY:1``, ... and the SINKs that work on them. Out: values there. CuPy is imported when
the first such device is named; where it is missing, or finds no GPU, that is one sentence, and NumPy goes on. Kernels
are started one behind the other on a stream of their device; copies have a stream of their own, and events where one has
to wait for the other. CuPy keeps compiled kernels on disk.

>>> from tinysched.errors import DeviceError
>>> try:
...     usable(99)
... except DeviceError as error:
...     print("cannot be used" in error.what, error.help != "")
True True
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from tinysched.dtypes import DType
from tinysched.errors import DeviceError, RunError
from tinysched.ir.uop import UOp
from tinysched.runtime import cuda
from tinysched.runtime.device import Buffer, Device, DeviceMemory
from tinysched.runtime.pieces import Limits, Matrix, Product

_OTHERWISE: Final = "NUMPY devices work without it"
NO_VECTORS: Final = Limits(vector=0)


# ** is there a GPU? **


@lru_cache(maxsize=1)
def library() -> Any:
    """CuPy, with at least one GPU. Raises :class:`DeviceError` with one sentence where there is none."""
    if find_spec("cupy") is None:
        raise DeviceError(
            "CUPY cannot be used: CuPy is not installed",
            help=f'pip install "tinysched[cuda12]" (or cuda13, as the driver allows); {_OTHERWISE}',
        )
    try:
        cupy = import_module("cupy")
    except Exception as e:
        raise DeviceError(
            f"CUPY cannot be used: CuPy is installed but does not import: {_first_line(e)}",
            help=f"its package must fit the CUDA version: install the extra cuda12 or cuda13 anew; {_OTHERWISE}",
        ) from e
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as e:
        raise DeviceError(f"CUPY cannot be used: {_why_no_device(e)}", help=_OTHERWISE) from e
    if count == 0:
        raise DeviceError("CUPY cannot be used: there is no CUDA GPU", help=_OTHERWISE)
    return cupy


def _why_no_device(e: Exception) -> str:
    if "InsufficientDriver" in str(e) or "insufficient" in str(e):
        return "the GPU's driver is older than the CUDA that CuPy was built for; update it, or install the extra cuda12"
    return f"CuPy finds no CUDA GPU ({_first_line(e)})"


def _first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0]


def usable(number: int) -> None:
    """Raises :class:`DeviceError` unless there is a GPU of this number."""
    count = int(library().cuda.runtime.getDeviceCount())
    if number >= count:
        there = "CUPY" if count == 1 else f"CUPY to CUPY:{count - 1}"
        raise DeviceError(f"CUPY:{number} cannot be used: there is no such GPU", help=f"there is {there}; {_OTHERWISE}")


def number_of(device: str) -> int:
    return int(device.partition(":")[2] or 0)


# ** memory and streams **


class CupyMemory(DeviceMemory):
    """The memory of one GPU, and its two streams."""

    def __init__(self, name: str):
        super().__init__(name)
        self.number, cupy = number_of(name), library()
        with cupy.cuda.Device(self.number):
            self.kernels, self.copies = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
            self.fault = cupy.zeros(1, np.int32)  # where kernels report an index outside of memory
            cupy.cuda.Stream.null.synchronize()

    def element_type(self, dtype: DType) -> np.dtype[Any]:
        """What arrays hold; bit patterns where NumPy does not know the type."""
        return dtype.np if dtype.np_name else np.dtype(f"uint{8 * dtype.itemsize}")

    @contextmanager
    def on(self, stream: Any = None) -> Iterator[None]:
        with library().cuda.Device(self.number), stream or self.kernels:
            yield

    def new_array(self, size: int, dtype: DType) -> Any:
        with self.on():
            return library().empty(size, self.element_type(dtype))

    def put(self, array: Any, values: np.ndarray[Any, Any]) -> None:
        self.synchronize()
        with self.on():
            array.set(np.ascontiguousarray(values))
        self.synchronize()

    def get(self, array: Any) -> np.ndarray[Any, Any]:
        self.synchronize()
        with self.on():
            return np.asarray(array.get())

    def synchronize(self) -> None:
        """Waits for all that was started. Raises :class:`RunError` where some of it failed."""
        try:
            with self.on():
                self.copies.synchronize()
                self.kernels.synchronize()
        except Exception as e:
            raise RunError(
                f"a kernel on {self.name} failed: {_first_line(e)}",
                help=f"CUDA needs a new process after that: restart Python; {_OTHERWISE}",
            ) from e

    def check_indices(self, name: str) -> None:
        """Raises :class:`RunError` if the kernel met an index outside of its buffer."""
        self.synchronize()
        with self.on():
            if not int(self.fault.get()[0]):
                return
            self.fault.fill(0)
        raise RunError(
            f"kernel {name} met an index outside of its buffer on {self.name}",
            help="look at the numbers that select rows; nothing outside was read or written",
        )


class Order:
    """Which stream touched which memory last, so that the other can wait where it has to."""

    def __init__(self) -> None:
        self.written: dict[Buffer, tuple[Any, Any]] = {}  # by what holds the memory: the stream, and an event behind it
        self.read: dict[Buffer, list[tuple[Any, Any]]] = {}

    @contextmanager
    def of(self, memory: CupyMemory, stream: Any, reads: Iterable[Buffer], writes: Iterable[Buffer]) -> Iterator[None]:
        """Work on a stream: it waits for what it needs, and others can wait for it."""
        reads, writes = [b.base or b for b in reads], [b.base or b for b in writes]
        waits = [self.written[b] for b in (*reads, *writes) if b in self.written]
        waits += [w for b in writes for w in self.read.get(b, ())]
        with memory.on(stream):
            for other, event in dict.fromkeys(waits):
                if other is not stream:
                    stream.wait_event(event)
            yield
            behind = (stream, stream.record())
        for b in writes:
            self.written[b] = behind
            self.read.pop(b, None)
        for b in reads:
            self.read.setdefault(b, []).append(behind)


def copy(
    memory: CupyMemory, order: Order, buffers: Sequence[Buffer], arrays: Sequence[Any], values: Mapping[str, int]
) -> None:
    """Moves bytes to, from or between GPUs, on the stream for copies."""
    (target, source), (a, b) = buffers, arrays
    on_gpu = [x for x in (target, source) if x.device.startswith("CUPY")]
    with order.of(memory, memory.copies, [source], [target]):
        if len(on_gpu) == 2:
            to, start = number_of(target.device), number_of(source.device)
            library().cuda.runtime.memcpyPeerAsync(a.data.ptr, to, b.data.ptr, start, source.nbytes, memory.copies.ptr)
        elif on_gpu[0] is target:
            a.set(b, stream=memory.copies)
        else:
            b.get(out=a, stream=memory.copies)
            memory.copies.synchronize()  # the host reads it next


# ** kernels **

_modules: dict[tuple[str, int], Any] = {}
_compiling = threading.RLock()


def clear_caches() -> None:
    """Forgets all compiled programs."""
    cuda.program.cache_clear()
    _modules.clear()
    _graphs.clear()


def started(
    sink: UOp, memory: CupyMemory, order: Order, buffers: Sequence[Buffer], writes: Sequence[int]
) -> Callable[[Sequence[Any], Mapping[str, int]], None]:
    """The function ``(arrays by slot, values of Variables) -> None`` that starts a kernel behind what it needs."""
    reads, written = [b for i, b in enumerate(buffers) if i not in writes], [buffers[i] for i in writes]
    cuda.program(sink)  # what cannot be printed is said before anything runs

    def run(arrays: Sequence[Any], values: Mapping[str, int]) -> None:
        with order.of(memory, memory.kernels, reads, written):
            start(memory, program_for(sink, arrays), arrays, values)

    return run


def program_for(sink: UOp, arrays: Sequence[Any]) -> cuda.Program:
    """The kernel's program: without 128-bit accesses where memory is not aligned for them."""
    program = cuda.program(sink)
    watched = {s for step in program.steps if isinstance(step, cuda.Launch) for s in step.aligned if s < len(arrays)}
    return cuda.program(sink, NO_VECTORS) if any(arrays[s].data.ptr % 16 for s in watched) else program


def compile_on_default(sink: UOp) -> Callable[[Sequence[Any], Mapping[str, int]], None]:
    """A kernel for arrays on the first GPU, outside of a LINEAR."""
    return lambda arrays, values: start(Device["CUPY"], program_for(sink, arrays), arrays, values)  # type: ignore[arg-type]


def program_text(sink: UOp) -> str:
    return cuda.program_text(sink)


def start(memory: CupyMemory, program: cuda.Program, arrays: Sequence[Any], values: Mapping[str, int]) -> None:
    """Puts the steps of a program on the device's stream."""
    slots = dict(enumerate(arrays))
    for scratch in program.scratch:
        slots[scratch.slot] = memory.new_array(scratch.size, scratch.dtype)
    for step in program.steps:
        if isinstance(step, Product):
            _multiply(slots, step)
            continue
        number = np.int64 if step.wide else np.int32
        args = [*(slots[s] for s in step.slots), *(number(values[v]) for v in step.variables)]
        function = module(program.source, memory.number).get_function(step.name)
        function((step.blocks,), (step.threads,), (*args, *([memory.fault] if step.checks else [])))
        if step.checks:
            memory.check_indices(step.name)


def module(source: str, number: int) -> Any:
    """A program compiled for a GPU."""
    with _compiling:
        if (source, number) not in _modules:
            _modules[source, number] = library().RawModule(code=source, options=("-std=c++17",), backend="nvrtc")
        return _modules[source, number]


def _multiply(slots: Mapping[int, Any], step: Product) -> None:
    left, right, out = (_matrix(slots[m.slot], m) for m in (step.left, step.right, step.out))
    library().matmul(left, right, out=out)


def _matrix(array: Any, m: Matrix) -> Any:
    strides = tuple(s * array.itemsize for s in m.strides)
    return library().lib.stride_tricks.as_strided(array[m.offset :], m.shape, strides)


# ** the same once more: graphs **

MOST_GRAPHS: Final = 64
RUNS_BEFORE_GRAPH: Final = 2
_graphs: dict[Any, Any] = {}
"""By LINEAR, memory and values: how often it ran, then its CUDA graph."""


def replay(linear: UOp, memory: CupyMemory, arrays: Sequence[Sequence[Any]], values: Mapping[str, int]) -> bool:
    """Runs a LINEAR that ran before on the same memory as one CUDA graph; False if it is not to be run so."""
    programs = [cuda.program(call.src[0]) for call in linear.src]
    if any(p.scratch or not all(isinstance(s, cuda.Launch) and not s.checks for s in p.steps) for p in programs):
        return False  # what is allocated while it runs could be given to others before it runs again
    places = tuple(a.data.ptr for call in arrays for a in call)
    key = (weakref.ref(linear), memory.name, places, tuple(sorted(values.items())))
    known = _graphs.pop(key, 0)
    if isinstance(known, int) and known >= RUNS_BEFORE_GRAPH:
        with memory.on():
            memory.kernels.begin_capture()
            for call, given in zip(linear.src, arrays, strict=True):
                start(memory, program_for(call.src[0], given), given, values)
            known = memory.kernels.end_capture()
    _graphs[key] = known + 1 if isinstance(known, int) else known
    while len(_graphs) > MOST_GRAPHS:
        _graphs.pop(next(iter(_graphs)))
    if isinstance(known, int):
        return False
    with memory.on():
        known.launch(memory.kernels)
    return True
