"""Gradients: one rule for each op, applied from the loss down to the leaves.

In: a loss, the Tensors asked for, a gradient of the loss (1 for a scalar). Out: for each the gradient as a lazy Tensor,
made of the same few ops, so that the scheduler sees one graph.

A leaf is the node of the Tensor asked for: memory, a constant that was made a Tensor (two of them are two nodes), or
an expression. Asking for two Tensors that are the same expression is an error. Through a write, which is a node
``AFTER(state, STORE(region, value))``, the gradient goes to the value where it was written, and to the old state
elsewhere.

>>> from tinysched import Tensor
>>> x = Tensor([1.0, 2.0, 3.0])
>>> (x * x).sum().gradient(x)[0].tolist()
[2.0, 4.0, 6.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from tinysched.dtypes import dtypes, sum_acc_dtype
from tinysched.errors import DTypeError, GradientError, ShapeError
from tinysched.ir.function import get_value
from tinysched.ir.lines import add_line, lines_of
from tinysched.ir.lines import where as place
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import axis_of, bounds_of, copy_to, cut, parts_of, replicate, shard, spread_like
from tinysched.ir.uop import Shape, UOp
from tinysched.tensor.call_gradient import function_gradient
from tinysched.tensor.core import Tensor
from tinysched.tensor.reduce import reduce_uop
from tinysched.tensor.storage import covers_all, filled, live_storages, replace_base, steps_of, undo_steps

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
    if _is_constant(x) or _is_constant(y):
        return (y < x).where(g, 0), (x < y).where(g, 0)
    tie = x.eq(y).where(g * 0.5, 0)
    return (y < x).where(g, tie), (x < y).where(g, tie)


def _is_constant(u: UOp) -> bool:
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


_NOTHING: Final = frozenset({Ops.TRUNC, Ops.BITCAST, Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD})


def sum_to(g: UOp, shape: Shape) -> UOp:
    """A gradient summed over the axes along which its value was repeated."""
    if g.shape == shape:
        return g
    new = g.ndim - len(shape)
    axes = tuple(i for i, s in enumerate(g.shape) if i < new or (s != 1 and shape[i - new] == 1))
    wide = g.cast(sum_acc_dtype(g.dtype))
    return reduce_uop(wide, Ops.ADD, axes).cast(g.dtype).reshape(shape)


# ** from the loss to the leaves **


def compute_gradient(root: UOp, root_grad: UOp, targets: Iterable[UOp]) -> dict[UOp, UOp]:
    """The gradient of every node between ``root`` and the targets that ``root`` depends on."""
    return gradients_below(root, {root: root_grad}, targets)


def gradients_below(root: UOp, grads: dict[UOp, UOp], targets: Iterable[UOp]) -> dict[UOp, UOp]:
    """The same for gradients that start from several nodes below ``root``; they are added to ``grads``."""
    wanted = set(targets)
    order = root.toposort(lambda u: u.op is not Ops.DETACH)
    shown = {t.base for t in wanted if t.base is not t}
    leads: set[UOp] = set()  # nodes with a target below
    for u in order:
        later = u.op is Ops.AFTER and u.src[0] in shown
        if later or (u.op is not Ops.DETACH and any(s in wanted or s in leads for s in u.src)):
            leads.add(u)
    needed = leads | wanted if len(wanted) < 2 else _Either(leads, wanted)
    for u in reversed(order):
        if u not in leads:
            continue
        if u.op is Ops.FUNCTION:
            given = [grads.get(get_value(u, i)) for i in range(len(u.arg.body.src))]
            for s, new in function_gradient(u, given, needed, gradients_below):
                grads[s] = grads[s] + new if s in grads else new
        elif (g := grads.get(u)) is not None and u.op is not Ops.GETTUPLE:
            _flow(u, g, needed, grads)
    _from_later_states([u for u in order if u.op is Ops.AFTER and u in grads], wanted, grads)
    return grads


def _from_later_states(states: Iterable[UOp], wanted: set[UOp], grads: dict[UOp, UOp]) -> None:
    """Adds what flows to targets that show memory from the states after it, which are made of the memory itself."""
    later: dict[UOp, list[UOp]] = {}
    for u in states:
        later.setdefault(u.src[0], []).append(u)
    for t in wanted:
        for u in later.get(t.base, ()) if t.base is not t else ():
            if (g := after(grads[u], u)[0]) is not None:
                seen = replace_base(t, g)
                grads[t] = grads[t] + seen if t in grads else seen


class _Either:
    """The union of two sets, without building it."""

    def __init__(self, a: set[UOp], b: set[UOp]):
        self.a, self.b = a, b

    def __contains__(self, u: object) -> bool:
        return u in self.a or u in self.b


def _flow(u: UOp, g: UOp, needed: set[UOp] | _Either, grads: dict[UOp, UOp]) -> None:
    """Adds to the gradients of the sources of ``u`` what flows there from ``g``."""
    if u.op in GroupOp.Comparison or u.op in _NOTHING:
        return
    rule = RULES.get(u.op)
    if rule is None:
        raise GradientError(f"there is no gradient of {u.op.name}", where=place(u), help="detach() the value")
    lines = [replace(line, gradient=True) for line in lines_of(u)]
    for s, new in zip(u.src, rule(g, u)):
        if new is None or s not in needed:
            continue
        if s.op is not Ops.STORE:
            new = sum_to(new, s.shape)
        grads[s] = grads[s] + new if s in grads else new
        for line in lines:
            add_line(grads[s], line)


# ** what the user calls **


def gradient(loss: Tensor, *targets: Tensor, gradient: Tensor | None = None) -> list[Tensor]:
    """The gradients of ``loss`` for the targets, of their shapes and dtypes; zeros where it does not depend on one.

    ``gradient``: that of the loss, needed unless the loss is a scalar. What is realized is a leaf: nothing flows past
    it. Raises :class:`GradientError` where the loss is realized itself, where it only read older values of a target, or
    where two targets are one node; :class:`DTypeError` for whole numbers.
    """
    for t in (loss, *targets):
        if not isinstance(t, Tensor):
            raise DTypeError(f"the gradient for a {type(t).__name__}", help="give Tensors")
        if not dtypes.is_float(t.dtype):
            raise DTypeError(f"the gradient of {t.dtype.name}", where=place(t.uop), help="only floats have gradients")
    nodes = [t.uop for t in targets]
    _check_leaves(targets, nodes)
    grads = compute_gradient(loss.uop, _start(loss, gradient), nodes)
    if any(n not in grads for n in nodes):
        _check_lazy(loss)
        _check_older(loss, [t for t, n in zip(targets, nodes) if n not in grads])
    return [Tensor.from_uop(_cut_as(n, grads[n]) if n in grads else filled(n, 0)) for n in nodes]


def _cut_as(target: UOp, g: UOp) -> UOp:
    """A gradient that is whole on each device in parts, where its Tensor is: that moves nothing."""
    return spread_like(g, target) if isinstance(g.device, tuple) and axis_of(g) is None else g


def _start(loss: Tensor, given: Tensor | None) -> UOp:
    if given is None:
        if loss.shape != ():
            raise ShapeError(
                f"the gradient of a loss of shape {loss.shape}", where=place(loss.uop), help="sum it, or give gradient="
            )
        return loss.uop.const_like(1.0)
    if given.shape != loss.shape:
        raise ShapeError(f"a gradient of shape {given.shape} for a loss of shape {loss.shape}", where=place(loss.uop))
    return given.cast(loss.dtype).uop


def _check_leaves(targets: tuple[Tensor, ...], nodes: list[UOp]) -> None:
    owner: dict[UOp, Tensor] = {}
    for t, n in zip(targets, nodes):
        other = owner.setdefault(n, t)
        if other.storage is not t.storage:
            raise GradientError(
                "two Tensors of one expression: their gradients cannot be told apart",
                where=place(n),
                help="realize one of them first",
            )


def _check_lazy(loss: Tensor) -> None:
    """Refuses a loss that is memory: of what it was computed is not known any more, and zeros would mislead."""
    if loss.uop.realized is not None:
        raise GradientError(
            "the loss is computed already, and its memory does not know from what",
            where=place(loss.uop),
            help="take the gradient first, then realize(), item() or numpy()",
        )


def _check_older(loss: Tensor, missing: list[Tensor]) -> None:
    """Refuses a target of which the loss read a state that has been overwritten since: zeros would mislead."""
    read = set(loss.uop.toposort())
    for t in missing:
        older = [u for u in t.storage.past() if not _is_constant(u) and (u in read or u.base in read)]
        if older:
            raise GradientError(
                "the loss only read older values of a Tensor that was written since",
                where=place(t.uop),
                help="compute the loss again after the write, or take the gradient before it",
            )


def backward(loss: Tensor, gradient: Tensor | None = None) -> Tensor:
    """Adds the gradient of ``loss`` to ``grad`` of every live float Tensor that it depends on, and returns ``loss``.

    Tensors whose ``requires_grad`` is False are left out. What is realized is a leaf: nothing flows past it. Raises
    :class:`GradientError` for a loss that is, :class:`DTypeError` for whole numbers.
    """
    _check_lazy(loss)
    if not dtypes.is_float(loss.dtype):
        raise DTypeError(f"the gradient of {loss.dtype.name}", where=place(loss.uop), help="only floats have gradients")
    read = set(loss.uop.toposort(lambda u: u.op is not Ops.DETACH))
    found = []
    for storage in live_storages():
        t = storage.owner()
        if t is None or t.requires_grad is False or not dtypes.is_float(t.dtype):
            continue
        if t.uop in read and not _is_constant(t.uop):
            found.append(t)
    grads = compute_gradient(loss.uop, _start(loss, gradient), [t.uop for t in found])
    for t in found:
        if (g := grads.get(t.uop)) is not None:
            new = Tensor.from_uop(_cut_as(t.uop, g))
            t.grad = new if t.grad is None else t.grad.assign(t.grad + new)
    return loss
