"""The user's lines in traces; what a trace costs; files that are damaged where scheduling starts from them."""

import copy
import json
import random
import time
import zlib
from typing import Any

import numpy as np
import pytest

from tinysched import Tensor, capture, clear_caches, function, nn, plan
from tinysched.errors import TinyschedError, TraceError
from tinysched.ir import lines as ir_lines
from tinysched.ir.observe import watching
from tinysched.trace import Trace
from tinysched.trace.recorder import Recorder
from tinysched.trace.whatif import again
from tinysched.views.text import kernels


def data(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)).realize()


class Block:
    """A GPT-2 block."""

    def __init__(self, width: int = 768, heads: int = 12):
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (p.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(self.fc(self.norm2(x)).gelu())


def lines_of(trace: Trace, op: str, which: int = -1) -> list[set[tuple[str, bool]]]:
    """For each node of an op in the tensor graph: the code of its lines, and whether as a gradient."""
    s = trace.schedules[which]
    nodes = s.nodes[: s.stages[0].root + 1]
    return [{(trace.lines[n].code, trace.lines[n].gradient) for n in node.lines} for node in nodes if node.op == op]


# ** lines **


def test_the_inside_of_an_operation_belongs_to_its_line() -> None:
    x = data(4, 6)
    y = x.softmax(1)
    trace = capture(y)
    assert lines_of(trace, "REDUCE") == [{("y = x.softmax(1)", False)}] * 2
    assert all(trace.schedules[0].kernels[k].lines for k in range(len(trace.schedules[0].kernels)))


def test_a_module_s_line_is_the_one_that_called_it() -> None:
    layer, x = nn.Linear(4, 3), data(2, 4)
    y = layer(x)
    trace = capture(y)
    assert {("y = layer(x)", False)} in lines_of(trace, "REDUCE")


def test_a_gradient_shows_the_forward_line_as_its_gradient() -> None:
    w = data(3, 3)
    w.requires_grad = True
    y = (w * 2).exp()
    loss = y.sum()
    (grad,) = loss.gradient(w)
    found = lines_of(capture(grad), "MUL")
    assert any(("y = (w * 2).exp()", True) in lines for lines in found)
    assert any(("y = (w * 2).exp()", False) in lines for lines in lines_of(capture(grad), "EXP2"))


def test_the_same_expression_on_two_lines_shows_both() -> None:
    x = data(4)
    a = x * 3
    b = x * 3
    trace = capture((a + 1, b.exp()))
    both = {("a = x * 3", False), ("b = x * 3", False)}
    assert any(both <= lines for lines in lines_of(trace, "MUL"))
    assert "a = x * 3" in str(trace.decisions.why(a)) and "b = x * 3" in str(trace.decisions.why(a))


def test_lines_inside_of_a_function_are_known() -> None:
    @function
    def scaled(x: Tensor) -> Tensor:
        return x * 5

    trace = capture(scaled(data(4)) + 1)
    assert any(line.code == "return x * 5" for line in trace.lines)


# ** what it costs **


@pytest.fixture(scope="module")
def block() -> tuple[Block, Tensor]:
    made = Block()
    for p in nn.state.get_parameters(made):
        p.realize()
    return made, data(1, 64, 768)


def test_a_gpt2_block_is_small(block: tuple[Block, Tensor]) -> None:
    model, x = block
    text = capture(model(x), title="block").to_json()
    assert len(zlib.compress(text.encode())) < 100_000  # a tenth of what is allowed
    loaded = Trace.from_json(text)
    assert again(loaded).trace.schedules[0].kernels == loaded.schedules[0].kernels


def test_watching_takes_at_most_as_long_again(block: tuple[Block, Tensor]) -> None:
    model, x = block
    out = model(x)

    def seconds(observer: Any) -> float:
        clear_caches()
        start = time.process_time()
        with watching(observer):
            plan(out)
        return time.process_time() - start

    untraced = min(seconds(None) for _ in range(7))
    assert min(seconds(Recorder()) for _ in range(7)) < 2 * untraced


def test_a_cell_that_runs_again_gives_the_same_bytes(block: tuple[Block, Tensor]) -> None:
    model, x = block
    texts = []
    for _ in range(2):
        clear_caches()
        out = model(x)
        texts.append(capture(out, title="block").to_json())
    assert texts[0] == texts[1]


# ** damaged files **


def test_damaged_arguments_are_errors_of_ours() -> None:
    """Whatever stands in `data`, `op`, `dtype` or `src`: the file is refused, or makes a legal graph."""
    rng = random.Random(0)
    y = data(4, 4) @ data(4, 4)
    text = capture((y + y.T).softmax(1)).to_json()
    junk: list[Any] = [None, -1, 2**40, "x", [], [[]], {"node": 10**6}, {"op": "NOPE"}, {"float": "zz"}, {"param": [1]}, [3, 3],
                       {"buffer": [-1, 0]}, {"unknown": "x"}, {"node": 0}, {"a": 1, "b": 2}, {"dtype": "q"}]  # fmt: skip
    document = json.loads(text)
    refused = 0
    for _ in range(150):
        broken = copy.deepcopy(document)
        node = rng.choice(broken["schedules"][0]["nodes"][:40])
        node[rng.choice(["data", "data", "op", "dtype"])] = rng.choice(junk)
        try:
            again(Trace.from_json(json.dumps(broken)))
        except TinyschedError:
            refused += 1
    assert refused > 50


def test_an_argument_that_holds_itself_is_refused() -> None:
    document = json.loads(capture(data(4, 4).reshape(16) + 1).to_json())
    nodes = document["schedules"][0]["nodes"]
    i = next(i for i, n in enumerate(nodes) if n["op"] == "RESHAPE")
    nodes[i]["data"] = [{"node": i}]
    with pytest.raises(TraceError, match="not below it"):
        again(Trace.from_json(json.dumps(document)))


# ** names **


def test_variables_of_the_function_that_is_captured_are_names() -> None:
    x = data(4, 4)

    def step() -> Tensor:
        scores = x * 2
        total = scores.sum(0)
        return total + 1

    s = capture(step).schedules[0]
    assert {n.name for n in s.nodes if n.name} >= {"x", "scores", "total"}


def test_looking_at_a_functions_variables_keeps_nothing_alive() -> None:
    """What only the function held is an intermediate like any other: the same kernels and the same arena."""
    x = data(4, 4)

    def step() -> Tensor:
        kept = (x + 1).contiguous()
        return kept.sum(0)

    seen = capture(step).schedules[0]
    alone = plan(step())
    assert [b.role for b in seen.buffers if b.name == "kept"] == ["intermediate"]
    assert seen.memory.lanes[0].arena_bytes == alone.memory.lanes[0].arena_bytes > 0


def test_what_is_written_in_place_has_the_name_of_its_memory() -> None:
    cache, new = data(1, 8, 4), data(1, 1, 4)
    cache[:, 2:3].assign(new * 2)
    keys = cache[:, :4].permute(0, 2, 1)
    trace = capture(keys.sum(1), inputs={"cache": cache, "keys": keys})
    s = trace.schedules[0]
    assert next(s.buffers[k.buffers[w]].name for k in s.kernels for w in k.writes) == "cache"


# ** several devices **


def test_kernels_on_several_devices_know_their_lines_and_values() -> None:
    devices = ("NUMPY", "NUMPY:1")
    x, w = data(4, 6).shard(devices, 0).realize(), data(6, 8).shard(devices).realize()
    h = x @ w
    total = h.relu().sum(0)
    trace = capture(total, inputs={"x": x, "w": w, "h": h})
    s = trace.schedules[0]
    made = {line.code for line in trace.lines}
    for kernel in s.kernels:
        assert {trace.lines[n].code for n in kernel.lines} <= made and kernel.lines, kernel.name
    assert [s.buffers[b].name for b in s.kernels[0].buffers[1:]] == ["x", "w"]
    why = trace.decisions.why("h")
    assert why.where.startswith("Computed in kernels 0 and 1")
    assert len(why.reasons) == len(set(why.reasons)), "what each device does is told once"


def test_lines_outlive_what_a_realize_changes_below() -> None:
    x = data(4)
    y = x + 1
    z = y * 3
    y.realize()  # z is another node now, over memory
    trace = capture(z)
    assert [trace.lines[n].code for n in trace.schedules[0].kernels[0].lines] == ["z = y * 3"]


# ** functions **


@function
def normed(x: Tensor) -> Tensor:
    e = (x - x.max(0)).exp()
    return e / e.sum(0)


@function(precompile=True)
def layer(x: Tensor, w: Tensor) -> Tensor:
    h = x @ w
    return h.relu()


@pytest.mark.parametrize("call", [lambda: normed(data(4, 6)).sum(1), lambda: layer(data(4, 4), data(4, 4)) + 1])
def test_lines_in_the_bodies_of_functions_are_shown(call: Any) -> None:
    trace = capture(call())
    codes = [{trace.lines[n].code for n in kernel.lines} for kernel in trace.schedules[0].kernels]
    first = "e = (x - x.max(0)).exp()" if len(codes) == 3 else "h = x @ w"
    assert first in codes[0]
    line = next(line for line in trace.lines if line.code == first)
    why = trace.decisions.why(line)
    assert why.where.startswith("In kernel") and why.parts and all("Computed in" in part.where for part in why.parts)
    loaded = again(Trace.from_json(trace.to_json())).trace
    assert [k.lines for k in loaded.schedules[0].kernels] == [k.lines for k in trace.schedules[0].kernels]


def test_the_value_of_a_call_is_followed_into_the_body() -> None:
    y = normed(data(4, 6))
    trace = capture(y.sum(1), inputs={"y": y})
    why = trace.decisions.why("y")
    assert why.reasons[0] == "resolve_gettuple" and "SINGLE_CONSUMER" in why.reasons
    assert why.where == "Computed in kernel 2."


def test_a_notebooks_cell_is_called_by_its_number() -> None:
    """As it stands before the cell, "[2]", and the same every time; outside of a notebook by its file."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_cell("from tinysched import Tensor, capture", store_history=True)
        shell.run_cell(
            "x = Tensor([1.0, 2.0]).realize()\ny = (x * 3).sum()\nt = capture(y)\nwhy = str(t.decisions.why(y))", True
        )
        trace, why, last = shell.user_ns["t"], shell.user_ns["why"], shell.user_ns["y"]
    finally:
        InteractiveShell.clear_instance()
    assert ("cell [2]", 2) in {(line.file, line.number) for line in trace.lines}
    assert "line  cell [2], line 2: `y = (x * 3).sum()`" in why
    assert str(ir_lines.lines_of(last.uop)[-1]).startswith("cell ")  # once IPython is gone nobody knows the number
    assert trace.with_overrides({"cell [2], line 2": "realize"}).schedules


def test_memory_that_is_read_before_it_is_written_is_state() -> None:
    w, g = data(4, 5), data(5, 4)
    w.assign(w - g.T * 0.1)
    s = capture(w, inputs={"w": w, "g": g}).schedules[0]
    assert {b.name: b.role for b in s.buffers} == {"w": "state", "g": "input"}
    assert kernels(s).splitlines()[1].split()[2:5] == ["w,", "g", "w"]
    plain = capture(data(4, 5) + 1).schedules[0]
    assert [b.role for b in plain.buffers] == ["output", "input"]
    assert plain.kernels[0].updates == ()


def test_an_output_that_later_kernels_read_is_no_state() -> None:
    x = data(4, 5)
    total = x.sum(1)
    s = capture((total, x / total.reshape(4, 1)), inputs={"total": total}).schedules[0]
    assert [b.role for b in s.buffers if b.name == "total"] == ["output"]


def test_a_part_of_memory_says_which_and_of_what() -> None:
    """A write that overlaps what it reads: the sentence names the memory, the label says which part."""
    x = Tensor(np.arange(5)).realize()
    x[1:] = x[:-1]
    trace = capture(x, inputs={"x": x})
    told = next(t.text for t in trace.decisions.all() if t.reason == "STORE_READS_TARGET")
    assert told.startswith("what is read of `x` stays in memory (4, 32 B): it is written to `x`, which it reads too")
    assert {n.label for n in trace.schedules[0].nodes if n.op == "SHRINK"} >= {"shrink 1:5", "shrink 0:4"}
    y = capture(data(4, 5)[:, 1:3] + 1)
    assert "shrink :,1:3" in {n.label for n in y.schedules[0].nodes}


@function(precompile=True)
def shares(x: Tensor) -> Tensor:
    h = x.exp2()
    return h / h.sum(1, keepdim=True)


@function
def twice(x: Tensor) -> Tensor:
    return shares(x) + shares(x * 2)


def test_why_reaches_into_a_function_that_is_scheduled_on_its_own() -> None:
    y = shares(data(4, 6))
    trace = capture(y.sum(0), inputs={"y": y})
    line = next(line for line in trace.lines if line.code == "return h / h.sum(1, keepdim=True)")
    total = next(part for part in trace.decisions.why(line).parts if part.subject.startswith("sum"))
    assert total.reasons[-2:] == ("RANGE_ENDED", "COST_REDUCE_READS_BUFFER")
    assert "Computed in kernel 0, stored in b0" in total.where
    given = trace.decisions.why("y")
    assert given.reasons[-1] == "FORCED_STORE" and given.where.startswith("Computed in kernel 1")
    call = next(i for i, n in enumerate(trace.schedules[0].nodes) if n.op == "FUNCTION")
    assert trace.decisions.why(call).where == "Its body is computed in kernels 0 and 1."


def test_what_functions_give_is_followed_through_functions() -> None:
    z = twice(data(4, 6))
    why = capture(z, inputs={"z": z}).decisions.why("z")
    assert why.where.startswith("Computed in kernel") and why.reasons[-1] == "FORCED_STORE"
    assert len(set(why.chain)) == len(why.chain), "nothing is told twice"


def test_what_would_change_a_decision_inside_of_a_function_is_tried() -> None:
    trace = capture(shares(data(4, 6)).sum(0))
    line = next(line for line in trace.lines if line.code.startswith("return h"))
    total = next(part for part in trace.decisions.why(line, flips=True).parts if part.subject.startswith("sum"))
    assert total.flip.startswith("Would fuse (an override): 1 kernel fewer"), total.flip
