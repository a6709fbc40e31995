"""The run time for GPUs without one: a module that looks like CuPy runs its kernels on the CPU, or fails as CuPy would."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu
from benchmarks.libs import Ours
from benchmarks.workloads import WORKLOADS, small
from tests.cuda import fake_cupy
from tests.cuda.fake_cupy import SEEN, Array, installed, make
from tinysched import Context, Device, Tensor, dtypes, plan, run_linear
from tinysched.errors import DeviceError, RunError
from tinysched.ir.ops import Ops
from tinysched.runtime import cupy as runtime
from tinysched.runtime.device import buffer_of


@pytest.fixture
def cupy() -> Iterator[Any]:
    with installed(make()) as module:
        yield module


def seen(kind: str) -> list[Any]:
    return [s for s in SEEN if s[0] == kind]


# ---- no CuPy, no GPU


def refused(monkeypatch: pytest.MonkeyPatch, module: Any, device: str = "CUPY") -> str:
    """The sentence with which a device is refused; NumPy goes on."""
    with installed(module), pytest.raises(DeviceError) as error:
        Tensor([1.0], device=device)
    assert "NUMPY" in error.value.help and "\n" not in error.value.what
    assert (Tensor([1.0]) + 1).tolist() == [2.0]
    return error.value.what


def test_cupy_is_not_installed(monkeypatch):
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    assert refused(monkeypatch, make()) == "CUPY cannot be used: CuPy is not installed"


def test_cupy_does_not_import(monkeypatch):
    def fails(name: str) -> Any:
        raise ImportError("libcublas.so.12: cannot open shared object file\nand more")

    monkeypatch.setattr(runtime, "import_module", fails)
    said = refused(monkeypatch, make())
    assert (
        said
        == "CUPY cannot be used: CuPy is installed but does not import: libcublas.so.12: cannot open shared object file"
    )


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("cudaErrorNoDevice: no CUDA-capable device is detected", "CuPy finds no CUDA GPU (cudaErrorNoDevice: "),
        ("cudaErrorInsufficientDriver: CUDA driver version is insufficient", "the GPU's driver is older than"),
    ],
)
def test_no_gpu_or_an_old_driver(monkeypatch, error, says):
    def fails() -> int:
        raise RuntimeError(error)

    module = make()
    module.cuda.runtime.getDeviceCount = fails
    assert says in refused(monkeypatch, module)


def test_no_gpu_of_this_number(monkeypatch):
    assert refused(monkeypatch, make(), "CUPY:7") == "CUPY:7 cannot be used: there is no such GPU"
    none = make()
    none.cuda.runtime.getDeviceCount = lambda: 0
    assert refused(monkeypatch, none) == "CUPY cannot be used: there is no CUDA GPU"


def test_names(cupy):
    assert [Device.canonicalize(n) for n in ("cupy", "CUPY:0", "cupy:1")] == ["CUPY", "CUPY", "CUPY:1"]
    with pytest.raises(DeviceError):
        Device.canonicalize("CUPY:x")


# ---- values


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["softmax", "embedding", "mlp_fwd"])
def test_workloads_on_the_default_device(cupy, name):
    lib = Ours()
    want = lib.values(small(name, lib))
    with Context(DEVICE="CUPY"):
        tensors = small(name, lib)
        got = lib.values(tensors)
    assert tensors[0].device == "CUPY" and seen("launch")
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.compiler
def test_products_go_to_cublas(cupy):
    a, b = (np.random.default_rng(i).standard_normal((128, 128)).astype(np.float32) for i in (0, 1))
    c = Tensor(a, device="CUPY") @ Tensor(b, device="CUPY")
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-3, atol=1e-4)
    assert seen("matmul") and not seen("launch")


@pytest.mark.compiler
def test_copies_have_their_own_stream_and_wait_where_they_have_to(cupy):
    x = Tensor([1.0, 2.0, 3.0], device="CUPY").realize()
    SEEN.clear()
    y = ((x * 2).to("CUPY:1") + 1).to("NUMPY")
    assert y.tolist() == [3.0, 5.0, 7.0]
    first, second = Device["CUPY"], Device["CUPY:1"]
    assert seen("peer") == [("peer", 1, 0)]
    copying = [s[1] for s in SEEN if s[0] == "wait"]
    assert first.copies is not first.kernels and second.copies in copying and second.kernels in copying
    events = [s[2][1] for s in SEEN if s[0] == "wait"]
    assert events == [first.kernels, second.copies, second.kernels]


@pytest.mark.compiler
def test_sharding_over_two(cupy):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("CUPY", "CUPY:1"), 0)
    assert (x + 1).sum().item() == 14.0


@pytest.mark.compiler
def test_intermediates_live_in_one_arena(cupy):
    x = Tensor(np.ones((8, 8), np.float32), device="CUPY").realize()
    p = plan((x.sum(0).contiguous() + x.sum(1)).max() + 1)
    inside = [u for call in p.linear.src for u in call.src[1:] if u.op is Ops.BITCAST]
    run_linear(p)
    arena = buffer_of(inside[0].base if inside[0].base.op is Ops.BUFFER else inside[0].src[0].src[0])
    for u in inside:
        start, memory = buffer_of(u).array.data.ptr, arena.array
        assert memory.data.ptr <= start < memory.data.ptr + memory.nbytes


@pytest.mark.compiler
def test_bfloat16_is_held_as_bits(cupy):
    x = Tensor([1.0, 1.001, -3.14159], device="CUPY").cast(dtypes.bfloat16).realize()
    assert buffer_of(x.uop.base).array.dtype == np.uint16
    assert x.cast(dtypes.float32).tolist() == [1.0, 1.0, -3.140625]


@pytest.mark.compiler
def test_memory_that_is_not_aligned_gets_a_program_without_vectors(cupy):
    x = Tensor(np.arange(65, dtype=np.float32), device="CUPY").realize()
    [call] = plan(x * 2 + 1).linear.src
    at = [fake_cupy.aligned(66, np.float32)[1:] for _ in range(2)]
    at[1].set(np.arange(65, dtype=np.float32))
    runtime.compile_on_default(call.src[0])(at, {})
    assert at[0].get().tolist() == [2.0 * i + 1 for i in range(65)]


# ---- graphs


@pytest.mark.compiler
def test_what_runs_again_on_the_same_memory_is_one_graph(cupy):
    x = Tensor([1.0, 2.0], device="CUPY").realize()
    y = (x * 2).sum()
    p = plan(y)
    for i in range(5):
        buffer_of(x.uop.base).copyin(np.array([i, 1], np.float32))
        run_linear(p.linear)
        assert y.item() == 2 * i + 2
    assert len(seen("capture")) == 1 and len(seen("graph")) == 3
    with Context(DEBUG=0):
        run_linear(p.linear, profile=[])
    assert len(seen("graph")) == 3, "a run that is timed is run kernel by kernel"


# ---- failures


def test_out_of_memory(cupy):
    def full(size: int, dtype: Any) -> Array:
        raise MemoryError("Out of memory allocating 4,000 bytes")

    Device["CUPY"]
    cupy.empty = full
    with pytest.raises(RunError, match=r"no memory for 4,000 bytes on CUPY, where 0 are in use"):
        Tensor.empty(1000, device="CUPY").realize()


@pytest.mark.compiler
def test_a_kernel_that_cannot_be_launched(cupy, monkeypatch):
    x = Tensor([1.0], device="CUPY").realize()
    monkeypatch.setattr(cupy, "RawModule", lambda **_: types.SimpleNamespace(get_function=lambda name: broken))

    def broken(*args: Any) -> None:
        raise RuntimeError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch")

    with pytest.raises(RunError, match=r"kernel \w+ failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        (x + 1).realize()
    assert x.tolist() == [1.0]


@pytest.mark.compiler
def test_a_failure_that_shows_later(cupy, monkeypatch):
    x = Tensor([1.0], device="CUPY").realize()

    def broken(self: Any) -> None:
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    with (
        monkeypatch.context() as m,
        pytest.raises(RunError, match="a kernel on CUPY failed: cudaErrorIllegalAddress") as error,
    ):
        m.setattr(fake_cupy.Stream, "synchronize", broken)
        (x + 1).realize()
    assert "restart Python" in error.value.help
    assert (Tensor([1.0]) + 1).tolist() == [2.0]


@pytest.mark.compiler
def test_an_index_outside_of_memory_names_the_kernel(cupy):
    from tests.cuda.cases import embedding

    case = embedding(9, 8, 13, 9)
    case.arrays[2][4] = -1
    arrays = [fake_cupy.aligned(a.size, a.dtype) for a in case.arrays]
    for to, a in zip(arrays, case.arrays):
        to.set(a)
    with pytest.raises(RunError, match="k_kernel met an index outside of its buffer on CUPY"):
        runtime.compile_on_default(case.sink)(arrays, {})


# ---- the command for a machine with a GPU


@pytest.mark.compiler
def test_the_benchmark_compares_values(cupy, capsys):
    assert gpu.values(["embedding"]) == 0
    cupy.RawModule = nothing
    assert gpu.values(["gelu"]) == 1
    assert "WRONG" in capsys.readouterr().out.splitlines()[-1]


def nothing(**_: Any) -> Any:
    """A module whose kernels do nothing."""
    return types.SimpleNamespace(get_function=lambda name: lambda *args: None)


def test_the_benchmark_prints_one_table(cupy, capsys):
    cupy.RawModule = nothing
    assert gpu.main([], scale=64) == 0
    said = capsys.readouterr().out
    assert "the CPU, CuPy 0 (a fake)" in said and "0 workloads, 0 wrong" in said
    assert all(name in said for name in ("copy", "softmax", "sum of columns", "cuBLAS alone", "CuPy, fused"))


def test_the_benchmark_without_a_gpu_says_so(monkeypatch, capsys):
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with installed(make()):
        assert gpu.main(["embedding"]) == 1
    assert "CuPy is not installed" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_on_a_gpu(name):
    lib = Ours()
    want = lib.values(small(name, lib))
    with Context(DEVICE="CUPY"):
        got = lib.values(small(name, lib))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
