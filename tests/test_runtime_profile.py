"""Measuring: profiles on scratch copies, the limits of the machine, and variants of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.test_runtime_kernels import numbers
from tinysched import Context, Tensor, plan
from tinysched.errors import ArgumentError
from tinysched.ir.observe import Observer, watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime import tuning
from tinysched.runtime.limits import Limits, machine_limits
from tinysched.runtime.profile import profile
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
    assert len(str(found).splitlines()) == len(found.kernels) + 4


def test_profiles_need_a_run() -> None:
    with pytest.raises(ArgumentError, match="repeats=0"):
        profile(plan(filled(2) + 1), repeats=0)


def test_limits_are_measured_once() -> None:
    limits = machine_limits()
    assert limits is machine_limits() and limits.bandwidth > 1e8 and limits.flops > 1e8
    assert Limits(10.0, 100.0).share(2.0, moved=10, ops=100) == 0.5


class Watcher(Observer):
    def __init__(self) -> None:
        self.tries: list[dict[str, Any]] = []

    def on_event(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "beam":
            self.tries.append(data)


def with_options(t: Tensor, *opts: str) -> Tensor:
    return Tensor.from_uop(UOp(Ops.CONTIGUOUS, t.dtype, (t.uop,), opts))


def kernel_of(t: Tensor) -> UOp:
    return plan(t).linear.src[0].src[0]


def test_beam_tries_variants_on_copies_and_keeps_the_fastest() -> None:
    tuning.clear()
    x = filled(300, 401)
    want = x.numpy() * 3 + 1
    with Context(BEAM=3), watching(watcher := Watcher()):
        x.assign(x * 3 + 1).realize()
        assert np.allclose(x.numpy(), want)
        assert len(watcher.tries) == 3 and sum(t["is_best"] for t in watcher.tries) == 1
        again = filled(300, 401)
        again.assign(again * 3 + 1).realize()
        assert len(watcher.tries) == 3  # a kernel that is the same is not measured again
        chosen = [t["opts"] for t in watcher.tries if t["is_best"]]
        kernel = kernel_of(filled(300, 401) * 3 + 1)
        assert tuning.applied_opts(kernel) in ((), *chosen)
    tuning.clear()


@pytest.mark.parametrize("opts", [("block=64",), ("block=0", "lowering=numpy"), ("lowering=numba",)])
def test_options_are_applied(opts: tuple[str, ...]) -> None:
    x = filled(70, 1000)
    y = with_options(x.exp() * 2 + x, *opts)
    assert tuning.applied_opts(kernel_of(y)) == opts
    np.testing.assert_allclose(y.numpy(), np.exp(x.numpy()) * 2 + x.numpy(), rtol=1e-4, atol=1e-5)


def test_unknown_options_are_errors() -> None:
    y = with_options(filled(4) + 1, "unroll=4")
    with pytest.raises(ArgumentError, match="'unroll=4' is no option of a kernel"):
        y.realize()
