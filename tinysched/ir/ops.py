"""The operations of the graphs, in groups. The names are upstream's.

In: nothing. Out: :class:`Ops` (what a node does), :class:`GroupOp` (sets of them), :class:`AxisType` (what a loop is for).

>>> Ops.ADD in GroupOp.Commutative, Ops.RESHAPE in GroupOp.Movement
(True, True)
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Final


class Ops(IntEnum):
    """What a node does. An IntEnum because its hash and equality are those of int, which keeps interning cheap."""

    # memory and arguments
    BUFFER = auto()  # memory; arg BufferArg
    PARAM = auto()  # an argument of a CALL, or a Variable; arg ParamArg
    CONST = auto()  # arg is the Python scalar
    BIND = auto()  # src (Variable, CONST): a Variable with its value

    # elementwise, one source
    CAST = auto()
    BITCAST = auto()
    EXP2 = auto()
    LOG2 = auto()
    SIN = auto()
    SQRT = auto()
    RECIPROCAL = auto()
    NEG = auto()
    TRUNC = auto()

    # elementwise, two sources (shapes broadcast)
    ADD = auto()
    SUB = auto()
    MUL = auto()
    FDIV = auto()
    MAX = auto()
    POW = auto()
    FLOORDIV = auto()
    FLOORMOD = auto()
    CDIV = auto()
    CMOD = auto()
    CMPLT = auto()
    CMPNE = auto()
    CMPEQ = auto()
    XOR = auto()
    OR = auto()
    AND = auto()
    SHL = auto()
    SHR = auto()
    THREEFRY = auto()

    # elementwise, three sources
    WHERE = auto()

    # movement: only the index changes; arg is the new shape, order, ... (see UOp's methods)
    RESHAPE = auto()
    PERMUTE = auto()
    EXPAND = auto()
    PAD = auto()
    SHRINK = auto()
    FLIP = auto()

    REDUCE = auto()  # arg (op, n): the n leading axes; after rangeify arg (op, 0), src (value, ranges...)
    STACK = auto()  # sources of equal shape along a new leading axis

    # hints and boundaries
    CONTIGUOUS = auto()
    CONTIGUOUS_BACKWARD = auto()
    DETACH = auto()
    COPY = auto()  # arg is the device

    # memory states
    STORE = auto()  # src (target, value)
    AFTER = auto()  # src (state, what was done to it...): the state that follows
    END = auto()  # src (store, ranges...): closes the loops

    # many devices
    UNSHARD = auto()  # arg is the axis
    MSTACK = auto()
    MSELECT = auto()  # arg is the position
    ALLREDUCE = auto()  # arg (op, devices)

    # functions
    CALL = auto()  # src (body, args...)
    FUNCTION = auto()
    TUPLE = auto()
    GETTUPLE = auto()  # arg is the position
    LINEAR = auto()  # src are CALLs in order

    # after rangeify
    RANGE = auto()  # src (end,), arg (number, AxisType)
    INDEX = auto()  # src (memory or STAGE, indices...)
    LOAD = auto()  # src (INDEX,): the value read
    STAGE = auto()  # src (value, ranges...): a candidate buffer; arg BufferizeOpts
    SINK = auto()  # joins roots; a kernel's SINK has arg KernelInfo
    NOOP = auto()

    def __repr__(self) -> str:
        return f"Ops.{self.name}"

    __str__ = __repr__


class AxisType(Enum):
    """What a RANGE loops over. Upstream's WEAK and GLOBAL axes are LOOP here: nothing is parallel on the host."""

    LOOP = "L"
    REDUCE = "R"
    DEVICE = "D"

    __hash__ = object.__hash__  # members are compared by identity, and Enum's own hash is a call of Python

    def __repr__(self) -> str:
        return f"AxisType.{self.name}"


class GroupOp:
    """Sets of operations that rules and passes treat alike."""

    Unary: Final = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIPROCAL, Ops.NEG, Ops.TRUNC})
    Comparison: Final = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})
    Binary: Final = Comparison | {
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.POW, Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD,
        Ops.XOR, Ops.OR, Ops.AND, Ops.SHL, Ops.SHR, Ops.THREEFRY,
    }  # fmt: skip
    Ternary: Final = frozenset({Ops.WHERE})
    ALU: Final = Unary | Binary | Ternary
    Broadcastable: Final = Binary | Ternary
    Elementwise: Final = ALU | {Ops.CAST, Ops.BITCAST}
    Movement: Final = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.PAD, Ops.SHRINK, Ops.FLIP})
    Commutative: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.XOR, Ops.AND, Ops.OR})
    Associative: Final = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.MAX})
    Idempotent: Final = frozenset({Ops.OR, Ops.AND, Ops.MAX})
    Reduce: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX})
    Passthrough: Final = frozenset({Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH})
    All: Final = frozenset(Ops)
