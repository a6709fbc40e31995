"""The table that binds the free functions of this package to Tensor: each line is a method, its name and its function.

In: the functions. Out: :func:`bind`, called once, which makes them methods. To a type checker the table is a base class
of Tensor, so that every method has the types of its function.

>>> from tinysched import Tensor
>>> Tensor.sum is TensorMethods.__dict__["sum"]
True
"""

from __future__ import annotations

from typing import Any

from tinysched import gradient as _gradient
from tinysched.tensor import (
    activations,
    checks,
    creation,
    elementwise,
    functions,
    indexing,
    inplace,
    movement,
    nn_ops,
    operands,
    placement,
    random,
    reduce,
    sharding,
)
from tinysched.tensor import sorting as _sorting
from tinysched.tensor.core import Tensor
from tinysched.tensor.einsum import einsum


class TensorMethods:
    """Every method of Tensor but those that :mod:`tinysched.tensor.core` defines."""

    # creation
    empty = staticmethod(creation.empty)
    full = staticmethod(creation.full)
    zeros = staticmethod(creation.zeros)
    ones = staticmethod(creation.ones)
    arange = staticmethod(creation.arange)
    linspace = staticmethod(creation.linspace)
    eye = staticmethod(creation.eye)
    empty_like = creation.empty_like
    full_like = creation.full_like
    zeros_like = creation.zeros_like
    ones_like = creation.ones_like
    const_like = creation.const_like
    triu = creation.triu
    tril = creation.tril

    # random numbers
    manual_seed = staticmethod(random.manual_seed)
    rand = staticmethod(random.rand)
    randn = staticmethod(random.randn)
    randint = staticmethod(random.randint)
    uniform = staticmethod(random.uniform)
    normal = staticmethod(random.normal)
    scaled_uniform = staticmethod(random.scaled_uniform)
    glorot_uniform = staticmethod(random.glorot_uniform)
    kaiming_uniform = staticmethod(random.kaiming_uniform)
    kaiming_normal = staticmethod(random.kaiming_normal)
    randperm = staticmethod(random.randperm)
    rand_like = random.rand_like
    randn_like = random.randn_like
    multinomial = random.multinomial
    dropout = random.dropout

    # movement
    reshape = movement.reshape
    view = movement.reshape
    size = movement.size
    flatten = movement.flatten
    unflatten = movement.unflatten
    squeeze = movement.squeeze
    unsqueeze = movement.unsqueeze
    permute = movement.permute
    transpose = movement.transpose
    flip = movement.flip
    shrink = movement.shrink
    shrink_to = movement.shrink_to
    pad = movement.pad
    pad_to = movement.pad_to
    roll = movement.roll
    split = movement.split
    chunk = movement.chunk
    expand = movement.expand
    broadcast_to = movement.broadcast_to
    repeat = movement.repeat
    repeat_interleave = movement.repeat_interleave
    pool = movement.pool
    unfold = movement.unfold
    stack = movement.stack
    cat = movement.cat
    meshgrid = movement.meshgrid
    diag = movement.diag
    diagonal = movement.diagonal

    @property
    def T(self: Any) -> Tensor:
        """The first two axes swapped."""
        return movement.T(self)

    # indexing, sorting
    __getitem__ = indexing.getitem
    __setitem__ = indexing.setitem
    __iter__ = indexing.rows
    gather = indexing.gather
    one_hot = indexing.one_hot
    scatter = _sorting.scatter
    scatter_reduce = _sorting.scatter_reduce
    sort = _sorting.sort
    argsort = _sorting.argsort
    topk = _sorting.topk
    masked_select = _sorting.masked_select
    nonzero = _sorting.nonzero

    # dtype, device, what it is for
    cast = operands.cast
    bitcast = operands.bitcast
    float, half, double = operands.to_float, operands.to_half, operands.to_double
    bfloat16, bool = operands.to_bfloat16, operands.to_bool
    int, long, short = operands.to_int, operands.to_long, operands.to_short
    is_floating_point = activations.is_floating_point
    contiguous = placement.contiguous
    contiguous_backward = placement.contiguous_backward
    detach = placement.detach
    clone = placement.clone
    __copy__, __deepcopy__ = placement.copied, placement.deeply_copied
    __reduce_ex__ = placement.reduced  # type: ignore[assignment]
    to = placement.to
    to_ = placement.to_
    shard, shard_, shard_like = sharding.shard, sharding.shard_, sharding.shard_like
    replace = inplace.replace
    gradient = _gradient.gradient
    backward = _gradient.backward

    # operators
    __add__, __radd__, __iadd__ = elementwise.add, elementwise.radd, inplace.iadd
    __sub__, __rsub__, __isub__ = elementwise.sub, elementwise.rsub, inplace.isub
    __mul__, __rmul__, __imul__ = elementwise.mul, elementwise.rmul, inplace.imul
    __truediv__, __rtruediv__, __itruediv__ = elementwise.div, elementwise.rdiv, inplace.itruediv
    __floordiv__, __rfloordiv__, __ifloordiv__ = elementwise.floordiv, elementwise.rfloordiv, inplace.ifloordiv
    __mod__, __rmod__, __imod__ = elementwise.mod, elementwise.rmod, inplace.imod
    __pow__, __rpow__, __ipow__ = elementwise.pow, elementwise.rpow, inplace.ipow
    __and__, __rand__, __iand__ = elementwise.bitwise_and, elementwise.bitwise_and, inplace.iand
    __or__, __ror__, __ior__ = elementwise.bitwise_or, elementwise.bitwise_or, inplace.ior
    __xor__, __rxor__, __ixor__ = elementwise.bitwise_xor, elementwise.bitwise_xor, inplace.ixor
    __lshift__, __rlshift__, __ilshift__ = elementwise.lshift, elementwise.rlshift, inplace.ilshift
    __rshift__, __rrshift__, __irshift__ = elementwise.rshift, elementwise.rrshift, inplace.irshift
    __matmul__, __rmatmul__, __imatmul__ = nn_ops.dot, nn_ops.rmatmul, inplace.imatmul
    __lt__, __le__, __gt__, __ge__ = elementwise.lt, elementwise.le, elementwise.gt, elementwise.ge
    __eq__, __ne__ = elementwise.eq, elementwise.ne  # type: ignore[assignment]
    __neg__, __invert__, __abs__ = elementwise.neg, elementwise.bitwise_not, functions.abs

    # elementwise
    add, sub, mul, div = elementwise.add, elementwise.sub, elementwise.mul, elementwise.div
    mod, fmod, pow, neg = elementwise.mod, elementwise.fmod, elementwise.pow, elementwise.neg
    eq, ne, lt, le, gt, ge = (
        elementwise.eq, elementwise.ne, elementwise.lt, elementwise.le, elementwise.gt, elementwise.ge,
    )  # fmt: skip
    logical_not = elementwise.logical_not
    bitwise_and, bitwise_or = elementwise.bitwise_and, elementwise.bitwise_or
    bitwise_xor, bitwise_not = elementwise.bitwise_xor, elementwise.bitwise_not
    lshift, rshift = elementwise.lshift, elementwise.rshift
    where, masked_fill = elementwise.where, elementwise.masked_fill
    maximum, minimum = elementwise.maximum, elementwise.minimum
    clamp, clip = elementwise.clamp, elementwise.clamp
    reciprocal, square = elementwise.reciprocal, elementwise.square
    exp, exp2, log, log2, log10 = (
        functions.exp, functions.exp2, functions.log, functions.log2, functions.log10,
    )  # fmt: skip
    sqrt, rsqrt = functions.sqrt, functions.rsqrt
    sin, cos, tan = functions.sin, functions.cos, functions.tan
    trunc, floor, ceil, round = functions.trunc, functions.floor, functions.ceil, functions.round
    sign, abs, copysign = functions.sign, functions.abs, functions.copysign
    isnan, isinf, isfinite, isclose = (
        functions.isnan, functions.isinf, functions.isfinite, functions.isclose,
    )  # fmt: skip
    allclose = functions.allclose
    lerp, logaddexp = functions.lerp, functions.logaddexp

    # activations
    relu, relu6, leaky_relu = activations.relu, activations.relu6, activations.leaky_relu
    sigmoid, tanh, logsigmoid = activations.sigmoid, activations.tanh, activations.logsigmoid
    gelu, quick_gelu = activations.gelu, activations.quick_gelu
    silu, swish, mish = activations.silu, activations.silu, activations.mish
    elu, celu, selu = activations.elu, activations.celu, activations.selu
    softplus, softsign = activations.softplus, activations.softsign
    hardswish, hardsigmoid, hardtanh = activations.hardswish, activations.hardsigmoid, activations.hardtanh
    sinh, cosh = activations.sinh, activations.cosh
    asinh, acosh, atanh = activations.asinh, activations.acosh, activations.atanh
    asin, acos, atan, erf = activations.asin, activations.acos, activations.atan, activations.erf

    # reductions
    sum, prod, mean = reduce.sum, reduce.prod_, reduce.mean
    max, min, any, all = reduce.max_, reduce.min_, reduce.any_, reduce.all_
    argmax, argmin = reduce.argmax, reduce.argmin
    var, std, var_mean, std_mean = reduce.var, reduce.std, reduce.var_mean, reduce.std_mean
    logsumexp, softmax, log_softmax = reduce.logsumexp, reduce.softmax, reduce.log_softmax
    normalize = reduce.normalize
    cumsum, cumprod = reduce.cumsum, reduce.cumprod
    cummax, cummin, logcumsumexp = reduce.cummax, reduce.cummin, reduce.logcumsumexp

    # neural networks
    dot, matmul, linear, sequential = nn_ops.dot, nn_ops.matmul, nn_ops.linear, nn_ops.sequential
    conv2d, conv_transpose2d = nn_ops.conv2d, nn_ops.conv_transpose2d
    avg_pool2d, max_pool2d = nn_ops.avg_pool2d, nn_ops.max_pool2d
    interpolate = nn_ops.interpolate
    einsum = staticmethod(einsum)
    layernorm, batchnorm = nn_ops.layernorm, nn_ops.batchnorm
    scaled_dot_product_attention = nn_ops.scaled_dot_product_attention
    cross_entropy, nll_loss = nn_ops.cross_entropy, nn_ops.nll_loss
    sparse_categorical_crossentropy = nn_ops.sparse_categorical_crossentropy
    binary_crossentropy = nn_ops.binary_crossentropy
    binary_crossentropy_logits = nn_ops.binary_crossentropy_logits


_NOT_METHODS = {"__module__", "__doc__", "__dict__", "__weakref__", "__hash__", "__qualname__", "__annotations__"}


def bind(tensor: type[Tensor]) -> None:
    """Makes every line of the table a method of ``tensor``."""
    for name, method in vars(TensorMethods).items():
        if name not in _NOT_METHODS:
            setattr(tensor, name, method)
    setattr(tensor, "__getattr__", checks.missing)  # noqa: B010  # no line of the table: every name would be known
