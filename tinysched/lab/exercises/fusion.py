"""Exercises 5: 5.2 asks when a sum is split. 5.1: a fusion policy that moves fewer bytes, without more kernels.

The answer is ``should_keep(stage, cost) -> bool``: whether a candidate buffer stays. ``stage.size`` is how many elements
it would hold; ``cost.buffers`` are the buffers that computing it where it is read would read (each has a ``size``), and
``cost.reduces`` the reductions that would be done again. The engine asks it in place of its own policy.

Against the default on each program: the same values, at most as many kernels, at most as many bytes, at most twice the
operations; and fewer bytes on the programs that leave room for it (``outer`` in their name).

>>> from tinysched.lab.check import check
>>> print(str(check(lambda stage, cost: True, "5.1")).splitlines()[2])
  3 kernels, and the default has 2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinysched.ir.decision import Cost
from tinysched.ir.uop import UOp
from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import floats, tensor
from tinysched.lab.score import figures
from tinysched.schedule.policy import Policies
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import capture
from tinysched.trace.compare import compare

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Keep:
    """A learner's function as a fusion policy."""

    answer: Callable[[UOp, Cost], bool]

    def keep(self, stage: UOp, cost: Cost) -> bool:
        return bool(given(self.answer, stage, cost))


# ** programs: some sizes in, Tensors out **


def _matrices(n: int, m: int, count: int) -> Tensors:
    return tuple(tensor(floats((n, m), seed)) for seed in range(count))


def outer_sums(n: int, m: int) -> Tensors:
    """two sums of an outer product: reading the small inputs again is cheap"""
    a, b = _matrices(n, 1, 2)
    c, d = _matrices(1, m, 2)
    y = a * c + b * d
    return y.sum(0), y.sum(1)


def four_sums(n: int, m: int) -> Tensors:
    """two sums of four matrices: reading them again is dear"""
    a, b, c, d = _matrices(n, m, 4)
    y = a * b + c * d
    return y.sum(0), y.sum(1)


def shared_square(n: int, m: int) -> Tensors:
    """two sums of a square"""
    (x,) = _matrices(n, m, 1)
    y = x * x
    return y.sum(0), y.sum(1)


def softmax(n: int, m: int) -> Tensors:
    """softmax"""
    (x,) = _matrices(n, m, 1)
    return (x.softmax(),)


def layernorm(n: int, m: int) -> Tensors:
    """layer norm"""
    (x,) = _matrices(n, m, 1)
    return (x.layernorm(),)


def scores(n: int, m: int) -> Tensors:
    """softmax of a product of matrices"""
    q, k = _matrices(n, m, 2)
    return ((q @ k.T).softmax(),)


def outer_max(n: int, m: int) -> Tensors:
    """a maximum and a sum of an outer product"""
    a, b = _matrices(n, 1, 2)
    c, d = _matrices(1, m, 2)
    y = a * c - b + d
    return y.max(0), y.sum(1)


PROGRAMS = (shared_square, outer_sums, four_sums, softmax, layernorm, scores, outer_max)
Case = tuple[Callable[[int, int], Tensors], int, int]


def _case(draw: Draw) -> Case:
    program = draw.one_of(PROGRAMS)
    n, m = draw.shape(2, low=20, high=40)
    return program, n, m


def _judge(answer: Any, case: Case) -> Wrong | None:
    program, n, m = case
    outs = program(n, m)
    yours, default = capture(outs, policies=Policies(fusion=Keep(answer)), title="yours"), capture(outs)
    a, b = figures(yours), figures(default)
    if a.kernels > b.kernels:
        return Wrong(f"{a.kernels} kernels, and the default has {b.kernels}", yours)
    if a.bytes_moved > b.bytes_moved:
        return Wrong(f"{a.bytes_moved:,} bytes moved, and the default moves {b.bytes_moved:,}", yours)
    if a.operations > 2 * b.operations:
        return Wrong(
            f"{a.operations:,} operations, and the default does {b.operations:,}: twice as many is the most", yours
        )
    if "outer" in program.__name__ and a.bytes_moved == b.bytes_moved:
        return Wrong(f"{a.bytes_moved:,} bytes moved, as by the default: here is room for less", yours)
    return None if compare(yours, default).same else Wrong("the values are not those of the default", yours)


def _sum_of(answer: Any, n: int) -> Wrong | None:
    trace = capture(tensor(floats((n,))).sum(), title=f"a sum of {n:,}")
    said, kernels = given(answer, n), figures(trace).kernels
    return None if said == kernels else Wrong(f"you say {said}, and the engine schedules {kernels}", trace)


EXERCISES = (
    Exercise(
        "5.1",
        "a fusion policy that moves fewer bytes",
        "should_keep(stage, cost): fewer bytes than the default, never more kernels, at most twice the operations",
        _case,
        _judge,
        hint="a buffer is written once and read by each reader; without it, each reader reads cost.buffers instead",
        by_hand=(*((program, 20, 30) for program in PROGRAMS), (scores, 40, 20)),
        count=20,
        describe=lambda case: f"{case[0].__doc__}, n = {case[1]}, m = {case[2]}",
    ),
    Exercise(
        "5.2",
        "when a sum is split",
        "kernels(n): how many kernels the engine needs to add up n numbers to one",
        lambda draw: draw.integer(30_000, 70_000),
        _sum_of,
        hint="it must be worth it (a threshold), and possible: n is cut into equal pieces, 8 to 256 of them",
        by_hand=(2, 32_767, 32_768, 32_771, 65_542, 32_776, 65_537),
        describe=lambda n: f"n = {n:,}",
    ),
)
