"""Predict, then reveal: commit to a guess, and see what the engine says and why.

In: a question in words that end in what is asked for ("softmax kernels"; :func:`~tinysched.lab.questions.questions` lists
them) and a guess. Out: :class:`Prediction`, and for it :class:`Revealed`: the answer, how far off the guess was, and
the evidence. A guess that is off is a distance, not a failure.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
>>> trace = capture(((x * 2).contiguous() + 1).sum(0))
>>> reveal(predict("kernels", 2), trace).off
0
>>> print(str(reveal(predict("bytes moved", 70), trace)).splitlines()[0])
bytes moved: you said 70, the engine says 84 bytes. 14 too few. The reasons say where they come from.
>>> reveal("kernels", trace)
Traceback (most recent call last):
...
tinysched.lab.notyet.NotYet: kernels: no prediction yet
  help: commit first: p = predict('kernels', your guess), then reveal(p, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

from tinysched.errors import ArgumentError
from tinysched.explain.shown import shown as shown_in_cell
from tinysched.lab.notyet import NotYet, is_blank
from tinysched.lab.questions import Answer, answer
from tinysched.trace.trace import Trace

CLOSE = 0.1
"""Guesses that are off by one, or by no more than this part of the answer, are called close."""


@dataclass(frozen=True)
class Prediction:
    """A guess that is committed to: it is a value and does not change any more."""

    question: str
    guess: Any

    def __repr__(self) -> str:
        if is_blank(self.guess):
            return f"{self.question}: no guess yet (put one in place of the dots)"
        return f"{self.question}: you say {shown(self.guess)}. Now reveal it."


def predict(question: str, guess: Any = ...) -> Prediction:
    """Commits to a guess. Dots (``...``) are a blank: :func:`reveal` refuses those."""
    if not isinstance(question, str):
        raise ArgumentError(f"a question is text, not {question!r:.60}", help="predict('softmax kernels', 3)")
    return Prediction(question, guess)


@dataclass(frozen=True)
class Revealed:
    """A guess beside the answer. ``off``: how far apart they are, 0 if they agree (None where there is no distance)."""

    prediction: Prediction
    answer: Answer
    off: int | float | None

    @property
    def right(self) -> bool:
        return self.off == 0

    def __repr__(self) -> str:
        p, a = self.prediction, self.answer
        head = f"{p.question}: you said {shown(p.guess)}"
        if self.right:
            head += f", and so says the engine{': ' + a.text if a.text != shown(p.guess) else ''}."
        else:
            head += f", the engine says {a.text}. {_distance(p.guess, a, self.off)}"
        return "\n".join([head, *(f"  why   {line}" for line in a.evidence)])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return shown_in_cell(repr(self))


def reveal(prediction: Prediction | str, *traces: Trace) -> Revealed:
    """What the engine says, with its reasons. Two traces where the question compares ("bytes saved").

    Raises :class:`NotYet` without a prediction, and :class:`ArgumentError` for a question that nobody can answer.
    """
    if not isinstance(prediction, Prediction):
        raise NotYet(
            f"{prediction}: no prediction yet",
            help=f"commit first: p = predict({prediction!r}, your guess), then reveal(p, ...)",
        )
    if is_blank(prediction.guess):
        raise NotYet(f"{prediction.question}: no prediction yet", help="put your guess in place of the dots")
    for trace in traces:
        if not isinstance(trace, Trace):
            raise ArgumentError(f"a {type(trace).__name__} is no trace", help="reveal(p, capture(x))")
    found = answer(prediction.question, traces)
    return Revealed(prediction, found, distance(prediction.guess, found.value))


def distance(guess: Any, value: Any) -> int | float | None:
    """How far a guess is from the answer: the difference of numbers, the number of places where tuples differ."""
    if isinstance(guess, (list, tuple)) and isinstance(value, tuple):
        if len(guess) != len(value):
            return None
        return sum(bool(g != v) for g, v in zip(guess, value))
    if isinstance(guess, (set, frozenset)) and isinstance(value, frozenset):
        return len(value ^ frozenset(guess))
    if _is_number(guess) and _is_number(value):
        return abs(value - guess)
    return 0 if str(guess).strip().lower() == str(value).strip().lower() else None


def _is_number(x: Any) -> TypeGuard[int | float]:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _distance(guess: Any, answer: Answer, off: int | float | None) -> str:
    value = answer.value
    below = " Read why below." if answer.evidence else ""
    if off is None and _is_number(value):
        return f"The answer is a number, to be written without quotes.{below}"
    if off is None and isinstance(value, tuple):
        return f"The answer is {len(value)} numbers: ({', '.join(['…'] * len(value))}).{below}"
    if off is None:
        return f"A guess to learn from.{below}"
    if isinstance(value, tuple):
        return f"{off} of {len(value)} places differ.{below}"
    if isinstance(value, frozenset):
        return f"{off} {'is' if off == 1 else 'are'} on one side only.{below}"
    words = f"{shown(off)} too {'many' if guess > value else 'few'}"
    close = off <= max(1, CLOSE * abs(value))
    return (
        f"{words}: close."
        if close
        else f"{words}.{' The reasons say where they come from.' if answer.evidence else ''}"
    )


def shown(x: Any) -> str:
    """A guess or an answer as people write it."""
    if isinstance(x, float):
        return f"{x:,.4g}"
    if _is_number(x):
        return f"{x:,}"
    if isinstance(x, (set, frozenset)):
        return ", ".join(sorted(map(str, x))) or "none"
    return str(x)
