"""Sorting and scattering: networks of maximum and minimum, masks of equal values.

In: Tensors and an axis. Out: sorted values and the places they came from (stable), or values put at given places.

>>> from tinysched import Tensor
>>> values, places = Tensor.empty(3, 5).topk(2, dim=1)
>>> values.shape, places.dtype
((3, 2), dtypes.int32)
"""

from __future__ import annotations

from typing import Any

from tinysched.dtypes import Scalar, dtypes
from tinysched.errors import ArgumentError, DTypeError, ShapeError
from tinysched.ir.lines import where as place
from tinysched.ir.uop import UOp
from tinysched.tensor.checks import axis_of
from tinysched.tensor.core import Tensor
from tinysched.tensor.indexing import last_of, one_hot_along
from tinysched.tensor.movement import pad_constant
from tinysched.tensor.reduce import check_k
from tinysched.tensor.sharding import whole_along


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The values in order along ``dim`` and the places they came from (equal values keep their order).

    Batcher's bitonic network on axes of size 2: at stage s, runs of 2**s sorted values meet their mirror image.
    """
    dim = axis_of(dim, x.ndim)
    x = whole_along(x, dim)
    n = int(x.shape[dim]) if x.shape else 1
    if n <= 1:
        return x.clone(), Tensor.from_uop(UOp.const(0, dtypes.default_int).expand_leading(x.shape))
    ordered = _network(x, dim, (n - 1).bit_length(), descending)
    values = ordered.shrink_to(x.shape)
    return values, _origins(x, values, dim, n)


def _network(x: Tensor, dim: int, stages: int, descending: bool) -> Tensor:
    fill = x.dtype.min if descending else x.dtype.max
    widths = tuple((0, 2**stages - s) if i == dim else (0, 0) for i, s in enumerate(x.shape))
    v = pad_constant(x, widths, fill).unflatten(dim, (2,) * stages)
    rest = x.ndim - dim
    for stage in range(1, stages + 1):
        cross, last = dim + stages - stage - 1, stage == stages
        mirror = tuple(range(v.ndim - stage - rest, v.ndim))
        if not last:
            v = _crossed(v, cross, mirror).contiguous()
        for substage in reversed(range(stage)):
            v = _exchanged(v, dim + stages - substage - 1, descending).contiguous()
        if not last:
            v = _crossed(v, cross, mirror)
    return v.flatten(dim, dim + stages - 1)


def _crossed(v: Tensor, axis: int, mirror: tuple[int, ...]) -> Tensor:
    """Every other run reversed, so that all comparisons of the stage point the same way."""
    first, second = v.split(1, axis)
    return first.cat(second.flip(mirror), dim=axis)


def _exchanged(v: Tensor, axis: int, descending: bool) -> Tensor:
    """Partners along ``axis`` put in order."""
    top, bottom = v.split(1, axis)
    large, small = top.maximum(bottom), top.minimum(bottom)
    return large.cat(small, dim=axis) if descending else small.cat(large, dim=axis)


def _origins(x: Tensor, values: Tensor, dim: int, n: int) -> Tensor:
    """The k-th of equal values came from the k-th place where that value stood."""
    before = Tensor.arange(n).unsqueeze(-1) >= Tensor.arange(n)
    before = before.reshape(n, n, *(1,) * (x.ndim - dim - 1))

    def rank(t: Tensor) -> Tensor:
        return (before & t.unsqueeze(dim).eq(t.unsqueeze(dim + 1))).sum(dim + 1)

    same = x.unsqueeze(dim + 1).eq(values.unsqueeze(dim)) & rank(x).unsqueeze(dim + 1).eq(rank(values).unsqueeze(dim))
    places = Tensor.arange(n).reshape(n, 1, *(1,) * (x.ndim - dim - 1))
    return (same * places).sum(dim)


def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The places that would sort ``x`` along ``dim``."""
    return sort(x, dim, descending)[1]


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (smallest) values along ``dim`` in order, and their places."""
    dim = check_k(x, k, dim)
    if not sorted_:
        raise ArgumentError("topk with sorted_=False", help="leave it out: the result is sorted")
    values, places = sort(x, dim, descending=largest)
    shape = tuple(k if i == dim else s for i, s in enumerate(x.shape))
    return values.shrink_to(shape), places.shrink_to(shape)


# ** scattering **


def _spread(x: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[Tensor, Tensor]:
    """``src`` and the mask of where it goes, with the axis that is reduced as the last."""
    if not index.ndim == x.ndim == src.ndim or any(
        (d != dim and i > s) or i > v for d, (s, i, v) in enumerate(zip(x.shape, index.shape, src.shape))
    ):
        raise ShapeError(
            f"scatter of {src.shape} by indices {index.shape} into {x.shape}",
            where=place(index.uop),
            help="same number of axes; the indices no larger than the others",
        )
    if x.dtype is not src.dtype:
        raise DTypeError(f"scatter of {src.dtype.name} into {x.dtype.name}", where=place(src.uop), help="cast it first")
    src = src.shrink_to(index.shape)
    values = src.unsqueeze(-1).expand(*src.shape, x.shape[dim]).transpose(-1, dim)
    mask = one_hot_along(index.unsqueeze(-1), x.shape[dim]).transpose(-1, dim)
    return values.pad_to(*x.shape, None), mask.pad_to(*x.shape, None)


def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor | Scalar, reduce: str | None = None) -> Tensor:
    """``x`` with ``src`` at the places ``index`` along ``dim`` (the last of several counts).

    ``reduce``: "add" or "multiply" a scalar ``src`` to what is there instead.
    """
    if reduce not in (None, "add", "multiply"):
        raise ArgumentError(f"scatter reduce={reduce!r}", help="None, 'add' or 'multiply'")
    if not isinstance(src, Tensor):
        src = Tensor.full(index.shape, src, dtype=x.dtype)
    elif reduce:
        raise ArgumentError("scatter with reduce takes a scalar", help="use scatter_reduce for a Tensor")
    if reduce is not None:
        return scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")
    dim = axis_of(dim, x.ndim)
    values, mask = _spread(x, dim, index, src)
    return x.clone() if 0 in index.shape else last_of(values, mask, x, (x.ndim,))


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """``x`` with all of ``src`` that go to a place reduced there: "sum", "prod", "mean", "amax" or "amin"."""
    dim = axis_of(dim, x.ndim)
    values, mask = _spread(x, dim, index, src)
    if 0 in index.shape and reduce in ("sum", "prod", "mean", "amax", "amin"):
        return x.clone()

    def old(neutral: Scalar, own: Any = x) -> Any:
        return own if include_self else mask.any(-1).logical_not().where(own, neutral)

    if reduce == "sum":
        return mask.where(values, 0).sum(-1, dtype=x.dtype).add(old(0))
    if reduce == "prod":
        return mask.where(values, 1).prod(-1).mul(old(1))
    if reduce == "amax":
        return mask.where(values, x.dtype.min).max(-1).maximum(old(x.dtype.min))
    if reduce == "amin":
        return mask.where(values, x.dtype.max).min(-1).minimum(old(x.dtype.max))
    if reduce == "mean":
        return mask.where(values, 0).sum(-1).add(old(0)).div(mask.where(1, 0).sum(-1).add(old(0, 1)))
    raise ArgumentError(f"scatter_reduce {reduce!r}", help="sum, prod, mean, amax or amin")


# ** choosing by a mask **


def masked_select(x: Tensor, mask: Tensor, size: int | None = None, fill_value: Scalar = 0) -> Tensor:
    """The elements where ``mask`` is true, in order. With ``size`` of that length (filled up, or cut); without it the
    mask is computed first to know the length."""
    if mask.dtype is not dtypes.bool:
        raise DTypeError(f"masked_select by {mask.dtype.name}", where=place(mask.uop), help="give a bool mask")
    flat, chosen = x.flatten(), mask.expand(x.shape).flatten()
    upto = chosen.cumsum()
    length = (int(chosen.sum().item()) if chosen.numel() else 0) if size is None else size
    number = Tensor.zeros(length, dtype=dtypes.int32).scatter(0, upto, 1, reduce="add").cumsum()
    if size is None:
        return flat[number]
    return (Tensor.arange(size) < chosen.sum()).where(flat[number], fill_value).cast(x.dtype)


def nonzero(x: Tensor, size: int | None = None, fill_value: Scalar = 0) -> Tensor:
    """The positions of the elements that are not 0, one row each (``size`` as in masked_select)."""
    if not x.shape:
        return Tensor.zeros(size if size is not None else int(x.ne(0).item()), 0, dtype=dtypes.int32)
    hit = x.ne(0).flatten()
    axes = [
        Tensor.arange(s).reshape(*(1,) * i, s, *(1,) * (x.ndim - i - 1)).expand(x.shape).flatten()
        for i, s in enumerate(x.shape)
    ]
    rows = Tensor.stack(*axes, dim=-1)
    wanted = None if size is None else size * x.ndim
    found = rows.masked_select(hit.unsqueeze(-1).expand(*hit.shape, x.ndim), wanted, fill_value)
    return found.reshape(-1, x.ndim)
