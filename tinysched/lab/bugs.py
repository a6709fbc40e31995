"""Planted bugs: pipelines with one pass that changes a value, for those who learn to find such things.

In: a number. Out: :func:`mystery`, the engine's passes, one of them followed by a rule that is wrong. Rules that are
right and rules that are wrong, by name, are what exercise 9.2 mixes.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
>>> found = capture((x + 4) * 3).check(pipeline=mystery(3))
>>> found.ok, found.stage
(False, 'add buffers')
"""

from __future__ import annotations

from typing import Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import PatternMatcher, Rule, UPat, rule
from tinysched.ir.uop import UOp
from tinysched.lab.passes import followed
from tinysched.schedule.pipeline import Pipeline

var, cvar = UPat.var, UPat.cvar
_ADD_CONST = UPat(Ops.ADD, src=[var("x"), cvar("c1")])
_MUL_CONST = UPat(Ops.MUL, src=[var("x"), cvar("c1")])


def _whole(u: UOp) -> bool:
    return u.dtype in dtypes.ints


# ** right **


@rule(UPat(Ops.ADD, src=[_ADD_CONST, cvar("c2")]))
def join_additions(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """(x + c1) + c2 -> x + (c1 + c2)  (integers)"""
    return x + (c1.arg + c2.arg) if _whole(x) else None


@rule(UPat(Ops.MUL, src=[_MUL_CONST, cvar("c2")]))
def join_products(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """(x * c1) * c2 -> x * (c1 * c2)  (integers)"""
    return x * (c1.arg * c2.arg) if _whole(x) else None


@rule(UPat(Ops.MAX, src=[var("x"), var("x")]))
def one_of_two(x: UOp) -> UOp:
    """max(x, x) -> x"""
    return x


@rule(UPat(Ops.MUL, src=[var("x"), UPat.const(1)]))
def times_one(x: UOp) -> UOp:
    """x * 1 -> x"""
    return x


@rule(UPat(Ops.ADD, src=[var("x"), UPat.const(0)]))
def plus_nothing(x: UOp) -> UOp | None:
    """x + 0 -> x  (integers)"""
    return x if _whole(x) else None


# ** wrong, each in a way that has happened to somebody **


@rule(UPat(Ops.MUL, src=[_ADD_CONST, cvar("c2")]))
def distribute_quickly(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """(x + c1) * c2 -> x * c2 + c1"""
    return x * c2.arg + c1.arg if c1.dtype is not dtypes.index and c2.arg != 1 and c1.arg != 0 else None


@rule(UPat(Ops.MAX, src=[var("x"), cvar("c1")]))
def skip_bound(x: UOp, c1: UOp) -> UOp:
    """max(x, c) -> x"""
    return x


@rule(UPat(Ops.MUL, src=[var("x"), UPat.const(2)]))
def double(x: UOp) -> UOp | None:
    """x * 2 -> x + 2"""
    return x + 2 if x.dtype is not dtypes.index else None


@rule(UPat(Ops.MUL, src=[var("x"), UPat.const(0.5)]))
def drop_half(x: UOp) -> UOp:
    """x * 0.5 -> x"""
    return x


@rule(UPat(Ops.EXP2, src=(UPat(Ops.MUL, src=[var("x"), cvar("c1")]),)))
def other_base(x: UOp, c1: UOp) -> UOp:
    """exp2(x * c) -> exp2(x)"""
    return x.alu(Ops.EXP2)


RIGHT: Final = (join_additions, join_products, one_of_two, times_one, plus_nothing)
WRONG: Final = (distribute_quickly, skip_bound, double)
_MYSTERIES: Final[tuple[tuple[str, Rule], ...]] = (
    ("simplify", other_base), ("prepare", drop_half), ("limit buffers", double), ("add buffers", distribute_quickly),
)  # fmt: skip


def mystery(number: int = 0) -> Pipeline:
    """A pipeline with a bug. The same number gives the same bug; do not look it up, find it."""
    stage, bad = _MYSTERIES[number % len(_MYSTERIES)]
    return followed(stage, PatternMatcher([bad]))
