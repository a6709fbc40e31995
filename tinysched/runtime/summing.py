"""How a program reduces: ufunc.reduce, einsum, and matrix products by BLAS.

In: the :class:`Writer` of a program and a REDUCE. Out: the statements that make its value.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.ops import AxisType, Ops
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> from tinysched.runtime.writer import Writer
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 2), (1, 6)))
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> highest = load(x.index(r0 * 3 + R1)).reduce(Ops.MAX, R1)
>>> print(Writer(UOp.sink(out.index(r0).store(highest).end(r0))).program().text())
def kernel(p0, p1):
    out0 = p0.reshape(2, 1)
    x0 = p1.reshape(2, 3)  # r0*3 + R1
    np.maximum.reduce(x0, axis=(1,), keepdims=True, dtype=np.float32, out=out0)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.text import expr
from tinysched.ir.uop import TRUE, UOp
from tinysched.runtime.axes import Axis
from tinysched.runtime.blocks import is_product
from tinysched.runtime.forms import Contraction, Padded, Scan, View
from tinysched.runtime.loops import identity
from tinysched.runtime.program import Kind, Operand, constant, np_name, ufunc

if TYPE_CHECKING:
    from tinysched.runtime.writer import Spans, Writer


LARGE: Final = 1 << 18
"""Copies of windows of more elements than this are made in blocks."""
FEW: Final = 16
"""Reductions of at most so many elements, into many results, are operations on whole arrays."""


def reduce(w: Writer, u: UOp) -> None:
    """Adds the statements of a REDUCE."""
    op, summed, source = u.arg[0], w.a.axes.of(u.src[1:]), w.a.sums.get(u)
    if source is None:  # there is nothing to reduce
        w.spans[u] = {}
        value = constant(u.const_like(identity(op, u.dtype)))
        w.compute(u, f"np.full({w.shape({})}, {value}, {np_name(u.dtype)})", ())
        return
    if isinstance(source, Contraction):
        _contract(w, u, source)
        return
    if isinstance(source, Scan):
        _accumulate(w, u, source)
        return
    varying = w.a.axes_of.get(source, frozenset())
    value_of_source = w.operand(source, _inside(w, u), w.level[u], typed=True)
    repeats = prod(a.size for a in summed if a not in varying)
    axes = tuple(sorted(a.at for a in summed if a in varying))
    if repeats > 1 and op is not Ops.MAX and u.dtype is not dtypes.bool:
        times = constant(u.const_like(repeats), typed=True)
        form = f"{{}} * {times}" if op is Ops.ADD else f"power({{}}, {times})"
        w.add(("repeated", u), form, [value_of_source], Kind.FRESH, level=w.level[u])
        value_of_source = Operand(("repeated", u))
    if axes:
        few = prod(a.size for a in summed if a in varying) <= FEW and w.volume(u) >= FEW**2
        form = f"fold({ufunc(op, u.dtype)}, {{}}, {axes})" if few else _reduction(op, u, axes)
        w.compute(u, form, [value_of_source], Kind.CALL)
    else:  # it varies along none of the axes: the repetition is all there is to do
        w.compute(u, f"np.broadcast_to({{}}, {(1,) * w.ndim})" if not varying else "{}", [value_of_source], Kind.NAME)


def _accumulate(w: Writer, u: UOp, scan: Scan) -> None:
    """Running sums, each from the one before it."""
    memory, key = scan.source.memory, ("source", u)
    text = w.view(f"p{memory.arg.slot}", scan.source.offset, w.spans[u], scan.source.strides, memory.arg.size)
    w.add(key, text, prefix="x", comment=expr(u.src[0].src[0].src[1]))
    cut = w.cut(w.spans[u], {}, 0, w.level[u])
    form = f"np.add.accumulate({{}}, axis={scan.axis.at}, dtype={np_name(u.dtype)})"
    w.compute(u, form, [Operand(key, cut)], Kind.CALL)


def _reduction(op: Ops, u: UOp, axes: Iterable[int]) -> str:
    return f"{ufunc(op, u.dtype)}.reduce({{}}, axis={tuple(axes)}, keepdims=True, dtype={np_name(u.dtype)})"


def _inside(w: Writer, u: UOp) -> Spans:
    """The part of the iteration space that a REDUCE runs over."""
    return w.spans[u] | {a: (0, a.size) for a in w.a.axes.of(u.src[1:])}


# ** sums of products **


def _contract(w: Writer, u: UOp, c: Contraction) -> None:
    """By BLAS where there are rows or columns, else by einsum."""
    if is_product(w.a, u) and (c.rows or c.columns or not c.batch):
        _matmul(w, u, c)
        return
    sides = [_side(w, u, f, axes) for f, axes in zip((c.left, c.right), c.alone)]
    if not c.inner:
        w.compute(u, "np.multiply({}, {})", sides, Kind.UFUNC)
        return
    letters = "abcdefghijklmnopqrstuvwxyzABCD"[: w.ndim]
    inner = {a.at for a in c.inner}
    kept = "".join(x for i, x in enumerate(letters) if i not in inner)
    put = ", ".join("None" if i in inner else ":" for i in range(w.ndim))
    w.compute(u, f'np.einsum("{letters},{letters}->{kept}", {{}}, {{}})[{put}]', sides)


def _side(w: Writer, u: UOp, factor: UOp, alone: tuple[Axis, ...]) -> Operand | str:
    """One of the two values of a contraction, summed over the axes that only it has."""
    value = w.operand(factor, _inside(w, u), w.level[u])
    if not alone:
        return value
    key = ("side", u, factor)
    w.add(key, _reduction(Ops.ADD, u, (a.at for a in alone)), [value], Kind.FRESH, level=w.level[u])
    return Operand(key)


def _matmul(w: Writer, u: UOp, c: Contraction) -> None:
    for side, window, rows in ((0, c.left, c.rows), (1, c.right, c.columns)):
        if _is_large_window(w, u, window, (*rows, *c.inner)) and not (c.batch or any(c.alone)) and len(rows) > 1:
            _matmul_by_blocks(w, u, c, side, rows)
            return
    left = _matrix(w, u, c.left, c.alone[0], (c.batch, c.rows, c.inner))
    right = _matrix(w, u, c.right, c.alone[1], (c.batch, c.inner, c.columns))
    if out := _matrix_out(w, u, c):
        w.add(None, f"np.matmul({{}}, {{}}, out={out})", [left, right], Kind.WRITE, nodes=(u, w.a.store))
        w.is_stored = True
        return
    form = "np.matmul({}, {})"
    if u.dtype is dtypes.float16:  # NumPy has no BLAS for it
        form = "np.matmul({}.astype(np.float32), {}.astype(np.float32)).astype(np.float16)"
    kept = (*c.batch, *c.rows, *c.columns)
    places = tuple(sorted(range(len(kept)), key=lambda i: kept[i].at))
    if places != tuple(sorted(places)):
        sizes = tuple(w.spans[u][a][1] - w.spans[u][a][0] for a in kept)
        form += f".reshape{sizes}.transpose{places}"
    w.add(u, f"{form}.reshape{w.shape(w.spans[u])}", [left, right], Kind.FRESH)


def _is_large_window(w: Writer, u: UOp, factor: UOp, axes: tuple[Axis, ...]) -> bool:
    """Whether a side of a matrix product is read in windows that overlap, so that a copy of it is much larger than it."""
    access, sizes = w.a.accesses.get(factor), _inside(w, u)
    volume = prod(sizes[a][1] - sizes[a][0] for a in axes)
    return isinstance(access, View | Padded) and volume > max(LARGE, 2 * factor.src[0].src[0].arg.size)


def _matmul_by_blocks(w: Writer, u: UOp, c: Contraction, side: int, rows: tuple[Axis, ...]) -> None:
    """Copies some windows at a time and multiplies them while they are in the cache."""
    windows, other = (c.left, c.right) if side == 0 else (c.right, c.left)
    columns = c.columns if side == 0 else c.rows
    matrix = _matrix(w, u, other, (), ((), c.inner, columns))
    order = [a.at for a in (*rows, *c.inner)]
    cut = ", ".join(":" if i in order else "0" for i in range(w.ndim))
    turned = tuple(sorted(order).index(i) for i in order)
    sizes = tuple(w.spans[u][a][1] - w.spans[u][a][0] for a in (*rows, *columns))
    run = {a: high - low for a, (low, high) in _inside(w, u).items()}
    across = _longer_runs(w, windows, run, c.inner, rows)
    if across:  # neighbours in memory are neighbouring rows: the product comes out turned
        sizes, columns = (*sizes[len(rows) :], *sizes[: len(rows)]), (*columns, *rows)
    else:
        columns = (*rows, *columns)
    places = tuple(sorted(range(len(sizes)), key=lambda i: columns[i].at))
    form = f"matmul_by_blocks({{}}[{cut}].transpose{turned}, {len(rows)}, {{}}, {across})"
    form += f".reshape{sizes}.transpose{places}.reshape{w.shape(w.spans[u])}"
    w.add(u, form, [w.operand(windows, _inside(w, u), 0), matrix], Kind.FRESH)


def _matrix(w: Writer, u: UOp, factor: UOp, alone: tuple[Axis, ...], groups: tuple[tuple[Axis, ...], ...]) -> Operand:
    """A side of a matrix product: an axis per axis of the batch, then one for all rows and one for all columns."""
    key = ("matrix", u, factor, groups)
    batch, first, second = groups
    spans, access = _inside(w, u), w.a.accesses.get(factor)
    sizes = {a: spans[a][1] - spans[a][0] for a in (*batch, *first, *second)}
    shape = (*(sizes[a] for a in batch), prod(sizes[a] for a in first), prod(sizes[a] for a in second))
    if isinstance(access, View) and not alone:
        steps = _steps((*((a,) for a in batch), first, second), sizes, access.strides)
        if steps is not None:
            offset = access.offset + sum(k * spans[a][0] for a, k in access.strides.items())
            text = f"view(p{access.memory.arg.slot}, {offset}, {shape}, {steps})"
            dense = 1 in steps[-2:] or 1 in shape[-2:]
            comment = expr(factor.src[0].src[1])
            w.add(key, text if dense else f"blas({text})", prefix="m", comment=comment)
            return Operand(key)
    swapped = not alone and _longer_runs(w, factor, sizes, second, first)
    if swapped:
        first, second, shape = second, first, (*shape[:-2], shape[-1], shape[-2])
    order = [a.at for a in (*batch, *first, *second)]
    order += [i for i in range(w.ndim) if i not in order]
    turn = f".transpose{tuple(order)}" if order != sorted(order) else ""
    back = ".swapaxes(-1, -2)" if swapped else ""
    w.add(key, f"blas({{}}{turn}.reshape{shape}){back}", [_side(w, u, factor, alone)], prefix="m")
    return Operand(key)


def _longer_runs(w: Writer, factor: UOp, sizes: dict[Axis, int], a: tuple[Axis, ...], b: tuple[Axis, ...]) -> bool:
    """Whether a copy with ``b`` innermost would take longer pieces of memory at once than one with ``a`` innermost."""
    strides = w.strides.get(w.resolved(factor), {})

    def run(axes: tuple[Axis, ...]) -> int:
        length = 1
        for axis in reversed(axes):
            if sizes[axis] > 1 and strides.get(axis, 0) != length:
                break
            length *= sizes[axis]
        return length

    return run(b) > run(a)


def _matrix_out(w: Writer, u: UOp, c: Contraction) -> str:
    """The memory that is written as a stack of matrices that BLAS can write into, if it is one."""
    if u is not w.a.store.src[1] or w.a.mask is not TRUE or w.scatters or u.dtype is dtypes.float16:
        return ""
    sizes = {a: high - low for a, (low, high) in w.out_spans.items()}
    strides, groups = w.a.target.coefs, (*((a,) for a in c.batch), c.rows, c.columns)
    if any(n > 1 for a, n in sizes.items() if not any(a in g for g in groups)):
        return ""  # the product is written more than once
    steps = _steps(groups, sizes, strides)
    shape = tuple(prod(sizes[a] for a in g) for g in groups)
    if steps is None or not (1 in steps[-2:] or 1 in shape[-2:]):
        return ""
    offset = w.a.target.const + sum(strides.get(a, 0) * low for a, (low, _) in w.out_spans.items())
    return f"view(p{w.a.store.src[0].src[0].arg.slot}, {offset}, {shape}, {steps})"


def _steps(
    groups: tuple[tuple[Axis, ...], ...], sizes: dict[Axis, int], strides: dict[Axis, int]
) -> tuple[int, ...] | None:
    """A stride per group of axes that runs over all of them in order; None if there are no such."""
    found = []
    for group in groups:
        axes = [(sizes[a], strides.get(a, 0)) for a in group if sizes[a] != 1]
        if any(outer != n * inner for (_, outer), (n, inner) in pairwise(axes)):
            return None
        found.append(axes[-1][1] if axes else 0)
    return tuple(found)
