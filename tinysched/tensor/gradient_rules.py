"""One rule for each op: from the gradient of a node to the gradients of its sources.

In: a gradient and the node that it is of. Out: a gradient for each source, None where nothing flows. They are made of the
same few ops. :mod:`tinysched.gradient` applies them from a loss down.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> x, y, g = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 4, "NUMPY")) for slot in range(3))
>>> RULES[Ops.MUL](g, x * y) == (y * g, x * g)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tinysched.dtypes import dtypes, sum_acc_dtype
from tinysched.errors import GradientError
from tinysched.ir.lines import where as place
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import axis_of, bounds_of, copy_to, cut, parts_of, replicate, shard
from tinysched.ir.uop import Shape, UOp
from tinysched.tensor.reduce import reduce_uop
from tinysched.tensor.storage import covers_all, filled, replace_base, steps_of, undo_steps

Grads = tuple[UOp | None, ...]
Rule = Callable[[UOp, UOp], Grads]
"""From the gradient of a node and the node to the gradients of its sources."""

RULES: Final[dict[Ops, Rule]] = {}


def _rule(*ops: Ops) -> Callable[[Rule], Rule]:
    def note(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, fn))
        return fn

    return note


def _over(a: UOp, b: UOp) -> UOp:
    return a * b.alu(Ops.RECIPROCAL)


# ** elementwise **


@_rule(Ops.ADD)
def add(g: UOp, u: UOp) -> Grads:
    """x + y -> g, g"""
    return g, g


@_rule(Ops.SUB)
def sub(g: UOp, u: UOp) -> Grads:
    """x - y -> g, -g"""
    return g, g * -1


@_rule(Ops.MUL)
def mul(g: UOp, u: UOp) -> Grads:
    """x * y -> g * y, g * x"""
    return u.src[1] * g, u.src[0] * g


@_rule(Ops.NEG)
def neg(g: UOp, u: UOp) -> Grads:
    """-x -> -g"""
    return (g * -1,)


@_rule(Ops.FDIV)
def fdiv(g: UOp, u: UOp) -> Grads:
    """x / y -> g / y, -g * (x / y) / y"""
    return _over(g, u.src[1]), _over(g * -1 * u, u.src[1])


@_rule(Ops.RECIPROCAL)
def reciprocal(g: UOp, u: UOp) -> Grads:
    """1 / x -> -g / (x * x)"""
    return (g * -1 * u * u,)


@_rule(Ops.EXP2)
def exp2(g: UOp, u: UOp) -> Grads:
    """2**x -> g * 2**x * ln 2"""
    return (u * g * math.log(2),)


@_rule(Ops.LOG2)
def log2(g: UOp, u: UOp) -> Grads:
    """log2 x -> g / (x * ln 2)"""
    return (_over(g, u.src[0] * math.log(2)),)


@_rule(Ops.SIN)
def sin(g: UOp, u: UOp) -> Grads:
    """sin x -> g * cos x"""
    return ((u.src[0] * -1 + math.pi / 2).alu(Ops.SIN) * g,)


@_rule(Ops.SQRT)
def sqrt(g: UOp, u: UOp) -> Grads:
    """sqrt x -> g / (2 * sqrt x)"""
    return (_over(g, u * 2),)


@_rule(Ops.POW)
def pow(g: UOp, u: UOp) -> Grads:
    """x**y -> g * y * x**(y-1), g * x**y * ln x; where y is 0 the first is 0, where x is 0 the second (or -inf)"""
    x, y = u.src
    by_base = y.eq(0).where(y, y * x.alu(Ops.POW, y + -1))
    at_zero = (y < 0).where(u.const_like(-math.inf), 0)
    by_power = x.eq(0).where(at_zero, u * x.alu(Ops.LOG2) * math.log(2))
    return g * by_base, g * by_power


@_rule(Ops.MAX)
def maximum(g: UOp, u: UOp) -> Grads:
    """max(x, y) -> g where it is the larger, half of g each where equal (nothing if one is a constant: relu)"""
    x, y = u.src
    if is_constant(x) or is_constant(y):
        return (y < x).where(g, 0), (x < y).where(g, 0)
    tie = x.eq(y).where(g * 0.5, 0)
    return (y < x).where(g, tie), (x < y).where(g, tie)


def is_constant(u: UOp) -> bool:
    """Whether no gradient can be asked for: a constant of a formula, not one that the user made a Tensor of."""
    return u.base.op is Ops.CONST and u.base.tag is None


@_rule(Ops.WHERE)
def where(g: UOp, u: UOp) -> Grads:
    """where(c, x, y) -> nothing, g where c, g where not c"""
    c, zero = u.src[0], g.const_like(0)
    return None, c.where(g, zero), c.where(zero, g)


@_rule(Ops.CAST)
def cast(g: UOp, u: UOp) -> Grads:
    """cast x -> g cast back (nothing to whole numbers)"""
    return (g.cast(u.src[0].dtype) if dtypes.is_float(u.src[0].dtype) else None,)


# ** movement **


@_rule(Ops.RESHAPE)
def reshape(g: UOp, u: UOp) -> Grads:
    """reshape x -> reshape back"""
    return (g.reshape(u.src[0].shape),)


@_rule(Ops.PERMUTE)
def permute(g: UOp, u: UOp) -> Grads:
    """permute x -> the inverse order"""
    return (g.permute(tuple(u.arg.index(i) for i in range(len(u.arg)))),)


@_rule(Ops.EXPAND)
def expand(g: UOp, u: UOp) -> Grads:
    """repeat x along new axes -> the sum over them"""
    return (sum_to(g, u.src[0].shape),)


@_rule(Ops.PAD)
def pad(g: UOp, u: UOp) -> Grads:
    """zeros around x -> cut off"""
    return (g.shrink(tuple((a, a + s) for s, (a, _) in zip(u.src[0].shape, u.arg))),)


@_rule(Ops.SHRINK)
def shrink(g: UOp, u: UOp) -> Grads:
    """a part of x -> zeros around"""
    return (g.pad(tuple((a, s - b) for s, (a, b) in zip(u.src[0].shape, u.arg))),)


@_rule(Ops.FLIP)
def flip(g: UOp, u: UOp) -> Grads:
    """x reversed -> reversed"""
    return (g.flip(u.arg),)


@_rule(Ops.STACK)
def stack(g: UOp, u: UOp) -> Grads:
    """x, y, ... stacked -> g[0], g[1], ..."""
    rest = tuple((0, s) for s in g.shape[1:])
    return tuple(g.shrink(((i, i + 1), *rest)).reshape(g.shape[1:]) for i in range(len(u.src)))


# ** reductions **


@_rule(Ops.REDUCE)
def reduced(g: UOp, u: UOp) -> Grads:
    """sum x -> g everywhere; max x -> g shared among the largest; prod x -> g times the product of the others"""
    op, n = u.arg
    x = u.src[0]
    if op is Ops.ADD:
        return (g.expand_leading(x.shape[:n]),)
    axes = tuple(range(n))
    if op is Ops.MAX:
        hit = x.eq(u)
        count = hit.cast(sum_acc_dtype(g.dtype)).rop(Ops.ADD, axes)  # float16 could not count beyond 65504
        return (hit.where(_over(g.cast(count.dtype), count).cast(g.dtype), 0),)
    zero = x.eq(0)
    others = zero.where(x.const_like(1), x)  # the product of the others is u / x, unless x is 0
    zeros = zero.cast(sum_acc_dtype(dtypes.bool)).rop(Ops.ADD, axes)
    at_zero = zeros.eq(1).where(others.rop(Ops.MUL, axes), 0)
    return (zero.where(at_zero, _over(u, others)) * g,)


# ** memory, devices, hints **


@_rule(Ops.CONTIGUOUS)
def contiguous(g: UOp, u: UOp) -> Grads:
    """contiguous x -> g"""
    return (g,)


@_rule(Ops.CONTIGUOUS_BACKWARD)
def contiguous_backward(g: UOp, u: UOp) -> Grads:
    """x -> contiguous g"""
    return (g.contiguous(),)


@_rule(Ops.COPY)
def copy(g: UOp, u: UOp) -> Grads:
    """x on another device, or whole on several -> g spread as x is"""
    x = u.src[0]
    return (shard(g, x.device, axis_of(x)) if isinstance(x.device, tuple) else copy_to(g, x.device),)


@_rule(Ops.UNSHARD)
def unshard(g: UOp, u: UOp) -> Grads:
    """parts along an axis -> the parts of g, each on its own device"""
    parts = parts_of(u)
    places = zip(parts, bounds_of(parts, u.arg))
    return (replicate(copy_to(cut(g, u.arg, a, b), p.device) for p, (a, b) in places),)


@_rule(Ops.MSTACK)
def mstack(g: UOp, u: UOp) -> Grads:
    """a value for each device -> each device's g"""
    return tuple(UOp(Ops.MSELECT, g.dtype, (g,), i) for i in range(len(u.src)))


@_rule(Ops.AFTER)
def after(g: UOp, u: UOp) -> Grads:
    """state after value was stored in a region -> g outside of the region; inside it goes to the STORE"""
    if len(u.src) != 2 or u.src[1].op is not Ops.STORE:
        raise GradientError(f"no gradient through {u.src[1].op.name}", where=place(u), help="detach() the value")
    target = u.src[1].src[0]
    steps = steps_of(target)
    if covers_all(steps):
        return None, g
    written = undo_steps(filled(target, True), u.shape, steps)
    return written.where(g.const_like(0), g), g


@_rule(Ops.STORE)
def store(g: UOp, u: UOp) -> Grads:
    """value stored in a region -> the region of g"""
    return None, replace_base(u.src[0], g)


NOTHING: Final = frozenset({Ops.TRUNC, Ops.BITCAST, Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD})


def sum_to(g: UOp, shape: Shape) -> UOp:
    """A gradient summed over the axes along which its value was repeated."""
    if g.shape == shape:
        return g
    new = g.ndim - len(shape)
    axes = tuple(i for i, s in enumerate(g.shape) if i < new or (s != 1 and shape[i - new] == 1))
    wide = g.cast(sum_acc_dtype(g.dtype))
    return reduce_uop(wide, Ops.ADD, axes).cast(g.dtype).reshape(shape)
