"""The data and the words of the views below the graph: ranges, rewrites, bytes, timeline, values."""

import tracemalloc

import hypothesis
import numpy as np
import pytest

from tests.graphs import Program, examples, programs
from tinysched import Tensor, capture
from tinysched.trace.document import Ranges
from tinysched.trace.trace import Trace
from tinysched.trace.values import value_of_array
from tinysched.views import ranges, roofline, text
from tinysched.views.panels import PANELS


@pytest.fixture(scope="module")
def attention() -> Trace:
    q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
    scores = q @ k.transpose(-2, -1)
    out = scores.softmax(-1) @ v
    return capture(out, title="attention", inputs={"scores": scores}, run=True, values=True)


def test_every_view_has_words(attention: Trace) -> None:
    for panel in PANELS:
        assert panel.text(attention, attention.schedules[0]).strip(), panel.id


# ** ranges **


def test_the_walk_says_what_readers_want(attention: Trace) -> None:
    s = attention.schedules[0]
    rows = {row[1]: row for row in ranges.rows(attention, s)}
    row = rows["`scores`"]
    assert row[2].count(" at [") == 2 and row[2].partition(";")[0] != row[2].partition(";")[2].strip()
    assert row[-1] == "all" and "`scores`" in text.walk(attention, s)


@pytest.mark.parametrize("program", [Program((("binary", 0, 1, 5), ("reduce", 0, 0, 3), ("move", 0, 0, 2)), (0,))])
def test_what_readers_want_is_what_the_pass_went_by(program: Program) -> None:
    _check(program)


@hypothesis.given(programs())
@examples(25)
def test_on_random_programs(program: Program) -> None:
    _check(program)


def _check(program: Program) -> None:
    """Where the pass gave the indices of the readers as evidence, the view shows the same."""
    _graph, outputs = program.build()
    s = capture([Tensor.from_uop(u) for u, _ in outputs]).schedules[0]
    for stage in s.stages:
        if stage.name != "rangeify":
            continue
        for v in ranges.visits(s):
            step = stage.steps[v.step]
            assert isinstance(step, Ranges) and step.node == v.node
            for k in v.decided:
                evidence = getattr(stage.steps[k], "evidence", None) or {}
                if "consumers" in evidence and len(evidence["indices"]) == len(v.wanted):
                    assert [tuple(i) for i in evidence["indices"]] == [index for _, index in v.wanted]


# ** rewrites **


def test_a_rule_travels_with_its_code(attention: Trace) -> None:
    rules = {r.name: r for r in attention.rules if r.file}
    assert rules
    for name, rule in rules.items():
        assert f"def {name}" in rule.code or f"def _{name}" in rule.code, name
        assert rule.code.startswith("@rule"), name


# ** bytes **


def test_fused_against_eager_and_the_limits(attention: Trace) -> None:
    s = attention.schedules[0]
    apart, now = roofline.eager(s), roofline.fused(s)
    assert apart is not None and apart.kernels > now.kernels and apart.bytes > now.bytes
    for p in roofline.points(s):
        assert p.seconds and p.least_seconds is not None and p.bound in ("memory", "arithmetic")
        assert p.share == p.least_seconds / p.seconds
    assert "copied and" in text.traffic(s) and "times the bytes" in text.traffic(s)


def test_without_a_run_there_are_no_times() -> None:
    s = capture(Tensor([1.0, 2.0]).realize() * 3).schedules[0]
    assert roofline.points(s)[0].seconds is None and "no times" in text.timeline(s)


def test_the_timeline_is_the_sum_of_the_times(attention: Trace) -> None:
    s = attention.schedules[0]
    assert s.run is not None
    last = text.timeline(s).splitlines()[-1].split()
    assert float(last[-1].replace(",", "")) == pytest.approx(sum(s.run.seconds) * 1e6, abs=1)


# ** values **


@pytest.mark.parametrize("shape", [(1, 10), (0, 3), (), (3,), (2, 3, 4), (1, 1)])
def test_values_of_every_shape(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32)
    v = value_of_array(array, shape)
    assert v.shape == shape
    if array.size:
        assert (v.min, v.max, v.mean) == (0.0, array.size - 1, array.mean()) and sum(v.histogram) == array.size
        assert v.sample[0][0] == 0 and v.sample[-1][-1] == array.size - 1
    else:
        assert v.sample == () and v.min is None


def test_a_sample_goes_from_the_first_to_the_last_and_says_which() -> None:
    array = np.arange(60_000, dtype=np.int32)
    v = value_of_array(array, (200, 300))
    assert v.rows[0] == 0 and v.rows[-1] == 199 and v.columns[0] == 0 and v.columns[-1] == 299
    assert all(v.sample[i][j] == r * 300 + c for i, r in enumerate(v.rows) for j, c in enumerate(v.columns))


def test_numbers_that_are_none_are_counted() -> None:
    v = value_of_array(np.array([np.nan, np.inf, -np.inf, 1.0, 3e38, -3e38], np.float32), (6,))
    assert (v.nan, v.inf, v.max) == (1, 2, float(np.float32(3e38))) and sum(v.histogram) == 3
    assert value_of_array(np.array([np.nan], np.float32), (1,)).min is None


def test_a_large_value_is_not_copied() -> None:
    array = np.ones((1 << 24,), np.float32)
    tracemalloc.start()
    value_of_array(array, (1 << 12, 1 << 12))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < array.nbytes / 5
