"""The check: an answer against cases that are made up on the spot, with NumPy as the judge.

In: what a learner wrote, and the number of an exercise. Out: :class:`Report`: how many checks ran, and for the first
failure the smallest case that still fails, drawn. Every check is in one readable file, which the report names.

>>> check(lambda a: ((a + 4) * 3).contiguous() - a, exercise="1.1")
1.1 a cut for exactly two kernels: all 40 checks passed.
  These are all the checks there are: tinysched.lab.exercises.lazy.
>>> print(str(check(lambda a: (a + 4) * 3 - a, exercise="1.1")).splitlines()[0])
1.1 a cut for exactly two kernels: check 1 of 40 did not pass.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.ir.lines import file_name, place
from tinysched.lab.draw import drawn, shrink
from tinysched.lab.exercise import Exercise, Wrong, all_exercises
from tinysched.lab.notyet import NotYet, is_blank
from tinysched.lab.picture import image
from tinysched.views.png import to_png
from tinysched.views.text import kernels

_PLAIN = (
    "margin:0;font-size:var(--jp-code-font-size,13px);white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
)
_PACKAGE = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True)
class Report:
    """The outcome; true where every check passed. ``ran`` of ``total`` checks were looked at."""

    exercise: Exercise = field(repr=False)
    ran: int
    total: int
    case: str = ""
    wrong: Wrong | None = None
    shrunk: bool = False
    blank: str = ""

    @property
    def ok(self) -> bool:
        return self.wrong is None and not self.blank

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return "\n".join([self._told(), *self._drawn()])

    def _told(self) -> str:
        name = f"{self.exercise.key} {self.exercise.title}"
        if self.blank:
            return f"{name}: {self.blank}\n  goal  {self.exercise.goal}"
        where = f"  These are all the checks there are: {self.exercise.source}."
        if self.wrong is None:
            return f"{name}: all {self.total} checks passed.\n{where}"
        smallest = "the smallest case found" if self.shrunk else "the case"
        lines = [f"{name}: check {self.ran} of {self.total} did not pass.", f"  {smallest}: {self.case}"]
        lines += [f"  {line}" for line in self.wrong.text.splitlines()]
        hint = self.wrong.hint or self.exercise.hint
        lines += [f"  hint  {hint}"] if hint else []
        lines.append(where)
        return "\n".join(lines)

    def _drawn(self) -> list[str]:
        if self.blank or self.wrong is None:
            return []
        shown = self.wrong.trace.schedules if self.wrong.trace is not None else ()
        text = self.wrong.drawing or "\n\n".join(kernels(s) for s in shown)
        return ["", *text.splitlines()] if text else []

    def _repr_html_(self) -> str:
        png = self._picture()
        twice = png is not None and self.wrong is not None and self.wrong.drawing and not self._has_loops()
        text = f'<pre style="{_PLAIN}">{escape(self._told() if twice else repr(self))}</pre>'
        return text if png is None else text + image(png, "the failing case")

    def _has_loops(self) -> bool:
        """Whether the drawing says more than the picture."""
        return self.wrong is not None and self.wrong.trace is not None and self.wrong.stage is None

    def _picture(self) -> bytes | None:
        if self.wrong is None:
            return None
        if self.wrong.picture is not None:
            return self.wrong.picture()
        trace = self.wrong.trace
        return to_png(trace, self.wrong.stage) if trace is not None and trace.schedules else None


def check(answer: Any, exercise: str) -> Report:
    """Judges ``answer`` by every check of an exercise. Raises :class:`ArgumentError` for one that does not exist."""
    known = all_exercises()
    if exercise not in known:
        raise ArgumentError(f"there is no exercise {exercise!r}", help=f"there are: {', '.join(known)}")
    return judge(answer, known[exercise])


def judge(answer: Any, e: Exercise) -> Report:
    """The same for an exercise of your own."""
    total = len(e.by_hand) + e.count
    if is_blank(answer):
        return Report(e, 0, total, blank="nothing to check yet.")
    try:
        for ran, (case, choices) in enumerate(_cases(e), 1):
            if (wrong := _judged(e, answer, case)) is None:
                continue
            if choices is None:
                return Report(e, ran, total, e.describe(case), wrong)
            case, wrong = _smallest(e, answer, choices)
            return Report(e, ran, total, e.describe(case), wrong, shrunk=True)
    except NotYet as blank:
        return Report(e, 0, total, blank=blank.what + ".")
    return Report(e, total, total)


def _cases(e: Exercise) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """Those by hand, then random ones with the choices that made them."""
    yield from ((case, None) for case in e.by_hand)
    yield from ((d.case, d.choices) for d in drawn(e.generate, e.count))


def _judged(e: Exercise, answer: Any, case: Any) -> Wrong | None:
    """What is wrong; an error in the learner's code is, too."""
    try:
        return e.judge(answer, case)
    except NotYet:
        raise
    except Exception as error:
        return Wrong(f"it raised {type(error).__name__}: {error}{_line(error)}")


def _line(error: Exception) -> str:
    """The line of the learner's code that raised: the last one outside of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    if not theirs or theirs[-1].lineno is None:
        return ""
    return f"\nat {place(file_name(theirs[-1].filename), theirs[-1].lineno)}: {theirs[-1].line}"


def _smallest(e: Exercise, answer: Any, choices: tuple[int, ...]) -> tuple[Any, Wrong]:
    found = shrink(e.generate, choices, lambda case: _judged(e, answer, case) is not None)
    wrong = _judged(e, answer, found.case)
    if wrong is None:  # an answer that is not the same twice
        return found.case, Wrong("it failed once and then passed: it depends on more than its arguments")
    return found.case, wrong


def given(answer: Callable[..., Any], *arguments: Any) -> Any:
    """What a learner's function returns. Raises :class:`NotYet` for a blank."""
    if not callable(answer):
        raise TypeError(f"a function is wanted here, not {answer!r:.60}")
    result = answer(*arguments)
    if is_blank(result):
        name = getattr(answer, "__name__", "it")
        raise NotYet(
            f"{name} returns nothing yet" if result is Ellipsis else f"{name} returns None (is a return missing?)"
        )
    return result
