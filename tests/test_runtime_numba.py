"""The numba backend: values, accuracy of its functions, what it takes, and how it does without numba."""

from __future__ import annotations

import importlib.util
import math
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.libs import Ours
from benchmarks.workloads import SMALL, small
from tests.graphs import Program, examples, programs
from tests.test_runtime_kernels import Kernel, flat, numbers, param, ranges
from tests.test_runtime_random import KernelMaker
from tinysched import Context, Tensor, plan, run_linear
from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.conditions import in_bounds
from tinysched.ir.uop import UOp
from tinysched.runtime import fastmath, loops, lowered, numba
from tinysched.runtime.forms import Unsupported
from tinysched.runtime.linear import needs_same_bits
from tinysched.schedule.policy import AllLegal, Policies

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba; it is an extra")


@pytest.fixture(autouse=True)
def compile_small_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiles everything that can be, into a folder of the tests' own."""
    monkeypatch.setattr(numba, "WORTH", 0)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "numba"))


# ** functions **

NAMES = list(fastmath.ULP)
MANTISSAS = (0, 1, 2, 3, 0x3504F2, 0x3504F3, 0x3504F4, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF)


def every_exponent() -> np.ndarray:
    """Floats of every exponent (subnormal, infinite and NaN too): the ends of it, around the root of two, and others."""
    drawn = np.random.default_rng(0).integers(0, 1 << 23, (256, 12))
    mantissas = np.concatenate([np.broadcast_to(MANTISSAS, (256, 12)), drawn], axis=1)
    bits = (np.arange(256)[:, None] << 23 | mantissas).astype(np.uint32).reshape(-1)
    return np.concatenate([bits, bits | 1 << 31]).view(np.float32)


def where_things_change() -> np.ndarray:
    """Every 65537th float, and more of them where the functions switch from one form to another."""
    bits = np.arange(0, 1 << 32, 65537, dtype=np.uint64).astype(np.uint32)
    spans = ((-151, 129), (-105, 89), (-1, 1), (0.5, 2), (0.99, 1.01), (0.6, 0.7), (-11, 11), (-4.1, 4.1), (0.7, 0.8))
    return np.concatenate([bits.view(np.float32), *(np.linspace(a, b, 4001, dtype=np.float32) for a, b in spans)])


def applied(name: str, x: np.ndarray) -> np.ndarray:
    """One of the functions as kernels call it, compiled."""
    import numba as nb

    function, y = numba.helpers()[name], np.empty_like(x)

    @nb.njit
    def apply(x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] = function(x[i])

    apply(x, y)
    return y


def exactly(name: str, x: float) -> Any:
    """A value with 80 bits more than its argument needs."""
    if not math.isfinite(x) or (name.startswith("log") and x <= 0):
        return mpmath.mpf(float(in_float64(name)(np.float64(x))))
    with mpmath.workprec(240 if name == "sin" else 140):
        if name in ("exp", "exp2") and abs(x) > 300:  # mpmath knows no overflow
            return mpmath.mpf(0 if x < 0 else "inf")
        exact = {"exp2": lambda v: mpmath.mpf(2) ** v, "log2": lambda v: mpmath.log(v, 2)}
        return exact.get(name, getattr(mpmath, name, None))(mpmath.mpf(x))


def in_float64(name: str) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64]) if name == "erf" else getattr(np, name)


def units_off(x: np.ndarray, found: np.ndarray, exact: list[Any] | np.ndarray) -> float:
    """The largest error in units in the last place of the exact values; all that is special has to be the same."""
    with np.errstate(all="ignore"):
        want = np.array([float(v) for v in exact]).astype(np.float32)
    special = ~np.isfinite(want)
    np.testing.assert_array_equal(found[special], want[special])
    errors = [
        float(abs(float(f) - e)) / float(np.spacing(abs(w)))
        for f, e, w in zip(found[~special], np.asarray(exact, object)[~special], want[~special], strict=True)
    ]
    return max(errors)


@needs_numba
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_as_exact_as_they_say_at_every_exponent(name: str) -> None:
    x = every_exponent()
    with np.errstate(all="ignore"):
        exact = [exactly(name, float(v)) for v in x]
    assert units_off(x, applied(name, x), exact) <= fastmath.ULP[name]


@needs_numba
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_as_exact_as_they_say_in_between(name: str) -> None:
    x = where_things_change()
    with np.errstate(all="ignore"):
        exact = in_float64(name)(x.astype(np.float64))
    assert units_off(x, applied(name, x), exact) <= fastmath.ULP[name]


@needs_numba
@pytest.mark.parametrize("name", ["sin", "tanh", "erf"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    assert np.signbit(applied(name, zeros)).tolist() == [False, True]


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_plain_python_too(name: str) -> None:
    x = every_exponent()[::97]
    with np.errstate(all="ignore"):
        found = np.array([fastmath.FUNCTIONS[name](v) for v in x])
        exact = in_float64(name)(x.astype(np.float64))
    assert units_off(x, found, exact) <= fastmath.ULP[name]


def test_a_maximum_knows_nan() -> None:
    nan = np.float32(np.nan)
    assert np.isnan([fastmath.maximum(np.float32(1), nan), fastmath.maximum(nan, np.float32(1))]).all()
    assert fastmath.maximum(np.float32(1), np.float32(2)) == 2


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
        (k.read(numbers(4), r0).alu(Ops.POW, k.read(numbers(4), r0)), "calls"),
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


@needs_numba
def test_machine_code_that_holds_older_functions_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def kernel(p0, start, stop):\n    for r0 in range(start, stop):\n        p0[uintp(r0)] = float32(4.0)"

    def files() -> int:
        return len([p for p in numba.cache_folder().glob("*.py") if "float32(4.0)" in p.read_text()])

    numba.compiled(text)
    assert files() == 1
    with monkeypatch.context() as patch:
        patch.setattr(numba, "_version", lambda: b"other functions")
        numba.compiled.cache_clear()
        numba.compiled(text)
    numba.compiled.cache_clear()
    assert files() == 2


def _doubled(seed: float) -> str:
    body = f"p0[uintp(r0)] = p0[uintp(r0)] * float32({seed})"
    return f"def kernel(p0, start, stop):\n    for r0 in range(start, stop):\n        {body}"


@needs_numba
@pytest.mark.parametrize("kind", ["a file", "a folder in a file", "damaged", "cut off", "full"])
def test_a_folder_that_fails_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    text, out = _doubled(2.0 + len(kind)), np.ones(3, np.float32)
    folder = tmp_path / "kept"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder / "below" if kind == "a folder in a file" else folder))
    if kind.startswith("a f"):
        folder.write_text("no folder")
    else:
        importlib.import_module("numba.core.config").reload_config()  # numba reads its variables when it compiles
        function = numba._on_disk(text)
        function(out, 0, 0)  # compiles, computes nothing
        files = numba.machine_code(text, function)
        assert len(files) == 2
        for path in files:
            if kind != "full":
                path.write_bytes(b"\xfa" * 999 if kind == "damaged" else path.read_bytes()[:50])
    if kind == "full":

        def no_room(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", no_room)
        text = _doubled(99.0)
    numba.warn_once.cache_clear()
    kernel = numba.Kept(text) if kind in ("damaged", "cut off") else None
    with pytest.warns(RuntimeWarning, match="so this process compiles its own"):
        kernel = kernel or numba.Kept(text)
        kernel(out, 0, 2)
    factor = float(text.rsplit("(", 1)[1].rstrip(")"))
    assert out.tolist() == [factor, factor, 1]
    kernel(out, 2, 3)
    assert out.tolist() == [factor, factor, factor]
    if kind in ("damaged", "cut off"):  # another process finds none of it, and makes it again
        monkeypatch.delitem(sys.modules, numba._name(text))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            numba.Kept(text)(out, 0, 3)
        assert out.tolist() == [factor * factor] * 3


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


@needs_numba
def test_a_factor_that_costs_something_is_compiled_and_its_product_left_to_blas() -> None:
    k, (r, c, s) = Kernel(), ranges(5, 7, 6, reduce=1)
    x, scale, w = numbers(5, 6), numbers(5) + 9, numbers(6, 7)
    power = k.read(x, r * 6 + s).alu(Ops.EXP2) * k.read(scale, r).alu(Ops.RECIPROCAL)
    sink = k.sink(35, (power * k.read(w, s * 7 + c)).reduce(Ops.ADD, s), r * 7 + c, (r, c))
    text = numba.program_text(sink)
    assert text.count("exp2(") == 1 and "start, stop" in text and text.count("np.matmul") == 1
    assert text.index("float32(1.0)/p2") < text.index("for R2")  # the row's factor is part of the compiled step
    found = run(sink, np.empty((5, 7), np.float32), x, scale, w)
    np.testing.assert_allclose(found, np.exp2(x) / scale[:, None] @ w, rtol=1e-4)


# ** random kernels and graphs **


def in_python(text: str) -> Any:
    """A lowered text as plain Python: the same program without a compiler, which takes half a second a kernel."""
    names: dict[str, Any] = {n: getattr(np, n) for n in ("bool_", "empty", "float32", "float64", "inf", "nan")}
    names |= {n: getattr(np, n) for n in ("reciprocal", "sqrt", "trunc")} | fastmath.FUNCTIONS
    names["uintp"] = unsigned
    exec(text, names)
    return names[text[len("def ") : text.index("(")]]


def unsigned(i: int) -> int:
    """An unsigned index; what would wrap around is an error here."""
    assert i >= 0
    return i


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "compiled", in_python)


def compared(sink: UOp, arrays: list[np.ndarray]) -> None:
    judge, got = ([x.copy() for x in arrays] for _ in range(2))
    loops.compile_kernel(sink)(judge, {})
    with np.errstate(all="ignore"):
        numba.bind(sink, got, {})()
    np.testing.assert_allclose(got[0], judge[0], rtol=1e-4)


@needs_numba
@pytest.mark.usefixtures("no_compiler")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_random_kernels_have_the_values_of_loops(rng: random.Random) -> None:
    compared(*KernelMaker(rng, dtypes.float32).make())


@needs_numba
@pytest.mark.parametrize("seed", range(8))
def test_random_kernels_have_the_values_of_loops_when_compiled(seed: int) -> None:
    compared(*KernelMaker(random.Random(seed), dtypes.float32).make())


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("cpu", ["numpy", "loops", pytest.param("numba", marks=needs_numba)])
@settings(examples(60), suppress_health_check=list(HealthCheck))
@given(program=programs(most=14))
def test_random_graphs_have_the_values_of_arrays(cpu: str, program: Program) -> None:
    _, outputs = program.build()
    with Context(CPU=cpu):
        found = [Tensor.from_uop(u) for u, _ in outputs]
        Tensor.realize(*found)
    for t, (_, want) in zip(found, outputs, strict=True):
        np.testing.assert_allclose(t.numpy(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("cpu", ["numpy", pytest.param("numba", marks=needs_numba)])
@settings(examples(40), suppress_health_check=list(HealthCheck))
@given(program=programs(most=10))
def test_random_graphs_that_are_fused_as_far_as_it_goes_have_the_values_of_arrays(cpu: str, program: Program) -> None:
    _, outputs = program.build()
    found = [Tensor.from_uop(u) for u, _ in outputs]
    with Context(CPU=cpu):
        run_linear(plan(*found, policies=Policies(fusion=AllLegal())))
    for t, (_, want) in zip(found, outputs, strict=True):
        np.testing.assert_allclose(t.numpy(), want, rtol=1e-3, atol=1e-3)


def test_a_sum_before_the_loops_is_whole_in_each_part() -> None:
    k, (r0, r1) = Kernel(), ranges(6, 4, reduce=1)
    a, b = numbers(4), numbers(6)
    sink = k.sink(6, k.read(b, r0) + k.read(a, r1).reduce(Ops.ADD, r1), r0, (r0,))
    kernel, out = in_python(lowered.program_text(sink)), np.zeros(6, np.float32)
    for start, stop in ((0, 2), (2, 6)):
        kernel(out, b, a, start, stop)
    np.testing.assert_allclose(out, b + a.sum(), rtol=1e-6)


# ** functions found in kernels **


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf"])
def test_what_tensors_are_made_of_is_found_again(name: str) -> None:
    x = Tensor.empty(70, 3)
    kernel = plan(getattr(x * 2 + 1, name)() * 3).linear.src[0].src[0]
    text = lowered.program_text(kernel)
    assert f" {name}(" in text and len(text.splitlines()) <= 5
    assert not {"exp2", "log2", "reciprocal"} & set(text.replace("(", " ").split())


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin"])
def test_gradients_share_parts_of_functions(name: str, no_compiler: None) -> None:
    """The gradient of erf reads an exponential inside of it, whose argument is inside of it as well."""
    x = Tensor(numbers(3, 5) * np.float32(0.1) + np.float32(2)).realize()
    found = []
    for cpu in ("loops", "numba"):
        with Context(CPU=cpu):
            y = getattr(x, name)()
            [g] = (y * y).sum().gradient(x)
            Tensor.realize(y, g)
            found.append((y.numpy(), g.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


@needs_numba
def test_what_is_compared_for_equality_has_the_same_bits_everywhere(no_compiler: None) -> None:
    """The gradient of a maximum asks which values equal it; they are computed again, by whatever backend."""
    x = Tensor(numbers(4, 3, 4) * np.float32(0.37)).realize()
    found = []
    for cpu in ("numpy", "numba"):
        with Context(CPU=cpu):
            y = x.tanh()
            z = Tensor.cat(y, y * 2, dim=1)  # a maximum over rows that is left to NumPy
            [g] = ((z.max(1, keepdim=True) * z).sum() * 2).gradient(x)
            linear = g.schedule_linear(g)
            assert needs_same_bits(linear) == (cpu == "numba")
            found.append(g.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_what_somebody_else_reads_stays() -> None:
    x = Tensor.empty(70)
    e = (x * (1 / math.log(2))).exp2()  # as in exp, and read on its own
    text = lowered.program_text(plan(x.tanh() + (e + 1).log() * x.exp()).linear.src[0].src[0])
    assert text.count("exp(") == 1 and "tanh(" in text and "log(" in text


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
