"""Prepare: the tensor graph in the form that the walk takes.

In: callify's body. Out: the same values without hints (DETACH, CONTIGUOUS_BACKWARD), without empty values, with movement
ops merged, large reductions split in two, and copies between devices as writes into memory of their own.

>>> [r.name for r in earliest_rewrites][:4]
['merge_reshapes', 'noop_reshape', 'merge_permutes', 'drop_hints']
"""

from __future__ import annotations

from tinysched.dtypes import DType, dtypes
from tinysched.ir.decision import Reason, Split, Verdict, decide
from tinysched.ir.derive import prod
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.sharding import SPREAD
from tinysched.ir.symbolic.movement import index_through
from tinysched.ir.uop import UOp
from tinysched.schedule.functions import resolve_functions
from tinysched.schedule.multi import expand_devices
from tinysched.settings import REDUCEOP_SPLIT_SIZE, REDUCEOP_SPLIT_THRESHOLD, SPLIT_REDUCEOP

MOST_PIECES, FEWEST_PIECES = 256, 8


# ** movement ops and hints **


@rule(UPat(Ops.RESHAPE, src=(UPat(Ops.RESHAPE, name="inner"),), name="x"))
def merge_reshapes(x: UOp, inner: UOp) -> UOp:
    """RESHAPE(RESHAPE(x)) -> RESHAPE(x)"""
    return inner.src[0].reshape(x.arg)


@rule(UPat(Ops.RESHAPE, name="x"))
def noop_reshape(x: UOp) -> UOp | None:
    """RESHAPE to the shape it has -> it"""
    return x.src[0] if x.src[0].shape == x.arg else None


@rule(UPat(Ops.PERMUTE, src=(UPat(Ops.PERMUTE, name="inner"),), name="x"))
def merge_permutes(x: UOp, inner: UOp) -> UOp:
    """PERMUTE(PERMUTE(x)) -> PERMUTE(x)"""
    return inner.src[0].permute(tuple(inner.arg[i] for i in x.arg))


@rule(UPat((Ops.DETACH, Ops.CONTIGUOUS_BACKWARD), src=(UPat.var("x"),)))
def drop_hints(x: UOp) -> UOp:
    """DETACH(x), CONTIGUOUS_BACKWARD(x) -> x"""
    return x


@rule(UPat(Ops.CONTIGUOUS, src=(UPat(Ops.CONTIGUOUS, name="inner"),), arg=None))
def contiguous_twice(inner: UOp) -> UOp:
    """CONTIGUOUS(CONTIGUOUS(x)) -> CONTIGUOUS(x)"""
    return inner


@rule(UPat(Ops.CONTIGUOUS, src=(UPat.var("x"),), arg=None))
def contiguous_constant(x: UOp) -> UOp | None:
    """CONTIGUOUS(constant) -> constant"""
    return x if x.base.op is Ops.CONST else None


# ** values without elements **


def identity_element(op: Ops, dtype: DType) -> bool | int | float:
    """What a reduction starts from."""
    return {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: dtype.min}[op]


@rule(UPat(Ops.REDUCE, src=(UPat.var("x"),), name="red"))
def reduce_of_nothing(red: UOp, x: UOp) -> UOp | None:
    """REDUCE over no elements -> the op's identity"""
    if 0 not in x.shape or 0 in red.shape:
        return None
    decide(red, "prepare", Verdict.NO_BUFFER, Reason.EMPTY)
    return red.const_like(identity_element(red.arg[0], red.dtype)).expand_leading(red.shape)


@rule(UPat(GroupOp.Elementwise | GroupOp.Movement | {Ops.REDUCE, Ops.CONTIGUOUS, Ops.STACK, Ops.COPY}, name="x"))
def empty_value(x: UOp) -> UOp | None:
    """a value without elements -> a constant"""
    if 0 not in x.shape or (x.op is Ops.EXPAND and x.src[0].op is Ops.CONST):
        return None
    return x.const_like(0).expand_leading(x.shape)


@rule(UPat(Ops.STORE, src=(UPat.var("target"), UPat.var("value"))))
def empty_store(target: UOp, value: UOp) -> UOp | None:
    """STORE of no elements -> nothing"""
    return UOp(Ops.NOOP, dtypes.void) if 0 in target.shape else None


@rule(UPat(Ops.AFTER, name="a"))
def after_nothing(a: UOp) -> UOp | None:
    """AFTER(state, nothing) -> state"""
    done = tuple(s for s in a.src[1:] if s.op is not Ops.NOOP)
    return None if len(done) == len(a.src) - 1 else a.src[0].after(*done)


# ** writes **


@rule(
    UPat(
        Ops.AFTER,
        src=(
            UPat(Ops.AFTER, src=(UPat.var("buf"), UPat(Ops.STORE, src=(UPat.var("t0"), UPat.var("v")))), name="first"),
            UPat(Ops.STORE, src=(UPat.var("t1"), UPat.var("v"))),
        ),
    )
)
def store_twice(buf: UOp, t0: UOp, t1: UOp, v: UOp, first: UOp) -> UOp | None:
    """the same value stored twice to the same place -> stored once"""
    return first if t1.substitute({first: buf}) is t0 else None


@rule(UPat(Ops.STORE, src=(UPat(Ops.BITCAST, src=(UPat.var("target"),)), UPat.var("value"))))
def bitcast_target(target: UOp, value: UOp) -> UOp:
    """STORE(BITCAST(memory), x) -> STORE(memory, BITCAST(x))"""
    return target.store(value.bitcast(target.dtype))


# ** large reductions **


@rule(UPat(Ops.REDUCE, src=(UPat.var("x"),), name="red"))
def split_reduceop(red: UOp, x: UOp) -> UOp | None:
    """REDUCE of many to few -> REDUCE of a CONTIGUOUS of partial REDUCEs"""
    if not red.arg[1] or not SPLIT_REDUCEOP or not all(isinstance(n, int) for n in x.shape) or 0 in x.shape:
        return None
    out_size = prod(red.shape)
    ratio, threshold = prod(x.shape) // out_size, REDUCEOP_SPLIT_THRESHOLD.value
    if ratio < threshold:
        decide(red, "prepare", Verdict.FUSED, Reason.REDUCE_NOT_SPLIT, Split(ratio, threshold))
        return None
    # the second kernel reduces the pieces: it must not be large itself
    most = min(MOST_PIECES, 2**REDUCEOP_SPLIT_SIZE.value // out_size, threshold - 1)
    repeated = repeated_axes(x)
    candidates = (
        (axis, pieces)
        for axis in range(red.arg[1])
        for pieces in range(most, FEWEST_PIECES - 1, -1)
        if x.shape[axis] % pieces == 0 and axis not in repeated
    )
    axis, pieces = next(candidates, (-1, 0))
    evidence = Split(ratio, threshold, axis, pieces)
    if axis < 0:
        decide(red, "prepare", Verdict.FUSED, Reason.REDUCE_NOT_SPLIT, evidence)
        return None
    decide(red, "prepare", Verdict.SPLIT, Reason.REDUCE_SPLIT, evidence)
    split = x.reshape((*x.shape[:axis], pieces, x.shape[axis] // pieces, *x.shape[axis + 1 :]))
    last = tuple(i for i in range(split.ndim) if i != axis) + (axis,)
    op, n = red.arg
    partial = split.permute(last).rop(op, tuple(range(n))).contiguous()
    return partial.rop(op, (len(red.shape),)).reshape(red.shape)


def repeated_axes(x: UOp) -> set[int]:
    """Axes along which movement ops only repeat a value: splitting there would not help."""
    chain: list[UOp] = []
    while x.op in GroupOp.Movement:
        chain.append(x)
        x = x.src[0]
    shape = chain[0].shape if chain else x.shape
    loops = tuple(UOp.range(n, i) for i, n in enumerate(shape))
    used: frozenset[UOp] = frozenset().union(*(i.ranges for i in index_through(chain, loops)))
    return {i for i, r in enumerate(loops) if r not in used and shape[i] != 1}


earliest_rewrites = PatternMatcher(
    [
        merge_reshapes, noop_reshape, merge_permutes, drop_hints, contiguous_twice, contiguous_constant,
        reduce_of_nothing, empty_value, empty_store, after_nothing, store_twice, bitcast_target, split_reduceop,
    ]
)  # fmt: skip


def prepare(sink: UOp) -> UOp:
    """Functions are inlined or called, several devices get a graph each; then ``earliest_rewrites`` until none applies."""
    order = sink.toposort()
    whole = sink
    if Ops.FUNCTION in {u.op for u in order}:
        sink = resolve_functions(sink)
    if sink.tag == SPREAD:
        sink = expand_devices(sink)
    return graph_rewrite(sink, earliest_rewrites, name="prepare", order=order if sink is whole else None)
