"""Graphs as text: a line per node, and index expressions as people write them.

In: nodes. Out: deterministic text, used by ``repr``, golden files, error messages and the text twins of the views.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import UOp
>>> r0, r1 = UOp.range(2, 0), UOp.range(3, 1)
>>> expr(r0 * 3 + r1)
'r0*3 + r1'
>>> print(graph_text(r0 * 3))
0 CONST index () 2
1 RANGE index () r0 [0]
2 CONST index () 3
3 MUL   index () [1 2]
"""

from __future__ import annotations

from typing import Any

from tinysched.dtypes import dtypes
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.uop import INVALID, UOp

_INFIX = {
    Ops.ADD: ("+", 5), Ops.SUB: ("-", 5), Ops.MUL: ("*", 6), Ops.FDIV: ("/", 6), Ops.FLOORDIV: ("//", 6),
    Ops.FLOORMOD: ("%", 6), Ops.CMPLT: ("<", 4), Ops.CMPNE: ("!=", 4), Ops.CMPEQ: ("==", 4), Ops.AND: ("&", 3),
    Ops.OR: ("|", 2), Ops.XOR: ("^", 2), Ops.SHL: ("<<", 5), Ops.SHR: (">>", 5), Ops.CDIV: ("/c", 6), Ops.CMOD: ("%c", 6),
}  # fmt: skip


def range_name(r: UOp) -> str:
    """``r3`` for a loop, ``R3`` for a loop that is reduced over, ``d3`` for devices."""
    number, kind = r.arg
    return {AxisType.LOOP: "r", AxisType.REDUCE: "R", AxisType.DEVICE: "d"}[kind] + str(number)


def const_text(u: UOp) -> str:
    if isinstance(u.arg, float) and u.arg == int(u.arg if abs(u.arg) < 1e15 else 0) and abs(u.arg) < 1e15:
        return f"{u.arg:.1f}"
    return f"{u.arg:.9g}" if isinstance(u.arg, float) and u.arg == u.arg else str(u.arg)


def expr(u: UOp, depth: int = 12) -> str:
    """An expression in infix form; anything that is no arithmetic is shown by its op."""
    return _expr(u, 0, depth)


def _expr(u: UOp, outer: int, depth: int) -> str:
    if u.op is Ops.CONST:
        return "invalid" if u.arg is INVALID else const_text(u)
    if u.op is Ops.RANGE:
        return range_name(u)
    if u.is_variable:
        return str(u.arg.name)
    if u.op is Ops.BIND:
        return f"{u.src[0].arg.name}={u.src[1].arg}"
    if depth <= 0:
        return "…"
    parts = [_expr(s, 0, depth - 1) for s in u.src] if u.op not in _INFIX else []
    if u.op in _INFIX:
        return _infix(u, outer, depth)
    if u.is_gated:
        return f"{parts[1]} if {parts[0]}"
    if u.op in (Ops.INDEX, Ops.LOAD):
        return parts[0] if u.op is Ops.LOAD else f"{parts[0]}[{', '.join(parts[1:])}]"
    if u.op in (Ops.PARAM, Ops.BUFFER):
        return f"p{u.arg.slot}" if u.op is Ops.PARAM else f"b{u.arg.number}"
    name = u.op.name.lower()
    if u.op is Ops.CAST:
        name = u.dtype.name
    elif u.op is Ops.REDUCE and u.arg is not None:
        name = {Ops.ADD: "sum", Ops.MAX: "max", Ops.MUL: "prod"}.get(u.arg[0], "reduce")
    return f"{name}({', '.join(parts)})"


def _infix(u: UOp, outer: int, depth: int) -> str:
    sign, level = _INFIX[u.op]
    a, b = u.src
    if u.op is Ops.CMPNE and b.op is Ops.CONST and b.arg is True:
        return f"!({_expr(a, 0, depth - 1)})"
    if u.op is Ops.CMPLT and a.op is Ops.CONST and a.dtype is dtypes.index:
        text = f"{_expr(b, level, depth - 1)} >= {a.arg + 1}"
    elif u.op is Ops.ADD and b.op is Ops.CONST and b.dtype is dtypes.index and b.arg < 0:
        text = f"{_expr(a, level, depth - 1)} - {-b.arg}"
    else:
        text = f"{_expr(a, level, depth - 1)} {sign} {_expr(b, level + 1, depth - 1)}"
        text = text.replace(f" {sign} ", sign) if level == 6 else text
    return f"({text})" if level < outer else text


def arg_text(u: UOp) -> str:
    """The argument of a node, short."""
    arg = u.arg
    if u.op is Ops.CONST:
        return "invalid" if arg is INVALID else const_text(u)
    if u.op is Ops.RANGE:
        return range_name(u)
    if arg is None:
        return ""
    if u.op is Ops.REDUCE:
        return f"{arg[0].name}" + (f" over {arg[1]} leading axes" if arg[1] else "")
    if u.op is Ops.BUFFER:
        return f"b{arg.number} {arg.size} {arg.device}"
    if u.op is Ops.PARAM:
        return (
            f"{arg.name} in {arg.vmin}..{arg.vmax}" if arg.name is not None else f"p{arg.slot} {arg.size} {arg.device}"
        )
    return _arg(arg)


def _arg(arg: Any) -> str:
    if isinstance(arg, UOp):
        return expr(arg)
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(_arg, arg)) + ("," if len(arg) == 1 else "") + ")"
    return str(arg)


def shape_text(u: UOp) -> str:
    shape = u.maybe_shape
    return "-" if shape is None else _arg(shape)


def one_line(u: UOp) -> str:
    """``<dtype expression>`` for index arithmetic and conditions, ``<OP dtype shape arg>`` for other nodes."""
    if u.dtype is dtypes.index or (u.dtype is dtypes.bool and u.op in GroupOp.ALU and u.maybe_shape == ()):
        return f"<{u.dtype.name} {expr(u)}>"
    arg = arg_text(u)
    return f"<{u.op.name} {u.dtype.name} {shape_text(u)}{' ' + arg if arg else ''}>"


def graph_text(root: UOp) -> str:
    """A line per node, sources first: number, op, dtype, shape, argument, sources. Buffers are numbered by first use."""
    order = root.toposort()
    number = {u: i for i, u in enumerate(order)}
    buffers = {u: f"b{i}" for i, u in enumerate(u for u in order if u.op is Ops.BUFFER)}
    width = max(len(u.op.name) for u in order)
    lines = []
    for u in order:
        srcs = "[" + " ".join(str(number[s]) for s in u.src) + "]" if u.src else ""
        arg = f"{buffers[u]} {u.arg.size} {u.arg.device}" if u.op is Ops.BUFFER else arg_text(u)
        fields = [str(number[u]), u.op.name.ljust(width), u.dtype.name, shape_text(u), arg, srcs]
        lines.append(" ".join(f for f in fields if f))
    return "\n".join(lines)
