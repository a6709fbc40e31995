"""A graph to be made again over other nodes: what rules made of one part of a graph, for another part that is equal.

In: a graph, and the nodes that it is made *over* (memory, loops). Out: a :class:`Template`, and from it the same graph
over other nodes. Loops have to stand in the same order, so that sums in normal form (terms by number of the loop) stay in
normal form.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> def memory(slot): return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 8, "NUMPY"))
>>> def value(memory, loop): return memory.index(loop + 3) * 2.0
>>> r, s = UOp.range(8, 1), UOp.range(8, 5)
>>> Template.of(value(memory(0), r), (memory(0), r)).over((memory(7), s)) is value(memory(7), s)
True
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tinysched.dtypes import DType
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.affine import Affine, affine_of, is_settled, to_uop
from tinysched.ir.uop import UOp


class Step(NamedTuple):
    """A node to be made of nodes that stand at some places; with ``form`` it is a sum in normal form."""

    op: Ops
    dtype: DType
    arg: Any
    form: tuple[int, ...] | None
    src: tuple[int, ...]
    settled: bool


class Template(NamedTuple):
    """A graph as steps. At the first places stands what is given, then nodes that are the same in every copy."""

    fixed: tuple[UOp, ...]
    steps: tuple[Step, ...]
    root: int

    @staticmethod
    def of(root: UOp, given: tuple[UOp, ...]) -> Template | None:
        """``root``, which was made over ``given``, as a template; None where it has loops that are not given."""
        order, fixed = _moving(root, given)
        if any(u.op is Ops.RANGE for u in fixed):
            return None
        place = {u: i for i, u in enumerate((*given, *fixed, *order))}
        steps = []
        for u in order:
            below, form = _below(u)
            steps.append(Step(u.op, u.dtype, u.arg, form, tuple([place[s] for s in below]), is_settled(u)))
        return Template(tuple(fixed), tuple(steps), place[root])

    def over(self, given: tuple[UOp, ...]) -> UOp:
        """The same graph over other nodes."""
        made = [*given, *self.fixed]
        for op, dtype, arg, form, src, settled in self.steps:
            nodes = [made[i] for i in src]
            if form is not None:
                made.append(to_uop(Affine(tuple(zip(nodes, form)), form[-1])))
                continue
            u = UOp(op, dtype, tuple(nodes), arg)
            if settled:
                u._settled = True
            made.append(u)
        return made[self.root]


def _below(u: UOp) -> tuple[tuple[UOp, ...], tuple[int, ...] | None]:
    """The sources of a node; of a sum of loops its loops, and the coefficients and the constant."""
    form = affine_of(u) if is_settled(u) else None
    if form is None or not all(atom.op is Ops.RANGE for atom, _ in form.terms):
        return u.src, None
    return tuple([loop for loop, _ in form.terms]), (*[c for _, c in form.terms], form.const)


def _moving(root: UOp, given: tuple[UOp, ...]) -> tuple[list[UOp], list[UOp]]:
    """The nodes that depend on what is given, sources first, and those next to them that do not."""
    moving: dict[UOp, bool] = dict.fromkeys(given, True)
    order: list[UOp] = []
    stack = [root]
    while stack:
        u = stack.pop()
        if u in moving:
            continue
        below = _below(u)[0]
        missing = [s for s in below if s not in moving]
        if missing:
            stack.append(u)
            stack.extend(missing)
            continue
        moving[u] = any(moving[s] for s in below)
        if moving[u]:
            order.append(u)
    near = [root, *[s for u in order for s in _below(u)[0]]]
    return order, list(dict.fromkeys([s for s in near if not moving[s]]))
