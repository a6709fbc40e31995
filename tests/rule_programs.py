"""Programs that together show every rule that a trace can show: small ones, each made for a rule or a few.

What no Tensor method writes (``x * True``, a CONTIGUOUS of a CONTIGUOUS) is written as a graph: :func:`raw`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.sharded import ramp, spread
from tests.test_check_devices import PROGRAMS as ON_DEVICES
from tinysched import Context, Tensor, Variable, capture, function
from tinysched.dtypes import DType, dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.schedule.policy import Eager, Policies

raw = Tensor.from_uop
TWO = ("NUMPY", "NUMPY:1")


def data(*shape: int) -> Tensor:
    return Tensor(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 1).realize()


def attention() -> Any:
    q, k, v = (data(1, 2, 8, 4) for _ in range(3))
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def in_place() -> Any:
    x = data(6)
    x[1:].assign(x[:-1] + 1)
    return x


def elementwise_in_place() -> Any:
    x = data(6)
    x.assign(x * 2 + 1)
    return x


def empty_write() -> Any:
    x = data(6)
    x[2:2].assign(data(0))
    x[1:3].assign(data(2))
    return x


def convolution() -> Any:
    return data(1, 2, 6, 6).conv2d(data(3, 2, 3, 3), padding=1).relu().max_pool2d()


def many_inputs() -> Any:
    inputs = [data(4, 4) for _ in range(8)]
    with Context(MAX_KERNEL_BUFFERS=4):
        return capture(sum(inputs[1:], inputs[0]))


def large_sum() -> Any:
    with Context(REDUCEOP_SPLIT_THRESHOLD=64):
        return capture(data(16, 16).sum())


def ints(*shape: int) -> UOp:
    return data(*shape).cast("int32").realize().uop


def bools(*shape: int) -> UOp:
    return (data(*shape) > 2).realize().uop


def number(value: Any, dtype: DType) -> UOp:
    return UOp.const(value, dtype)


def to_itself() -> Any:
    x = data(6)
    x.assign(x * 1.0)
    return x


def same_value_twice() -> Any:
    x, v = data(6), data(2) * 2
    x[1:3].assign(v)
    y = x * 3
    x[1:3].assign(v)
    return [x, y]


def through_bits() -> Any:
    memory = data(6).uop.base
    return raw(memory.after(memory.bitcast(dtypes.int32).store(ints(6).base)))


def partial() -> Any:
    total = (data(3, 4, 5) * 2).exp().sum(2)
    with Context(PCONTIG=1):
        return capture(total + total.flip(1))


def variable_copy() -> Any:
    n = Variable("n", 1, 8).bind(3)
    return (data(8) * 2)[:n].to("NUMPY:1").pad(((0, 8 - n),)) + 1


def variable_number() -> Any:
    n = Variable("n", 1, 4).bind(3)
    return raw(((n + n) * 2 + n).cast(dtypes.float32)) + data(4)


def pool_gradient() -> Any:
    x = data(1, 1, 4, 4)
    return (x * 2).relu().max_pool2d().sum().gradient(x)[0]


def joined_again() -> Any:
    x, y = spread(ramp(4, 8), 2, 0), spread(ramp(8, 4), 2, 1)
    return (x + y.T).shard(x.device, 1)


@function
def inlined(x: Tensor) -> Tensor:
    return x * 2 + raw(number(2.0, dtypes.float32).expand_leading((4,)).contiguous())


def constant_plane() -> Any:
    """Kept by a policy that keeps everything, if it were not a constant."""
    z = (Tensor.arange(16).reshape(4, 4) >= 0).float()
    return capture(z.exp() + z.T.exp(), policies=Policies(Eager()))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "attention": attention,
    "in place": in_place,
    "elementwise in place": elementwise_in_place,
    "convolution": convolution,
    "many inputs": many_inputs,
    "large sum": large_sum,
    "layernorm": lambda: data(4, 8).layernorm(),
    "gather": lambda: data(6, 3)[Tensor([1, 4, 2]).realize()],
    "one hot": lambda: Tensor([1, 0, 2]).realize().one_hot(4),
    "arange": lambda: Tensor.arange(10).float() + data(10),
    "cumsum": lambda: data(10).cumsum(),
    "nothing": lambda: data(0, 4).sum(0) + data(4),
    "repeated": lambda: data(4).reshape(4, 1).expand(4, 8).sum(1),
    "reordered": lambda: (lambda y: y + y.T)(data(4, 4) * 2),
    "hints": lambda: (data(4) * 2).detach().contiguous_backward() + 3,
    "twice": lambda: (data(4) + 1) * 1.0 + (data(4) * 2 + 0.0),
    "bits": lambda: (data(4) * 2).bitcast("int32") & 7,
    "masks": lambda: ((data(4) > 2).where(1.0, 0.0) * 3).relu(),
    "flip": lambda: data(3, 4).flip(0).pad(((1, 1), (0, 0))).permute(1, 0) * 2,
    "half": lambda: data(4).half().float() * 2,
    "integers": lambda: (data(8).cast("int32") // 4).float(),
    "roll": lambda: data(8).reshape(2, 4).repeat(2, 1) + 1,
    "interpolate": lambda: data(1, 1, 4, 4).interpolate((8, 8), mode="linear"),
    "sorted": lambda: data(16).sort()[0],
    "empty part": lambda: (data(0, 4) * 2).pad(((0, 2), (0, 0))) + data(2, 4),
    "constants": lambda: Tensor.full((4,), 2.0).sqrt() * Tensor.full((4,), 3.0) + data(4),
    "empty write": empty_write,
    "cat": lambda: data(2, 3).cat(data(4, 3) * 2),
    "function": lambda: inlined(data(4)),
    "negative zero": lambda: data(4) * 2 + (-0.0),
    "plus zero": lambda: raw(ints(4).alu(Ops.ADD, number(0, dtypes.int32))),
    "minus zero": lambda: raw(data(4).uop.alu(Ops.SUB, number(0.0, dtypes.float32))),
    "over one": lambda: raw(data(4).uop.alu(Ops.FDIV, number(1.0, dtypes.float32))),
    "times zero": lambda: raw(ints(4).alu(Ops.MUL, number(0, dtypes.int32))) + raw(ints(4)),
    "shifted by zero": lambda: raw(ints(4).alu(Ops.SHL, number(0, dtypes.int32))),
    "the larger of one": lambda: raw((lambda x: x.alu(Ops.MAX, x))(data(4).uop)),
    "whole already": lambda: raw(ints(4).alu(Ops.TRUNC)),
    "and true": lambda: raw(bools(4).alu(Ops.AND, number(True, dtypes.bool))),
    "or false": lambda: raw(bools(4).alu(Ops.OR, number(False, dtypes.bool))),
    "or itself and": lambda: raw((lambda a, b: a.alu(Ops.OR, a.alu(Ops.AND, b)))(bools(4), bools(4))),
    "not false": lambda: raw(bools(4).alu(Ops.CMPNE, number(False, dtypes.bool))),
    "not not": lambda: raw(bools(4).logical_not().logical_not()),
    "one or none": lambda: raw(bools(4).cast(dtypes.int32).alu(Ops.CMPNE, number(0, dtypes.int32))),
    "product of bools": lambda: raw(bools(4).alu(Ops.MUL, bools(4))),
    "tightest bound": lambda: ((Tensor.arange(12) < 5) & (Tensor.arange(12) < 9)).where(data(12), 1.0),
    "never equal": lambda: (Tensor.arange(4) == 9).where(data(4), 1.0),
    "always less": lambda: raw(ints(4).alu(Ops.FLOORMOD, number(4, dtypes.int32)) < number(9, dtypes.int32)),
    "where not": lambda: raw(bools(4).logical_not().where(data(4).uop, (data(4) * 2).uop)),
    "where both are one": lambda: raw((lambda v: bools(4).where(v, v))((data(4) * 2).uop)),
    "sorted rows": lambda: list(data(4, 5).sort(1)),
    "pool gradient": pool_gradient,
    "wider and wider": lambda: raw(ints(4).cast(dtypes.int64).cast(dtypes.float64)) + 1,
    "cast to what it is": lambda: raw(UOp(Ops.CAST, dtypes.float32, ((data(4) * 2).uop,))) + 1,
    "reshaped to what it is": lambda: raw(UOp(Ops.RESHAPE, dtypes.float32, ((data(4) * 2).uop,), (4,))) + 1,
    "kept twice": lambda: raw((data(4) * 2).uop.contiguous().contiguous()) + 1,
    "nowhere": lambda: data(4).pad(((4, 0),))[:4] + data(4),
    "a plane of one number": constant_plane,
    "flat": lambda: (data(2, 3, 4) * 2).reshape(24) + 1,
    "digits": lambda: (data(4, 3, 6) * 2).reshape(9, 8).permute(1, 0).reshape(24, 3) + 1,
    "digits of eight": lambda: (data(4, 2, 2) * 2).flip(1).reshape(2, 8) + 1,
    "digits in common": lambda: (data(2, 2, 6) * 2).flip(0).reshape(8, 3) + 1,
    "mirrored digits": lambda: (data(6, 2, 2) * 2).flip(1).reshape(24).flip(0) + 1,
    "one digit of two": lambda: (data(2, 4, 2) * 2).flip(0).reshape(8, 2).flip(1).reshape(2, 2, 4) + 1,
    "to itself": to_itself,
    "same value twice": same_value_twice,
    "through bits": through_bits,
    "partial": partial,
    "copy of a Variable size": variable_copy,
    "a number with a Variable": variable_number,
    "a shard": lambda: raw(UOp(Ops.MSELECT, dtypes.float32, (spread(ramp(4, 6), 2, 0).uop,), 1)) + 1,
    "joined again": joined_again,
} | {f"on devices: {name}": program for name, program in ON_DEVICES.items()}
