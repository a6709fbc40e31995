"""The numba backend: values, accuracy of its functions, what it takes, and how it does without numba."""

from __future__ import annotations

import importlib.util
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.libs import Ours
from benchmarks.workloads import SMALL, small
from tests.graphs import Program, examples, programs
from tests.test_runtime_kernels import Kernel, flat, numbers, param, ranges
from tests.test_runtime_random import KernelMaker
from tinysched import Context, Tensor
from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.conditions import in_bounds
from tinysched.ir.uop import UOp
from tinysched.runtime import fastmath, loops, lowered, numba
from tinysched.runtime.forms import Unsupported

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba; it is an extra")


@pytest.fixture(autouse=True)
def compile_small_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiles everything that can be, into a folder of the tests' own."""
    monkeypatch.setattr(numba, "WORTH", 0)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "numba"))


# ** functions **


def float32s(step: int) -> np.ndarray:
    """A fine sample of all float32, with what is special."""
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    special = np.array(
        [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.0**-126, 2.0**-149, 127.99999, 128, -126, -149, -150]
    )
    return np.concatenate([bits.view(np.float32), special.astype(np.float32), *around_powers()])


def around_powers() -> list[np.ndarray]:
    ones = (2.0 ** np.arange(-149, 128)).astype(np.float32)
    return [ones, np.nextafter(ones, np.float32(np.inf)), np.nextafter(ones, np.float32(0)), *(
        np.linspace(low, high, 4001, dtype=np.float32) for low, high in ((-151, 129), (-1, 1), (0.5, 2), (0.99, 1.01))
    )]  # fmt: skip


@needs_numba
@pytest.mark.parametrize("name", ["exp2", "log2"])
def test_functions_are_as_exact_as_they_say(name: str) -> None:
    import numba as nb

    function = numba.helpers()[name]

    @nb.njit
    def apply(x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] = function(x[i])

    x = float32s(65537 if name == "exp2" else 32771)
    found = np.empty_like(x)
    apply(x, found)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.float64))
        want = exact.astype(np.float32)
        special = ~np.isfinite(want)
        assert (np.isnan(found) == np.isnan(want)).all()
        assert (found[special & ~np.isnan(want)] == want[special & ~np.isnan(want)]).all()
        unit = np.spacing(np.abs(want[~special])).astype(np.float64)
        error = np.abs(found[~special].astype(np.float64) - exact[~special]) / unit
    assert error.max() <= fastmath.ULP, x[~special][error.argmax()]


def test_float64_is_exact_enough_to_judge_them() -> None:
    mpmath = pytest.importorskip("mpmath")
    for x in float32s(1 << 27):
        if np.isfinite(x) and abs(x) < 120:
            assert np.exp2(np.float64(x)) == pytest.approx(float(mpmath.mpf(2) ** mpmath.mpf(float(x))), rel=1e-15)
        if np.isfinite(x) and x > 0:
            exact = float(mpmath.log(mpmath.mpf(float(x)), 2))
            assert np.log2(np.float64(x)) == pytest.approx(exact, rel=1e-14, abs=1e-300)


def test_functions_are_plain_python_too() -> None:
    with np.errstate(all="ignore"):
        assert fastmath.exp2(np.float32(-149)) == np.float32(2.0**-149) and np.isnan(fastmath.exp2(np.float32(np.nan)))
        assert fastmath.log2(np.float32(2.0**-149)) == -149 and fastmath.log2(np.float32(0)) == -np.inf
        assert np.isnan(fastmath.maximum(np.float32(1), np.float32(np.nan)))


# ** kernels **


def run(sink: UOp, out: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """The kernel's output on numba, which the loops agree with."""
    arrays = [out.reshape(-1), *(a.reshape(-1) for a in inputs)]
    judge = [out.reshape(-1).copy(), *arrays[1:]]
    loops.compile_kernel(sink)(judge, {})
    numba.bind(sink, arrays, {})()
    np.testing.assert_allclose(arrays[0], judge[0], rtol=1e-5, atol=1e-6)
    return out


@needs_numba
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MUL])
@pytest.mark.parametrize("n", [5, 128, 200])
def test_reductions_in_lanes(op: Ops, n: int) -> None:
    k, (r0, r1, r2) = Kernel(), ranges(3, 2, n, reduce=2)
    a = numbers(3, 2, n) * np.float32(0.1) + np.float32(op is Ops.MUL)
    value = (k.read(a, flat((3, 2, n), (r0, r1, r2))) * 1.01).reduce(op, r1, r2)
    sink = k.sink(3, value, r0, (r0,))
    assert ("lanes0" in lowered.program_text(sink)) == (n >= 128)
    run(sink, np.empty(3, np.float32), a)


@needs_numba
def test_a_maximum_in_lanes_keeps_nan() -> None:
    k, (r0, r1) = Kernel(), ranges(2, 150, reduce=1)
    a = numbers(2, 150)
    a[1, 70] = np.nan
    sink = k.sink(2, k.read(a, r0 * 150 + r1).reduce(Ops.MAX, r1), r0, (r0,))
    assert np.isnan(run(sink, np.empty(2, np.float32), a)).tolist() == [False, True]


@needs_numba
def test_masks_do_not_read_outside() -> None:
    k, (r0, r1) = Kernel(), ranges(7, 9)
    a = numbers(4, 5)
    inside = in_bounds(r0 - 2, 0, 4) & in_bounds(r1 - 1, 0, 5)
    value = k.read(a, flat((4, 5), (r0 - 2, r1 - 1)), inside).alu(Ops.EXP2) + 1
    out = run(k.sink(63, value, flat((7, 9), (r0, r1)), (r0, r1)), np.empty((7, 9), np.float32), a)
    np.testing.assert_allclose(out, np.exp2(np.pad(a, ((2, 1), (1, 3)))) + 1, rtol=1e-5)


@needs_numba
def test_large_kernels_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "PARALLEL", 0)
    monkeypatch.setattr(numba, "threads", lambda: 3)
    k, (r0, r1) = Kernel(), ranges(10, 130, reduce=1)
    a = numbers(10, 130)
    sink = k.sink(10, k.read(a, r0 * 130 + r1).alu(Ops.EXP2).reduce(Ops.ADD, r1), r0, (r0,))
    np.testing.assert_allclose(run(sink, np.zeros(10, np.float32), a), np.exp2(a).sum(1), rtol=1e-5)


@needs_numba
def test_what_overlaps_is_left_to_numpy() -> None:
    memory = numbers(12)
    k, (r0,) = Kernel(), ranges(10)
    sink = UOp.sink(param(0, 12, Tensor(memory).dtype).index(r0 + 1).store(k.read(memory, r0) + 1).end(r0))
    want = memory.copy()
    want[1:11] = memory[:10] + 1
    numba.bind(sink, [memory, memory], {})()
    assert (memory == want).all()


def test_what_is_not_lowered_says_why() -> None:
    k, (r0,) = Kernel(), ranges(4)
    for value, why in (
        (k.read(numbers(4, dtype=np.int32), r0) + 1, "integers"),
        (k.read(numbers(4), r0).alu(Ops.SIN), "calls"),
    ):
        with pytest.raises(Unsupported, match=why):
            lowered.program_text(k.sink(4, value, r0, (r0,)))


@needs_numba
def test_compiled_kernels_are_found_on_disk_and_made_again_if_they_were_changed() -> None:
    text = "def kernel(p0, start, stop):\n    for r0 in range(start, stop):\n        p0[uintp(r0)] = float32(3.0)"
    out = np.zeros(3, np.float32)
    numba.compiled.cache_clear()
    numba.compiled(text)(out, 0, 2)
    assert out.tolist() == [3, 3, 0]
    [path] = [p for p in numba.cache_folder().glob("*.py") if "float32(3.0)" in p.read_text()]
    path.write_text("raise SystemExit")
    numba.compiled.cache_clear()
    numba.compiled(text)(out, 2, 3)
    assert out.tolist() == [3, 3, 3]


def test_without_numba_numpy_goes_on_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "numba" else real(name, *a))
    numba.is_available.cache_clear()
    x = Tensor([1.0, 2.0]).realize()
    try:
        with Context(CPU="numba"):
            with pytest.warns(RuntimeWarning, match=r"numba is not installed.*pip install 'tinysched\[numba\]'"):
                assert (x + 1).tolist() == [2, 3]
            assert (x * 3).tolist() == [3, 6]
        with Context(CPU="auto"):
            assert (x * 5).tolist() == [5, 10]
    finally:
        numba.is_available.cache_clear()


@needs_numba
def test_auto_compiles_what_is_hot_and_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "HOT", 0.0)
    k, (r0,) = Kernel(), ranges(130)
    a, out = numbers(130), np.empty(130, np.float32)
    sink = k.sink(130, k.read(a, r0).alu(Ops.EXP2), r0, (r0,))
    runs = numba.bind_auto(sink, [out, a], {})
    assert sink not in numba.CHOICES and "np.exp2" in numba.auto_text(sink)
    runs()
    assert numba.CHOICES[sink] == "numba" and "start, stop" in numba.auto_text(sink)
    out[:] = 0
    runs()
    np.testing.assert_allclose(out, np.exp2(a), rtol=1e-6)


# ** random kernels and graphs **


@needs_numba
@examples(25)
@given(st.randoms(use_true_random=False))
def test_random_kernels_have_the_values_of_loops(rng: random.Random) -> None:
    sink, arrays = KernelMaker(rng, dtypes.float32).make()
    judge, got = ([x.copy() for x in arrays] for _ in range(2))
    loops.compile_kernel(sink)(judge, {})
    with np.errstate(all="ignore"):
        numba.bind(sink, got, {})()
    np.testing.assert_allclose(got[0], judge[0], rtol=1e-4)


@pytest.mark.parametrize("cpu", ["numpy", pytest.param("numba", marks=needs_numba)])
@examples(20)
@given(program=programs(most=14))
def test_random_graphs_have_the_values_of_loops(cpu: str, program: Program) -> None:
    _, outputs = program.build()
    with Context(CPU=cpu):
        found = [Tensor.from_uop(u) for u, _ in outputs]
        Tensor.realize(*found)
    for t, (_, want) in zip(found, outputs, strict=True):
        np.testing.assert_allclose(t.numpy(), want, rtol=1e-3, atol=1e-3)


# ** workloads **


@needs_numba
@pytest.mark.parametrize("name", SMALL)
def test_workloads_have_the_values_of_the_default_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "train" in name:  # many kernels that are much alike: the larger ones will do
        monkeypatch.setattr(numba, "WORTH", 5000)
    found = []
    for cpu in ("numpy", "numba"):
        lib = Ours(cpu)
        with lib.settings():
            found.append(lib.values(small(name, lib)))
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
