"""Exercises 9: finding a bad pass with few runs, and the bad rule among good ones.

9.1: ``first_bad(count, good) -> k``. A schedule is made by ``count`` passes; ``good(k)`` says whether the values are
right if only the first ``k`` passes are those of the broken engine. ``good(0)`` is true and ``good(count)`` is false; the
answer is the number (from 1) of the first pass that breaks something. Each call is a whole schedule and run, so at most
``ceil(log2(count))`` of them are allowed.

9.2: ``repair(rules, right) -> rules``. One rule is wrong. ``right(rules)`` schedules and runs a program with some rules
and says whether NumPy agrees; the answer is all rules but that one (``rules.without(name)``).

9.3: ``smallest(steps, fails) -> steps``. What the lab does with a failing case: leave out all that is not needed.

>>> from tinysched.lab.check import check
>>> print(str(check(lambda rules, right: rules, "9.2")).splitlines()[2])
  the wrong rule is still in it
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinysched.explain.speak import count
from tinysched.ir.pattern import PatternMatcher, Rule
from tinysched.lab.bugs import RIGHT, WRONG
from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import differs, integers, tensor
from tinysched.lab.passes import followed, mixed
from tinysched.schedule.pipeline import PIPELINE, Pipeline
from tinysched.trace.capture import capture

# ** 9.1: which pass **


@dataclass(frozen=True)
class Passes:
    """So many passes, of which number ``bad`` (from 1) is the first that breaks something."""

    count: int
    bad: int

    def good(self, k: int) -> bool:
        return k < self.bad

    def __str__(self) -> str:
        return f"{self.count} pass{'es' * (self.count > 1)}, of which pass {self.bad} is the first bad one"


@dataclass(frozen=True)
class Engine:
    """The real passes, with a bad rule after one of them: ``good`` schedules and runs."""

    stage: str
    rule: Rule
    count: int = len(PIPELINE.stages)

    @property
    def bad(self) -> int:
        return [s.name for s in PIPELINE.stages].index(self.stage) + 1

    def good(self, k: int) -> bool:
        return is_right(mixed(followed(self.stage, PatternMatcher([self.rule])), k))

    def __str__(self) -> str:
        return f"the engine's {self.count} passes, with a bug in one of them"


def _program(x: Any) -> Any:
    """A program on a Tensor or an array, in which every rule of the pool has something to do."""
    high = x.maximum if hasattr(x, "maximum") else lambda bound: np.maximum(x, bound)
    y = ((high(-3) * 3) * 2 + 4 + 5) * 2 * 1 + 0
    return y.sum(0)


def is_right(pipeline: Pipeline) -> bool:
    """Whether NumPy agrees with what a pipeline makes of a small program."""
    array = integers((4, 5))
    out = _program(tensor(array))
    capture(out, pipeline=pipeline, run=True)
    return differs(out, _program(array)) is None


def _passes(draw: Draw) -> Passes:
    count = draw.integer(1, 40)
    return Passes(count, draw.integer(1, count))


def _judge_passes(answer: Any, case: Passes | Engine) -> Wrong | None:
    asked: list[int] = []

    def good(k: int) -> bool:
        if not 0 <= k <= case.count:
            raise ValueError(f"good({k}): there are {case.count} passes")
        asked.append(k)
        return case.good(k)

    found = given(answer, case.count, good)
    most = math.ceil(math.log2(case.count)) if case.count > 1 else 0
    if found != case.bad:
        asks = f"asked about {', '.join(map(str, asked))}" if asked else "asked about none"
        return Wrong(f"the first bad pass is {case.bad}, not {found}; you {asks}")
    if len(asked) > most:
        asks = f"good was called {count(len(asked), 'time')}, about {', '.join(map(str, asked))}"
        return Wrong(f"the answer is right, but {asks}; {count(most, 'call')} would do")
    return None


# ** 9.2: which rule **


@dataclass(frozen=True)
class Rules:
    """Rules in order, one of them wrong."""

    names: tuple[str, ...]
    bad: str

    def matcher(self) -> PatternMatcher:
        known = {r.name: r for r in (*RIGHT, *WRONG)}
        return PatternMatcher(known[name] for name in self.names)

    def __str__(self) -> str:
        return f"the rules {', '.join(self.names)}"


def _rules(draw: Draw) -> Rules:
    left = [r.name for r in RIGHT]
    some = [left.pop(draw.integer(0, len(left) - 1)) for _ in range(draw.integer(0, len(RIGHT)))]
    bad = draw.one_of(WRONG).name
    at = draw.integer(0, len(some))
    return Rules((*some[:at], bad, *some[at:]), bad)


def with_rules(rules: PatternMatcher) -> bool:
    """Whether the engine with these rules after "prepare" gives what NumPy gives."""
    return is_right(followed("prepare", rules))


def _judge_rules(answer: Callable[..., Any], case: Rules) -> Wrong | None:
    rules = case.matcher()
    repaired = given(answer, rules, with_rules)
    if not isinstance(repaired, PatternMatcher):
        return Wrong(f"rules are wanted back (rules.without(name)), not {repaired!r:.60}")
    names = [r.name for r in repaired]
    if case.bad in names:
        return Wrong("the wrong rule is still in it")
    missing = [name for name in case.names if name not in names and name != case.bad]
    return Wrong(f"{', '.join(missing)} is gone too, and was right") if missing else None


# ** 9.3: the smallest case **


@dataclass(frozen=True)
class Steps:
    """A program of so many steps, which fails where all of ``needed`` are in it."""

    count: int
    needed: tuple[int, ...]

    def fails(self, steps: Any) -> bool:
        return set(self.needed) <= set(steps)

    def __str__(self) -> str:
        return f"{self.count} steps, of which {', '.join(map(str, self.needed))} make it fail together"


def _steps(draw: Draw) -> Steps:
    count = draw.integer(1, 12)
    needed = sorted({draw.integer(0, count - 1) for _ in range(draw.integer(1, 4))})
    return Steps(count, tuple(needed))


def _judge_smallest(answer: Callable[..., Any], case: Steps) -> Wrong | None:
    found = list(given(answer, list(range(case.count)), case.fails))
    if not case.fails(found):
        return Wrong(f"{found} does not fail any more")
    extra = [step for step in found if step not in case.needed]
    if extra:
        return Wrong(f"{found} fails, and so it does without step {extra[0]}")
    return None if found == list(case.needed) else Wrong(f"{found}: each step once, in the order in which they came")


EXERCISES = (
    Exercise(
        "9.1",
        "the first bad pass, in few runs",
        "first_bad(count, good): the number of the first bad pass, after at most ceil(log2(count)) calls of good",
        _passes,
        _judge_passes,
        hint="keep two numbers: up to `low` all is good, with `high` it is bad. Ask about the middle",
        by_hand=(
            Passes(8, 5),
            Passes(1, 1),
            Passes(2, 2),
            Engine("prepare", WRONG[0]),
            Engine("simplify", WRONG[1]),
            Engine("limit buffers", WRONG[2]),
        ),
        count=60,
    ),
    Exercise(
        "9.2",
        "the bad rule, and the output repaired",
        "repair(rules, right): the rules without the one that is wrong, and with all others",
        _rules,
        _judge_rules,
        hint="a rule is wrong if `right` is false with it alone: right(PatternMatcher([r]))",
        by_hand=tuple(Rules((RIGHT[0].name, bad.name, RIGHT[1].name), bad.name) for bad in WRONG),
        count=15,
    ),
    Exercise(
        "9.3",
        "the smallest case that fails",
        "smallest(steps, fails): the steps that are needed for fails(steps) to be true, and no others, in their order",
        _steps,
        _judge_smallest,
        hint="leave a step out; if it still fails, it was not needed",
        by_hand=(Steps(1, (0,)), Steps(4, (1, 3))),
        count=60,
    ),
)
