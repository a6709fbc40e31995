"""Exercises 4: the index rules of PERMUTE, SHRINK, PAD, FLIP and RESHAPE, run by the engine in place of its own.

Each answer is a function from the indices of a movement op's *result* to those of its *source*, as in
:func:`~tinysched.ir.symbolic.movement.apply_movement_op`:

- ``permute(indices, order)``: axis ``i`` of the result is axis ``order[i]`` of the source
- ``shrink(indices, bounds)``: of each axis the part from ``bounds[i][0]`` up to ``bounds[i][1]``
- ``pad(indices, widths, shape)``: ``widths[i]`` zeros before and after an axis of ``shape[i]``
- ``flip(indices, turned, shape)`` and ``reshape(indices, new_shape, shape)``

:func:`tiny_rangeify` is the whole pass "rangeify" for programs of movement ops and elementwise ops, in 30 lines.

>>> from tinysched.lab.check import check
>>> check(lambda indices, bounds: tuple(i + start for i, (start, _) in zip(indices, bounds)), "4.2").ok
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.conditions import conjunction
from tinysched.ir.symbolic.movement import ZERO, Indices, apply_movement_op
from tinysched.ir.uop import TRUE, UOp, as_uop
from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import integers, ran, tensor
from tinysched.schedule.indexing import indices_for, is_leaf, valid_of
from tinysched.schedule.pipeline import PIPELINE, PassContext
from tinysched.schedule.rangeify import read_leaf
from tinysched.tensor.core import Tensor
from tinysched.trace.trace import Trace

IndexRule = Callable[[UOp, Indices], Indices]
"""A movement op and the indices of its result; the indices of its source."""

# ** a small rangeify **


def tiny_rangeify(rules: dict[Ops, IndexRule]) -> Callable[[UOp, PassContext], UOp]:
    """The pass: every write gets a loop per axis, and movement ops become what ``rules`` (else the engine's) say."""

    def source_indices(u: UOp, indices: Indices) -> Indices:
        if u.op in rules:
            return rules[u.op](u, indices)
        return apply_movement_op(u.op, u.src[0].shape, u.arg, indices)

    def read(u: UOp, indices: Indices) -> UOp:
        if u.op is Ops.RESHAPE and is_leaf(u):
            return read_leaf(u, indices)
        if u.op in GroupOp.Movement:
            inner = source_indices(u, indices)
            valid = conjunction(valid_of(inner))
            value = read(u.src[0], inner)
            return value if u.op is not Ops.PAD or valid is TRUE else valid.where(value, 0)
        if u.op in (Ops.CONST, Ops.PARAM):
            return read_leaf(u, indices)
        return UOp(u.op, u.dtype, tuple(read(s, indices_for(u, s, indices)) for s in u.src), u.arg)

    def run(sink: UOp, ctx: PassContext) -> UOp:
        roots = []
        for after in sink.src:
            target, value = after.src[1].src
            loops = tuple(ZERO if n == 1 else UOp.range(n, i) for i, n in enumerate(value.shape))
            write = read_leaf(target, loops).store(read(value, loops))
            end = write.end(*(r for r in loops if r is not ZERO))
            roots.append(after.src[0].base.after(end))
        return UOp.sink(*roots)

    return run


# ** cases **


@dataclass(frozen=True)
class Moved:
    """A movement op with its argument on an ``x`` of some shape; then 1 is added, and the axes are turned around."""

    op: Ops
    shape: tuple[int, ...]
    arg: Any

    def tensor(self, x: Tensor) -> Tensor:
        x = x * 3
        move = {Ops.PERMUTE: x.permute, Ops.SHRINK: x.shrink, Ops.PAD: x.pad, Ops.RESHAPE: x.reshape}
        y = x.flip(self.flipped) if self.op is Ops.FLIP else move[self.op](self.arg)
        return (y + 1).permute(tuple(reversed(range(y.ndim)))) * 2

    def array(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        x = x * 3
        if self.op is Ops.PERMUTE:
            y = x.transpose(self.arg)
        elif self.op is Ops.FLIP:
            y = np.flip(x, self.flipped)
        elif self.op is Ops.RESHAPE:
            y = x.reshape(self.arg)
        elif self.op is Ops.SHRINK:
            y = x[tuple(slice(start, end) for start, end in self.arg)]
        else:
            y = np.pad(x, self.arg)
        return (y + 1).T * 2

    @property
    def flipped(self) -> tuple[int, ...]:
        """The axes that FLIP turns around."""
        return tuple(i for i, turned in enumerate(self.arg) if turned)

    def __str__(self) -> str:
        return f"x of shape {self.shape}, {self.op.name.lower()} {self.arg}"


def _permute(draw: Draw) -> Moved:
    left = list(range(draw.integer(2, 4)))
    shape = draw.shape(len(left))
    return Moved(Ops.PERMUTE, shape, tuple(left.pop(draw.integer(0, len(left) - 1)) for _ in shape))


def _shrink(draw: Draw) -> Moved:
    shape = draw.shape(draw.integer(1, 3), low=3)
    starts = [draw.integer(0, n - 2) for n in shape]
    return Moved(Ops.SHRINK, shape, tuple((a, draw.integer(a + 1, n)) for a, n in zip(starts, shape)))


def _pad(draw: Draw) -> Moved:
    shape = draw.shape(draw.integer(1, 3))
    return Moved(Ops.PAD, shape, tuple((draw.integer(0, 2), draw.integer(0, 3)) for _ in shape))


def _flip(draw: Draw) -> Moved:
    shape = draw.shape(draw.integer(1, 3))
    return Moved(Ops.FLIP, shape, tuple(draw.integer(0, 1) == 1 for _ in shape))


def _reshape(draw: Draw) -> Moved:
    a, b, *rest = draw.shape(draw.integer(2, 3))
    merged, apart, turned = (a * b, *rest), (a, b, *rest), (b, a, *rest)
    before, after = draw.one_of(((apart, merged), (merged, apart), (apart, turned)))
    return Moved(Ops.RESHAPE, before, after)


# ** the judge **


def _judge(rule: IndexRule, case: Moved) -> Wrong | None:
    def checked(u: UOp, indices: Indices) -> Indices:
        found = tuple(as_uop(i) for i in rule(u, indices))
        if len(found) != len(u.src[0].shape):
            raise ValueError(f"it returned {len(found)} indices, and the source has {len(u.src[0].shape)} axes")
        return found

    array = integers(case.shape)
    out = case.tensor(x := tensor(array))
    pipeline = PIPELINE.replace("rangeify", tiny_rangeify({case.op: checked}))
    wrong = ran(out, case.array(array), "yours", {"x": x, "out": out}, pipeline=pipeline)
    return wrong and replace(wrong, drawing=_loops(wrong.trace))


def _loops(trace: Trace | None) -> str:
    """The kernel that the rule made: where it reads is between the brackets."""
    return "\n".join(kernel.loops for s in (trace.schedules if trace is not None else ()) for kernel in s.kernels)


def _judge_permute(answer: Any, case: Moved) -> Wrong | None:
    return _judge(lambda u, indices: given(answer, indices, u.arg), case)


def _judge_shrink(answer: Any, case: Moved) -> Wrong | None:
    return _judge(lambda u, indices: given(answer, indices, u.arg), case)


def _judge_with_shape(answer: Any, case: Moved) -> Wrong | None:
    return _judge(lambda u, indices: given(answer, indices, u.arg, u.src[0].shape), case)


EXERCISES = (
    Exercise(
        "4.1",
        "the index rule of PERMUTE",
        "permute(indices, order): the indices of the source, given those of the result",
        _permute,
        _judge_permute,
        hint="result axis i walks along source axis order[i]; you need it the other way round: who walks along source axis j?",
        by_hand=(Moved(Ops.PERMUTE, (2, 3), (1, 0)), Moved(Ops.PERMUTE, (2, 3, 4), (2, 0, 1))),
    ),
    Exercise(
        "4.2",
        "the index rule of SHRINK",
        "shrink(indices, bounds): the indices of the source, given those of the result",
        _shrink,
        _judge_shrink,
        hint="result element 0 is source element start",
        by_hand=(Moved(Ops.SHRINK, (5,), ((2, 4),)),),
    ),
    Exercise(
        "4.3",
        "the index rule of PAD",
        "pad(indices, widths, shape): the indices of the source, each with the condition that it is inside",
        _pad,
        _judge_with_shape,
        hint="i.valid(condition) gives an index a condition; conditions join with &. Inside means before <= i < before + size",
        by_hand=(
            Moved(Ops.PAD, (3,), ((1, 0),)),
            Moved(Ops.PAD, (3,), ((0, 2),)),
            Moved(Ops.PAD, (2, 3), ((1, 2), (2, 1))),
        ),
    ),
    Exercise(
        "4.4",
        "the index rule of FLIP",
        "flip(indices, turned, shape): the indices of the source; turned[i] says whether axis i runs backwards",
        _flip,
        _judge_with_shape,
        hint="the first element of the result is the last of the source",
        by_hand=(Moved(Ops.FLIP, (3,), (True,)), Moved(Ops.FLIP, (2, 3), (False, True))),
    ),
    Exercise(
        "4.5",
        "the index rule of RESHAPE",
        "reshape(indices, new_shape, shape): the indices of the source (of this shape), given those of the result",
        _reshape,
        _judge_with_shape,
        hint="one flat index first, from the sizes of the result; then take it apart by those of the source, last axis first",
        by_hand=(
            Moved(Ops.RESHAPE, (2, 3), (6,)),
            Moved(Ops.RESHAPE, (6,), (2, 3)),
            Moved(Ops.RESHAPE, (2, 3), (3, 2)),
        ),
    ),
)
