"""Functions of neural networks: products, convolutions, pooling, norms, attention, losses. All are formulas of few ops.

In: Tensors. Out: Tensors. A matrix product is a broadcast multiplication and a sum; a convolution is one over windows.

>>> from tinysched import Tensor
>>> Tensor.empty(2, 3, 8, 9).conv2d(Tensor.empty(4, 3, 3, 2), padding=1).shape
(2, 4, 8, 10)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinysched.dtypes import DTypeLike, dtypes, least_upper_dtype, to_dtype
from tinysched.errors import ArgumentError, DTypeError, ShapeError
from tinysched.ir.lines import where as place
from tinysched.ir.uop import Shape
from tinysched.tensor.checks import many
from tinysched.tensor.core import Tensor
from tinysched.tensor.indexing import one_hot_along
from tinysched.tensor.movement import broadcast_to, pad_constant
from tinysched.tensor.moves import Pair
from tinysched.tensor.operands import operand

# ** products **


def dot(x: Tensor, w: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """The product over the last axis of ``x`` and the last but one of ``w`` (the only one of a 1-d ``w``).

    ``dtype``: to accumulate in and of the result. Raises :class:`ShapeError` where these sizes differ.
    """
    if not isinstance(w, Tensor):
        raise DTypeError(f"a matrix product with a {type(w).__name__}", where=place(x.uop), help="give a Tensor")
    if not x.ndim or not w.ndim:
        raise ShapeError(f"matrix product of {x.shape} and {w.shape}", where=place(x.uop), help="use * for scalars")
    if x.shape[-1] != w.shape[-min(w.ndim, 2)]:
        raise ShapeError(
            f"matrix product of {x.shape} and {w.shape}",
            where=place(x.uop),
            help=f"{x.shape[-1]} columns of the left meet {w.shape[-min(w.ndim, 2)]} rows of the right",
        )
    between = (1,) * min(x.ndim - 1, w.ndim - 1, 1)
    left = x.reshape(*x.shape[:-1], *between, x.shape[-1])
    right = w.reshape(*w.shape[:-2], *between, *w.shape[-min(w.ndim, 2) :])
    right = right.transpose(-1, -2) if w.ndim > 1 else right
    result = least_upper_dtype(x.dtype, w.dtype) if dtype is None else to_dtype(dtype)
    return (left * right).sum(-1, dtype=dtype).cast(result)


def matmul(x: Tensor, w: Tensor, reverse: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """``x @ w`` (``w @ x`` with ``reverse``)"""
    return dot(w, x, dtype) if reverse else dot(x, w, dtype)


def rmatmul(x: Tensor, w: Tensor) -> Tensor:
    return dot(operand(w, x), x)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """``x @ weight + bias``; a 1-d weight multiplies."""
    if dtype is not None:
        x, weight, bias = x.cast(dtype), weight.cast(dtype), None if bias is None else bias.cast(dtype)
    product = x * weight if weight.ndim == 1 else x.dot(weight)
    return product if bias is None else product + bias


def sequential(x: Tensor, layers: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """The layers applied one after another."""
    for layer in layers:
        x = layer(x)
    return x


# ** windows **


def _pads(padding: int | Sequence[int], n: int) -> tuple[Pair, ...]:
    """Padding as pairs for ``n`` axes: one number, one for each axis, or a flat list of pairs, last axis first."""
    if isinstance(padding, int):
        return ((padding, padding),) * n
    if len(padding) == 2 * n and n:
        return tuple((padding[i], padding[i + 1]) for i in range(0, 2 * n, 2))[::-1]
    if len(padding) != n:
        raise ArgumentError(f"padding {padding} for {n} axes", help=f"one number, {n}, or {2 * n}")
    return tuple((p, p) for p in padding)


def _windows(x: Tensor, kernel: Shape, stride: Any, dilation: Any, pads: tuple[Pair, ...], value: Any = 0) -> Tensor:
    return pad_constant(x, (*((0, 0),) * (x.ndim - len(kernel)), *pads), value).pool(kernel, stride, dilation)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    groups: int = 1,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The convolution of ``x`` (batch, channels in, ...) with ``weight`` (channels out, channels in / groups, ...).

    Any number of spatial axes. Raises :class:`ShapeError` where channels or axes do not fit.
    """
    if x.ndim != weight.ndim or x.ndim < 3 or x.shape[1] != groups * weight.shape[1] or weight.shape[0] % groups:
        raise ShapeError(
            f"convolution of {x.shape} with weight {weight.shape} in {groups} groups",
            where=place(x.uop),
            help="(batch, in, ...) with (out, in / groups, ...), as many spatial axes",
        )
    (batch, _), (out, cin), kernel = x.shape[:2], weight.shape[:2], weight.shape[2:]
    n, each = len(kernel), out // groups
    windows = _windows(x, kernel, stride, dilation, _pads(padding, n))
    places = windows.shape[2:-n]
    inputs = windows.reshape(batch, groups, cin, 1, *places, *kernel)
    inputs = broadcast_to(inputs, (batch, groups, cin, each, *places, *kernel))
    inputs = inputs.permute(0, 1, 3, *range(4, 4 + n), 2, *range(4 + n, 4 + 2 * n))
    weights = weight.reshape(1, groups, each, *(1,) * n, cin, *kernel)
    summed = (inputs * weights).sum(tuple(range(-1 - n, 0)), keepdim=True, dtype=dtype)
    result = summed.reshape(batch, out, *places)
    return result if bias is None else result + bias.reshape(1, -1, *(1,) * n)


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    groups: int = 1,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
) -> Tensor:
    """The gradient of conv2d by its input: ``x`` with zeros between its elements, convolved with flipped weights.

    ``weight``: (channels in, channels out / groups, ...).
    """
    kernel = weight.shape[2:]
    n = len(kernel)
    strides, dilations, extra = (many(v, n) for v in (stride, dilation, output_padding))
    flipped = weight.unflatten(0, (groups, -1)).transpose(1, 2).flip(*range(3, 3 + n)).flatten(0, 1)
    spaced = _spaced(x, strides)
    pads = [
        ((k - 1) * d - before, (k - 1) * d - after + more)
        for k, d, (before, after), more in zip(kernel, dilations, _pads(padding, n), extra)
    ]
    flat = [w for pair in reversed(pads) for w in pair]
    return spaced.conv2d(flipped, bias, groups, dilation=dilations, padding=flat)


def _spaced(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """``stride - 1`` zeros between the elements of the last axes."""
    if all(s == 1 for s in strides):
        return x
    lead, sizes = x.shape[: -len(strides)], x.shape[-len(strides) :]
    apart = x.reshape(*lead, *(v for k in sizes for v in (k, 1)))
    wide = apart.pad_to(*lead, *(v for k, s in zip(sizes, strides) for v in (k, s)))
    merged = wide.reshape(*lead, *(k * s for k, s in zip(sizes, strides)))
    return merged.shrink_to(*lead, *(k * s - (s - 1) for k, s in zip(sizes, strides)))


Kernel = int | Sequence[int]


def avg_pool2d(
    x: Tensor,
    kernel_size: Kernel = (2, 2),
    stride: Kernel | None = None,
    dilation: Kernel = 1,
    padding: Kernel = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window over the last axes (as many as ``kernel_size`` has). ``stride``: default the kernel."""
    kernel, steps, pads, more = _pooling(x, kernel_size, stride, dilation, padding, ceil_mode)
    axes = tuple(range(-len(kernel), 0))
    if count_include_pad and not ceil_mode:
        return _windows(x, kernel, steps, dilation, pads).mean(axes)
    counted, outer = x, more
    if count_include_pad:  # the user's padding counts, what ceil_mode adds does not
        counted = pad_constant(x, (*((0, 0),) * (x.ndim - len(kernel)), *pads), 0)
        outer = tuple((a - c, b - d) for (a, b), (c, d) in zip(more, pads))
    ones = _windows(counted.ones_like(), kernel, steps, dilation, outer)
    return _windows(x, kernel, steps, dilation, more).sum(axes) / ones.sum(axes)


def max_pool2d(
    x: Tensor,
    kernel_size: Kernel = (2, 2),
    stride: Kernel | None = None,
    dilation: Kernel = 1,
    padding: Kernel = 0,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window over the last axes; with ``return_indices`` also where it stands in these axes."""
    kernel, steps, _, pads = _pooling(x, kernel_size, stride, dilation, padding, ceil_mode)
    axes = tuple(range(-len(kernel), 0))
    windows = _windows(x, kernel, steps, dilation, pads, x.dtype.min)
    most = windows.max(axes)
    if not return_indices:
        return most
    sizes = x.shape[-len(kernel) :]
    total = math.prod(sizes)
    rank = _windows(Tensor.arange(total, 0, -1).reshape(sizes), kernel, steps, dilation, pads, dtypes.int32.min)
    hit = windows.eq(windows.max(axes, keepdim=True))
    return most, total - (hit * rank).max(axes)


def _pooling(
    x: Tensor, kernel_size: Kernel, stride: Kernel | None, dilation: Kernel, padding: Kernel, ceil_mode: bool
) -> tuple[Shape, Shape, tuple[Pair, ...], tuple[Pair, ...]]:
    """Kernel, stride, padding, and padding with what ``ceil_mode`` needs for a last, partial window."""
    kernel = many(kernel_size, 2) if isinstance(kernel_size, int) else tuple(kernel_size)
    n = len(kernel)
    if x.ndim < n:
        raise ShapeError(f"pooling of shape {x.shape} over {kernel}", where=place(x.uop))
    steps = kernel if stride is None else many(stride, n)
    pads = _pads(padding, n)
    if not ceil_mode:
        return kernel, steps, pads, pads
    more = []
    for i, k, s, d, (a, b) in zip(x.shape[-n:], kernel, steps, many(dilation, n), pads):
        reach = d * (k - 1) + 1
        places = -(-(i + a + b - reach) // s) + 1
        missing = s * (places - 1) + reach - (i + a + b)
        beyond = max(s * (places - 1) - (a + i - 1), 0)  # a window that would start in the padding is left out
        more.append((a, b + missing - beyond))
    return kernel, steps, pads, tuple(more)


def interpolate(x: Tensor, size: Sequence[int], mode: str = "linear", align_corners: bool = False) -> Tensor:
    """The last ``len(size)`` axes resampled to ``size``; ``mode``: "linear", "nearest" or "nearest-exact".

    Positions are computed exactly in whole numbers. Raises :class:`ArgumentError` for other modes.
    """
    if mode not in ("linear", "nearest", "nearest-exact") or (align_corners and mode != "linear"):
        raise ArgumentError(
            f"interpolate mode {mode!r}, align_corners={align_corners}", help="linear or nearest(-exact)"
        )
    if not 0 < len(size) <= x.ndim:
        raise ShapeError(f"interpolate shape {x.shape} to {tuple(size)}", where=place(x.uop))
    result, shape = x, list(x.shape)
    for i in range(-1, -len(size) - 1, -1):
        shape[i] = size[i]
        full, line = tuple(shape), tuple(size[i] if j == x.ndim + i else 1 for j in range(x.ndim))
        result = _resampled(result, i, int(x.shape[i]), size[i], mode, align_corners, (line, full))
    return result.cast(x.dtype)


def _resampled(
    x: Tensor, axis: int, old: int, new: int, mode: str, corners: bool, shapes: tuple[Shape, Shape]
) -> Tensor:
    """One axis of ``interpolate``: gathered at whole positions, or between two of them."""

    def spread(t: Tensor) -> Tensor:
        return broadcast_to(t.reshape(shapes[0]), shapes[1])

    at = Tensor.arange(new)
    if mode != "linear":
        twice = at * 2 + 1 if mode == "nearest-exact" else at * 2
        return x.gather(axis, spread(twice * old // (2 * new)))
    over, under = (at * (old - 1), max(new - 1, 1)) if corners else ((at * 2 + 1) * old - new, new * 2)
    over = over.clamp(0, (old - 1) * under)
    share = spread((over % under).cast(dtypes.float32) / under)
    return x.gather(axis, spread(over // under)).lerp(x.gather(axis, spread((over + under - 1) // under)), share)


# ** norms, attention **


def layernorm(x: Tensor, axis: int | tuple[int, ...] = -1, eps: float = 1e-5) -> Tensor:
    """Mean 0 and variance 1 along ``axis``."""
    centered = x - x.mean(axis, keepdim=True)
    return centered * ((centered * centered).mean(axis, keepdim=True) + eps).rsqrt()


def batchnorm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    axis: int | tuple[int, ...] = 1,
) -> Tensor:
    """``(x - mean) * weight * invstd + bias``, each of the size of ``axis``."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shape = tuple(s if i in axes else 1 for i, s in enumerate(x.shape))
    result = x - mean.reshape(shape)
    if weight is not None:
        result = result * weight.reshape(shape)
    result = result * (invstd.reshape(shape) if invstd.ndim == len(axes) else invstd)
    return result if bias is None else result + bias.reshape(shape)


def scaled_dot_product_attention(
    q: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(q @ key.T / sqrt(d) + mask) @ value`` over the last two axes (length, d).

    ``attn_mask``: bool (True: look) or added. ``is_causal``: nothing looks ahead. ``enable_gqa``: fewer heads (axis -3)
    of keys and values than of queries, each used by several.
    """
    if is_causal and attn_mask is not None:
        raise ArgumentError("attention with is_causal and attn_mask", help="put the causal part into the mask")
    if enable_gqa:
        key = key.repeat_interleave(q.shape[-3] // key.shape[-3], dim=-3)
        value = value.repeat_interleave(q.shape[-3] // value.shape[-3], dim=-3)
    wide = least_upper_dtype(q.dtype, key.dtype, dtypes.float32)
    scores = q.matmul(key.transpose(-2, -1), dtype=wide) / math.sqrt(q.shape[-1])
    if is_causal:
        attn_mask = scores.const_like(True, dtypes.bool).tril()
    if attn_mask is not None:
        scores = scores + (attn_mask.where(0, -math.inf) if attn_mask.dtype is dtypes.bool else attn_mask)
    return scores.cast(q.dtype).softmax(-1).dropout(dropout_p) @ value


# ** losses **


def _summed_up(x: Tensor, reduction: str) -> Tensor:
    if reduction not in ("none", "sum", "mean"):
        raise ArgumentError(f"reduction {reduction!r}", help="'none', 'sum' or 'mean'")
    return x if reduction == "none" else x.sum() if reduction == "sum" else x.mean()


def binary_crossentropy(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """``-y log(x) - (1 - y) log(1 - x)`` of probabilities ``x``."""
    return _summed_up(-y * x.log() - (1 - y) * (1 - x).log(), reduction)


def binary_crossentropy_logits(
    x: Tensor, y: Tensor, reduction: str = "mean", pos_weight: Tensor | None = None
) -> Tensor:
    """The same of ``sigmoid(x)``, without overflow."""
    hit = y * x.logsigmoid() if pos_weight is None else pos_weight * y * x.logsigmoid()
    return _summed_up(-(hit + (1 - y) * (-x).logsigmoid()), reduction)


def _smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"label_smoothing {label_smoothing}", help="between 0 and 1")


def sparse_categorical_crossentropy(
    x: Tensor, y: Tensor, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Cross entropy of logits ``x`` (..., classes) and class numbers ``y`` (...); ``ignore_index`` counts not."""
    _smoothing(label_smoothing)
    log_p = x.log_softmax()
    used = y.ne(ignore_index) if ignore_index != -1 else y.const_like(True, dtypes.bool)
    chosen = one_hot_along(y.unsqueeze(-1), x.shape[-1]) * used.unsqueeze(-1)
    loss = (log_p * chosen).sum(-1)
    if label_smoothing:
        loss = loss * (1 - label_smoothing) + log_p.mean(-1) * used * label_smoothing
    return -loss.sum() / used.sum() if reduction == "mean" else -_summed_up(loss, reduction)


def cross_entropy(x: Tensor, y: Tensor, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of logits ``x`` (batch, classes, ...) and class numbers, or probabilities of the shape of ``x``."""
    _smoothing(label_smoothing)
    dim = 0 if x.ndim == 1 else 1
    if x.shape != y.shape:
        if (*x.shape[:dim], *x.shape[dim + 1 :]) != y.shape:
            raise ShapeError(
                f"cross entropy of {x.shape} and {y.shape}", where=place(y.uop), help="leave out the classes"
            )
        y = one_hot_along(y.unsqueeze(dim), x.shape[dim], dim)
    if label_smoothing:
        y = y * (1 - label_smoothing) + label_smoothing / int(x.shape[dim])
    return -_summed_up((x.log_softmax(dim) * y).sum(dim), reduction)


def nll_loss(
    x: Tensor, y: Tensor, weight: Tensor | None = None, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """The negative of log probabilities ``x`` (batch, classes, ...) at the class numbers ``y``, weighted by class."""
    weights = y.const_like(1) if weight is None else weight.gather(0, y.flatten()).reshape(y.shape)
    if ignore_index is not None:
        weights = weights * y.ne(ignore_index)
    loss = -x.gather(1, y.unsqueeze(1)).squeeze(1) * weights
    return loss.sum() / weights.sum() if reduction == "mean" else _summed_up(loss, reduction)
