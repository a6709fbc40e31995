"""Layers: objects that hold parameters (Tensors) and are called with a Tensor.

In: sizes. Out: callables. Parameters are lazy: nothing is drawn before something is computed. With the setting TRAINING
on, batch norm takes the batch's statistics and keeps running ones.

>>> from tinysched import Tensor, nn
>>> layer = nn.Linear(3, 5)
>>> layer(Tensor.empty(2, 3)).shape, list(nn.state.get_state_dict(layer))
((2, 5), ['weight', 'bias'])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError, DTypeError, ShapeError
from tinysched.ir.lines import where as place
from tinysched.nn import optim, state
from tinysched.settings import TRAINING
from tinysched.tensor import Tensor
from tinysched.tensor.checks import many
from tinysched.tensor.indexing import one_hot_along

Size = int | Sequence[int]


class Linear:
    """``x @ weight.T + bias``; weight (out, in), both uniform within ``1 / sqrt(in)`` of 0."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        bound = 1 / math.sqrt(in_features)
        self.weight = Tensor.uniform(out_features, in_features, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_features, low=-bound, high=bound) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.transpose(), self.bias)


class Conv2d:
    """A convolution; weight ``(out, in / groups, *kernel_size)``. ``padding``: numbers, or "same" for a stride of 1."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        self.kernel_size = many(kernel_size, 2) if isinstance(kernel_size, int) else tuple(kernel_size)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding = _same(self.kernel_size, stride, dilation, padding) if isinstance(padding, str) else padding
        bound = 1 / math.sqrt(in_channels * math.prod(self.kernel_size))
        shape = (*self._channels(in_channels, out_channels), *self.kernel_size)
        self.weight = Tensor.uniform(shape, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_channels, low=-bound, high=bound) if bias else None

    def _channels(self, inputs: int, outputs: int) -> tuple[int, int]:
        return outputs, inputs // self.groups

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


def _same(kernel: tuple[int, ...], stride: Size, dilation: Size, padding: str) -> tuple[int, ...]:
    """The padding, last axis first, that leaves the size as it is."""
    if padding.lower() != "same" or any(s != 1 for s in many(stride, len(kernel))):
        raise ArgumentError(f"padding {padding!r} with stride {stride}", help="'same' is there for a stride of 1")
    spans = [d * (k - 1) for k, d in zip(kernel, many(dilation, len(kernel)))]
    return tuple(w for span in reversed(spans) for w in (span // 2, span - span // 2))


def Conv1d(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int | str = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> Conv2d:
    """A convolution over one axis."""
    return Conv2d(in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias)


class ConvTranspose2d(Conv2d):
    """The gradient of a convolution by its input; weight ``(in, out / groups, *kernel_size)``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.output_padding = output_padding

    def _channels(self, inputs: int, outputs: int) -> tuple[int, int]:
        return inputs, outputs // self.groups

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding, self.output_padding
        )


class BatchNorm:
    """Mean 0 and variance 1 of each channel (axis 1) over all other axes, then ``* weight + bias``."""

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ):
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.weight = Tensor.ones(sz) if affine else None
        self.bias = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = _statistic(Tensor.zeros(dtype="int64"))
        if track_running_stats:
            self.running_mean, self.running_var = _statistic(Tensor.zeros(sz)), _statistic(Tensor.ones(sz))

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance: the running ones, or (in training) those of the batch."""
        channel = (1, -1, *(1,) * (x.ndim - 2))
        if self.track_running_stats and not TRAINING:
            return self.running_mean, self.running_var.reshape(channel)
        axes = tuple(i for i in range(x.ndim) if i != 1)
        mean = x.mean(axes)
        centered = x - mean.detach().reshape(channel)  # the variance does not change with the mean
        return mean, (centered * centered).mean(axes)

    def _track(self, x: Tensor, mean: Tensor, var: Tensor) -> None:
        n, new = int(x.numel()), self.momentum
        unbiased = new * n / (n - int(x.shape[1]))
        self.running_mean.assign(self.running_mean * (1 - new) + mean.detach() * new)
        self.running_var.assign(self.running_var * (1 - new) + var.detach() * unbiased)
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)

    def __call__(self, x: Tensor) -> Tensor:
        mean, var = self.calc_stats(x)
        if self.track_running_stats and TRAINING:
            self._track(x, mean, var)
        return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())


BatchNorm2d = BatchNorm3d = BatchNorm


def _statistic(x: Tensor) -> Tensor:
    """A Tensor that is kept, but that no optimizer trains."""
    x.is_param = False
    return x


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """``x * weight + bias`` for each channel (axis 1)."""
    if weight is None or bias is None:
        return x
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return x * weight.reshape(shape) + bias.reshape(shape)


class GroupNorm:
    """Mean 0 and variance 1 over groups of channels of one sample, then ``* weight + bias`` for each channel."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True):
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        normed = x.reshape(x.shape[0], self.num_groups, -1).layernorm(eps=self.eps).reshape(x.shape)
        return _affine(normed, self.weight, self.bias)


class InstanceNorm(GroupNorm):
    """Mean 0 and variance 1 of each channel of one sample, then ``* weight + bias``."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True):
        super().__init__(num_features, num_features, eps, affine)


class LayerNorm:
    """Mean 0 and variance 1 over the last axes, then ``* weight + bias``."""

    def __init__(self, normalized_shape: Size, eps: float = 1e-5, elementwise_affine: bool = True):
        self.normalized_shape = (
            many(normalized_shape, 1) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.axis, self.eps = tuple(range(-len(self.normalized_shape), 0)), eps
        self.weight = Tensor.ones(self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(self.normalized_shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[-len(self.axis) :] != self.normalized_shape:
            raise ShapeError(
                f"layer norm over {self.normalized_shape} of shape {x.shape}",
                where=place(x.uop),
                help="last axes differ",
            )
        normed = x.layernorm(self.axis, self.eps)
        return normed if self.weight is None or self.bias is None else normed * self.weight + self.bias


class LayerNorm2d(LayerNorm):
    """Layer norm over the channels (axis 1) of images."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm:
    """``x`` over the root of its mean square along the last axis (computed in float32), then ``* weight``."""

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True):
        self.eps = eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return normed if self.weight is None else normed * self.weight


class Embedding:
    """Rows of ``weight`` (vocabulary, size) at whole numbers; zeros for numbers outside."""

    def __init__(self, vocab_size: int, embed_size: int):
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def __call__(self, idx: Tensor) -> Tensor:
        if not dtypes.is_int(idx.dtype):
            raise DTypeError(f"an embedding at {idx.dtype.name}", where=place(idx.uop), help="cast to whole numbers")
        rows = one_hot_along(idx.unsqueeze(-1), self.vocab_sz).unsqueeze(-1)
        return rows.where(self.weight, 0).sum(-2, dtype=self.weight.dtype)


__all__ = [
    "BatchNorm", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose2d", "Embedding", "GroupNorm",
    "InstanceNorm", "LayerNorm", "LayerNorm2d", "Linear", "RMSNorm", "optim", "state",
]  # fmt: skip
