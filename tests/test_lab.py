"""The lab: guesses are compared with what the engine says, checks find the smallest failure, scores need right values."""

import random

import numpy as np
import pytest

from tinysched import Ops, Tensor, UOp, capture
from tinysched.errors import ArgumentError
from tinysched.ir.pattern import UPat, rule
from tinysched.lab import NotYet, Wrong, all_exercises, check, predict, questions, reveal, score
from tinysched.lab.check import judge
from tinysched.lab.draw import Draw, drawn, make, shrink
from tinysched.lab.exercise import Exercise
from tinysched.lab.picture import image, picture
from tinysched.lab.sketch import arena
from tinysched.schedule.pipeline import PIPELINE
from tinysched.schedule.policy import Eager, Policies
from tinysched.views.png import to_png


def matrix(rows: int = 5, columns: int = 7) -> Tensor:
    return Tensor(np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)).realize()


# ** predict and reveal **


def test_reveal_refuses_without_a_prediction() -> None:
    trace = capture(matrix() + 1)
    for nothing in (..., None):
        with pytest.raises(NotYet, match="no prediction yet"):
            reveal(predict("kernels", nothing), trace)
    with pytest.raises(NotYet, match="commit first"):
        reveal("kernels", trace)


def test_an_answer_comes_with_its_decisions() -> None:
    trace = capture(matrix().softmax())
    found = reveal(predict("softmax kernels", 1), trace)
    assert (found.answer.value, found.off, found.right) == (3, 2, False)
    reasons = [reason for reason in ("COST_REDUCE_READS_BUFFER", "FORCED_STORE") if reason in str(found)]
    assert len(reasons) == 2
    assert len(found.answer.evidence) == 3


@pytest.mark.parametrize("guess, says", [(5, "2 too many. The"), (2, "1 too few: close"), (3, "so says the engine")])
def test_a_guess_is_a_distance(guess: int, says: str) -> None:
    text = str(reveal(predict("kernels", guess), capture(matrix().softmax())))
    assert says in text
    assert "wrong" not in text.lower()


def test_answers_follow_the_engine() -> None:
    """The same question, another schedule: nothing is written down anywhere."""
    x = matrix()
    lazy, eager = (capture(x.softmax(), policies=p) for p in (None, Policies(fusion=Eager())))
    counts = [reveal(predict("kernels", 0), t).answer.value for t in (lazy, eager)]
    assert counts == [len(t.schedules[0].kernels) for t in (lazy, eager)] and counts[0] < counts[1]
    saved = reveal(predict("bytes saved", 0), eager, lazy).answer.value
    assert saved == eager.schedules[0].bytes_moved - lazy.schedules[0].bytes_moved > 0
    added = reveal(predict("operations added", 0), eager, lazy).answer.value
    assert added == sum(k.ops for k in lazy.schedules[0].kernels) - sum(k.ops for k in eager.schedules[0].kernels)


def test_every_question_has_an_answer() -> None:
    x = matrix()
    y = x.T.reshape(5, 7) * 2
    trace = capture(y.sum(1).contiguous() + 1)
    asked = {
        "RULE": "noop_reshape", "STAGE": "prepare", "SOURCE": "x", "RESULT": "y",
    }  # fmt: skip
    for ending in questions():
        text = ending
        for blank, word in asked.items():
            text = text.replace(blank, word)
        traces = (trace, trace) if ending in ("bytes saved", "operations added") else (trace,)
        found = reveal(predict(f"this: {text}?", 0), *traces)
        assert found.answer.text, ending


def test_questions_that_nobody_can_answer() -> None:
    trace = capture(matrix() + 1)
    with pytest.raises(ArgumentError, match="nobody can answer"):
        reveal(predict("how warm is it", 3), trace)
    with pytest.raises(ArgumentError, match="2 traces"):
        reveal(predict("bytes saved", 3), trace)


def test_what_is_no_trace_is_refused_in_words() -> None:
    x = matrix() + 1
    with pytest.raises(ArgumentError, match="a Tensor is no trace"):
        reveal(predict("kernels", 1), x)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="1 trace, not 0"):
        reveal(predict("kernels", 1))
    with pytest.raises(NotYet):
        reveal(predict("kernels"), capture(x))


def test_elements_are_followed_as_numpy_moves_them() -> None:
    """An array of places, moved by NumPy: what lies at an index is the place that is read."""
    x = matrix(4, 6)
    y = x.permute(1, 0).pad(((1, 2), (0, 0))).flip(0).reshape(4, 9)[1:, ::2] * 1
    trace = capture(y)
    places = np.arange(1, 25).reshape(4, 6)
    moved = np.pad(places.T, ((1, 2), (0, 0)))[::-1].reshape(4, 9)[1:, ::2]
    for at in np.ndindex(moved.shape):
        found = reveal(predict(f"x read for y[{', '.join(map(str, at))}]", 0), trace).answer.value
        expected = np.unravel_index(moved[at] - 1, (4, 6)) if moved[at] else "nothing"
        assert found == (tuple(map(int, expected)) if moved[at] else "nothing"), at


def test_elements_of_a_reduction_and_a_broadcast() -> None:
    x = matrix(3, 4)
    y = x - x.sum(1, keepdim=True)
    found = reveal(predict("x read for y[1, 2]", (1, 2)), capture(y))
    assert "4 elements" in str(found)


# ** drawing and shrinking **


def test_cases_are_the_same_every_time_and_sizes_differ() -> None:
    cases = [d.case for d in drawn(lambda draw: draw.shape(3), 30)]
    assert cases == [d.case for d in drawn(lambda draw: draw.shape(3), 30)]
    assert len(set(cases)) > 20
    assert all(len(set(shape)) == 3 for shape in cases)


def test_shrinking_finds_the_smallest_case() -> None:
    def numbers(draw: Draw) -> list[int]:
        return [draw.integer(0, 50) for _ in range(draw.integer(0, 8))]

    def fails(case: list[int]) -> bool:
        return any(n >= 17 for n in case)

    for seed in range(20):
        first = make(numbers, Draw(rng=random.Random(seed)))
        if fails(first.case):
            assert shrink(numbers, first.choices, fails).case == [17]


# ** check **


def test_a_failure_is_reported_small_and_drawn() -> None:
    report = check(lambda a: (a + 4) * 3 - a if a.shape[0] > 2 else ((a + 4) * 3).contiguous() - a, "1.1")
    assert not report
    assert "a of shape (3,)" in str(report)
    assert "1 kernel" in str(report) and "E_3" in str(report)
    assert '<img style="max-width:100%"' in report._repr_html_() and "data:image/png" in report._repr_html_()
    assert "tinysched.lab.exercises.lazy" in str(report)


def test_an_error_in_an_answer_names_its_line() -> None:
    def broken(a: Tensor) -> Tensor:
        return a.no_such_method()

    text = str(check(broken, "1.1"))
    assert "AttributeError" in text and "return a.no_such_method()" in text


def test_a_rule_with_a_name_that_its_pattern_lacks() -> None:
    @rule(UPat(Ops.ADD, src=[UPat.var("x"), UPat.cvar("c")]))
    def misnamed(x: UOp, c2: UOp) -> UOp:
        """x + c -> x"""
        return x

    assert "misnamed takes c2" in str(check(misnamed, "2.1"))


def test_an_answer_that_is_not_the_same_twice() -> None:
    calls = iter(range(1000))
    e = Exercise(
        "t", "t", "t", lambda draw: draw.integer(1, 9), lambda answer, case: Wrong("no") if not answer() else None
    )
    assert "depends on more" in str(judge(lambda: bool(next(calls)), e))


def test_blanks_do_not_pass() -> None:
    for e in all_exercises().values():
        for blank in (..., None, lambda *arguments: ..., lambda *arguments: None):
            report = judge(blank, e)
            assert not report, e.key
        assert "yet" in str(check(..., e.key)), e.key


def test_unknown_exercises() -> None:
    with pytest.raises(ArgumentError, match="there is no exercise"):
        check(..., "99.9")


def test_every_exercise_is_whole() -> None:
    for key, e in all_exercises().items():
        assert e.key == key and e.title and e.goal and e.hint
        cases = [e.describe(d.case) for d in drawn(e.generate, min(e.count, 5))]
        assert cases == [e.describe(d.case) for d in drawn(e.generate, min(e.count, 5))], (
            "cases must be the same each time"
        )


# ** score **


def test_a_score_needs_right_values() -> None:
    x = matrix()
    y = (x + 1).exp()
    good = score(capture(y.sum(1)))
    assert good.same and good.yours == good.reference == good.best
    wrong = PIPELINE.replace(
        "prepare", lambda sink, ctx: sink.substitute({c: c.replace(arg=9.0) for c in sink.toposort() if c.arg == 1.0})
    )
    bad = score(capture(y.sum(1), pipeline=wrong))
    assert not bad.same and "OTHERS" in str(bad)


def test_the_best_so_far_is_kept() -> None:
    x = matrix()
    y = x * 3
    z = y.sum(1)
    worse = score(capture(z, inputs={"y": y}, overrides={"y": "realize"}))
    assert worse.best == worse.yours
    better = score(capture(z))
    assert better.best == better.yours != worse.yours
    assert score(capture(z, inputs={"y": y}, overrides={"y": "realize"})).best == better.yours


def test_a_picture_stays_without_a_kernel() -> None:
    shown = picture(matrix() + 1, stage="rangeify")
    data, size = shown._repr_mimebundle_()
    assert sorted(data) == ["image/png", "text/plain"] and size["image/png"]["width"] > 50
    assert "1 kernel" in repr(shown)


# ** what a report shows **


@rule(UPat(Ops.ADD, src=[UPat(Ops.ADD, src=[UPat.var("x"), UPat.cvar("c1")]), UPat.cvar("c2")]))
def one_after_the_other(x: UOp, c1: UOp, c2: UOp) -> UOp:
    """(x + c1) + c2 -> (x + c1) + c2"""
    return x + c1.arg + c2.arg


def test_a_rule_that_leaves_a_pair_is_drawn_as_it_leaves_the_graph() -> None:
    report = check(one_after_the_other, "2.1")
    assert report.wrong is not None and report.wrong.trace is not None
    assert "two additions" in str(report) and "before\n" in str(report)
    assert "c1.arg + c2.arg is a number" in str(report) and "16777216" not in str(report), "a hint that fits"
    html = report._repr_html_()
    assert image(to_png(report.wrong.trace, "prepare"), "")[-200:-20] in html
    assert "before\n" not in html, "the picture says it"


def test_names_that_a_pattern_does_not_give() -> None:
    @rule(UPat(Ops.ADD, src=[UPat.var("y"), UPat.cvar("c2")]))
    def join(x: UOp, c2: UOp) -> UOp:
        """x -> x"""
        return x

    text = str(check(join, "2.1"))
    assert "nothing in its pattern has that name (the names there: c2, y)" in text and "ctx" not in text


def test_an_index_rule_is_shown_with_the_loops_it_made() -> None:
    report = check(lambda indices, order: tuple(indices[i] for i in order), "4.1")
    assert "for r2 in range(4):" in str(report) and "p1[" in str(report)


def test_a_function_without_a_return_is_told_so() -> None:
    assert "returns None (is a return missing?)" in str(check(lambda a: None, "1.1"))
    assert "returns nothing yet" in str(check(lambda a: ..., "1.1"))


@pytest.mark.parametrize(
    "guess, says",
    [
        ("one", "The answer is a number, to be written without quotes."),
        ((1, 2), "The answer is a number"),
        (3, "2 too many."),
    ],
)
def test_a_guess_of_another_kind_hears_what_is_wanted(guess: object, says: str) -> None:
    assert says in str(reveal(predict("kernels", guess), capture(matrix() + 1)))


def test_an_index_comes_with_its_way() -> None:
    x = matrix(3, 5)
    z = (x * 10).pad(((1, 1), (0, 0))).T.reshape(25)[3:20] + 1
    trace = capture(z)
    found = str(reveal(predict("x read for z[0]", 3), trace))
    assert "The answer is 2 numbers: (…, …)." in found
    assert "z[0] ← shrink 3:20[0] ← reshape[3] ← permute 1,0[0, 3] ← pad[3, 0] ← mul[2, 0] ← x[2, 0]" in found
    assert "pad[4, 0] ← mul: padding" in str(reveal(predict("x read for z[1]", "nothing"), trace))


def test_what_is_no_trace_is_drawn_too() -> None:
    """Kernels that wait for one another, buffers that lie on one another: a picture in place of the table in text."""
    queue = check(lambda count, edges: list(range(count)), "7.1")
    packed = check(lambda lifetimes: [0] * len(lifetimes), "8.1")
    for report, words in ((queue, "waits for"), (packed, "kernel ")):
        assert report.wrong is not None and report.wrong.picture is not None
        html = report._repr_html_()
        assert "data:image/png" in html and words in str(report)
        assert report.wrong.drawing and report.wrong.drawing not in html
    assert packed.wrong is not None and packed.wrong.picture is not None
    assert packed.wrong.picture() == packed.wrong.picture()


def test_what_two_blocks_share_is_framed() -> None:
    lives = [(0, 1, 512), (1, 2, 256)]
    assert arena(lives, [0, 256], 768) != arena(lives, [0, 512], 768)
