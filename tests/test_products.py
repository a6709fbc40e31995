"""Matrices for cuBLAS: the calls that a product becomes, by cuBLAS's rules for memory, against NumPy."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from benchmarks.libs import Ours
from benchmarks.workloads import WORKLOADS, Kit
from tests.cuda.cases import Case, Maker, at
from tests.cuda.fake_cupy import by_columns
from tests.cuda.shim import Library
from tests.graphs import examples
from tests.test_cuda import check, ways
from tinysched import Tensor, plan
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.cuda import Launch, Limits, program
from tinysched.runtime.products import Gemm, Matrix, Product, gemms, lies_in

SMALL = Limits(threads=64, warp_row=4, block_row=40, busy=512, least_part=4, product=60, tile=8)


def matrix(slot: int, batch: tuple[tuple[int, int], ...], rows: int, columns: int, draw) -> Matrix:
    """A matrix per place in the batch, in rows or in columns, with room between them, or the same for some axes."""
    turned, apart = draw(st.booleans()), draw(st.integers(0, 2))
    near, far = (rows, columns) if turned else (columns, rows)
    lead = near + apart
    step = far * lead + draw(st.integers(0, 3))
    strides = []
    for size, repeated in reversed(batch):
        strides.insert(0, 0 if repeated else step)
        step *= 1 if repeated else size
    inner = (1, lead) if turned else (lead, 1)
    return Matrix(slot, draw(st.integers(0, 3)), (*(n for n, _ in batch), rows, columns), (*strides, *inner))


@st.composite
def products(draw) -> tuple[Matrix, Matrix, Matrix]:
    m, k, n = (draw(st.integers(1, 5)) for _ in range(3))
    sizes = draw(st.lists(st.integers(1, 3), max_size=3))
    repeats = [draw(st.sampled_from(("", "left", "right"))) for _ in sizes]
    left = matrix(1, tuple((s, r == "left") for s, r in zip(sizes, repeats)), m, k, draw)
    right = matrix(2, tuple((s, r == "right") for s, r in zip(sizes, repeats)), k, n, draw)
    strides = tuple(int(np.prod((*sizes, m, n)[i + 1 :])) for i in range(len(sizes) + 2))
    return left, right, Matrix(0, 0, (*sizes, m, n), strides)


def view(memory: np.ndarray, x: Matrix) -> np.ndarray:
    return as_strided(memory[x.offset :], x.shape, tuple(s * memory.itemsize for s in x.strides))


def multiply(g: Gemm, memory: list[np.ndarray]) -> None:
    """One call as cuBLAS does it; a leading dimension that is too small is an error there too."""
    sides = []
    for x, rows, columns in ((g.a, g.m, g.k), (g.b, g.k, g.n), (g.c, g.m, g.n)):
        height, width = (columns, rows) if x.turned else (rows, columns)
        at = memory[x.slot].ctypes.data + x.offset * 4
        found = by_columns(at, height, width, x.lead, x.step, g.times, np.dtype(np.float32))
        sides.append(found.transpose(0, 2, 1) if x.turned else found)
    assert not g.c.turned, "cuBLAS writes by columns only"
    sides[2][...] = sides[0] @ sides[1]


@examples(150)
@hypothesis.given(products())
def test_calls_multiply_what_numpy_multiplies(product):
    rng = np.random.default_rng(0)
    memory = [rng.integers(-4, 5, 3000).astype(np.float32) for _ in range(3)]
    left, right, out = product
    want = view(memory[1], left) @ view(memory[2], right)
    for g in gemms(left, right, out):
        multiply(g, memory)
    np.testing.assert_array_equal(view(memory[0], out), want)


def test_what_is_no_matrix():
    assert lies_in(5, 3, 3, 1) == "rows" and lies_in(5, 3, 1, 5) == "columns" and lies_in(5, 3, 4, 1) == "rows"
    assert lies_in(5, 3, 1, 1) is None, "windows that overlap"
    assert lies_in(5, 3, 6, 2) is None and lies_in(5, 3, 0, 1) is None
    assert lies_in(1, 3, 0, 7) == "columns" and lies_in(5, 1, 7, 0) == "rows"


# ---- heads that share keys and values


def attention(heads: int, groups: int, turned: bool) -> list:
    def one(n: int) -> Tensor:
        shape = (2, 9, n, 8) if turned else (2, n, 9, 8)
        x = Tensor.empty(*shape)
        return x.transpose(1, 2) if turned else x

    y = one(heads).scaled_dot_product_attention(one(groups), one(groups), enable_gqa=True)
    return [call.src[0] for call in plan(y).linear.src]


@pytest.mark.compiler
@pytest.mark.parametrize("turned", [False, True])
def test_grouped_heads_reach_cublas(turned):
    sinks = attention(6, 2, turned)
    programs = [program(sink, SMALL) for sink in sinks]
    products = [step for p in programs for step in p.steps if isinstance(step, Product)]
    assert len(products) == 2
    scores = next(iter(products))
    assert scores.left.shape == ((2, 2, 3, 9, 8) if turned else (2, 2, 27, 8))
    calls = list(gemms(*scores[:3]))
    assert (calls[0].a.step == 0 or calls[0].times == 2) if turned else [g.times for g in calls] == [4]
    copied = [s for s in programs[0].steps if isinstance(s, Launch)]
    assert len(copied) == 1, "queries and keys are multiplied where they lie; one kernel scales"
    library = Library(programs)
    for i, sink in enumerate(sinks):
        arrays = [np.random.default_rng(i).uniform(0.1, 0.9, n).astype(np.float32) for n in sizes(sink)]
        check(library, i, programs[i], sink, arrays, {})
    assert "cuBLAS" in ways(programs)


def sizes(sink) -> list[int]:
    found = {int(u.arg.slot): int(u.arg.size) for u in sink.toposort() if u.op is Ops.PARAM}
    return [found[slot] for slot in range(len(found))]


# ---- contractions of any layout


def contraction(rng: np.random.Generator) -> Case:
    """A sum of products over axes that lie in any order in memory, some of them as digits of one loop."""
    m, number = Maker(int(rng.integers(1 << 30))), 0
    axes: list[tuple[UOp, int, str]] = []
    loops: list[UOp] = []
    reduces: list[UOp] = []
    for kind in ("batch", "left", "right", "inner"):
        sizes = [int(n) for n in rng.integers(2, 5, int(rng.integers(kind != "batch", 3)))]
        over = AxisType.REDUCE if kind == "inner" else AxisType.LOOP
        if len(sizes) == 2 and rng.random() < 0.5:  # as heads that share keys are written
            r = UOp.range(sizes[0] * sizes[1], number, over)
            made, indices = [r], [r // sizes[1], r % sizes[1]]
        else:
            made = [UOp.range(n, number + i, over) for i, n in enumerate(sizes)]
            indices = list(made)
        number += len(made)
        (reduces if kind == "inner" else loops).extend(made)
        axes += [(index, n, kind) for index, n in zip(indices, sizes)]

    def factor(side: str) -> UOp:
        mine = [a for a in axes if a[2] in ("batch", "inner", side) and not (a[2] == "batch" and rng.random() < 0.3)]
        order = [mine[i] for i in rng.permutation(len(mine))]
        memory, _ = m.floats(int(np.prod([n for _, n, _ in order])))
        return at(memory, flat_sum([(index, n) for index, n, _ in order]))

    value = (factor("left") * factor("right")).reduce(Ops.ADD, *reduces)
    kept = [a for a in axes if a[2] != "inner"]
    order = [kept[i] for i in rng.permutation(len(kept))]
    size = int(np.prod([n for _, n, _ in order]))
    return m.case(size, value, flat_sum([(index, n) for index, n, _ in order]), tuple(loops), SMALL)


def flat_sum(places: list[tuple[UOp, int]]) -> UOp:
    index = UOp.const(0)
    for place, size in places:
        index = index * size + place
    return index


@pytest.mark.compiler
def test_contractions_of_any_layout():
    cases = [contraction(np.random.default_rng(seed)) for seed in range(80)]
    programs = [program(c.sink, SMALL) for c in cases]
    library = Library(programs)
    for i, case in enumerate(cases):
        check(library, i, programs[i], case.sink, case.arrays, {})
    by_cublas = [p for p in programs if any(isinstance(step, Product) for step in p.steps)]
    assert len(by_cublas) > 30
    used = [x for p in by_cublas for s in p.steps if isinstance(s, Product) for x in (s.left, s.right)]
    assert any(0 in x.strides[:-2] for x in used), "a factor that is used again stays where it is"


@pytest.mark.parametrize(
    ("name", "in_place", "stored"), [("mlp_fwd", 4, 0), ("gpt2_small", 12, 2), ("resnet18", 17, 17)]
)
def test_which_factors_are_stored_before_they_are_multiplied(name, in_place, stored):
    """At benchmark sizes, in the distinct kernels; docs/gpu.md counts all workloads."""
    sinks = dict.fromkeys(c.src[0] for c in plan(*WORKLOADS[name](Kit(Ours()))).linear.src if c.src[0].op is Ops.SINK)
    found = [0, 0]
    for p in map(program, sinks):
        own = {s.slot for s in p.scratch}
        for step in p.steps:
            if isinstance(step, Product):
                for factor in (step.left, step.right):
                    found[factor.slot in own] += 1
    assert found == [in_place, stored]
