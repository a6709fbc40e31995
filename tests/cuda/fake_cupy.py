"""A module that looks like CuPy and runs kernels on the CPU through the shim: what the run time asks of CuPy, no more.

In: arrays, streams, events and source. Out: values; :data:`SEEN` says in which order things were asked for. Arrays are
no NumPy arrays on purpose: what would be a silent copy from a GPU fails here as well.
"""

from __future__ import annotations

import ctypes
import re
import sys
import types
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.cuda.shim import Fault, Library

DEVICES = 2
SEEN: list[tuple[Any, ...]] = []


class Array:
    def __init__(self, values: np.ndarray):
        self.values = values
        self.size, self.nbytes, self.itemsize, self.dtype = values.size, values.nbytes, values.itemsize, values.dtype
        self.data = types.SimpleNamespace(ptr=values.ctypes.data)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, key: slice) -> Array:
        return Array(self.values[key])

    def reshape(self, *shape: int) -> Array:
        return Array(self.values.reshape(shape))

    def view(self, dtype: Any) -> Array:
        return Array(self.values.view(dtype))

    def get(self, stream: Any = None, out: Any = None) -> np.ndarray:
        SEEN.append(("get", stream))
        if out is None:
            return self.values.copy()
        out[...] = self.values
        return out

    def set(self, values: np.ndarray, stream: Any = None) -> None:
        SEEN.append(("set", stream))
        assert values.dtype == self.dtype and values.size == self.size
        self.values[...] = values

    def fill(self, value: Any) -> None:
        self.values.fill(value)


class Stream:
    def __init__(self, non_blocking: bool = False):
        self.ptr, self.captured = id(self), None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def record(self) -> tuple[str, Stream]:
        return ("event", self)

    def wait_event(self, event: Any) -> None:
        SEEN.append(("wait", self, event))

    def synchronize(self) -> None:
        SEEN.append(("synchronize", self))

    def begin_capture(self) -> None:
        SEEN.append(("capture",))
        capturing.append([])

    def end_capture(self) -> Graph:
        return Graph(capturing.pop())


capturing: list[list[Any]] = []


class Graph:
    def __init__(self, calls: list[Any]):
        self.calls = calls

    def launch(self, stream: Stream) -> None:
        SEEN.append(("graph",))
        for call in self.calls:
            call()


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...] = (), backend: str = "nvrtc"):
        SEEN.append(("compile",))
        self.code, self.library = code, Library([code])

    def get_function(self, name: str) -> Any:
        function = getattr(self.library.library, f"k0_{name}")
        function.restype = ctypes.c_char_p
        params = re.search(rf" {name}\((.*?)\) \{{", self.code)
        pointers = len(re.findall(r"\* p\d+", params[1])) if params else 0

        def call(grid: tuple[int], block: tuple[int], args: tuple[Any, ...]) -> None:
            memory, rest = args[:pointers], args[pointers:]
            flag = rest[-1].values if rest and isinstance(rest[-1], Array) else np.zeros(1, np.int32)
            numbers = [int(x) for x in rest if not isinstance(x, Array)]
            data = (ctypes.c_void_p * len(memory))(*[a.data.ptr for a in memory])
            sizes = (ctypes.c_long * len(memory))(*[a.size for a in memory])
            values = (ctypes.c_long * max(1, len(numbers)))(*numbers)
            together = int(bool(re.search("__syncthreads|across_", self.code)))
            said = function(
                data, sizes, values, ctypes.c_void_p(flag.ctypes.data), min(grid[0], 50), block[0], together
            )
            if said:
                raise Fault(said.decode())

        def start(*args: Any) -> None:
            SEEN.append(("launch", name))
            (capturing[-1].append(lambda: call(*args)) if capturing else call(*args))

        return start


def memcpyPeerAsync(target: int, to: int, source: int, start: int, nbytes: int, stream: int) -> None:
    SEEN.append(("peer", to, start))
    ctypes.memmove(target, source, nbytes)


@contextmanager
def on_device(number: int) -> Any:
    assert number < DEVICES
    yield


def aligned(size: int, dtype: Any) -> Array:
    raw = np.full(size * np.dtype(dtype).itemsize + 256, 0xF5, np.uint8)
    start = -raw.ctypes.data % 256
    return Array(raw[start : start + size * np.dtype(dtype).itemsize].view(dtype))


def zeros(size: int, dtype: Any) -> Array:
    array = aligned(size, dtype)
    array.fill(0)
    return array


def copyto(a: Array, b: Array) -> None:
    a.values[...] = b.values


def elementwise_kernel(inputs: str, output: str, code: str, name: str) -> Any:
    return lambda *arrays: None


def matmul(a: Array, b: Array, out: Array) -> None:
    SEEN.append(("matmul",))
    np.matmul(a.values, b.values, out=out.values)


def make() -> types.ModuleType:
    """The module, to be put where ``import cupy`` finds it."""
    stream = types.SimpleNamespace(__call__=Stream, null=Stream())

    class Streams(Stream):
        null = stream.null

    cupy: Any = types.ModuleType("cupy")
    cupy.__spec__ = types.SimpleNamespace(name="cupy")
    cupy.empty, cupy.zeros, cupy.matmul, cupy.RawModule = aligned, zeros, matmul, RawModule
    cupy.copyto, cupy.ElementwiseKernel, cupy.__version__ = copyto, elementwise_kernel, "0 (a fake)"
    cupy.lib = types.SimpleNamespace(
        stride_tricks=types.SimpleNamespace(
            as_strided=lambda a, shape, strides: Array(as_strided(a.values, shape, strides))
        )
    )
    runtime = types.SimpleNamespace(getDeviceCount=lambda: DEVICES, memcpyPeerAsync=memcpyPeerAsync)
    runtime.getDeviceProperties = lambda number: {"name": b"the CPU"}
    cupy.cuda = types.SimpleNamespace(runtime=runtime, Device=on_device, Stream=Streams)
    cupy.cuda.get_elapsed_time = lambda start, stop: 1.0
    return cupy


@contextmanager
def installed(module: Any) -> Any:
    """The module in place of CuPy, and a run time that has not met another one."""
    from tinysched.runtime import cupy as runtime
    from tinysched.runtime.device import Device

    old = sys.modules.get("cupy")
    sys.modules["cupy"] = module

    def forget() -> None:
        runtime.library.cache_clear()
        runtime.clear_caches()
        for name in [n for n in Device._memory if n.startswith("CUPY")]:
            del Device._memory[name]

    forget()
    SEEN.clear()
    try:
        yield module
    finally:
        forget()
        sys.modules.pop("cupy")
        if old is not None:
            sys.modules["cupy"] = old
