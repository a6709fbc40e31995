"""The default run time: a kernel as a NumPy program over strided views.

In: a kernel's SINK. Out: the program's text (:func:`program_text`), and the function that it compiles to. Every RANGE
is an axis of every array (of length 1 where the array does not vary): an affine index is a strided view, a mask is a
slice, a sum of products is a matrix product, everything else a ufunc. Kernels with large temporaries run in blocks of
the outer axes, so that these stay in the cache.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.ops import AxisType, Ops
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> sizes = enumerate((8, 6, 12))
>>> out, x, y = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in sizes)
>>> r0, r1, R2 = UOp.range(2, 0), UOp.range(4, 1), UOp.range(3, 2, AxisType.REDUCE)
>>> dot = (load(x.index(r0 * 3 + R2)) * load(y.index(R2 * 4 + r1))).reduce(Ops.ADD, R2)
>>> print(program_text(UOp.sink(out.index(r0 * 4 + r1).store(dot).end(r0, r1))))
def kernel(p0, p1, p2):
    m0 = view(p1, 0, (2, 3), (3, 1))  # r0*3 + R2
    m1 = view(p2, 0, (3, 4), (4, 1))  # R2*4 + r1
    np.matmul(m0, m1, out=view(p0, 0, (2, 4), (4, 1)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.affine import simplify_index
from tinysched.ir.symbolic.conditions import at_least, conjunction, disjunction, less
from tinysched.ir.uop import FALSE, TRUE, UOp
from tinysched.runtime import loops, vector
from tinysched.runtime.forms import Unsupported
from tinysched.runtime.nest import arguments_of, stores_of
from tinysched.runtime.program import Kind
from tinysched.runtime.writer import Writer

_NAMES: Final[dict[str, Any]] = {
    "np": np, "view": vector.view, "blas": vector.blas, "within": vector.within, "scatter": vector.scatter,
    "fold": vector.fold, "cdiv": vector.cdiv, "power": vector.power, "threefry": vector.threefry,
}  # fmt: skip


class Compiled(NamedTuple):
    """A program for certain values of the Variables."""

    function: Callable[..., None]
    slots: int
    fills_output: bool
    """Whether it writes part of its output before it has read all of its inputs: wrong if these share memory."""


def program_text(sink: UOp, var_vals: Mapping[str, int] | None = None) -> str:
    """The kernel as a NumPy program (with Variables at their largest if they have no value), or else as loops."""
    largest = {str(v.arg.name): v.arg.vmax for v in arguments_of(sink)[1]}
    try:
        return Writer(_with_values(sink, largest | dict(var_vals or {}))).program().text()
    except Unsupported:
        return loops.program_text(sink)


def _with_values(sink: UOp, var_vals: Mapping[str, int]) -> UOp:
    """The kernel with numbers in place of its Variables."""
    variables = arguments_of(sink)[1]
    if not variables:
        return sink
    became = {v: UOp.const(var_vals[str(v.arg.name)]) for v in variables}
    for u in sink.toposort():
        if u not in became:
            src = tuple([became[s] for s in u.src])
            became[u] = u if src == u.src else _folded(UOp(u.op, u.dtype, src, u.arg))
    return became[sink]


def _folded(u: UOp) -> UOp:
    """Arithmetic and conditions of indices in normal form again: a loop over 10 - 3 elements is one over 7."""
    if u.dtype is dtypes.index and u.op in GroupOp.ALU and u.op is not Ops.WHERE:
        return simplify_index(u)
    if u.op is Ops.CMPLT and u.src[0].dtype is dtypes.index:
        a, b = u.src
        return less(a, b.arg) if b.op is Ops.CONST else at_least(b, a.arg + 1) if a.op is Ops.CONST else u
    if u.op is Ops.AND and u.dtype is dtypes.bool:
        return conjunction(u.src)
    if u.op is Ops.OR and u.dtype is dtypes.bool:
        return disjunction(u.src)
    if u.op is Ops.WHERE and (u.src[0] is TRUE or (u.src[0] is FALSE and not u.is_gated)):
        return u.src[1] if u.src[0] is TRUE else u.src[2]
    return u


@lru_cache(maxsize=1024)
def compile_kernel(sink: UOp) -> loops.Kernel:
    """The function ``(flat arrays by slot, values of Variables by name) -> None`` of a kernel's program."""
    names = tuple(str(v.arg.name) for v in arguments_of(sink)[1])
    written = [int(store.src[0].src[0].arg.slot) for store, _ in stores_of(sink)]

    def run(arrays: Sequence[Any], var_vals: Mapping[str, int]) -> None:
        values = tuple((k, int(var_vals[k])) for k in names)
        program = compile_program(sink, values, False)
        if program.fills_output and _share_memory(arrays, written):
            program = compile_program(sink, values, True)
        with np.errstate(all="ignore"):
            program.function(*arrays[: program.slots])

    return run


def _share_memory(arrays: Sequence[Any], written: Sequence[int]) -> bool:
    return any(i != w and np.may_share_memory(arrays[w], a) for w in written for i, a in enumerate(arrays))


@lru_cache(maxsize=1024)
def compile_program(sink: UOp, values: tuple[tuple[str, int], ...], aliased: bool) -> Compiled:
    """The program of a kernel; it is kept, as equal kernels are the same node."""
    kernel = _with_values(sink, dict(values))
    try:
        program = Writer(kernel, aliased).program()
    except Unsupported:
        reference = loops.compile_kernel(sink)
        return Compiled(lambda *arrays: reference(arrays, dict(values)), _slots(sink), False)
    names = dict(_NAMES)
    exec(compile(program.text(), f"<program of {program.name}>", "exec"), names)
    fills = any(s.target and s.kind is Kind.FILL for s in program.statements)
    return Compiled(names[program.name], _slots(kernel), fills)


def _slots(sink: UOp) -> int:
    """How many arrays a kernel takes (with values for its Variables it may not read all of them)."""
    return 1 + max(int(u.arg.slot) for u in arguments_of(sink)[0])
