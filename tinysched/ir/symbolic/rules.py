"""`symbolic`: algebra on values and conditions that holds for every input, NaN, inf and overflow included.

In: any node after rangeify (and on the way there). Out: the same value with less work. Floats are never folded where NaN,
inf or -0.0 would show the difference: ``x * 0``, ``x - x``, ``x / x`` and ``x + 0`` stay.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.rewrite import graph_rewrite
>>> x = UOp(Ops.PARAM, dtypes.int32, (), None)
>>> graph_rewrite((x + 0) * 1, symbolic) is x
True
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tinysched.dtypes import DType, dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.symbolic.affine import simplify_index
from tinysched.ir.symbolic.conditions import at_least, clauses, conjunction, disjunction, less
from tinysched.ir.uop import FALSE, INVALID, TRUE, UOp

var, const, cvar = UPat.var, UPat.const, UPat.cvar
INTS = (*dtypes.ints, dtypes.weakint, dtypes.index)
INTS_AND_BOOL = (*INTS, dtypes.bool)
FLOATS = (*dtypes.floats, dtypes.weakfloat)
ANY_CONST = UPat(Ops.CONST)

# ** constants **

_NP: dict[Ops, Callable[..., Any]] = {
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal,
    Ops.NEG: np.negative, Ops.TRUNC: np.trunc, Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply,
    Ops.FDIV: np.true_divide, Ops.MAX: np.maximum, Ops.POW: np.power, Ops.FLOORDIV: np.floor_divide,
    Ops.FLOORMOD: np.mod, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal,
    Ops.XOR: np.bitwise_xor, Ops.OR: np.bitwise_or, Ops.AND: np.bitwise_and,
}  # fmt: skip
_BOOL: dict[Ops, Callable[..., Any]] = {**_NP, Ops.NEG: np.logical_not, Ops.SUB: np.not_equal}
_INDEX: dict[Ops, Callable[[int, int], Any]] = {
    Ops.ADD: operator.add, Ops.SUB: operator.sub, Ops.MUL: operator.mul, Ops.FLOORDIV: operator.floordiv,
    Ops.FLOORMOD: operator.mod, Ops.CMPLT: operator.lt, Ops.CMPNE: operator.ne, Ops.CMPEQ: operator.eq, Ops.MAX: max,
}  # fmt: skip


def fold(op: Ops, dtype: DType, args: list[UOp]) -> UOp | None:
    """The constant that ``op`` gives for constant arguments, computed as the backends compute it."""
    if any(a.arg is INVALID for a in args):
        return None
    source = args[0].dtype
    if source is dtypes.index:
        if op not in _INDEX or (op in (Ops.FLOORDIV, Ops.FLOORMOD) and args[1].arg == 0):
            return None
        return UOp.const(_INDEX[op](*(a.arg for a in args)), dtype)
    if op not in _NP or not source.np_name:
        return None
    if op in (Ops.POW, Ops.RECIPROCAL) and source.kind != "f":
        return None
    if op in (Ops.FLOORDIV, Ops.FLOORMOD) and (source.kind == "b" or args[1].arg == 0):
        return None
    with np.errstate(all="ignore"):
        compute = (_BOOL if source is dtypes.bool else _NP)[op]
        result = compute(*(np.asarray(a.arg).astype(source.np) for a in args))
    return UOp.const(result.item(), dtype)


@rule(UPat(GroupOp.Unary | GroupOp.Binary, src=ANY_CONST, name="u"))
def fold_alu(u: UOp) -> UOp | None:
    """op(constants) -> constant"""
    return fold(u.op, u.dtype, list(u.src)) if u.src else None


@rule(UPat(Ops.CAST, src=(cvar("c"),), name="u"))
def fold_cast(u: UOp, c: UOp) -> UOp | None:
    """CAST(constant) -> constant"""
    if c.arg is INVALID or (u.dtype is not dtypes.index and not u.dtype.np_name):
        return None
    if c.dtype.kind == "f" and u.dtype.kind in "iu" and not abs(c.arg) < 2**31:
        return None  # out of range: left to the backend, as NumPy does it
    return UOp.const(c.arg, u.dtype)


@rule(UPat(Ops.WHERE, src=(cvar("c"), var("x"), var("y"))))
def where_const(c: UOp, x: UOp, y: UOp) -> UOp:
    """WHERE(True, x, y) -> x;  WHERE(False, x, y) -> y"""
    return x if c.arg else y


# ** neutral and absorbing elements **


@rule(UPat((Ops.ADD, Ops.XOR, Ops.OR), src=[var("x", INTS), const(0)]))
def add_zero(x: UOp) -> UOp:
    """x + 0, x ^ 0, x | 0 -> x (integers: a float -0.0 + 0 is 0.0)"""
    return x


@rule(UPat(Ops.ADD, src=[var("x", FLOATS), cvar("c")]))
def add_negative_zero(x: UOp, c: UOp) -> UOp | None:
    """x + -0.0 -> x"""
    return x if c.arg == 0 and str(c.arg)[0] == "-" else None


@rule(UPat(Ops.SUB, src=(var("x"), const(0))))
def sub_zero(x: UOp) -> UOp:
    """x - 0 -> x"""
    return x


@rule(UPat(Ops.MUL, src=[var("x"), const(1)]))
def mul_one(x: UOp) -> UOp:
    """x * 1 -> x"""
    return x


@rule(UPat((Ops.FDIV, Ops.FLOORDIV, Ops.CDIV), src=(var("x"), const(1))))
def div_one(x: UOp) -> UOp:
    """x / 1, x // 1 -> x"""
    return x


@rule(UPat((Ops.MUL, Ops.AND), src=[var("x", INTS), cvar("c")]))
def mul_zero(x: UOp, c: UOp) -> UOp | None:
    """x * 0, x & 0 -> 0 (integers: a float NaN * 0 is NaN)"""
    return x.const_like(0) if c.arg == 0 else None


@rule(UPat((Ops.SHL, Ops.SHR), src=(var("x"), const(0))))
def shift_zero(x: UOp) -> UOp:
    """x << 0, x >> 0 -> x"""
    return x


@rule(UPat((Ops.MUL, Ops.AND), dtype=dtypes.bool, src=[var("x"), cvar("c")]))
def and_const(x: UOp, c: UOp) -> UOp:
    """x & True -> x;  x & False -> False"""
    return x if c.arg else FALSE


@rule(UPat((Ops.OR, Ops.MAX, Ops.ADD), dtype=dtypes.bool, src=[var("x"), cvar("c")]))
def or_const(x: UOp, c: UOp) -> UOp:
    """x | False -> x;  x | True -> True"""
    return TRUE if c.arg else x


@rule(UPat(GroupOp.Idempotent, src=(var("x"), var("x"))))
def idempotent(x: UOp) -> UOp:
    """x & x, x | x, max(x, x) -> x"""
    return x


@rule(UPat(Ops.TRUNC, src=(var("x", INTS_AND_BOOL),)))
def trunc_int(x: UOp) -> UOp:
    """TRUNC(integer) -> it"""
    return x


# ** conditions **


@rule(UPat(Ops.CMPNE, src=(UPat(Ops.CMPNE, src=(var("x", dtypes.bool), const(True))), const(True))))
def not_not(x: UOp) -> UOp:
    """!!x -> x"""
    return x


@rule(UPat(Ops.CMPNE, src=[var("x", dtypes.bool), const(False)]))
def ne_false(x: UOp) -> UOp | None:
    """x != False -> x"""
    return x


@rule(UPat(Ops.CMPNE, src=(UPat(Ops.CMPLT, src=(var("a", dtypes.index), var("b"))), const(True))))
def not_less(a: UOp, b: UOp) -> UOp | None:
    """!(a < c) -> a >= c  (index arithmetic)"""
    if b.op is Ops.CONST:
        return at_least(a, b.arg)
    return less(b, a.arg + 1) if a.op is Ops.CONST else None


@rule(UPat(Ops.CMPLT, src=(var("a", dtypes.index), var("b")), name="u"))
def normal_less(a: UOp, b: UOp, u: UOp) -> UOp | None:
    """a < b -> expr < constant, in normal form (index arithmetic)"""
    if b.op is Ops.CONST:
        new = less(a, b.arg)
    elif a.op is Ops.CONST:
        new = at_least(b, a.arg + 1)
    else:
        new = less(a - b, 0)
    return None if new is u else new


@rule(UPat((Ops.CMPEQ, Ops.CMPNE), src=(var("a", INTS), var("b")), name="u"))
def compare_bounds(a: UOp, b: UOp, u: UOp) -> UOp | None:
    """a == b -> False where their bounds do not meet, True where they are one number"""
    low, high = u.bounds
    return UOp.const(low, dtypes.bool) if low == high else None


@rule(UPat(Ops.CMPLT, src=(var("a", (*dtypes.ints, dtypes.weakint)), var("b")), name="u"))
def less_bounds(a: UOp, b: UOp, u: UOp) -> UOp | None:
    """a < b -> True or False where their bounds say so"""
    low, high = u.bounds
    return UOp.const(low, dtypes.bool) if low == high else None


@rule(UPat(Ops.CMPNE, src=(UPat(Ops.CAST, src=(var("x", dtypes.bool),), dtype=INTS), cvar("c"))))
def bool_as_int_ne(x: UOp, c: UOp) -> UOp | None:
    """int(x) != 0 -> x;  int(x) != 1 -> !x"""
    return x if c.arg == 0 else x.logical_not() if c.arg == 1 else TRUE


@rule(UPat(Ops.AND, dtype=dtypes.bool, name="u"))
def normal_and(u: UOp) -> UOp | None:
    """a & b -> the distinct conditions, tightest bounds only"""
    parts = clauses(u)
    if not all(c.op is Ops.CMPLT and c.src[0].dtype is dtypes.index for c in parts):
        return None
    new = conjunction(parts)
    return None if new is u else new


@rule(UPat(Ops.OR, dtype=dtypes.bool, src=(var("a"), var("b"))))
def or_same(a: UOp, b: UOp) -> UOp | None:
    """a | (a & b) -> a"""
    if not (set(clauses(a)) <= set(clauses(b)) or set(clauses(b)) <= set(clauses(a))):
        return None
    return disjunction((a, b))


@rule(UPat(Ops.WHERE, src=(var("c"), var("x"), var("x"))))
def where_same(c: UOp, x: UOp) -> UOp:
    """WHERE(c, x, x) -> x"""
    return x


@rule(UPat(Ops.WHERE, dtype=dtypes.bool, src=(var("c"), const(True), const(False))))
def where_bool(c: UOp) -> UOp:
    """WHERE(c, True, False) -> c"""
    return c


@rule(UPat(Ops.WHERE, src=(UPat(Ops.CMPNE, src=(var("c", dtypes.bool), const(True))), var("x"), var("y"))))
def where_not(c: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE(!c, x, y) -> WHERE(c, y, x)"""
    return None if y.arg is INVALID else c.where(y, x)


@rule(UPat(Ops.WHERE, src=(var("c"), UPat(Ops.WHERE, src=(var("d"), var("x"), var("z"))), var("z"))))
def where_where(c: UOp, d: UOp, x: UOp, z: UOp) -> UOp:
    """WHERE(c, WHERE(d, x, z), z) -> WHERE(c & d, x, z)"""
    return conjunction((c, d)).where(x, z)


# ** casts and index arithmetic **


@rule(UPat(Ops.CAST, src=(var("x"),), name="u"))
def cast_same(x: UOp, u: UOp) -> UOp | None:
    """CAST to its own dtype -> it"""
    return x if x.dtype is u.dtype else None


def can_lossless_cast(a: DType, b: DType) -> bool:
    """Whether every value of ``a`` is a value of ``b``."""
    if a is b or a is dtypes.bool:
        return True
    if a.kind == "f":
        return b.kind == "f" and a.itemsize < b.itemsize and a.itemsize > 1
    if b.kind == "f":
        return a.itemsize * 8 - (a.kind == "i") <= {2: 11, 4: 24, 8: 53}.get(b.itemsize, 0)
    return a is not dtypes.index and b.min <= a.min and a.max <= b.max


@rule(UPat(Ops.CAST, src=(UPat(Ops.CAST, src=(var("x"),), name="a"),), name="b"))
def cast_cast(x: UOp, a: UOp, b: UOp) -> UOp | None:
    """CAST(CAST(x)) -> CAST(x) where the first keeps every value"""
    if can_lossless_cast(x.dtype, a.dtype):
        return x.cast(b.dtype)
    if x.dtype.kind in "iu" and a.dtype.kind in "iu" and b.dtype.kind in "iu":
        low, high = x.bounds
        return x.cast(b.dtype) if a.dtype.min <= low and high <= a.dtype.max else None
    return None


@rule(UPat((Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD), dtype=dtypes.index, name="u"))
def normal_index(u: UOp) -> UOp | None:
    """index arithmetic -> its normal form"""
    new = simplify_index(u)
    return None if new is u else new


@rule(UPat((Ops.ADD, Ops.MUL), dtype=(*dtypes.ints, dtypes.weakint), name="u"))
def index_in_int(u: UOp) -> UOp | None:
    """CAST(i) + CAST(j), CAST(i) * c -> CAST(i + j), CAST(i * c)  for indices that fit the integer type"""
    parts = [_index_inside(s) for s in u.src]
    if any(p is None for p in parts) or all(p.op is Ops.CONST for p in parts if p is not None):
        return None
    a, b = (p for p in parts if p is not None)
    if u.op is Ops.MUL and Ops.CONST not in (a.op, b.op):
        return None
    inner = simplify_index(a.alu(u.op, b))
    low, high = inner.bounds
    return inner.cast(u.dtype) if u.dtype.min <= low and high <= u.dtype.max else None


@rule(UPat(GroupOp.Comparison, src=(var("a", (*dtypes.ints, dtypes.weakint)), var("b")), name="u"))
def compare_indices(a: UOp, b: UOp, u: UOp) -> UOp | None:
    """CAST(i) < CAST(j) -> i < j  for indices that fit the integer type"""
    x, y = _index_inside(a), _index_inside(b)
    if x is None or y is None or (x.op is Ops.CONST and y.op is Ops.CONST):
        return None
    return x.alu(u.op, y)


def _index_inside(u: UOp) -> UOp | None:
    """The index that an integer value is a lossless cast of; constants count as indices."""
    if u.op is Ops.CONST and isinstance(u.arg, int):
        return UOp.const(u.arg)
    if u.op is not Ops.CAST or u.src[0].dtype is not dtypes.index or u.src[0].op is Ops.CAST:
        return None
    low, high = u.src[0].bounds
    return u.src[0] if u.dtype.min <= low and high <= u.dtype.max else None


@rule(UPat(Ops.MUL, dtype=dtypes.bool, src=(var("a"), var("b"))))
def bool_mul(a: UOp, b: UOp) -> UOp:
    """a * b -> a & b  (bools)"""
    return a & b


@rule(UPat(Ops.INDEX, name="u"))
def load_nowhere(u: UOp) -> UOp | None:
    """a value read at an index that is nowhere valid -> 0"""
    return u.const_like(0) if any(i.op is Ops.CONST and i.arg is INVALID for i in u.src[1:]) else None


symbolic = PatternMatcher(
    [
        fold_alu, fold_cast, where_const, add_zero, add_negative_zero, sub_zero, mul_one, div_one, mul_zero, shift_zero,
        and_const, or_const, idempotent, trunc_int, not_not, ne_false, not_less, normal_less, compare_bounds,
        less_bounds, bool_as_int_ne, normal_and, or_same, where_same, where_bool, where_not, where_where, cast_same,
        cast_cast, normal_index, load_nowhere, index_in_int, compare_indices, bool_mul,
    ]
)  # fmt: skip
