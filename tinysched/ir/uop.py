"""The one node type of every graph: an immutable, hash-consed UOp.

In: an operation, a dtype, sources, an argument, a tag. Out: *the* node with these five (equal nodes are one object, so
compare with ``is``). Shape, device, open ranges, bounds and a content key are derived when first asked for.

>>> a = UOp.const(2, dtypes.int32)
>>> (a + a) is (a + a), (a + a).op
(True, Ops.ADD)
>>> UOp.const(0.0, dtypes.float32) is UOp.const(-0.0, dtypes.float32)
False
"""

from __future__ import annotations

import itertools
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace as _replace
from typing import Any, Final
from weakref import _remove_dead_weakref  # type: ignore[attr-defined]  # what weakref.WeakValueDictionary removes with

from tinysched.dtypes import DType, Scalar, as_scalar, dtypes
from tinysched.errors import ArgumentError
from tinysched.ir import derive
from tinysched.ir.arguments import INVALID, BufferArg, Invalid, ParamArg
from tinysched.ir.building import Building, Shape, Sint
from tinysched.ir.ops import AxisType, GroupOp, Ops


class _Ref(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that remembers its key in the intern table."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_TABLE: dict[tuple[Any, ...], _Ref] = {}


def _forget(ref: _Ref, table: dict[tuple[Any, ...], _Ref] = _TABLE, remove: Any = _remove_dead_weakref) -> None:
    # A new equal node may already stand under the key (test_ir.py::test_intern_after_death): looking and removing must be
    # one step, also for other threads. The arguments: globals may be gone when the process ends.
    remove(table, ref.key)


class UOp(Building):
    """An immutable node. Never compare with ``==`` on contents: equal nodes are identical."""

    __slots__ = (
        "__weakref__",
        "_affine",
        "_bounds",
        "_device",
        "_key",
        "_lines",
        "_memory",
        "_plan",
        "_ranges",
        "_root",
        "_settled",
        "_shape",
        "arg",
        "dtype",
        "op",
        "src",
        "tag",
    )  # fmt: skip

    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    tag: Any
    # what is derived is set when it is first asked for (derive.fill)
    _affine: Any
    _bounds: tuple[Any, Any]
    _device: Any
    _key: bytes
    _lines: tuple[Any, ...]
    _memory: Any
    _ranges: frozenset[UOp]
    _root: UOp
    _plan: Any
    _settled: bool
    _shape: Any

    def __new__(cls, op: Ops, dtype: DType, src: tuple[UOp, ...] = (), arg: Any = None, tag: Any = None) -> UOp:
        # floats are told apart by their bits: 0.0 is not -0.0, and NaN is itself
        bits = struct.pack("d", arg) if arg.__class__ is float else arg
        key = (op, dtype, src, bits, tag)
        ref = _TABLE.get(key)
        if ref is not None:
            node = ref()
            if node is not None:
                return node  # type: ignore[no-any-return]
        node = object.__new__(cls)
        node.op, node.dtype, node.src, node.arg, node.tag = op, dtype, src, arg, tag
        node._settled = False
        new = _Ref(node, _forget)
        new.key = key
        # two threads that miss at once must still agree on one node: setdefault is atomic
        while (ref := _TABLE.setdefault(key, new)) is not new:
            if (other := ref()) is not None:
                return other  # type: ignore[no-any-return]
            _forget(ref)
        return node

    def __reduce__(self) -> tuple[Any, ...]:
        # a flat list: nested nodes would be pickled by recursion
        order = self.toposort()
        number = {u: i for i, u in enumerate(order)}
        return (_from_list, ([(u.op, u.dtype, [number[s] for s in u.src], u.arg, u.tag) for u in order],))

    def __repr__(self) -> str:
        from tinysched.ir.text import one_line

        return one_line(self)

    def __bool__(self) -> bool:
        raise TypeError("a UOp has no truth value: join conditions with & and |, compare nodes with `is`")

    # ** derived, cached **

    @property
    def shape(self) -> Shape:
        """Axis sizes; raises :class:`SpecError` for nodes without a shape (SINK, CALL, ...)."""
        try:
            shape = self._shape
        except AttributeError:
            shape = derive.fill(self, "_shape", derive.shape)
        if shape is None:
            derive.no_shape(self)
        return shape  # type: ignore[no-any-return]

    @property
    def maybe_shape(self) -> Shape | None:
        """Axis sizes, or None for nodes without a shape."""
        try:
            return self._shape  # type: ignore[no-any-return]
        except AttributeError:
            return derive.fill(self, "_shape", derive.shape)  # type: ignore[no-any-return]

    @property
    def device(self) -> Any:
        """The device name (or names) of the memory below, or None for values of constants alone."""
        try:
            return self._device
        except AttributeError:
            return derive.fill_where_asked(self, "_device", derive.device)

    @property
    def ranges(self) -> frozenset[UOp]:
        """The RANGEs that are open here: used below and not closed by a REDUCE, END or STAGE."""
        try:
            return self._ranges
        except AttributeError:
            return derive.fill(self, "_ranges", derive.ranges)  # type: ignore[no-any-return]

    @property
    def bounds(self) -> tuple[Any, Any]:
        """Smallest and largest value this node can have (exact for index arithmetic, the dtype's limits elsewhere)."""
        try:
            return self._bounds
        except AttributeError:
            return derive.fill(self, "_bounds", derive.bounds)  # type: ignore[no-any-return]

    @property
    def vmin(self) -> Any:
        return self.bounds[0]

    @property
    def vmax(self) -> Any:
        return self.bounds[1]

    @property
    def key(self) -> bytes:
        """A content hash that is the same in every process (16 bytes)."""
        try:
            return self._key
        except AttributeError:
            return derive.fill(self, "_key", derive.key)  # type: ignore[no-any-return]

    @property
    def base(self) -> UOp:
        """The node below all movement ops."""
        u = self
        while u.op in GroupOp.Movement:
            u = u.src[0]
        return u

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Sint:
        """Number of elements (of the largest shape, where a Variable is part of it)."""
        return self.arg.size if self.op is Ops.BUFFER else derive.prod(derive.max_shape(self.shape))

    def nbytes(self) -> int:
        return int(self.size) * self.dtype.itemsize

    # ** walking **

    def toposort(self, gate: Callable[[UOp], bool] | None = None) -> list[UOp]:
        """All nodes below and this one, sources first. Nodes that ``gate`` refuses are listed, but not entered."""
        order: dict[UOp, None] = {}
        stack: list[tuple[UOp, Iterator[UOp]]] = []
        u, below = self, iter(self.src if gate is None or gate(self) else ())
        while True:
            for s in below:
                if s in order:
                    continue
                if s.src and (gate is None or gate(s)):
                    stack.append((u, below))
                    u, below = s, iter(s.src)
                    break
                order[s] = None
            else:
                order[u] = None
                if not stack:
                    return list(order)
                u, below = stack.pop()

    def variables(self) -> list[UOp]:
        """The Variables below, in shapes too, sorted by name."""
        found = {v for u in self.toposort() for v in (u, *derive.arg_uops(u.arg)) if v.is_variable}
        return sorted(found, key=lambda v: str(v.arg.name))

    # ** what kind of node **

    @property
    def is_variable(self) -> bool:
        return self.op is Ops.PARAM and self.arg.name is not None

    @property
    def buffer(self) -> Any:
        """The memory of a BUFFER node (a runtime Buffer), a tuple for one per device, or None while it has none."""
        base = self.base
        if base.op is Ops.UNSHARD or base.op is Ops.MSTACK:
            parts = tuple([p.buffer for p in (base.src[0] if base.op is Ops.UNSHARD else base).src])
            return None if None in parts else parts
        return getattr(base, "_memory", None)

    @property
    def realized(self) -> Any:
        """The memory of the BUFFER below the movement ops once it is allocated, else None."""
        memory = getattr(self, "_memory", None) if self.op is Ops.BUFFER else self.buffer
        if memory.__class__ is tuple:
            return memory if all(m.is_allocated for m in memory) else None
        return memory if memory is not None and memory.is_allocated else None

    def attach(self, memory: Any) -> UOp:
        """Gives a BUFFER node its memory. The memory lives as long as the node."""
        assert self.op is Ops.BUFFER
        self._memory = memory
        return self

    # ** building **

    def replace(self, **changes: Any) -> UOp:
        """A node that differs in the given fields (op, dtype, src, arg, tag)."""
        fields = {"op": self.op, "dtype": self.dtype, "src": self.src, "arg": self.arg, "tag": self.tag, **changes}
        return UOp(**fields)

    def over(self, src: tuple[UOp, ...]) -> UOp:
        """This node over other sources; itself over its own."""
        if src == self.src:
            return self
        new = UOp(self.op, self.dtype, src, self.arg, self.tag)
        derive.inherit(new, self)
        return new

    def rtag(self, tag: Any = None) -> UOp:
        return UOp(self.op, self.dtype, self.src, self.arg, tag)

    @staticmethod
    def const(value: Scalar | Invalid, dtype: DType = dtypes.index) -> UOp:
        """A constant without a shape; ``value`` is wrapped or rounded to ``dtype``."""
        if value.__class__ is int and dtype is dtypes.index:
            return UOp(Ops.CONST, dtype, (), value)
        arg = value if isinstance(value, Invalid) else as_scalar(value, dtype)
        return UOp(Ops.CONST, dtype, (), arg)

    def const_like(self, value: Scalar) -> UOp:
        """A constant of this node's dtype (shape: none, it broadcasts)."""
        return UOp.const(value, self.dtype)

    @staticmethod
    def new_buffer(device: str | tuple[str, ...], size: int, dtype: DType) -> UOp:
        """A BUFFER that no other node is equal to. Memory is allocated when a run first needs it."""
        return UOp(Ops.BUFFER, dtype, (), BufferArg(next(_numbers), size, device))

    @staticmethod
    def range(end: Sint, number: int, kind: AxisType = AxisType.LOOP) -> UOp:
        """A loop variable from 0 to ``end`` (exclusive)."""
        return UOp(Ops.RANGE, dtypes.index, (as_uop(end),), (number, kind))

    @staticmethod
    def variable(name: str, vmin: int, vmax: int) -> UOp:
        """A whole number that is known only at run time, between ``vmin`` and ``vmax`` (inclusive).

        Raises :class:`ArgumentError` where no number lies between them.
        """
        if vmin > vmax:
            raise ArgumentError(f"the Variable {name!r} lies between {vmin} and {vmax}", help="vmin <= vmax")
        return UOp(Ops.PARAM, dtypes.index, (), ParamArg(-1, name=name, vmin=vmin, vmax=vmax))

    def bind(self, value: int) -> UOp:
        """This Variable with a value. Raises :class:`ArgumentError` outside of its bounds, or for other nodes."""
        if not self.is_variable:
            raise ArgumentError(f"{self!r} is no Variable", help='Variable("n", 1, 10).bind(3)')
        if not self.arg.vmin <= value <= self.arg.vmax:
            raise ArgumentError(
                f"{self.arg.name} cannot be {value}", help=f"it lies between {self.arg.vmin} and {self.arg.vmax}"
            )
        return UOp(Ops.BIND, dtypes.index, (self, UOp.const(int(value))))

    def unbind(self) -> tuple[UOp, int]:
        """The Variable and the value of a bound one."""
        assert self.op is Ops.BIND
        return self.src[0], int(self.src[1].arg)

    @staticmethod
    def sink(*roots: UOp, arg: Any = None) -> UOp:
        return UOp(Ops.SINK, dtypes.void, roots, arg)

    # ** validity of an index **

    def valid(self, condition: UOp) -> UOp:
        """This index where ``condition`` holds, and nowhere (INVALID) elsewhere."""
        if condition.op is Ops.CONST and condition.arg is True:
            return self
        return condition.alu(Ops.WHERE, self, UOp.const(INVALID))

    @property
    def is_gated(self) -> bool:
        return self.op is Ops.WHERE and self.src[2].op is Ops.CONST and self.src[2].arg is INVALID

    def get_idx(self) -> UOp:
        return self.src[1] if self.is_gated else self

    def get_valid(self) -> UOp:
        return self.src[0] if self.is_gated else TRUE

    def substitute(self, mapping: dict[UOp, UOp]) -> UOp:
        """This graph with the mapped nodes replaced (replacements are not entered)."""
        from tinysched.ir.rewrite import substitute

        return substitute(self, mapping)


def _from_list(nodes: list[tuple[Ops, DType, list[int], Any, Any]]) -> UOp:
    """The last of some nodes, whose sources are given by position."""
    made: list[UOp] = []
    for op, dtype, src, arg, tag in nodes:
        made.append(UOp(op, dtype, tuple([made[i] for i in src]), arg, tag))
    return made[-1]


_numbers: Iterator[int] = itertools.count()
TRUE: Final = UOp.const(True, dtypes.bool)
FALSE: Final = UOp.const(False, dtypes.bool)


def as_uop(value: Sint) -> UOp:
    """An index node from an int or a node."""
    return value if isinstance(value, UOp) else UOp.const(value)


def all_of(conditions: Iterable[UOp]) -> UOp:
    """The AND of the distinct conditions; True if there is none."""
    result = TRUE
    for c in dict.fromkeys(conditions):
        if c is TRUE:
            continue
        result = c if result is TRUE else result & c
    return result


def with_arg(u: UOp, **changes: Any) -> UOp:
    """``u`` with some fields of its dataclass argument changed."""
    return u.replace(arg=_replace(u.arg, **changes))


def interned_count() -> int:
    """How many nodes are alive in this process."""
    return len(_TABLE)


__all__ = [
    "FALSE", "INVALID", "TRUE", "BufferArg", "ParamArg", "Shape", "Sint", "UOp", "all_of", "as_uop", "interned_count",
    "with_arg",
]  # fmt: skip
