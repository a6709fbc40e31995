"""Kernels as CUDA C: the text, and what to launch in which order.

In: a kernel's SINK. Out: a :class:`Program`: readable source whose lines know their nodes, and its steps. Every place in
the outer loops is taken by a thread, a warp or a block (:func:`_plain`, :func:`_rows`), several neighbours by one thread
where memory allows 128-bit accesses (:func:`_vectors`), or a square of places by a block that turns it around in shared
memory (:func:`_tiles`). No GPU and no CuPy is needed for any of this.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "CUPY")) for i, n in ((0, 6), (1, 300)))
>>> r0, R1 = UOp.range(6, 0), UOp.range(50, 1, AxisType.REDUCE)
>>> row = load(x.index(r0 * 50 + R1)).reduce(Ops.ADD, R1)
>>> kernel = UOp.sink(out.index(r0).store(row * 2.0).end(r0))
>>> print("\\n".join(line.text for line in program(kernel).lines))
extern "C" __global__ void __launch_bounds__(256, 4) k_kernel(float* p0, const float* p1) {
    int lane = threadIdx.x % 32;
    for (int i = (blockIdx.x * 256 + threadIdx.x) / 32; i < 6; i += gridDim.x * 8) {
        int r0 = i;
        float acc0 = 0.0f;
        for (int j = lane; j < 50; j += 32) {
            int R1 = j;
            acc0 = acc0 + p1[r0 * 50 + R1];
        }
        acc0 = across_warp<Add>(acc0);
        if (lane == 0)
            p0[r0] = acc0 * 2.0f;
    }
}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic.affine import affine_of
from tinysched.ir.text import range_name
from tinysched.ir.uop import INVALID, TRUE, UOp
from tinysched.runtime import chelpers, ctext
from tinysched.runtime.cprint import Printer, has_shared, opened, scoped, shared, used, variable_name
from tinysched.runtime.ctext import ATOM
from tinysched.runtime.loops import Line, Text, text_of
from tinysched.runtime.merge import merged, reads_rows
from tinysched.runtime.nest import Block, Let, Loop, Ranges, arguments_of, kernel_name, nest_of, valid_of
from tinysched.runtime.pieces import Cutter, Limits, Scratch
from tinysched.runtime.products import Product

INT_MOST: Final = 1 << 30
"""Indices that stay below this are 32-bit numbers: the step of a loop over a grid can be added without overflow."""


@dataclass(frozen=True)
class Launch:
    """One kernel of a program, and how to start it."""

    name: str
    blocks: int
    threads: int
    slots: tuple[int, ...]
    """The memory that it takes, then come ``variables`` and, if it ``checks`` indices, the address of a flag."""
    variables: tuple[str, ...]
    checks: bool
    wide: bool
    """Whether its numbers have 64 bits."""
    aligned: tuple[int, ...]
    """The slots whose memory it reads or writes 128 bits at once."""
    sink: UOp


Step = Launch | Product


@dataclass(frozen=True)
class Program:
    """What a kernel runs as."""

    lines: tuple[Line, ...]
    steps: tuple[Step, ...]
    scratch: tuple[Scratch, ...]

    @cached_property
    def source(self) -> str:
        """The whole text: helpers first. Each launch asks for it, as compiled kernels are found by it."""
        return text_of(self.with_helpers) + "\n"

    @property
    def with_helpers(self) -> list[Line]:
        """The lines, and those of the helpers in front of them."""
        helpers = chelpers.helpers_for(text_of(self.lines))
        return [*map(Line, [*helpers.split("\n"), ""] if helpers else []), *self.lines]


def program_text(sink: UOp) -> str:
    """The kernel as CUDA C, with a comment for each matrix product that cuBLAS does."""
    return program(sink).source


def program_lines(sink: UOp) -> list[Line]:
    """The same line by line, each with the nodes of the kernel that it computes."""
    return program(sink).with_helpers


@lru_cache(maxsize=1024)
def program(sink: UOp, limits: Limits = Limits()) -> Program:  # noqa: B008  # frozen
    """The program of a kernel; it is kept, as equal kernels are the same node."""
    cutter = Cutter(limits)
    pieces = cutter.pieces(sink)
    lines: list[Line] = []
    steps: list[Step] = []
    name = kernel_name(sink)
    name = name if "_" in name else f"k_{name}"  # so that it is no word of C
    for i, piece in enumerate(pieces):
        if isinstance(piece, Product):
            steps.append(piece)
            lines.append(Line(_comment(piece), (piece.node, piece.node.src[0])))
            continue
        kernel = Kernel(merged(piece, cutter.origins), f"{name}_{i}" if len(pieces) > 1 else name, limits)
        lines += kernel.lines
        steps.append(kernel.launch)
    lines = [line._replace(nodes=cutter.origins.of(line.nodes)) for line in lines]
    return Program(tuple(lines), tuple(steps), tuple(cutter.scratch))


def _comment(p: Product) -> str:
    sides = [f"p{m.slot}{list(m.shape)}" for m in (p.out, p.left, p.right)]
    return f"// {sides[0]} = {sides[1]} @ {sides[2]}, by cuBLAS"


class Kernel:
    """One ``__global__`` function: a SINK with one STORE."""

    def __init__(self, sink: UOp, name: str, limits: Limits):
        self.sink, self.limits = sink, limits
        self.nodes = sink.toposort()
        self.memory, variables = arguments_of(sink)
        self.ranges, self.block = opened(sink)
        self.store = next(u for u in self.nodes if u.op is Ops.STORE)
        self.places = prod(r.vmax + 1 for r in self.ranges)
        self.wide = self._is_wide()
        self.aligned: tuple[int, ...] = ()
        self.jobs = self.places  # how many threads there is work for
        body, self.checks = self._body()
        slots = tuple(int(u.arg.slot) for u in self.memory)
        blocks = max(1, min(limits.blocks, -(-self.jobs // limits.threads)))
        names = tuple(str(v.arg.name) for v in variables)
        self.launch = Launch(name, blocks, limits.threads, slots, names, self.checks, self.wide, self.aligned, sink)
        self.lines = used(scoped([Line(self._head(name)), *body, Line("}")]))

    def _head(self, name: str) -> str:
        written = self.store.src[0].src[0]
        types = [f"{'' if u is written else 'const '}{ctext.memory_type(u.dtype)}* p{u.arg.slot}" for u in self.memory]
        # no __restrict__: a kernel may write where it reads
        index = ctext.register_type(dtypes.index, self.wide)
        types += [f"{index} {variable_name(v, i)}" for i, v in enumerate(arguments_of(self.sink)[1])]
        types += ["int* fault"] if self.checks else []
        many = sum(u.op is Ops.REDUCE for u in self.nodes) >= self.limits.many
        resident = max(1, self.limits.resident // 2) if many else self.limits.resident
        bounds = f"__launch_bounds__({self.limits.threads}, {resident})"
        return f'extern "C" __global__ void {bounds} {name}({", ".join(types)}) {{'

    def _is_wide(self) -> bool:
        """Whether some index, or number of elements, needs 64 bits."""
        indices = [u for u in self.nodes if u.dtype is dtypes.index and u.arg is not INVALID]
        far = any(u.vmax >= INT_MOST or u.vmin <= -INT_MOST for u in indices if not u.is_gated)
        steps = [prod(r.vmax + 1 for r in u.src[1:]) for u in self.nodes if u.op is Ops.REDUCE]
        return far or max([self.places, *steps, *(int(u.arg.size) for u in self.memory)]) >= INT_MOST

    def _body(self) -> tuple[list[Line], bool]:
        if any(u.op is Ops.REDUCE for u in self.nodes):
            group = self._group()
            return self._plain() if group == 1 else self._rows(group)
        if (turn := self._turned()) is not None:
            return self._tiles(*turn)
        if (width := self._width()) > 1:
            return self._vectors(width)
        return self._plain()

    def _printer(self, block: Block) -> Printer:
        return Printer(self.sink, block, self.wide)

    # ** a thread for each place **

    def _plain(self) -> tuple[list[Line], bool]:
        p = self._printer(self.block)
        if not self.ranges:
            return [
                Line("    if (blockIdx.x * blockDim.x + threadIdx.x == 0) {"),
                *_closed(p.lines(self.block, 2), 1),
            ], p.checks
        total, places = p.places(self.ranges, "i")
        head = self._loop(p, total)
        lines = [Line("        " + line) for line in places]
        return [head, *lines, *_closed(p.lines(self.block, 2), 1)], p.checks

    def _loop(self, p: Printer, total: str, group: int = 1) -> Line:
        """The loop over places that the grid shares."""
        threads, kind = self.limits.threads, p.index_type
        cast = "(long long)" if self.wide else ""
        if group == threads:
            return Line(f"    for ({kind} i = blockIdx.x; i < {total}; i += gridDim.x) {{")
        start = f"{cast}blockIdx.x * {threads} + threadIdx.x"
        if group > 1:
            start = f"({start}) / {group}"
        return Line(f"    for ({kind} i = {start}; i < {total}; i += {cast}gridDim.x * {threads // group}) {{")

    # ** several threads for each place **

    def _group(self) -> int:
        """How many threads share the reductions of one place."""
        reduces = [s.node for s in _shared_in(shared(self.block))]
        steps = max((prod(r.vmax + 1 for r in u.src[1:]) for u in reduces), default=0)
        rows = all(reads_rows(u) for u in reduces) or self.places * 32 < self.limits.busy // 8
        if steps < self.limits.warp_row or not rows:
            return 1
        return self.limits.threads if steps >= self.limits.block_row else 32

    def _rows(self, group: int) -> tuple[list[Line], bool]:
        block = shared(self.block)
        before, after = _around_shared(block)
        ordered = [*before, *after]
        p = self._printer(ordered)
        p.group = group
        self.jobs = self.places * group
        total, places = p.places(self.ranges, "i")
        lane = "threadIdx.x" if group == self.limits.threads else f"threadIdx.x % {group}"
        head = [Line(f"    int lane = {lane};"), self._loop(p, total, group)]
        head += [Line("        " + line) for line in places]
        body, last = p.lines(before, 2), p.lines(after, 3)
        if len(last) > 1:
            end = [Line("        if (lane == 0) {"), *_closed(last, 2)]
        else:
            end = [Line("        if (lane == 0)"), *last]
        return [*head, *_closed([*body, *end], 1)], p.checks

    # ** several places for each thread **

    def _width(self) -> int:
        """How many neighbours a thread can read and write at once; 1 if they are no neighbours in memory."""
        if not self.ranges or self.ranges[-1].src[0].op is not Ops.CONST or self.places < 1:
            return 1
        inner = self.ranges[-1]
        accesses = [u for u in self.nodes if u.op in (Ops.LOAD, Ops.STORE)]
        along = [u for u in accesses if inner in u.src[0].src[1].ranges]
        if self.store not in along or len(arguments_of(self.sink)[1]) > 0:
            return 1
        width = self.limits.vector // max(u.src[0].src[0].dtype.itemsize for u in along)
        fits = (inner.vmax + 1) % max(width, 1) == 0 or (len(self.ranges) == 1 and inner.vmax + 1 > width)
        return width if width > 1 and fits and all(_steps_by_one(u, inner, width) for u in along) else 1

    def _vectors(self, width: int) -> tuple[list[Line], bool]:
        inner = self.ranges[-1]
        size = inner.vmax + 1
        before, lanes = _around_loop(nest_of(self.sink), inner)
        p = self._printer([*before, Loop((inner,), lanes)])
        loads = [u for u in self.nodes if u.op is Ops.LOAD and inner in u.src[0].src[1].ranges]
        self.aligned = tuple(sorted({int(u.src[0].src[0].arg.slot) for u in (*loads, self.store)}))
        self.jobs = self.places // width
        name = range_name(inner)
        total, places = p.places(self.ranges, "i", width)
        lines = [self._loop(p, total), *(Line("        " + x) for x in places), *p.lines(before, 2)]
        for n, u in enumerate(loads):
            kind = f"vec<{ctext.memory_type(u.dtype)}, {width}>"
            at = p.index(u.src[0].src[1]).code
            lines.append(Line(f"        {kind} x{n} = load<{width}>(p{u.src[0].src[0].arg.slot} + {at});", (u,)))
            p.give(u, f"x{n}.at[k]")
        where = p.index(self.store.src[0].src[1]).code
        p.texts[inner], p.target = Text(f"({name} + k)", ATOM), "y.at[k]"
        kind = ctext.memory_type(self.store.src[1].dtype)
        lines += [Line(f"        vec<{kind}, {width}> y;"), Line(f"        for (int k = 0; k < {width}; k++) {{")]
        lines += _closed(p.lines(lanes, 3), 2)
        lines += [
            Line(f"        store(p{self.store.src[0].src[0].arg.slot} + {where}, y);", (self.store,)),
            Line("    }"),
        ]
        return [*lines, *(self._tail(size - size % width) if size % width else [])], p.checks

    def _tail(self, start: int) -> list[Line]:
        """The last elements of the only loop, too few for one more access."""
        p = self._printer(self.block)
        [r], kind = self.ranges, p.index_type
        name = range_name(r)
        head = f"    for ({kind} {name} = {start} + blockIdx.x * {self.limits.threads} + threadIdx.x; "
        step = f"{name} < {r.vmax + 1}; {name} += gridDim.x * {self.limits.threads}) {{"
        return [Line(head + step), *_closed(p.lines(self.block, 2), 1)]

    # ** a square of places for each block **

    def _turned(self) -> tuple[UOp, UOp, list[UOp]] | None:
        """The loops along which memory is written and read, if these are two, and the LOADs to turn around."""
        side = self.limits.tile
        if not side or self.limits.threads % side or len(self.ranges) < 2 or self.places < 1:
            return None
        if any(r.src[0].op is not Ops.CONST for r in self.ranges):
            return None
        written = _along(self.store, self.ranges)
        found: dict[UOp, list[UOp]] = {}
        for u in self.nodes:
            read = _along(u, self.ranges) if u.op is Ops.LOAD else None
            if read is None or written is None or read is written or written not in u.src[0].src[1].ranges:
                continue
            if min(read.vmax, written.vmax) + 1 >= side // 2:
                found.setdefault(read, []).append(u)
        if written is None or not found:
            return None
        read = max(found, key=lambda r: len(found[r]))
        return written, read, found[read][:4]  # more tiles than that would leave little room for other blocks

    def _tiles(self, written: UOp, read: UOp, loads: list[UOp]) -> tuple[list[Line], bool]:
        """Reads squares with neighbouring threads along ``read``, and writes them along ``written``."""
        p = self._printer(self.block)
        lines = self._squares(p, written, read, loads)
        lines += self._square(p, written, read)
        lines += [Line(f"                tile{n}[k][x] = {p.element(u)};", (u,)) for n, u in enumerate(loads)]
        lines += [Line("            }"), Line("        }"), Line("        __syncthreads();")]
        for n, u in enumerate(loads):
            p.give(u, f"tile{n}[x][k]")
        lines += self._square(p, read, written)
        lines += _closed(_closed(p.lines(self.block, 4), 3), 2)
        return [*lines, Line("        __syncthreads();  // before the next tile"), Line("    }")], p.checks

    def _squares(self, p: Printer, written: UOp, read: UOp, loads: list[UOp]) -> list[Line]:
        """The memory of a block, and its loop over squares."""
        side, kind, a, b = self.limits.tile, p.index_type, range_name(written), range_name(read)
        across, down = (-(-(r.vmax + 1) // side) for r in (written, read))
        others = tuple(r for r in self.ranges if r is not written and r is not read)
        squares = self.places // (written.vmax + 1) // (read.vmax + 1) * across * down
        self.jobs = squares * self.limits.threads
        lines = []
        for n, u in enumerate(loads):  # one column more than is used, so that columns lie in different banks
            lines.append(Line(f"    __shared__ {ctext.memory_type(u.dtype)} tile{n}[{side}][{side + 1}];"))
        lines += [
            Line(f"    int x = threadIdx.x % {side}, y = threadIdx.x / {side};"),
            Line(f"    for ({kind} t = blockIdx.x; t < {squares}; t += gridDim.x) {{"),
            Line(f"        {kind} {a}_0 = t % {across} * {side}, {b}_0 = t / {across} % {down} * {side};"),
        ]
        if others:
            lines.append(Line(f"        {kind} i = t / {across * down};"))
            lines += [Line("        " + line) for line in p.places(others, "i")[1]]
        return lines

    def _square(self, p: Printer, rows: UOp, columns: UOp) -> list[Line]:
        """The loop of a block over one square, a row after the other, as far as there are places."""
        side, (row, column) = self.limits.tile, map(range_name, (rows, columns))
        return [
            Line(f"        for (int k = y; k < {side}; k += {self.limits.threads // side}) {{"),
            Line(f"            {p.index_type} {row} = {row}_0 + k, {column} = {column}_0 + x;"),
            Line(f"            if ({row} < {rows.vmax + 1} && {column} < {columns.vmax + 1}) {{"),
        ]


# ** parts of blocks **


def _closed(lines: list[Line], depth: int) -> list[Line]:
    return [*lines, Line("    " * depth + "}")]


def _shared_in(block: Block) -> Iterator[Any]:
    for s in block:
        if has_shared(s):
            yield from _shared_in(s.body) if not hasattr(s, "node") else [s]


def _around_shared(block: Block) -> tuple[Block, Block]:
    """What all threads of a group have to do, and what is left for one: no value that only the STORE reads."""
    last = max(i for i, s in enumerate(block) if has_shared(s))
    needed: set[UOp] = set()
    before: Block = []
    after: Block = list(block[last + 1 :])
    for s in reversed(block[: last + 1]):
        if isinstance(s, Let) and s.node not in needed:
            after.insert(0, s)
            continue
        before.insert(0, s)
        needed |= _read_in(s)
    return before, after


def _read_in(s: Any) -> set[UOp]:
    """Every node below a statement."""
    nodes = [s.node] if hasattr(s, "node") else []
    nodes += [s.condition] if hasattr(s, "condition") else []
    found = set(UOp.sink(*nodes).toposort()) if nodes else set()
    for inner in getattr(s, "body", ()):
        found |= _read_in(inner)
    return found


def _around_loop(block: Block, inner: UOp) -> tuple[Block, Block]:
    """The statements in front of the innermost loop, and its own."""
    before: Block = []
    for s in block:
        if isinstance(s, Loop):
            if inner in s.ranges:
                return before, s.body
            deeper, body = _around_loop(s.body, inner)
            return before + deeper, body
        before.append(s)
    raise AssertionError("a kernel's loops are nested")


def _steps_by_one(access: UOp, inner: UOp, width: int) -> bool:
    """Whether the places of an access go up one by one along ``inner``, and those of a vector start at a multiple."""
    index = access.src[0].src[1]
    form = affine_of(index.get_idx())
    others = [(u, c) for u, c in form.terms if u is not inner]
    memory = access.src[0].src[0]
    proven = index.get_idx().vmin >= 0 and index.get_idx().vmax < memory.arg.size
    plain = valid_of(access) is TRUE and dict(form.terms).get(inner) == 1 and proven
    return plain and all(c % width == 0 and inner not in u.ranges for u, c in others) and form.const % width == 0


def _along(access: UOp, ranges: Ranges) -> UOp | None:
    """The loop that goes through neighbours in memory, where the place follows from the loops alone."""
    index = access.src[0].src[1]
    if index.is_gated:
        return None
    terms = affine_of(index).terms
    if any(u not in ranges for u, _ in terms):
        return None
    return next((u for u, c in terms if c == 1), None)


__all__ = ["AxisType", "Kernel", "Launch", "Limits", "Program", "Step", "program", "program_text"]
