"""What a GPU gives: whether values are right, and how close kernels come to what the GPU can do.

In: a machine with a GPU and CuPy; NumPy is all that is needed besides. Out: a row for each job as it comes, the table of
times, and the rows as JSON. Each job stands alone: an error is a row, and one that takes its process along, or hangs, costs
that row only (:mod:`benchmarks.supervise`). Bandwidth is the bytes that a kernel has to read and write over its time on the
GPU, beside that of a plain copy measured here; products stand beside cuBLAS, elementwise kernels beside CuPy's own.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.libs import Ours
from benchmarks.supervise import Done, Jobs, here, supervised
from benchmarks.workloads import Kit, ew_chain, gelu, layernorm, small, softmax
from tinysched import Context, Tensor, dtypes, plan, run_linear
from tinysched.errors import DeviceError, RunError
from tinysched.ir.ops import Ops
from tinysched.runtime import cupy, launch
from tinysched.runtime.cost import cost_of
from tinysched.runtime.device import Device, buffer_of

SECONDS: Final = 285.0
"""For all jobs together."""
SECONDS_OF_ONE: Final = 75.0
"""For one, the start of its process included."""
REPEATS: Final = 20
TOLERANCE: Final = {2: 1e-2, 4: 1e-3, 8: 1e-6}
"""The largest difference between NumPy's values and a GPU's, over the largest value, by the bytes of an element."""
SIZES: Final = (1024, 1031)
"""Of values: one that all vectors and tiles divide, and one that none does."""
GOAL_BANDWIDTH, GOAL_PRODUCT = 0.8, 1.05


@dataclass(frozen=True)
class Row:
    """What one job has found."""

    name: str
    difference: float | None = None
    is_right: bool = True
    milliseconds: float = 0.0
    moved: int = 0
    """Bytes that have to be read and written."""
    ops: int = 0
    """Multiplications and additions of a product."""
    beside: str = ""
    milliseconds_beside: float = 0.0
    said: str = ""

    def text(self) -> str:
        if self.milliseconds:
            return f"{self.milliseconds:10.4f} ms"
        far = "" if self.difference is None else f"{self.difference:10.1e}"
        return f"{far}{'' if self.is_right else '  WRONG'}{self.said}"


def memory() -> cupy.CupyMemory:
    found = Device["CUPY"]
    assert isinstance(found, cupy.CupyMemory)
    return found


# ** is everything there? **


def device() -> Row:
    """The GPU, its compiler and its bandwidth to the host are there."""
    lib = cupy.library()
    properties = lib.cuda.runtime.getDeviceProperties(0)
    free, total = (x >> 20 for x in lib.cuda.runtime.memGetInfo())
    versions = f"driver {lib.cuda.runtime.driverGetVersion()}, runtime {lib.cuda.runtime.runtimeGetVersion()}"
    name = properties["name"].decode()
    return Row("device", said=f"{name}, {memory().processors} processors, {free}/{total} MiB, {versions}")


def copies() -> Row:
    """Values of every type come back as they were sent."""
    for dtype in (*dtypes.ints, dtypes.bool, dtypes.float16, dtypes.float32, dtypes.float64):
        want = np.arange(1031).astype(dtype.np)
        got = Tensor(want, device="CUPY").realize().numpy()
        assert np.array_equal(got, want), dtype.name
    return Row("copies", said="all types")


def refusals() -> Row:
    """Too much memory is one sentence, and the device goes on."""
    try:
        Tensor.empty(1 << 44, device="CUPY").realize()
    except RunError as e:
        assert (Tensor([1.0], device="CUPY") + 1).tolist() == [2.0]
        return Row("refusals", said=e.what)
    return Row("refusals", is_right=False, said="  16 TB of memory were had")


def graphs() -> Row:
    """A schedule that runs again is one CUDA graph, with products and the memory between kernels, and its values are right."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((256, 256)).astype(np.float32) for _ in range(2))
    x, w = Tensor(a, device="CUPY").realize(), Tensor(b, device="CUPY").realize()
    y = ((x + 1).relu() @ w).relu().sum(1)
    p, worst = plan(y), 0.0
    for i in range(launch.RUNS_BEFORE_GRAPH + 3):
        buffer_of(x.uop.base).copyin((a * i).reshape(-1))
        run_linear(p.linear)
        worst = max(worst, far_from(y.numpy(), np.maximum(np.maximum(a * i + 1, 0) @ b, 0).sum(1)))
    recorded = sum(isinstance(g, launch.Recorded) for g in launch._graphs.values())
    said = "" if recorded else "  CUDA recorded no graph"
    return Row("graphs", worst, worst <= TOLERANCE[4] and recorded > 0, said=said)


# ** values **


def far_from(got: Any, want: Any) -> float:
    """How far values are from others, over the largest of these; infinite where NaN or infinities differ."""
    if got.shape != want.shape or not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return float("inf")
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=1e-6))
    return float(np.abs(got[finite].astype(float) - want[finite].astype(float)).max(initial=0.0)) / scale


def compared(name: str, make: Callable[[], Sequence[Tensor]]) -> Row:
    """The values of some Tensors on the GPU against NumPy's."""
    lib = Ours()
    want = lib.values(make())
    with Context(DEVICE="CUPY"):
        got = lib.values(make())
    worst, right = 0.0, True
    for a, b in zip(got, want, strict=True):
        far = far_from(a, b)
        worst, right = max(worst, far), right and far <= TOLERANCE.get(b.itemsize, 0)
    return Row(name, worst, right)


def workload(name: str) -> Row:
    return compared(name, lambda: small(name, Ours()))


# ** what is timed, and its values at two sizes **


class Tiled(Kit):
    """Inputs that repeat a block of random numbers: large ones are made in no time."""

    def __init__(self, lib: Any) -> None:
        super().__init__(lib, 0)
        self.block = np.random.default_rng(0).standard_normal((1 << 20) + 1).astype(np.float32) * np.float32(0.5)

    def E(self, *shape: int) -> Any:
        return self.lib.load(np.resize(self.block, shape))


def half(k: Kit, *shape: int) -> Any:
    return k.E(*shape).half().realize()


def attention(k: Kit, n: int) -> list[Tensor]:
    q, key, v = k.E(4, 32, n // 8, 64), k.E(4, 8, n // 8, 64), k.E(4, 8, n // 8, 64)
    return [q.scaled_dot_product_attention(key, v, enable_gqa=True)]


TIMED: Final[dict[str, Callable[[Kit, int], Sequence[Any]]]] = {
    "chain of 16": lambda k, n: ew_chain(k, 16, (n, n)),
    "gelu": lambda k, n: gelu(k, (n, n)),
    "transpose": lambda k, n: [k.E(n, n).transpose() + 0.0],
    "softmax": lambda k, n: softmax(k, (n, n)),
    "layernorm": lambda k, n: layernorm(k, n, n // 4),
    "sum of rows": lambda k, n: [k.E(n, n).sum(1)],
    "sum of columns": lambda k, n: [k.E(n, n).sum(0)],
    "sum of all": lambda k, n: [k.E(n, n).sum()],
    "rows by number": lambda k, n: [k.E(n, 256)[k.EI(n * 4, hi=n)]],
    "half: x*y + x": lambda k, n: [half(k, n, n) * half(k, n, n) + 1],
}
"""What is limited by bandwidth."""
PRODUCTS: Final[dict[str, Callable[[Kit, int], Sequence[Any]]]] = {
    "matmul": lambda k, n: [k.E(n, n) @ k.E(n, n)],
    "relu(matmul + b)": lambda k, n: [(k.E(n, n) @ k.E(n, n) + k.E(n)).relu()],
    "matmul, turned": lambda k, n: [k.E(n, n).transpose() @ k.E(n, n)],
    "matmul, half": lambda k, n: [half(k, n, n) @ half(k, n, n)],
}
OTHERS: Final[dict[str, Callable[[Kit, int], Sequence[Any]]]] = {
    "attention, grouped": attention,
    "conv 3x3": lambda k, n: [k.E(8, 32, n // 16, n // 16).conv2d(k.E(64, 32, 3, 3), padding=1).relu()],
}
CASES: Final = TIMED | PRODUCTS | OTHERS


def case(name: str, n: int) -> Row:
    return compared(f"{name}, {n}", lambda: CASES[name](Tiled(Ours()), n))


# ** times **


def milliseconds(run: Callable[[], object]) -> float:
    """The time on the GPU of one of several runs: as a CUDA graph, so that the host is not what is measured."""
    gpu, lib = memory(), cupy.library()
    with gpu.on():
        run()
        gpu.synchronize()
    graph = recorded(run)
    found = []
    with gpu.on():
        for _ in range(3):
            start = gpu.kernels.record()
            if graph is not None:
                graph.launch(gpu.kernels)
            else:
                for _ in range(REPEATS):
                    run()
            stop = gpu.kernels.record()
            gpu.synchronize()
            found.append(float(lib.cuda.get_elapsed_time(start, stop)) / REPEATS)
    return min(found)


def recorded(run: Callable[[], object]) -> Any:
    """Several runs as one graph, or None where CUDA does not record them."""
    gpu = memory()
    try:
        with gpu.recording, gpu.on(gpu.recorder), launch.captured(gpu.recorder) as graphs:
            for _ in range(REPEATS):
                run()
    except Exception:
        return None
    return graphs[0]


def waited(run: Callable[[], object]) -> float:
    """The milliseconds that somebody waits for one of several runs."""
    gpu = memory()
    with gpu.on():
        run()
        gpu.synchronize()
        start = time.perf_counter()
        for _ in range(REPEATS):
            run()
        gpu.synchronize()
    return (time.perf_counter() - start) / REPEATS * 1e3


def started(tensors: Sequence[Any]) -> tuple[Callable[[], None], int]:
    """What starts all kernels of some Tensors one behind the other, and the bytes that these have to move."""
    p, gpu = plan(*tensors), memory()
    run_linear(p)
    work = []
    for call in (c for c in p.linear.src if c.src[0].op is Ops.SINK):
        arrays = [buffer_of(u).array for u in call.src[1:]]
        program = launch.program_for(call.src[0], arrays)
        work.append((program, arrays, launch.scratch_of(gpu, program), cost_of(call.src[0])))

    def run() -> None:
        for program, arrays, scratch, _ in work:
            launch.start(gpu, program, arrays, {}, scratch, checks=False)

    return run, sum(cost.bytes_read + cost.bytes_written for *_, cost in work)


def largest() -> int:
    """The side of the matrices that fit in memory several times, and not in any cache."""
    free = int(cupy.library().cuda.runtime.memGetInfo()[0])
    return next(n for n in (16384, 8192, 4096, 64) if free > 24 * 4 * n * n or n == 64)


def copy() -> Row:
    lib, n = cupy.library(), largest()
    with memory().on():
        a, b = lib.empty(n * n, np.float32), lib.zeros(n * n, np.float32)
    return Row("copy", milliseconds=milliseconds(lambda: lib.copyto(a, b)), moved=2 * a.nbytes)


def timed(name: str) -> Row:
    n = largest() if name in TIMED else largest() // 2
    with Context(DEVICE="CUPY"):
        run, moved = started(CASES[name](Tiled(Ours()), n))
    row = Row(name, milliseconds=milliseconds(run), moved=moved)
    if name in PRODUCTS:
        return beside_cublas(row, n, np.float16 if "half" in name else np.float32)
    return beside_cupy(row, n, FUSED[name]) if name in FUSED else row


FUSED: Final = {
    "chain of 16": "r = x;" + "r = r * y + z;" * 8,
    "gelu": "r = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)))",
}


def beside_cupy(row: Row, n: int, code: str) -> Row:
    """A row with CuPy's own kernel of the same operations beside it."""
    lib = cupy.library()
    names = [x for x in "xyz" if x in code.replace("tanh", "")]
    kernel = lib.ElementwiseKernel(", ".join(f"float32 {x}" for x in names), "float32 r", code, "beside")
    with memory().on():
        given = [lib.zeros(n * n, np.float32) for _ in names]
        out = lib.empty(n * n, np.float32)
    ms = milliseconds(lambda: kernel(*given, out))
    return Row(row.name, milliseconds=row.milliseconds, moved=row.moved, beside="CuPy", milliseconds_beside=ms)


def beside_cublas(row: Row, n: int, dtype: Any) -> Row:
    """A row with cuBLAS itself beside it, through CuPy, on the same numbers."""
    lib, block = cupy.library(), Tiled(Ours()).block.astype(dtype)
    with memory().on():
        a, b, out = (lib.empty(n * n, dtype).reshape(n, n) for _ in range(3))
        for x in (a, b):
            x.set(np.resize(block, (n, n)))
    ms = milliseconds(lambda: lib.matmul(a, b, out=out))
    return Row(row.name, None, True, row.milliseconds, row.moved, 2 * n**3, "cuBLAS", ms)


def launches() -> Row:
    """How long the host takes to start a kernel that has nothing to do."""
    with Context(DEVICE="CUPY"):
        run, moved = started([Tensor.empty(1).realize() + 1])
    return Row("start of a kernel", milliseconds=waited(run), moved=moved)


def again() -> Row:
    """What the user waits for when a schedule runs again on the same memory: one CUDA graph, beside kernel by kernel."""
    with Context(DEVICE="CUPY"):
        tensors = small("mlp_fwd", Ours())
        run, moved = started(tensors)
        p = plan(*small("mlp_fwd", Ours()))
    for _ in range(launch.RUNS_BEFORE_GRAPH + 1):
        run_linear(p.linear)
    one = waited(lambda: run_linear(p.linear))
    return Row("mlp forward, again", None, True, one, moved, 0, "kernel by kernel", waited(run))


# ** all of it **


def jobs(workloads: Sequence[str]) -> Jobs:
    """What there is to do, the most telling first."""
    found: dict[str, Callable[[], Row]] = {"device": device, "copies": copies, "graphs": graphs, "refusals": refusals}
    found |= {f"values: {name}, {n}": partial(case, name, n) for name in CASES for n in SIZES}
    found |= {"time: copy": copy, "time: start of a kernel": launches, "time: mlp forward, again": again}
    found |= {f"time: {name}": partial(timed, name) for name in CASES}
    found |= {f"values: {name}": partial(workload, name) for name in workloads}
    return Jobs({name: partial(_and_free, job) for name, job in found.items()}, usable)


def _and_free(job: Callable[[], Row]) -> Row:
    """Gives the memory of a job back: the next one may need all of it."""
    try:
        return job()
    finally:
        launch.clear_caches()  # graphs hold memory
        gc.collect()
        cupy.library().get_default_memory_pool().free_all_blocks()


def usable() -> bool:
    """Whether the GPU still answers in this process."""
    try:
        (Tensor([1.0], device="CUPY") + 1).numpy()
    except Exception:
        return False
    return True


def table(rows: Sequence[Row]) -> str:
    """The times as text; bandwidth over that of the copy."""
    most = next((r.moved / r.milliseconds for r in rows if r.name == "copy"), 0.0)
    lines = [f"{'time':24} {'ms':>9} {'GB/s':>7} {'of copy':>8} {'TFLOP/s':>8}   beside it"]
    for r in rows:
        rate, flops = r.moved / r.milliseconds, f"{r.ops / r.milliseconds / 1e9:8.1f}" if r.ops else " " * 8
        share = f"{rate / most:8.0%}" if most else " " * 8
        below = most and r.name in TIMED and rate < GOAL_BANDWIDTH * most
        slower = r.milliseconds_beside and r.milliseconds > GOAL_PRODUCT * r.milliseconds_beside
        beside = f"   {r.beside}: {r.milliseconds_beside:.4f} ms" if r.beside else ""
        missed = "   GOAL MISSED" if below or (slower and r.name in FUSED | PRODUCTS) else ""
        lines.append(f"{r.name:24} {r.milliseconds:9.4f} {rate / 1e6:7.0f} {share} {flops}{beside}{missed}")
    return "\n".join(lines)


def main(names: Sequence[str], out: Path | None = None, *, apart: bool = True) -> int:
    """Prints everything; the exit status is 1 where there is no GPU, or something is wrong.

    ``out``: a file for the rows as JSON, which is whole after each row. ``apart=False``: all in this process.
    """
    try:
        lib = cupy.library()
    except DeviceError as e:
        print(e)
        return 1
    began = time.perf_counter()
    print(
        f"{time.strftime('%Y-%m-%d')}, CuPy {lib.__version__}, NumPy {np.__version__}, Python {sys.version.split()[0]}"
    )
    make = partial(jobs, tuple(names))
    todo = list(make().by_name)
    done: list[Done] = []
    for one in supervised(make, todo, SECONDS, SECONDS_OF_ONE) if apart else here(make(), todo):
        done.append(one)
        print(f"{one.name:34} {one.error or one.result.text()}", flush=True)
        if out is not None:
            out.write_text(json.dumps([_plain(d) for d in done], indent=1))
    rows: list[Row] = [d.result for d in done if d.result is not None]
    failed, wrong = sum(bool(d.error) for d in done), sum(not r.is_right for r in rows)
    print("", table([r for r in rows if r.milliseconds]), sep="\n")
    print(f"\n{len(done)} rows, {failed} failed, {wrong} wrong; {time.perf_counter() - began:.0f} s")
    return int(failed + wrong > 0)


def _plain(done: Done) -> dict[str, Any]:
    failed = {"error": done.error, "trace": done.trace}
    return {"job": done.name} | (failed if done.error else asdict(done.result))
