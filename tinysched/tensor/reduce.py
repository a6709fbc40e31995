"""Reductions: REDUCE over axes that a permute brings to the front, and formulas made of it.

In: Tensors and axes (None: all). Out: Tensors without these axes, or with size 1 there (``keepdim``). Axes of size 1
are reshaped away: they need no loop. Sums accumulate in a wider type (halves in float32), cast back for floats.

>>> from tinysched import Tensor
>>> x = Tensor.empty(2, 3, 4)
>>> x.sum(1).shape, x.max((0, 2), keepdim=True).shape, x.argmax(-1).dtype
((2, 4), (1, 3, 1), dtypes.int32)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tinysched.dtypes import DType, DTypeLike, dtypes, strong_dtype, sum_acc_dtype, to_dtype
from tinysched.errors import ArgumentError, ShapeError
from tinysched.ir.derive import prod
from tinysched.ir.lines import where as place
from tinysched.ir.ops import Ops
from tinysched.ir.uop import Shape, Sint, UOp
from tinysched.tensor.checks import Axes, axes_of, axis_of
from tinysched.tensor.core import Tensor
from tinysched.tensor.elementwise import inverse
from tinysched.tensor.moves import is_one
from tinysched.tensor.operands import binary, convert
from tinysched.tensor.sharding import flat


def reduce_uop(u: UOp, op: Ops, axes: tuple[int, ...]) -> UOp:
    """A node reduced over ``axes``, which leave the shape."""
    shape = u.shape
    loops = tuple(i for i in axes if not is_one(shape[i]))
    return u.rop(op, loops).reshape(tuple(s for i, s in enumerate(shape) if i not in axes))


def reduced(x: Tensor, op: Ops, axis: Axes, keepdim: bool, dtype: DType | None = None) -> Tensor:
    """REDUCE of ``x`` cast to ``dtype`` (default: its own)."""
    axes = axes_of(axis, x.ndim)
    u = reduce_uop(convert(x.uop, dtype or strong_dtype(x.dtype)), op, axes)
    return Tensor.from_uop(u.reshape(kept(x.shape, axes)) if keepdim else u)


def kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """``shape`` with 1 for the reduced axes."""
    return tuple(1 if i in axes else s for i, s in enumerate(shape))


def count(x: Tensor, axis: Axes) -> Sint:
    """How many elements one result is made of."""
    axes = axes_of(axis, x.ndim)
    return prod(x.shape[i] for i in axes)


# ** sums and products **


def sum(x: Tensor, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The sum over ``axis`` (0 of nothing). Small ints and bools add up in 32 bits, halves in float32.

    ``dtype``: the type to accumulate in and of the result. Raises :class:`ShapeError` for an axis that is not there.
    """
    if dtype is not None:
        return reduced(x, Ops.ADD, axis, keepdim, to_dtype(dtype))
    total = reduced(x, Ops.ADD, axis, keepdim, sum_acc_dtype(x.dtype))
    return total.cast(x.dtype) if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4 else total


def prod_(x: Tensor, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The product over ``axis`` (1 of nothing), in the dtype of ``x`` unless another is given."""
    return reduced(x, Ops.MUL, axis, keepdim, None if dtype is None else to_dtype(dtype))


def mean(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """The mean over ``axis`` (NaN of nothing); of whole numbers a float32."""
    wide = x.cast(sum_acc_dtype(x.dtype))
    return wide.sum(axis, keepdim).div(count(x, axis)).cast(_float_result(x))


def _float_result(x: Tensor) -> DType:
    return x.dtype if dtypes.is_float(x.dtype) else dtypes.float32


def var(x: Tensor, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    """The variance over ``axis``: squared distances from the mean, over ``count - correction``."""
    squares = (x - x.mean(axis, keepdim=True)).square()
    left = max(count(x, axis) - correction, 0)
    return (
        squares.cast(sum_acc_dtype(x.dtype) if dtypes.is_float(x.dtype) else dtypes.float32)
        .sum(axis, keepdim)
        .div(left)
        .cast(_float_result(x))
    )


def std(x: Tensor, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    """The root of the variance."""
    return x.var(axis, keepdim, correction).sqrt()


def var_mean(x: Tensor, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    return x.var(axis, keepdim, correction), x.mean(axis, keepdim)


def std_mean(x: Tensor, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    return x.std(axis, keepdim, correction), x.mean(axis, keepdim)


# ** extremes **


def _not_empty(x: Tensor, axis: Axes, name: str) -> None:
    if any(isinstance(x.shape[i], int) and x.shape[i] == 0 for i in axes_of(axis, x.ndim)):
        raise ShapeError(f"{name} of no elements", where=place(x.uop), help="it has no identity; check the sizes first")


def max_(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """The largest element over ``axis``; NaN where one is. Raises :class:`ShapeError` where there is none."""
    _not_empty(x, axis, "max")
    return reduced(x, Ops.MAX, axis, keepdim)


def min_(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """The smallest element over ``axis``; NaN where one is. Raises :class:`ShapeError` where there is none."""
    _not_empty(x, axis, "min")
    return inverse(reduced(inverse(x), Ops.MAX, axis, keepdim))


def any_(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether any element over ``axis`` is not 0 (False for nothing)."""
    return reduced(x, Ops.MAX, axis, keepdim, dtypes.bool)


def all_(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over ``axis`` are not 0 (True for nothing)."""
    return reduced(x, Ops.MUL, axis, keepdim, dtypes.bool)


def argmax(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the first largest element along ``axis`` stands (None: in the flattened Tensor); the first NaN, if any.

    The largest of ``n, n-1, ...`` where an element equals the largest, counted back from ``n``.
    """
    if axis is None:
        return flat(x).argmax(0)
    axis = axis_of(axis, x.ndim)
    _not_empty(x, axis, "argmax")
    if not x.shape:
        return Tensor.from_uop(UOp.const(0, dtypes.int32))
    most, n = x.max(axis, keepdim=True), int(x.shape[axis])
    hit = x.eq(most) | x.isnan() if dtypes.is_float(x.dtype) else x.eq(most)
    rank = hit * Tensor.arange(n, 0, -1).reshape(n, *(1,) * (x.ndim - axis - 1))
    return (n - rank.max(axis, keepdim)).cast(dtypes.int32)


def argmin(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the first smallest element along ``axis`` stands (None: in the flattened Tensor); the first NaN, if any."""
    return inverse(x).argmax(axis, keepdim)


# ** exponentials **


def logsumexp(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """``log(sum(e**x))``, without overflow."""
    most = x.max(axis, keepdim=True).detach()
    total = (x - most).exp().sum(axis, keepdim).log()
    return total + (most if keepdim else most.squeeze(axis if x.shape else None))


def _shifted(x: Tensor, axis: int, dtype: DTypeLike | None) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` minus its largest element, its exponential, and the sum of that."""
    shifted = x if 0 in x.shape else x - x.max(axis, keepdim=True).detach()
    if dtype is not None:
        shifted = shifted.cast(dtype)
    powers = shifted.exp()
    return shifted, powers, powers.sum(axis, keepdim=True)


def softmax(x: Tensor, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """``e**x`` over its sum along ``axis``; computed in ``dtype`` if given."""
    _, powers, total = _shifted(x, axis, dtype)
    return powers * total.reciprocal()


def log_softmax(x: Tensor, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """The logarithm of softmax, without going through it."""
    shifted, _, total = _shifted(x, axis, dtype)
    return shifted - total.log()


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``x`` over its ``p``-norm along ``dim`` (at least ``eps``)."""
    if p == 0:
        norm = x.ne(0).sum(dim, keepdim=True)
    else:
        norm = x.abs().pow(p).sum(dim, keepdim=True).pow(1 / p)
    return x / norm.maximum(eps)


# ** running reductions **

SPLIT = 256


def _running(x: Tensor, axis: int, op: Ops) -> Tensor:
    """Each element's window is all elements up to it: ``n - 1`` identities in front, windows of ``n``."""
    from tinysched.tensor.movement import pad_constant

    n = x.shape[axis]
    none = ((0, 0),) * (x.ndim - 1)
    windows = pad_constant(x.transpose(axis, -1), (*none, (n - 1, 0)), identity(op, x.dtype)).pool((n,))
    return _REDUCE[op](windows, -1).transpose(axis, -1)


def identity(op: Ops, dtype: DType) -> bool | int | float:
    """What changes nothing when it is reduced along."""
    return {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: dtype.min}[op]


_REDUCE: Final[dict[Ops, Callable[..., Tensor]]] = {Ops.ADD: sum, Ops.MUL: prod_, Ops.MAX: max_}


def running(x: Tensor, axis: int, op: Ops) -> Tensor:
    """A running reduction. Long axes go in two levels: within chunks of 256, and over the chunks' last values."""
    from tinysched.tensor.movement import pad_constant

    axis = axis_of(axis, x.ndim)
    if not x.shape or 0 in x.shape:
        return x.cast(x.sum().dtype) if op is Ops.ADD else x.clone()
    n = x.shape[axis]
    if not isinstance(n, int) or n <= 2 * SPLIT:
        return _running(x, axis, op)
    zero, none = identity(op, x.dtype), ((0, 0),) * (x.ndim - 1)
    rows = pad_constant(x.transpose(axis, -1), (*none, (-n % SPLIT, 0)), zero).unflatten(-1, (-1, SPLIT))
    within = _running(rows, -1, op)
    before = pad_constant(_running(within[..., -1], -1, op), (*none, (1, -1)), identity(op, within.dtype))
    joined = binary(op, within, before.unsqueeze(-1)).flatten(-2)
    return joined[..., -n:].transpose(axis, -1)


def cumsum(x: Tensor, axis: int = 0) -> Tensor:
    """The sum of each element and all before it along ``axis``."""
    return running(x, axis, Ops.ADD)


def cumprod(x: Tensor, axis: int) -> Tensor:
    """The product of each element and all before it along ``axis``."""
    return running(x, axis, Ops.MUL)


def cummax(x: Tensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """The largest of each element and all before it along ``axis``, and where it last stood."""
    axis = axis_of(axis, x.ndim)
    if not x.shape or 0 in x.shape:
        return x.clone(), Tensor.from_uop(UOp.const(0, dtypes.int32).expand_leading(x.shape))
    values, n = running(x, axis, Ops.MAX), x.shape[axis]
    at, most = x.transpose(axis, -1), values.transpose(axis, -1)
    hit = at.unsqueeze(-1).eq(most.unsqueeze(-2))
    if dtypes.is_float(x.dtype):
        hit = hit | (at.isnan().unsqueeze(-1) & most.isnan().unsqueeze(-2))
    before = Tensor.arange(n).unsqueeze(-1) <= Tensor.arange(n)
    place_ = ((hit & before) * Tensor.arange(1, n + 1).reshape(n, 1)).max(-2) - 1
    return values, place_.cast(dtypes.int32).transpose(-1, axis)


def cummin(x: Tensor, axis: int = 0) -> tuple[Tensor, Tensor]:
    """The smallest of each element and all before it along ``axis``, and where it last stood."""
    values, places = inverse(x).cummax(axis)
    return inverse(values), places


def logcumsumexp(x: Tensor, axis: int = 0) -> Tensor:
    """``log(cumsum(e**x))``, without overflow."""
    if not x.shape or 0 in x.shape:
        return x.clone()
    at = x.transpose(axis, -1)
    n, most = at.shape[-1], at.cummax(-1)[0].detach()
    before = Tensor.arange(n).unsqueeze(-1) >= Tensor.arange(n)
    terms = before.where(at.unsqueeze(-2) - most.unsqueeze(-1), float(x.dtype.min))
    return (terms.exp().sum(-1).log() + most).transpose(-1, axis)


def check_k(x: Tensor, k: int, dim: int) -> int:
    """``dim`` from 0, if there are ``k`` elements along it."""
    dim = axis_of(dim, x.ndim)
    if k < 0 or (isinstance(x.shape[dim], int) and k > x.shape[dim]):
        raise ArgumentError(f"the {k} largest of {x.shape[dim]}", where=place(x.uop), help="k is at most the size")
    return dim
