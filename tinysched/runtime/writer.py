"""A kernel as the statements of a NumPy program.

In: a kernel's SINK, without Variables. Out: a :class:`Program`. Loads are written by :mod:`reading`, reductions by
:mod:`summing`; here are the arrays they make, elementwise operations, choices by index, and the store.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load as read
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 6, "NUMPY")) for i in (0, 1))
>>> r0, r1 = UOp.range(2, 0), UOp.range(3, 1)
>>> transposed = (read(x.index(r1 * 2 + r0)) + 1).alu(Ops.EXP2)
>>> print(Writer(UOp.sink(out.index(r0 * 3 + r1).store(transposed).end(r0, r1))).program().text())
def kernel(p0, p1):
    out0 = p0.reshape(2, 3)
    x0 = view(p1, 0, (2, 3), (1, 2))  # r1*2 + r0
    t0 = np.add(x0, 1.0)
    np.exp2(t0, out=out0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from tinysched.ir.ops import Ops
from tinysched.ir.uop import TRUE, UOp
from tinysched.runtime.analyze import Analysis
from tinysched.runtime.axes import Axis, Box, Span, meet
from tinysched.runtime.blocks import BLOCK, choose_blocks, levels_of
from tinysched.runtime.forms import Unsupported
from tinysched.runtime.nest import arguments_of, kernel_name
from tinysched.runtime.program import OUT, Block, Kind, Operand, Program, Statement, constant, cut_text, np_name, ufunc
from tinysched.runtime.reading import load, row_numbers
from tinysched.runtime.summing import reduce

Spans = dict[Axis, Span]
"""The part of each axis that an array covers; it does not vary along others."""

MOST_AXES: Final = 30
"""NumPy 1 allows 32."""
_FUNCTIONS: Final = {Ops.CDIV: "cdiv", Ops.POW: "power", Ops.THREEFRY: "threefry"}


class Writer:
    """Writes the statements of one kernel."""

    def __init__(self, sink: UOp, aliased: bool = False, block: int = BLOCK):
        self.a = Analysis(sink)
        self.params = [f"p{i}" for i in range(1 + max(int(u.arg.slot) for u in arguments_of(sink)[0]))]
        self.ndim = max(1, self.a.axes.ndim)
        if self.ndim > MOST_AXES:
            raise Unsupported(f"{self.ndim} axes")
        read = any(u.op is Ops.LOAD and u.src[0].src[0] is self.a.store.src[0].src[0] for u in self.a.order)
        self.overwrites_input = aliased or read
        self.blocks: tuple[Block, ...] = () if self.a.empty else choose_blocks(self.a, block)
        self.level = levels_of(self.a, self.blocks)
        self.statements: list[Statement] = []
        self.spans: dict[UOp, Spans] = {}
        self.strides: dict[UOp, Mapping[Axis, int]] = {}
        """Of the loads that are views: how many elements lie between neighbours along an axis."""
        self.absorbed: set[UOp] = set()
        self.is_stored = False

    def program(self) -> Program:
        if not self.a.empty:
            self._find_absorbed()
            self._out()
            for u in self.a.order:
                self.spans[u] = self.a.spans(u)
                if u not in self.absorbed:
                    self._value(u)
            if not self.is_stored:
                self._store()
        names: dict[Any, str] = {p: p for p in self.params}
        return Program(kernel_name(self.a.sink), self.params, names, self.statements, self.blocks)

    # ** arrays **

    def shape(self, spans: Spans, level: int = 0) -> tuple[int, ...]:
        """The shape of an array that varies along some axes, within the block loops up to ``level``."""
        steps = {b.axis: b.step for b in self.blocks[:level]}
        shape = [1] * self.ndim
        for axis, (low, high) in spans.items():
            shape[axis.at] = steps.get(axis, high - low)
        return tuple(shape)

    def volume(self, u: UOp) -> int:
        """How many elements a value has within the block loops that it stands in."""
        return prod(self.shape(self.spans[u], self.level[u]))

    def cut(self, have: Spans, want: Spans, whole: int = 0, level: int = 0) -> str:
        """The subscript of the part ``want`` of an array that is made within ``whole`` loops, read within ``level``."""
        cuts = [":"] * self.ndim
        blocks = {b.axis: b.cut for b in self.blocks[whole:level]}
        for axis, (low, high) in have.items():
            start, stop = want.get(axis, (low, high))
            if axis in blocks:
                cuts[axis.at] = blocks[axis]
            elif (start, stop) != (low, high):
                cuts[axis.at] = f"{start - low}:{stop - low}"
        return cut_text(cuts)

    def operand(self, u: UOp, want: Spans, level: int, typed: bool = False) -> Operand | str:
        """A value as it is read."""
        u = self.resolved(u)
        if u.op is Ops.CONST:
            return constant(u, typed)
        return Operand(u, self.cut(self.spans[u], want, self.level[u], level))

    def resolved(self, u: UOp) -> UOp:
        """The value itself, where ``u`` only is another name of it."""
        while True:
            choice = self.a.choices.get(u)
            if choice is not None and not choice.box and choice.mask is TRUE:
                u = choice.inside
            elif self._changes_nothing(u) and u.src[0].op is not Ops.CONST:
                u = u.src[0]
            else:
                return u

    def _changes_nothing(self, u: UOp) -> bool:
        same_memory = u.op is Ops.CAST and u.dtype.np == u.src[0].dtype.np
        return same_memory or (u.op is Ops.TRUNC and u.dtype.kind != "f")

    def add(self, key: Any, form: str, args: Sequence[Operand | str] = (), kind: Kind = Kind.NAME, **more: Any) -> None:
        level = more.pop("level", 0)
        nodes = more.pop("nodes", None) or self._nodes_of(key)
        self.statements.append(Statement(level, key, form, tuple(args), kind=kind, nodes=nodes, **more))

    def _nodes_of(self, key: Any) -> tuple[UOp, ...]:
        """The node that a statement with this key is about: itself a key, or second in one (``("rows", u)``)."""
        if key in (None, OUT):
            return (self.a.store, self.a.store.src[1])
        u = key[1] if isinstance(key, tuple) else key
        return (self.a.products.get(u, u),) if isinstance(u, UOp) else ()

    def compute(self, u: UOp, form: str, args: Sequence[Operand | str], kind: Kind = Kind.FRESH, **more: Any) -> None:
        """Adds the statement of a value at its level."""
        level = self.level[u]
        self.add(u, form, args, kind, level=level, shape=self.shape(self.spans[u], level), dtype=u.dtype, **more)

    def view(self, memory: str, offset: int, spans: Spans, strides: Mapping[Axis, int], size: int = -1) -> str:
        """The text of a view of flat memory; of all of it in order, that is a reshape."""
        shape = self.shape(spans)
        steps = [0] * self.ndim
        for axis, (low, high) in spans.items():
            offset += low * strides.get(axis, 0)
            steps[axis.at] = strides.get(axis, 0) if high - low > 1 else 0
        dense = all(n == 1 or s == prod(shape[i + 1 :]) for i, (n, s) in enumerate(zip(shape, steps)))
        if dense and offset == 0 and prod(shape) == size:
            return f"{memory}.reshape{shape}"
        return f"view({memory}, {offset}, {shape}, {tuple(steps)})"

    # ** values **

    def _value(self, u: UOp) -> None:
        if self.resolved(u) is not u:
            return
        if u.op is Ops.RANGE:
            self.add(u, f"np.arange({u.src[0].arg}).reshape{self.shape(self.spans[u])}", prefix="i")
        elif u.op is Ops.LOAD:
            load(self, u)
        elif u in self.a.choices:
            self._choose(u)
        elif u.op is Ops.REDUCE:
            reduce(self, u)
        else:
            self._elementwise(u)

    def _elementwise(self, u: UOp) -> None:
        want, level = self.spans[u], self.level[u]
        branches = u.src[1:] if u.op is Ops.WHERE else u.src
        typed = u.op in _FUNCTIONS or all(self.resolved(s).op is Ops.CONST for s in branches)
        args = [self.operand(s, want, level, typed) for s in u.src]
        holes = ", ".join(["{}"] * len(args))
        if u.op is Ops.CAST or u.op is Ops.BITCAST:
            method, kind = ("astype", Kind.FRESH) if u.op is Ops.CAST else ("view", Kind.NAME)
            form = f"{{}}.{method}({np_name(u.dtype)})"
        elif u.op is Ops.WHERE or u.op in _FUNCTIONS:
            form, kind = f"{_FUNCTIONS.get(u.op, 'np.where')}({holes})", Kind.FRESH
        else:
            form, kind = f"{ufunc(u.op, u.src[0].dtype)}({holes})", Kind.UFUNC
        if all(isinstance(a, str) for a in args):  # of constants NumPy makes scalars, which have no axes
            form, kind = f"np.full({self.shape(want, level)}, {form})", Kind.FRESH
        self.compute(u, form, args, kind)

    # ** choices by index **

    def _find_absorbed(self) -> None:
        """Choices that are only what another choice takes elsewhere: all pieces go into one array."""
        for u in self.a.order:
            choice = self.a.choices.get(u)
            if choice is not None and choice.box and self.resolved(u) is u:
                other = self.resolved(choice.outside)
                inner = self.a.choices.get(other)
                if inner is not None and inner.box and self.a.uses[other] == 1:
                    self.absorbed.add(other)

    def _choose(self, u: UOp) -> None:
        want, level, choice = self.spans[u], self.level[u], self.a.choices[u]
        if not choice.box:
            both = all(self.resolved(s).op is Ops.CONST for s in (choice.inside, choice.outside))
            args = [self.operand(choice.mask, want, level)]
            args += [self.operand(s, want, level, both) for s in (choice.inside, choice.outside)]
            self.compute(u, "np.where({}, {}, {})", args)
            return
        lines: list[str] = []
        operands: list[Operand | str] = []
        here = self.a.domain.get(u, {})
        node = u
        while True:  # from the choice that wins to the one that loses
            choice = self.a.choices[node]
            self._piece(lines, operands, u, meet(here, choice.box), choice.inside, choice.mask)
            other = self.resolved(choice.outside)
            here = meet(here, self.a.domain.get(other, here) if other.op is not Ops.CONST else {})
            if other not in self.absorbed:
                break
            node = other
        self._piece(lines, operands, u, here, other, TRUE)
        self.compute(u, "\n".join(reversed(lines)), operands, Kind.FILL)

    def _piece(self, lines: list[str], operands: list[Operand | str], u: UOp, box: Box, value: UOp, mask: UOp) -> None:
        """The line that fills part of ``u``."""
        level = self.level[u]
        part = {a: box.get(a, span) for a, span in self.spans[u].items()}
        cut = self.cut({a: s for a, s in self.spans[u].items() if part[a] != s}, part)
        number = len(operands)
        operands.append(self.operand(value, part, level))
        if mask is TRUE:
            lines.append(f"{{out}}{cut or '[...]'} = {{{number}}}")
        else:
            operands.append(self.operand(mask, part, level))
            lines.append(f"np.copyto({{out}}{cut}, {{{number}}}, where={{{number + 1}}})")

    # ** the store **

    def _out(self) -> None:
        """The view of the memory that is written, where there is one."""
        target, box = self.a.target, self.a.domain[self.a.store]
        memory = self.a.store.src[0].src[0]
        spans = {a: box.get(a, (0, a.size)) for a in self.a.axes.loops}
        sizes = {a: high - low for a, (low, high) in spans.items()}
        reach = 0
        for stride, n in sorted((abs(target.coefs.get(a, 0)), n) for a, n in sizes.items() if n > 1):
            if stride <= reach and not target.others:
                raise Unsupported("elements that are written more than once")
            reach += stride * (n - 1)
        low, high = target.bounds(box)
        self.out_spans = spans
        self.scatters = bool(target.others) or low < 0 or high > memory.arg.size
        if not self.scatters:
            name = f"p{memory.arg.slot}"
            self.add(OUT, self.view(name, target.const, spans, target.coefs, memory.arg.size), prefix="out")

    def _store(self) -> None:
        value, mask = self.resolved(self.a.store.src[1]), self.a.mask
        level = 0 if value.op is Ops.CONST else self.level[value]
        if mask.op is not Ops.CONST:
            level = max(level, self.level[mask])
        if self.scatters:
            self._scatter(value, mask)
            return
        if mask is TRUE and self._goes_straight_out(value, level):
            return
        out = Operand(OUT, self.cut(self.out_spans, {}, 0, level))
        args: list[Operand | str] = [out, self.operand(value, self.out_spans, level)]
        if mask is TRUE:
            self.add(None, "{}[...] = {}", args, Kind.WRITE, level=level)
        else:
            args.append(self.operand(mask, self.out_spans, level))
            self.add(None, "np.copyto({}, {}, where={})", args, Kind.WRITE, level=level)

    def _goes_straight_out(self, value: UOp, level: int) -> bool:
        """Lets the last operation write into memory itself, if it makes exactly what is stored."""
        last = next((s for s in self.statements if s.key is value), None)
        kinds = (Kind.UFUNC, Kind.CALL) if self.overwrites_input else (Kind.UFUNC, Kind.CALL, Kind.FILL)
        if last is None or last.kind not in kinds or self.a.uses[value] != 1 or last.level != level:
            return False
        if last.shape != self.shape(self.out_spans, level) or self.a.store.src[1] is not value:
            return False
        last.target = "out0" + self.cut(self.out_spans, {}, 0, level)
        last.nodes += (self.a.store,)
        return True

    def _scatter(self, value: UOp, mask: UOp) -> None:
        memory = self.a.store.src[0].src[0]
        self.spans[self.a.store], self.level[self.a.store] = self.out_spans, 0
        rows, _ = row_numbers(self, self.a.store, self.a.target)
        args = [rows, self.operand(value, self.out_spans, 0, typed=True), self.operand(mask, self.out_spans, 0)]
        self.add(None, f"scatter(p{memory.arg.slot}, {{}}, {{}}, {{}})", args, Kind.WRITE)
