"""What a legal graph is, stage by stage: a list of named patterns; a node that none of them matches is illegal.

In: a graph and the name of its stage. Out: nothing, or a :class:`SpecError` that names the first illegal node with its
shape and the user's line. Tests verify the graph after every pass.

>>> from tinysched.ir.uop import UOp
>>> verify(UOp.sink(UOp.range(4, 0)), "tensor")
Traceback (most recent call last):
    ...
tinysched.errors.SpecError: RANGE is not legal in the stage tensor
  where: RANGE of shape ()
  help: a tensor graph holds values, movement ops, reductions and writes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tinysched.dtypes import dtypes
from tinysched.errors import SpecError
from tinysched.ir.derive import broadcast, prod
from tinysched.ir.lines import where
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.uop import UOp

MEMORY = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER, Ops.MSTACK, Ops.MSELECT})
"""Nodes that are memory: read by index, never computed."""


@dataclass(frozen=True)
class Legal:
    """One kind of legal node: ops, and a condition on the node."""

    name: str
    ops: frozenset[Ops]
    test: Callable[[UOp], bool]


def _legal(name: str, ops: Ops | Iterable[Ops], test: Callable[[UOp], bool] = lambda u: True) -> Legal:
    return Legal(name, frozenset((ops,)) if isinstance(ops, Ops) else frozenset(ops), test)


def _same_dtypes(u: UOp) -> bool:
    """Operands of one dtype; a comparison gives bool, a shift or WHERE has its own rules."""
    if u.op is Ops.WHERE:
        return u.src[0].dtype is dtypes.bool and u.src[1].dtype is u.src[2].dtype is u.dtype
    if u.op in GroupOp.Comparison:
        return u.dtype is dtypes.bool and u.src[0].dtype is u.src[1].dtype
    return all(s.dtype is u.dtype for s in u.src)


def _state(u: UOp) -> bool:
    """Memory below movement ops, casts between equal sizes and states."""
    while u.op in GroupOp.Movement or u.op is Ops.BITCAST or u.op is Ops.UNSHARD:
        u = u.src[0]
    return u.op in MEMORY


def _has_elements(u: UOp) -> bool:
    """Memory: a BUFFER, or a PARAM that is no Variable."""
    return not u.is_variable and u.arg.size >= 0


def _reshapes(u: UOp) -> bool:
    return prod(u.src[0].shape) == prod(u.arg) or any(not isinstance(n, int) for n in (*u.arg, *u.src[0].shape))


def _store(u: UOp) -> bool:
    target, value = u.src
    return _state(target) and target.dtype is value.dtype and broadcast([target.shape, value.shape]) == target.shape


_CONST = _legal("constant", Ops.CONST, lambda u: not u.src)
_ALU = [
    _legal("unary", GroupOp.Unary, lambda u: len(u.src) == 1 and u.src[0].dtype is u.dtype),
    _legal("binary", GroupOp.Binary, lambda u: len(u.src) == 2 and _same_dtypes(u)),
    _legal("where", Ops.WHERE, lambda u: len(u.src) == 3 and _same_dtypes(u)),
    _legal("cast", (Ops.CAST, Ops.BITCAST), lambda u: len(u.src) == 1),
]
_LEAVES = [
    _CONST,
    _legal("variable", Ops.PARAM, lambda u: u.is_variable and u.arg.vmin <= u.arg.vmax),
    _legal("bound variable", Ops.BIND, lambda u: u.src[0].is_variable),
]
_TENSOR = [
    *_LEAVES,
    *_ALU,
    _legal("reshape", Ops.RESHAPE, _reshapes),
    _legal("permute", Ops.PERMUTE, lambda u: sorted(u.arg) == list(range(u.src[0].ndim))),
    _legal("expand", Ops.EXPAND, lambda u: len(u.arg) > 0),
    _legal("pad, shrink, flip", (Ops.PAD, Ops.SHRINK, Ops.FLIP), lambda u: len(u.arg) == u.src[0].ndim),
    _legal("reduce", Ops.REDUCE, lambda u: u.arg[0] in GroupOp.Reduce and 0 < u.arg[1] <= u.src[0].ndim),
    _legal("stack", Ops.STACK, lambda u: len({(s.shape, s.dtype) for s in u.src}) == 1),
    _legal("hint", GroupOp.Passthrough, lambda u: len(u.src) == 1),
    _legal("copy", Ops.COPY, lambda u: len(u.src) == 1 and u.arg is not None),
    _legal("write", Ops.STORE, _store),
    _legal("state", Ops.AFTER, lambda u: _state(u.src[0])),
    _legal("whole on each device", Ops.MSTACK, lambda u: bool(u.src) and all(s.dtype is u.dtype for s in u.src)),
    _legal("parts along an axis", Ops.UNSHARD, lambda u: u.src[0].op is Ops.MSTACK and 0 <= u.arg < u.ndim),
    _legal("one of them", Ops.MSELECT, lambda u: isinstance(u.src[0].device, tuple) and u.arg < len(u.src[0].device)),
    _legal("total of all", Ops.ALLREDUCE, lambda u: u.arg[0] in GroupOp.Reduce and isinstance(u.arg[1], tuple)),
    _legal("functions", (Ops.FUNCTION, Ops.CALL, Ops.TUPLE, Ops.GETTUPLE)),
    _legal("roots", Ops.SINK),
]
_LOOPS = [
    *_LEAVES,
    *_ALU,
    _legal("loop", Ops.RANGE, lambda u: len(u.src) == 1 and isinstance(u.arg[1], AxisType)),
    _legal("reduce over loops", Ops.REDUCE, lambda u: u.arg[1] == 0 and all(r.op is Ops.RANGE for r in u.src[1:])),
    _legal("roots", Ops.SINK),
    _legal("end of loops", Ops.END, lambda u: u.src[0].op is Ops.STORE and all(r.op is Ops.RANGE for r in u.src[1:])),
    _legal("store", Ops.STORE, lambda u: u.src[0].op is Ops.INDEX and u.src[0].dtype is u.src[1].dtype),
    _legal("hint with options", Ops.CONTIGUOUS, lambda u: u.arg is not None),
]
_STATES = [
    _legal("memory", (Ops.BUFFER, Ops.PARAM), _has_elements),
    _legal("state", Ops.AFTER, lambda u: u.src[0].op in MEMORY),
    _legal("many devices", (Ops.MSTACK, Ops.MSELECT)),
    _legal("nothing", Ops.NOOP),
]
_INDEX = _legal("index of memory", Ops.INDEX, lambda u: u.src[0].op in MEMORY and _indices(u))


def _indices(u: UOp) -> bool:
    return len(u.src) == 2 and u.src[1].dtype is dtypes.index


def _reads_stage(u: UOp) -> bool:
    """One index per loop of the STAGE, and none of these loops outside of it: it closes them."""
    stage, *indices = u.src
    own = frozenset(stage.src[1:])
    return len(u.src) == len(stage.src) and not any(own & i.ranges for i in indices)


_FUNCTION_CALLS = [
    _legal("call of a function", Ops.CALL, lambda u: u.src[0].op is Ops.FUNCTION),
    _legal("function", Ops.FUNCTION, lambda u: not u.src),
    _legal("part of memory", Ops.SHRINK, lambda u: u.src[0].op in MEMORY),
]
_STAGED = [
    _legal("candidate buffer", Ops.STAGE, lambda u: all(r.op in (Ops.RANGE, Ops.CONST) for r in u.src[1:])),
    _legal("index of a candidate", Ops.INDEX, lambda u: u.src[0].op is Ops.STAGE and _reads_stage(u)),
]
_KERNEL = [
    *_LOOPS,
    _INDEX,
    _legal("argument", Ops.PARAM, lambda u: u.arg.slot >= 0),
    _legal("load", Ops.LOAD, lambda u: u.src[0].op is Ops.INDEX),
]
_CALLS = [
    _legal("memory", (Ops.BUFFER, Ops.PARAM), _has_elements),
    _legal("piece of memory", (Ops.BITCAST, Ops.SHRINK, Ops.RESHAPE), _state),
    _legal("kernel", Ops.CALL, lambda u: u.src[0].op in (Ops.SINK, Ops.COPY, Ops.FUNCTION)),
    _legal("function", Ops.FUNCTION, lambda u: not u.src),
    _legal("roots", Ops.SINK),
    _legal("many devices", (Ops.MSTACK, Ops.MSELECT)),
    *_LEAVES,
]

SPECS: dict[str, tuple[list[Legal], str]] = {
    "tensor": (
        [*_TENSOR, _legal("memory", (Ops.BUFFER, Ops.PARAM), _has_elements)],
        "a tensor graph holds values, movement ops, reductions and writes",
    ),
    "call": (
        [
            *_TENSOR,
            _legal("argument", Ops.PARAM, _has_elements),
            _legal("output of a call", Ops.BUFFER, lambda u: u.arg.number < 0),
        ],
        "callify replaces every BUFFER by a PARAM",
    ),
    "rangeified": (
        [*_LOOPS, *_STATES, _INDEX, *_STAGED, *_FUNCTION_CALLS],
        "no movement op is left, reductions run over RANGEs",
    ),
    "buffered": ([*_LOOPS, *_STATES, _INDEX, *_FUNCTION_CALLS], "every STAGE has become a BUFFER"),
    "kernel": (_KERNEL, "a kernel writes and reads its arguments by index"),
    "kernels": ([*_CALLS, *_STATES], "every write has become a CALL"),
    "linear": ([*_CALLS, _legal("in order", Ops.LINEAR)], "kernels over plain memory"),
}
"""Legal nodes and a help sentence, by stage. STAGE_SPECS says which one holds after which pass."""

STAGE_SPECS = {
    "callify": "call", "prepare": "call", "rangeify": "rangeified", "simplify": "rangeified",
    "limit buffers": "rangeified", "add buffers": "buffered", "split kernels": "kernels", "order": "linear",
    "resolve": "linear", "memory": "linear",
}  # fmt: skip


def verify(graph: UOp, stage: str) -> None:
    """Raises :class:`SpecError` for the first node that is not legal in ``stage``; kernels inside are verified too."""
    legal, help_ = SPECS[stage]
    by_op: dict[Ops, list[Legal]] = {}
    for kind in legal:
        for op in kind.ops:
            by_op.setdefault(op, []).append(kind)
    kernels: list[UOp] = []
    for u in graph.toposort(gate=lambda u: stage not in ("kernels", "linear") or not _is_kernel(u)):
        if stage in ("kernels", "linear") and _is_kernel(u):
            kernels.append(u)
            continue
        if not any(kind.test(u) for kind in by_op.get(u.op, ())):
            error = SpecError(f"{u.op.name} is not legal in the stage {stage}", where=where(u), help=help_)
            error.node = u
            raise error
    for k in kernels:
        if k.op is Ops.SINK:
            verify(k, "kernel")


def _is_kernel(u: UOp) -> bool:
    return u.op is Ops.COPY or (u.op is Ops.SINK and u.arg is not None)
