"""A smallest program for each reason: the reference runs it, and shows the sentence that the explainer then says.

In: nothing. Out: :data:`EXAMPLES`, a function for each :class:`Reason`; it is called as the reason is, in small letters,
and returns a trace in which that decision is taken.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable

from tinysched import Context, Tensor, capture, function
from tinysched.ir.decision import Reason
from tinysched.schedule.policy import Eager, Policies
from tinysched.trace import Trace

TWO, FOUR = ("NUMPY", "NUMPY:1"), ("NUMPY", "NUMPY:1", "NUMPY:2", "NUMPY:3")

WITHOUT = {Reason.MULTI_DEVICE: "Tensors never lead here: it guards graphs of many devices that are built by hand."}
"""Reasons for which no program can be written, and why."""


def data(*shape: int) -> Tensor:
    """A Tensor with its values in memory."""
    return Tensor.rand(*shape).realize()


# ** callify: what has to be in memory, and whether a write happens in place **


def forced_output() -> Trace:
    x = data(4, 3)
    y = x.exp()
    return capture(y)


def buffer_view() -> Trace:
    x = data(10)
    part = x[2:8].contiguous()
    return capture(part)


def not_held() -> Trace:
    x = data(4)
    x.assign(x * 2)
    return capture(x)


def held() -> Trace:
    x = data(4)
    y = x + 1  # lazy, and alive: it will read the old x
    x.assign(x * 2)
    return capture(x, inputs={"x": x, "y": y})


def superseded() -> Trace:
    x = data(4)
    x.assign(data(4) * 3)
    x.assign(x + 1)
    return capture(x)


def two_states() -> Trace:
    def product() -> Tensor:
        x = data(4)
        old = x + 1
        x.assign(x * 2)
        return old * x

    return capture(product)


def cache_miss() -> Trace:
    x = data(3)
    return capture(x * 5 + 7)


def cache_hit() -> Trace:
    x = data(3)
    capture(x * 5 + 1)
    return capture(x * 5 + 1)


def one_buffer_per_device() -> Trace:
    x = data(8, 4).shard(TWO, 0)
    return capture(x + 1)


# ** prepare: functions, large reductions, many devices **


def inlined() -> Trace:
    @function
    def double(a: Tensor) -> Tensor:
        return a * 2

    return capture(double(data(4) + 1).sum(0))


def precompiled() -> Trace:
    @function(precompile=True)
    def double(a: Tensor) -> Tensor:
        return a * 2

    return capture(double(data(4) + 1).sum(0))


def function_argument() -> Trace:
    @function(precompile=True)
    def double(a: Tensor) -> Tensor:
        return a * 2

    x = data(4)
    return capture(double(x + 1).sum(0))


def empty() -> Trace:
    nothing = data(0, 4)
    return capture(nothing.sum(0) + data(4))


def reduce_split() -> Trace:
    x = data(256, 256)
    return capture(x.sum())


def reduce_not_split() -> Trace:
    x = data(4, 3)
    return capture(x.sum(1))


def own_part() -> Trace:
    x = data(8, 4).shard(TWO, 0)
    return capture(x + 1)


def resharded() -> Trace:
    rows, columns = data(4, 4).shard(TWO, 0), data(4, 4).shard(TWO, 1)
    return capture(rows + columns)


def replicated() -> Trace:
    x, w = data(4, 4).shard(TWO, 0), data(4, 4)
    return capture(x * w.shard(TWO, None))


def gathered() -> Trace:
    y = data(4, 4).shard(TWO, 0) + 1
    return capture(y.to("NUMPY"))


def allreduce_naive() -> Trace:
    x = data(8, 4).shard(TWO, 0)
    return capture(x.sum(0))


def allreduce_ring() -> Trace:
    x = data(8, 4).shard(FOUR, 0)
    with Context(RING=2):
        return capture(x.sum(0))


def allreduce_all2all() -> Trace:
    x = data(8, 4).shard(FOUR, 0)
    with Context(ALL2ALL=2):
        return capture(x.sum(0))


# ** rangeify: which values share their reader's loops **


def forced_contiguous() -> Trace:
    y = data(4, 3) * 2
    return capture(y.contiguous().sum(0))


def forced_store() -> Trace:
    y = data(4, 3) * 2
    return capture(y)


def store_reads_target() -> Trace:
    x = data(4)
    x.assign(x.flip(0) + 1)
    return capture(x)


def crosses_devices() -> Trace:
    y = data(4, 3) * 2
    return capture(y.to("NUMPY:1") + 1)


def single_consumer() -> Trace:
    y = data(4, 3) * 2
    return capture(y.sum(0))


def consumers_agree() -> Trace:
    y = data(4, 3) * 2
    return capture((y + 1) * y.sqrt())


def consumers_disagree() -> Trace:
    a, b, c, d = (data(4, 4) for _ in range(4))
    y = a + b + c + d
    return capture(y + y.T)


def range_ended() -> Trace:
    x = data(4, 3)
    total = x.sum(1, keepdim=True)
    return capture(x / total)


def before_loops() -> Trace:
    x = data(4, 3)
    total = x.sum()
    return capture(x * total)


def override() -> Trace:
    y = data(4, 3) * 2
    return capture(y.sum(0), inputs={"y": y}, overrides={"y": "realize"})


# ** simplify: which candidate buffers are worth their memory **


def cost_too_many_buffers() -> Trace:
    a, b, c, d = (data(4, 4) for _ in range(4))
    y = a + b + c + d
    return capture(y + y.T)


def cost_reduce_reads_buffer() -> Trace:
    y = data(4, 3) @ data(3, 4)
    return capture(y + y.T)


def only_reorders() -> Trace:
    y = data(4, 4) * 2
    return capture(y + y.T)


def user_forced() -> Trace:
    y = data(4, 3) * 2
    return capture(y.contiguous().sum(0))


def policy() -> Trace:
    y = data(4, 4) * 2
    return capture(y + y.T, policies=Policies(fusion=Eager()))


def constant() -> Trace:
    positive = (Tensor.arange(16).reshape(4, 4) >= 0).float()
    return capture(positive.exp() + positive.T.exp())


def dead_axis() -> Trace:
    x = data(4)
    return capture(x.reshape(4, 1).expand(4, 8).sum(1))


def closed_form() -> Trace:
    x = data(10)
    return capture(Tensor.arange(10) + x)


# ** later passes **


def buffer_limit() -> Trace:
    inputs = [data(4) for _ in range(8)]
    with Context(MAX_KERNEL_BUFFERS=4):
        return capture(sum(inputs[1:], inputs[0]))


def only_moves_bytes() -> Trace:
    x = data(4, 3)
    return capture(x.to("NUMPY:1") + 1)


def smaller_arena() -> Trace:
    a, b, c, d = (data(8, 8) for _ in range(4))
    return capture(a @ b @ c @ d)


Example = Callable[[], Trace]


def _examples() -> dict[Reason, Example]:
    """The functions above, by the reason that each is called after."""
    here = vars(sys.modules[__name__])
    return {reason: here[reason.name.lower()] for reason in Reason if reason.name.lower() in here}


EXAMPLES: dict[Reason, Example] = _examples()


def source_of(example: Example) -> str:
    """The lines of an example as one would write them in a cell: without its ``def`` and ``return``."""
    body = inspect.getsource(example).split("\n", 1)[1]
    return re.sub(r"\breturn (?=capture\()", "trace = ", inspect.cleandoc(body))
