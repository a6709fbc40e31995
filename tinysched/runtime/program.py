"""A NumPy program as statements, and their text: loops over blocks, and arrays that are used again.

In: :class:`Statement` values, each at a level (how many block loops it stands in). Out: Python text.

>>> from tinysched.dtypes import dtypes
>>> add = Statement(0, "sum", "np.add({}, {})", (Operand("x"), "1.0"), (4,), dtypes.float32, Kind.UFUNC)
>>> store = Statement(0, None, "p0[...] = {}", (Operand("sum"),))
>>> print(Program("f", ["p0", "x"], {"x": "x"}, [add, store], ()).text())
def f(p0, x):
    t0 = np.add(x, 1.0)
    p0[...] = t0
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Final, NamedTuple

from tinysched.dtypes import DType, dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.axes import Axis
from tinysched.runtime.loops import Line

SMALLEST_SHARED: Final = (1 << 14, 1 << 10)
"""Arrays of fewer elements than this (outside of block loops, inside) are simply made anew."""


_UFUNCS: Final = {
    Ops.EXP2: "exp2", Ops.LOG2: "log2", Ops.SIN: "sin", Ops.SQRT: "sqrt", Ops.RECIPROCAL: "reciprocal",
    Ops.NEG: "negative", Ops.TRUNC: "trunc", Ops.ADD: "add", Ops.SUB: "subtract", Ops.MUL: "multiply",
    Ops.FDIV: "divide", Ops.MAX: "maximum", Ops.FLOORDIV: "floor_divide", Ops.FLOORMOD: "remainder", Ops.CMOD: "fmod",
    Ops.CMPLT: "less", Ops.CMPNE: "not_equal", Ops.CMPEQ: "equal", Ops.XOR: "bitwise_xor", Ops.OR: "bitwise_or",
    Ops.AND: "bitwise_and", Ops.SHL: "left_shift", Ops.SHR: "right_shift",
}  # fmt: skip
_UFUNCS_BOOL: Final = {
    Ops.NEG: "logical_not", Ops.ADD: "logical_or", Ops.MUL: "logical_and", Ops.SUB: "logical_xor",
    Ops.MAX: "logical_or",
}  # fmt: skip


class Kind(Enum):
    """What a statement is."""

    UFUNC = "elementwise: may write into an operand that nobody needs any more"
    CALL = "may write into an array that is given to it"
    FRESH = "makes its own array"
    FILL = "lines that fill an array"
    NAME = "another view of operands, or of memory"
    WRITE = "writes to memory"


OUT: Final = "out"
"""The key of the view that a kernel writes through."""


class Operand(NamedTuple):
    """A value, and the part of it that is read."""

    key: Hashable
    cut: str = ""


@dataclass
class Statement:
    """One statement; ``form`` is its text with ``{}`` for the operands (in a FILL, ``{out}`` for the array)."""

    level: int
    key: Hashable | None
    form: str
    args: tuple[Operand | str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: DType = dtypes.void
    kind: Kind = Kind.WRITE
    prefix: str = "t"
    comment: str = ""
    target: str = ""
    """Where the value goes instead of an array of its own."""
    nodes: tuple[UOp, ...] = ()
    """The nodes of the kernel that it computes, or names the memory of."""

    @property
    def is_view(self) -> bool:
        """Whether it only names memory (``blas`` may copy)."""
        return self.kind is Kind.NAME and self.level == 0 and not self.form.startswith("blas(")


class Block(NamedTuple):
    """A loop over blocks of an axis."""

    axis: Axis
    step: int
    name: str

    @property
    def is_even(self) -> bool:
        return self.axis.size % self.step == 0

    @property
    def cut(self) -> str:
        return f"{self.name}:{self.name}+{self.step}"


def np_name(dtype: DType) -> str:
    return "np.bool_" if dtype is dtypes.bool else f"np.{dtype.np.name}"


def ufunc(op: Ops, dtype: DType) -> str:
    """The ufunc of an ALU operation on operands of ``dtype``."""
    return f"np.{_UFUNCS_BOOL.get(op, _UFUNCS[op]) if dtype is dtypes.bool else _UFUNCS[op]}"


def constant(u: UOp, typed: bool = False) -> str:
    """A constant as NumPy takes it beside an array of its dtype; typed, as a scalar of that dtype."""
    text = str(u.dtype.np.type(u.arg)) if u.dtype.kind == "f" else repr(u.arg)
    text = text.replace("inf", "np.inf").replace("nan", "np.nan")
    return f"{np_name(u.dtype)}({text})" if typed else text


def new_array(shape: tuple[int, ...], dtype: DType) -> str:
    return f"np.empty({shape}, {np_name(dtype)})"


def indented(line: Line, depth: int = 1) -> Line:
    return line._replace(text="    " * depth + line.text)


def cut_text(cuts: list[str]) -> str:
    """A subscript, without the axes at the end that are taken whole; nothing if all are."""
    while cuts and cuts[-1] == ":":
        cuts = cuts[:-1]
    return f"[{', '.join(cuts)}]" if cuts else ""


def _is_place(u: UOp) -> bool:
    """Whether a node only says what is where: memory, an index, a condition on indices."""
    stack, seen = [u], set[UOp]()
    while stack:
        v = stack.pop()
        if v in seen or v.op is Ops.LOAD or v.dtype is dtypes.index:
            continue
        if v.dtype is not dtypes.bool or not v.src:
            return False
        seen.add(v)
        stack += v.src
    return True


@dataclass
class Program:
    """Statements on their way to text."""

    name: str
    params: list[str]
    names: dict[Hashable, str]
    statements: list[Statement]
    blocks: tuple[Block, ...]
    last: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    """The level and the position at which a value is read last."""
    free: dict[tuple[int, tuple[int, ...], DType], list[str]] = field(default_factory=lambda: defaultdict(list))
    owner: dict[Hashable, Hashable] = field(default_factory=dict)
    """Whose array a value lives in."""
    shared: dict[Hashable, tuple[int, tuple[int, ...], DType]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    scratch: list[tuple[str, int, tuple[int, ...], DType]] = field(default_factory=list)
    """Arrays that block loops use again and again: name, level, shape, dtype."""

    def text(self) -> str:
        body = [line.text for line in self.body()] or ["    pass"]
        return "\n".join([f"def {self.name}({', '.join(self.params)}):", *body])

    def body(self) -> list[Line]:
        """The lines of the function."""
        return self.parts()[1]

    def parts(self) -> tuple[list[Line], list[Line]]:
        """Lines that only name views of memory, which can be made before the rest runs; and all lines."""
        self._drop_unread()
        self.statements.sort(key=lambda s: s.level)
        self._find_last()
        self._find_nodes()
        views: list[Line] = []
        known: set[Hashable] = set()
        body: list[list[Line]] = [[] for _ in range(len(self.blocks) + 1)]
        for position, s in enumerate(self.statements):
            lines = [Line(text, s.nodes) for text in self._lines(s, position)]
            body[s.level] += lines
            if s.is_view and all(isinstance(a, str) or a.key in known for a in s.args):
                known.add(s.key)
                views += lines
        for name, level, shape, dtype in self.scratch:
            cut = self._rest_of_block(shape, level)
            nodes = tuple(dict.fromkeys(u for s in self.statements if self.names.get(s.key) == name for u in s.nodes))
            body[0].append(Line(f"{'all_' if cut else ''}{name} = {new_array(shape, dtype)}", nodes))
            if cut:
                body[level].insert(0, Line(f"{name} = all_{name}{cut}", nodes))
        lines = []
        while body and not body[-1]:
            body.pop()
        for i, part in enumerate(body):
            if i:
                block = self.blocks[i - 1]
                lines.append(Line("    " * i + f"for {block.name} in range(0, {block.axis.size}, {block.step}):"))
            lines += [indented(line, i + 1) for line in part]
        return [indented(line) for line in views], lines

    def _rest_of_block(self, shape: tuple[int, ...], level: int) -> str:
        """The part of a block's array that the last, shorter block fills."""
        cuts = [":"] * len(shape)
        for b in self.blocks[:level]:
            if not b.is_even and shape[b.axis.at] == b.step:
                cuts[b.axis.at] = f":{b.axis.size}-{b.name}"
        return cut_text(cuts)

    def _drop_unread(self) -> None:
        """Leaves out what nothing is computed from (a matrix product makes views of its own)."""
        read: set[Hashable] = set()
        kept = []
        for s in reversed(self.statements):
            if s.kind is Kind.WRITE or s.target or s.key in read:
                kept.append(s)
                read.update(a.key for a in s.args if isinstance(a, Operand))
                if s.target:
                    read.add(OUT)
        self.statements = kept[::-1]

    def _find_nodes(self) -> None:
        """Lets what only says where something is in memory belong to what reads it as well."""
        readers: dict[Hashable, dict[UOp, None]] = defaultdict(dict)
        for s in reversed(self.statements):
            nodes = dict.fromkeys(s.nodes)
            if all(map(_is_place, s.nodes)):
                for key in (s.key, *s.nodes):
                    nodes |= readers[key]
            s.nodes = tuple(nodes)
            for a in s.args:
                if isinstance(a, Operand):
                    readers[a.key] |= nodes

    def _find_last(self) -> None:
        for position, s in enumerate(self.statements):
            read = [a.key for a in s.args if isinstance(a, Operand)]
            for key in read:
                owner = self.owner.get(key, key)
                self.last[owner] = max(self.last.get(owner, (0, 0)), (s.level, position))
                if s.kind is Kind.NAME and s.key is not None:
                    self.owner[s.key] = owner

    def _lines(self, s: Statement, position: int) -> list[str]:
        args = [self.names[a.key] + a.cut if isinstance(a, Operand) else a for a in s.args]
        after = f"  # {s.comment}" if s.comment else ""
        if s.kind is Kind.WRITE:
            return [s.form.format(*args) + after]
        if s.kind is Kind.UFUNC:
            self._release(s, position)
        name, exists = (s.target, True) if s.target else self._array(s)
        self.names[s.key] = name
        if s.kind is not Kind.UFUNC:
            self._release(s, position)
        if s.kind is Kind.FILL:
            start = [] if exists else [f"{name} = {new_array(s.shape, s.dtype)}"]
            return start + s.form.format(*args, out=name).split("\n")
        code = s.form.format(*args)
        return [(f"{code[:-1]}, out={name})" if exists else f"{name} = {code}") + after]

    def _array(self, s: Statement) -> tuple[str, bool]:
        """The name of the array that a statement's value goes to, and whether it exists already."""
        inside = s.level > 0
        if s.kind in (Kind.NAME, Kind.FRESH) or prod(s.shape) < SMALLEST_SHARED[inside]:
            return self._new(s.prefix), False
        pool = (s.level, s.shape, s.dtype)
        self.shared[s.key] = pool
        if self.free[pool]:
            return self.free[pool].pop(), True
        name = self._new("s" if inside else s.prefix)
        if inside:
            self.scratch.append((name, *pool))
        return name, inside  # those of the block loops are made before them

    def _new(self, prefix: str) -> str:
        self.counts[prefix] += 1
        return f"{prefix}{self.counts[prefix] - 1}"

    def _release(self, s: Statement, position: int) -> None:
        """Gives back the arrays that no statement after this one reads."""
        for key in {self.owner.get(a.key, a.key) for a in s.args if isinstance(a, Operand)}:
            pool = self.shared.get(key)
            if pool is not None and self.last[key] == (pool[0], position):
                self.free[pool].append(self.names[key])
                del self.shared[key]
