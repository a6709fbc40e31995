"""A sentence for every reason: the test makes the program, reads the sentence, makes the change, sees the verdict turn.

`Case.program` gives a trace with the reason in it. `Case.flipped` makes the change by itself, from the program, without
the explainer's help: it must give the number of kernels that the explainer said, and no such verdict. A reason that
scheduling again cannot turn says what forces it, and `flipped` is another program, in which it is not given.
"""

import re
from typing import Any

import numpy as np
import pytest

from tests.reasons import CASES, data, doubled, stored_for_readers
from tinysched import Tensor, capture
from tinysched.explain import sentence
from tinysched.explain.flips import FORCED, TURNS, decisions_of, flip, words
from tinysched.explain.sentences import _BECAUSE, REASONS
from tinysched.explain.shown import shown
from tinysched.ir.decision import Reason
from tinysched.ir.uop import UOp
from tinysched.trace import Trace

ELSEWHERE = {Reason.MULTI_DEVICE: "test_shards_that_are_computed_are_stored"}


def first(trace: Trace, reason: Reason, about: str | None = None) -> tuple[int, Any] | None:
    """The first decision with a reason (about the value of that name), and its schedule."""
    for which, s in enumerate(trace.schedules):
        for at in decisions_of(s):
            if at[2].reason != reason.name:
                continue
            said = sentence(trace, s, at[2])
            if about is None or said.startswith(f"`{about}`"):
                return which, at
    return None


@pytest.mark.parametrize("reason", CASES, ids=lambda r: r.name)
def test_the_sentence_says_why_and_the_flip_turns_it(reason: Reason) -> None:
    case = CASES[reason]
    trace = case.program()
    found = first(trace, reason, case.about)
    assert found is not None, (
        f"no {reason.name} in {[d.reason for s in trace.schedules for _, _, d in decisions_of(s)]}"
    )
    which, at = found
    said = sentence(trace, trace.schedules[which], at[2])
    for part in case.says:
        assert part in said
    assert said.endswith(f"({reason.name}).") and "None" not in said and "{" not in said
    turned = flip(trace, which, at)
    other = case.flipped()
    again = first(other, reason, case.about)
    if reason.name in FORCED:
        assert turned.refused == FORCED[reason.name] and words(turned, at[2]).startswith("That is forced: ")
        assert again is None
        return
    assert turned.turned and not turned.refused, words(turned, at[2])
    kernels = len(other.schedules[-1].kernels)
    assert kernels - len(trace.schedules[which].kernels) == turned.kernels
    assert other.schedules[-1].bytes_moved - trace.schedules[which].bytes_moved == turned.bytes
    said_now = None if again is None else sentence(other, other.schedules[again[0]], again[1][2])
    assert said_now is None or said_now != said or reason in _DECIDED_LATER


_DECIDED_LATER = {Reason.CONSUMERS_DISAGREE, Reason.RANGE_ENDED}
"""The walk stores these whatever an override says; the override takes the buffer away afterwards."""


def test_every_reason_has_a_case_and_words() -> None:
    assert CASES.keys() | ELSEWHERE.keys() == set(Reason)
    assert {r.name for r in Reason} == FORCED.keys() | TURNS.keys()
    assert not FORCED.keys() & TURNS.keys()
    assert _BECAUSE.keys() | REASONS.keys() <= Reason.__members__.keys()


def test_shards_that_are_computed_are_stored() -> None:
    """What MSTACK joins is read from memory; the front end's graphs never get here with anything else."""
    from tinysched.dtypes import dtypes
    from tinysched.ir.decision import Decision
    from tinysched.ir.observe import watching
    from tinysched.ir.ops import Ops
    from tinysched.ir.uop import ParamArg
    from tinysched.schedule.indexing import run_rangeify
    from tinysched.trace.recorder import Recorder

    a, out = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 4, "NUMPY")) for i in (1, 0))
    both = UOp(Ops.MSTACK, dtypes.float32, (a + 1, a * 2))
    with watching(recorder := Recorder()):
        run_rangeify(UOp.sink(out.after(out.store(a * 3)), both))
    told = [t[1] for t in recorder.told if isinstance(t[1], Decision)]
    assert [d.reason for d in told].count(Reason.MULTI_DEVICE) == 2


# ** what a sentence looks like **


def test_it_names_what_the_user_named_and_never_a_stage() -> None:
    trace = stored_for_readers()
    said = " ".join(told.text for told in trace.decisions.all())
    assert "`y`" in said and "stage" not in said.split("(")[0]


def test_several_fused_kernels_are_told_once_each() -> None:
    q, k, v = (data(1, 2, 8, 4) for _ in range(3))
    out = q.scaled_dot_product_attention(k, v)
    trace = capture(out, flips="boundaries")
    flips = trace.schedules[0].flips
    assert flips and all(f.refused or f.change for f in flips)
    assert Trace.from_json(trace.to_json()) == trace
    assert "not tried" not in str(trace.decisions.why(out))


def test_what_was_not_tried_says_so_and_is_tried_on_demand() -> None:
    trace = doubled()
    assert trace.decisions.why("y").flip == "What would change it was not tried (flips=True tries it)."
    tried = trace.decisions.why("y", flips=True).flip
    assert re.fullmatch(r"Stored instead \(an override\): 1 kernel more, 128 B more moved.*\.", tried)
    assert len(trace.flipped) == 1
    trace.decisions.why("y", flips=True)
    assert len(trace.flipped) == 1


def test_a_loaded_trace_tries_flips_too() -> None:
    loaded = Trace.from_json(stored_for_readers().to_json())
    assert "Would fuse with a limit of 4: 1 kernel fewer" in loaded.decisions.why("y", flips=True).flip


def test_a_reason_in_a_notebook_breaks_at_words() -> None:
    """Text for terminals and pages; HTML whose lines go on below where they began, with labels as text."""
    x = Tensor(np.ones((4, 5), dtype=np.float32)).realize()
    y = x.softmax()
    why = capture(y, inputs={"x": x}).decisions.why(y)
    bundle = why._repr_mimebundle_()
    assert bundle["text/plain"] == str(why)
    assert bundle["text/html"].count("padding-left:8ch") == str(why).count("\n  ")
    assert "<b>" not in shown("a <b> c")["text/html"]
