"""Gradients: the rules of :mod:`tinysched.tensor.gradient_rules`, applied from the loss down to the leaves.

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

from collections.abc import Iterable
from dataclasses import replace

from tinysched.dtypes import dtypes
from tinysched.errors import DTypeError, GradientError, ShapeError
from tinysched.ir.function import get_value
from tinysched.ir.lines import add_line, lines_of
from tinysched.ir.lines import where as place
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import axis_of, spread_like
from tinysched.ir.uop import UOp
from tinysched.tensor.call_gradient import function_gradient
from tinysched.tensor.core import Tensor
from tinysched.tensor.gradient_rules import NOTHING, RULES, after, is_constant, sum_to
from tinysched.tensor.storage import filled, live_storages, replace_base

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
    if u.op in GroupOp.Comparison or u.op in NOTHING:
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
        older = [u for u in t.storage.past() if not is_constant(u) and (u in read or u.base in read)]
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
        if t.uop in read and not is_constant(t.uop):
            found.append(t)
    grads = compute_gradient(loss.uop, _start(loss, gradient), [t.uop for t in found])
    for t in found:
        if (g := grads.get(t.uop)) is not None:
            new = Tensor.from_uop(_cut_as(t.uop, g))
            t.grad = new if t.grad is None else t.grad.assign(t.grad + new)
    return loss
