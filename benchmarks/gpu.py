"""What a GPU gives: the values of all workloads against NumPy's, and how close kernels come to what the GPU can do.

In: a machine with a GPU and CuPy; nothing else is needed. Out: one table. Bandwidth is the bytes that a kernel has to
read and write over its time on the GPU, beside that of a plain copy measured here; products stand beside cuBLAS, the
elementwise chain beside CuPy's own fused kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.libs import Ours
from benchmarks.workloads import Kit, ew_chain, gelu, layernorm, small, softmax
from tinysched import Context, Tensor, plan, run_linear
from tinysched.errors import DeviceError, TinyschedError
from tinysched.ir.ops import Ops
from tinysched.runtime import cupy, launch
from tinysched.runtime.cost import cost_of
from tinysched.runtime.device import Device, buffer_of

REPEATS: Final = 20
TOLERANCE: Final = 1e-3
"""The largest difference between NumPy's values and a GPU's, over the largest value."""


class Row(NamedTuple):
    name: str
    milliseconds: float
    moved: int
    """Bytes that have to be read and written."""
    beside: str = ""
    milliseconds_beside: float = 0.0


# ** values **


def difference(name: str) -> float:
    """How far a workload's values on the GPU are from NumPy's, over the largest of them."""
    lib = Ours()
    want = lib.values(small(name, lib))
    with Context(DEVICE="CUPY"):
        got = lib.values(small(name, lib))
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        finite = np.isfinite(b)
        scale = float(np.abs(b[finite]).max(initial=1e-6))
        worst = max(worst, float(np.abs(a[finite].astype(float) - b[finite].astype(float)).max(initial=0.0)) / scale)
    return worst


def values(names: Sequence[str]) -> int:
    """Prints a line per workload; how many are wrong."""
    print(f"{'values':24} {'difference':>10}")
    wrong = 0
    for name in names:
        try:
            far = difference(name)
            said = f"{far:10.1e}{'' if far <= TOLERANCE else '  WRONG'}"
            wrong += far > TOLERANCE
        except TinyschedError as e:
            wrong, said = wrong + 1, f"failed: {e.what}"
        print(f"{name:24} {said}", flush=True)
    return wrong


# ** times **


def milliseconds(run: Callable[[], object]) -> float:
    """The time on the GPU's stream of one of several runs, after one to compile."""
    lib, memory = cupy.library(), Device["CUPY"]
    assert isinstance(memory, cupy.CupyMemory)
    with memory.on():
        run()
        memory.synchronize()
        start, stop = memory.kernels.record(), None
        for _ in range(REPEATS):
            run()
        stop = memory.kernels.record()
        memory.synchronize()
        return float(lib.cuda.get_elapsed_time(start, stop)) / REPEATS


def kernels(name: str, *tensors: Tensor) -> Row:
    """All kernels that make some Tensors, started one behind the other."""
    p = plan(*tensors)
    run_linear(p)
    calls = [c for c in p.linear.src if c.src[0].op is Ops.SINK]
    arrays = [[buffer_of(u).array for u in c.src[1:]] for c in calls]
    costs = [cost_of(c.src[0]) for c in calls]
    memory: Any = Device["CUPY"]

    def run() -> None:
        for call, given in zip(calls, arrays, strict=True):
            launch.start(memory, launch.program_for(call.src[0], given), given, {})

    return Row(name, milliseconds(run), sum(c.bytes_read + c.bytes_written for c in costs))


def times(scale: int = 1) -> list[Row]:
    """The measured rows: a copy first, which the others' bandwidth is compared with."""
    lib, memory = cupy.library(), Device["CUPY"]
    n = 4096 // scale
    with memory.on():  # type: ignore[attr-defined]
        a, b = lib.empty(n * n, np.float32), lib.empty(n * n, np.float32)
    rows = [Row("copy", milliseconds(lambda: lib.copyto(a, b)), 2 * a.nbytes)]
    with Context(DEVICE="CUPY"):
        kit = Kit(Ours(), 0)
        x, y = kit.E(n, n), kit.E(n, n)
        fused = lib.ElementwiseKernel("float32 x, float32 y, float32 z", "float32 r", _chain(16), "chain")
        given = [buffer_of(t.uop.base).array for t in (x, y, x)]
        rows.append(kernels("chain of 16", *ew_chain(kit, 16, (n, n))))
        rows[-1] = rows[-1]._replace(beside="CuPy, fused", milliseconds_beside=milliseconds(lambda: fused(*given)))
        rows += [
            kernels("gelu", *gelu(kit, (n, n))),
            kernels("transpose", x.transpose() + 0.0),
            kernels("softmax", *softmax(kit, (n, n))),
            kernels("layernorm", *layernorm(kit, n, n // 4)),
            kernels("sum of rows", x.sum(1)),
            kernels("sum of columns", x.sum(0)),
            kernels("sum of all", x.sum()),
            kernels("half: x*y + x", (x.half().realize() * y.half().realize() + 1)),
            product(kernels("matmul", x @ y), n, x, y),
            product(kernels("relu(matmul + b)", (x @ y + kit.E(n)).relu()), n, x, y),
        ]
        x, y = x.half().realize(), y.half().realize()
        rows.append(product(kernels("matmul, half", x @ y), n, x, y))
        q, k, v = kit.E(4, 32, n // 8, 64), kit.E(4, 8, n // 8, 64), kit.E(4, 8, n // 8, 64)
        rows.append(kernels("attention, grouped", q.scaled_dot_product_attention(k, v, enable_gqa=True)))
        rows.append(again("mlp forward, again", *small("mlp_fwd", Ours())))
    return rows


def again(name: str, *tensors: Tensor) -> Row:
    """What the user waits for when a schedule runs again on the same memory: one CUDA graph, beside kernel by kernel."""
    row, p = kernels(name, *tensors), plan(*tensors)
    for _ in range(launch.RUNS_BEFORE_GRAPH + 1):
        run_linear(p.linear)
    one = milliseconds(lambda: run_linear(p.linear))
    return Row(name, one, row.moved, "kernel by kernel", row.milliseconds)


def _chain(n: int) -> str:
    return "r = x;" + "r = r * y + z;" * (n // 2)


def product(row: Row, n: int, x: Tensor, y: Tensor) -> Row:
    """A row with cuBLAS itself beside it."""
    lib = cupy.library()
    a, b = (buffer_of(t.uop.base).array.reshape(n, n) for t in (x, y))
    out = lib.empty(n * n, a.dtype).reshape(n, n)
    return row._replace(beside="cuBLAS alone", milliseconds_beside=milliseconds(lambda: lib.matmul(a, b, out=out)))


def table(rows: Sequence[Row]) -> str:
    """The rows as text; bandwidth over that of the copy, which is the first."""
    most = rows[0].moved / rows[0].milliseconds
    lines = [f"{'time':24} {'ms':>9} {'GB/s':>8} {'of copy':>8}   beside it"]
    for r in rows:
        rate = r.moved / r.milliseconds
        beside = f"   {r.beside}: {r.milliseconds_beside:.3f} ms" if r.beside else ""
        lines.append(f"{r.name:24} {r.milliseconds:9.3f} {rate / 1e6:8.0f} {rate / most:8.0%}{beside}")
    return "\n".join(lines)


def main(names: Sequence[str], scale: int = 1) -> int:
    """Prints everything; the exit status is 1 where there is no GPU or a value is wrong."""
    try:
        lib = cupy.library()
    except DeviceError as e:
        print(e)
        return 1
    began = time.perf_counter()
    properties = lib.cuda.runtime.getDeviceProperties(0)
    print(f"{time.strftime('%Y-%m-%d')}, {properties['name'].decode()}, CuPy {lib.__version__}\n")
    wrong = values(names)
    print()
    print(table(times(scale)))
    print(f"\n{len(names)} workloads, {wrong} wrong; {time.perf_counter() - began:.0f} s")
    return int(wrong > 0)
