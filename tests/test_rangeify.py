"""Passes 2 to 6: random graphs against NumPy, every branch that decides with its reason, and how much work is left."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.evaluate import Machine, every_point, index_values, same
from tests.graphs import KINDS, Graph, Program, examples, programs
from tinysched import GlobalCounters, Tensor, clear_caches, plan, run_linear
from tinysched.dtypes import dtypes
from tinysched.ir.decision import Reason, Verdict
from tinysched.ir.observe import watching
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.spec import STAGE_SPECS, verify
from tinysched.ir.text import graph_text
from tinysched.ir.uop import ParamArg, UOp
from tinysched.runtime.linear import BACKENDS
from tinysched.schedule.indexing import run_rangeify
from tinysched.schedule.pipeline import PIPELINE, PassContext
from tinysched.schedule.policy import AllLegal, Eager, Policies
from tinysched.settings import Context

BACKEND_NAMES = sorted(BACKENDS)


class Watcher:
    """Keeps decisions and rewrites, and the graph after each stage; verifies each against its specification."""

    def __init__(self):
        self.decisions, self.rules, self.graphs = [], Counter(), {}

    def on_stage(self, name, doc, root): ...

    def on_stage_end(self, name, root):
        self.graphs[name] = root
        verify(root, STAGE_SPECS[name])

    def on_rewrite(self, rule, before, after):
        self.rules[rule.name] += 1

    def on_replace(self, before, after): ...

    def on_index(self, *event): ...

    def on_decision(self, decision):
        self.decisions.append(decision)

    def on_event(self, kind, data): ...

    def about(self, *reasons):
        return [d for d in self.decisions if d.reason in reasons]


def schedule(*values, pipeline=None, policies=None, overrides=None, **settings):
    """What was seen while nodes (or Tensors) were planned, and the kernels."""
    tensors = [v if isinstance(v, Tensor) else Tensor.from_uop(v) for v in values]
    watcher = Watcher()
    with Context(**settings), watching(watcher):
        watcher.plan = plan(*tensors, pipeline=pipeline, policies=policies, overrides=overrides)
    watcher.kernels = [call.src[0].arg.name for call in watcher.plan.linear.src if call.src[0].op is Ops.SINK]
    return watcher


def ramp(*shape, dtype=np.float32):
    """A value in memory whose elements all differ."""
    return Tensor(np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype))


def value_of(u):
    return Tensor.from_uop(u).numpy()


# ** random graphs **


def assert_like_numpy(program, **settings):
    note(repr(program))
    graph, outputs = program.build()
    assert graph.keep
    tensors = [Tensor.from_uop(u) for u, _ in outputs]
    with Context(**settings), watching(Watcher()):
        Tensor.realize(*tensors)
        for t, (_, expected) in zip(tensors, outputs, strict=True):
            np.testing.assert_allclose(t.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cpu", BACKEND_NAMES)
def test_random_graphs_are_what_numpy_says(cpu):
    @examples(150)
    @given(programs())
    def check(program):
        assert_like_numpy(program, CPU=cpu)

    check()


@pytest.mark.parametrize("settings", [
    {"PCONTIG": 1}, {"MAX_KERNEL_BUFFERS": 4}, {"MAX_KERNEL_BUFFERS": 4, "PCONTIG": 1}, {"SCACHE": 0},
    {"NO_MEMORY_PLANNER": 1}, {"REDUCEOP_SPLIT_THRESHOLD": 8}, {"SPLIT_REDUCEOP": 0},
], ids=str)  # fmt: skip
def test_random_graphs_under_other_settings(settings):
    @examples(40)
    @given(programs())
    def check(program):
        assert_like_numpy(program, **settings)

    check()


@pytest.mark.parametrize("policies", [Policies(fusion=Eager()), Policies(fusion=AllLegal())], ids=str)
def test_random_graphs_under_other_fusion_policies(policies):
    @examples(40)
    @given(programs(most=12))
    def check(program):
        graph, outputs = program.build()
        u, expected = outputs[0]
        if graph.keep and u.base.op is not Ops.BUFFER:
            t = Tensor.from_uop(u)
            run_linear(plan(t, policies=policies))
            np.testing.assert_allclose(t.numpy(), expected, rtol=1e-4, atol=1e-4)

    check()


@examples(40)
@given(programs())
def test_an_axis_of_one_element_has_no_loop(program):
    """So no rule is needed that takes such a loop away."""
    graph, outputs = program.build()
    linear = plan(*[Tensor.from_uop(u) for u, _ in outputs]).linear
    ends = [r.src[0] for call in linear.src for r in call.src[0].toposort() if r.op is Ops.RANGE]
    assert graph.keep is not None and all(end.op is not Ops.CONST or end.arg > 1 for end in ends)


SMALL = ("unary", "binary", "reduce", "move", "move", "where", "contiguous", "stack", "cast")


def small_values(outputs):
    return [(u, a) for u, a in outputs if a.size <= 40 and u.base.op is not Ops.BUFFER]


@examples(40)
@given(programs(most=9, kinds=SMALL))
def test_every_pass_keeps_the_meaning_of_the_graph(program):
    """The tensor graph and the graph after each pass, evaluated by the book, write the same memory."""
    graph, outputs = program.build()
    outputs = small_values(outputs)
    if not outputs or max(a.size for _, a in graph.values) > 100:
        return
    note(repr(program))
    watcher = schedule(*(u for u, _ in outputs), SCACHE=0)
    call = watcher.plan.call
    memory = {p: contents(a) for p, a in zip(params(call.src[0]), call.src[1:], strict=True)}
    expected = [Machine(memory).state(root) for root in watcher.graphs["callify"].src]
    for stage in ("prepare", "rangeify", "simplify", "add buffers"):
        for root, want in zip(watcher.graphs[stage].src, expected, strict=True):
            made = {u: np.empty(u.arg.size, u.dtype.np) for u in root.toposort() if u.op is Ops.BUFFER}
            assert same(Machine({**memory, **made}).state(root), want, close=True), f"{stage}\n{graph_text(root)}"


def params(body):
    found = {u for u in body.toposort() if u.op is Ops.PARAM and not u.is_variable}
    return sorted(found, key=lambda u: u.arg.slot)


def contents(buffer):
    memory = buffer.buffer
    return (
        memory.copyout() if memory is not None and memory.is_allocated else np.zeros(buffer.arg.size, buffer.dtype.np)
    )


# ** the traps, one by one **


def test_padding_is_zero_under_what_does_not_keep_zero():
    x, a = ramp(2, 3), np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    for name, node, array in (
        ("exp2", lambda u: u.alu(Ops.EXP2), np.exp2), ("plus one", lambda u: u + 1.0, lambda b: b + 1),
        ("reciprocal", lambda u: u.alu(Ops.RECIPROCAL), np.reciprocal),
    ):  # fmt: skip
        widths = ((1, 0), (0, 2))
        inside, outside = node(x.uop).pad(widths), node(x.uop.pad(widths))
        np.testing.assert_allclose(value_of(inside), np.pad(array(a), widths), err_msg=name)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(value_of(outside), array(np.pad(a, widths)), err_msg=name)
        np.testing.assert_allclose(value_of(inside.rop(Ops.ADD, (1,))), np.pad(array(a), widths).sum(1), rtol=1e-6)


def test_one_value_through_two_permutes_pads_and_shrinks():
    x, a = ramp(3, 3), np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    u, b = x.uop + 1.0, a + 1
    np.testing.assert_array_equal(value_of(u + u.permute((1, 0))), b + b.T)
    np.testing.assert_array_equal(value_of(u * u.permute((1, 0)) + u.flip((True, False))), b * b.T + b[::-1])
    shifted = u.shrink(((0, 2), (0, 3))).pad(((1, 0), (0, 0)))
    np.testing.assert_array_equal(value_of(u + shifted), b + np.pad(b[:2], ((1, 0), (0, 0))))


def test_reductions_of_expanded_and_reduced_values():
    x, a = ramp(2, 3, 4), np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    u = x.uop.rop(Ops.ADD, (1,))
    np.testing.assert_array_equal(value_of(u.rop(Ops.MAX, (0,))), a.sum(1).max(0))
    wide = x.uop.rop(Ops.MAX, (2,)).expand_leading((5,))
    np.testing.assert_array_equal(value_of(wide.rop(Ops.ADD, (0, 1))), np.broadcast_to(a.max(2), (5, 2, 3)).sum((0, 1)))
    centred = x.uop - x.uop.rop(Ops.ADD, (2,)).reshape((2, 3, 1))
    np.testing.assert_array_equal(
        value_of((centred * centred).rop(Ops.ADD, (2,))), ((a - a.sum(2, keepdims=True)) ** 2).sum(2)
    )


@pytest.mark.parametrize("cpu", BACKEND_NAMES)
def test_nan_inf_and_overflow(cpu):
    a = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)
    x, i = Tensor(a), Tensor(np.array([127, -128, 100], np.int8))
    with Context(CPU=cpu), np.errstate(all="ignore"):
        np.testing.assert_array_equal(value_of(x.uop.rop(Ops.MAX, (0,))), np.nan)
        np.testing.assert_array_equal(value_of((x.uop < 1.0).where(x.uop, 7.0)), np.where(a < 1, a, np.float32(7)))
        np.testing.assert_array_equal(value_of(x.uop * 0.0), a * 0)
        np.testing.assert_array_equal(value_of(x.uop.alu(Ops.SUB, x.uop)), a - a)
        np.testing.assert_array_equal(value_of(x.uop.alu(Ops.FDIV, x.uop)), a / a)
        np.testing.assert_array_equal(np.signbit(value_of(x.uop + 0.0)), np.signbit(a + np.float32(0)))
        np.testing.assert_array_equal(value_of(i.uop + i.uop), np.array([-2, 0, -56], np.int8))
        np.testing.assert_array_equal(value_of(i.uop.rop(Ops.ADD, (0,))), np.int8(99))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (1, 1, 1), (1, 5, 1)])
def test_odd_shapes(shape):
    a = np.full(shape, 3.0, np.float32)
    x = Tensor(a)
    np.testing.assert_array_equal(value_of(x.uop * 2.0), a * 2)
    for axis in range(len(shape)):
        np.testing.assert_array_equal(value_of(x.uop.rop(Ops.ADD, (axis,))), a.sum(axis))


# ** the four rules of fusion, and loops that end **


def decided(watcher, node):
    return [(d.verdict, d.reason) for d in watcher.decisions if d.node is node and d.stage == "rangeify"]


def test_one_reader_is_fused():
    x = ramp(3, 4)
    square = x.uop * x.uop
    w = schedule(square + 1.0)
    [d] = [d for d in w.about(Reason.SINGLE_CONSUMER) if d.node.op is Ops.MUL]
    assert d.verdict is Verdict.FUSED and len(d.evidence.consumers) == 1 and d.evidence.axes == ()
    assert d.evidence.consumers[0].op is Ops.ADD and len(d.evidence.indices[0]) == 2 and w.kernels == ["E_3_4"]


def test_readers_that_agree_are_fused():
    x = ramp(3, 4)
    square = x.uop * x.uop
    w = schedule((square + 1.0) * square.alu(Ops.NEG))
    [d] = w.about(Reason.CONSUMERS_AGREE)
    assert d.node.op is Ops.MUL and d.verdict is Verdict.FUSED and len(d.evidence.consumers) == 2
    assert d.evidence.indices[0] == d.evidence.indices[1] and d.evidence.axes == () and len(w.kernels) == 1


def test_readers_that_agree_up_to_conditions_are_fused_under_either():
    x = ramp(8)
    u, a = x.uop * x.uop + 1.0, x.numpy() ** 2 + 1
    first, last = u.shrink(((0, 4),)).pad(((0, 4),)), u.shrink(((2, 8),)).pad(((2, 0),))
    w = schedule(first + last)
    [d] = [d for d in w.about(Reason.CONSUMERS_AGREE) if d.node.op is Ops.ADD]
    a_, b_ = (indices[0] for indices in d.evidence.indices)
    assert a_ is not b_ and a_.get_idx() is b_.get_idx() and d.evidence.axes == () and len(w.kernels) == 1
    places = np.arange(8)
    np.testing.assert_array_equal(value_of(first + last), np.where(places < 4, a, 0) + np.where(places >= 2, a, 0))


def test_readers_that_disagree_get_memory():
    x = ramp(3, 3)
    total = ramp(3, 3, 2).uop.rop(Ops.ADD, (2,))
    w = schedule(total + total.permute((1, 0)) * x.uop)
    [d] = w.about(Reason.CONSUMERS_DISAGREE)
    assert d.node.op is Ops.REDUCE and d.verdict is Verdict.REALIZED and d.evidence.axes == (0, 1)
    a, b = d.evidence.indices
    assert a[0] is not b[0] and a[1] is not b[1] and w.kernels == ["r_3_3_2", "E_3_3"]
    assert w.about(Reason.COST_REDUCE_READS_BUFFER)[0].verdict is Verdict.KEPT


def test_the_axes_that_fail_are_named_and_partially_realized_on_request():
    total = ramp(3, 4, 2).uop.rop(Ops.ADD, (2,))
    out = total + total.flip((False, True))
    [d] = schedule(out).about(Reason.CONSUMERS_DISAGREE)
    assert (d.verdict, d.evidence.axes) == (Verdict.REALIZED, (1,))
    w = schedule(out, PCONTIG=1)
    [d] = w.about(Reason.CONSUMERS_DISAGREE)
    assert (d.verdict, d.evidence.axes) == (Verdict.PARTIALLY_REALIZED, (1,)) and w.rules["promote_partial"] == 2
    local = [u for u in w.graphs["rangeify"].toposort() if u.op is Ops.STAGE]
    whole = [u for u in w.graphs["simplify"].toposort() if u.op is Ops.STAGE]
    assert [(u.shape, u.arg.addrspace) for u in local] == [((4,), "local")]
    assert [(u.shape, u.arg.addrspace) for u in whole] == [((3, 4), "global")]


def test_all_axes_that_fail_are_no_partial_realization():
    x = ramp(3, 3, 2).uop.rop(Ops.ADD, (2,))
    [d] = schedule(x + x.permute((1, 0)), PCONTIG=1).about(Reason.CONSUMERS_DISAGREE)
    assert d.verdict is Verdict.REALIZED and d.evidence.axes == (0, 1)


@pytest.mark.parametrize("cpu", BACKEND_NAMES)
def test_partial_buffers_hold_the_right_values(cpu):
    rng = random.Random(3)
    promoted = 0
    for _ in range(60):
        graph = Graph()
        graph.leaf(rng)
        while graph.values[0][1].ndim < 2:
            graph = Graph()
            graph.leaf(rng)
        for _ in range(rng.randint(2, 6)):
            grow(graph, rng)
        u, expected = graph.values[-1]
        w, t = Watcher(), Tensor.from_uop(u)
        with Context(PCONTIG=1, CPU=cpu), watching(w):
            np.testing.assert_allclose(t.numpy(), expected, rtol=1e-4, err_msg="\n".join(graph.lines))
        promoted += w.rules["promote_partial"]
    assert promoted >= 5


def grow(graph, rng):
    """A sum, or a value plus itself turned round along one axis: what makes readers disagree on some axes."""
    x, u, a = graph.pick(len(graph.values) - 1)
    axis = rng.randrange(a.ndim) if a.ndim else 0
    if a.ndim > 1 and rng.random() < 0.4:
        graph.add(f"sum({x}, {axis})", u.rop(Ops.ADD, (axis,)), a.sum(axis, dtype=a.dtype))
    elif a.ndim:
        turned = u.flip(tuple(i == axis for i in range(a.ndim)))
        graph.add(f"{x} + flip({x}, {axis})", u + turned, a + np.flip(a, axis))


def test_a_loop_that_ends_realizes_what_is_below():
    x = ramp(3, 4)
    row = (x.uop * x.uop).rop(Ops.ADD, (1,))
    w = schedule(x.uop * row.reshape((3, 1)))
    [d] = w.about(Reason.RANGE_ENDED)
    assert d.node.op is Ops.REDUCE and d.verdict is Verdict.REALIZED
    assert len(d.evidence.ranges) == 1 and d.evidence.ranges[0].src[0].arg == 4 and d.evidence.by is not None
    assert w.kernels == ["r_3_4", "E_3_4"]


def test_a_reduction_that_is_broadcast_itself_is_realized():
    x = ramp(3, 4)
    w = schedule(x.uop * x.uop.rop(Ops.ADD, (0,)))
    [d] = w.about(Reason.RANGE_ENDED)
    assert d.node.op is Ops.REDUCE and [r.src[0].arg for r in d.evidence.ranges] == [3]
    assert w.kernels == ["r_4_3", "E_3_4"]


def test_a_cheap_value_that_is_broadcast_is_computed_again():
    x, y = ramp(3, 1), ramp(3, 4)
    w = schedule((x.uop + 1.0) * y.uop)
    assert not w.about(Reason.RANGE_ENDED) and w.kernels == ["E_3_4"]


def test_what_stands_below_an_expand_ends_its_loop():
    x = ramp(4)
    w = schedule((x.uop * x.uop + 1.0).rop(Ops.ADD, (0,)).expand_leading((3,)) * ramp(3).uop)
    assert {d.node.op for d in w.about(Reason.RANGE_ENDED, Reason.BEFORE_LOOPS)} == {Ops.REDUCE}


def test_forced_outputs_and_contiguous():
    x = ramp(3, 4)
    hint = (x.uop + 1.0).contiguous()
    w = schedule(hint * 2.0)
    [d] = w.about(Reason.FORCED_CONTIGUOUS)
    assert d.node.op is Ops.CONTIGUOUS and d.verdict is Verdict.REALIZED and w.kernels == ["E_3_4", "E_3_4"]
    assert w.about(Reason.USER_FORCED)[0].verdict is Verdict.KEPT
    assert {d.verdict for d in w.about(Reason.FORCED_OUTPUT)} == {Verdict.REALIZED}


# ** overrides **


def body_node(value, op):
    """The node of callify's body that a value became."""
    call = plan(Tensor.from_uop(value)).call
    [node] = [u for u in call.src[0].toposort() if u.op is op]
    return node


def test_overrides_realize_and_fuse():
    x = ramp(3, 3)
    fused = (x.uop.alu(Ops.EXP2) + 1.0).alu(Ops.SQRT)
    w = schedule(fused, overrides={body_node(fused, Ops.EXP2): "realize"})
    assert len(w.kernels) == 2 and {d.verdict for d in w.about(Reason.OVERRIDE)} == {Verdict.REALIZED, Verdict.KEPT}
    np.testing.assert_allclose(value_of(fused), np.sqrt(np.exp2(x.numpy()) + 1), rtol=1e-6)
    total = ramp(3, 3, 2).uop.rop(Ops.ADD, (2,))
    twice = total + total.permute((1, 0))
    assert len(schedule(twice).kernels) == 2
    w = schedule(twice, overrides={body_node(twice, Ops.REDUCE): "fuse"})
    assert len(w.kernels) == 1 and {d.verdict for d in w.about(Reason.OVERRIDE)} == {Verdict.REMOVED}


@examples(40)
@given(programs(most=12), st.data())
def test_any_override_keeps_the_values(program, data):
    graph, outputs = program.build()
    u, expected = outputs[0]
    if u.base.op is Ops.BUFFER or not graph.keep:
        return
    t = Tensor.from_uop(u)
    nodes = [n for n in plan(t).call.src[0].toposort() if n.op in GroupOp.Elementwise | {Ops.REDUCE} and n.shape]
    chosen = data.draw(st.lists(st.sampled_from(nodes), max_size=3, unique=True)) if nodes else []
    overrides = {n: data.draw(st.sampled_from(("realize", "fuse"))) for n in chosen}
    run_linear(plan(t, overrides=overrides))
    np.testing.assert_allclose(t.numpy(), expected, rtol=1e-4, atol=1e-4)


# ** large reductions **


def empty_sum(*shape, axes=(0,)):
    return Tensor.from_uop(
        UOp.new_buffer("NUMPY", int(np.prod(shape)), dtypes.float32).reshape(shape).rop(Ops.ADD, axes)
    )


def test_split_reduceop_at_the_threshold():
    w = schedule(empty_sum(32767))
    [d] = w.about(Reason.REDUCE_NOT_SPLIT)
    assert (d.verdict, d.evidence.ratio, d.evidence.threshold) == (Verdict.FUSED, 32767, 32768) and w.kernels == [
        "r_32767"
    ]
    w = schedule(empty_sum(32768))
    [d] = w.about(Reason.REDUCE_SPLIT)
    assert (d.verdict, d.evidence.ratio, d.evidence.axis, d.evidence.pieces) == (Verdict.SPLIT, 32768, 0, 256)
    assert w.kernels == ["r_256_128", "r_256"]
    assert len(schedule(empty_sum(32768), SPLIT_REDUCEOP=0).kernels) == 1
    assert len(schedule(empty_sum(32768), REDUCEOP_SPLIT_THRESHOLD=32769).kernels) == 1


@pytest.mark.parametrize("shape, axes, why", [
    ((32768 * 2, 2), (0,), "split"), ((32768, 2), (0,), "split"), ((2, 32767), (1,), "small"),
    ((50021, 1), (0,), "prime"), ((7, 7, 7, 7, 7, 7), (0, 1, 2, 3, 4, 5), "no divisor from 8"),
])  # fmt: skip
def test_which_reductions_split(shape, axes, why):
    w = schedule(empty_sum(*shape, axes=axes))
    assert (len(w.kernels) == 2) == (why == "split"), w.kernels
    assert bool(w.about(Reason.REDUCE_SPLIT)) == (why == "split")


def test_an_axis_that_only_repeats_does_not_split():
    x = ramp(2)
    w = schedule(x.uop.expand_leading((65536,)).rop(Ops.ADD, (0, 1)))
    assert w.about(Reason.REDUCE_NOT_SPLIT) and not w.about(Reason.REDUCE_SPLIT)


def test_the_first_kernel_of_a_split_stays_small():
    """At most 2**14 elements here: with 2**11 results there is room for 8 pieces, with 2**12 for 4, which is too few."""
    settings = {"REDUCEOP_SPLIT_THRESHOLD": 16, "REDUCEOP_SPLIT_SIZE": 14}
    assert schedule(empty_sum(16, 2**11), **settings).about(Reason.REDUCE_SPLIT)[0].evidence.pieces == 8
    assert not schedule(empty_sum(16, 2**12), **settings).about(Reason.REDUCE_SPLIT)


@pytest.mark.parametrize("threshold", [1, 2, 8, 9, 16, 100])
def test_any_threshold_comes_to_an_end(threshold):
    a = np.arange(1000, dtype=np.int32)
    with Context(REDUCEOP_SPLIT_THRESHOLD=threshold):
        assert value_of(Tensor(a).uop.rop(Ops.ADD, (0,))) == a.sum()


def test_a_split_sum_is_the_sum():
    a = np.arange(40_000, dtype=np.int32).reshape(4, 10_000) % 97
    x = Tensor(a)
    with Context(REDUCEOP_SPLIT_THRESHOLD=16):
        for axes in ((0,), (1,), (0, 1)):
            np.testing.assert_array_equal(value_of((x.uop + 1).rop(Ops.ADD, axes)), (a + 1).sum(axes))
            np.testing.assert_array_equal(value_of(x.uop.rop(Ops.MAX, axes)), a.max(axes))


# ** candidate buffers: the cost rule **


def reads(count, *, scalars=0, size=6):
    """A value of ``count`` buffers and ``scalars`` of one element."""
    leaves = [Tensor(np.full(size, i + 1.0, np.float32)) for i in range(count)]
    total = leaves[0].uop
    for leaf in leaves[1:]:
        total = total + leaf.uop
    for i in range(scalars):
        leaves.append(Tensor(np.full(1, i + 1.0, np.float32)))
        total = total * leaves[-1].uop
    return leaves, total


@pytest.mark.parametrize("count, scalars, kept", [(3, 0, False), (4, 0, True), (3, 4, False), (2, 2, False)])
def test_remove_bufferize_counts_buffers(count, scalars, kept):
    leaves, value = reads(count, scalars=scalars)
    w = schedule(value + value.flip((True,)))
    assert len(leaves) == count + scalars
    reason = Reason.COST_TOO_MANY_BUFFERS if kept else Reason.ONLY_REORDERS
    [d] = w.about(reason)
    assert d.verdict is (Verdict.KEPT if kept else Verdict.REMOVED) and (len(w.kernels) == 2) == kept
    assert d.evidence.limit == 3 and len(d.evidence.buffers) == count and not d.evidence.reduces


def test_remove_bufferize_keeps_a_reduction_that_reads():
    total = ramp(3, 3, 2).uop.rop(Ops.ADD, (2,))
    [d] = schedule(total + total.permute((1, 0))).about(Reason.COST_REDUCE_READS_BUFFER)
    assert d.verdict is Verdict.KEPT and [u.op for u in d.evidence.reduces] == [Ops.REDUCE]


def test_a_constant_and_a_dead_axis_need_no_buffer():
    ones = UOp.const(1.0, dtypes.float32).expand_leading((4,)).alu(Ops.SQRT)
    w = schedule(ones + ones.flip((True,)) * ramp(4).uop)
    assert w.kernels == ["E_4"] and not any(u.op is Ops.STAGE for u in w.graphs["simplify"].toposort())
    x = ramp(4)
    spread = (x.uop.rop(Ops.ADD, (0,)).reshape((1, 1)) + ramp(1, 1).uop).expand_leading((5,))
    w = schedule(spread * ramp(5, 1, 1).uop)
    assert all(u.shape in ((), (1,), (1, 1)) for u in w.graphs["simplify"].toposort() if u.op is Ops.STAGE)


# ** the buffer limit **


def test_a_kernel_over_the_buffer_limit_is_cut():
    leaves, value = reads(7)
    assert leaves and schedule(value).kernels == ["E_6"]
    w = schedule(value, MAX_KERNEL_BUFFERS=4)
    assert len(w.kernels) > 1 and all(len(call.src) - 1 <= 4 for call in w.plan.linear.src)
    d = w.about(Reason.BUFFER_LIMIT)[0]
    assert d.verdict is Verdict.LIMITED and d.evidence.limit == 4 and d.evidence.buffers > 4
    with Context(MAX_KERNEL_BUFFERS=4):
        np.testing.assert_array_equal(value_of(value), np.full(6, 28.0))


@pytest.mark.parametrize("limit", [4, 5, 8])
def test_no_kernel_has_more_buffers_than_the_limit(limit):
    @examples(40)
    @given(programs(kinds=(*KINDS, "leaf", "leaf", "binary", "binary")))
    def check(program):
        graph, outputs = program.build()
        assert graph.keep
        w = schedule(*(u for u, _ in outputs), MAX_KERNEL_BUFFERS=limit, SCACHE=0)
        assert all(len(call.src) - 1 <= limit for call in w.plan.linear.src), program

    check()


# ** sums that are arithmetic **


def no_reduce(w):
    return not any(u.op is Ops.REDUCE for call in w.plan.linear.src for u in call.src[0].toposort())


def places(n):
    return Tensor.arange(n).uop.cast(dtypes.int32)


def test_arange_needs_no_loop():
    for t, expected in ((Tensor.arange(50), np.arange(50)), (Tensor.arange(3, 40, 4) * 2, np.arange(3, 40, 4) * 2)):
        w = schedule(t)
        assert no_reduce(w) and len(w.kernels) == 1
        np.testing.assert_array_equal(t.numpy(), expected)


def test_a_sum_of_a_comparison_is_a_clamp():
    """How many of the first n places lie below i."""
    i = Tensor(np.array([-3, 0, 4, 7, 90], np.int32))
    below = (places(7) < i.uop.reshape((5, 1))).cast(dtypes.int32).rop(Ops.ADD, (1,))
    np.testing.assert_array_equal(value_of(below), [0, 0, 4, 7, 7])
    triangle = (places(7) < places(7).reshape((7, 1))).where(UOp.const(2.0, dtypes.float32), 0).rop(Ops.ADD, (1,))
    w = schedule(triangle)
    assert no_reduce(w) and w.about(Reason.CLOSED_FORM)[0].verdict is Verdict.FUSED
    np.testing.assert_array_equal(value_of(triangle), 2.0 * np.arange(7))


def test_one_hot_and_gather_need_no_loop():
    i = Tensor(np.array([2, 0, 4, 4], np.int32))
    table = ramp(5, 3)
    hot = i.uop.reshape((4, 1)).eq(places(5)).cast(dtypes.int32)
    assert no_reduce(schedule(hot.rop(Ops.ADD, (1,))))
    np.testing.assert_array_equal(value_of(hot), np.eye(5, dtype=np.int32)[i.numpy()])
    picked = i.uop.reshape((4, 1, 1)).eq(places(5).reshape((5, 1))).where(table.uop, 0.0).rop(Ops.ADD, (1,))
    w = schedule(picked)
    assert no_reduce(w) and len(w.kernels) == 1
    np.testing.assert_array_equal(value_of(picked), table.numpy()[i.numpy()])
    w = schedule(table[i])
    assert no_reduce(w) and len(w.kernels) == 1


def test_a_gather_outside_of_the_table_gives_zero():
    i, table = Tensor(np.array([-1, 5, 2], np.int32)), ramp(5, 2)
    picked = i.uop.reshape((3, 1, 1)).eq(places(5).reshape((5, 1))).where(table.uop, 0.0).rop(Ops.ADD, (1,))
    np.testing.assert_array_equal(value_of(picked), [[0, 0], [0, 0], table.numpy()[2].tolist()])


# ** work **


def ops_of(u):
    GlobalCounters.reset()
    Tensor.from_uop(u).realize()
    return GlobalCounters.global_ops


def test_a_reduction_under_a_pad_is_computed_where_it_shows():
    x = ramp(4, 10)
    total = x.uop.rop(Ops.ADD, (1,))
    assert ops_of(total) == ops_of(total.pad(((500, 500),))) == 40
    np.testing.assert_array_equal(value_of(total.pad(((2, 1),))), np.pad(x.numpy().sum(1), (2, 1)))


def test_each_part_of_a_cat_is_computed_where_it_shows():
    x, y = ramp(3, 10), ramp(5, 10)
    a, b = x.uop.rop(Ops.ADD, (1,)), y.uop.rop(Ops.MAX, (1,))
    cat = a.pad(((0, 5),)) + b.pad(((3, 0),))
    assert ops_of(cat) <= ops_of(a) + ops_of(b) + 8
    np.testing.assert_array_equal(value_of(cat), np.concatenate([x.numpy().sum(1), y.numpy().max(1)]))


def test_each_part_of_a_stack_is_computed_once():
    x, y = ramp(4, 10), ramp(4, 10)
    a, b = x.uop.rop(Ops.ADD, (1,)), y.uop.rop(Ops.MAX, (1,))
    stack = UOp(Ops.STACK, a.dtype, (a, b))
    assert ops_of(stack) <= ops_of(a) + ops_of(b) + 16
    np.testing.assert_array_equal(value_of(stack), np.stack([x.numpy().sum(1), y.numpy().max(1)]))


def test_a_shared_reduction_is_computed_once():
    x = ramp(6, 50)
    total = x.uop.rop(Ops.ADD, (1,))
    assert ops_of(total.reshape((6, 1)) * ramp(6, 50).uop) == 300 + 300
    assert ops_of(total + total.flip((True,))) == 300 + 6


def test_a_scalar_of_one_kernel_is_computed_before_its_loops():
    x = ramp(50)
    total = x.uop.rop(Ops.ADD, (0,))
    w = schedule(x.uop * total)
    assert len(w.kernels) == 1 and w.about(Reason.BEFORE_LOOPS)[0].verdict is Verdict.FUSED
    assert ops_of(x.uop * total) == 50 + 50


@pytest.mark.parametrize("more", [lambda u: u, lambda u: u * 3.0 + 1.0])
def test_a_scalar_of_two_kernels_is_computed_once(more):
    x, y = ramp(50), ramp(40)
    total = more(x.uop.rop(Ops.ADD, (0,)))
    a, b = Tensor.from_uop(x.uop * total), Tensor.from_uop(y.uop + total)
    w = schedule(a, b)
    assert not w.about(Reason.BEFORE_LOOPS) and w.about(Reason.RANGE_ENDED)[0].verdict is Verdict.REALIZED
    GlobalCounters.reset()
    Tensor.realize(a, b)
    assert GlobalCounters.global_ops <= 50 + 50 + 40 + 4


@examples(60)
@given(programs(kinds=("unary", "binary", "reduce", "move", "where", "contiguous", "leaf")))
def test_fusion_never_repeats_a_reduction_over_memory(program):
    """However values are shared, moved and padded: no kernel has more steps of REDUCEs than the graph asks for."""
    graph, outputs = program.build()
    u, _ = outputs[0]
    if u.base.op is Ops.BUFFER or not graph.keep:
        return
    note(repr(program))
    asked = sum(int(np.prod(r.src[0].shape)) for r in u.toposort() if r.op is Ops.REDUCE)
    done = 0
    for call in schedule(u).plan.linear.src:
        for r in call.src[0].toposort():
            if r.op is Ops.REDUCE:
                done += int(np.prod([loop.vmax + 1 for loop in {*r.ranges, *r.src[1:]}]))
    assert done <= asked * 4 or done <= 200, (done, asked)


# ** what kernels touch **


def assert_inside(access):
    """Wherever its own condition holds, an access is inside of its memory."""
    memory, index = access.src[0].src
    loops = tuple(sorted(index.ranges, key=lambda r: r.arg[0]))
    sizes = tuple(r.vmax + 1 for r in loops)
    if any(u.op is Ops.LOAD for u in index.toposort()) or np.prod(sizes) > 10_000:
        return
    points = every_point(sizes, loops)
    holds, at = (np.broadcast_to(index_values(u, points), sizes) for u in (index.get_valid(), index.get_idx()))
    assert np.all((at >= 0) & (at < memory.arg.size) | ~holds), f"{index} leaves the {memory.arg.size} elements"


def loads_and_stores(w):
    return [u for c in w.plan.linear.src for u in c.src[0].toposort() if u.op in (Ops.LOAD, Ops.STORE)]


def test_a_padded_buffer_is_read_where_it_is():
    x = ramp(4)
    for inner in ((x.uop * 2.0).contiguous(), x.uop, (x.uop * 2.0).contiguous().flip((True,))):
        for u in loads_and_stores(schedule(inner.pad(((2, 1),)) + 1.0)):
            assert_inside(u)


@pytest.mark.parametrize("settings", [{}, {"PCONTIG": 1}, {"MAX_KERNEL_BUFFERS": 4}], ids=str)
def test_no_access_leaves_its_memory(settings):
    @examples(60)
    @given(programs(kinds=(*KINDS, "window", "contiguous", "move")))
    def check(program):
        graph, outputs = program.build()
        assert graph.keep
        for u in loads_and_stores(schedule(*(u for u, _ in outputs), **settings)):
            assert_inside(u)

    check()


# ** the rest **


def test_equal_kernels_are_one_node():
    x, y = ramp(3, 4), ramp(3, 4)
    w = schedule(
        (x.uop * 2.0 + 1.0).contiguous().permute((1, 0)) + 1.0,
        (y.uop * 2.0 + 1.0).contiguous().flip((True, False)) + 1.0,
    )
    bodies = [call.src[0] for call in w.plan.linear.src]
    assert len(bodies) == 4 and bodies.count(bodies[0]) == 2


def test_constants_cost_no_kernel_argument():
    two = UOp.const(2.0, dtypes.float32).expand_leading((3, 4))
    w = schedule(ramp(3, 4).uop * two + two.permute((0, 1)))
    assert [len(call.src) - 1 for call in w.plan.linear.src] == [2]


def test_the_walk_gives_every_computed_value_its_loops():
    a = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(1, 24, "NUMPY")).reshape((2, 3, 4))
    out = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 2, "NUMPY"))
    total = (a + 1.0).rop(Ops.ADD, (1, 2))
    walk = run_rangeify(UOp.sink(out.after(out.store(total))))
    loops = walk.ins[total]
    assert [r.src[0].arg for r in loops] == [3, 4, 2] and walk.out[total] == loops[2:]
    assert walk.out[a + 1.0] == (loops[2], *loops[:2]) and (a + 1.0) not in walk.realize


def test_a_stage_can_be_replaced():
    seen = []

    def spy(sink, ctx):
        assert isinstance(ctx, PassContext)
        seen.append(sink)
        return next(s.fn for s in PIPELINE.stages if s.name == "simplify")(sink, ctx)

    w = schedule(ramp(3).uop + 1.0, pipeline=PIPELINE.replace("simplify", spy))
    assert seen == [w.graphs["rangeify"]] and w.kernels == ["E_3"]


def test_watching_changes_nothing():
    x = ramp(3, 4)
    value = (x.uop * 2.0).rop(Ops.ADD, (1,)).reshape((3, 1)) + x.uop
    clear_caches()
    quiet = plan(Tensor.from_uop(value))
    watched = schedule(value).plan
    assert [c.src[0] for c in quiet.linear.src] == [c.src[0] for c in watched.linear.src]


def test_programs_print_what_they_do():
    program = Program((("leaf", 0, 0, 1), ("unary", 0, 0, 2), ("reduce", 1, 0, 3)), (0,))
    assert "realize x" in repr(program) and "leaf" in repr(program)


def test_schedules_in_threads_do_not_disturb_one_another():
    """Each thread has its own settings and observer; what they plan is what one thread would."""
    total = ramp(3, 4, 2).uop.rop(Ops.ADD, (2,))
    value = total + total.flip((False, True))

    def work(partial):
        found = []
        for _ in range(20):
            w = schedule(value, PCONTIG=partial, SCACHE=0)
            found.append(([d.verdict for d in w.about(Reason.CONSUMERS_DISAGREE)], w.kernels))
        return found

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, (0, 1, 0, 1)))
    assert results == [work(0), work(1), work(0), work(1)]
    assert results[0][0][0] == [Verdict.REALIZED] and results[1][0][0] == [Verdict.PARTIALLY_REALIZED]
