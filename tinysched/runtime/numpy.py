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
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.ir.symbolic.given import Note, substitute, unnoted
from tinysched.ir.uop import UOp
from tinysched.runtime import loops, vector
from tinysched.runtime.blocks import BLOCK
from tinysched.runtime.forms import Unsupported
from tinysched.runtime.loops import Line, text_of
from tinysched.runtime.nest import arguments_of, check_repeats, kernel_name, stores_of
from tinysched.runtime.origins import Origins
from tinysched.runtime.program import Kind, indented, new_array
from tinysched.runtime.sharing import with_shared_loops
from tinysched.runtime.steps import steps_of
from tinysched.runtime.writer import Writer

_NAMES: Final[dict[str, Any]] = {
    "np": np, "view": vector.view, "blas": vector.blas, "within": vector.within, "scatter": vector.scatter,
    "matmul_by_blocks": vector.matmul_by_blocks, "gather": vector.gather, "turned": vector.turned, "fold": vector.fold,
    "cdiv": vector.cdiv, "power": vector.power, "threefry": vector.threefry,
}  # fmt: skip


class Compiled(NamedTuple):
    """A program for certain values of the Variables."""

    bind: Callable[..., Callable[[], None]]
    slots: int
    fills_output: bool
    finite: tuple[int, ...] = ()


def program_text(sink: UOp, var_vals: Mapping[str, int] | None = None, block: int | None = None) -> str:
    """The kernel as a NumPy program (with Variables at their largest if they have no value), or else as loops."""
    return text_of(program_lines(sink, var_vals, block))


def program_lines(sink: UOp, var_vals: Mapping[str, int] | None = None, block: int | None = None) -> list[Line]:
    """The same line by line, each with the nodes of the kernel that it computes."""
    origins = Origins(sink)
    largest = {str(v.arg.name): v.arg.vmax for v in arguments_of(sink)[1]}
    kernel = with_values(sink, largest | dict(var_vals or {}), origins.note)
    size = BLOCK if block is None else block
    try:
        return origins.of_lines(written(kernel, block=size, note=origins.note).lines)
    except Unsupported:
        return loops.program_lines(sink)


class Written(NamedTuple):
    """The text of a program, and what has to be known to run it."""

    lines: list[Line]
    bound: str
    """The same as a function that makes the views of its arguments and returns what is to run: ``kernel(...)()``."""
    fills_output: bool
    """Whether it writes part of its output before it has read all of its inputs: wrong if these share memory."""
    finite: tuple[int, ...]
    """Slots whose values have to be finite."""


def written(kernel: UOp, aliased: bool = False, join: bool = True, block: int = BLOCK, note: Note = unnoted) -> Written:
    """The program of a kernel without Variables: that of its steps, one after the other.

    ``note`` is told which nodes of these stand for which of the kernel.
    """
    check_repeats(kernel)
    steps = steps_of(kernel, join, note)
    lines: list[Line] = []
    for sink, memory in zip_longest(steps.sinks, steps.memory):
        writer = Writer(with_shared_loops(sink, note), aliased, block)
        if memory is not None:
            text = f"    p{memory.arg.slot} = {new_array((memory.arg.size,), memory.dtype)}"
            lines.append(Line(text, writer.a.store.src[1:]))
        program = writer.program()
        views, body = program.parts()
        lines += body
    if steps.memory:  # some of the views are of that memory
        views = []
    params = ", ".join(f"p{i}" for i in range(_slots(kernel)))
    head = f"def {kernel_name(kernel)}({params}):"
    rest = text_of([indented(line) for line in lines if line not in views] or [Line("        pass")])
    return Written(
        [Line(head), *(lines or [Line("    pass")])],
        "\n".join([head, *(line.text for line in views), "    def run():", rest, "    return run"]),
        any(s.target and s.kind is Kind.FILL for s in program.statements),
        tuple(int(p.arg.slot) for p in steps.finite),
    )


def with_values(sink: UOp, var_vals: Mapping[str, int], note: Note = unnoted) -> UOp:
    """The kernel with numbers in place of its Variables."""
    values = {v: UOp.const(var_vals[str(v.arg.name)]) for v in arguments_of(sink)[1]}
    return substitute(sink, values, note) if values else sink


def bind(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int], block: int | None = None) -> Callable[[], None]:
    """A kernel's program on certain arrays, ready to run any number of times (under ``np.errstate(all="ignore")``)."""
    values = tuple((str(v.arg.name), int(var_vals[str(v.arg.name)])) for v in arguments_of(sink)[1])
    writes = [int(store.src[0].src[0].arg.slot) for store, _ in stores_of(sink)]
    size = BLOCK if block is None else block
    program = compile_program(sink, values, False, True, size)
    aliased = program.fills_output and _share_memory(arrays, writes)
    if aliased:
        program = compile_program(sink, values, True, True, size)
    run = program.bind(*arrays[: program.slots])
    if not program.finite:
        return run
    checked = [arrays[i] for i in program.finite]

    def careful() -> None:
        if all(np.isfinite(a).all() for a in checked):
            run()
        else:
            exact = compile_program(sink, values, aliased, False, size)
            exact.bind(*arrays[: exact.slots])()

    return careful


def compile_kernel(sink: UOp) -> loops.Kernel:
    """The function ``(flat arrays by slot, values of Variables by name) -> None`` of a kernel's program."""

    def run(arrays: Sequence[Any], var_vals: Mapping[str, int]) -> None:
        with np.errstate(all="ignore"):
            bind(sink, arrays, var_vals)()

    return run


def _share_memory(arrays: Sequence[Any], writes: Sequence[int]) -> bool:
    return any(i != w and np.may_share_memory(arrays[w], a) for w in writes for i, a in enumerate(arrays))


@lru_cache(maxsize=1024)
def compile_program(sink: UOp, values: tuple[tuple[str, int], ...], aliased: bool, join: bool, block: int) -> Compiled:
    """The program of a kernel; it is kept, as equal kernels are the same node."""
    kernel = with_values(sink, dict(values))
    try:
        program = written(kernel, aliased, join, block)
    except Unsupported:
        reference = loops.compile_kernel(sink)
        return Compiled(lambda *arrays: partial(reference, arrays, dict(values)), _slots(sink), False)
    names = dict(_NAMES)
    exec(compile(program.bound, f"<program of {kernel_name(sink)}>", "exec"), names)
    return Compiled(names[kernel_name(sink)], _slots(kernel), program.fills_output, program.finite)


def _slots(sink: UOp) -> int:
    """How many arrays a kernel takes (with values for its Variables it may not read all of them)."""
    return 1 + max(int(u.arg.slot) for u in arguments_of(sink)[0])
