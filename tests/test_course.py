"""Right and wrong answers to every exercise: those that people give. No check may take one for the other."""

from pathlib import Path

import pytest

from tests import answers, answers_more
from tinysched.lab import all_exercises, check

RIGHT, WRONG = answers.RIGHT | answers_more.RIGHT, answers.WRONG | answers_more.WRONG
SRC = Path(__file__).parent.parent / "notebooks" / "src"


@pytest.mark.parametrize("key, name", [(key, name) for key, answers in RIGHT.items() for name in answers])
def test_a_right_answer_passes(key: str, name: str) -> None:
    """Also those that are not like the one in the notebook; and so wrong answers don't fail for another reason."""
    assert check(RIGHT[key][name], key), f"{key}: {check(RIGHT[key][name], key)}"


def test_every_exercise_has_planted_wrong_answers() -> None:
    assert set(WRONG) == set(RIGHT) == set(all_exercises())
    assert all(len(answers) >= 3 for answers in WRONG.values())


@pytest.mark.parametrize("key, name", [(key, name) for key, answers in WRONG.items() for name in answers])
def test_a_wrong_answer_does_not_pass(key: str, name: str) -> None:
    report = check(WRONG[key][name], key)
    assert not report, f"{key}: {name!r} passed"
    assert report.wrong is not None, "it was judged, not taken for a blank"


def test_every_exercise_is_in_a_notebook() -> None:
    text = "\n".join(path.read_text() for path in SRC.glob("*.py"))
    assert [key for key in all_exercises() if f'exercise="{key}"' not in text] == []
