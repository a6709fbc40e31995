"""The run time for GPUs without one: a module that looks like CuPy runs its kernels on the CPU, or fails as CuPy would."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu
from benchmarks.libs import Ours
from benchmarks.supervise import NO_TIME, Jobs, here, supervised
from benchmarks.workloads import WORKLOADS, small
from tests.cuda import fake_cupy
from tests.cuda.fake_cupy import SEEN, Array, installed, make
from tinysched import Context, Device, Tensor, capture, dtypes, plan, run_linear
from tinysched.errors import DeviceError, RunError
from tinysched.ir.ops import Ops
from tinysched.ir.uop import ParamArg, UOp
from tinysched.runtime import cupy as runtime
from tinysched.runtime import launch
from tinysched.runtime import linear as linear_runner
from tinysched.runtime.device import buffer_of
from tinysched.runtime.linear import execute
from tinysched.runtime.nest import load


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


INSUFFICIENT = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"


@pytest.mark.parametrize(
    ("error", "driver", "says"),
    [
        ("cudaErrorNoDevice: no CUDA-capable device", 12040, "CuPy finds no CUDA GPU (cudaErrorNoDevice: "),
        (INSUFFICIENT, 0, "there is no NVIDIA driver, so no CUDA GPU"),
        (INSUFFICIENT, 12040, "the GPU's driver knows CUDA 12.4, CuPy was built for 12.9"),
    ],
)
def test_no_gpu_no_driver_or_an_old_one(monkeypatch, error, driver, says):
    def fails() -> int:
        raise RuntimeError(error)

    module = make()
    module.cuda.runtime.getDeviceCount, module.cuda.runtime.driverGetVersion = fails, lambda: driver
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
    assert seen("gemm") and not seen("launch")


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64], ids=lambda d: d.name)
def test_products_of_other_types_go_to_cublas_as_they_are(cupy, dtype):
    a, b = (np.random.default_rng(i).uniform(-1, 1, (128, 128)).astype(np.float32) for i in (0, 1))
    x, y = (Tensor(v, device="CUPY").cast(dtype).realize() for v in (a, b))
    SEEN.clear()
    c = (x @ y).realize()
    assert c.dtype is dtype and seen("gemm") and not seen("launch")
    want = x.cast(dtypes.float64).numpy() @ y.cast(dtypes.float64).numpy()
    np.testing.assert_allclose(c.cast(dtypes.float64).numpy(), want, atol={2: 0.05, 8: 1e-9}[dtype.itemsize])
    SEEN.clear()
    d = (x.relu() @ y + 1).realize()
    assert len(seen("gemm")) == 1 and len(seen("launch")) == 2, "what is multiplied is stored, what follows is a kernel"
    want = np.maximum(x.cast(dtypes.float64).numpy(), 0) @ y.cast(dtypes.float64).numpy() + 1
    np.testing.assert_allclose(d.cast(dtypes.float64).numpy(), want, atol={2: 0.05, 8: 1e-9}[dtype.itemsize])


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
    events = [s[2].stream for s in SEEN if s[0] == "wait"]
    assert events == [first.kernels, second.copies, second.kernels]


@pytest.mark.compiler
def test_kernels_of_one_stream_need_no_events(cupy):
    x = Tensor([1.0, 2.0, 3.0], device="CUPY").realize()
    SEEN.clear()
    assert ((x.sum() + x).contiguous() * x).tolist() == [7.0, 16.0, 27.0]
    assert len(seen("launch")) > 1 and not seen("record")


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
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=lambda d: d.name)
def test_a_trace_shows_what_runs_on_a_gpu(cupy, dtype):
    x = Tensor([1.0, 2.0, 3.0], device="CUPY").cast(dtype).realize()
    trace = capture((x * 2 + 1).cast(dtypes.float32), run=True)
    [kernel] = trace.schedules[0].kernels
    assert kernel.device == "CUPY" and "__global__" in kernel.cuda and seen("launch")
    assert kernel.loops.startswith("def " if dtype is dtypes.float32 else "# bfloat16 has no NumPy type")
    assert len(trace.schedules[0].run.seconds) == 1 and len(trace.to_json()) > 1000


@pytest.mark.compiler
def test_memory_that_is_not_aligned_gets_a_program_without_vectors(cupy):
    x = Tensor(np.arange(65, dtype=np.float32), device="CUPY").realize()
    [call] = plan(x * 2 + 1).linear.src
    at = [fake_cupy.aligned(66, np.float32)[1:] for _ in range(2)]
    at[1].set(np.arange(65, dtype=np.float32))
    launch.compile_on_default(call.src[0])(at, {})
    assert at[0].get().tolist() == [2.0 * i + 1 for i in range(65)]


@pytest.mark.compiler
@pytest.mark.parametrize("late", ["copies", "kernels"])
def test_values_are_right_however_late_a_stream_is(cupy, late):
    """Each stream's work is put off until somebody waits for it: a missing event gives wrong values."""
    x = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8), device="CUPY").realize()
    y = Tensor(np.ones((8, 8), np.float32), device="CUPY:1").realize()
    fake_cupy.LAZY.update(getattr(Device[name], late) for name in ("CUPY", "CUPY:1"))
    a = (x * 2).to("CUPY:1") + y
    b = (a.sum(1).to("CUPY") + x.sum(1)).to("NUMPY") * 2
    assert b.tolist() == [float(2 * (3 * row.sum() + 8)) for row in np.arange(64).reshape(8, 8)]
    z = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("CUPY", "CUPY:1"), 0)
    assert (z @ z + 1).sum().item() == 58.0


@pytest.mark.compiler
@pytest.mark.parametrize("late", ["copies", "kernels"])
def test_a_missing_event_is_found(cupy, late, monkeypatch):
    """The test above would notice: without events, a stream that is late is read too early."""
    x = Tensor(np.ones((8, 8), np.float32), device="CUPY").realize()
    fake_cupy.LAZY.update(getattr(Device[name], late) for name in ("CUPY", "CUPY:1"))
    monkeypatch.setattr(fake_cupy.Stream, "wait_event", lambda self, event: None)
    wrong = ((x * 2).to("CUPY:1") + 1).sum().to("NUMPY")
    assert wrong.item() != 192.0


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


@pytest.mark.compiler
def test_a_schedule_that_runs_again_on_one_gpu_is_prepared_once(cupy, monkeypatch):
    prepared: list[Any] = []
    real = linear_runner.prepare
    monkeypatch.setattr(linear_runner, "prepare", lambda call, *rest: prepared.append(call) or real(call, *rest))
    x = Tensor([1.0, 2.0], device="CUPY").realize()
    y = (x * 2).sum() + x
    p = plan(y, y.to("CUPY:1"))
    for _ in range(2):
        run_linear(p.linear)
    both = len(p.linear.src)
    assert len(prepared) == 2 * both, "streams of two GPUs are put in order for each run"
    p = plan(x * 3 + x.sum())
    for _ in range(4):
        run_linear(p.linear)
    assert len(prepared) == 2 * both + len(p.linear.src)


@pytest.mark.compiler
def test_products_and_the_memory_between_kernels_are_in_a_graph(cupy):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128)).astype(np.float32) for _ in range(2))
    x, w = Tensor(a, device="CUPY").realize(), Tensor(b, device="CUPY").realize()
    y = ((x + 1).relu() @ w).relu()
    p = plan(y)
    for i in range(4):
        buffer_of(x.uop.base).copyin((a * i).reshape(-1))
        run_linear(p.linear)
        np.testing.assert_allclose(y.numpy(), np.maximum(np.maximum(a * i + 1, 0) @ b, 0), rtol=1e-3, atol=1e-3)
    assert len(seen("capture")) == 1 and len(seen("graph")) == 2
    [recorded] = [g for g in launch._graphs.values() if isinstance(g, launch.Recorded)]
    assert [len(s) for s in recorded.scratch] == [2], "what a graph writes in between belongs to it alone"


@pytest.mark.compiler
def test_what_cannot_be_recorded_runs_kernel_by_kernel(cupy, monkeypatch):
    real = fake_cupy.RawKernel.__call__

    def unless_captured(self: Any, *args: Any) -> None:
        if fake_cupy.current().captured is not None:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")
        real(self, *args)

    monkeypatch.setattr(fake_cupy.RawKernel, "__call__", unless_captured)
    x = Tensor([1.0, 2.0], device="CUPY").realize()
    y = x * 2
    p = plan(y)
    for _ in range(5):
        run_linear(p.linear)
        assert y.tolist() == [2.0, 4.0]
    assert len(seen("capture")) == 1 and not seen("graph") and Device["CUPY"].recorder.captured is None


@pytest.mark.compiler
def test_rows_by_number_are_in_a_graph_and_a_number_without_a_row_gives_what_it_does_on_the_host(cupy):
    rng = np.random.default_rng(0)
    weight, rows = rng.standard_normal((50, 8)).astype(np.float32), np.array([1, 7, 3, 50, -1, -60], np.int32)
    want = (Tensor(weight)[Tensor(rows)] * 2).sum(1).numpy()
    w, i = Tensor(weight, device="CUPY").realize(), Tensor(rows, device="CUPY").realize()
    y = (w[i] * 2).sum(1)
    p = plan(y)
    for _ in range(4):
        run_linear(p.linear)
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    assert len(seen("capture")) == 1 and len(seen("graph")) == 2


def three_calls() -> tuple[Any, list[Any]]:
    """A LINEAR ``a = n + 1; b = table[rows]; c = b * 2`` whose rows nobody has checked before, and its memory."""
    from tests.cuda.cases import embedding

    gather = embedding(9, 8, 13, 9).sink
    r, flat = UOp.range(13 * 8, 0), dtypes.float32
    twice, more = (
        UOp.sink(param(0, 13 * 8, flat).index(r).store(value).end(r))
        for value in (load(param(1, 13 * 8, flat).index(r)) * 2, load(param(1, 13 * 8, flat).index(r)) + 1)
    )
    a, b, c, n = (UOp.new_buffer("CUPY", 13 * 8, flat) for _ in range(4))
    table, rows = UOp.new_buffer("CUPY", 72, flat), UOp.new_buffer("CUPY", 13, dtypes.int32)
    calls = (more.call(a, n), gather.call(b, table, rows), twice.call(c, b))
    return UOp(Ops.LINEAR, dtypes.void, calls), [buffer_of(u) for u in (a, b, c, n, table, rows)]


def param(slot: int, size: int, dtype: Any) -> UOp:
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, "CUPY"))


@pytest.mark.compiler
@pytest.mark.parametrize("runs", [0, 4], ids=["one by one", "as graphs"])
def test_nothing_runs_behind_an_index_outside_of_memory(cupy, runs):
    linear, (a, _, c, n, table, rows) = three_calls()
    values = np.arange(72, dtype=np.float32)
    table.copyin(values)
    right, wrong = np.arange(13, dtype=np.int32) % 9, np.full(13, 9, np.int32)
    rows.copyin(right)

    def run(number: float) -> list[int]:
        n.copyin(np.full(13 * 8, number, np.float32))
        ended: list[int] = []
        try:
            execute(linear, after_kernel=lambda position, call, seconds: ended.append(position))
        finally:
            run.ended = ended  # type: ignore[attr-defined]
        return ended

    for i in range(runs):
        assert run(i) == [0, 1, 2]
    assert len(seen("graph")) == (4 if runs else 0), "two graphs each: up to the kernel that checks, and the rest"
    c.copyin(np.full(13 * 8, -1, np.float32))
    rows.copyin(wrong)
    with pytest.raises(RunError, match=r"kernel \w+ met an index outside of its buffer on CUPY"):
        run(40)
    assert run.ended == [0] and a.copyout()[0] == 41 and c.copyout()[0] == -1, "what stood behind it did not run"
    rows.copyin(right)
    assert run(50) == [0, 1, 2], "the flag is put back"
    np.testing.assert_array_equal(c.copyout().reshape(13, 8), 2 * values.reshape(9, 8)[right])


# ---- how many blocks


@pytest.mark.compiler
def test_a_grid_is_as_large_as_the_gpu_can_use(cupy):
    n = 1 << 20
    (Tensor(np.zeros(n, np.float32), device="CUPY") + 1).realize()
    [(_, _, blocks)] = seen("launch")
    assert blocks == fake_cupy.PROCESSORS * (2048 // 256) * launch.WAVES < n // 4 // 256
    SEEN.clear()
    (Tensor(np.zeros(1000, np.float32), device="CUPY") + 1).realize()
    assert seen("launch")[0][2] == 1


# ---- failures


@pytest.mark.compiler
def test_no_compiler_or_no_cublas_is_said(cupy, monkeypatch):
    x = Tensor(np.ones((128, 128), np.float32), device="CUPY").realize()

    def fails(self: Any, name: str) -> Any:
        raise RuntimeError("CuPy failed to load libnvrtc.so.12: OSError: cannot open shared object file\nmore")

    with monkeypatch.context() as m, pytest.raises(RunError) as error:
        m.setattr(fake_cupy.RawModule, "get_function", fails)
        (x + 1).realize()
    assert "does not compile for CUPY: CuPy failed to load libnvrtc.so.12" in error.value.what
    assert "\n" not in error.value.what and "cuda12" in error.value.help

    class Without:
        def __getattr__(self, name: str) -> Any:
            raise ImportError('Failure finding "libcublasLt.so.12": No such file\nmore')

    with monkeypatch.context() as m, pytest.raises(RunError, match="cuBLAS cannot be loaded: Failure finding"):
        m.setitem(sys.modules, "cupy_backends.cuda.libs", Without())
        (x @ x).realize()
    assert (x @ x).numpy()[0, 0] == 128.0 and x.numpy()[0, 0] == 1.0


@pytest.mark.compiler
def test_no_memory_between_kernels(cupy, monkeypatch):
    x = Tensor(np.ones((128, 128), np.float32), device="CUPY").realize()
    y = (x + 1).relu() @ x
    p = plan(y)
    for call in p.linear.src:
        [buffer_of(u).allocate() for u in call.src[1:]]

    def full(size: int, dtype: Any) -> Array:
        raise MemoryError("Out of memory allocating 65,536 bytes")

    with monkeypatch.context() as m, pytest.raises(RunError, match="no memory for the scratch of kernel"):
        m.setattr(cupy, "empty", full)
        run_linear(p.linear)
    run_linear(p.linear)
    assert y.numpy()[0, 0] == 256.0


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

    def broken(*args: Any) -> None:
        raise RuntimeError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch")

    monkeypatch.setattr(fake_cupy.RawKernel, "__call__", broken)

    with pytest.raises(RunError, match=r"kernel \w+ failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES") as error:
        (x + 1).realize()
    assert re.search(r"p1: 1 float32, for ADD of shape \(1,\), made at test_cupy.py:\d+: \(x \+ 1\)", error.value.where)
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
        launch.compile_on_default(case.sink)(arrays, {})


# ---- the command for a machine with a GPU


@pytest.mark.compiler
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(["gelu", "sum of rows", "matmul, half"], id="some"),
        pytest.param(gpu.CASES, id="all", marks=pytest.mark.slow),
    ],
)
def test_the_benchmark_s_rows_on_a_machine_that_is_no_gpu(cupy, monkeypatch, cases):
    """Each of its jobs, small, on the stand-in: what it asks of CuPy is there, and values are compared."""
    monkeypatch.setattr(gpu, "CASES", {name: gpu.CASES[name] for name in cases})
    monkeypatch.setattr(gpu, "largest", lambda: 128)
    monkeypatch.setattr(gpu, "SIZES", (67,))
    monkeypatch.setattr(gpu, "REPEATS", 2)
    jobs = gpu.jobs(["embedding"])
    done = list(here(jobs, list(jobs.by_name)))
    assert [(d.name, d.error, d.trace) for d in done if d.error] == []
    assert [d.name for d in done if not d.result.is_right] == []
    assert len(done) == 4 + 3 + 2 * len(cases) + 1 and len(seen("graph")) > 3 * len(cases)


@pytest.mark.compiler
def test_the_benchmark_says_what_is_wrong(cupy, monkeypatch, capsys, tmp_path):
    cupy.RawModule = Nothing
    monkeypatch.setattr(gpu, "largest", lambda: 64)
    monkeypatch.setattr(gpu, "TIMED", {"gelu": gpu.TIMED["gelu"]})
    monkeypatch.setattr(gpu, "CASES", {name: gpu.CASES[name] for name in ("gelu", "matmul")})
    monkeypatch.setattr(gpu, "SIZES", (64,))
    assert gpu.main(["softmax"], tmp_path / "rows.json", apart=False) == 1
    said = capsys.readouterr().out
    assert re.search(r"values: gelu, 64 +\S+  WRONG", said) and re.search(r"values: softmax +\S+  WRONG", said)
    assert "CuPy: 0.0500 ms" in said and "cuBLAS: 0.0500 ms" in said and "kernel by kernel" in said
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [r["job"] for r in rows][:2] == ["device", "copies"] and "the CPU" in rows[0]["said"]
    assert [r["job"] for r in rows if "error" in r] == ["refusals"] and "assert" in rows[3]["trace"]
    assert f"{len(rows)} rows, 1 failed, 4 wrong" in said


class Nothing:
    """A module whose kernels do nothing."""

    kernel = types.SimpleNamespace(ptr=1)

    def __init__(self, **_: Any):
        pass

    def get_function(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any) -> None:
        pass


def bad_jobs() -> Jobs:
    found = {"right": lambda: 1, "fails": lambda: 1 / 0, "dies": lambda: os._exit(3), "hangs": lambda: time.sleep(60)}
    return Jobs(found | {"last": lambda: 2}, lambda: False)


def test_a_job_that_fails_dies_or_hangs_costs_its_own_row_only():
    names = list(bad_jobs().by_name)
    done = list(supervised(bad_jobs, names, seconds=60, most=4))
    assert [d.name for d in done] == names and [d.result for d in done] == [1, None, None, None, 2]
    errors = [d.error for d in done]
    assert errors[1:4] == [
        "ZeroDivisionError: division by zero", "its process ended with status 3", "no answer within 4 s",
    ]  # fmt: skip
    assert "1 / 0" in done[1].trace
    assert [d.error for d in supervised(bad_jobs, names, seconds=0, most=4)] == [NO_TIME] * 5


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
