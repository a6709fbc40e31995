"""A module that looks like CuPy and runs kernels on the CPU through the shim: what the run time asks of CuPy, no more.

In: arrays, streams, events and source. Out: values; :data:`SEEN` says in which order things were asked for. It is as strict
as CuPy is: streams and arrays belong to a device, shapes and types of copies agree, arrays are no NumPy arrays. Streams in
:data:`LAZY` do their work as late as they may, so that a missing event shows. ``test_cupy_itself.py`` holds all this to the
module itself.
"""

from __future__ import annotations

import ctypes
import re
import sys
import types
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.cuda.shim import Fault, Library, as_floats, as_stored
from tinysched.dtypes import dtypes

DEVICES, PROCESSORS = 2, 3
FREE = 1 << 30
"""Bytes of memory."""
SEEN: list[tuple[Any, ...]] = []
LAZY: set[Any] = set()
devices, streams = [0], [[], []]
"""Those that ``with`` made the current ones; streams per device."""


class Array:
    def __init__(self, values: np.ndarray, device: int | None = None):
        self.values, self.device = values, devices[-1] if device is None else device
        self.size, self.nbytes, self.itemsize, self.dtype = values.size, values.nbytes, values.itemsize, values.dtype
        self.data, self.shape = types.SimpleNamespace(ptr=values.ctypes.data), values.shape

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, key: slice) -> Array:
        return Array(self.values[key], self.device)

    def reshape(self, *shape: int) -> Array:
        return Array(self.values.reshape(shape), self.device)

    def view(self, dtype: Any) -> Array:
        return Array(self.values.view(dtype), self.device)

    def get(
        self, stream: Any = None, order: str = "C", out: np.ndarray | None = None, blocking: bool = True
    ) -> np.ndarray:
        SEEN.append(("get", stream))
        (stream or current()).synchronize()
        found = np.empty_like(self.values) if out is None else out
        assert type(found) is np.ndarray and (found.dtype, found.shape) == (self.dtype, self.shape)
        found[...] = self.values
        return found

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        SEEN.append(("set", stream))
        assert type(arr) is np.ndarray and (arr.dtype, arr.shape) == (self.dtype, self.shape)
        given = arr.copy()  # memory of the host is read before the call returns
        (stream or current()).do(lambda: np.copyto(self.values, given))

    def fill(self, value: Any) -> None:
        current().do(lambda: self.values.fill(value))


# ---- streams


class Stream:
    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None):
        self.ptr, self.device_id = id(self), devices[-1]
        self.queue: list[Callable[[], None]] = []
        self.done = 0
        self.captured: list[Callable[[], None]] | None = None

    def __enter__(self) -> Stream:
        if self.device_id != devices[-1]:
            raise RuntimeError("The device that the stream is created on does not match with the current device")
        streams[self.device_id].append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        streams[self.device_id].pop()

    def do(self, work: Callable[[], None]) -> None:
        if self.captured is not None:
            self.captured.append(work)
            return
        self.queue.append(work)
        if self not in LAZY:
            self.run(len(self.queue))

    def run(self, until: int) -> None:
        while self.done < until:
            self.done += 1
            self.queue[self.done - 1]()

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        assert self.device_id == event.device, "an event belongs to the device that it was made on"
        SEEN.append(("record", self))
        event.stream, event.place = self, len(self.queue)
        return event

    def wait_event(self, event: Event) -> None:
        SEEN.append(("wait", self, event))
        self.do(lambda: event.stream.run(event.place))

    def synchronize(self) -> None:
        SEEN.append(("synchronize", self))
        assert self.captured is None, "a stream that is captured cannot be waited for"
        self.run(len(self.queue))

    def begin_capture(self, mode: Any = None) -> None:
        SEEN.append(("capture",))
        self.captured = []

    def end_capture(self) -> Graph:
        found, self.captured = self.captured, None
        assert found is not None
        return Graph(found)


class Event:
    stream: Stream
    place: int

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
        self.device = devices[-1]


def current() -> Stream:
    here = streams[devices[-1]]
    return here[-1] if here else NULL


NULL = Stream()


class Graph:
    def __init__(self, calls: list[Any]):
        self.calls = calls

    def launch(self, stream: Any = None) -> None:
        SEEN.append(("graph",))
        for call in self.calls:
            (stream or current()).do(call)


@contextmanager
def on_device(device: int) -> Any:
    assert device < DEVICES
    devices.append(device)
    yield
    devices.pop()


# ---- kernels


class RawModule:
    def __init__(
        self, *, code: str | None = None, path: Any = None, options: tuple[str, ...] = (), backend: str = "nvrtc"
    ):
        SEEN.append(("compile",))
        assert code is not None
        self.code, self.library = code, Library([code])

    def get_function(self, name: str) -> Any:
        return RawKernel(self, name)


class RawKernel:
    def __init__(self, module: RawModule, name: str):
        self.module, self.name, self.kernel = module, name, types.SimpleNamespace(ptr=1)
        self.function = getattr(module.library.library, f"k0_{name}")
        self.function.restype = ctypes.c_char_p
        params = re.search(rf" {name}\((.*?)\) \{{", module.code)
        self.pointers = len(re.findall(r"\* p\d+", params[1])) if params else 0

    def __call__(self, grid: tuple[int], block: tuple[int], args: tuple[Any, ...]) -> None:
        SEEN.append(("launch", self.name, grid[0]))
        assert all(a.device == devices[-1] for a in args if isinstance(a, Array)), "memory of another device"
        assert all(isinstance(a, Array | np.int32 | np.int64) for a in args)
        current().do(lambda: self.run(grid, block, args))

    def run(self, grid: tuple[int], block: tuple[int], args: tuple[Any, ...]) -> None:
        memory, rest = args[: self.pointers], args[self.pointers :]
        flag = rest[-1].values if rest and isinstance(rest[-1], Array) else np.zeros(1, np.int32)
        numbers = [int(x) for x in rest if not isinstance(x, Array)]
        data = (ctypes.c_void_p * len(memory))(*[a.data.ptr for a in memory])
        sizes = (ctypes.c_long * len(memory))(*[a.size for a in memory])
        values = (ctypes.c_long * max(1, len(numbers)))(*numbers)
        together = int(bool(re.search("__syncthreads|across_", self.module.code)))
        address = ctypes.c_void_p(flag.ctypes.data)
        said = self.function(data, sizes, values, address, min(grid[0], 50), block[0], together)
        if said:
            raise Fault(said.decode())


def occupancy(func: int, blockSize: int, dynamicSMemSize: int) -> int:  # CuPy's names
    return 2048 // blockSize


# ---- memory


def memcpyPeerAsync(dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int) -> None:
    SEEN.append(("peer", dstDevice, srcDevice))
    assert stream == current().ptr
    current().do(lambda: ctypes.memmove(dst, src, size) and None)


def aligned(size: int, dtype: Any) -> Array:
    if size * np.dtype(dtype).itemsize > FREE:
        raise MemoryError(f"Out of memory allocating {size * np.dtype(dtype).itemsize:,} bytes")
    raw = np.full(size * np.dtype(dtype).itemsize + 256, 0xF5, np.uint8)
    start = -raw.ctypes.data % 256
    return Array(raw[start : start + size * np.dtype(dtype).itemsize].view(dtype))


def zeros(size: int, dtype: Any) -> Array:
    array = aligned(size, dtype)
    array.fill(0)
    return array


def copyto(dst: Array, src: Array) -> None:
    current().do(lambda: np.copyto(dst.values, src.values))


def elementwise_kernel(in_params: str, out_params: str, operation: str, name: str) -> Any:
    return lambda *arrays: None


def matmul(a: Array, b: Array, out: Array) -> None:
    with np.errstate(all="ignore"):  # memory that nobody wrote is multiplied too
        np.matmul(a.values, b.values, out=out.values)


# ---- cuBLAS, which counts matrices by columns

TYPES = {2: dtypes.float16, 14: dtypes.bfloat16, 0: dtypes.float32, 1: dtypes.float64}
ALLOWED = {(68, 0, 0), (68, 2, 2), (68, 2, 0), (68, 14, 14), (68, 14, 0), (70, 1, 1)}
"""What it multiplies: how it computes, the type of the factors, that of the product."""


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    A: int, Atype: int, lda: int, strideA: int, B: int, Btype: int, ldb: int, strideB: int, beta: int,
    C: int, Ctype: int, ldc: int, strideC: int, batchCount: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    SEEN.append(("gemm", batchCount))
    assert min(m, n, k, batchCount) > 0 and Atype == Btype and (computeType, Atype, Ctype) in ALLOWED
    scalar = np.float64 if computeType == 70 else np.float32
    one, zero = (ctypes_array(p, 1, scalar)[0] for p in (alpha, beta))
    assert (one, zero) == (1, 0)
    factor, result = (np.dtype(t.np if t.np_name else np.uint16) for t in (TYPES[Atype], TYPES[Ctype]))
    a = by_columns(A, *((k, m) if transa else (m, k)), lda, strideA, batchCount, factor)
    b = by_columns(B, *((n, k) if transb else (k, n)), ldb, strideB, batchCount, factor)
    c = by_columns(C, m, n, ldc, strideC, batchCount, result)

    def work() -> None:
        x, y = (as_floats(v, TYPES[Atype]) for v in (a, b))
        with np.errstate(all="ignore"):
            product = (x.transpose(0, 2, 1) if transa else x) @ (y.transpose(0, 2, 1) if transb else y)
            c[...] = as_stored(product, TYPES[Ctype])

    current().do(work)


def by_columns(at: int, rows: int, columns: int, lead: int, step: int, count: int, dtype: np.dtype) -> np.ndarray:
    """Matrices as cuBLAS sees memory."""
    assert lead >= max(1, rows), "the leading dimension is less than a column has rows"
    size = (count - 1) * step + (columns - 1) * lead + rows
    memory, n = ctypes_array(at, size, dtype), dtype.itemsize
    return as_strided(memory, (count, rows, columns), (step * n, n, lead * n))


def ctypes_array(at: int, size: int, dtype: Any) -> np.ndarray:
    raw = (ctypes.c_char * (size * np.dtype(dtype).itemsize)).from_address(at)
    return np.frombuffer(raw, dtype)


# ---- the module


def make() -> types.ModuleType:
    """The module, to be put where ``import cupy`` finds it."""

    class Streams(Stream):
        null = NULL

    cupy: Any = types.ModuleType("cupy")
    cupy.__spec__ = types.SimpleNamespace(name="cupy")
    cupy.empty, cupy.zeros, cupy.matmul, cupy.RawModule = aligned, zeros, matmul, RawModule
    cupy.copyto, cupy.ElementwiseKernel, cupy.__version__ = copyto, elementwise_kernel, "0 (a fake)"
    runtime = types.SimpleNamespace(getDeviceCount=lambda: DEVICES, memcpyPeerAsync=memcpyPeerAsync)
    runtime.getDeviceProperties = lambda device: {"name": b"the CPU", "multiProcessorCount": PROCESSORS}
    runtime.memGetInfo = lambda: (FREE, FREE)
    runtime.driverGetVersion, runtime.runtimeGetVersion = lambda: 12040, lambda: 12090
    runtime.CUDA_R_16F, runtime.CUDA_R_16BF, runtime.CUDA_R_32F, runtime.CUDA_R_64F = 2, 14, 0, 1
    cupy.cuda = types.SimpleNamespace(runtime=runtime, Device=on_device, Stream=Streams, Event=Event)
    cupy.cuda.driver = types.SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=occupancy)
    cupy.cuda.device = types.SimpleNamespace(get_cublas_handle=lambda: 7)
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    cupy.cuda.get_elapsed_time = lambda start_event, end_event: 1.0
    return cupy


def make_libraries() -> types.ModuleType:
    """``cupy_backends.cuda.libs``."""
    libs: Any = types.ModuleType("cupy_backends.cuda.libs")
    libs.cublas = types.SimpleNamespace(
        gemmStridedBatchedEx=gemmStridedBatchedEx, CUBLAS_COMPUTE_32F=68, CUBLAS_COMPUTE_64F=70, CUBLAS_GEMM_DEFAULT=-1
    )
    return libs


@contextmanager
def installed(module: Any) -> Any:
    """The module in place of CuPy, and a run time that has not met another one."""
    from tinysched.runtime import cupy, launch
    from tinysched.runtime.device import Device

    modules = {"cupy": module, "cupy_backends.cuda.libs": make_libraries()}
    old = {name: sys.modules.get(name) for name in modules}
    sys.modules |= modules

    def forget() -> None:
        cupy.library.cache_clear()
        launch.blas.cache_clear()
        launch.clear_caches()
        LAZY.clear()
        for name in [n for n in Device._memory if n.startswith("CUPY")]:
            del Device._memory[name]

    forget()
    SEEN.clear()
    try:
        yield module
    finally:
        forget()
        for name, one in old.items():
            sys.modules.pop(name)
            if one is not None:
                sys.modules[name] = one
