"""The reference: a kernel as literal Python loops over flat memory.

In: a kernel's SINK. Out: the text that people read (:func:`program_text`), and the function that it compiles to. It is
slow and obvious on purpose: the other run times are judged by it, and none of their analyses is used here.

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 2), (1, 6)))
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> row = load(x.index(r0 * 3 + R1)).reduce(Ops.ADD, R1)
>>> sink = UOp.sink(out.index(r0).store(row).end(r0))
>>> print(program_text(sink))
def kernel(p0, p1):
    for r0 in range(2):
        acc0 = float32(0.0)
        for R1 in range(3):
            acc0 = acc0 + p1[r0*3 + R1]
        p0[r0] = acc0
>>> result = np.empty(2, np.float32)
>>> compile_kernel(sink)([result, np.arange(6, dtype=np.float32)], {})
>>> result
array([ 3., 12.], dtype=float32)
"""

from __future__ import annotations

import keyword
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.dtypes import DType, Scalar, dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.conditions import clauses
from tinysched.ir.text import range_name
from tinysched.ir.uop import UOp
from tinysched.runtime.nest import (
    Accumulate,
    Block,
    If,
    Let,
    Loop,
    Start,
    Statement,
    Store,
    arguments_of,
    kernel_name,
    nest_of,
    static_nodes,
    valid_of,
)

Kernel = Callable[[Sequence[Any], Mapping[str, int]], None]
"""A kernel that can run: called with flat arrays by slot, and the values of its Variables by name."""
LONGEST_INLINE: Final = 60
"""A value whose text is longer than this gets a name and a line of its own."""


# ** what NumPy's scalars don't do by themselves **


def cdiv(a: Any, b: Any) -> Any:
    """Division of integers that truncates towards zero; by zero it is 0."""
    x, y = int(a), int(b)
    quotient = abs(x) // abs(y) if y else 0
    return _like(quotient if (x < 0) == (y < 0) else -quotient, a)


def power(a: Any, b: Any) -> Any:
    """``a ** b``; integers to a negative power truncate towards zero."""
    if not isinstance(a, np.integer) or b >= 0:
        return np.power(a, b)
    return _like({1: 1, -1: -1 if int(b) % 2 else 1}.get(int(a), 0), a)


def _like(value: int, model: Any) -> Any:
    """A Python int as a scalar of ``model``'s type, wrapped around."""
    if not isinstance(model, np.generic):
        return value
    bits = 8 * model.dtype.itemsize
    value &= (1 << bits) - 1
    return model.dtype.type(value - (1 << bits) if model.dtype.kind == "i" and value >> (bits - 1) else value)


def within(i: int, size: int) -> int:
    """``i`` if it is an index of ``size`` elements. (Python would count a negative one from the end.)"""
    if not 0 <= i < size:
        raise IndexError(f"index {i} is outside of the {size} elements of the buffer")
    return i


def threefry(x: Any, key: Any) -> Any:
    """Threefry-2x32 with 20 rounds: two 32-bit words in, two out, the low word first."""
    low, high = int(x) & 0xFFFFFFFF, int(x) >> 32
    k0, k1 = int(key) & 0xFFFFFFFF, int(key) >> 32
    keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    low, high = (low + k0) & 0xFFFFFFFF, (high + k1) & 0xFFFFFFFF
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            low = (low + high) & 0xFFFFFFFF
            high = ((high << turn | high >> (32 - turn)) & 0xFFFFFFFF) ^ low
        low = (low + keys[(group + 1) % 3]) & 0xFFFFFFFF
        high = (high + keys[(group + 2) % 3] + group + 1) & 0xFFFFFFFF
    return np.uint64(high << 32 | low)


_NAMES: Final[dict[str, Any]] = {
    **{name: getattr(np, name) for name in ("exp2", "log2", "sin", "sqrt", "reciprocal", "trunc", "maximum", "fmod")},
    **{d.np.name: d.np.type for d in (*dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)},
    "bool_": np.bool_, "inf": np.inf, "nan": np.nan, "cdiv": cdiv, "power": power, "within": within,
    "threefry": threefry, "product": product, "range": range, "int": int, "max": max,
    "__builtins__": {},
}  # fmt: skip
_TAKEN: Final = re.compile(r"(p|r|R|d|v|acc)\d+")


# ** expressions **


class Text(NamedTuple):
    """An expression, and how tightly its outermost operator binds (Python's order)."""

    code: str
    level: int

    def at(self, level: int) -> str:
        """In parentheses where an operator of ``level`` would tear it apart."""
        return self.code if self.level >= level else f"({self.code})"


IF_ELSE, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, TERM, SIGN, ATOM = range(13)
_INFIX: Final = {
    Ops.ADD: ("+", SUM), Ops.SUB: ("-", SUM), Ops.MUL: ("*", TERM), Ops.FDIV: ("/", TERM), Ops.FLOORDIV: ("//", TERM),
    Ops.FLOORMOD: ("%", TERM), Ops.CMPLT: ("<", COMPARE), Ops.CMPNE: ("!=", COMPARE), Ops.CMPEQ: ("==", COMPARE),
    Ops.AND: ("&", BITAND), Ops.OR: ("|", BITOR), Ops.XOR: ("^", BITXOR), Ops.SHL: ("<<", SHIFT),
    Ops.SHR: (">>", SHIFT),
}  # fmt: skip
_INFIX_BOOL: Final = {
    Ops.AND: ("and", AND), Ops.MUL: ("and", AND), Ops.OR: ("or", OR), Ops.ADD: ("or", OR), Ops.MAX: ("or", OR),
    Ops.SUB: ("!=", COMPARE), Ops.XOR: ("!=", COMPARE),
}  # fmt: skip
_CALLS: Final = {
    Ops.EXP2: "exp2", Ops.LOG2: "log2", Ops.SIN: "sin", Ops.SQRT: "sqrt", Ops.RECIPROCAL: "reciprocal",
    Ops.TRUNC: "trunc", Ops.MAX: "maximum", Ops.POW: "power", Ops.CDIV: "cdiv", Ops.CMOD: "fmod",
    Ops.THREEFRY: "threefry",
}  # fmt: skip


def constant(value: Any, dtype: DType) -> Text:
    if dtype is dtypes.index or dtype is dtypes.bool:
        return Text(repr(value), SIGN if value < 0 else ATOM)
    return Text(f"{_type(dtype)}({dtype.np.type(value)!s})", ATOM)


def _type(dtype: DType) -> str:
    return "bool_" if dtype is dtypes.bool else dtype.np.name


def _cast(u: UOp, x: Text) -> Text:
    source, target = u.src[0], u.dtype
    if target is dtypes.index:
        return Text(f"int({x.code})", ATOM)
    fits = target.kind in "iu" and target.min <= source.vmin and source.vmax <= target.max
    if source.dtype is dtypes.bool or (source.dtype is dtypes.index and fits):  # a plain Python number
        return Text(f"{_type(target)}({x.code})", ATOM)
    value = f"int64({x.code})" if source.dtype is dtypes.index else x.at(ATOM)
    return Text(f"{value}.astype({_type(target)})", ATOM)


def _bitcast(u: UOp, x: Text) -> Text:
    value = f"bool_({x.code})" if u.src[0].dtype is dtypes.bool else x.at(ATOM)
    return Text(f"{value}.view({_type(u.dtype)})", ATOM)


def _infix(sign: str, level: int, x: Text, y: Text) -> Text:
    """Operators group to the left; comparisons don't group at all."""
    left = x.at(level + (level == COMPARE))
    if sign == "+" and y.code[0] == "-" and y.level == SIGN:
        return Text(f"{left} - {y.code[1:]}", level)
    return Text(f"{left}{sign if level == TERM else f' {sign} '}{y.at(level + 1)}", level)


def operation(op: Ops, dtype: DType, x: list[Text]) -> Text:
    """An ALU operation on operands of ``dtype`` (for WHERE: that of the branches)."""
    if op is Ops.WHERE:
        return Text(f"{x[1].at(OR)} if {x[0].at(OR)} else {x[2].at(IF_ELSE)}", IF_ELSE)
    if op is Ops.NEG:
        return Text(f"not {x[0].at(NOT)}", NOT) if dtype is dtypes.bool else Text(f"-{x[0].at(SIGN)}", SIGN)
    if op is Ops.CMPNE and x[1].code == "True":
        return Text(f"not {x[0].at(NOT)}", NOT)
    if dtype is dtypes.bool and op in _INFIX_BOOL:
        return _infix(*_INFIX_BOOL[op], *x)
    if op in _INFIX:
        return _infix(*_INFIX[op], *x)
    if op is Ops.TRUNC and dtype.kind != "f":
        return x[0]
    name = "max" if op is Ops.MAX and dtype is dtypes.index else _CALLS[op]
    return Text(f"{name}({', '.join(t.code for t in x)})", ATOM)


def identity(op: Ops, dtype: DType) -> Scalar:
    """What a reduction of nothing is."""
    return {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: dtype.min}[op]


# ** programs **


def reads_of(statement: Statement) -> tuple[UOp, ...]:
    """The values whose texts a statement uses."""
    if isinstance(statement, If):
        return (statement.condition,)
    if isinstance(statement, (Loop, Start)):
        return ()
    u = statement.node
    if u.op in (Ops.LOAD, Ops.STORE):
        index = u.src[0].src[1]
        return (index.get_idx(), *(() if isinstance(statement, Store) else (valid_of(u),)), *u.src[1:])
    return u.src[:1] if isinstance(statement, Accumulate) else u.src


class Line(NamedTuple):
    """A line of a program, and the nodes of the kernel that it computes."""

    text: str
    nodes: tuple[UOp, ...] = ()


def text_of(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


def nodes_in(s: Let | Start | Accumulate | Store, named: Collection[UOp]) -> tuple[UOp, ...]:
    """The nodes that a statement's line computes: its own, and what is written out in it, as it has no name."""
    found: dict[UOp, None] = {s.node: None}
    stack = list(reads_of(s))
    while stack:
        u = stack.pop()
        if u in found or u in named or u.op in (Ops.CONST, Ops.RANGE):
            continue
        found[u] = None
        stack += [*u.src, *(u.src[0].src[1:] if u.op is Ops.LOAD else ())]
    return tuple(u for u in found if u.op in (*GroupOp.Elementwise, Ops.LOAD, Ops.REDUCE, Ops.STORE))


class Printer:
    """Prints the blocks of one kernel, once it knows where each value is computed and read."""

    def __init__(self, sink: UOp):
        self.memory, self.variables = arguments_of(sink)
        self.static = static_nodes(sink.toposort())
        self.texts = {v: Text(variable_name(str(v.arg.name), i), ATOM) for i, v in enumerate(self.variables)}
        self.home: dict[UOp, int] = {}  # the loop body that computes a value
        self.readers: dict[UOp, list[int]] = defaultdict(list)  # the loop bodies that read it
        self.counts = {"v": 0, "acc": 0}
        self.named: set[UOp] = set()
        self.known: list[UOp] = []  # the masks of the Ifs around
        self.block = nest_of(sink)
        self.find_readers(self.block, id(self.block))

    def find_readers(self, block: Block, home: int) -> None:
        for s in block:
            for u in reads_of(s):
                self.readers[u].append(home)
            if isinstance(s, (Loop, If)):
                self.find_readers(s.body, id(s.body) if isinstance(s, Loop) else home)
            else:
                self.home[s.node] = home

    def program(self, name: str) -> list[Line]:
        slots = range(1 + max(int(u.arg.slot) for u in self.memory))
        names = [*(f"p{i}" for i in slots), *(self.texts[v].code for v in self.variables)]
        return [Line(f"def {name}({', '.join(names)}):"), *self.lines(self.block, 1)]

    def lines(self, block: Block, depth: int) -> list[Line]:
        found: list[Line] = []
        for s in block:
            if isinstance(s, (Loop, If)):
                head, known = self.header(s), len(self.known)
                self.known += clauses(s.condition) if isinstance(s, If) else []
                if body := self.lines(s.body, depth + 1):
                    found += [Line("    " * depth + head), *body]
                del self.known[known:]
            elif line := self.line(s):
                found.append(Line("    " * depth + line, nodes_in(s, self.named)))
        return found

    def header(self, s: Loop | If) -> str:
        if isinstance(s, If):
            for u in s.condition.toposort(lambda u: u not in self.texts):  # masks joined are no node of the kernel
                if u not in self.texts and u.op in GroupOp.Elementwise:
                    self.texts[u] = self.value(u)
            return f"if {self.text(s.condition).code}:"
        names = ", ".join(range_name(r) for r in s.ranges)
        loops = ", ".join(f"range({self.text(r.src[0]).code})" for r in s.ranges)
        return f"for {names} in {loops if len(s.ranges) == 1 else f'product({loops})'}:"

    def line(self, s: Let | Start | Accumulate | Store) -> str:
        """The line of a statement, or nothing where the value is written out where it is read."""
        u = s.node
        if isinstance(s, Store):
            return f"{self.element(u)} = {self.text(u.src[1]).code}"
        if isinstance(s, Start):
            self.name(u, "acc")
            return f"{self.texts[u].code} = {constant(identity(u.arg[0], u.dtype), u.dtype).code}"
        if isinstance(s, Accumulate):
            return f"{self.texts[u].code} = {operation(u.arg[0], u.dtype, [self.texts[u], self.text(u.src[0])]).code}"
        if u.is_gated:
            return ""
        value = self.value(u)
        if len(value.code) <= LONGEST_INLINE and (u in self.static or self.readers[u] == [self.home[u]]):
            self.texts[u] = value
            return ""
        self.name(u, "v")
        return f"{self.texts[u].code} = {value.code}"

    def name(self, u: UOp, kind: str) -> None:
        """Gives a value a name of its own."""
        self.counts[kind] += 1
        self.texts[u] = Text(f"{kind}{self.counts[kind] - 1}", ATOM)
        self.named.add(u)

    def text(self, u: UOp) -> Text:
        """A value where it is read."""
        if u.op is Ops.CONST:
            return constant(u.arg, u.dtype)
        return Text(range_name(u), ATOM) if u.op is Ops.RANGE else self.texts[u]

    def value(self, u: UOp) -> Text:
        """A value where it is computed."""
        if u.op is Ops.LOAD:
            element, valid = Text(self.element(u), ATOM), valid_of(u)
            if all(c in self.known for c in clauses(valid)):
                return element
            return operation(Ops.WHERE, u.dtype, [self.text(valid), element, constant(0, u.dtype)])
        x = [self.text(s) for s in u.src]
        if u.op in (Ops.CAST, Ops.BITCAST):
            return (_cast if u.op is Ops.CAST else _bitcast)(u, x[0])
        return operation(u.op, u.src[-1].dtype, x)

    def element(self, access: UOp) -> str:
        """The element of memory that a LOAD or STORE touches; checked where it isn't plain that there is one."""
        memory, index = access.src[0].src
        i = index.get_idx()
        code = self.text(i).code
        proven = i.vmin >= 0 and i.vmax < memory.arg.size
        if not proven and (i not in self.static or not index.is_gated):
            code = f"within({code}, {memory.arg.size})"
        return f"p{memory.arg.slot}[{code}]"


def variable_name(name: str, number: int) -> str:
    """The Variable's own name if a program can use it."""
    usable = name.isidentifier() and not keyword.iskeyword(name) and name not in _NAMES and not _TAKEN.fullmatch(name)
    return name if usable else f"var{number}"


def program_lines(sink: UOp) -> list[Line]:
    """The kernel as Python loops, line by line."""
    return Printer(sink).program(kernel_name(sink))


def program_text(sink: UOp) -> str:
    """The kernel as Python loops."""
    return text_of(program_lines(sink))


@lru_cache(maxsize=1024)
def compile_kernel(sink: UOp) -> Kernel:
    """The function ``(flat arrays by slot, values of Variables by name) -> None`` that a kernel's loops compile to."""
    memory, variables = arguments_of(sink)
    names = dict(_NAMES)
    exec(compile(program_text(sink), f"<loops of {kernel_name(sink)}>", "exec"), names)
    function: Callable[..., None] = names[kernel_name(sink)]
    slots, keys = 1 + max(int(u.arg.slot) for u in memory), [str(v.arg.name) for v in variables]

    def run(arrays: Sequence[Any], var_vals: Mapping[str, int]) -> None:
        with np.errstate(all="ignore"):
            function(*arrays[:slots], *(int(var_vals[k]) for k in keys))

    return run
