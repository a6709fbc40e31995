"""A kernel as loops that a compiler makes fast code of: the text of the numba backend.

In: a kernel's SINK, without Variables. Out: Python text, or :class:`Unsupported` for kernels that are better left to
NumPy. It is the nest of the reference loops (:mod:`tinysched.runtime.nest`) with two differences: elements are read at
unsigned indices (a signed one may count from the end, which stops vectorization), and a long sum runs in lanes, which
are added up at its end: each lane is a vector's element, and no sum has to be reordered behind the reader's back.

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 8), (1, 1600)))
>>> r0, R1 = UOp.range(8, 0), UOp.range(200, 1, AxisType.REDUCE)
>>> print(program_text(UOp.sink(out.index(r0).store(load(x.index(r0 * 200 + R1)).reduce(Ops.ADD, R1)).end(r0))))
def kernel(p0, p1, start, stop):
    lanes0 = empty(64, float32)
    for r0 in range(start, stop):
        lanes0[:] = float32(0.0)
        for R1_ in range(0, 192, 64):
            for lane in range(64):
                R1 = R1_ + lane
                lanes0[lane] = lanes0[lane] + p1[uintp(r0*200 + R1)]
        for R1 in range(192, 200):
            lanes0[0] = lanes0[0] + p1[uintp(r0*200 + R1)]
        acc0 = add_lanes(lanes0)
        p0[uintp(r0)] = acc0
"""

from __future__ import annotations

from typing import Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.affine import affine_of
from tinysched.ir.text import range_name
from tinysched.ir.uop import UOp
from tinysched.runtime.forms import Unsupported
from tinysched.runtime.functions import functions_in
from tinysched.runtime.loops import ATOM, TERM, Line, Printer, Text, constant, identity, operation, text_of
from tinysched.runtime.nest import Accumulate, Block, If, Let, Loop, Start, Store, kernel_name, static_nodes, stores_of

LANES: Final = 64
MOST_APART: Final = 16
"""Elements between two that the innermost loop reads one after the other."""
_COMPILED: Final = (dtypes.float32, dtypes.float64, dtypes.bool, dtypes.index, dtypes.void)
_FOLD: Final = {Ops.ADD: "add_lanes", Ops.MUL: "multiply_lanes", Ops.MAX: "max_lanes"}


def program_text(sink: UOp) -> str:
    """The kernel as loops from ``start`` to ``stop`` of the outermost one."""
    return text_of(program_lines(sink))


def program_lines(sink: UOp) -> list[Line]:
    """The same line by line, each with the nodes that it computes."""
    if (why := unsuitable(sink)) is not None:
        raise Unsupported(why)
    return _Lowered(sink).program(kernel_name(sink))


def unsuitable(sink: UOp) -> str | None:
    """Why a kernel is left to NumPy, if it is."""
    order = sink.toposort()
    static = static_nodes(order)
    static_loads = all(u.src[0].src[1].get_idx() in static for u in order if u.op in (Ops.LOAD, Ops.STORE))
    if len(stores_of(sink)) != 1 or not stores_of(sink)[0][1]:
        return "it has several stores, or no loop"
    if any(u.dtype not in _COMPILED for u in order if u.op is not Ops.PARAM or u.dtype is not dtypes.void):
        return "it computes with integers or small floats"
    if any(u.op in (Ops.POW, Ops.THREEFRY, Ops.BITCAST) for u in order):
        return "it calls what is not compiled here"
    if any(u.op in (Ops.EXP2, Ops.LOG2, Ops.SIN) and u.dtype is dtypes.float64 for u in order):
        return "it calls functions of float64"
    if not static_loads:
        return "it reads at computed places"
    around = stores_of(sink)[0][1]
    elementwise = [u for u in order if u.op is Ops.LOAD and u.ranges <= set(around)]
    if any(_stride(u, around[-1]) > MOST_APART for u in elementwise if len(u.ranges) > 1):
        return "it reads memory along columns"
    strided = [u for u in order if u.op is Ops.REDUCE and not _reads_in_order(u)]
    return "a sum that reads memory across its rows, or a product of matrices" if strided else None


def _stride(access: UOp, r: UOp) -> int:
    """How many elements a LOAD moves on with a loop variable."""
    return abs(dict(affine_of(access.src[0].src[1].get_idx()).terms).get(r, 0))


def _slides(access: UOp, r: UOp) -> bool:
    """Whether a LOAD reads the same elements again along another loop: windows, and running sums."""
    terms = affine_of(access.src[0].src[1].get_idx()).terms
    return any(v is not r and abs(c) == _stride(access, r) for v, c in terms)


def _reads_in_order(u: UOp) -> bool:
    """Whether the innermost loop of a reduction goes through memory element by element, once."""
    inner = u.src[-1]
    loads = [v for v in u.src[0].toposort(lambda v: v.op is not Ops.REDUCE) if v.op is Ops.LOAD]
    strides = [_stride(v, inner) for v in loads]
    if any(_slides(v, r) for v in loads for r in u.src[1:] if r in v.ranges):
        return False
    both = [v for v in loads if v.ranges != loads[0].ranges]
    is_product = u.src[0].op is Ops.MUL and len(both) > 0 and len(loads) > 1 and _is_contraction(u)
    return all(s in (0, 1) for s in strides) and not is_product


def _is_contraction(u: UOp) -> bool:
    """Whether two factors vary over loops that the other does not have: work for BLAS."""
    a, b = (s.ranges for s in u.src[0].src)
    return bool(a - b) and bool(b - a)


class _Lowered(Printer):
    """Prints the reference nest in the lowered form."""

    def __init__(self, sink: UOp):
        super().__init__(sink)
        self.laned: dict[UOp, str] = {}
        self.outer = stores_of(sink)[0][1][0]
        self.functions, self.between = functions_in(sink.toposort())

    def program(self, name: str) -> list[Line]:
        slots = range(1 + max(int(u.arg.slot) for u in self.memory))
        self._find_lanes(self.block)
        arrays = [f"    {n} = empty({LANES}, {u.dtype.np.name})" for u, n in self.laned.items()]
        head = f"def {name}({', '.join([*(f'p{i}' for i in slots), 'start', 'stop'])}):"
        return [*(Line(text) for text in (head, *arrays)), *self.lines(self.block, 1)]

    def header(self, s: Loop | If) -> str:
        if isinstance(s, Loop) and len(s.ranges) > 1:
            raise Unsupported("its loops are nested too deeply")
        if isinstance(s, Loop) and s.ranges[0] is self.outer:
            return f"for {range_name(self.outer)} in range(start, stop):"
        return super().header(s)

    def _find_lanes(self, block: Block) -> None:
        """The reductions whose innermost loop is long enough."""
        for s in block:
            if isinstance(s, Loop):
                last = s.body[-1]
                inner = not any(isinstance(t, Loop | If) for t in s.body)
                if (
                    isinstance(last, Accumulate)
                    and inner
                    and len(s.ranges) == 1
                    and s.ranges[0].src[0].arg >= 2 * LANES
                ):
                    self.laned[last.node] = f"lanes{len(self.laned)}"
            if isinstance(s, (Loop, If)):
                self._find_lanes(s.body)

    def lines(self, block: Block, depth: int) -> list[Line]:
        found: list[Line] = []
        started: list[UOp] = []
        for s in block:
            if isinstance(s, Start) and s.node in self.laned:
                started.append(s.node)
                found.append(Line("    " * depth + f"{self.laned[s.node]}[:] = {self._identity(s.node)}", (s.node,)))
                continue
            last = s.body[-1] if isinstance(s, Loop) else None
            if isinstance(s, Loop) and isinstance(last, Accumulate) and last.node in self.laned:
                found += self._in_lanes(s, last.node, depth)
            else:
                found += super().lines([s], depth)
            while started and isinstance(s, (Loop, If)):  # the loops of the sum have ended
                u = started.pop()
                self.name(u, "acc")
                found.append(Line("    " * depth + f"{self.texts[u].code} = {_FOLD[u.arg[0]]}({self.laned[u]})", (u,)))
        return found

    def _identity(self, u: UOp) -> str:
        return constant(identity(u.arg[0], u.dtype), u.dtype).code

    def _in_lanes(self, loop: Loop, u: UOp, depth: int) -> list[Line]:
        name, n, pad = range_name(loop.ranges[0]), int(loop.ranges[0].src[0].arg), "    " * depth
        whole = n - n % LANES
        self.texts[u] = Text(f"{self.laned[u]}[lane]", ATOM)
        found = [
            Line(f"{pad}for {name}_ in range(0, {whole}, {LANES}):"),
            Line(f"{pad}    for lane in range({LANES}):"),
            Line(f"{pad}        {name} = {name}_ + lane"),
            *super().lines(loop.body, depth + 2),
        ]
        if whole < n:
            self.texts[u] = Text(f"{self.laned[u]}[0]", ATOM)
            found += [Line(f"{pad}for {name} in range({whole}, {n}):"), *super().lines(loop.body, depth + 1)]
        return found

    def element(self, access: UOp) -> str:
        memory, index = access.src[0].src
        return f"p{memory.arg.slot}[uintp({self.text(index.get_idx()).code})]"

    def line(self, s: Let | Start | Accumulate | Store) -> str:
        return "" if s.node in self.between else super().line(s)

    def value(self, u: UOp) -> Text:
        if u in self.functions:
            name, argument = self.functions[u]
            return Text(f"{name}({self.text(argument).code})", ATOM)
        if u.op is Ops.LOAD:
            return super().value(u)
        x = [self.text(s) for s in u.src]
        if u.op is Ops.CAST and u.dtype is not dtypes.index:
            return Text(f"{'bool_' if u.dtype is dtypes.bool else u.dtype.np.name}({x[0].code})", ATOM)
        if u.op is Ops.RECIPROCAL:
            return Text(f"{constant(1.0, u.dtype).code}/{x[0].at(TERM + 1)}", TERM)
        if u.dtype is dtypes.bool and u.op in GroupOp.ALU and u.op is not Ops.WHERE:
            return Text(f"({operation(u.op, u.src[-1].dtype, x).code})", ATOM)
        return super().value(u)
