"""Exercises 3: writes in the right order. In 3.2 two Tensors are swapped in place; in 3.1 writes overlap what they read.

The answer to 3.1 is a function that turns the elements of a Tensor ``x`` by ``k`` places in ``x``'s own memory, so that every
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
    trace = capture(x, run=True, title="yours", inputs={"x": x})
    wrong = differs(x, np.roll(array, k), trace)
    return wrong or differs(first, np.roll(array, k)[:1], trace)


def _swap(answer: Any, shape: tuple[int, ...]) -> Wrong | None:
    x, y = integers(shape), integers(shape, seed=1)
    a, b = tensor(x), tensor(y)
    views = a[:1], b[:1]
    result = given(answer, a, b)
    if not isinstance(result, tuple) or len(result) != 2 or result[0] is not a or result[1] is not b:
        return Wrong("return (a, b): the same two Tensors, with one another's values")
    trace = capture((a, b), run=True, title="yours", inputs={"a": a, "b": b})
    expected = ((a, y), (b, x), (views[0], y[:1]), (views[1], x[:1]))
    return next((w for t, array in expected if (w := differs(t, array, trace)) is not None), None)


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
    Exercise(
        "3.2",
        "a swap in place",
        "swap(a, b): each gets the other's values, in its own memory; return (a, b)",
        lambda draw: draw.shape(draw.integer(1, 2)),
        _swap,
        hint="after the first write one of the two values is gone, unless somebody kept it",
        describe=lambda shape: f"a and b of shape {shape}",
    ),
)
