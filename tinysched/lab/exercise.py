"""What an exercise is: random cases, and a judge that says what is wrong with an answer on one of them.

In: a module of :mod:`tinysched.lab.exercises`, whose EXERCISES are found here by number. Out: :class:`Exercise`.

>>> all_exercises()["1.1"].title
'a cut for exactly two kernels'
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinysched.lab.draw import Draw
from tinysched.trace.trace import Trace


@dataclass(frozen=True)
class Wrong:
    """What is wrong on one case: a sentence, and what shows it.

    ``trace`` is drawn: its graph as ``stage`` leaves it, which is ``drawing`` in text; without a stage what was asked
    for, and ``drawing`` says more.
    ``hint``: where the exercise's own would mislead. ``picture`` draws what is no trace, as PNG.
    """

    text: str
    trace: Trace | None = field(default=None, repr=False)
    drawing: str = ""
    stage: str | None = None
    hint: str = ""
    picture: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)


Judge = Callable[[Any, Any], Wrong | None]


@dataclass(frozen=True)
class Exercise:
    """``generate`` makes a case out of draws, ``judge(answer, case)`` says what is wrong on it (None: nothing).

    ``by_hand``: cases that are always looked at first, those that people get wrong. ``count``: how many random ones.
    ``hint``: what to think about after a failure.
    """

    key: str
    title: str
    goal: str
    generate: Callable[[Draw], Any]
    judge: Judge
    hint: str = ""
    by_hand: tuple[Any, ...] = ()
    count: int = 40
    describe: Callable[[Any], str] = str

    @property
    def source(self) -> str:
        """The file that holds every one of its checks, as a module's name."""
        return self.judge.__module__


@functools.cache
def all_exercises() -> dict[str, Exercise]:
    """All exercises by number."""
    package = importlib.import_module("tinysched.lab.exercises")
    modules = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    tables = (getattr(importlib.import_module(f"tinysched.lab.exercises.{name}"), "EXERCISES", ()) for name in modules)
    return {e.key: e for e in sorted((e for table in tables for e in table), key=lambda e: e.key)}
