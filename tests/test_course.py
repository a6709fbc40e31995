"""Planted wrong answers: each is one that people give, and no check may take it for right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinysched.lab import check, exercises

SRC = Path(__file__).parent.parent / "notebooks" / "src"
Answers = dict[str, Callable[..., Any]]

# ** 1: a cut for exactly two kernels **

LAZY: Answers = {
    "no cut": lambda a: (a + 4) * 3 - a,
    "two cuts": lambda a: ((a + 4).contiguous() * 3).contiguous() - a,
    "a cut at the start": lambda a: (a.contiguous() + 4) * 3 - a,
    "a cut at the end": lambda a: ((a + 4) * 3 - a).contiguous(),
    "two kernels of another program": lambda a: ((a + 4) * 3).contiguous() - 4,
    "right for one axis only": lambda a: ((a + 4) * 3).contiguous() - a if a.ndim == 1 else (a + 4) * 3 - a,
    "run too early": lambda a: ((a + 4) * 3 - a).realize(),
}

WRONG: dict[str, Answers] = {"1.1": LAZY}


def test_every_exercise_has_planted_wrong_answers() -> None:
    assert set(WRONG) == set(exercises())
    assert all(len(answers) >= 3 for answers in WRONG.values())


@pytest.mark.parametrize("key, name", [(key, name) for key, answers in WRONG.items() for name in answers])
def test_a_wrong_answer_does_not_pass(key: str, name: str) -> None:
    report = check(WRONG[key][name], key)
    assert not report, f"{key}: {name!r} passed"
    assert report.wrong is not None, "it was judged, not taken for a blank"


def test_every_exercise_is_in_a_notebook() -> None:
    text = "\n".join(path.read_text() for path in SRC.glob("*.py"))
    assert [key for key in exercises() if f'exercise="{key}"' not in text] == []
