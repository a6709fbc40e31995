"""Functions that tensors are made of, found again in a kernel: exp, log, tanh and erf, each as one step.

A kernel only has ``exp2`` and ``log2``; its ``tanh`` is ``2 / (1 + exp2(-2 log2(e) x)) - 1``. A backend with a ``tanh`` of
its own looks for what :meth:`Tensor.tanh` itself makes of a hole, and finds what stands in the hole's place.

In: a kernel's nodes. Out: by the node that is the function's value its name and its argument, and the nodes in between
that nobody else reads.

>>> x = UOp.variable("x", 0, 9).cast(dtypes.float32)
>>> wave = Tensor.from_uop(x).tanh() * 2
>>> found, between = functions_in(graph_rewrite(wave.uop, symbolic).toposort())
>>> [(name, argument is x) for name, argument in found.values()], len(between)
([('tanh', True)], 6)
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.symbolic.rules import symbolic
from tinysched.ir.uop import ParamArg, UOp
from tinysched.tensor.core import Tensor

NAMES: Final = ("tanh", "erf", "exp", "log")
"""Methods of Tensors, the largest first."""
_HOLE: Final = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 1, "NUMPY")).reshape(())

Functions = dict[UOp, tuple[str, UOp]]


@cache
def _shape_of(name: str) -> UOp:
    """What a method makes of the hole, in the simple form that kernels have."""
    return graph_rewrite(getattr(Tensor.from_uop(_HOLE), name)().uop, symbolic)


def functions_in(order: list[UOp]) -> tuple[Functions, set[UOp]]:
    """The functions of a graph, given with sources first, and the nodes that only they need."""
    readers: dict[UOp, list[UOp]] = defaultdict(list)
    for u in order:
        for s in u.src:
            readers[s].append(u)
    found: Functions = {}
    inside: set[UOp] = set()
    between: set[UOp] = set()
    arguments: set[UOp] = set()
    for u in reversed(order):
        if u in inside and u not in arguments and all(r in between or r in found for r in readers[u]):
            between.add(u)
        elif u.dtype is dtypes.float32 and u.op in GroupOp.ALU and (match := _match(u)) is not None:
            found[u] = match[:2]
            arguments.add(match[1])
            inside |= match[2]
    return found, between


def _match(u: UOp) -> tuple[str, UOp, set[UOp]] | None:
    """The function whose value a node is, its argument, and the nodes in between."""
    for name in NAMES:
        pairs: dict[UOp, UOp] = {}
        if _fits(_shape_of(name), u, pairs) and pairs[_HOLE].op is not Ops.CONST:
            inner = {v for t, v in pairs.items() if t.op in GroupOp.ALU and v is not u}
            return name, pairs[_HOLE], inner - {pairs[_HOLE]}
    return None


def _fits(shape: UOp, u: UOp, pairs: dict[UOp, UOp]) -> bool:
    """Whether ``u`` is ``shape`` with something in the hole; ``pairs`` says which node stands for which."""
    if shape in pairs:
        return pairs[shape] is u
    if shape is not _HOLE and (shape.op is not u.op or shape.arg != u.arg or len(shape.src) != len(u.src)):
        return False
    pairs[shape] = u
    return shape is _HOLE or all(_fits(s, v, pairs) for s, v in zip(shape.src, u.src))
