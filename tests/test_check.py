"""`trace.check`: sound passes keep every value, and every mutation is found in its pass, at its rewrite."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests.graphs import Program, examples, programs
from tinysched import Context, Tensor, Variable, capture, clear_caches, function, nn
from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError
from tinysched.explain.blame import difference
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic import movement
from tinysched.ir.uop import UOp
from tinysched.schedule import (
    callify,
    hazards,
    indexing,
    kernels,
    memory,
    order,
    prepare,
    rangeify,
    reduce_simplify,
    simplify,
)
from tinysched.schedule.pipeline import PIPELINE
from tinysched.trace import Trace


def data(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).realize()


# ** mutations: a function that takes monkeypatch, and a program that meets what was broken **


def rule_fn(rules: Any, name: str, broken: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Breaks a rule of a PatternMatcher: ``broken(result, **bindings)`` changes what it gives."""
    rule = next(r for r in rules if r.name == name)

    def mutate(patch: pytest.MonkeyPatch) -> None:
        sound = rule.fn

        def fn(**bindings: Any) -> Any:
            result = sound(**bindings)
            return None if result is None else broken(result, **bindings)

        original = dict(rule.__dict__)
        object.__setattr__(rule, "fn", fn)
        patch.callbacks.append(lambda: object.__setattr__(rule, "fn", original["fn"]))  # type: ignore[attr-defined]

    return mutate


def apply_rule(name: str, broken: Callable[[Any, Any, UOp], UOp]) -> Callable[[pytest.MonkeyPatch], None]:
    """Breaks a rule of rangeify: ``broken(result, ctx, x)``."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        for op, rule in rangeify._BY_OP.items():
            if rule.name == name:
                sound = rule.fn
                patch.setitem(rangeify._BY_OP, op, replace(rule, fn=lambda ctx, x, f=sound: broken(f(ctx, x), ctx, x)))

    return mutate


def swap(module: Any, name: str, make: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Puts ``make(sound)`` in the place of a function."""
    return lambda patch: patch.setattr(module, name, make(getattr(module, name)))


def plus_one(result: UOp, **_: Any) -> UOp:
    return result + 1


def softmax() -> Any:
    return data(4, 6).softmax(1)


def transposed_sum() -> Any:
    y = data(4, 4) @ data(4, 4)
    return y + y.T * 2


def padded() -> Any:
    return data(3, 3).pad(((1, 0), (0, 1))) + 1


def stacked() -> Any:
    return Tensor.stack(data(4) + 1, data(4) * 2) * 3


def reordered() -> Any:
    x = data(3, 4) * 2
    return x.T.reshape(12) + x.reshape(12)


def counted() -> Any:
    return Tensor.arange(10) + data(10)


def picked() -> Any:
    return data(6, 3)[Tensor([1, 4, 2]).realize()]


def shifted_in_place() -> Any:
    x = data(6)
    x[1:].assign(x[:-1] + 1)
    return x


def many_inputs() -> Any:
    inputs = [data(4, 4) for _ in range(8)]
    with Context(MAX_KERNEL_BUFFERS=4):
        return capture(sum(inputs[1:], inputs[0]))


def repeated() -> Any:
    return data(4).reshape(4, 1).expand(4, 8).sum(1)


def permuted() -> Any:
    return Tensor.from_uop(data(2, 3, 4).uop.permute((2, 0, 1)).permute((2, 1, 0)) + 1.0)


def large_max() -> Any:
    with Context(REDUCEOP_SPLIT_THRESHOLD=64):
        return capture(data(16, 16).max())


def three_products() -> Any:
    return ((data(8, 8) @ data(8, 8)) @ data(8, 8)) @ data(8, 8)


def overlapping(sound: Any) -> Any:
    """The last buffer of every arena lies where the first one does."""

    def place(linear: UOp, plan: Any) -> UOp:
        return sound(linear, replace(plan, placements=tuple(replace(p, offset_bytes=0) for p in plan.placements)))

    return place


def last_first(sound: Any) -> Any:
    return lambda hazards, policy: sound(hazards, policy)[::-1]


@dataclass(frozen=True)
class Mutation:
    """What is broken, a program that meets it, and where it has to be found: pass, and rule (or part of the text)."""

    mutate: Callable[[pytest.MonkeyPatch], None]
    program: Callable[[], Any]
    stage: str
    rule: str = ""
    text: str = ""


def swapped(result: UOp, ctx: Any, x: UOp) -> UOp:
    return result.replace(src=result.src[::-1]) if x.op is Ops.CMPLT else result


MUTATIONS = {
    "callify stores another value": Mutation(
        swap(callify, "_rebuilt", lambda f: lambda s, u: f(s, u) + 1 if u.op is Ops.EXP2 else f(s, u)),
        softmax, "callify",
    ),
    "permutes merged in the wrong order": Mutation(
        rule_fn(prepare.earliest_rewrites, "merge_permutes", lambda r, **_: r.flip((True, False, False))),
        permuted, "prepare", "merge_permutes",
    ),
    "a hint that changes what it hints at": Mutation(
        rule_fn(prepare.earliest_rewrites, "drop_hints", plus_one), lambda: (data(4) * 2).detach() + 3,
        "prepare", "drop_hints",
    ),
    "a split maximum that adds up": Mutation(
        rule_fn(prepare.earliest_rewrites, "split_reduceop", lambda r, **_: r * 2), large_max, "prepare", "split_reduceop",
    ),
    "padding that is one": Mutation(
        apply_rule("apply_pad", lambda r, ctx, x: r.src[0].where(r.src[1], 1) if r.op is Ops.WHERE else r + 1),
        lambda: (data(3, 3) * 2).pad(((1, 0), (0, 1))) + 1, "rangeify", "apply_pad",
    ),
    "a stack in the wrong order": Mutation(
        apply_rule("apply_stack", lambda r, ctx, x: r.replace(src=(r.src[0], r.src[2], r.src[1]))),
        stacked, "rangeify", "apply_stack",
    ),
    "a reduction that starts from one": Mutation(
        apply_rule("apply_reduce", lambda r, ctx, x: r + 1),
        lambda: data(3, 4).sum(1) + 1, "rangeify", "apply_reduce",
    ),
    "operands swapped": Mutation(
        apply_rule("apply_elementwise", swapped), lambda: (data(4) < data(4) * data(4)).float(), "rangeify",
        "apply_elementwise",
    ),
    "a movement op that shows the next element": Mutation(
        swap(rangeify, "flat_index", lambda f: lambda shape, idx: f(shape, idx) * 0), lambda: data(4).flip(0) + 1,
        "rangeify",
    ),
    "readers that always agree": Mutation(
        swap(indexing, "_merge", lambda f: lambda x, readers, wanted, ranges: wanted[0]), transposed_sum, "rangeify",
    ),
    "a sum without its loop, once too often": Mutation(
        rule_fn(reduce_simplify.pm_reduce_simplify, "reduce_unparented", lambda r, **_: r * 2),
        repeated, "simplify", "reduce_unparented",
    ),
    "a count that is off by one": Mutation(
        rule_fn(reduce_simplify.pm_reduce_simplify, "reduce_collapse", plus_one), counted, "simplify", "reduce_collapse",
    ),
    "a gather that picks twice": Mutation(
        rule_fn(reduce_simplify.pm_reduce_simplify, "reduce_collapse", lambda r, **_: r + r),
        picked, "simplify", "reduce_collapse",
    ),
    "x * 1 is 1": Mutation(
        rule_fn(simplify.pm_simplify, "mul_one", lambda r, x: x * 0 + 1 if x.dtype.kind == "f" else x),
        lambda: (data(4) + 1) * 1.0 + data(4), "simplify", "mul_one",
    ),
    "x + 0 is x + 1": Mutation(
        rule_fn(simplify.pm_simplify, "add_negative_zero", lambda r, x, c: x + 1), lambda: data(4) * 2 + (-0.0),
        "simplify", "add_negative_zero",
    ),
    "two branches that are the same": Mutation(
        rule_fn(simplify.pm_simplify, "where_const", lambda r, c, x, y: y if c.arg else x),
        lambda: (Tensor.arange(4).reshape(2, 2) >= 0).where(data(2, 2) * 3, data(2, 2)), "simplify", "where_const",
    ),
    "a constant that grows when it is read": Mutation(
        rule_fn(simplify.pm_simplify, "stage_const", plus_one),
        lambda: (lambda z: z.exp() + z.T.exp())((Tensor.arange(16).reshape(4, 4) >= 0).float()), "simplify", "stage_const",
    ),
    "a removed buffer read elsewhere": Mutation(
        swap(
            simplify, "_inlined", lambda f: lambda ctx, st, idx: f(ctx, st, idx.replace(src=(idx.src[0], *idx.src[:0:-1])))
        ),
        lambda: (lambda y: y + y.T * 3)(data(4, 4) * 2), "simplify", "remove_bufferize",
    ),
    "a write that reads what it overwrote": Mutation(
        swap(simplify, "_apart", lambda f: lambda read, write: True), shifted_in_place, "simplify", "fix_store_hazard",
    ),
    "a kernel cut at the wrong value": Mutation(
        swap(simplify, "_staged", lambda f: lambda ctx, value: f(ctx, value * 2)), many_inputs, "limit buffers",
        "limit_bufs",
    ),
    "a buffer read at another index": Mutation(
        swap(kernels, "_read", lambda f: lambda index, src: f(index, (src[0], *src[:0:-1]))), transposed_sum,
        "add buffers",
    ),
    "a kernel that reads the wrong memory": Mutation(
        swap(kernels, "_kernel_node", lambda f: lambda u, split: f(u, split) * 2 if u.op is Ops.MUL
                 and u.dtype.kind == "f" else f(u, split)),
        softmax, "split kernels",
    ),
    "kernels in the wrong order": Mutation(swap(order, "_in_order", last_first), three_products, "order", text="kernel"),
    "buffers on top of one another": Mutation(
        swap(memory, "_rewrite", overlapping), three_products, "memory", text="kernel",
    ),
}  # fmt: skip


@pytest.fixture
def patch() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.callbacks = []  # type: ignore[attr-defined]
        yield patch
        for undo in patch.callbacks:  # type: ignore[attr-defined]
            undo()
    clear_caches()


def traced(program: Callable[[], Any]) -> Trace:
    found = program()
    return found if isinstance(found, Trace) else capture(found)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found_where_it_is(name: str, patch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    clear_caches()
    sound = traced(mutation.program)
    assert sound.check().ok, str(sound.check())
    clear_caches()
    mutation.mutate(patch)
    found = traced(mutation.program).check()
    assert not found.ok and (found.stage, found.rule) == (mutation.stage, mutation.rule or found.rule), str(found)
    assert mutation.text in found.text and found.text and found.stage in str(found)
    if found.step is not None:
        stage = found.trace.schedules[-1].stage(found.stage)
        assert found.trace.rules[stage.steps[found.step].rule].name == found.rule


def test_there_are_enough_mutations_in_every_pass() -> None:
    assert len(MUTATIONS) >= 20
    assert {m.stage for m in MUTATIONS.values()} == {"callify", *(s.name for s in PIPELINE.stages), "memory"}


# ** sound passes **


@examples(25)
@hypothesis.given(programs(most=14))
def test_sound_passes_keep_the_values_of_random_programs(program: Program) -> None:
    graph, outputs = program.build()
    tensors = [Tensor.from_uop(u) for u, _ in outputs]
    for schedule in (trace := capture(*[tensors])).schedules:
        assert schedule.stages
    if trace.schedules:
        assert trace.check().ok, str(trace.check())
    assert graph.keep is not None


def test_inputs_may_be_given_by_name() -> None:
    x = data(4)
    trace = capture(x.log(), inputs={"x": x})
    assert trace.check({"x": np.array([1, 0, -1, np.nan], np.float32)}).ok
    with pytest.raises(ArgumentError, match="no input is called 'y'"):
        trace.check({"y": 1})
    with pytest.raises(ArgumentError, match="x has 4 elements"):
        trace.check({"x": [1.0]})


def test_a_loaded_trace_is_checked_too() -> None:
    loaded = Trace.from_json(capture(softmax()).to_json())
    assert loaded.check()


def test_a_pass_of_ones_own_is_judged() -> None:
    trace = capture(data(4) + 1)
    wrong = PIPELINE.replace("prepare", lambda sink, ctx: sink.substitute(
        {u: u * 2 for u in sink.toposort() if u.op is Ops.ADD}))  # fmt: skip
    found = trace.check(pipeline=wrong)
    assert found.stage == "prepare" and "became" in found.text


def cache_write() -> Any:
    cache, n = data(1, 16, 8), Variable("n", 0, 15).bind(3)
    cache[:, n : n + 1].assign(data(1, 1, 8))
    return (cache * 2).sum(1)


def called() -> Any:
    @function(precompile=True)
    def layer(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu()

    return layer(layer(data(4, 4), data(4, 4)), data(4, 4)).sum(0)


TRIED: dict[str, Callable[[], Any]] = {
    "attention": lambda: data(1, 2, 8, 4).scaled_dot_product_attention(
        data(1, 2, 8, 4), data(1, 2, 8, 4), is_causal=True
    ),
    "layernorm": lambda: data(4, 8).layernorm(),
    "convolution": lambda: data(1, 2, 6, 6).conv2d(data(3, 2, 3, 3), padding=1).relu().max_pool2d(),
    "a write at a Variable position": cache_write,
    "functions": called,
    "sharded": lambda: data(8, 8).shard(("NUMPY", "NUMPY:1"), 0) @ data(8, 8).shard(("NUMPY", "NUMPY:1")),
    "sorted": lambda: data(12).sort()[0],
}


@pytest.mark.parametrize("name", TRIED)
def test_what_it_was_tried_on(name: str) -> None:
    trace = traced(TRIED[name])
    for which in range(len(trace.schedules)):
        assert trace.check(schedule=which).ok, str(trace.check(schedule=which))


def test_random_numbers_are_checked_too() -> None:
    trace = capture(Tensor.rand(3, 5) + data(3, 5))
    assert trace.check().ok, str(trace.check())


# ** rounding is no difference, and a small difference is no rounding **


def normalized_step() -> Any:
    """A bias before a normalization has no gradient but for rounding, which Adam divides by its own size."""
    x, conv, norm = data(3, 1, 5, 5), nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
    optimizer = nn.optim.Adam(nn.state.get_parameters([conv, norm]))
    with Context(TRAINING=1):
        norm(conv(x)).relu().square().mean().backward()
        return capture(lambda: optimizer.step())


def slightly_more(result: UOp, *_: Any, **__: Any) -> UOp:
    return result * 1.00001 if result.dtype.kind == "f" else result


IN_A_STEP = {
    "a product that is slightly more": ("rangeify", apply_rule("apply_elementwise", slightly_more)),
    "a sum that is slightly more": ("rangeify", apply_rule("apply_reduce", slightly_more)),
    "a zero that is not": (
        "simplify", rule_fn(simplify.pm_simplify, "remove_bufferize", lambda r, **_: r + 1e-5 if r.dtype.kind == "f" else r)
    ),
    "kernels that read the wrong memory": (
        "add buffers", swap(kernels, "_read", lambda f: lambda index, src: f(index, (src[0], *src[:0:-1])))
    ),
    "kernels in the wrong order": ("order", swap(order, "_in_order", last_first)),
    "buffers on top of one another": ("memory", swap(memory, "_rewrite", overlapping)),
}  # fmt: skip


def test_a_step_whose_gradients_are_rounding_is_sound() -> None:
    found = normalized_step().check()
    assert found.ok, str(found)


@pytest.mark.parametrize("name", IN_A_STEP)
def test_a_mutation_is_found_in_a_step_whose_gradients_are_rounding(name: str, patch: pytest.MonkeyPatch) -> None:
    stage, mutate = IN_A_STEP[name]
    trace = normalized_step()
    clear_caches()
    mutate(patch)
    assert (found := trace.check()).stage == stage, str(found)


def test_bits_seen_as_another_type_are_those_of_the_type_itself() -> None:
    x = data(5)
    assert capture((x * 3).bitcast("int32") + 1).check()
    x.bitcast("int32").assign(x.bitcast("int32") ^ 1)
    found = capture(x).check()
    assert found.ok, str(found)


def test_bits_of_constants_are_checked_too() -> None:
    trace = capture(Tensor.full((2, 1), 3, dtype="int64").bitcast("int32"))
    assert trace.check().ok, str(trace.check())


# ** what a finding says **


def projected() -> Any:
    return (data(6, 8) @ data(8, 8)).reshape(6, 2, 4).permute(1, 0, 2) * 2


def overwritten() -> Any:
    cache = data(9, 8)
    old = cache[3:].sum(1)
    cache[3:].assign(data(6, 8) @ data(8, 8))
    return capture((cache * 2, old), inputs={"cache": cache})


def two_products() -> Any:
    return (data(8, 8) @ data(8, 8)) @ (data(8, 8).T @ data(8, 8))


def wrong_stride(sound: Any) -> Any:
    """Strides of the sizes from the other end."""
    return lambda axes: sound([(r, n) for (r, _), (_, n) in zip(axes, reversed(axes))])


def no_overwrite(sound: Any) -> Any:
    """A write need not wait for those who read what it overwrites."""
    return lambda self, reader, state, history, later: None


def too_short(sound: Any) -> Any:
    """A buffer is dead as soon as it is written."""
    return lambda linear, held: [replace(used, last=used.first) for used in sound(linear, held)]


SAID = {
    "the view, its indices, and the line": (
        swap(movement, "_flatten", wrong_stride), projected, "rangeify",
        r"\(6 × 8 × 8, .*\) of .*test_check.py:\d+.* became <MUL .*>: at \[.*\] it is .* instead of .* differ\)\. "
        r"reshape \(6 × 1 × 8, .*\) of .*test_check.py:\d+.* is read as its source at \[.*\], which is another element",
    ),
    "the rule and the elements": (
        rule_fn(simplify.pm_simplify, "compare_indices", lambda r, **_: r | UOp.const(True, dtypes.bool)),
        lambda: (Tensor.arange(9) < 7).where(data(9), 0.0) * 2, "simplify",
        r"test_check.py:\d+: .*\(CAST\(i\) < CAST\(j\) -> .*\): at \[7\] it is 1 instead of 0 \(2 of 9 differ\)",
    ),
    "the kernel that overwrites too early": (
        swap(hazards.Hazards, "_order_reader", no_overwrite), overwritten, "order",
        r"it reads cache after kernel \d \(.*test_check.py:\d+\) has overwritten it, and nothing makes that wait \(WAR\)",
    ),
    "the kernel that comes too late": (
        swap(order, "_in_order", last_first), three_products, "order",
        r"kernel 0 \(r_8_8_8, .*test_check.py:\d+\) does not write .* before kernel 1 .* writes it, .* \(RAW\)",
    ),
    "what lies on what": (
        swap(memory, "_rewrite", overlapping), three_products, "memory", r"b\d lies over b\d, which it reads$",
    ),
    "the bytes that two buffers share": (
        swap(memory, "_intermediates", too_short), two_products, "memory",
        r"kernel \d \(.*\) has written b\d over b\d, which it reads: bytes \d+ to \d+ and bytes \d+ to \d+ of the arena",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_a_finding_names(what: str, patch: pytest.MonkeyPatch) -> None:
    mutate, program, stage, text = SAID[what]
    trace = traced(program)
    assert trace.check(), str(trace.check())
    clear_caches()
    mutate(patch)
    found = trace.check()
    assert found.stage == stage and re.search(text, found.text), str(found)


def test_a_mutation_is_found_inside_of_a_function_that_is_scheduled_on_its_own(patch: pytest.MonkeyPatch) -> None:
    @function(precompile=True)
    def inner(x: Tensor) -> Tensor:
        return x.softmax(1)

    @function(precompile=True)
    def outer(x: Tensor) -> Tensor:
        return inner(x * 2) + 1

    trace = capture(outer(data(4, 6)) * 3)
    assert trace.check(), str(trace.check())
    mutate = apply_rule("apply_reduce", lambda r, ctx, x: r + 1 if x.arg[0] is Ops.MAX else r * 2)
    clear_caches()
    mutate(patch)
    found = trace.check()
    assert found.stage.endswith("inner: rangeify") and found.rule == "apply_reduce", str(found)
    assert "test_check.py" in found.text and "return x.softmax(1)" in found.text


def test_a_difference_says_where_and_how_much() -> None:
    assert difference(np.array([1.0, 2, 5]), np.array([1.0, 2, 3])) == "at [2] it is 5 instead of 3 (1 of 3 differ)"
    assert difference(np.array(np.nan), np.array(3.0)) == "it is nan instead of 3"
    assert difference(np.ones((2, 3)), np.ones((4, 5))) == "its shape is (2, 3) instead of (4, 5)"
    assert difference(np.array([True, False]), np.array([True, True])) == "at [1] it is 0 instead of 1 (1 of 2 differ)"
    assert difference(np.array([np.nan, 1 + 1e-9]), np.array([np.nan, 1.0])) == ""


def test_a_pass_that_dies_is_told_with_what_was_wrong_before_it() -> None:
    trace = capture(softmax())

    def dies(sink: UOp, ctx: Any) -> UOp:
        raise KeyError("r3")

    for stage in ("prepare", "rangeify", "order", "simplify"):
        found = trace.check(pipeline=PIPELINE.replace(stage, dies))
        assert str(found) == f"{stage} dies: KeyError: 'r3'"
    assert [s.name for s in found.trace.schedules[0].stages][-1] == "simplify"
    assert Trace.from_json(found.trace.to_json()) == found.trace and "<svg" in found.trace.to_svg("rangeify")
    wrong = PIPELINE.replace("prepare", lambda sink, ctx: sink.substitute(
        {u: u * 2 for u in sink.toposort() if u.op is Ops.REDUCE}))  # fmt: skip
    assert trace.check(pipeline=wrong.replace("simplify", dies)).stage == "prepare"
    with pytest.raises(KeyError) as error:
        capture(softmax(), pipeline=PIPELINE.replace("simplify", dies))
    assert error.value.__notes__ == ["in the pass simplify"]


def test_a_pass_that_leaves_what_later_ones_are_not_made_for_is_told_instead_of_them() -> None:
    found = capture(softmax()).check(pipeline=PIPELINE.replace("add buffers", lambda graph, ctx: graph))
    assert found.stage == "add buffers" and found.verb.startswith("leaves a graph that is not legal"), str(found)
    assert found.text.startswith("STAGE is not legal in the stage buffered (") and "test_check.py" in found.text
