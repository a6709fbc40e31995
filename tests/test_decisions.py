"""`trace.decisions.why`: the chain of a value, a kernel, a line, a buffer; its last word is what the schedule did."""

from dataclasses import replace
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests.graphs import Program, examples, programs
from tinysched import Tensor, capture, nn
from tinysched.errors import ArgumentError
from tinysched.explain.flips import decisions_of, stored_at_last
from tinysched.ir.decision import Decision, Reason
from tinysched.trace import Trace
from tinysched.trace.follow import Follow
from tinysched.trace.rebuild import below


def data(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)).realize()


def attention() -> Trace:
    q, k, v = (data(2, 8, 4) for _ in range(3))
    scores = q @ k.transpose(1, 2)
    probs = scores.softmax(2)
    out = probs @ v
    return capture(out, inputs={"q": q, "k": k, "v": v, "scores": scores, "probs": probs, "out": out})


def training_step() -> Trace:
    conv, head = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 10)
    params = nn.state.get_parameters([conv, head])
    for p in params:
        p.realize()
    images, labels = data(2, 1, 8, 8), Tensor([3, 7]).realize()
    optimizer = nn.optim.Adam(params)

    def step() -> Tensor:
        loss = head(conv(images).relu().flatten(1)).sparse_categorical_crossentropy(labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    from tinysched.settings import Context

    with Context(TRAINING=1):
        return capture(step)


# ** a value **


def test_the_last_word_is_what_the_schedule_did() -> None:
    trace = attention()
    why = trace.decisions.why
    assert why("scores").reasons == ("REDUCE_NOT_SPLIT", "CONSUMERS_DISAGREE", "COST_REDUCE_READS_BUFFER")
    assert why("scores").verdict.startswith("`scores` stays in memory (2 × 8 × 8, 512 B)")
    assert why("scores").where == "Computed in kernel 0, stored in scores (512 B at byte 0 of the arena)."
    assert why("probs").reasons[-1] == "ONLY_REORDERS" and "fused back" in why("probs").verdict
    assert why("out").reasons[0] == "FORCED_OUTPUT" and why("out").reasons[-1] == "FORCED_STORE"
    assert "test_decisions.py" in why("scores").lines[0] and "scores = q @ k" in why("scores").lines[0]


def test_a_value_is_named_in_many_ways() -> None:
    x = data(4, 4)
    y = x * 2
    z = y.sum(0)
    trace = capture(z, inputs={"x": x, "y": y})
    s = trace.schedules[0]
    node = next(i for i, n in enumerate(s.nodes) if n.name == "y")
    answers = [trace.decisions.why(key) for key in ("y", y, y.uop, node, s.nodes[node])]
    assert all(answer == answers[0] for answer in answers)
    z.realize()
    assert trace.decisions.why(z).reasons[-1] == "FORCED_STORE"  # its Storage is still known
    loaded = Trace.from_json(trace.to_json())
    assert loaded.decisions.why("y") == answers[0]
    with pytest.raises(ArgumentError, match="not part of the trace"):
        loaded.decisions.why(y)
    with pytest.raises(ArgumentError, match="no node, no name and no line"):
        trace.decisions.why("nobody")


def stored_values(trace: Trace, which: int = 0) -> set[int]:
    """The tensor-graph nodes whose value a kernel stores."""
    return {b.node for b in trace.schedules[which].buffers if b.node is not None and b.role != "input"}


@pytest.mark.parametrize("make", [attention, training_step], ids=lambda f: f.__name__)
def test_every_stored_value_has_a_verdict_that_says_so(make: Any) -> None:
    trace = make()
    for which, s in enumerate(trace.schedules):
        follow = Follow(s)
        graph = set(below(s.nodes, (s.stages[0].root,)))
        for node in stored_values(trace, which) & graph:
            if s.nodes[node].kind != "memory":
                assert stored_at_last(follow, node), trace.decisions.why(node, schedule=which)


@examples(10)
@hypothesis.given(programs(most=12))
def test_every_value_of_random_programs_has_an_answer(program: Program) -> None:
    graph, outputs = program.build()
    trace = capture([Tensor.from_uop(u) for u, _ in outputs])
    assert graph.keep is not None
    for which, s in enumerate(trace.schedules):
        for i in below(s.nodes, (s.stages[0].root,)):
            why = trace.decisions.why(i, schedule=which)
            assert why.where and "None" not in str(replace(why, lines=()))


# ** a kernel, a line, a buffer **


def test_a_kernel_says_what_is_inside_and_what_it_waits_for() -> None:
    trace = attention()
    why = trace.decisions.why("kernel 2")
    assert str(why).startswith("kernel 2 (r_")
    assert any("waits for kernel 0: it reads scores after kernel 0 writes it (RAW)" in fact for fact in why.facts)
    assert any(fact.startswith("computes ") for fact in why.facts) and why.parts
    assert trace.decisions.why(trace.schedules[0].kernels[2]) == why == trace.decisions.why("k2")
    with pytest.raises(ArgumentError, match="there is no kernel 'kernel 99'"):
        trace.decisions.why("kernel 99")


def test_a_line_answers_for_every_value_it_made() -> None:
    trace = attention()
    line = next(line for line in trace.lines if line.code.startswith("probs = "))
    why = trace.decisions.why(line)
    assert len(why.parts) > 4 and "probs = scores.softmax(2)" in why.subject
    assert trace.decisions.why(f"{line.file}:{line.number}") == why
    assert "In kernels 1, 2 and 3." in str(why)


def test_a_buffer_says_who_writes_and_reads_it_and_why_it_is_there() -> None:
    trace = attention()
    s = trace.schedules[0]
    b = next(i for i, buffer in enumerate(s.buffers) if buffer.role == "intermediate")
    why = trace.decisions.why(f"b{b}")
    assert "intermediate" in why.facts[0] and "written by kernel 0" in why.facts[0] and "placed" in why.facts[1]
    assert trace.decisions.why(s.buffers[b]).parts == why.parts


def test_a_write_before_which_an_older_value_is_read() -> None:
    x = data(4)
    y = x.flip(0) + 1
    x.assign(x * 2)
    trace = capture((x, y))
    waits = [fact for k in range(len(trace.schedules[0].kernels)) for fact in trace.decisions.why(f"kernel {k}").facts]
    assert any("WAR" in fact or "RAW" in fact for fact in waits) or len(trace.schedules[0].kernels) == 2


# ** where did it go **


def test_where_did_it_go() -> None:
    x = data(4, 4)
    y = (x.T + 1).detach() * 1.0 + Tensor.arange(4)
    trace = capture(y.sum(0), inputs={"x": x})
    s = trace.schedules[0]
    all_said = [(s.nodes[i].op, trace.decisions.why(i).where) for i in below(s.nodes, (s.stages[0].root,))]
    said = dict(all_said)
    view = "A view of `x`: no kernel computes it, its readers index memory (`"
    assert any(op == "PERMUTE" and text.startswith(view) for op, text in all_said)
    assert said["CONST"] == "A constant: part of the program that reads it."
    assert said["BUFFER"].startswith("It is memory, read or written by kernel")
    assert all(text for _, text in all_said)


def test_what_a_rule_removed_names_the_rule_and_the_step() -> None:
    y = data(4) * 2
    trace = capture((y.detach() + 1).sum(0), inputs={"y": y})
    s = trace.schedules[0]
    hint = next(i for i, n in enumerate(s.nodes) if n.op == "DETACH")
    assert "became `y` by rule drop_hints" in str(trace.decisions.why(hint))
    assert "step 1 of prepare" in str(trace.decisions.why(hint))


# ** decisions for every outcome **


def test_every_walked_value_has_a_decision() -> None:
    for trace in (attention(), training_step()):
        for s in trace.schedules:
            stage = s.stage("rangeify")
            walked = [step.node for step in stage.steps if step.KIND == "ranges"]
            decided = {step.node for step in stage.steps if step.KIND == "decision"}
            assert walked and set(walked) <= decided


def test_refusals_are_recorded_as_much_as_acts() -> None:
    reasons = {d.reason for s in training_step().schedules for _, _, d in decisions_of(s)}
    assert {"REDUCE_NOT_SPLIT", "COST_REDUCE_READS_BUFFER", "FORCED_OUTPUT", "RANGE_ENDED"} <= reasons


def test_all_decisions_as_sentences() -> None:
    told = attention().decisions.all()
    assert told and all(t.text.endswith(f"({t.reason}).") for t in told)
    assert {t.reason for t in told} <= {r.name for r in Reason}


def test_the_walk_and_the_decisions_as_text() -> None:
    from tinysched.views.text import decisions, walk

    trace = attention()
    s = trace.schedules[0]
    rows = walk(trace, s).splitlines()
    assert len(rows) == 1 + sum(step.KIND == "ranges" for step in s.stage("rangeify").steps)
    assert any(row.split()[1] == "`scores`" and row.endswith("all") for row in rows[1:])
    said = decisions(trace, s)
    assert "rangeify: " in said and all(told.text in said for told in trace.decisions.all())


def test_a_decision_is_one_frozen_value() -> None:
    from dataclasses import FrozenInstanceError

    with pytest.raises(FrozenInstanceError):
        Decision(None, "s", None, None).stage = "t"  # type: ignore[arg-type, misc]
