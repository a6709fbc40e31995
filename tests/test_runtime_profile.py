"""Measuring: profiles on scratch copies, the limits of the machine, and variants of programs."""

from __future__ import annotations

import gc
import random
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinysched
from tests.test_runtime_kernels import numbers
from tests.test_runtime_random import KernelMaker
from tinysched import Context, Device, Tensor, capture, plan, profile, run_linear
from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError, RunError
from tinysched.ir.observe import Observer, watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime import linear as runner
from tinysched.runtime import numba, numpy, tuning
from tinysched.runtime.cost import Cost
from tinysched.runtime.limits import Limits, machine_limits
from tinysched.runtime.linear import program_text
from tinysched.runtime.nest import stores_of
from tinysched.runtime.profile import KernelProfile, Profile
from tinysched.schedule.policy import Eager, Policies


def filled(*shape: int) -> Tensor:
    return Tensor(numbers(*shape)).realize()


def test_a_profile_changes_nothing() -> None:
    x = filled(64, 64)
    before = x.numpy().copy()
    x.assign(x * 2)
    planned = plan(x)
    rounds: list[tuple[int, int]] = []
    found = profile(planned, repeats=3, progress=lambda done, of: rounds.append((done, of)))
    assert rounds == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [k.cost.ops for k in found.kernels] == [64 * 64] and found.kernels[0].bandwidth > 0 < found.kernels[0].flops
    x.realize()  # the plan still holds
    assert (x.numpy() == before * 2).all()


def test_fused_against_eager_in_turns() -> None:
    x = filled(256, 512)
    y = ((x + 1).exp() * x).sum(1)
    fused, eager = plan(y), plan(y, policies=Policies(fusion=Eager()))
    found = profile(fused, eager, repeats=2)
    assert len(found.others) == 1 and found.others[0] > 0
    assert "compared with" in str(found) and "of limit" in str(found) and "GFLOP/s" in str(found)
    assert len(str(found).splitlines()) == len(found.kernels) + 4 + found.is_disturbed


def test_a_profile_commits_nothing_and_frees_its_copies() -> None:
    x = filled(64, 32)
    y = (x + 1).sum(0)
    linear = y.schedule_linear(y)
    gc.collect()  # what other tests have left
    before = Device["NUMPY"].allocated
    profile(linear, repeats=1)
    gc.collect()
    assert y.uop.base.op is not Ops.BUFFER and Device["NUMPY"].allocated == before
    np.testing.assert_allclose(y.numpy(), x.numpy().sum(0) + 64, rtol=1e-5)


def test_each_run_starts_from_the_values_that_are_there() -> None:
    """Also of memory that the schedule writes: the copies are made before the first run, and start as it is now."""
    x = filled(5, 4)
    x.assign(x * 2)
    seen = []
    real = runner._run

    def watched(job: Any) -> float:
        seen.append(job.buffers[0].copyout())
        return real(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_run", watched)
        profile(plan(x), repeats=1)
    assert (seen[0] == numbers(5, 4).reshape(-1)).all()
    assert (x.numpy() == numbers(5, 4) * 2).all()


def test_variables_are_bound_in_profiles() -> None:
    v = tinysched.Variable("n", 1, 8)
    x = filled(8, 16)
    y = (x[: v.bind(3)] * 2).sum()
    planned = plan(y)
    assert (
        profile(planned, repeats=1).kernels[0].cost.ops
        == profile(planned, repeats=1, var_vals={"n": 3}).kernels[0].cost.ops
    )
    assert (
        profile(planned, repeats=1, var_vals={"n": 6}).kernels[0].cost.ops
        > profile(planned, repeats=1).kernels[0].cost.ops
    )


def test_interrupts_come_between_kernels_and_change_nothing() -> None:
    x = filled(16, 8)
    y = x.softmax(-1)
    planned = plan(y)
    ran: list[str] = []
    real = runner._run

    def interrupted(job: Any) -> float:
        if ran:
            signal.raise_signal(signal.SIGINT)
        ran.append(job.name)
        return real(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            profile(planned)
    assert len(ran) == 2  # the kernel that it came in has ended
    assert y.uop.base.op is not Ops.BUFFER and profile(planned, repeats=1).seconds > 0


def test_no_memory_for_the_copies_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(filled(64, 64) + 1)

    def full(size: int, dtype: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Device["NUMPY"], "new_array", full)
    with pytest.raises(RunError, match=r"no memory for 16,384 bytes on NUMPY, where [\d,]+ are in use"):
        profile(planned)


def test_a_profile_says_when_others_had_the_machine() -> None:
    kernel = KernelProfile("E_4", 3e-3, 1e-3, Cost(4, 16, 16), ("lowering=numba",))
    calm = kernel._replace(seconds=1.1e-3)
    limits = Limits(1e9, 1e10)
    assert Profile((calm,), limits).is_disturbed is False
    text = str(Profile((kernel,), limits, (6e-3,)))
    assert "the machine was busy: the processor spent 1,000.0 us on it" in text
    assert "2.00 times as long" in text and "lowering=numba" in text


def test_profiles_need_a_run() -> None:
    with pytest.raises(ArgumentError, match="repeats=0"):
        profile(plan(filled(2) + 1), repeats=0)


def test_limits_are_measured_once() -> None:
    limits = machine_limits()
    assert limits is machine_limits() and limits.bandwidth > 1e8 and limits.flops > 1e8
    assert Limits(10.0, 100.0).share(2.0, moved=10, ops=100) == 0.5


# ** options **


class Watcher(Observer):
    def __init__(self) -> None:
        self.tries: list[dict[str, Any]] = []

    def on_event(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "beam":
            self.tries.append(data)


@pytest.fixture
def nothing_measured() -> Iterator[None]:
    tuning.clear()
    yield
    tuning.clear()


def kernel_of(t: Tensor) -> UOp:
    [call] = plan(t).linear.src
    return call.src[0]


@pytest.mark.parametrize("opts", [("block=64",), ("block=0", "lowering=numpy"), ("lowering=numba",), ("order=1,0",)])
def test_options_are_applied_without_another_kernel(opts: tuple[str, ...]) -> None:
    x = filled(70, 1000)
    y = (x.exp() * 2 + x).contiguous(arg=opts)
    linear = y.schedule_linear(y)
    [call] = linear.src
    assert call.src[0].arg.opts_to_apply == opts and call.src[0].arg.applied_opts == ()
    ran = run_linear(linear)
    [call] = ran.applied(linear).src
    assert call.src[0].arg.applied_opts == opts and call.src[0].arg.opts_to_apply is None
    np.testing.assert_allclose(y.numpy(), np.exp(x.numpy()) * 2 + x.numpy(), rtol=1e-4, atol=1e-5)


def test_the_program_that_is_shown_is_the_one_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    x = filled(70, 1000)
    y = (x.exp() * 2 + x).contiguous(arg=("block=7000", "order=1,0"))
    with Context(DEBUG=4):
        y.realize()
    shown = capsys.readouterr().out
    assert "block=7000 order=1,0" in shown and "for b0 in range(0, 1000, 100):" in shown
    trace = capture((filled(70, 1000).exp() * 2).contiguous(arg=("block=7000",)))
    assert "for b0 in range(0, 70, 7):" in trace.schedules[-1].kernels[0].program


@pytest.mark.usefixtures("nothing_measured")
def test_what_beam_has_found_is_the_program_that_is_shown() -> None:
    x = filled(70, 1000)
    with Context(BEAM=20):
        kernel = kernel_of(x.exp() * 2)
        (x.exp() * 2).realize()
        tries = tuning.tries_of(kernel)
        best = min(tries, key=lambda t: t.seconds).opts
        assert program_text(kernel) == tuning.program_text(kernel, best)
    assert {t.opts for t in tries} == set(tuning.variants(kernel, {}))
    assert len({tuning.program_text(kernel, t.opts) for t in tries}) > 2


def test_options_go_with_the_value_wherever_it_is_stored() -> None:
    x = filled(6, 5)
    inner = (x + 1).contiguous(arg=("block=0",))
    linear = plan(inner.sum(0) * inner.sum()).linear  # stored for its readers
    assert linear.src[0].src[0].arg.opts_to_apply == ("block=0",)
    before = x.numpy()
    x.assign((x * 2).contiguous(arg="order=1,0"))  # written to memory that is there
    linear = x.schedule_linear(x)
    assert [call.src[0].arg.opts_to_apply for call in linear.src] == [("order=1,0",)]
    assert (x.numpy() == before * 2).all()


def test_options_of_what_is_computed_already_change_nothing() -> None:
    x = filled(3, 4)
    assert x.contiguous(arg=("block=8",)).uop is x.uop
    once = (x + 1).contiguous()
    again = once.contiguous(arg=("block=8",))
    assert len(plan(again).linear.src) == 1 and (again.numpy() == x.numpy() + 1).all()


def test_gradients_flow_through_options() -> None:
    x = filled(3, 4)
    x.requires_grad = True
    (x * x).contiguous(arg=("block=8",)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)


@pytest.mark.parametrize("word", ["unroll=4", "block=", "lowering=loops", "order=0,2", "block=-1", "order="])
def test_unknown_options_are_errors_where_they_are_written(word: str) -> None:
    with pytest.raises(ArgumentError, match=f"'{word}' is no option of a kernel"):
        (filled(4) + 1).contiguous(arg=(word,))


def test_an_order_of_other_loops_is_an_error() -> None:
    y = (filled(4, 3) + 1).contiguous(arg=("order=0,2,1",))
    with pytest.raises(ArgumentError, match="order=0,2,1 does not fit the kernel E_4_3, which has 2 loops"):
        y.realize()


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_loops_in_another_order_give_the_same(rng: random.Random) -> None:
    sink, arrays = KernelMaker(rng, dtypes.int32).make()
    ranges = stores_of(sink)[0][1]
    order = tuple(rng.sample(range(len(ranges)), len(ranges)))
    want, got = ([a.copy() for a in arrays] for _ in range(2))
    with np.errstate(all="ignore"):
        numpy.bind(sink, want, {})()
        numpy.bind(tuning.reordered(sink, order), got, {})()
    np.testing.assert_array_equal(got[0], want[0])


# ** BEAM **


@pytest.mark.usefixtures("nothing_measured")
def test_beam_tries_variants_on_copies_and_keeps_the_fastest() -> None:
    x = filled(300, 401)
    want = x.numpy() * 3 + 1
    with Context(BEAM=4), watching(watcher := Watcher()):
        x.assign(x * 3 + 1)
        linear = x.schedule_linear(x)
        ran = run_linear(linear)
        np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)
        assert len(watcher.tries) == 4 and sum(t["is_best"] for t in watcher.tries) == 1
        assert any("order=1,0" in t["opts"] for t in watcher.tries)
        again = filled(300, 401)
        again.assign(again * 3 + 1).realize()
        assert len(watcher.tries) == 4  # a kernel that is the same is not measured again
    [best] = [t["opts"] for t in watcher.tries if t["is_best"]]
    assert ran.opts == (best,) and [t.opts for t in ran.tries[0]] == [t["opts"] for t in watcher.tries]
    info = ran.applied(linear).src[0].src[0].arg
    assert (info.applied_opts, info.beam) == (best, 4)


@pytest.mark.usefixtures("nothing_measured")
def test_the_tries_are_in_the_trace_and_survive_json() -> None:
    y = filled(30, 41) * 3 + 1
    with Context(BEAM=3):
        trace = capture(y, run=True)
    run = trace.schedules[-1].run
    assert run is not None and len(run.tries) == 1 and len(run.tries[0]) == 3
    assert run.opts[0] in [t.opts for t in run.tries[0]]
    assert type(trace).from_json(trace.to_json()).schedules[-1].run == run
    assert "ran with" in trace.to_text() and " ".join(run.opts[0]) in trace.to_text()


@pytest.mark.usefixtures("nothing_measured")
def test_a_realize_that_is_watched_tells_its_tries_too() -> None:
    x = filled(31, 7)
    with Context(BEAM=2):
        trace = capture(lambda: (x * 3 + 1).realize())
    assert [len(tries) for tries in trace.schedules[0].run.tries] == [2]


def test_without_a_choice_nothing_is_told() -> None:
    trace = capture(filled(30, 41) * 3 + 1, run=True)
    assert trace.schedules[-1].run.opts == () == trace.schedules[-1].run.tries


@pytest.mark.parametrize("cpu", ["numba", "auto"])
def test_the_choice_of_a_program_is_told(cpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    x, w = filled(64, 600), filled(600, 64)
    y = (x.tanh() @ w).relu()
    with Context(CPU=cpu, DEBUG=2):
        linear = y.schedule_linear(y)
        ran = run_linear(linear)
    assert all(o in (("lowering=numba",), ("lowering=numpy",)) for o in ran.opts)
    applied = [call.src[0].arg.applied_opts for call in ran.applied(linear).src]
    assert applied == list(ran.opts)
    assert f"ops {ran.opts[0][0]}\n" in capsys.readouterr().out


@pytest.mark.skipif(find_spec("numba") is None, reason="no numba; it is an extra")
def test_auto_tells_when_it_has_changed_its_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "HOT", 0.0)
    y = filled(200, 300).exp() * 2
    linear = y.schedule_linear(y)
    with Context(CPU="auto"):
        opts = [run_linear(linear).opts[0] for _ in range(2)]
    assert opts[-1] == ("lowering=numba",)
