"""Tensor: what the user holds. A Storage (its value) and the movement ops through which it is seen.

In: numbers, arrays, UOps. Out: lazy Tensors; nothing is computed until ``realize``, ``numpy``, ``item`` or ``tolist``.
All operations but the few below are free functions of this package, bound to the class by a table (methods.py).

The model of writes is NumPy's: an expression is a snapshot of the values when it was written, a view follows its
Tensor.

>>> from tinysched import Tensor
>>> x = Tensor([1.0, 2.0, 3.0])
>>> y, v = x + 1, x[1:]
>>> _ = x.assign(x * 10)
>>> y.tolist(), v.tolist()
([2.0, 3.0, 4.0], [20.0, 30.0])
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tinysched.dtypes import DType, DTypeLike, dtypes, strong_dtype, to_dtype
from tinysched.errors import ArgumentError, DTypeError, LostValue, ShapeError
from tinysched.ir.derive import prod
from tinysched.ir.lines import mark, where
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import replicate
from tinysched.ir.uop import Shape, UOp
from tinysched.tensor.hooks import engine
from tinysched.tensor.storage import NOTED, Step, Storage, apply_step, apply_steps, shows_at_constant_strides

if TYPE_CHECKING:
    from tinysched.tensor.methods import TensorMethods
else:
    TensorMethods = object

TensorLike = Any
"""A Tensor, a Python scalar, a (nested) list of them, or a NumPy array."""


class Tensor(TensorMethods):
    """An n-dimensional array that is computed when it is asked for.

    ``data``: a number, a (nested) list, a NumPy array (copied), a UOp, or None (0.0). ``device``: a name such as
    ``"NUMPY"``; a tuple of names: a whole copy on each. ``dtype``: what the elements become.
    """

    __array_ufunc__ = None  # array + Tensor is Tensor's to compute
    __slots__ = ("__weakref__", "_storage", "_uop", "_version", "grad", "is_param", "name", "requires_grad", "steps")

    def __init__(
        self,
        data: Any = None,
        device: str | Sequence[str] | None = None,
        dtype: DTypeLike | None = None,
        *,
        name: str | None = None,
        requires_grad: bool | None = None,
    ):
        wanted = None if dtype is None else to_dtype(dtype)
        self._set_storage(Storage(mark(_value_of(data, device, wanted))), ())
        self.grad: Tensor | None = None
        self.requires_grad, self.name, self.is_param = requires_grad, name, True

    # ** making Tensors **

    @staticmethod
    def from_uop(uop: UOp) -> Tensor:
        """A Tensor with its own Storage for the value ``uop``."""
        t = object.__new__(Tensor)
        t._set_storage(Storage(mark(uop)), ())
        t.grad = t.requires_grad = t.name = None
        t.is_param = True
        return t

    def moved(self, op: Ops, arg: Any) -> Tensor:
        """This Tensor seen through one more movement op. It shares the Storage until a write shows it cannot."""
        return self.seen_through([(op, arg)])

    def seen_through(self, steps: Sequence[Step]) -> Tensor:
        """This Tensor seen through more movement ops (itself for none).

        Views of a view look at the same Storage; what is no view (a ``repeat``) first gets one of its own to look at.
        """
        if not steps:
            return self
        if not self.is_view:
            self.own_storage()
        t = object.__new__(Tensor)
        t._storage, t.steps = self._storage, (*self.steps, *steps)
        u = self.uop
        for op, arg in steps:
            u = mark(apply_step(u, op, arg))
        t._uop, t._version = u, self._version
        t.grad = t.requires_grad = t.name = None
        t.is_param = True
        self._storage.watch(t)
        return t

    def _set_storage(self, storage: Storage, steps: tuple[Step, ...]) -> None:
        self._storage, self.steps = storage, steps
        if not steps:
            storage.owner = weakref.ref(self)
        self._uop, self._version = apply_steps(storage.uop, steps), storage.version

    # ** what it is **

    @property
    def storage(self) -> Storage:
        """The Storage that holds the value (shared by views)."""
        return self._storage

    @property
    def uop(self) -> UOp:
        """The current value as a graph."""
        if self._version != self._storage.version:
            self._uop, self._version = apply_steps(self._storage.uop, self.steps), self._storage.version
        return self._uop

    @property
    def shape(self) -> Shape:
        return self._uop.shape

    @property
    def dtype(self) -> DType:
        return self._uop.dtype

    @property
    def device(self) -> Any:
        """The device name, or a tuple of names for sharded Tensors."""
        device = self.uop.device
        return engine().canonical_device(None) if device is None else device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> Any:
        """Number of elements."""
        return prod(self.shape)

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        return int(self.uop.size) * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("a 0-d Tensor has no length")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        raise ArgumentError("the truth value of a lazy Tensor is not known", help="use .item() or .numpy()")

    def __float__(self) -> float:
        """The one element, as :meth:`item` computes it."""
        return float(self.item())

    def __int__(self) -> int:
        """The one element cut towards 0, as :meth:`item` computes it."""
        return int(self.item())

    def __repr__(self) -> str:
        """Says what it is; computes nothing (asking is free)."""
        state = "realized" if self.uop.realized is not None else "lazy"
        name = f"{self.name} " if self.name else ""
        return f"<Tensor {name}{self.shape} {self.dtype.name} on {self.device}, {state}>"

    def __hash__(self) -> int:
        return id(self)

    # ** views and writes **

    @property
    def is_view(self) -> bool:
        """Whether this shows elements of its Storage at constant strides (so it follows writes, as in NumPy)."""
        return not self.steps or shows_at_constant_strides(self._storage.uop.shape, self.steps)

    @property
    def is_broadcast(self) -> bool:
        """Whether one element of the Storage is shown several times."""
        return any(op is Ops.EXPAND for op, _ in self.steps)

    def before_write(self) -> None:
        """Called before the Storage changes: a Tensor that is no view keeps the value it has (a Storage of its own)."""
        if not self.is_view:
            self.own_storage()

    def own_storage(self) -> None:
        """Gives this Tensor a Storage of its own with its current value."""
        self._set_storage(Storage(self.uop), ())

    def assign(self, value: TensorLike) -> Tensor:
        """Writes ``value`` (broadcast to this shape, of this dtype) into this Tensor, and returns it.

        Raises :class:`ShapeError` or :class:`DTypeError`, with nothing changed. Source: upstream's ``Tensor.assign``.
        """
        from tinysched.tensor.movement import broadcast_to

        v = value if isinstance(value, Tensor) else Tensor(value, device=self.uop.device)
        if v.dtype is not self.dtype:
            if v.dtype not in dtypes.weaks and not (v.uop.base.op is Ops.CONST and not isinstance(value, Tensor)):
                raise DTypeError(
                    f"cannot assign {v.dtype.name} to {self.dtype.name}",
                    where=where(self.uop),
                    help=f".cast('{self.dtype.name}') the value first",
                )
            v = v.cast(self.dtype)
        self.write_through((), broadcast_to(v, self.shape).uop)
        return self

    def write_through(self, steps: Sequence[Step], value: UOp) -> None:
        """Writes a value (of the dtype and the shape that is seen through ``steps``) into that part of this Tensor."""
        if self.steps and (self.is_broadcast or not self.is_view):
            self.own_storage()
        mark(self._storage.write((*self.steps, *steps), value))

    # ** computing **

    def realize(self, *others: Tensor) -> Tensor:
        """Computes this Tensor (and others, in one schedule). Returns it."""
        for t in (self, *others):
            if not isinstance(t, Tensor):
                raise DTypeError(f"realize() of a {type(t).__name__}", help="give Tensors")
            t.check_whole()
            if NOTED.get() is not None and t.uop.realized is None and t.uop.base.op is not Ops.CONST:
                raise ArgumentError(
                    "nothing can be computed in a function's body: it is only traced",
                    where=where(t.uop),
                    help="return the Tensor, and realize it outside",
                )
        engine().realize((self, *others))
        return self

    def check_whole(self) -> None:
        """Raises :class:`LostValue` if a device failed while this memory was being overwritten."""
        if self._storage.lost:
            raise LostValue(f"the value of this Tensor is lost: {self._storage.lost}", where=where(self.uop))

    @staticmethod
    def linear_with_vars(*tensors: Tensor) -> tuple[UOp, dict[str, int]]:
        """The kernels that realizing the tensors would run, in order, and the values of Variables. Changes nothing."""
        return engine().linear_with_vars(tensors)

    @staticmethod
    def schedule_linear(*tensors: Tensor) -> UOp:
        """The LINEAR alone. Changes nothing."""
        return engine().linear_with_vars(tensors)[0]

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a new NumPy array."""
        dtype = strong_dtype(self.dtype)
        t = self if self.dtype is dtype else self.cast(dtype)
        base = t.uop.base
        if base.op is not Ops.CONST and 0 not in t.shape:
            t.realize()
        return engine().read(apply_steps(t.storage.uop, tuple(s for s in t.steps if s[0] is not Ops.DETACH)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def tolist(self) -> Any:
        """The value as nested lists of Python scalars."""
        return self.numpy().tolist()

    def item(self) -> bool | int | float:
        """The one element as a Python scalar. Raises :class:`ShapeError` for more or fewer elements."""
        if self.numel() != 1:
            raise ShapeError(
                f"item() takes a Tensor of one element, this has shape {self.shape}", where=where(self.uop)
            )
        value: bool | int | float = self.numpy().reshape(()).item()
        return value

    def data(self) -> memoryview:
        """The value as a memoryview of a copy."""
        return self.numpy().data


def _value_of(data: Any, device: Any, dtype: DType | None) -> UOp:
    """The graph of a new Tensor's value."""
    if isinstance(data, Tensor):
        data = data.uop
    if isinstance(data, UOp):
        return _from_uop(data, dtype)
    if data is None:
        data = 0.0
    if isinstance(data, (bool, int, float, np.bool_, np.number)):
        value = data.item() if isinstance(data, np.generic) else data
        found = to_dtype(data.dtype) if isinstance(data, np.generic) else _scalar_dtype(value)
        return leaf(value, dtype or found)
    array = _array_of(data, dtype)
    where_to = engine().canonical_device(device)
    names = (where_to,) if isinstance(where_to, str) else where_to
    copies = [engine().memory_from(array, to_dtype(array.dtype), name).reshape(array.shape) for name in names]
    value_uop = copies[0] if len(copies) == 1 else replicate(copies)
    return value_uop if dtype is None else value_uop.cast(dtype)


_leaves = itertools.count()


def leaf(value: bool | int | float, dtype: DType) -> UOp:
    """A constant that no other node is equal to, so that it has a gradient of its own. (Scheduling drops the tag.)"""
    return UOp.const(value, dtype).rtag(next(_leaves))


def _scalar_dtype(value: bool | int | float) -> DType:
    """The weak type of a Python number, or the 64-bit type of an int that needs one."""
    found = dtypes.from_py(value)
    if found is not dtypes.weakint or dtypes.default_int.min <= value <= dtypes.default_int.max:
        return found
    wide = next((d for d in (dtypes.int64, dtypes.uint64) if d.min <= value <= d.max), None)
    if wide is None:
        raise DTypeError(f"{value} does not fit 64 bits", help="give a float")
    return wide


def _from_uop(u: UOp, dtype: DType | None) -> UOp:
    if u.dtype is dtypes.index:
        return u.cast(dtype or dtypes.weakint)
    if u.op not in _VALUES:
        raise DTypeError(f"{u.op.name} is no value", help="a Tensor is made of a node that has a shape and a dtype")
    return u if dtype is None else u.cast(dtype)


_VALUES = frozenset(Ops) - {Ops.SINK, Ops.STORE, Ops.END, Ops.CALL, Ops.LINEAR, Ops.RANGE, Ops.TUPLE, Ops.FUNCTION}


def _array_of(data: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    if isinstance(data, (bytes, bytearray, memoryview)):
        data = np.frombuffer(data, np.uint8)
    elif isinstance(data, (list, tuple)):
        data = [x.tolist() if isinstance(x, Tensor) else x for x in data]
    elif not isinstance(data, np.ndarray):
        raise DTypeError(
            f"a Tensor cannot be made of a {type(data).__name__}", help="give numbers, lists or a NumPy array"
        )
    try:
        array = np.asarray(data)
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(f"the nested list is not rectangular: {error}", help="all rows need the same length") from None
    if array.dtype.kind not in "biuf":
        raise DTypeError(f"elements of {array.dtype} are no numbers", help="give bools, ints or floats")
    if not isinstance(data, np.ndarray):  # Python numbers take the default types
        found = (
            dtypes.default_float
            if array.size == 0
            else {"b": dtypes.bool, "f": dtypes.default_float}.get(array.dtype.kind)
        )
        found = found or (dtypes.default_int if _fits(array) else dtypes.int64)
        return array.astype((dtype if dtype is not None and dtype.np_name else found).np)
    return array.astype(dtype.np) if dtype is not None and dtype.np_name else array


def _fits(array: np.ndarray[Any, Any]) -> bool:
    return bool(array.min() >= dtypes.default_int.min and array.max() <= dtypes.default_int.max)
