"""Kernels whose loops compute the same over and over: counted before anything is written down, and refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from benchmarks.libs import Ours
from benchmarks.workloads import SMALL, small
from tinysched import Context, Tensor, capture, plan, run_linear
from tinysched.errors import RunError
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime import cuda, linear, loops, numpy
from tinysched.runtime.cost import MOST_OPS, cost_of
from tinysched.runtime.nest import MOST_REPEATED, Block, If, Loop, Store, nest_of
from tinysched.runtime.repeats import repeated, total
from tinysched.schedule.policy import AllLegal, Policies
from tinysched.trace.trace import Trace

FUSED = Policies(fusion=AllLegal())
COUNTED = ("sdpa_causal", "mlp_train_sgd", "mnist_fwd", "movement", "argmax_topk", "batchnorm_train", "gpt2_small_fn")
ENDLESS = ("gpt_tiny", "gpt2_small")


def kernels(name: str, policies: Policies = FUSED) -> list[UOp]:
    calls = plan(*small(name, Ours()), policies=policies).linear.src
    return list(dict.fromkeys(c.src[0] for c in calls if c.src[0].op is Ops.SINK))


def statements(block: Block) -> int:
    return sum(statements(s.body) if isinstance(s, (Loop, If)) else not isinstance(s, Store) for s in block)


def network(x: Tensor, layers: int = 6) -> Tensor:
    """Each softmax reads its argument in three loops, so that a layer's kernel repeats that before it."""
    for _ in range(layers):
        x = (x @ x.T).softmax(-1) @ x
    return x


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_is_what_stands_in_the_nest(name: str) -> None:
    for sink in kernels(name):
        assert total(sink, lambda u: 1, lambda r: 1) == statements(nest_of(sink))


def test_operations_are_those_of_the_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = kernels("mlp_train_sgd")
    exact = [cost_of(sink) for sink in sinks]
    cost_of.__globals__["cost_by_values"].cache_clear()
    monkeypatch.setitem(cost_of.__globals__, "MOST_REPEATED", -1)
    assert [cost_of(sink) for sink in sinks] == exact
    cost_of.__globals__["cost_by_values"].cache_clear()
    assert max(cost.ops for cost in exact) > 100_000


def test_the_default_fusion_repeats_nothing() -> None:
    for name in SMALL:
        assert all(repeated(sink) == 0 for sink in kernels(name, Policies())), name


@pytest.mark.parametrize("name", ENDLESS)
def test_networks_fused_without_end_are_refused_at_once(name: str) -> None:
    [sink] = [s for s in kernels(name) if repeated(s) > MOST_REPEATED]
    start = time.process_time()
    for text in (nest_of, loops.program_lines, numpy.program_lines, cuda.program, linear.program_text):
        with pytest.raises(RunError, match="repeated statements"):
            text(sink)
    assert cost_of(sink).ops == MOST_OPS
    assert time.process_time() - start < 10, "minutes, if it were written down"


@pytest.mark.parametrize("cpu", ["loops", "numpy", "auto"])
def test_a_refused_run_leaves_everything_as_it_was(cpu: str) -> None:
    values = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    x, before = Tensor(values).realize(), Tensor.full((4, 5), 2.0).contiguous().realize()
    want = network(Tensor(values)).numpy()
    before.assign(before + 1)
    y = network(x)
    fused = plan(before, y, policies=FUSED)
    assert any(repeated(c.src[0]) > MOST_REPEATED for c in fused.linear.src)
    with Context(CPU=cpu), pytest.raises(RunError, match=r"\d+ reductions within one another") as e:
        run_linear(fused)
    assert "whose output has shape (4, 5), for " in e.value.where and "made at test_runtime_repeats.py" in e.value.where
    assert "x = (x @ x.T).softmax(-1) @ x" in e.value.where
    assert "default fusion" in e.value.help and ".contiguous()" in e.value.help
    assert np.array_equal(x.numpy(), values)
    assert np.array_equal(before.numpy(), np.full((4, 5), 3.0)), "written once, and not lost"
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-4)


def test_the_explorer_shows_the_sentence_in_place_of_the_program() -> None:
    x = Tensor.empty(4, 5)
    trace = capture(network(x), policies=FUSED)
    refused = [k for k in trace.schedules[0].kernels if k.ops > 10**9]
    assert refused
    for k in refused:
        assert k.loops.startswith("# no program for a kernel of ") and "\n# help: " in k.loops
        assert k.program == k.loops and k.cuda.startswith("// no program for a kernel of ")
    assert Trace.from_json(trace.to_json()).schedules[0].kernels == trace.schedules[0].kernels


def test_a_value_in_between_mends_it() -> None:
    x = Tensor(np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)).realize()
    y = network(network(x, 1).contiguous(), 1)
    run_linear(plan(y, policies=FUSED))
    np.testing.assert_allclose(y.numpy(), network(x, 2).numpy(), rtol=1e-4)
