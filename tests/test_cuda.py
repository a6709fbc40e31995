"""CUDA C without a GPU: every kernel compiles with NVRTC, and gives the loops' values on the CPU, every access checked."""

from __future__ import annotations

import functools
import re

import hypothesis
import numpy as np
import pytest

from benchmarks.libs import Ours
from benchmarks.workloads import WORKLOADS, small
from tests.cuda import nvrtc
from tests.cuda.cases import CASES, LIMITS, Case, Maker, at, elementwise, embedding, loop, reduced, rows, transposed
from tests.cuda.shim import Fault, Library
from tests.graphs import Program as RandomProgram
from tests.graphs import programs as random_programs
from tinysched import Tensor, plan
from tinysched.dtypes import dtypes
from tinysched.errors import DTypeError
from tinysched.ir.ops import Ops
from tinysched.ir.uop import ParamArg, UOp
from tinysched.runtime import cuda, loops
from tinysched.runtime.cost import cost_of
from tinysched.runtime.cuda import Launch, Limits, Program, program
from tinysched.runtime.nest import arguments_of, load
from tinysched.runtime.products import Product
from tinysched.schedule.policy import AllLegal, Policies

GROUPS = [list(WORKLOADS)[i::4] for i in range(4)]
TINY = Limits(threads=64, warp_row=4, block_row=40, busy=512, least_part=4, product=60, tile=8)


@functools.cache
def kernels(group: int) -> tuple[UOp, ...]:
    """The different kernels of some workloads."""
    lib = Ours()
    calls = [call for name in GROUPS[group] for call in plan(*small(name, lib)).linear.src]
    return tuple(dict.fromkeys(call.src[0] for call in calls if call.src[0].op is Ops.SINK))


def ways(programs: list[Program]) -> set[str]:
    """In which ways kernels are lowered."""
    text = "\n".join(p.source for p in programs)
    names = {"vec<": "vectors", "across_warp<Add>(acc": "warps", "across_block<Add>(acc": "blocks", "tile0": "tiles"}
    return {way for word, way in names.items() if word in text} | ({"cuBLAS"} if "by cuBLAS" in text else set())


def inputs(sink: UOp) -> list[np.ndarray]:
    rng, found = np.random.default_rng(0), {int(u.arg.slot): u for u in arguments_of(sink)[0]}
    arrays = []
    for slot in range(1 + max(found)):
        u = found.get(slot)
        values = (
            rng.uniform(0.1, 0.9, u.arg.size)
            if u is not None and u.dtype.kind == "f"
            else rng.integers(0, 3, u.arg.size if u is not None else 1)
        )
        arrays.append(values.astype(u.dtype.np if u is not None else np.float32))
    return arrays


def check(
    library: Library,
    number: int,
    p: Program,
    sink: UOp,
    arrays: list[np.ndarray],
    values: dict[str, int],
    rtol: float = 2e-4,
) -> None:
    """The program's values are the loops', with its own grid and with one so small that every thread goes round."""
    want = [a.copy() for a in arrays]
    loops.compile_kernel(sink)(want, values)
    for blocks in (0, 2):
        got = [a.copy() for a in arrays]
        library.run(number, p, got, values, blocks)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=max(1e-5, rtol / 20))


# ---- the workloads


@pytest.mark.compiler
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_values_of_every_kernel_of_the_workloads(group):
    programs = [program(sink, TINY) for sink in kernels(group)]
    library = Library(programs)
    for i, sink in enumerate(kernels(group)):
        largest = {str(v.arg.name): int(v.arg.vmax) for v in arguments_of(sink)[1]}
        check(library, i, programs[i], sink, inputs(sink), largest)
    assert ways(programs) >= {"vectors", "warps", "tiles", "cuBLAS"}


@pytest.mark.nvrtc
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_kernel_of_the_workloads_compiles(group):
    ptx = nvrtc.to_ptx(together([program(sink, TINY) for sink in kernels(group)]))
    assert ptx.count(".entry") == launches(group, TINY)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_kernels_of_the_workloads_leave_room_for_others(group, arch):
    """At the limits of real use half of the threads that a multiprocessor holds find registers and memory, at least."""
    leave_room([program(sink) for sink in kernels(group)], arch)


def leave_room(programs: list[Program], arch: str) -> None:
    limits, source = Limits(), together(programs)
    found = nvrtc.resources(source, arch)
    resident = {name: int(n) for n, name in re.findall(r"__launch_bounds__\(\d+, (\d+)\) (\w+)\(", source)}
    assert len(found) == sum(isinstance(s, Launch) for p in programs for s in p.steps)
    for name, r in found.items():
        assert r.spilled == 0, f"{name} keeps values in memory that belong into registers"
        assert resident[name] >= limits.resident // 2
        assert r.registers * limits.threads * resident[name] <= 1 << 16 and r.shared * resident[name] <= 160 << 10


def launches(group: int, limits: Limits) -> int:
    return sum(isinstance(s, Launch) for k in kernels(group) for s in program(k, limits).steps)


def together(programs: list[Program]) -> str:
    """Programs as one: each in a namespace, its kernels by names of their own."""
    texts = [re.sub(r"(__launch_bounds__\(\d+, \d+\)) ", rf"\1 k{i}_", p.source) for i, p in enumerate(programs)]
    return "\n".join(f"namespace k{i} {{\n{text}\n}}" for i, text in enumerate(texts))


# ---- by hand


@functools.cache
def built() -> tuple[dict[str, Case], list[Program], Library]:
    cases = {name: make() for name, make in CASES.items()}
    programs = [program(c.sink, c.limits) for c in cases.values()]
    return cases, programs, Library(programs)


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_values_at_every_edge(name):
    cases, programs, library = built()
    case, i = cases[name], list(cases).index(name)
    half = any(u.dtype is dtypes.float16 for u in case.sink.toposort())
    check(library, i, programs[i], case.sink, case.arrays, case.values, rtol=1e-2 if half else 2e-4)


@functools.cache
def built_wide() -> tuple[dict[str, Case], list[Program], Library]:
    """The cases as if their memory were so large that indices need 64 bits."""
    narrow, cuda.INT_MOST = cuda.INT_MOST, 1
    try:
        cases = {name: make() for name, make in CASES.items() if name in WIDE}
        programs = [cuda.program.__wrapped__(c.sink, c.limits) for c in cases.values()]
    finally:
        cuda.INT_MOST = narrow
    return cases, programs, Library(programs)


WIDE = (
    "elementwise 65", "rows 3x33", "rows 2x3x37", "rows 1x300", "columns 33x65", "two reductions 3x40", "transposed 9x17",
    "transposed batch", "padded 5", "embedding", "embedding int64", "variable 3", "masked store", "matmul turned relu 4x70x5",
)  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize("name", WIDE)
def test_values_with_indices_of_64_bits(name):
    cases, programs, library = built_wide()
    case, i = cases[name], list(cases).index(name)
    assert "long long" in programs[i].source and all(s.wide for s in programs[i].steps if isinstance(s, Launch))
    check(library, i, programs[i], case.sink, case.arrays, case.values)


@pytest.mark.nvrtc
def test_kernels_with_indices_of_64_bits_compile():
    nvrtc.to_ptx(together(built_wide()[1]))


@pytest.mark.compiler
def test_values_of_kernels_of_random_programs():
    """One compilation for all; whatever a kernel of the schedule may be, it is a kernel of these."""
    sinks: dict[UOp, None] = {}

    @hypothesis.settings(max_examples=90, phases=[hypothesis.Phase.generate], database=None, derandomize=True)
    @hypothesis.given(random_programs())
    def collect(p: RandomProgram) -> None:
        graph, outputs = p.build()
        calls = plan(*[Tensor.from_uop(u) for u, _ in outputs]).linear.src
        sinks.update(dict.fromkeys(call.src[0] for call in calls if call.src[0].op is Ops.SINK))
        assert graph.keep

    collect()
    programs = [program(sink, TINY) for sink in sinks]
    library = Library(programs)
    for i, sink in enumerate(sinks):
        check(library, i, programs[i], sink, inputs(sink), {})
    assert len(sinks) > 30


# ---- fused as far as it goes

NOT_PLANNED = ("gpt_tiny_train_sgd", "gpt_tiny_train_adam")
"""Planning these so takes half a minute each."""
MOST_REDUCTIONS, MOST_OPS = 18, 200_000
"""With more reductions within one another a kernel compiles for a quarter of a minute and more, and would run for ages: what
one loop computes, another computes again. Those with more operations run too long as Python loops: they are compiled only."""


@functools.cache
def fused(group: int) -> tuple[UOp, ...]:
    """The different kernels of some workloads where everything is fused that may be."""
    lib, policies = Ours(), Policies(fusion=AllLegal())
    names = [name for name in GROUPS[group] if name not in NOT_PLANNED]
    calls = [call for name in names for call in plan(*small(name, lib), policies=policies).linear.src]
    sinks = dict.fromkeys(call.src[0] for call in calls if call.src[0].op is Ops.SINK)
    return tuple(s for s in sinks if sum(u.op is Ops.REDUCE for u in s.toposort()) <= MOST_REDUCTIONS)


def largest(sink: UOp) -> dict[str, int]:
    return {str(v.arg.name): int(v.arg.vmax) for v in arguments_of(sink)[1]}


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_values_of_kernels_that_are_fused_as_far_as_it_goes(group):
    """Sums within sums, several over one RANGE."""
    sinks = [sink for sink in fused(group) if cost_of(sink, largest(sink)).ops <= MOST_OPS]
    programs = [program(sink, TINY) for sink in sinks]
    library = Library(programs)
    for i, sink in enumerate(sinks):
        check(library, i, programs[i], sink, inputs(sink), largest(sink))
    assert any(sum(u.op is Ops.REDUCE for u in sink.toposort()) > 2 for sink in sinks)


@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_kernels_that_are_fused_as_far_as_it_goes_leave_room_for_others(group):
    leave_room([program(sink) for sink in fused(group)], ("sm_80", "sm_90")[group % 2])


@pytest.mark.nvrtc
def test_kernels_by_hand_compile():
    nvrtc.to_ptx(together([program(make().sink, make().limits) for make in CASES.values()]))


def test_the_cases_are_lowered_in_every_way():
    programs = {name: program(make().sink, make().limits) for name, make in CASES.items()}
    assert ways(list(programs.values())) == {"vectors", "warps", "blocks", "tiles", "cuBLAS"}
    assert len(programs["rows 1x300"].steps) == 2 and len(programs["one phase (127,)"].steps) == 1
    assert [type(s) for s in programs["matmul turned relu 11x12x13"].steps] == [Launch, Product, Launch]
    assert [type(s) for s in programs["matmul 11x12x13"].steps] == [Product]


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("dtype", "access"),
    [(dtypes.float32, "v4.f32"), (dtypes.float16, "v4.u32"), (dtypes.int8, "v4.u32"), (dtypes.float64, "v2.f64")],
    ids=lambda x: getattr(x, "name", x),
)
def test_aligned_neighbours_are_read_and_written_by_128_bits(dtype, access):
    ptx = nvrtc.to_ptx(program(elementwise(256, dtype).sink).source)
    assert ptx.count(f"ld.global.{access}") == 2 and ptx.count(f"st.global.{access}") == 1
    assert ptx.count("ld.global") == 2 and ptx.count("st.global") == 1


@pytest.mark.compiler
def test_bfloat16():
    m, (r,), x = Maker(), loop(37), UOp(Ops.PARAM, dtypes.bfloat16, (), ParamArg(1, 37, "CUPY"))
    out = UOp(Ops.PARAM, dtypes.bfloat16, (), ParamArg(0, 37, "CUPY"))
    p = program(UOp.sink(out.index(r).store(load(x.index(r)) * 1.5 + 0.1).end(r)), LIMITS)
    raw = (m.rng.uniform(-3, 3, 37).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    arrays = [np.zeros(37, np.uint16), raw]
    Library([p]).run(0, p, arrays, {})
    got, given = ((a.astype(np.uint32) << 16).view(np.float32) for a in arrays)
    np.testing.assert_allclose(got, given * 1.5 + 0.1, rtol=2**-8, atol=1e-3)


def test_fp8_is_refused_with_a_sentence():
    (r,), x = loop(4), UOp(Ops.PARAM, dtypes.fp8e4m3, (), ParamArg(1, 4, "CUPY"))
    out = UOp(Ops.PARAM, dtypes.fp8e4m3, (), ParamArg(0, 4, "CUPY"))
    with pytest.raises(DTypeError, match="cannot compute with fp8e4m3"):
        program(UOp.sink(out.index(r).store(load(x.index(r))).end(r)))


@pytest.mark.compiler
def test_an_index_outside_of_memory_is_reported_and_nothing_is_read_there():
    case = embedding(9, 8, 13, 9)
    case.arrays[2][5] = 9
    p = program(case.sink, LIMITS)
    with pytest.raises(IndexError):
        Library([p]).run(0, p, case.arrays, {})


def test_indices_have_64_bits_only_where_they_need_them():
    def kernel(n: int) -> str:
        (r,), memory = loop(n), [UOp(Ops.PARAM, dtypes.int8, (), ParamArg(i, n, "CUPY")) for i in (0, 1)]
        return program(UOp.sink(memory[0].index(r).store(load(memory[1].index(r)) + 1).end(r))).source

    assert "long long i" in kernel(1 << 31) and "long long" not in kernel(1 << 29)


def test_lines_know_their_nodes():
    case = rows(3, (37,), limits=Limits())
    lines = [line for line in program(case.sink, LIMITS).lines if line.nodes]
    nodes = {u for line in lines for u in line.nodes}
    assert {Ops.REDUCE, Ops.LOAD, Ops.STORE, Ops.ADD, Ops.MUL} <= {u.op for u in nodes}


def test_equal_kernels_are_one_program():
    assert program(elementwise(67).sink) is program(elementwise(67).sink)


# ---- planted faults: each is found


def TURN() -> Case:
    return transposed(9, 17)


def ROW() -> Case:
    """Two sums by blocks, one after the other, over more rows than blocks."""
    m, (r,), (R, S) = Maker(), loop(5), reduced(150, 150, first=1)
    x, _ = m.floats(5 * 150)
    total = at(x, r * 150 + R).reduce(Ops.ADD, R)
    return m.case(5, (at(x, r * 150 + S) - total * 0.1).alu(Ops.EXP2).reduce(Ops.ADD, S), r, (r,))


FAULTS = {
    "no barrier between writing and reading a tile": (TURN, "        __syncthreads();\n", "", "race"),
    "no barrier before the next tile": (TURN, "        __syncthreads();  // before the next tile\n", "", "race"),
    "tile read the wrong way round": (TURN, "tile0[x][k] +", "tile0[k][x] +", "values"),
    "wrong stride": (TURN, "p1[r1 * 9 + r0]", "p1[r1 * 17 + r0]", "out of bounds"),
    "edge of a tile": (TURN, "r1 < 17 && r0 < 9", "r1 <= 17 && r0 < 9", "out of bounds"),
    "no barrier after warps have written": (ROW, "    __syncthreads();\n    x = of_warp", "    x = of_warp", "race"),
    "no barrier before the next reduction": (ROW, "    __syncthreads();  // before the next call", "    //", "race"),
    "a barrier that not all threads reach": (
        ROW, "acc0 = across_block", "if (lane < 50) acc0 = across_block", "not all threads reach"
    ),
    "every thread writes": (ROW, "        if (lane == 0)\n", "", "race"),
    "off by one": (lambda: elementwise(65), "r0 < 65", "r0 <= 65", "out of bounds"),
    "vectors too far": (lambda: elementwise(65), "i < 16", "i < 17", "out of bounds"),
    "a vector at an odd place": (lambda: elementwise(65), "load<4>(p1 + r0)", "load<4>(p1 + r0 + 1)", "misaligned"),
    "tail left out": (lambda: elementwise(65), "r0 = 64 +", "r0 = 65 +", "values"),
    "the grid's step forgotten": (lambda: elementwise(1031), "gridDim.x * 64) {", "64) {", "race"),
    "half a warp": (ROW, "int step = 16", "int step = 8", "values"),
}  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(name):
    library, sources = with_faults()
    make, _, _, said = FAULTS[name]
    case = make()
    p = program(case.sink, LIMITS)
    assert sources[name] != p.source, "the fault was not planted"
    with pytest.raises(AssertionError if said == "values" else Fault, match=None if said == "values" else said):
        check(library, list(FAULTS).index(name), p, case.sink, case.arrays, {})


@functools.cache
def with_faults() -> tuple[Library, dict[str, str]]:
    sources = {
        name: program(make().sink, LIMITS).source.replace(old, new, 1) for name, (make, old, new, _) in FAULTS.items()
    }
    return Library(list(sources.values())), sources


@pytest.mark.compiler
def test_memory_that_is_not_aligned_is_read_by_single_elements():
    case = elementwise(65)
    raw = np.zeros(66, np.float32)
    start = 1 if raw.ctypes.data % 16 == 0 else 0
    odd = raw[start : start + 65]
    odd[:] = case.arrays[1]
    vectors, plain = program(case.sink, LIMITS), program(case.sink, Limits(threads=64, vector=0))
    with pytest.raises(Fault, match="misaligned"):
        Library([vectors]).run(0, vectors, [case.arrays[0], odd, case.arrays[2]], {})
    got = case.arrays[0].copy()
    Library([plain]).run(0, plain, [got, odd, case.arrays[2]], {})
    np.testing.assert_allclose(got, odd * case.arrays[2] + odd, rtol=1e-6)
