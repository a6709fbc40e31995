"""Exercise 3: writes that overlap what they read, in the right order.

The answer is a function that turns the elements of a Tensor ``x`` by ``k`` places in ``x``'s own memory, so that every
view of ``x`` sees it: ``[0, 1, 2, 3, 4]`` by 2 is ``[3, 4, 0, 1, 2]``. It returns ``x``.

>>> from tinysched.lab.check import check
>>> def turn(x, k):
...     x[k:], x[:k] = x[:-k], x[-k:]
...     return x
>>> print(str(check(turn, "3.1")).splitlines()[1])
  the case: x of 5 elements, k = 2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import differs, integers, tensor
from tinysched.trace.capture import capture


def _case(draw: Draw) -> tuple[int, int]:
    """How many elements, and by how many places."""
    n = draw.integer(2, 9)
    return n, draw.integer(1, n - 1)


def _judge(answer: Any, case: tuple[int, int]) -> Wrong | None:
    n, k = case
    array = np.arange(n) if n == 5 else integers((n,), seed=n)
    x = tensor(array)
    first = x[:1]  # a view: it shows what is in x's memory
    result = given(answer, x, k)
    if result is not x:
        return Wrong("another Tensor came back: x itself is to be changed, and returned")
    trace = capture(x, run=True, title="your writes", inputs={"x": x})
    wrong = differs(x, np.roll(array, k), trace)
    return wrong or differs(first, np.roll(array, k)[:1], trace)


EXERCISES = (
    Exercise(
        "3.1",
        "overlapping writes in the right order",
        "turn x by k places in its own memory: the last k elements come first",
        _case,
        _judge,
        hint="a slice is a view and follows x; an expression (or clone()) keeps the values it was written with",
        by_hand=((5, 2), (5, 4)),
        describe=lambda case: f"x of {case[0]} elements, k = {case[1]}",
    ),
)
