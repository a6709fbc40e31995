"""CuPy as it is, without a GPU: what the stand-in of ``test_cupy.py`` assumes of it holds for the module itself."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

from tests.cuda import fake_cupy
from tinysched import Tensor
from tinysched.errors import DeviceError

pytestmark = pytest.mark.cupy

CALLED: dict[str, Any] = {
    "RawModule": fake_cupy.RawModule.__init__,
    "RawModule.get_function": fake_cupy.RawModule.get_function,
    "RawKernel.__call__": fake_cupy.RawKernel.__call__,
    "copyto": fake_cupy.copyto,
    "cuda.Stream": fake_cupy.Stream.__init__,
    "cuda.Stream.begin_capture": fake_cupy.Stream.begin_capture,
    "cuda.Stream.end_capture": fake_cupy.Stream.end_capture,
    "cuda.Stream.record": fake_cupy.Stream.record,
    "cuda.Stream.synchronize": fake_cupy.Stream.synchronize,
    "cuda.Stream.wait_event": fake_cupy.Stream.wait_event,
    "cuda.Event": fake_cupy.Event.__init__,
    "cuda.Device": fake_cupy.on_device,
    "cuda.Graph.launch": fake_cupy.Graph.launch,
    "cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor": fake_cupy.occupancy,
    "cuda.get_elapsed_time": fake_cupy.make().cuda.get_elapsed_time,
    "cuda.runtime.driverGetVersion": fake_cupy.make().cuda.runtime.driverGetVersion,
    "cuda.runtime.getDeviceCount": fake_cupy.make().cuda.runtime.getDeviceCount,
    "cuda.runtime.getDeviceProperties": fake_cupy.make().cuda.runtime.getDeviceProperties,
    "cuda.runtime.memcpyPeerAsync": fake_cupy.memcpyPeerAsync,
    "cuda.runtime.runtimeGetVersion": fake_cupy.make().cuda.runtime.runtimeGetVersion,
    "ndarray.get": fake_cupy.Array.get,
    "ndarray.set": fake_cupy.Array.set,
}
"""What is called, and the stand-in for it."""


@pytest.fixture(scope="module")
def cupy() -> Any:
    return importlib.import_module("cupy")


def find(cupy: Any, path: str) -> Any:
    for name in path.split("."):
        cupy = getattr(cupy, name)
    return cupy


def parameters(function: Any) -> list[str]:
    """The names of a function's parameters; compiled ones have their signature in front of their documentation."""
    said = re.match(r"[\w.]*\((.*?)\)( ->.*)?$", (function.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip())
    if said is None or inspect.isfunction(function):
        names = list(inspect.signature(function).parameters)
    else:
        names = [re.split(r"[=:]", p)[0].split()[-1].strip("*\\") for p in said[1].split(",") if p.strip() not in "*/"]
    return [n for n in names if n not in ("self", "")]


@pytest.mark.parametrize("path", CALLED)
def test_what_is_called_is_there_with_these_parameters(cupy, path):
    real, ours = parameters(find(cupy, path)), parameters(CALLED[path])
    assert [n for n in real if n in ours] == ours, f"{path}({', '.join(real)})"


def test_constants_and_classes(cupy):
    runtime, ours = cupy.cuda.runtime, fake_cupy.make().cuda.runtime
    for name in ("CUDA_R_16F", "CUDA_R_16BF", "CUDA_R_32F", "CUDA_R_64F"):
        assert getattr(runtime, name) == getattr(ours, name)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    assert cupy.ndarray.__weakrefoffset__, "memory is given back when an array is gone"
    assert cupy.cuda.Stream.__hash__ is not None and callable(cupy.cuda.device.get_cublas_handle)
    assert isinstance(cupy.cuda.Stream.null, cupy.cuda.Stream)
    assert hasattr(cupy.RawKernel, "kernel") and hasattr(cupy.cuda.Function, "ptr")


def test_no_gpu_is_one_sentence_and_numpy_goes_on(cupy):
    try:
        x = Tensor([1.0], device="CUPY")
    except DeviceError as e:
        assert re.match(
            r"CUPY cannot be used: (there is no NVIDIA driver|CuPy finds no CUDA GPU|the GPU's driver)", e.what
        )
        x = Tensor([1.0])
    assert (x + 1).tolist() == [2.0]
