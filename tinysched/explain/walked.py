"""How rangeify's graph relates to the one before: each node is the old value at the indices that the walk gave it.

In: an evaluator, a node before and after, and these indices. Out: how they differ, and the movement op whose index
arithmetic shows other elements than the op itself does. The engine's arithmetic is only judged here, never used to judge.

>>> from tinysched.dtypes import dtypes
>>> x, r = UOp.new_buffer("NUMPY", 6, dtypes.float32), UOp.range(3, 0)
>>> means = Meaning({x: np.arange(6.0)})
>>> differs_at(means, x.reshape((2, 3)), x.index(r + 3), (UOp.const(1), r))
''
>>> differs_at(means, x.reshape((2, 3)), x.index(r + 2), (UOp.const(1), r))
'at [0] it is 2 instead of 3 (3 of 3 differ)'
"""

from __future__ import annotations

import numpy as np

from tinysched.explain.arrays import Array, Spread, close, union
from tinysched.explain.blame import difference
from tinysched.explain.effects import Meaning
from tinysched.ir.ops import GroupOp
from tinysched.ir.symbolic.movement import Indices, apply_movement_op
from tinysched.ir.uop import UOp
from tinysched.schedule.indexing import indices_for


def differs_at(means: Meaning, old: UOp, new: UOp, out: Indices) -> str:
    """How ``new`` differs from the value of ``old`` at ``out``; '' where it does not."""
    value, inside = read_at(means, old, out)
    wanted, ok, now = _together(value, inside, means.value(new))
    return difference(np.where(ok, now, wanted), wanted)


def wrong_view(means: Meaning, u: UOp, ins: Indices, out: Indices) -> tuple[UOp, Indices, Indices] | None:
    """The first movement op, of ``u`` or below it, whose source is read at other elements than it shows.

    With the indices that it is read at, and those that its source is.
    """
    starts = [(u, out)] if u.op in GroupOp.Movement else [(s, indices_for(u, s, ins)) for s in u.src]
    for view, indices in starts:
        while view.op in GroupOp.Movement:
            below = apply_movement_op(view.op, view.src[0].shape, view.arg, indices)
            (shown, inside), (read, ok) = read_at(means, view, indices), read_at(means, view.src[0], below)
            wanted, where, now, valid = _together(shown, inside, read, ok)
            now = np.where(valid, now, np.zeros((), now.dtype))  # what is nowhere is padding
            if not close(np.where(where, now, wanted), wanted):
                return view, indices, below
            view, indices = view.src[0], below
    return None


def wrong_source(means: Meaning, old: UOp, new: UOp, ins: Indices) -> tuple[UOp, UOp] | None:
    """The first source of a node that it reads otherwise than at ``ins``, and what it reads."""
    for before, after in zip(old.src, new.src) if old.op is new.op and old.op not in GroupOp.Movement else ():
        if differs_at(means, before, after, indices_for(old, before, ins)):
            return before, after
    return None


def read_at(means: Meaning, u: UOp, indices: Indices) -> tuple[Spread, Spread]:
    """The value of ``u`` at indices, over their loops, and where there is one."""
    whole = means.value(u).array
    places, valid = [means.value(i.get_idx()) for i in indices], [means.value(i.get_valid()) for i in indices]
    loops = union([*places, *valid])
    at = np.broadcast_arrays(np.zeros((1,) * len(loops), int), *(p.over(loops, 0) for p in places))[1:]
    ok = np.ones((1,) * len(loops), bool)
    for v, p, size in zip(valid, at, whole.shape):
        ok = ok & v.over(loops, 0).astype(bool) & (p >= 0) & (p < size)
    read = whole[tuple(np.where(ok, p, 0) for p in at)] if 0 not in whole.shape else np.zeros(ok.shape)
    return Spread(loops, np.asarray(read).reshape((*np.shape(read), *(1,) * (len(loops) - np.ndim(read))))), Spread(
        loops, ok
    )


def _together(*spreads: Spread) -> list[Array]:
    """Over the loops of all."""
    loops = union(spreads)
    return list(np.broadcast_arrays(*(s.over(loops, 0) for s in spreads)))
