"""Traces: what they hold agrees with the LINEAR that runs, capturing changes nothing, files are judged."""

import gc
import json
import re
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests.graphs import Program, examples, programs
from tinysched import Context, GlobalCounters, Tensor, capture, clear_caches, nn, plan
from tinysched.errors import ArgumentError, ScheduleError, TraceError
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp
from tinysched.schedule.policy import Policies
from tinysched.trace import Trace
from tinysched.trace.document import Decided, Ranges, Rewrite, Schedule
from tinysched.trace.kernels import memory_below, written

COMPUTING = {"alu", "reduce"}


def softmax() -> Trace:
    x = Tensor.rand(4, 5).realize()
    return capture(x.softmax(-1), title="softmax")


def attention() -> Trace:
    q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
    scores = q @ k.transpose(-2, -1)
    return capture(scores.softmax(-1) @ v, title="attention")


# ** what is shown is what runs **


def tensor_nodes(s: Schedule) -> set[int]:
    """The nodes of the tensor graph."""
    found, stack = set(), [s.stages[0].root]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(s.nodes[node].src)
    return found


def agrees_with(trace: Trace, linear: UOp) -> None:
    """Kernel table, buffers, hulls and order against the LINEAR itself."""
    s = trace.schedules[-1]
    assert len(s.kernels) == len(linear.src)
    number: dict[UOp, int] = {}
    for k, (kernel, call) in enumerate(zip(s.kernels, linear.src, strict=True)):
        body = call.src[0]
        assert kernel.name == getattr(body.arg, "name", "copy")
        assert kernel.key == body.key.hex()
        assert kernel.writes == written(call)
        assert len(kernel.buffers) == len(call.src) - 1
        for position, (b, argument) in enumerate(zip(kernel.buffers, call.src[1:], strict=True)):
            assert s.buffers[b].bytes == argument.nbytes(), f"kernel {k}, argument {position}"
            if (memory := memory_below(argument)).dtype.name != "int8":  # an arena has many buffers
                assert number.setdefault(memory, b) == b
    hulls_agree(s, linear)
    order_agrees(s)


def hulls_agree(s: Schedule, linear: UOp) -> None:
    """A kernel's tensor nodes do what its ast does: no reduction is in a hull whose kernel has none, and so on."""
    asked = tensor_nodes(s)
    for kernel, call in zip(s.kernels, linear.src, strict=True):
        inside = {s.nodes[n].op for n in kernel.nodes if n in asked and s.nodes[n].kind in COMPUTING}
        ast = {u.op for u in call.src[0].toposort()}
        needs = {Ops.ADD.name, Ops.MUL.name, Ops.EXP2.name, Ops.RECIPROCAL.name, Ops.REDUCE.name}
        shown, runs = inside & needs, {op.name for op in ast} & needs
        if Ops.REDUCE.name in runs:
            assert Ops.REDUCE.name in shown
        assert Ops.EXP2.name not in shown or Ops.EXP2.name in runs
        assert Ops.RECIPROCAL.name not in shown or Ops.RECIPROCAL.name in runs


def order_agrees(s: Schedule) -> None:
    """Every edge points forward and names a buffer that both use; every read of what a kernel wrote has one."""
    edges = {(e.before, e.after) for e in s.order}
    for e in s.order:
        assert e.before < e.after
        assert e.buffer in s.kernels[e.before].buffers and e.buffer in s.kernels[e.after].buffers
    writer: dict[int, int] = {}
    for k, kernel in enumerate(s.kernels):
        for position, b in enumerate(kernel.buffers):
            if position not in kernel.writes and b in writer:
                assert (writer[b], k) in edges
        for position in kernel.writes:
            writer[kernel.buffers[position]] = k


@examples(60)
@hypothesis.given(programs())
def test_a_trace_agrees_with_what_runs(program: Program) -> None:
    graph, outputs = program.build()
    tensors = [Tensor.from_uop(u) for u, _ in outputs]
    trace = capture(tensors)
    linear = plan(*tensors).linear
    if not linear.src:
        assert not trace.schedules or not trace.schedules[-1].kernels
        return
    agrees_with(trace, linear)
    assert Trace.from_json(trace.to_json()) == trace
    assert graph.keep


@examples(40)
@hypothesis.given(programs(kinds=("leaf", "unary", "binary", "reduce", "move")))
def test_every_computed_node_is_in_a_kernel(program: Program) -> None:
    """What reaches an output and is no constant is computed somewhere, unless a rule made it vanish."""
    graph, outputs = program.build()
    trace = capture([Tensor.from_uop(u) for u, _ in outputs])
    for s in trace.schedules:
        inside = {n for kernel in s.kernels for n in kernel.nodes}
        vanished = {step.before for stage in s.stages for step in stage.steps if isinstance(step, Rewrite)}
        for n in tensor_nodes(s):
            if s.nodes[n].kind in COMPUTING and n not in inside:
                assert reaches(s, n, vanished), f"{s.nodes[n].label} is in no kernel"
    assert graph.keep


def reaches(s: Schedule, n: int, ends: set[int]) -> bool:
    """Whether a node, or one of its readers, became one that a rule replaced."""
    later: dict[int, set[int]] = {}
    for stage in s.stages:
        for old, new, _ in stage.replaced:
            later.setdefault(old, set()).add(new)
    for i, node in enumerate(s.nodes):
        for source in node.src:
            later.setdefault(source, set()).add(i)
    found, stack = {n}, [n]
    while stack:
        node = stack.pop()
        if node in ends:
            return True
        for m in later.get(node, ()):
            if m not in found:
                found.add(m)
                stack.append(m)
    return False


def test_a_recomputed_value_is_in_every_kernel_that_computes_it() -> None:
    s = softmax().schedules[0]
    exp = next(i for i in tensor_nodes(s) if s.nodes[i].op == "EXP2")
    assert [k for k, kernel in enumerate(s.kernels) if exp in kernel.nodes] == [1, 2]


def test_equal_kernels_of_two_layers_have_hulls_of_their_own() -> None:
    x = Tensor.rand(6, 4).realize()
    y = x.softmax(-1).contiguous().softmax(-1)
    s = capture(y).schedules[0]
    asked = tensor_nodes(s)
    hulls = [{n for n in k.nodes if n in asked and s.nodes[n].kind == "reduce"} for k in s.kernels]
    names = [k.name for k in s.kernels]
    assert names[0] == names[3] and s.kernels[0].node == s.kernels[3].node, "the same node, compiled once"
    assert hulls[0] and hulls[3] and not hulls[0] & hulls[3]


def test_stages_are_a_chain_and_steps_tell_of_their_graph() -> None:
    for s in (*softmax().schedules, *attention().schedules):
        assert [stage.name for stage in s.stages[:3]] == ["tensor graph", "callify", "prepare"]
        assert s.stages[-1].name == "memory" and s.nodes[s.stages[-1].end].op == "LINEAR"
        for before, after in zip(s.stages, s.stages[1:], strict=False):
            assert after.root in (before.end, *s.nodes[before.end].src)
        kinds = {type(step) for stage in s.stages for step in stage.steps}
        assert kinds == {Decided, Ranges, Rewrite}
        assert all(stage.doc for stage in s.stages)


def test_nodes_stand_after_their_sources_and_each_once() -> None:
    s = attention().schedules[0]
    assert all(source < i for i, n in enumerate(s.nodes) for source in n.src)
    assert len(s.stages[0].steps) == 0


def test_names_lines_and_values_lead_back_to_the_user() -> None:
    q = Tensor.rand(2, 3).realize()
    scores = q * 2
    s = capture(scores.sum(1) + 1).schedules[0]
    named = {n.name for n in s.nodes if n.name}
    assert {"q", "scores"} <= named
    assert {b.name for b in s.buffers if b.role == "input"} == {"q"}
    lines = {line.code for line in capture(scores).lines}
    assert any("q * 2" in code for code in lines)


# ** capturing changes nothing **


def test_capturing_has_no_effect() -> None:
    x = Tensor([1.0, 2.0, 3.0]).realize()
    y = x + 1
    x.assign(x * 2)
    before, kernels = x.uop, GlobalCounters.kernel_count
    trace = capture([x, y])
    assert x.uop is before and GlobalCounters.kernel_count == kernels
    assert trace.schedules[0].kernels and trace.schedules[0].run is None
    assert (x.tolist(), y.tolist()) == ([2.0, 4.0, 6.0], [2.0, 3.0, 4.0])


def test_a_function_runs_as_it_would_and_its_schedules_are_recorded() -> None:
    weight = Tensor([1.0, 2.0]).realize()
    optimizer = nn.optim.SGD([weight], lr=0.5)

    def step() -> Tensor:
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()
        return weight + 1

    trace = capture(step)
    assert weight.tolist() == [0.0, 0.0]
    assert len(trace.schedules) == 2
    first, last = trace.schedules
    assert first.run is not None and len(first.run.seconds) == len(first.kernels)
    assert last.run is None, "what a function returns is only planned"
    assert "step" in trace.title


def test_running_gives_times_and_values() -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).realize()
    y = x.sum(1)
    trace = capture(y, run=True, values=True)
    run = trace.schedules[0].run
    assert run is not None and run.values is not None
    assert len(run.seconds) == 1
    (value,) = run.values.values()
    assert (value.shape, value.min, value.max, value.sample) == ((2,), 3.0, 12.0, ((3.0, 12.0),))
    assert y.tolist() == [3.0, 12.0]
    assert Trace.from_json(trace.to_json()) == trace


def test_values_are_asked_for_by_name() -> None:
    x = Tensor.rand(4, 5).realize()
    with pytest.raises(ArgumentError, match="no kernel writes 'z'"):
        capture(x.softmax(), run=True, values=("z",))


def test_a_trace_keeps_no_memory_alive() -> None:
    x = Tensor.rand(64, 64).realize()
    trace = capture(x.softmax())
    memory = weakref.ref(x.uop.buffer)
    del x
    gc.collect()
    assert memory() is None, "before anybody has looked at it"
    assert trace.schedules[0].kernels
    held = [Tensor.rand(64, 64).realize()]
    ran = capture(lambda: (held[0] + 1).realize())
    memory = weakref.ref(held.pop().uop.buffer)
    gc.collect()
    assert memory() is None, "a run that was watched"
    assert ran.schedules[0].run is not None


def test_a_trace_that_is_read_later_is_what_was_seen() -> None:
    """Whatever the program does meanwhile: other values, other names, the same expression on another line."""
    x, y = (Tensor.rand(4, 5).realize() for _ in range(2))
    with Context(SCACHE=0):
        before = capture((x * 2 + y).sum(1), title="t").to_json()
        later = capture((x * 2 + y).sum(1), title="t")
    _ = capture((x * 2 + y).sum(1)).schedules
    other = x
    x.assign(x + 1).realize()
    with Context(CPU="loops"):
        assert but_for_lines(later.to_json()) == but_for_lines(before)
    assert other is x


def but_for_lines(text: str) -> Any:
    """A document of a test that has the same expression on several lines: how many lines, not which."""
    data = json.loads(text)
    return {**data, "lines": len(data["lines"])}


@pytest.mark.parametrize("wrong", [3, "text", [1, 2], lambda: 7])
def test_what_is_no_tensor_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="cannot be captured"):
        capture(wrong)  # type: ignore[arg-type]


def test_nothing_to_do_is_an_empty_trace() -> None:
    x = Tensor([1.0, 2.0]).realize()
    trace = capture(x)
    assert sum(len(s.kernels) for s in trace.schedules) == 0
    assert Trace.from_json(trace.to_json()) == trace
    assert capture(lambda: None).schedules == ()


# ** the document **


@pytest.mark.parametrize("make", [softmax, attention])
def test_the_same_program_gives_the_same_bytes(make: Callable[[], Trace]) -> None:
    with Context(SCACHE=0):
        assert make().to_json() == make().to_json()


def test_what_is_remembered_of_other_schedules_is_not_seen() -> None:
    """Index nodes of an older trace or schedule are alive and know their normal forms: the rules are told all the same."""

    def program() -> Trace:
        y = (x * 2).permute(1, 0).reshape(3, 8)[1:, 2:].reshape(2, 2, 3).flip(1).reshape(12) + 1
        return capture(y, title="digits")

    x = Tensor.rand(4, 6).realize()
    clear_caches()
    with Context(SCACHE=0):
        one, two, three = program(), program(), program()
    assert two.to_json() == one.to_json() == three.to_json()
    used = [
        r for stage in one.schedules[0].stages for step in stage.steps if isinstance(step, Ranges) for r in step.index
    ]
    assert {one.rules[rule].name for rule, _, _ in used} >= {"split_multiple", "mirror", "digit_of_quotient"}


@dataclass(frozen=True)
class Fickle:
    """A fusion policy that changes its mind: equal to itself, whatever it says."""

    says: list[bool] = field(default_factory=lambda: [True, False], compare=False)

    def keep(self, stage: UOp, cost: Any) -> bool:
        return self.says[0]


def test_a_cached_schedule_is_checked_when_it_is_captured() -> None:
    y = (Tensor.rand(4, 4).realize() * 2).exp()
    policies = Policies(fusion=Fickle())
    out = y + y.T
    plan(out, policies=policies)
    assert capture(out, policies=policies).schedules[0].cache.outcome == "hit"
    policies.fusion.says.pop(0)  # type: ignore[attr-defined]
    with pytest.raises(ScheduleError, match="scheduled otherwise before"):
        capture(out, policies=policies)


def corrupted(data: object) -> Iterator[object]:
    """A document with one number, text or list spoilt, in turn, at every kind of place."""
    if isinstance(data, dict):
        for key, value in list(data.items()):
            for other in corrupted(value):
                yield {**data, key: other}
            yield {**data, key: {"kind": "evil"}}
            yield {**data, key: -7}
        yield {**data, "unknown": 1}
    elif isinstance(data, list):
        if data:
            for other in corrupted(data[0]):
                yield [other, *data[1:]]
        yield [*data, None]
    elif isinstance(data, bool):
        yield "true"
    elif isinstance(data, int):
        yield 10**9
        yield 1.5
        yield "1"
    else:
        yield ["x"]


def test_a_spoilt_document_is_refused_or_means_something() -> None:
    """Every spoilt one raises TraceError, or is a trace that can be written and read again: nothing else happens."""
    document = json.loads(softmax().to_json())
    refused = 0
    for spoilt in corrupted(document):
        try:
            trace = Trace.from_json(json.dumps(spoilt))
        except TraceError:
            refused += 1
        else:
            assert Trace.from_json(trace.to_json()) == trace
    assert refused > 100


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", '{"schema":0}', '{"schema":"0"}', '{"schema":1,"title":""}', "[" * 100_000, '{"a":' * 9_999,
     '{"schema":0,"title":"t","schedules":' + "[" * 60_000, '{"schema":' + "9" * 5_000 + "}", b"\x80\x04N.", b"\xff\xfe"],
)  # fmt: skip
def test_hostile_text_is_a_trace_error(text: str | bytes) -> None:
    with pytest.raises(TraceError):
        Trace.from_json(text)


def test_a_truncated_file_is_a_trace_error() -> None:
    text = softmax().to_json()
    for end in range(0, len(text), len(text) // 40):
        with pytest.raises(TraceError):
            Trace.from_json(text[:end])


def test_a_trace_of_a_thousand_values_is_small() -> None:
    import zlib

    x = Tensor.rand(8, 8).realize()
    for i in range(300):
        x = (x + i).maximum(0.5 * i)
    trace = capture(x)
    assert len(zlib.compress(trace.to_json().encode())) < 200_000


def test_movement_ops_stand_with_those_that_read_them() -> None:
    s = softmax().schedules[0]
    asked = tensor_nodes(s)
    moves = {op.name for op in GroupOp.Movement}
    for k, kernel in enumerate(s.kernels):
        inside = set(kernel.nodes)
        for n in inside & asked:
            if s.nodes[n].op in moves:
                readers = [m for m in asked if n in s.nodes[m].src]
                assert any(m in inside for m in readers), f"kernel {k}: {s.nodes[n].label} has no reader there"


def test_the_schema_is_documented() -> None:
    """Every field of the document stands in docs/trace-schema.md, and what stands there is a field."""
    from dataclasses import fields, is_dataclass
    from pathlib import Path

    from tinysched.trace import document, trace

    text = (Path(__file__).parent.parent / "docs" / "trace-schema.md").read_text(encoding="utf-8")
    schema = text.split("# The viewer's document")[0]
    classes = [c for m in (document, trace) for c in vars(m).values() if isinstance(c, type) and is_dataclass(c)]
    known = {f.name.rstrip("_") for c in classes for f in fields(c)} | {"kind", "node", "fuse"}
    written = set(re.findall(r'"([a-z_]+)":', schema))
    assert known - {"fuse"} <= written, f"not documented: {known - written}"
    assert written - known <= {"tlsf", "greedy"}, f"no such field: {written - known}"
