"""What is built on a node: arithmetic, movement, reductions, memory.

In: a node, as ``self``, and what else the new node is made of. Out: the new node. :class:`Building` is the part of
:class:`~tinysched.ir.uop.UOp` that knows how ops are called and says nothing about what a node is.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import UOp
>>> a, r = UOp.new_buffer("NUMPY", 12, dtypes.float32), UOp.range(12, 0)
>>> (a.index(r * 2 % 12) + 1.0).op, a.reshape((3, 4)).rop(Ops.ADD, (1,)).shape
(Ops.ADD, (3,))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tinysched.dtypes import DType, Scalar, dtypes
from tinysched.ir.ops import GroupOp, Ops

Sint = Any  # an int, or a UOp of dtype index where a Variable is part of a shape
Shape = tuple[Sint, ...]


class Building:
    """Operators and methods that make one node of others."""

    __slots__ = ()

    if TYPE_CHECKING:  # what a node has
        __class__: type[Self]
        dtype: DType

        def __init__(self, op: Ops, dtype: DType, src: tuple[Self, ...] = (), arg: Any = None, tag: Any = None): ...
        @property
        def shape(self) -> Shape: ...
        @property
        def ndim(self) -> int: ...
        def const_like(self, value: Scalar) -> Self: ...

    def alu(self, op: Ops, *others: Self) -> Self:
        """An elementwise operation on operands of one dtype (for WHERE: self is the condition)."""
        if op in GroupOp.Comparison:
            dtype = dtypes.bool
        else:
            dtype = others[-1].dtype if op is Ops.WHERE else self.dtype
        return self.__class__(op, dtype, (self, *others))

    def _binary(self, op: Ops, other: Self | Scalar, swap: bool = False) -> Self:
        y = other if isinstance(other, Building) else self.const_like(other)
        return y.alu(op, self) if swap else self.alu(op, y)

    def __add__(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.ADD, other)

    def __radd__(self, other: Scalar) -> Self:
        return self._binary(Ops.ADD, other, swap=True)

    def __sub__(self, other: Self | Scalar) -> Self:
        if self.dtype is dtypes.index:
            return self + (-other)
        return self._binary(Ops.SUB, other)

    def __rsub__(self, other: Scalar) -> Self:
        return (-self) + other if self.dtype is dtypes.index else self._binary(Ops.SUB, other, swap=True)

    def __mul__(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.MUL, other)

    def __rmul__(self, other: Scalar) -> Self:
        return self._binary(Ops.MUL, other, swap=True)

    def __neg__(self) -> Self:
        return self * -1 if self.dtype is dtypes.index else self.alu(Ops.NEG)

    def __floordiv__(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.FLOORDIV, other)

    def __mod__(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.FLOORMOD, other)

    def __and__(self, other: Self) -> Self:
        return self._binary(Ops.AND, other)

    def __or__(self, other: Self) -> Self:
        return self._binary(Ops.OR, other)

    def __lt__(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.CMPLT, other)

    def __gt__(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.CMPLT, other, swap=True)

    def __ge__(self, other: Self | Scalar) -> Self:
        return (self < other).logical_not()

    def __le__(self, other: Self | Scalar) -> Self:
        return (self > other).logical_not()

    def eq(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.CMPEQ, other)

    def ne(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.CMPNE, other)

    def logical_not(self) -> Self:
        return self._binary(Ops.CMPNE, True)

    def where(self, x: Self, y: Self | Scalar) -> Self:
        return self.alu(Ops.WHERE, x, y if isinstance(y, Building) else x.const_like(y))

    def maximum(self, other: Self | Scalar) -> Self:
        return self._binary(Ops.MAX, other)

    def minimum(self, other: Self | Scalar) -> Self:
        y = other if isinstance(other, Building) else self.const_like(other)
        return (self < y).where(self, y)

    def cast(self, dtype: DType) -> Self:
        return self if self.dtype is dtype else self.__class__(Ops.CAST, dtype, (self,))

    def bitcast(self, dtype: DType) -> Self:
        return self if self.dtype is dtype else self.__class__(Ops.BITCAST, dtype, (self,))

    # ** movement, reduction, memory (shapes are checked in the tensor layer) **

    def _move(self, op: Ops, arg: Any) -> Self:
        return self.__class__(op, self.dtype, (self,), arg)

    def reshape(self, shape: Shape) -> Self:
        return self if shape == self.shape else self._move(Ops.RESHAPE, shape)

    def permute(self, order: tuple[int, ...]) -> Self:
        return self if order == tuple(range(len(order))) else self._move(Ops.PERMUTE, order)

    def expand_leading(self, sizes: Shape) -> Self:
        """New leading axes of ``sizes``, along which the value repeats."""
        return self._move(Ops.EXPAND, sizes) if sizes else self

    def pad(self, widths: tuple[tuple[Sint, Sint], ...]) -> Self:
        """``(before, after)`` zeros on each axis."""
        return self if all(w == (0, 0) for w in widths) else self._move(Ops.PAD, widths)

    def shrink(self, bounds: tuple[tuple[Sint, Sint], ...]) -> Self:
        """Elements ``start`` to ``end`` (exclusive) of each axis."""
        full = all(a == 0 and b == s for (a, b), s in zip(bounds, self.shape, strict=True))
        return self if full else self._move(Ops.SHRINK, bounds)

    def flip(self, axes: tuple[bool, ...]) -> Self:
        """Reverses each axis whose entry is True."""
        return self._move(Ops.FLIP, axes) if any(axes) else self

    def rop(self, op: Ops, axes: tuple[int, ...]) -> Self:
        """Reduces over ``axes``, which are moved to the front first; the result has the other axes in order."""
        if not axes:
            return self
        order = tuple(sorted(axes)) + tuple(i for i in range(self.ndim) if i not in axes)
        return self.__class__(Ops.REDUCE, self.dtype, (self.permute(order),), (op, len(axes)))

    def reduce(self, op: Ops, *ranges: Self) -> Self:
        """Reduces over loop variables (after rangeify)."""
        return self.__class__(Ops.REDUCE, self.dtype, (self, *ranges), (op, 0)) if ranges else self

    def contiguous(self, arg: Any = None) -> Self:
        return self.__class__(Ops.CONTIGUOUS, self.dtype, (self,), arg)

    def index(self, *idxs: Self) -> Self:
        return self.__class__(Ops.INDEX, self.dtype, (self, *idxs))

    def store(self, value: Self) -> Self:
        return self.__class__(Ops.STORE, dtypes.void, (self, value))

    def after(self, *done: Self) -> Self:
        return self.__class__(Ops.AFTER, self.dtype, (self, *done)) if done else self

    def end(self, *ranges: Self) -> Self:
        return self.__class__(Ops.END, dtypes.void, (self, *ranges)) if ranges else self

    def call(self, *args: Self, arg: Any = None) -> Self:
        return self.__class__(Ops.CALL, dtypes.void, (self, *args), arg)
