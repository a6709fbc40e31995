"""Random cases that shrink: a generator draws from a list of choices, and a shorter list is a smaller case.

In: a function that makes a case out of draws, and a test. Out: the first case that fails, then the smallest one found.
Why not hypothesis: it is a package for tests, with a database on disk and reports for programmers; a class that opens a
notebook should need neither. What is used of its idea is the part that fits here: to shrink the choices, not the case, so
that no exercise needs a shrinker of its own.

>>> def case(draw): return [draw.integer(0, 9) for _ in range(draw.integer(0, 5))]
>>> found = next(d for d in drawn(case, 50) if sum(d.case) > 10)
>>> shrink(case, found.choices, lambda numbers: sum(numbers) > 10).case
[3, 8]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
MOST_TRIES = 250
"""How many smaller cases are tried: a report must come within seconds."""


@dataclass
class Draw:
    """Where a case gets its numbers from: ``given`` choices first, then (if there is one) a random generator."""

    given: Sequence[int] = ()
    rng: random.Random | None = None
    choices: list[int] = field(default_factory=list)

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included. 0 in the choices stands for ``low``."""
        k = len(self.choices)
        if k < len(self.given):
            value = min(self.given[k], high - low)
        else:
            value = self.rng.randint(0, high - low) if self.rng is not None else 0
        self.choices.append(value)
        return low + value

    def one_of(self, options: Sequence[T]) -> T:
        """One of ``options``; the first is the simplest."""
        return options[self.integer(0, len(options) - 1)]

    def shape(self, ndim: int, low: int = 2, high: int = 7) -> tuple[int, ...]:
        """``ndim`` sizes that are all different: a mix-up of axes never goes unseen."""
        left = list(range(low, high + 1))
        return tuple(left.pop(self.integer(0, len(left) - 1)) for _ in range(ndim))


@dataclass(frozen=True)
class Drawn:
    """A case and the choices it was made by."""

    case: Any
    choices: tuple[int, ...]


def make(generate: Callable[[Draw], Any], draw: Draw) -> Drawn:
    """One case."""
    case = generate(draw)
    return Drawn(case, tuple(draw.choices))


def drawn(generate: Callable[[Draw], Any], count: int) -> Iterator[Drawn]:
    """``count`` random cases, the same every time: case ``n`` is made by seed ``n``."""
    for seed in range(count):
        yield make(generate, Draw(rng=random.Random(seed)))


def shrink(generate: Callable[[Draw], Any], choices: Sequence[int], fails: Callable[[Any], bool]) -> Drawn:
    """The smallest case found that still fails: fewer choices first, then smaller ones."""
    best = make(generate, Draw(choices))
    tries, improved = 0, True
    while improved:
        improved = False
        for smaller in _smaller(best.choices):
            tries += 1
            if tries > MOST_TRIES:
                return best
            candidate = make(generate, Draw(smaller))
            if _size(candidate.choices) < _size(best.choices) and fails(candidate.case):
                best, improved = candidate, True
                break
    return best


def _size(choices: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
    return len(choices), sum(choices), tuple(choices)


def _smaller(choices: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Without some choices in a row (long stretches first), then with one of them nearer to 0."""
    n = len(choices)
    for length in (8, 4, 2, 1):
        for start in range(n - length, -1, -1):
            yield (*choices[:start], *choices[start + length :])
    for i, value in enumerate(choices):
        for less in dict.fromkeys((0, value // 2, value - 1)):
            if 0 <= less < value:
                yield (*choices[:i], less, *choices[i + 1 :])
                # a count one lower goes with one choice fewer
                for j in range(i + 1, n):
                    yield (*choices[:i], less, *choices[i + 1 : j], *choices[j + 1 :])
