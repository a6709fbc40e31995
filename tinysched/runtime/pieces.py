"""Kernels that run as several: what a GPU should not do in one go is cut up before it is printed.

In: a kernel's SINK. Out: :data:`Piece` values in order, with the memory in between (:class:`Scratch`): SINKs again, and
matrix products for cuBLAS. Every SINK is a kernel like those of the schedule, so that the loops can judge each of them.

- a sum of products becomes ``Product``: what it multiplies is stored first if it isn't in memory as a matrix, and what is
  done with the result is a kernel of its own;
- a reduction with too few results to keep a GPU busy is done in two phases.

>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "CUPY")) for i, n in ((0, 1), (1, 1 << 20)))
>>> R0 = UOp.range(1 << 20, 0, AxisType.REDUCE)
>>> total = UOp.sink(out.index(UOp.const(0)).store(load(x.index(R0)).reduce(Ops.ADD, R0)))
>>> first, second = Cutter(Limits()).pieces(total)
>>> print(loops.program_text(second))
def kernel(p0, p1, p2):
    acc0 = float32(0.0)
    for R3 in range(256):
        acc0 = acc0 + p2[R3]
    p0[0] = acc0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Final, NamedTuple

from tinysched.dtypes import DType, dtypes
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic.affine import simplify_index
from tinysched.ir.symbolic.conditions import less
from tinysched.ir.uop import TRUE, ParamArg, UOp
from tinysched.runtime import loops
from tinysched.runtime.analyze import Analysis
from tinysched.runtime.axes import Axis
from tinysched.runtime.blocks import is_product
from tinysched.runtime.ctext import SHORT_FLOATS
from tinysched.runtime.forms import Access, Contraction, Unsupported, View
from tinysched.runtime.merge import flat, reads_rows, replaced, split
from tinysched.runtime.nest import arguments_of, guards_of, load, stores_of
from tinysched.runtime.origins import Origins
from tinysched.runtime.products import Matrix, Product, lies_in


@dataclass(frozen=True)
class Limits:
    """From which sizes on a kernel is lowered in which way; tests make them small."""

    threads: int = 256
    """Threads of a block."""
    resident: int = 4
    """So many blocks should fit on a multiprocessor at once: no thread takes more registers than that leaves it."""
    many: int = 6
    """With so many reductions and more, most of them within one another, half as many blocks: each needs registers."""
    blocks: int = 1 << 16
    """The most blocks of a launch, if the GPU doesn't say; their threads take more than one place where there are more."""
    warp_row: int = 16
    """Reductions of at least so many elements in a row are shared by a warp, ..."""
    block_row: int = 1024
    """... and by a block from here on."""
    busy: int = 1 << 16
    """So many threads keep a GPU busy; reductions with fewer results are done in two phases, ..."""
    least_part: int = 2048
    """... each part of which reduces at least so many elements of a row, or a 32nd of that of a column."""
    product: int = 1 << 21
    """Contractions with at least so many multiplications go to cuBLAS."""
    scratch: int = 1 << 30
    """The most bytes of memory in between."""
    tile: int = 32
    """The side of the tiles in which transposes go through shared memory; must divide the threads."""
    vector: int = 16
    """The most bytes that a thread reads or writes at once."""


class Scratch(NamedTuple):
    """Memory between the pieces of one kernel; slots follow those of the kernel's own memory."""

    slot: int
    size: int
    dtype: DType


Piece = UOp | Product


Axes = tuple[Axis, ...]
Groups = tuple[Axes, Axes, Axes]
"""The axes of a batch, of rows and of columns."""
MOST_CALLS: Final = 64
"""Rather than ask cuBLAS more often for one product, a factor is copied first."""


@dataclass
class Cutter:
    """Cuts one kernel into pieces."""

    limits: Limits
    scratch: list[Scratch] = field(default_factory=list)

    def pieces(self, sink: UOp) -> list[Piece]:
        """What to run for a kernel, in order."""
        self.origins = Origins(sink)
        self.number = max((u.arg[0] for u in sink.toposort() if u.op is Ops.RANGE), default=-1)
        self.slots = max(int(u.arg.slot) for u in arguments_of(sink)[0])
        stores = [UOp(Ops.SINK, dtypes.void, (u,), sink.arg) for u in sink.src]
        return [piece for one in stores for piece in self.cut(one)]

    def cut(self, sink: UOp) -> list[Piece]:
        if not any(u.op is Ops.REDUCE for u in sink.toposort()):
            return [sink]
        if self.limits.product and (found := self.by_products(sink)) is not None:
            return found
        return self.in_two_phases(sink) or [sink]

    def new_range(self, size: int, kind: AxisType = AxisType.LOOP) -> UOp:
        self.number += 1
        return UOp.range(size, self.number, kind)

    def new_memory(self, size: int, dtype: DType, like: UOp) -> UOp:
        """Scratch memory on the device of a kernel."""
        self.slots += 1
        self.scratch.append(Scratch(self.slots, size, dtype))
        return UOp(Ops.PARAM, dtype, (), ParamArg(self.slots, size, like.arg.device))

    # ** reductions in two phases **

    def in_two_phases(self, sink: UOp) -> list[Piece] | None:
        """A reduction with few results, cut along its longest range: partial results first."""
        reduces = [u for u in sink.toposort() if u.op is Ops.REDUCE]
        if len(reduces) != 1 or not self.is_plain(sink, reduces[0]):
            return None
        [u], (store, ranges) = reduces, stores_of(sink)[0]
        kept = tuple(r for r in ranges if r in u.ranges)
        sizes = [r.vmax + 1 for r in (*kept, *u.src[1:])]
        results, steps = prod(sizes[: len(kept)]), prod(sizes[len(kept) :])
        rows = reads_rows(u)
        group = 1 if not rows else self.limits.threads if steps >= self.limits.block_row else 32
        least = self.limits.least_part if rows else self.limits.least_part // 32
        parts = min(-(-self.limits.busy // (results * group)), steps // max(1, least))
        along = max(u.src[1:], key=lambda r: r.vmax)
        step = -(-(along.vmax + 1) // max(1, parts))
        parts = -(-(along.vmax + 1) // step)
        if parts < 2:
            return None
        part, inner = self.new_range(parts), self.new_range(step, AxisType.REDUCE)
        memory = self.new_memory(results * parts, u.dtype, store.src[0].src[0])
        # results that neighbours in memory go to are written by neighbouring threads
        order = (*kept, part) if rows or not kept else (part, *kept)
        place = simplify_index(part * step + inner)
        value = replaced(u.src[0], {along: place}, self.origins)
        if parts * step > along.vmax + 1:
            rest = u.const_like(loops.identity(u.arg[0], u.dtype))
            value = UOp(Ops.WHERE, u.dtype, (less(place, along.vmax + 1), value, rest))
        # ranges in the order of memory, so that neighbouring threads read neighbours
        over = tuple(inner if r is along else r for r in u.src[1:])
        value = value.reduce(u.arg[0], *over)
        self.origins.note(u, value)
        first = memory.index(flat(order)).store(value).end(*order)
        again = self.new_range(parts, AxisType.REDUCE)
        whole = load(memory.index(flat(tuple(again if r is part else r for r in order)))).reduce(u.arg[0], again)
        return [UOp(Ops.SINK, dtypes.void, (first,), sink.arg), replaced(sink, {u: whole}, self.origins)]

    def is_plain(self, sink: UOp, u: UOp) -> bool:
        """Whether a REDUCE of known size is needed everywhere."""
        if any(r.src[0].op is not Ops.CONST for r in sink.toposort() if r.op is Ops.RANGE):
            return False
        store, ranges = stores_of(sink)[0]
        return guards_of(store).get(u, TRUE) is TRUE and u.ranges <= set(ranges) and all(r.vmax >= 0 for r in ranges)

    # ** sums of products **

    def by_products(self, sink: UOp) -> list[Piece] | None:
        """The first contraction that is large enough by cuBLAS, and what is left of the kernel."""
        if arguments_of(sink)[1] or any(u.op is Ops.RANGE and u.src[0].op is not Ops.CONST for u in sink.toposort()):
            return None
        try:
            sink = self.widened(sink)
            analysis = Analysis(sink)
            if not (large := self.large(sink, analysis)):
                return None
            if _in_parts(analysis):
                sink = self.split(sink, analysis)
                analysis = Analysis(sink)
                large = self.large(sink, analysis)
        except Unsupported:
            return None
        return self.product(sink, analysis, *large[0]) if large and not _in_parts(analysis) else None

    def widened(self, sink: UOp) -> UOp:
        """The sum of float32(x * y) -> that of float32(x) * float32(y): as GPUs compute with 16-bit floats anyway."""
        found = [u.src[0] for u in sink.toposort() if u.op is Ops.REDUCE and u.arg[0] is Ops.ADD]
        casts = [c for c in found if c.op is Ops.CAST and c.dtype is dtypes.float32 and c.src[0].op is Ops.MUL]
        short = [c for c in casts if c.src[0].dtype in SHORT_FLOATS]
        factors = {c: [x.cast(c.dtype) for x in c.src[0].src] for c in short}
        return replaced(sink, {c: x * y for c, (x, y) in factors.items()}, self.origins)

    def large(self, sink: UOp, a: Analysis) -> list[tuple[UOp, Contraction]]:
        """The contractions that cuBLAS should do: products of matrices, of types that it knows."""
        found = [(u, c) for u, c in a.sums.items() if isinstance(c, Contraction)]
        return [(u, c) for u, c in found if self.is_large(a, u, c) and self.is_plain(sink, u)]

    def is_large(self, a: Analysis, u: UOp, c: Contraction) -> bool:
        if not (c.rows and c.columns and is_product(a, u)) or any(c.alone):
            return False
        work = prod(x.size for x in (*c.batch, *c.rows, *c.columns, *c.inner))
        held = sum(work // prod(x.size for x in g) for g in (c.rows, c.columns, c.inner)) * u.dtype.itemsize
        known = u.dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        return known and work >= self.limits.product and held <= self.limits.scratch

    def split(self, sink: UOp, a: Analysis) -> UOp:
        """The kernel with a RANGE for each axis: ``r0 // 4`` and ``r0 % 4`` are loops of their own (heads that share keys)."""
        parts = _in_parts(a)
        made = {r: [(self.new_range(x.size, r.arg[1]), weight) for x, weight in axes] for r, axes in parts.items()}
        return split(sink, made, self.origins)

    def product(self, sink: UOp, a: Analysis, u: UOp, c: Contraction) -> list[Piece]:
        pieces: list[Piece] = []
        range_of = {parts[0][0]: r for r, parts in a.axes.parts.items()}
        like, (x, y) = a.store.src[0].src[0], _short(c.left, c.right)
        over, rows = _apart(a.accesses.get(x), c.rows, lambda over, rows: (over, rows, c.inner))
        wide, columns = _apart(a.accesses.get(y), c.columns, lambda over, columns: (over, c.inner, columns))
        batch = (*c.batch, *over, *wide)
        left = self.matrix(a, x, (batch, rows, c.inner), range_of, pieces, like)
        right = self.matrix(a, y, (batch, c.inner, columns), range_of, pieces, like)
        groups, stored = (batch, rows, columns), a.store.src[1]
        whole = _dense(like, _shape(groups))
        rounded = stored.op is Ops.CAST and stored.src[0] is u and stored.dtype is x.dtype
        used = {x for group in groups for x in group}
        alone = all(x in used or x.size == 1 for x in a.axes.loops)  # else it is written several times
        if (stored is u or rounded) and alone and a.mask is TRUE and not a.target.others:
            out = whole._replace(offset=a.target.const, strides=_steps(groups, a.target.coefs) or ())
            if out.strides == whole.strides:
                return [*pieces, Product(left, right, out, u)]
        kept = tuple(range_of[x] for x in (*batch, *rows, *columns))
        memory = self.new_memory(prod(r.vmax + 1 for r in kept), u.dtype, like)
        out = _dense(memory, _shape(groups))
        rest = replaced(sink, {u: load(memory.index(flat(kept)))}, self.origins)
        return [*pieces, Product(left, right, out, u), *self.cut(rest)]

    def matrix(
        self, a: Analysis, value: UOp, groups: Groups, range_of: dict[Axis, UOp], pieces: list[Piece], like: UOp
    ) -> Matrix:
        """A factor as matrices in memory: where it lies if it does, else stored by a piece of its own."""
        access = a.accesses.get(value)
        if isinstance(access, View) and (steps := _steps(groups, access.strides)):
            return Matrix(int(access.memory.arg.slot), access.offset, _shape(groups), steps, access.memory.dtype)
        axes = [x for group in groups for x in group if x in a.axes_of[value]]
        own = {range_of[x]: self.new_range(x.size) for x in axes}
        memory = self.new_memory(prod(x.size for x in axes), value.dtype, like)
        place, loop = flat(tuple(own.values())), tuple(own.values())
        store = memory.index(place).store(replaced(value, own, self.origins)).end(*loop)
        pieces += self.cut(UOp(Ops.SINK, dtypes.void, (store,), a.sink.arg))
        strides = {x: prod(y.size for y in axes[i + 1 :]) for i, x in enumerate(axes)}
        return Matrix(int(memory.arg.slot), 0, _shape(groups), _steps(groups, strides) or (), memory.dtype)


def _in_parts(a: Analysis) -> dict[UOp, tuple[tuple[Axis, int], ...]]:
    """The RANGEs of which the digits are used one by one."""
    return {r: axes for r, axes in a.axes.parts.items() if len(axes) > 1}


def _short(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """Both factors as 16-bit floats where they are nothing but float32 of these."""
    inner = [v.src[0] for v in (x, y) if v.op is Ops.CAST and v.src[0].dtype in SHORT_FLOATS]
    return (inner[0], inner[1]) if len(inner) == 2 and inner[0].dtype is inner[1].dtype else (x, y)


def _apart(access: Access | None, group: Axes, around: Callable[[Axes, Axes], Groups]) -> tuple[Axes, Axes]:
    """Row (or column) axes that are no even steps through memory: the first ones count as axes of the batch."""
    strides = access.strides if isinstance(access, View) else {}
    for i in range(len(group)) if strides else ():
        if prod(x.size for x in group[:i]) <= MOST_CALLS and _steps(around(group[:i], group[i:]), strides):
            return group[:i], group[i:]
    return (), group


def _shape(groups: Groups) -> tuple[int, ...]:
    batch, rows, columns = groups
    return (*(x.size for x in batch), prod(x.size for x in rows), prod(x.size for x in columns))


def _steps(groups: Groups, strides: Mapping[Axis, int]) -> tuple[int, ...] | None:
    """A stride per axis of the batch, for all rows and for all columns; None where BLAS would have to copy first."""
    batch, rows, columns = groups
    found = []
    for group in (*((x,) for x in batch), rows, columns):
        axes = [(x.size, strides.get(x, 0)) for x in group if x.size != 1]
        if any(outer != n * inner for (_, outer), (n, inner) in pairwise(axes)) or any(k < 0 for _, k in axes):
            return None
        found.append(axes[-1][1] if axes else 0)
    shape = _shape(groups)
    return tuple(found) if lies_in(*shape[-2:], *found[-2:]) else None


def _dense(memory: UOp, shape: tuple[int, ...]) -> Matrix:
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    return Matrix(int(memory.arg.slot), 0, shape, strides, memory.dtype)
