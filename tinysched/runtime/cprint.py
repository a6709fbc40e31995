"""The statements of a kernel as lines of CUDA C, each with the nodes that it computes.

In: a block of :mod:`nest` whose outer loops are opened (threads take their place), in which loops may be shared by
threads (:class:`Shared`). Out: :class:`~tinysched.runtime.loops.Line` values. As in the loops' text a value gets a name
where it is long, or is read in another loop than the one that computes it.

>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 6, "CUPY")) for i in (0, 1))
>>> r0 = UOp.range(6, 0)
>>> ranges, body = opened(UOp.sink(out.index(r0).store(load(x.index(r0)) * 2.0).end(r0)))
>>> [line.text for line in Printer(UOp.sink(), body).lines(body, 0)]
['p0[r0] = p1[r0] * 2.0f;']
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.conditions import bounds_where, clauses
from tinysched.ir.text import range_name
from tinysched.ir.uop import UOp
from tinysched.runtime import ctext
from tinysched.runtime.ctext import ATOM
from tinysched.runtime.loops import LONGEST_INLINE, Line, Text, identity, nodes_in, reads_of
from tinysched.runtime.nest import (
    Accumulate,
    Block,
    If,
    Let,
    Loop,
    Ranges,
    Start,
    Statement,
    Store,
    arguments_of,
    nest_of,
    static_nodes,
    valid_of,
)


@dataclass(slots=True)
class Shared(Loop):
    """A loop of a REDUCE whose steps a group of threads shares; then every thread gets the whole result."""

    node: UOp


REDUCERS: Final = {Ops.ADD: "Add", Ops.MUL: "Mul", Ops.MAX: "Max"}


# ** from loops to threads **


def opened(sink: UOp) -> tuple[Ranges, Block]:
    """The RANGEs of a kernel with one STORE, and the statements for one place in them."""
    return _opened(nest_of(sink), sink.src[0].src[1:] if sink.src[0].op is Ops.END else ())


def _opened(block: Block, ranges: Ranges) -> tuple[Ranges, Block]:
    found: Block = []
    for s in block:
        found += _opened(s.body, ranges)[1] if isinstance(s, Loop) and set(s.ranges) <= set(ranges) else [s]
    return ranges, found


def shared(block: Block) -> Block:
    """The block with the loops of its own REDUCEs made one :class:`Shared` loop each."""
    found: Block = []
    started: dict[UOp, UOp] = {}  # at this level every loop belongs to a REDUCE that was started before
    for s in block:
        if isinstance(s, Start):
            started |= dict.fromkeys(s.node.src[1:], s.node)
        if isinstance(s, Loop):
            reduce = started[s.ranges[0]]
            found.append(Shared(reduce.src[1:], _opened([s], reduce.src[1:])[1], reduce))
        else:
            found.append(If(s.condition, shared(s.body)) if isinstance(s, If) else s)
    return found


def has_shared(s: Statement) -> bool:
    return isinstance(s, Shared) or (isinstance(s, If) and any(map(has_shared, s.body)))


# ** printing **


class Printer:
    """Prints the block of one kernel."""

    def __init__(self, sink: UOp, block: Block, wide: bool = False):
        self.wide, self.variables = wide, arguments_of(sink)[1]
        self.static = static_nodes(sink.toposort())
        self.texts: dict[UOp, Text] = {v: Text(variable_name(v, i), ATOM) for i, v in enumerate(self.variables)}
        self.given: set[UOp] = set()
        self.named: set[UOp] = set()
        self.home: dict[UOp, int] = {}  # the loop body that computes a value
        self.readers: dict[UOp, list[int]] = defaultdict(list)  # the loop bodies that read it
        self.count = {"v": 0, "acc": 0}
        self.known: list[UOp] = []  # the masks of the Ifs around
        self.target = ""  # what stands for the element that is stored
        self.group = 0  # how many threads share a Shared loop
        self.checks = False  # whether some index had to be checked
        self.find_readers(block, id(block))

    def find_readers(self, block: Block, home: int) -> None:
        for s in block:
            for u in reads_of(s):
                self.readers[u].append(home)
            if isinstance(s, (Loop, If)):
                self.find_readers(s.body, id(s.body) if isinstance(s, Loop) else home)
            else:
                self.home[s.node] = home

    def lines(self, block: Iterable[Statement], depth: int) -> list[Line]:
        found: list[Line] = []
        for s in block:
            if isinstance(s, (Loop, If)):
                found += self.nested(s, depth)
            elif line := self.line(s):
                found.append(Line("    " * depth + line, nodes_in(s, self.named)))
        return found

    def nested(self, s: Loop | If, depth: int) -> list[Line]:
        """A loop or a condition with its body, without braces around what is a single line."""
        heads, known = self.heads(s), len(self.known)
        self.known += clauses(s.condition) if isinstance(s, If) else []
        inner = depth + (1 if isinstance(s, Shared) else len(heads))
        body = self.lines(s.body, inner)
        del self.known[known:]
        if not body:
            return []
        first = [Line("    " * (depth + i) + head) for i, head in enumerate(heads[: inner - depth])]
        rest = [Line("    " * inner + head) for head in heads[inner - depth :]]
        if len(rest + body) > 1:
            first[-1] = Line(first[-1].text + " {")
            body = [*rest, *body, Line("    " * (inner - 1) + "}")]
        return first + body + ([self.joined(s, depth)] if isinstance(s, Shared) else [])

    def heads(self, s: Loop | If) -> list[str]:
        if isinstance(s, If):
            return [f"if ({self.condition(s.condition).code})"]
        if isinstance(s, Shared):
            total, lines = self.places(s.ranges, "j")
            kind = self.index_type
            return [f"for ({kind} j = lane; j < {total}; j += {self.group})", *lines]
        names = [(range_name(r), self.index(r.src[0]).at(ctext.SHIFT)) for r in s.ranges]
        return [f"for ({self.index_type} {r} = 0; {r} < {n}; {r}++)" for r, n in names]

    def joined(self, s: Shared, depth: int) -> Line:
        acc, kind = self.texts[s.node].code, "warp" if self.group == 32 else "block"
        return Line("    " * depth + f"{acc} = across_{kind}<{REDUCERS[s.node.arg[0]]}>({acc});", (s.node,))

    @property
    def index_type(self) -> str:
        return ctext.register_type(dtypes.index, self.wide)

    def places(self, ranges: Ranges, name: str, step: int = 1) -> tuple[str, list[str]]:
        """How many places the RANGEs have together, and the lines that say where in them number ``name`` is.

        With a ``step`` the last RANGE is taken that many at a time.
        """
        sizes = [self.index(r.src[0]) for r in ranges]
        if step > 1:
            sizes[-1] = Text(str(int(ranges[-1].src[0].arg) // step), ATOM)
        total, lines = Text("1", ATOM), []
        for i, (r, size) in reversed(list(enumerate(zip(ranges, sizes)))):
            place = name if total.code == "1" else f"{name} / {total.at(ctext.SIGN)}"
            if i > 0:
                place = f"{place} % {size.at(ctext.SIGN)}"
            if i == len(ranges) - 1 and step > 1:
                place = f"{place} * {step}"
            lines.append(f"{self.index_type} {range_name(r)} = {place};")
            total = _times(size, total)
        return total.code, lines

    # ** statements **

    def give(self, u: UOp, code: str) -> None:
        """Says where a value is found: it need not be computed."""
        self.given.add(u)
        self.texts[u] = Text(f"float({code})" if u.dtype in ctext.SHORT_FLOATS else code, ATOM)

    def line(self, s: Let | Start | Accumulate | Store) -> str:
        """The line of a statement, or nothing where the value is written out where it is read."""
        u = s.node
        if isinstance(s, Store):
            return f"{self.checked(u)}{self.target or self.element(u)} = {self.text(u.src[1]).code};"
        if isinstance(s, Start):
            start = ctext.constant(identity(u.arg[0], u.dtype), u.dtype)
            return f"{self.declared(u, 'acc')} = {start.code};"
        if isinstance(s, Accumulate):
            acc = self.texts[u].code
            return f"{acc} = {ctext.operation(u.arg[0], u.dtype, [self.texts[u], self.text(u.src[0])]).code};"
        if u.is_gated or u in self.given:
            return ""  # else it is printed each time it is met: two sums over one RANGE are two loops
        value = self.value(u)
        if len(value.code) <= LONGEST_INLINE and (u in self.static or self.readers[u] == [self.home[u]]):
            self.texts[u] = value
            return ""
        return f"{self.declared(u, 'v')} = {value.code};"

    def declared(self, u: UOp, kind: str) -> str:
        """A new name for a value, with its type."""
        self.texts[u] = Text(f"{kind}{self.count[kind]}", ATOM)
        self.count[kind] += 1
        self.named.add(u)
        return f"{ctext.register_type(u.dtype, self.wide)} {self.texts[u].code}"

    # ** expressions **

    def text(self, u: UOp) -> Text:
        """A value where it is read."""
        if u in self.texts:
            return self.texts[u]
        if u.op is Ops.CONST:
            return ctext.constant(u.arg, u.dtype)
        return Text(range_name(u), ATOM) if u.op is Ops.RANGE else self.texts[u]

    def condition(self, condition: UOp) -> Text:
        for u in condition.toposort(lambda u: u not in self.texts):  # masks joined are no node of the kernel
            if u not in self.texts and u.op in GroupOp.Elementwise:
                self.texts[u] = self.value(u)
        return self.text(condition)

    def index(self, u: UOp) -> Text:
        """Index arithmetic, whether or not its statements have been met."""
        return self.condition(u)

    def value(self, u: UOp) -> Text:
        """A value where it is computed."""
        if u.op is Ops.LOAD:
            valid, element = valid_of(u), Text(self.element(u), ATOM)
            if u.dtype in ctext.SHORT_FLOATS:
                element = Text(f"float({element.code})", ATOM)
            if all(c in self.known for c in clauses(valid)):
                return element
            return ctext.operation(Ops.WHERE, u.dtype, [self.text(valid), element, ctext.constant(0, u.dtype)])
        x = [self.text(s) for s in u.src]
        if u.op is Ops.CAST:
            return ctext.cast(u, x[0], self.wide)
        if u.op is Ops.BITCAST:
            return ctext.bitcast(u, x[0])
        if u.dtype is dtypes.index and u.op in (Ops.FLOORDIV, Ops.FLOORMOD):
            return ctext.divided(u.op, x, u.src[0].vmin >= 0 and u.src[1].vmin > 0, self.wide)
        if u.dtype is dtypes.index and u.op is Ops.MAX:
            return Text(f"maximum<{self.index_type}>({x[0].code}, {x[1].code})", ATOM)
        return ctext.operation(u.op, u.src[-1].dtype, x)

    def is_proven(self, access: UOp) -> bool:
        """Whether the element that a LOAD or STORE touches is plainly there."""
        memory, index = access.src[0].src
        i = index.get_idx()
        low, high = bounds_where(index.get_valid(), i)
        return (low >= 0 and high < memory.arg.size) or (i in self.static and index.is_gated)

    def checked(self, store: UOp) -> str:
        """The condition in front of a STORE whose place may not exist."""
        if self.is_proven(store):
            return ""
        self.checks = True
        memory, index = store.src[0].src
        return f"if (exists({self.text(index.get_idx()).code}, {memory.arg.size}, fault)) "

    def element(self, access: UOp) -> str:
        """The element of memory that a LOAD or STORE touches; a LOAD's is checked where it isn't plain that there is one."""
        memory, index = access.src[0].src
        code = self.index(index.get_idx()).code
        if access.op is Ops.LOAD and not self.is_proven(access):
            self.checks = True
            code = f"within({code}, {memory.arg.size}, fault)"
        return f"p{memory.arg.slot}[{code}]"


def variable_name(v: UOp, number: int) -> str:
    """The Variable's own name, marked as such so that it is no word of C."""
    name = str(v.arg.name)
    return f"n_{name}" if name.isascii() and name.isidentifier() else f"var{number}"


def _times(x: Text, y: Text) -> Text:
    """The product of two sizes; of numbers it is one."""
    if x.code.isdecimal() and y.code.isdecimal():
        return Text(str(int(x.code) * int(y.code)), ATOM)
    return x if y.code == "1" else Text(f"{x.at(ctext.TERM)} * {y.at(ctext.SIGN)}", ctext.TERM)


# ** names **

_DECLARED: Final = re.compile(r"( *)(\w[\w ]*) ((?:v|acc)\d+) = ")
_NAMED: Final = re.compile(r"\b(?:v|acc)\d+\b")


def scoped(lines: list[Line]) -> list[Line]:
    """The lines with names declared far enough out: a value computed under a condition may be read after it."""
    last = {name: i for i, line in enumerate(lines) for name in _NAMED.findall(line.text)}
    found = list(lines)
    declared: dict[int, list[Line]] = {}  # in front of which line
    for i, line in enumerate(lines):
        m = _DECLARED.match(line.text)
        depth = min((_indent(x) for x in lines[i + 1 : last[m[3]] + 1]), default=_indent(line)) if m else 0
        if m and depth < _indent(line):
            head = next(k for k in range(i, -1, -1) if _indent(lines[k]) <= depth)
            declared.setdefault(head, []).append(Line(f"{' ' * depth}{m[2]} {m[3]};"))
            found[i] = line._replace(text=f"{m[1]}{line.text[m.start(3) :]}")
    return [x for i, line in enumerate(found) for x in (*declared.get(i, ()), line)]


def _indent(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip(" "))


_PLACE: Final = re.compile(r" *(?:int|long long) ([rR]\d+) = [^;,]*;")


def used(lines: list[Line]) -> list[Line]:
    """The lines without those that name a place in a loop along which nothing varies."""
    kept: list[Line] = []
    read: set[str] = set()
    for line in reversed(lines):
        if not (m := _PLACE.fullmatch(line.text)) or m[1] in read:
            kept.append(line)
            read |= set(re.findall(r"[rR]\d+", line.text[m.end(1) :] if m else line.text))
    return kept[::-1]
