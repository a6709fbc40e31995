"""Random numbers from a counter: Threefry made of UOps, so a seed gives the same values on every run time.

In: shapes and ranges. Out: Tensors that draw when they are computed, once. Each device has a key and a counter, both
Storages: a draw of n words moves the counter on by an assign, so the same program makes the same graph every time round
(and hits the schedule cache), and draws realized later, in any order, keep the words that were theirs.

The words are those of upstream 0.14: seed, key, counter and the order of the bits.

>>> from tinysched import Tensor
>>> Tensor.manual_seed(3)
>>> Tensor.rand(2, 3).shape, Tensor.randint(4, high=6).dtype
((2, 3), dtypes.int32)
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from tinysched.dtypes import DType, DTypeLike, dtypes, to_dtype
from tinysched.errors import ArgumentError, DTypeError
from tinysched.ir.derive import prod
from tinysched.ir.ops import Ops
from tinysched.ir.uop import Shape, UOp
from tinysched.settings import TRAINING
from tinysched.tensor.checks import new_shape
from tinysched.tensor.core import Tensor
from tinysched.tensor.creation import check_float
from tinysched.tensor.hooks import engine
from tinysched.tensor.moves import ceil_div
from tinysched.tensor.placement import to
from tinysched.tensor.sharding import shard_like

Device = str | tuple[str, ...]

_seed: int = int(time.time())
_states: dict[str, tuple[Tensor, Tensor]] = {}


def manual_seed(seed: int = 0) -> None:
    """Starts the random numbers of all devices anew: the same seed, the same numbers."""
    global _seed
    _seed = seed
    _states.clear()


def _state(device: str) -> tuple[Tensor, Tensor]:
    """Key (two words) and counter (the words drawn so far) of a device, made at the first draw."""
    if device not in _states:
        from hashlib import sha256  # which loads OpenSSL: only for those who draw numbers

        number = sha256(len(_states).to_bytes(4, "big")).digest()
        words = [int.from_bytes(number, "big") & 0xFFFFFFFF, _seed & 0xFFFFFFFF]
        key = (words[1] << 32) | words[0]
        _states[device] = tuple(Tensor(np.array([v], np.uint64), device=device) for v in (key, 0))  # type: ignore[assignment]
    return _states[device]


def _next_words(count: int, device: Device) -> tuple[Tensor, Tensor]:
    """The key, and the counter before ``count`` words were taken, got back from the state after (the draw needs it).

    Several devices draw the same words, each from a copy of the first one's key and counter.
    """
    key, counter = _state(device if isinstance(device, str) else device[0])
    counter.assign(counter + count)
    return to(key, device), to(counter - count, device)


def _threefry(counter: Tensor, key: Tensor) -> Tensor:
    """Two words (of 32 bits, in the low and high half) for each counter of two words."""
    a, b = counter.uop, key.uop
    return Tensor.from_uop(UOp(Ops.THREEFRY, dtypes.uint64, (a, b)))


def _bits(count: int, device: Device) -> Tensor:
    """``count`` random words: 0, 1, ... enciphered by the draw's own key, which is the counter enciphered."""
    key, counter = _next_words(count, device)
    half = ceil_div(count, 2)
    low = Tensor.arange(half, dtype=dtypes.uint32).cast(dtypes.uint64)
    words = _threefry(low + half << 32 | low, _threefry(counter, key))
    return words.cast(dtypes.uint32).cat((words >> 32).cast(dtypes.uint32))[:count]


def _float_bits(dtype: DType) -> tuple[DType, int, int]:
    """The unsigned type of the same size, the bits of a mantissa, and the bits of 1.0."""
    mantissa = {dtypes.float16: 10, dtypes.bfloat16: 7, dtypes.float32: 23, dtypes.float64: 52}.get(dtype)
    if mantissa is None:
        raise DTypeError(f"no random {dtype.name}", help="draw float32 and cast")
    kind = {2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[dtype.itemsize]
    bias = (1 << (dtype.itemsize * 8 - mantissa - 2)) - 1
    return kind, mantissa, bias << mantissa


def _draw(shape: Shape, dtype: DType, device: Device) -> Tensor:
    """Uniform floats: random mantissas under the exponent of 1.0 lie in [1, 2)."""
    kind, mantissa, one = _float_bits(dtype)
    words = _bits(ceil_div(prod(shape) * dtype.itemsize, 4), device)
    drawn = words.bitcast(kind) >> (dtype.itemsize * 8 - mantissa) | one
    return (drawn.bitcast(dtype)[: prod(shape)] - 1).reshape(shape)


def rand(
    *shape: Any,
    device: Device | None = None,
    dtype: DTypeLike | None = None,
    contiguous: bool = True,
    requires_grad: bool | None = None,
) -> Tensor:
    """Floats that are uniform in [0, 1). Raises :class:`DTypeError` for a dtype that is no float."""
    wanted = check_float(dtypes.default_float if dtype is None else to_dtype(dtype), "rand")
    sizes = new_shape(shape)
    if 0 in sizes:
        return Tensor.zeros(sizes, dtype=wanted)
    return _drawn(_draw(sizes, wanted, engine().canonical_device(device)), contiguous, requires_grad)


def rand_like(x: Tensor, **kwargs: Any) -> Tensor:
    """Uniform floats in [0, 1) of the shape, dtype and device of ``x``, spread over devices as it is."""
    drawn = rand(x.shape, **{"device": x.device, "dtype": x.dtype, **kwargs, "contiguous": False})
    return _spread(drawn, x).contiguous() if kwargs.get("contiguous", True) else _spread(drawn, x)


def _spread(drawn: Tensor, x: Tensor) -> Tensor:
    """Words drawn on all devices of ``x``: each goes on with those that stand where its part of ``x`` does."""
    return shard_like(drawn, x) if isinstance(drawn.device, tuple) and drawn.device == x.device else drawn


def _drawn(made: Tensor, contiguous: bool, requires_grad: bool | None) -> Tensor:
    """A finished draw. It is kept in memory, so that all who read it see the same numbers without drawing them anew."""
    made = made.contiguous() if contiguous else made
    made.requires_grad = requires_grad
    return made


def randn(
    *shape: Any,
    device: str | None = None,
    dtype: DTypeLike | None = None,
    contiguous: bool = True,
    requires_grad: bool | None = None,
) -> Tensor:
    """Floats of the normal distribution with mean 0 and deviation 1 (Box and Muller's transform of two uniforms)."""
    wanted = check_float(dtypes.default_float if dtype is None else to_dtype(dtype), "randn")
    pair = rand(2, *new_shape(shape), device=device, dtype=dtypes.float32, contiguous=False)
    made = ((pair[0] * (2 * math.pi)).cos() * ((1 - pair[1]).log() * -2).sqrt()).cast(wanted)
    return _drawn(made, contiguous, requires_grad)


def randn_like(x: Tensor, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """Normal floats of the shape, dtype and device of ``x``, spread over devices as it is."""
    return _spread(randn(x.shape, dtype=x.dtype if dtype is None else dtype, **{"device": x.device, **kwargs}), x)


def uniform(
    *shape: Any,
    low: float = 0.0,
    high: float = 1.0,
    device: str | None = None,
    dtype: DTypeLike | None = None,
    contiguous: bool = True,
    requires_grad: bool | None = None,
) -> Tensor:
    """Values that are uniform in [low, high). Raises :class:`ArgumentError` unless ``low < high``."""
    if not low < high:
        raise ArgumentError(f"uniform between {low} and {high}", help="low < high")
    wanted = dtypes.default_float if dtype is None else to_dtype(dtype)
    made = (rand(*shape, device=device, contiguous=False) * (high - low)).cast(wanted) + low
    return _drawn(made, contiguous, requires_grad)


def randint(*shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike = dtypes.int32, **kwargs: Any) -> Tensor:
    """Whole numbers that are uniform in [low, high). Raises :class:`ArgumentError` unless ``low < high``."""
    wanted = to_dtype(dtype)
    if not dtypes.is_int(wanted):
        raise DTypeError(f"randint of {wanted.name}", help="give a whole number type")
    if not (isinstance(low, int) and isinstance(high, int)):
        raise DTypeError(f"randint between {low!r} and {high!r}", help="give ints")
    return uniform(*shape, low=low, high=high, dtype=wanted, **kwargs)


def normal(
    *shape: Any,
    mean: float = 0.0,
    std: float = 1.0,
    contiguous: bool = True,
    requires_grad: bool | None = None,
    **kwargs: Any,
) -> Tensor:
    """Normal floats with the given mean and deviation. Raises :class:`ArgumentError` for a negative deviation."""
    if std < 0:
        raise ArgumentError(f"normal with std {std}", help="std >= 0")
    return _drawn(randn(*shape, contiguous=False, **kwargs) * std + mean, contiguous, requires_grad)


def scaled_uniform(*shape: Any, **kwargs: Any) -> Tensor:
    """Uniform floats within ``prod(shape) ** -0.5`` of 0."""
    sizes = new_shape(shape)
    bound = float(prod(sizes) ** -0.5)
    return uniform(sizes, low=-bound, high=bound, **kwargs)


def glorot_uniform(*shape: Any, **kwargs: Any) -> Tensor:
    """Glorot and Bengio's weights: uniform within ``sqrt(6 / (out + in))`` of 0."""
    sizes = new_shape(shape)
    bound = (6 / (sizes[0] + prod(sizes[1:]))) ** 0.5
    return uniform(sizes, low=-bound, high=bound, **kwargs)


def _kaiming(sizes: Shape, a: float) -> float:
    return float(1 / (1 + a**2) / prod(sizes[1:]))


def kaiming_uniform(*shape: Any, a: float = 0.01, **kwargs: Any) -> Tensor:
    """He and others' weights: uniform within ``sqrt(6 / ((1 + a*a) * in))`` of 0."""
    sizes = new_shape(shape)
    bound = (6 * _kaiming(sizes, a)) ** 0.5
    return uniform(sizes, low=-bound, high=bound, **kwargs)


def kaiming_normal(*shape: Any, a: float = 0.01, **kwargs: Any) -> Tensor:
    """He and others' weights: normal with deviation ``sqrt(2 / ((1 + a*a) * in))``."""
    sizes = new_shape(shape)
    return normal(sizes, std=(2 * _kaiming(sizes, a)) ** 0.5, **kwargs)


def randperm(n: int, *, device: str | None = None, dtype: DTypeLike = dtypes.int32) -> Tensor:
    """The numbers 0 to ``n - 1`` in random order: where sorted random floats came from."""
    return rand(n, device=device).argsort().cast(dtype)


def multinomial(x: Tensor, num_samples: int = 1, replacement: bool = False) -> Tensor:
    """``num_samples`` positions along the last axis (1-d or 2-d), each drawn with the probability its weight says.

    Without ``replacement`` no position is drawn twice (Efraimidis and Spirakis' keys).
    """
    if not 1 <= x.ndim <= 2 or num_samples <= 0 or not (replacement or num_samples <= x.shape[-1]):
        raise ArgumentError(f"multinomial: {num_samples} samples of shape {x.shape}", help="1-d or 2-d, enough weights")
    weight = x.unsqueeze(0) if x.ndim == 1 else x
    if replacement or num_samples == 1:
        steps = weight.cumsum(1).float()
        share = steps / steps[:, -1].unsqueeze(1)
        drawn = (rand(num_samples, share.shape[0], 1, device=x.device) >= share).sum(2).permute(1, 0)
    else:
        drawn = (rand(weight.shape, device=x.device).log2() / weight).topk(num_samples, dim=1)[1]
    return (drawn.squeeze(0) if x.ndim == 1 else drawn).cast(dtypes.int32)


def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Each element 0 with probability ``p``, else over ``1 - p``; as it is unless the setting TRAINING is on."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout of {p}", help="a probability between 0 and 1")
    if p == 0 or not TRAINING:
        return x.clone()
    if p == 1:
        return x.const_like(0)
    kept = (rand_like(x, dtype=dtypes.default_float, contiguous=False) >= p).contiguous()
    return kept.where(x, 0) / (1.0 - p)
