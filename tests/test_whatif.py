"""What if: overrides by id, name and line, policies and passes of one's own, and two schedules side by side."""

import gc
from dataclasses import dataclass
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.graphs import Program, examples, programs
from tinysched import Context, Tensor, capture, clear_caches, compare, function, nn, plan, run_linear
from tinysched.errors import ArgumentError, ScheduleError, TraceError
from tinysched.ir.decision import Cost
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.limits import Limits
from tinysched.schedule.pipeline import PIPELINE
from tinysched.schedule.policy import AllLegal, BreadthFirst, Choice, Eager, MemoryAware, Policies
from tinysched.trace import Trace
from tinysched.trace.document import Line
from tinysched.trace.made import Made, text_of
from tinysched.trace.rebuild import Rebuilt
from tinysched.trace.whatif import Changes, again


def data(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)).realize()


def attention() -> tuple[Tensor, dict[str, Tensor]]:
    q, k, v = (data(2, 8, 4) for _ in range(3))
    scores = q @ k.transpose(1, 2)
    probs = scores.softmax(2)
    return probs @ v, {"q": q, "k": k, "v": v, "scores": scores, "probs": probs}


def kernels(trace: Trace) -> int:
    return len(trace.schedules[-1].kernels)


def attention_trace(**choices: Any) -> Trace:
    out, inputs = attention()
    return capture(out, inputs=inputs, title="attention", **choices)


# ** the same again **


def test_a_schedule_made_again_is_the_same() -> None:
    trace = attention_trace()
    again_ = again(trace).trace
    one, two = trace.schedules[0], again_.schedules[0]
    assert (one.nodes, one.kernels, one.buffers, one.order, one.memory) == (
        two.nodes, two.kernels, two.buffers, two.order, two.memory
    )  # fmt: skip
    assert one.stages[2:] == two.stages[2:] and again_.lines == trace.lines and again_.rules == trace.rules


def test_a_loaded_trace_is_scheduled_again_without_its_program() -> None:
    text = attention_trace().to_json()
    gc.collect()
    clear_caches()
    loaded = Trace.from_json(text)
    assert again(loaded).trace.schedules[0].kernels == loaded.schedules[0].kernels


def test_it_is_made_under_the_settings_it_was_made_under() -> None:
    with Context(REDUCEOP_SPLIT_THRESHOLD=16):
        trace = capture(data(8, 8).sum())
    assert kernels(trace) == 2 and trace.schedules[0].choices.settings == {"REDUCEOP_SPLIT_THRESHOLD": 16}
    assert kernels(again(Trace.from_json(trace.to_json())).trace) == 2
    assert kernels(again(trace, Changes(settings={"SPLIT_REDUCEOP": 0})).trace) == 1


def test_scheduling_again_touches_neither_cache_nor_memory() -> None:
    from tinysched.runtime.device import Device
    from tinysched.schedule.pipeline import schedule_cache

    trace = attention_trace()
    known, allocated = len(schedule_cache), Device["NUMPY"].allocated
    trace.with_overrides({"probs": "realize"})
    assert (len(schedule_cache), Device["NUMPY"].allocated) == (known, allocated)


@examples(20)
@hypothesis.given(programs(most=14))
def test_random_programs_come_back_from_json(program: Program) -> None:
    graph, outputs = program.build()
    trace = capture([Tensor.from_uop(u) for u, _ in outputs])
    loaded = Trace.from_json(trace.to_json())
    assert loaded == trace and graph.keep is not None
    for i in range(len(trace.schedules)):
        assert again(loaded, which=i).trace.schedules[i].kernels == trace.schedules[i].kernels


# ** overrides **


def test_a_name_a_tensor_a_line_and_an_id_mean_a_value() -> None:
    out, inputs = attention()
    trace = capture(out, inputs=inputs)
    s = trace.schedules[0]
    probs = inputs["probs"]
    node = max(i for i, n in enumerate(s.nodes) if n.name == "probs")
    line = trace.lines[s.nodes[node].lines[0]]
    wanted = kernels(trace) + 1
    assert kernels(trace.with_overrides({"probs": "realize"})) == wanted
    assert kernels(trace.with_overrides({probs: "realize"})) == wanted
    assert kernels(trace.with_overrides({probs.uop: "realize"})) == wanted
    assert kernels(trace.with_overrides({node: "realize"})) == wanted
    assert kernels(trace.with_overrides({f"{line.file}:{line.number}": "realize"})) > wanted  # every value of softmax
    assert kernels(capture(out, inputs=inputs, overrides={"probs": "realize"})) == wanted
    assert kernels(capture(out, inputs=inputs, overrides={probs: "realize"})) == wanted


def test_a_buffer_means_the_value_it_holds() -> None:
    """As tables call it; a Tensor of that name comes first."""
    trace = attention_trace()
    s = trace.schedules[-1]
    b = next(b for b, buffer in enumerate(s.buffers) if buffer.role == "intermediate" and buffer.name is None)
    by_buffer, by_node = (trace.with_overrides({key: "fuse"}) for key in (f"b{b}", s.buffers[b].node))
    assert by_buffer.schedules[-1].choices.overrides == by_node.schedules[-1].choices.overrides
    b0 = data(3, 4) * 2
    named = capture((b0.sum(0), b0.sum(1)), inputs={"b0": b0}).with_overrides({"b0": "realize"})
    assert "b0" in [buffer.name for buffer in named.schedules[-1].buffers]
    with pytest.raises(ArgumentError, match="b99"):
        trace.with_overrides({"b99": "fuse"})


def test_the_same_program_in_another_order() -> None:
    trace = attention_trace()
    other = trace.with_policies(Policies(order=MemoryAware(), fusion=Eager()))
    assert kernels(other) > kernels(trace)
    assert other.schedules[-1].choices.order == "MemoryAware()"
    assert compare(trace, other).same


def test_an_override_follows_its_node_through_prepare() -> None:
    """Prepare merges the reshapes below, so that the node in callify's body is another one in the walk."""
    x = data(4, 6)
    y = x.reshape(24).reshape(6, 4) * 2
    z = y.sum(0)
    trace = capture(z, inputs={"y": y})
    assert kernels(trace) == 1 and kernels(trace.with_overrides({"y": "realize"})) == 2


def test_fused_means_computed_in_each_reader() -> None:
    trace = attention_trace()
    fused = trace.with_overrides({"scores": "fuse"})
    assert "OVERRIDE" in fused.decisions.why("scores").reasons
    assert not any(b.name == "scores" for b in fused.schedules[0].buffers)
    assert compare(trace, fused).same


def test_overrides_add_up_and_are_part_of_the_document() -> None:
    trace = attention_trace()
    twice = trace.with_overrides({"probs": "realize"}).with_overrides({"scores": "fuse"})
    assert sorted((twice.schedules[0].choices.overrides or {}).values()) == ["fuse", "realize"]
    loaded = Trace.from_json(twice.to_json())
    assert again(loaded).trace.schedules[0].kernels == twice.schedules[0].kernels
    assert kernels(again(loaded, Changes(forget=True)).trace) == kernels(trace)


def test_a_line_that_shares_a_value_says_so() -> None:
    x = data(4, 4)
    a = x.exp().sum(0)
    b = x.exp().sum(1)
    trace = capture((a, b))
    first = next(line for line in trace.lines if line.code.startswith("a = "))
    found = trace.with_overrides({first: "realize"}).schedules[0].choices.notes
    assert found and all("too" in note for note in found)


REFUSED = {
    "asked for": ({"out": "fuse"}, "`out` cannot be fused: it was asked for, so it must be in memory"),
    "asked for, stored": ({"out": "realize"}, "is in memory anyway"),
    "memory": ({"x": "realize"}, "`x` cannot be stored: it is memory already"),
    "contiguous": ({"kept": "fuse"}, "contiguous\\(\\) asks for memory"),
    "unknown": ({"nobody": "fuse"}, "'nobody' is no node, no name and no line"),
    "unknown id": ({10**6: "fuse"}, "is no node"),
    "another word": ({"y": "melt"}, "says 'realize' or 'fuse', not 'melt'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_with_the_reason(case: str) -> None:
    overrides, says = REFUSED[case]

    def program() -> Tensor:
        return out

    x = data(4, 4)
    kept = (x + 1).contiguous()
    y = kept * 2
    out = y.sum(0)
    trace = capture(out, inputs={"x": x, "y": y, "kept": kept, "out": out})
    with pytest.raises(ArgumentError, match=says):
        trace.with_overrides(overrides)
    with pytest.raises(ArgumentError, match=says):
        capture(program, inputs={"x": x, "y": y, "kept": kept, "out": out}, overrides=overrides)


def test_constants_writes_and_copies_are_refused() -> None:
    x = data(4)
    x.assign(x * 2)
    trace = capture(x)
    nodes = trace.schedules[0].nodes
    for op, says in (("CONST", "constant"), ("STORE", "a write"), ("AFTER", "a write|asked")):
        node = next(i for i, n in enumerate(nodes) if n.op == op)
        with pytest.raises(ArgumentError, match=says):
            trace.with_overrides({node: "realize"})
    moved = capture((data(4) * 2).to("NUMPY:1") + 1)
    with pytest.raises(ArgumentError, match="from one device to another"):
        moved.with_overrides({next(i for i, n in enumerate(moved.schedules[0].nodes) if n.op == "COPY"): "fuse"})


TWO = ("NUMPY", "NUMPY:1")


def sharded() -> Trace:
    """A matmul over two devices, its rows cut, and a total that both add up."""
    x, w = data(8, 12).shard(TWO, 0).realize(), data(12, 16).shard(TWO).realize()
    h = x @ w
    total = (h.relu() * 2).sum(0)
    return capture(total, inputs={"h": h, "total": total})


def test_an_override_on_several_devices_is_one_on_each() -> None:
    trace = sharded()
    for overrides, more in (({"h": "realize"}, 2), ({"h": "fuse"}, 0)):
        other = trace.with_overrides(overrides)
        assert kernels(other) == kernels(trace) + more
        assert compare(trace, other).same
        loaded = Trace.from_json(other.to_json())
        assert again(loaded).trace.schedules[0].kernels == other.schedules[0].kernels


def test_what_prepare_made_can_be_overridden_by_its_origin_rule_and_ordinal() -> None:
    trace = sharded()
    made = Made(trace, trace.schedules[0])
    (h,) = (name for name in made.prepared if isinstance(name, tuple) and name[1:] == ("reduce_multi", 1))
    for key in (h, text_of(h), made.prepared[h]):
        other = trace.with_overrides({key: "realize"})
        assert kernels(other) == kernels(trace) + 1, "on its device alone"
        assert other.schedules[0].choices.overrides == {text_of(h): "realize"}
        assert compare(trace, other).same
    with Context(REDUCEOP_SPLIT_THRESHOLD=64):
        split = capture(data(16, 16).sum())
    stage = next(i for i, n in enumerate(split.schedules[0].nodes) if n.op == "STAGE")
    one = split.with_overrides({stage: "fuse"})
    assert (kernels(split), kernels(one)) == (2, 1) and compare(split, one).same
    gathered = next(
        name
        for name, i in made.prepared.items()
        if trace.schedules[0].nodes[i].op == "CONTIGUOUS" and made.is_copied(i)
    )
    with pytest.raises(ArgumentError, match="a copy to another device reads it"):
        trace.with_overrides({gathered: "fuse"})
    with pytest.raises(ArgumentError, match="is no node"):
        trace.with_overrides({(h[0], "reduce_multi", 9): "fuse"})


@function
def normed(x: Tensor) -> Tensor:
    e = (x - x.max(0)).exp2()
    return e / e.sum(0)


def test_a_value_inside_of_an_inlined_function_can_be_overridden() -> None:
    trace = capture((normed(data(4, 6)) * 2).sum(1))
    made, s = Made(trace, trace.schedules[0]), trace.schedules[0]
    exp = next(name for name, i in made.prepared.items() if s.nodes[i].op == "EXP2")
    assert exp[1] == "resolve_function"
    other = trace.with_overrides({text_of(exp): "realize"})
    assert kernels(other) == kernels(trace) + 1 and compare(trace, other).same


def test_a_plan_takes_nodes_of_its_body_and_what_rules_make_of_them() -> None:
    x = data(16, 16)
    with Context(REDUCEOP_SPLIT_THRESHOLD=64):
        first = plan(x.sum())
        total = next(u for u in first.call.src[0].toposort() if u.op is Ops.REDUCE)
        assert len(first.linear.src) == 2
        assert len(plan(x.sum(), overrides={(total, "split_reduceop", 3): "fuse"}).linear.src) == 1
        with pytest.raises(ScheduleError, match="number 9 of what rule split_reduceop made"):
            plan(x.sum(), overrides={(total, "split_reduceop", 9): "fuse"})
    with pytest.raises(ArgumentError, match="not part of callify's body"):
        plan(x.sum(), overrides={(x + 1).uop: "realize"})


def test_a_tensor_of_another_trace_is_none_of_this_one() -> None:
    trace = attention_trace()
    with pytest.raises(ArgumentError, match="not part of the trace"):
        trace.with_overrides({data(3) + 1: "realize"})


def test_what_was_overridden_runs_and_gives_the_same_values() -> None:
    out, inputs = attention()
    wanted = (inputs["q"] @ inputs["k"].transpose(1, 2)).softmax(2) @ inputs["v"]
    trace = capture(out, inputs=inputs, overrides={"scores": "fuse", "probs": "realize"}, run=True)
    assert trace.schedules[0].run is not None
    np.testing.assert_allclose(out.numpy(), wanted.numpy(), rtol=1e-5)


@examples(15)
@hypothesis.given(programs(most=14), st.integers(0, 99), st.sampled_from(["realize", "fuse"]))
def test_any_legal_override_of_any_program_keeps_its_values(program: Program, pick: int, what: str) -> None:
    graph, outputs = program.build()
    trace = capture([Tensor.from_uop(u) for u, _ in outputs])
    if not trace.schedules:
        return
    body = Rebuilt(trace.schedules[0])
    ids = [i for i, u in body.uops.items() if u in set(body.body.toposort())]
    try:
        other = trace.with_overrides({ids[pick % len(ids)]: what})
    except ArgumentError:
        return
    found = compare(trace, other)
    assert found.same and graph.keep is not None, str(found)


# ** comparing **


def test_a_comparison_shows_both() -> None:
    trace = attention_trace()
    other = trace.with_overrides({"probs": "realize"})
    found = compare(trace, other)
    assert found.kernels == (4, 5) and found.bytes[1] > found.bytes[0] and found.ops[0] > found.ops[1]
    assert found.same is True and found.seconds is not None and all(s > 0 for s in found.seconds)
    assert found.changed == ("`probs` is stored in the second only",)
    moved = compare(trace, other, run=False, limits=Limits(bandwidth=1e9, flops=1e30)).predicted
    assert moved == pytest.approx([n / 1e9 for n in found.bytes])
    computed = compare(trace, other, run=False, limits=Limits(bandwidth=1e30, flops=1e9)).predicted
    assert computed == pytest.approx([n / 1e9 for n in found.ops])
    assert all(p > 0 for p in found.predicted) and "time at best" in str(found)
    assert "the values are the same" in str(found) and "kernels" in str(found)
    assert compare(trace, other, run=False).same is None


def test_what_rounding_decides_is_not_compared() -> None:
    """The gradient of a bias before a batch norm is 0 but for rounding, and Adam divides that by its own size."""
    images, labels = data(4, 1, 6, 6), Tensor([0, 2, 1, 2]).realize()
    conv, norm, out = nn.Conv2d(1, 3, 3), nn.BatchNorm(3), nn.Linear(12, 3)
    weights = nn.state.get_parameters([conv, norm, out])
    adam = nn.optim.Adam(weights)
    Tensor.realize(*weights)
    with Context(TRAINING=1):
        loss = out(norm(conv(images)).relu().max_pool2d().flatten(1)).sparse_categorical_crossentropy(labels).backward()
    trace = capture([loss, *adam.schedule_step()])
    first = next(b for b, buffer in enumerate(trace.schedules[0].buffers) if buffer.role == "intermediate")
    found = compare(trace, trace.with_overrides({f"b{first}": "fuse"}))
    assert found.same
    assert any("rounding alone" in text for text in found.changed)


def test_other_values_are_seen() -> None:
    x = data(4)
    assert compare(capture(x + 1), capture(x + 2)).same is False


# ** policies and passes of one's own **


@dataclass(frozen=True)
class KeepLarge:
    """Keeps what has more than so many elements."""

    most: int

    def keep(self, stage: UOp, cost: Cost) -> Choice:
        return Choice(stage.src[0].dtype.itemsize * int(np.prod([r.vmax + 1 for r in stage.src[1:]])) > self.most * 4)


def test_fusion_policies() -> None:
    counts = {p: kernels(attention_trace(policies=Policies(fusion=p))) for p in (Eager(), AllLegal(), KeepLarge(8))}
    assert counts[AllLegal()] < kernels(attention_trace()) < counts[Eager()]
    assert counts[AllLegal()] < counts[KeepLarge(8)] <= counts[Eager()]


@pytest.mark.parametrize("policies", [Policies(Eager()), Policies(AllLegal()), Policies(order=MemoryAware())], ids=repr)
def test_a_trace_remembers_its_policies(policies: Policies) -> None:
    trace = attention_trace(policies=policies)
    choices = trace.schedules[0].choices
    assert (choices.fusion, choices.order) == (repr(policies.fusion), repr(policies.order))
    loaded = Trace.from_json(trace.to_json())
    assert again(loaded).trace.schedules[0].kernels == trace.schedules[0].kernels
    assert compare(trace, attention_trace()).same


def test_a_policy_of_ones_own_is_kept_in_the_process_and_asked_for_after() -> None:
    trace = attention_trace(policies=Policies(KeepLarge(8)))
    assert kernels(again(trace).trace) == kernels(trace)
    loaded = Trace.from_json(trace.to_json())
    with pytest.raises(TraceError, match="a policy of somebody's own"):
        again(loaded)
    assert kernels(again(loaded, Changes(policies=Policies(KeepLarge(8)))).trace) == kernels(trace)


def test_a_pass_of_ones_own() -> None:
    def tell(sink: UOp, ctx: Any) -> UOp:
        seen.append(sink)
        return sink

    seen: list[UOp] = []
    pipeline = PIPELINE.replace("limit buffers", tell)
    trace = attention_trace(pipeline=pipeline)
    assert len(seen) == 1 and trace.schedules[0].choices.stages == ("limit buffers",)
    again(trace)
    assert len(seen) == 2
    with pytest.raises(TraceError, match="limit buffers were somebody's own"):
        again(Trace.from_json(trace.to_json()))
    out, _ = attention()
    run_linear(plan(out, pipeline=pipeline, policies=Policies(order=BreadthFirst())))
    assert out.uop.base.realized is not None


def test_what_steers_a_schedule_made_again_is_its_own() -> None:
    """Scheduled again with other policies or passes, and then once more: the second time is like the first."""
    x = Tensor.rand(5, 7).realize()
    trace = capture(x.softmax(), policies=Policies(fusion=Eager()))
    plain = again(trace, Changes(policies=Policies())).trace
    assert (
        len(again(plain).trace.schedules[0].kernels)
        == len(plain.schedules[0].kernels)
        < len(trace.schedules[0].kernels)
    )
    assert len(again(trace).trace.schedules[0].kernels) == len(trace.schedules[0].kernels)


# ** functions that are scheduled on their own **


@function(precompile=True)
def inner(x: Tensor) -> Tensor:
    e = x.exp2()
    return e / e.sum(0)


@function(precompile=True)
def outer(x: Tensor) -> Tensor:
    a = inner(x * 2)
    b = a + 1
    return b * b.sum(1, keepdim=True)


def line_of(trace: Trace, code: str) -> Line:
    return next(line for line in trace.lines if line.code == code)


@pytest.mark.parametrize(
    "code, what, more",
    [
        ("return e / e.sum(0)", "fuse", -1),
        ("e = x.exp2()", "realize", 1),
        ("b = a + 1", "realize", 1),
        ("return b * b.sum(1, keepdim=True)", "fuse", -1),
    ],
)
def test_a_value_inside_of_a_precompiled_function_can_be_overridden(code: str, what: str, more: int) -> None:
    z = outer(data(4, 6)) - 1
    trace = capture(z)
    line = line_of(trace, code)
    other = trace.with_overrides({line: what})
    assert kernels(other) == kernels(trace) + more and compare(trace, other).same and other.check()
    assert kernels(capture(z, overrides={line: what})) == kernels(other)
    loaded = Trace.from_json(trace.to_json()).with_overrides({line: what})
    assert loaded.schedules[0].kernels == other.schedules[0].kernels
    clear_caches()
    assert len(plan(z).linear.src) == kernels(trace), "a schedule with overrides is none that others find"


def test_what_a_rule_made_inside_of_a_precompiled_function_can_be_overridden() -> None:
    @function(precompile=True)
    def total(x: Tensor) -> Tensor:
        return x.sum() + 1

    with Context(REDUCEOP_SPLIT_THRESHOLD=64):
        trace = capture(total(data(16, 16)) * 3)
        name = next(n for n in Made(trace, trace.schedules[0]).prepared if isinstance(n, tuple) and n[2] == 3)
        other = trace.with_overrides({text_of(name): "fuse"})
    assert name[1] == "split_reduceop" and kernels(other) == kernels(trace) - 1 and compare(trace, other).same


def test_what_a_precompiled_function_gives_is_in_memory() -> None:
    trace = capture(layer_of(data(4, 6)).sum(0))
    with pytest.raises(
        ArgumentError, match=r"scheduled on its own \(precompile=True\) gives it, so it must be in memory"
    ):
        trace.with_overrides({line_of(trace, "return x * 3"): "fuse"})


@function(precompile=True)
def layer_of(x: Tensor) -> Tensor:
    return x * 3
