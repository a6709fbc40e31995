"""Values and operations as CUDA C: types, constants and expressions.

In: nodes, and the texts of their sources. Out: :class:`Text` with C's precedence. 16-bit floats are ``float`` in
registers and are rounded where they are stored or cast to.

>>> from tinysched.dtypes import dtypes
>>> x, y = Text("a + b", SUM), Text("c", ATOM)
>>> operation(Ops.MUL, dtypes.float32, [x, y]).code, operation(Ops.SQRT, dtypes.float64, [x]).code
('(a + b) * c', 'sqrt(a + b)')
>>> constant(0.1, dtypes.float32).code, constant(-128, dtypes.int8).code, constant(float("-inf"), dtypes.half).code
('0.1f', '-128', '-INF')
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tinysched.dtypes import DType, dtypes
from tinysched.errors import DTypeError
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.loops import Text

CHOICE, OR, AND, BITOR, BITXOR, BITAND, EQUAL, COMPARE, SHIFT, SUM, TERM, SIGN, ATOM = range(13)

_MEMORY: Final = {
    dtypes.bool: "bool", dtypes.int8: "signed char", dtypes.uint8: "unsigned char", dtypes.int16: "short",
    dtypes.uint16: "unsigned short", dtypes.int32: "int", dtypes.weakint: "int", dtypes.uint32: "unsigned",
    dtypes.int64: "long long", dtypes.uint64: "unsigned long long", dtypes.float16: "half",
    dtypes.bfloat16: "bfloat16", dtypes.float32: "float", dtypes.weakfloat: "float", dtypes.float64: "double",
}  # fmt: skip
SHORT_FLOATS: Final = (dtypes.float16, dtypes.bfloat16)


def memory_type(dtype: DType) -> str:
    """The type of an element in memory. Raises :class:`DTypeError` where CUDA C has none."""
    if dtype not in _MEMORY:
        raise DTypeError(f"kernels on a GPU cannot compute with {dtype.name}", help="cast to float16 or bfloat16")
    return _MEMORY[dtype]


def register_type(dtype: DType, wide: bool = False) -> str:
    """The type of a value that is computed with; ``wide`` are indices of 64 bits."""
    if dtype is dtypes.index:
        return "long long" if wide else "int"
    return "float" if dtype in SHORT_FLOATS else memory_type(dtype)


def constant(value: Any, dtype: DType) -> Text:
    if dtype.kind == "b":
        return Text("true" if value else "false", ATOM)
    if dtype.kind != "f":
        return _integer(int(value), dtype)
    if math.isnan(value):
        return Text("QNAN", ATOM)
    single = dtype is not dtypes.float64
    rounded = dtype.np.type(value) if dtype.np_name else np.float32(value)
    if math.isinf(rounded):
        return Text("-INF" if value < 0 else "INF", SIGN if value < 0 else ATOM)
    code = f"{rounded!s}{'f' if single else ''}"
    return Text(code, SIGN if code[0] == "-" else ATOM)


def _integer(value: int, dtype: DType) -> Text:
    if dtype in (dtypes.int32, dtypes.int64) and value == dtype.min:  # C has no negative constants
        return Text(f"({value + 1}{'ll' if dtype is dtypes.int64 else ''} - 1)", ATOM)
    far = dtype is dtypes.index and not -(1 << 31) < value < 1 << 31
    suffix = {dtypes.uint32: "u", dtypes.uint64: "ull", dtypes.int64: "ll"}.get(dtype, "ll" if far else "")
    return Text(f"{value}{suffix}", SIGN if value < 0 else ATOM)


# ** operations **

_INFIX: Final = {
    Ops.ADD: ("+", SUM), Ops.SUB: ("-", SUM), Ops.MUL: ("*", TERM), Ops.FDIV: ("/", TERM), Ops.CMPLT: ("<", COMPARE),
    Ops.CMPNE: ("!=", EQUAL), Ops.CMPEQ: ("==", EQUAL), Ops.AND: ("&", BITAND), Ops.OR: ("|", BITOR),
    Ops.XOR: ("^", BITXOR),
}  # fmt: skip
_INFIX_BOOL: Final = {
    Ops.AND: ("&&", AND), Ops.MUL: ("&&", AND), Ops.OR: ("||", OR), Ops.ADD: ("||", OR), Ops.MAX: ("||", OR),
    Ops.SUB: ("!=", EQUAL), Ops.XOR: ("!=", EQUAL),
}  # fmt: skip
_CALLS: Final = {
    Ops.MAX: "maximum", Ops.POW: "power", Ops.CDIV: "cdiv", Ops.CMOD: "cmod", Ops.FLOORDIV: "floordiv",
    Ops.FLOORMOD: "floormod", Ops.THREEFRY: "threefry", Ops.SHL: "shl", Ops.SHR: "shr",
}  # fmt: skip
_MATHS: Final = {
    Ops.EXP2: "exp2", Ops.LOG2: "log2", Ops.SIN: "sin", Ops.SQRT: "sqrt", Ops.TRUNC: "trunc", Ops.POW: "pow",
    Ops.CMOD: "fmod",
}  # fmt: skip
_GROWS: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.MAX, Ops.CDIV, Ops.CMOD})


def operation(op: Ops, dtype: DType, x: list[Text]) -> Text:
    """An ALU operation on operands of ``dtype`` (for WHERE: that of the branches)."""
    found = _operation(op, dtype, x)
    if dtype.kind in "iu" and dtype.itemsize < 4 and op in _GROWS:  # C computes with ints: wrap around
        return Text(f"({memory_type(dtype)}){found.at(ATOM)}", SIGN)
    return found


def _operation(op: Ops, dtype: DType, x: list[Text]) -> Text:
    if op is Ops.WHERE:
        return Text(f"{x[0].at(OR)} ? {x[1].at(CHOICE + 1)} : {x[2].at(CHOICE)}", CHOICE)
    if op is Ops.NEG or (op is Ops.CMPNE and x[1].code == "true"):
        sign = "!" if dtype is dtypes.bool else "-"
        return Text(f"{sign}{x[0].at(ATOM)}", SIGN)
    if dtype is dtypes.bool and op in _INFIX_BOOL:
        return _infix(*_INFIX_BOOL[op], *x)
    if op in _INFIX:
        return _infix(*_INFIX[op], *x)
    if op is Ops.TRUNC and dtype.kind != "f":
        return x[0]
    one = "1.0" if dtype is dtypes.float64 else "1.0f"
    if op is Ops.RECIPROCAL:
        return Text(f"{one} / {x[0].at(TERM + 1)}", TERM)
    if dtype.kind == "f" and op in (Ops.FLOORDIV, Ops.CDIV, Ops.FLOORMOD):
        raise DTypeError(f"{op.name} of floats is no operation of kernels on a GPU", help="use / and floor")
    args = ", ".join(t.code for t in x)
    if dtype.kind == "f" and op in _MATHS:
        return Text(f"{_MATHS[op]}{'' if dtype is dtypes.float64 else 'f'}({args})", ATOM)
    # helpers are templates: where two operands could have two C types, the type is named
    named = f"<{register_type(dtype)}>" if dtype is not dtypes.index and op is not Ops.THREEFRY else ""
    return Text(f"{_CALLS[op]}{named}({args})", ATOM)


def _infix(sign: str, level: int, x: Text, y: Text) -> Text:
    """Operators group to the left; a comparison of comparisons gets its parentheses."""
    mixed = level <= COMPARE and level not in (AND, OR)
    left, right = x.at(SHIFT if mixed else level), y.at(SHIFT if mixed else level + 1)
    if sign == "+" and y.code[0] == "-" and y.level >= SIGN:
        return Text(f"{left} - {y.code[1:]}", level)
    return Text(f"{left} {sign} {right}", level)


def divided(op: Ops, x: list[Text], plain: bool, wide: bool) -> Text:
    """``//`` or ``%`` of an index; ``plain`` where neither can be negative, so that C's own operators do."""
    if plain:
        return _infix("/" if op is Ops.FLOORDIV else "%", TERM, *x)
    kind = register_type(dtypes.index, wide)
    return Text(f"{_CALLS[op]}<{kind}>({x[0].code}, {x[1].code})", ATOM)


def cast(u: UOp, x: Text, wide: bool) -> Text:
    target, source = u.dtype, u.src[0].dtype
    if target is dtypes.bool:
        return x if source is dtypes.bool else Text(f"{x.at(SHIFT)} != 0", EQUAL)
    if target in SHORT_FLOATS:
        return Text(f"(float){memory_type(target)}({x.code})", SIGN)
    if source is not dtypes.index and register_type(source) == register_type(target, wide):
        return x
    return Text(f"({register_type(target, wide)}){x.at(ATOM)}", SIGN)


def bitcast(u: UOp, x: Text) -> Text:
    target, source = u.dtype, u.src[0].dtype
    inner = f"{memory_type(source)}({x.code})" if source in SHORT_FLOATS else x.code
    found = f"bits_as<{memory_type(target)}, {memory_type(source)}>({inner})"
    return Text(f"(float){found}", SIGN) if target in SHORT_FLOATS else Text(found, ATOM)
