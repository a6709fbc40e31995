"""Limits: kernels that may have only so many buffers are cut, and hundreds of inputs stay right and cheap."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graphs import Program, examples, programs
from tinysched import Context, Tensor, clear_caches, plan
from tinysched.errors import ScheduleError
from tinysched.ir.decision import Decision, Reason, Verdict
from tinysched.ir.observe import watching

MANY = 300
ARRAYS = [np.random.default_rng(k).standard_normal((4, 5)).astype(np.float32) for k in range(MANY)]


@pytest.fixture(scope="module")
def inputs() -> list[Tensor]:
    return [Tensor(a).realize() for a in ARRAYS]


def most_buffers(*tensors: Tensor) -> int:
    """The most buffers of one kernel."""
    return max(len(call.src) - 1 for call in plan(*tensors).linear.src)


def added(xs):
    return reduce(lambda a, b: a + b, xs)


def products(xs):
    return [x @ y.T for x, y in pairwise(xs)]


SUMS: dict[str, tuple[Callable, Callable]] = {
    "sum": (added, added),
    "sum of all": (lambda xs: added(xs).sum(), lambda xs: added(xs).sum()),
    "stacked": (lambda xs: Tensor.stack(*xs).sum(0), added),
    "joined": (lambda xs: Tensor.cat(*xs), np.concatenate),
    "row sums": (lambda xs: added([x.sum(1) for x in xs]), lambda xs: added([x.sum(1) for x in xs])),
    "products": (lambda xs: added(products(xs)), lambda xs: added(products(xs))),
    "largest": (lambda xs: reduce(Tensor.maximum, xs).sum(), lambda xs: np.maximum.reduce(xs).sum()),
    "chosen": (lambda xs: reduce(lambda a, b: (a < b).where(a, b), xs), np.minimum.reduce),
    "padded": (
        lambda xs: added([x.pad(((0, k % 3), (0, 0)))[:4] for k, x in enumerate(xs)]),
        added,
    ),
}  # fmt: skip


@pytest.mark.parametrize("limit", [4, 8, 31])
@pytest.mark.parametrize("name", SUMS)
def test_hundreds_of_inputs(name, limit, inputs):
    ours, numpys = SUMS[name]
    with Context(MAX_KERNEL_BUFFERS=limit):
        found = ours(inputs)
        assert most_buffers(found) <= limit
        np.testing.assert_allclose(found.numpy(), numpys(ARRAYS), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("limit, least", [(31, 11), (8, 50), (4, 150)])
def test_no_more_kernels_than_it_takes(limit, least, inputs):
    """Every kernel but the first adds limit - 2 more inputs to the sum so far."""
    assert least >= -(-(MANY - 1) // (limit - 2))
    with Context(MAX_KERNEL_BUFFERS=limit):
        assert len(plan(added(inputs)).linear.src) == least


def test_without_a_limit_one_kernel_takes_them_all(inputs):
    assert len(plan(added(inputs)).linear.src) == 1 and most_buffers(added(inputs)) == MANY + 1


def test_reductions_are_cut_off_too(inputs):
    def product(xs):
        return reduce(lambda a, b: a * b, xs)

    for limit in (8, 6, 4, 3):
        with Context(MAX_KERNEL_BUFFERS=limit):
            found = product(inputs[:5]).sum(1) + product(inputs[5:10]).sum(1)
            assert most_buffers(found) <= limit
            wanted = product(ARRAYS[:5]).sum(1) + product(ARRAYS[5:10]).sum(1)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_writes_are_cut_too(inputs):
    x = Tensor.zeros(4, 5).contiguous().realize()
    x.assign(added(inputs[:20]) + x)
    with Context(MAX_KERNEL_BUFFERS=5):
        assert most_buffers(x) <= 5
        np.testing.assert_allclose(x.numpy(), added(ARRAYS[:20]), rtol=1e-4, atol=1e-5)


def test_a_limit_that_no_kernel_can_keep(inputs):
    with (
        Context(MAX_KERNEL_BUFFERS=2),
        pytest.raises(ScheduleError, match="a kernel needs 3 buffers, and a kernel may have 2") as error,
    ):
        plan(added(inputs[:4]))
    assert error.value.help == "MAX_KERNEL_BUFFERS=3 or more"


def test_each_cut_is_a_decision(inputs):
    found: list[Decision] = []

    class Notes:
        def on_decision(self, decision: Decision) -> None:
            found.append(decision)

        def __getattr__(self, name: str):
            return lambda *args: None

    with Context(MAX_KERNEL_BUFFERS=8), watching(Notes()):
        planned = plan(added(inputs[:40]))
    cuts = [d for d in found if d.reason is Reason.BUFFER_LIMIT]
    assert len(planned.linear.src) == 7 and cuts
    assert all(d.verdict is Verdict.LIMITED and d.evidence.buffers > d.evidence.limit == 8 for d in cuts)


def test_the_limit_is_part_of_the_cache_key(inputs):
    clear_caches()
    counts = []
    for limit in (0, 8, 0, 5):
        with Context(MAX_KERNEL_BUFFERS=limit):
            counts.append(len(plan(added(inputs[:10])).linear.src))
    assert counts[0] == counts[2] == 1 and 1 < counts[1] < counts[3]


@examples(60)
@given(programs(most=16), st.integers(4, 7))
def test_any_program_keeps_the_limit(program: Program, limit: int):
    _graph, outputs = program.build()
    tensors = [Tensor.from_uop(u) for u, _ in outputs]
    with Context(MAX_KERNEL_BUFFERS=limit):
        if planned := plan(*tensors).linear.src:
            assert max(len(call.src) - 1 for call in planned) <= limit
        for t, (_, wanted) in zip(tensors, outputs):
            np.testing.assert_allclose(t.numpy(), wanted, rtol=1e-3, atol=1e-3)


def test_scale_is_about_linear():
    """Twice as many inputs under a limit take about twice the time (best of three, threefold slack)."""

    def seconds(count: int) -> float:
        xs = [Tensor(ARRAYS[k % MANY]).realize() for k in range(count)]
        best = float("inf")
        for _ in range(3):
            clear_caches()
            started = time.process_time()
            with Context(MAX_KERNEL_BUFFERS=8):
                plan(added(xs))
            best = min(best, time.process_time() - started)
        return best

    assert seconds(800) < 12 * seconds(200)
