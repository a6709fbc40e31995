"""Kernels and copies on GPUs: compiled, started, multiplied by cuBLAS, and written down as CUDA graphs.

In: SINKs, and arrays in the memory of a GPU. Out: work on its streams. What :mod:`cuda` and :mod:`products` say is handed
to CuPy here; CuPy keeps compiled kernels on disk.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.ops import Ops
>>> from tinysched.ir.uop import ParamArg
>>> r0 = UOp.range(3, 0)
>>> out = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 3, "CUPY"))
>>> print(program_text(UOp.sink(out.index(r0).store(UOp.const(1.0, dtypes.float32)).end(r0))))
extern "C" __global__ void __launch_bounds__(256, 4) k_kernel(float* p0) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < 3; i += gridDim.x * 256) {
        int r0 = i;
        p0[r0] = 1.0f;
    }
}
<BLANKLINE>
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.dtypes import dtypes
from tinysched.errors import RunError
from tinysched.ir.uop import UOp
from tinysched.runtime import cuda
from tinysched.runtime.cupy import OTHERWISE, CupyMemory, Order, first_line, library, number_of
from tinysched.runtime.device import Buffer, Device
from tinysched.runtime.pieces import Limits
from tinysched.runtime.products import Product, Side, gemms

NO_VECTORS: Final = Limits(vector=0)

# ** copies **


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
_compiled: dict[tuple[str, str, int], Compiled] = {}
_compiling = threading.RLock()


class Compiled(NamedTuple):
    """A kernel that a GPU can start, and with how many blocks at most."""

    function: Any
    blocks: int


def clear_caches() -> None:
    """Forgets all compiled programs."""
    cuda.program.cache_clear()
    _compiled.clear()
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


def start(
    memory: CupyMemory,
    program: cuda.Program,
    arrays: Sequence[Any],
    values: Mapping[str, int],
    scratch: Sequence[Any] | None = None,
    *,
    checks: bool = True,
) -> None:
    """Puts the steps of a program on the current stream; ``scratch`` is the memory between them, if it is there already.

    ``checks=False``: somebody else looks at the flag that an index outside of memory sets.
    """
    slots = dict(enumerate(arrays))
    slots |= {s.slot: x for s, x in zip(program.scratch, scratch or scratch_of(memory, program), strict=True)}
    for step in program.steps:
        if isinstance(step, Product):
            _multiply(slots, step)
            continue
        number = np.int64 if step.wide else np.int32
        args = [*(slots[s] for s in step.slots), *(number(values[v]) for v in step.variables)]
        function, most = compiled(program.source, step, memory)
        blocks = min(step.blocks, most)
        function((blocks,), (step.threads,), (*args, *([memory.fault] if step.checks else [])))
        if step.checks and checks:
            memory.check_indices(step.name)


def scratch_of(memory: CupyMemory, program: cuda.Program) -> list[Any]:
    return [memory.new_array(s.size, s.dtype) for s in program.scratch]


WAVES: Final = 4
"""A grid is at most so many times what a GPU runs at once; then blocks take more places, and start-up costs less."""


def compiled(source: str, step: cuda.Launch, memory: CupyMemory) -> Compiled:
    """A kernel of a program for a GPU. Raises :class:`RunError` with one sentence where there is no compiler for it."""
    key = (source, step.name, memory.number)
    with _compiling:
        if key not in _compiled:
            try:
                function = module(source, memory.number).get_function(step.name)
                resident = library().cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                    function.kernel.ptr, step.threads, 0
                )
            except Exception as e:
                raise RunError(
                    f"kernel {step.name} does not compile for {memory.name}: {first_line(e)}", help=_LIBRARIES
                ) from e
            _compiled[key] = Compiled(function, max(1, int(resident)) * memory.processors * WAVES)
        return _compiled[key]


_LIBRARIES: Final = (
    f'NVRTC and cuBLAS of CuPy\'s CUDA version are needed: pip install "tinysched[cuda12]" (or cuda13); {OTHERWISE}'
)


def module(source: str, number: int) -> Any:
    """A program as CuPy's module; CuPy keeps what it compiles on disk."""
    if (source, number) not in _modules:
        _modules[source, number] = library().RawModule(code=source, options=("-std=c++17",), backend="nvrtc")
    return _modules[source, number]


# ** products **

_ONE: Final = {kind: np.ones(1, kind) for kind in (np.float32, np.float64)}
_ZERO: Final = {kind: np.zeros(1, kind) for kind in (np.float32, np.float64)}


@lru_cache(maxsize=1)
def blas() -> Any:
    """cuBLAS as CuPy loads it."""
    try:
        return import_module("cupy_backends.cuda.libs").cublas
    except AttributeError:  # before CuPy 14 it was not loaded on demand
        return import_module("cupy_backends.cuda.libs.cublas")
    except ImportError as e:
        raise RunError(f"cuBLAS cannot be loaded: {first_line(e)}", help=_LIBRARIES) from e


def _multiply(slots: Mapping[int, Any], step: Product) -> None:
    cublas, lib = blas(), library()
    wide = step.out.dtype is dtypes.float64
    computed, scalar = (cublas.CUBLAS_COMPUTE_64F, np.float64) if wide else (cublas.CUBLAS_COMPUTE_32F, np.float32)
    one, zero = _ONE[scalar].ctypes.data, _ZERO[scalar].ctypes.data
    handle = lib.cuda.device.get_cublas_handle()
    for g in gemms(step.left, step.right, step.out):
        (a, b), c = (_side(slots, lib, x) for x in (g.a, g.b)), _side(slots, lib, g.c)
        cublas.gemmStridedBatchedEx(
            handle, int(g.a.turned), int(g.b.turned), g.m, g.n, g.k, one, *a, *b, zero, *c, g.times, computed,
            cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip


def _side(slots: Mapping[int, Any], lib: Any, x: Side) -> tuple[int, int, int, int]:
    """Address, type, and distances of rows and of matrices."""
    array = slots[x.slot]
    kind = getattr(lib.cuda.runtime, _KINDS[x.dtype])
    return int(array.data.ptr) + x.offset * array.itemsize, kind, x.lead, x.step


_KINDS: Final = {
    dtypes.float16: "CUDA_R_16F", dtypes.bfloat16: "CUDA_R_16BF", dtypes.float32: "CUDA_R_32F",
    dtypes.float64: "CUDA_R_64F",
}  # fmt: skip


# ** the same once more: graphs **

MOST_GRAPHS: Final = 64
RUNS_BEFORE_GRAPH: Final = 2
_graphs: dict[Any, int | Recorded | None] = {}
"""By LINEAR, memory and values: how often it ran, then its CUDA graphs, or None if CUDA would not record them."""
Job = Callable[[], None]


class Part(NamedTuple):
    """Calls that are started at once. It ends behind a kernel whose indices are ``checked``: nothing runs after a wrong one."""

    graph: Any
    calls: int
    checked: str = ""
    """The name of that kernel, or nothing."""


class Recorded(NamedTuple):
    """The graphs of a LINEAR, and the memory between its kernels, which nobody else may get."""

    parts: list[Part]
    scratch: list[list[Any]]


def as_graphs(
    linear: UOp, memory: CupyMemory, arrays: Sequence[Sequence[Any]], values: Mapping[str, int]
) -> list[Job] | None:
    """What is left to do for each CALL of a LINEAR that ran before on the same memory: its CUDA graphs are recorded.

    Most have nothing to do: the first of a part starts the graph, its last looks at the flag. None if it is not to be run so.
    """
    places = tuple(a.data.ptr for call in arrays for a in call)
    key = (weakref.ref(linear), memory.name, places, tuple(sorted(values.items())))
    known = _graphs.pop(key, 0)
    if isinstance(known, int):
        known = known + 1 if known < RUNS_BEFORE_GRAPH else _record(linear, memory, arrays, values)
    _graphs[key] = known
    while len(_graphs) > MOST_GRAPHS:
        _graphs.pop(next(iter(_graphs)))
    if not isinstance(known, Recorded):
        return None
    jobs: list[Job] = []
    for part in known.parts:
        own: list[list[Job]] = [[] for _ in range(part.calls)]
        own[0].append(partial(_launch, memory, part.graph))
        if part.checked:
            own[-1].append(partial(memory.check_indices, part.checked))
        jobs += [partial(_all, todo) for todo in own]
    return jobs


def _launch(memory: CupyMemory, graph: Any) -> None:
    with memory.on():
        graph.launch(memory.kernels)


def _all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job()


def _record(
    linear: UOp, memory: CupyMemory, arrays: Sequence[Sequence[Any]], values: Mapping[str, int]
) -> Recorded | None:
    """The CUDA graphs of a LINEAR, whose kernels are written down and not started; None where that fails.

    On a stream of its own, so that what another thread starts meanwhile is not written down as well.
    """
    programs = [program_for(call.src[0], given) for call, given in zip(linear.src, arrays, strict=True)]
    try:
        scratch = [scratch_of(memory, p) for p in programs]
        work = list(zip(programs, arrays, scratch, strict=True))
        parts = []
        with memory.recording, memory.on(memory.recorder):
            for some in _up_to_checks(work):
                with captured(memory.recorder) as graphs:
                    for program, given, between in some:
                        start(memory, program, given, values, between, checks=False)
                parts.append(Part(graphs[0], len(some), checked_in(some[-1][0])))
    except Exception:
        return None  # kernel by kernel it ran before
    return Recorded(parts, scratch)


Work = tuple[cuda.Program, Sequence[Any], list[Any]]


def _up_to_checks(work: Sequence[Work]) -> Iterator[list[Work]]:
    """The calls in pieces, each of which ends behind a kernel whose indices are checked, or at the end."""
    some: list[Work] = []
    for one in work:
        some.append(one)
        if checked_in(one[0]):
            yield some
            some = []
    if some:
        yield some


def checked_in(program: cuda.Program) -> str:
    """The name of the first kernel of a program that checks its indices, or nothing."""
    return next((s.name for s in program.steps if isinstance(s, cuda.Launch) and s.checks), "")


@contextmanager
def captured(stream: Any) -> Iterator[list[Any]]:
    """What is started on the stream within the block becomes a graph; after an error the stream is as before."""
    graphs: list[Any] = []
    stream.begin_capture()
    try:
        yield graphs
    finally:
        graphs.append(stream.end_capture())
