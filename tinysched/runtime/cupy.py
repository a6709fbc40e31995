"""GPUs through CuPy: which there are, their memory, and their streams.

In: the names of devices, ``CUPY``, ``CUPY:1``, ... Out: :class:`CupyMemory`. CuPy is imported when the first such device is
named; where it is missing, or finds no GPU, that is one sentence, and NumPy goes on. Kernels are started one behind the
other on a stream of their device; copies have a stream of their own, and events where one has to wait for the other.

>>> from tinysched.errors import DeviceError
>>> try:
...     usable(99)
... except DeviceError as error:
...     print("cannot be used" in error.what, error.help != "")
True True
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from tinysched.dtypes import DType
from tinysched.errors import DeviceError, RunError
from tinysched.runtime.device import Buffer, DeviceMemory

OTHERWISE: Final = "NUMPY devices work without it"


# ** is there a GPU? **


@lru_cache(maxsize=1)
def library() -> Any:
    """CuPy, with at least one GPU. Raises :class:`DeviceError` with one sentence where there is none."""
    if find_spec("cupy") is None:
        raise DeviceError(
            "CUPY cannot be used: CuPy is not installed",
            help=f'pip install "tinysched[cuda12]" (or cuda13, as the driver allows); {OTHERWISE}',
        )
    try:
        cupy = import_module("cupy")
    except Exception as e:
        raise DeviceError(
            f"CUPY cannot be used: CuPy is installed but does not import: {first_line(e)}",
            help=f"its package must fit the CUDA version: install the extra cuda12 or cuda13 anew; {OTHERWISE}",
        ) from e
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as e:
        raise _no_device(e, cupy.cuda.runtime) from e
    if count == 0:
        raise DeviceError("CUPY cannot be used: there is no CUDA GPU", help=OTHERWISE)
    return cupy


def _no_device(e: Exception, runtime: Any) -> DeviceError:
    """CUDA calls a driver insufficient that is too old, and one that is not there at all."""
    if "insufficient" not in str(e).lower():
        return DeviceError(f"CUPY cannot be used: CuPy finds no CUDA GPU ({first_line(e)})", help=OTHERWISE)
    has, needs = int(runtime.driverGetVersion()), int(runtime.runtimeGetVersion())
    if has == 0:
        return DeviceError("CUPY cannot be used: there is no NVIDIA driver, so no CUDA GPU", help=OTHERWISE)
    said = f"the GPU's driver knows CUDA {_version(has)}, CuPy was built for {_version(needs)}"
    return DeviceError(
        f"CUPY cannot be used: {said}", help=f"update the driver, or install the extra for its version; {OTHERWISE}"
    )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0]


def usable(number: int) -> None:
    """Raises :class:`DeviceError` unless there is a GPU of this number."""
    count = int(library().cuda.runtime.getDeviceCount())
    if number >= count:
        there = "CUPY" if count == 1 else f"CUPY to CUPY:{count - 1}"
        raise DeviceError(f"CUPY:{number} cannot be used: there is no such GPU", help=f"there is {there}; {OTHERWISE}")


def number_of(device: str) -> int:
    return int(device.partition(":")[2] or 0)


# ** memory and streams **


class CupyMemory(DeviceMemory):
    """The memory of one GPU, and its streams: kernels, copies, and one on which graphs are recorded."""

    def __init__(self, name: str):
        super().__init__(name)
        self.number, cupy = number_of(name), library()
        self.recording = threading.Lock()
        with cupy.cuda.Device(self.number):
            self.kernels, self.copies, self.recorder = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))
            self.fault = cupy.zeros(1, np.int32)  # where kernels report an index outside of memory
            cupy.cuda.Stream.null.synchronize()
        self.processors = int(cupy.cuda.runtime.getDeviceProperties(self.number)["multiProcessorCount"])

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
                f"a kernel on {self.name} failed: {first_line(e)}",
                help=f"CUDA needs a new process after that: restart Python; {OTHERWISE}",
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
    """Which stream touched which memory last, so that the other can wait where it has to.

    ``alone``: all work is that of one stream, which has an order of its own.
    """

    def __init__(self, alone: bool = False) -> None:
        self.alone = alone
        self.written: dict[Buffer, tuple[Any, Any]] = {}  # by what holds the memory: the stream, and an event behind it
        self.read: dict[Buffer, list[tuple[Any, Any]]] = {}

    @contextmanager
    def of(self, memory: CupyMemory, stream: Any, reads: Iterable[Buffer], writes: Iterable[Buffer]) -> Iterator[None]:
        """Work on a stream: it waits for what it needs, and others can wait for it."""
        if self.alone:
            with memory.on(stream):
                yield
            return
        reads, writes = [b.base or b for b in reads], [b.base or b for b in writes]
        waits = [self.written[b] for b in (*reads, *writes) if b in self.written]
        waits += [w for b in writes for w in self.read.get(b, ())]
        with memory.on(stream):
            for other, event in dict.fromkeys(waits):
                if other is not stream:
                    stream.wait_event(event)
            yield
            behind = (stream, stream.record(library().cuda.Event(disable_timing=True)))
        for b in writes:
            self.written[b] = behind
            self.read.pop(b, None)
        for b in reads:
            self.read.setdefault(b, []).append(behind)
