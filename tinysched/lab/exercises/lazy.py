"""Exercises 1: where a lazy program is cut into kernels.

1.1: a function from a Tensor ``a`` to ``(a + 4) * 3 - a`` that the engine schedules as exactly two kernels. 1.2: a function
from ``x`` to ``(x * 2 + 1).sum(0) * 3``, in two kernels, with the cut where it costs least.

>>> from tinysched.lab.check import check
>>> check(lambda a: ..., "1.1")
1.1 a cut for exactly two kernels: <lambda> returns nothing yet.
  goal  return (a + 4) * 3 - a, computed by exactly two kernels
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinysched.explain.speak import count
from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import differs, integers, tensor
from tinysched.lab.score import figures
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import capture


def _case(draw: Draw) -> tuple[int, ...]:
    """The shape of ``a``."""
    return draw.shape(draw.integer(1, 3))


def _judge(answer: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Wrong | None:
    a = integers(shape)
    x = tensor(a)
    out = given(answer, x)
    trace = capture(out, title="yours", inputs={"a": x, "out": out})
    kernels = sum(len(s.kernels) for s in trace.schedules)
    if kernels != 2:
        return Wrong(f"the engine schedules {kernels} kernel{'s' * (kernels != 1)}, and 2 are wanted", trace)
    return differs(out, (a + 4) * 3 - a, trace)


def _cheap_cut(answer: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Wrong | None:
    """``(x * 2 + 1).sum(0) * 3`` in two kernels; the least bytes are those of a cut behind the sum."""
    a = integers(shape)
    out, x = given(answer, tensor(a)), tensor(a)
    trace, least = capture(out, title="yours"), capture((x * 2 + 1).sum(0).contiguous() * 3)
    yours, reference = figures(trace), figures(least)
    if yours.kernels != 2:
        return Wrong(f"{count(yours.kernels, 'kernel')}, and 2 are wanted", trace)
    if yours.bytes_moved > reference.bytes_moved:
        return Wrong(f"{yours.bytes_moved:,} bytes moved, and {reference.bytes_moved:,} are enough", trace)
    return differs(out, ((a * 2 + 1).sum(0) * 3).astype(a.dtype), trace)


def _describe(shape: Any) -> str:
    return f"a of shape {shape}"


EXERCISES = (
    Exercise(
        "1.1",
        "a cut for exactly two kernels",
        "return (a + 4) * 3 - a, computed by exactly two kernels",
        _case,
        _judge,
        hint="contiguous() asks for memory in the middle of an expression; what is asked for at the end is stored anyway",
        describe=_describe,
    ),
    Exercise(
        "1.2",
        "a cut that costs little",
        "return (x * 2 + 1).sum(0) * 3, computed by exactly two kernels that move as few bytes as possible",
        lambda draw: draw.shape(draw.integer(2, 3)),
        _cheap_cut,
        hint="a cut costs what it stores, twice. Where is the value smallest?",
        describe=lambda shape: f"x of shape {shape}",
    ),
)
