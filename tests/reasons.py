"""A program for each reason that a decision can have, what its sentence says, and the program that turns it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinysched import Context, Tensor, capture, clear_caches, function
from tinysched.ir.decision import Reason
from tinysched.schedule.planners import Greedy
from tinysched.schedule.policy import Eager, Policies, Upstream
from tinysched.trace import Trace

TWO, FOUR = ("NUMPY", "NUMPY:1"), ("NUMPY", "NUMPY:1", "NUMPY:2", "NUMPY:3")


def data(*shape: int) -> Tensor:
    """A realized Tensor."""
    return Tensor(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 1).realize()


# ** programs **


def stored_for_readers(**choices: Any) -> Trace:
    a, b, c, d = (data(4, 4) for _ in range(4))
    y = a + b + c + d
    return capture(y + y.T, inputs={"a": a, "b": b, "c": c, "d": d, "y": y}, **choices)


def read_twice_alike(**choices: Any) -> Trace:
    y = data(4, 4) * 2
    return capture((y + 1) * y.sqrt(), inputs={"y": y}, **choices)


def doubled(**choices: Any) -> Trace:
    y = data(4, 4) * 2
    return capture(y.sum(0), inputs={"y": y}, **choices)


def reordered(**choices: Any) -> Trace:
    y = data(4, 4) * 2
    return capture(y + y.T, inputs={"y": y}, **choices)


def normalized(**choices: Any) -> Trace:
    x = data(4, 4)
    total = x.sum(1)
    return capture(x * total.reshape(4, 1), inputs={"x": x, "total": total}, **choices)


def scaled_by_total(**choices: Any) -> Trace:
    x = data(4, 4)
    total = x.sum()
    return capture(x * total, inputs={"x": x, "total": total}, **choices)


def product_and_transpose(**choices: Any) -> Trace:
    y = data(4, 4) @ data(4, 4)
    return capture(y + y.T, inputs={"y": y}, **choices)


def contiguous(hint: bool = True) -> Trace:
    y = data(4, 4) * 2
    return capture((y.contiguous() if hint else y).sum(0))


def flipped_in_place(other: bool = False) -> Trace:
    x = data(4, 4)
    target = data(4, 4) if other else x
    target.assign(x.flip(0) + 1)
    return capture(target, inputs={"x": x})


def eight_inputs(limit: int) -> Trace:
    inputs = [data(4, 4) for _ in range(8)]
    with Context(MAX_KERNEL_BUFFERS=limit):
        return capture(sum(inputs[1:], inputs[0]))


def large_sum(threshold: int = 32768) -> Trace:
    with Context(REDUCEOP_SPLIT_THRESHOLD=threshold):
        return capture(data(256, 256).sum())


def constant(real: bool = False) -> Trace:
    z = (data(4, 4) if real else Tensor.arange(16).reshape(4, 4)) >= 0
    return capture(z.float().exp() + z.float().T.exp())


def repeated_sum(axis: int = 1) -> Trace:
    return capture(data(4).reshape(4, 1).expand(4, 8).sum(axis))


def counted(real: bool = False) -> Trace:
    return capture(data(10).cumsum() if real else Tensor.arange(10) + data(10))


def part_of_memory(step: int = 1) -> Trace:
    return capture(data(10)[2:8:step].contiguous())


def overwritten(held: bool) -> Trace:
    x = data(4)
    y = x + 1
    if not held:
        del y
    x.assign(x * 2)
    return capture(x, inputs={"x": x})


def written_twice(read_between: bool = False) -> Trace:
    x = data(4)
    x.assign(data(4) * 3)
    y = x + 5 if read_between else None
    x.assign(x + 1)
    return capture(x if y is None else (x, y))


def old_and_new(apart: bool = False) -> Trace:
    def product() -> Tensor:
        x = data(4)
        old = x + 1
        if apart:
            old.realize()
        x.assign(x * 2)
        return old * x

    return capture(product)


def of_nothing(n: int = 0) -> Trace:
    return capture(data(n, 4).sum(0) + data(4))


def seen_before(before: bool) -> Trace:
    x = data(3)
    clear_caches()
    if before:
        capture(x * 5 + 1)
    return capture(x * 5 + 1)


def overridden(what: dict[str, str]) -> Trace:
    return doubled(overrides=what)


def chain_of_products(**choices: Any) -> Trace:
    return capture(((data(8, 8) @ data(8, 8)) @ data(8, 8)) @ data(8, 8), **choices)


def sharded(devices: Any = TWO) -> Trace:
    x = data(8, 4)
    return capture((x.shard(devices, 0) if len(devices) > 1 else x) + 1)


def added_up(devices: Any = TWO, **settings: int) -> Trace:
    with Context(**settings):
        return capture(data(8, 4).shard(devices, 0).sum(0))


def two_layouts(axis: int = 1) -> Trace:
    return capture(data(4, 4).shard(TWO, 0) + data(4, 4).shard(TWO, axis))


def whole_weights(axis: int | None = None) -> Trace:
    w = data(4, 4)
    return capture(data(4, 4).shard(TWO, 0) * w.shard(TWO, axis))


def gathered(to: str | None = "NUMPY") -> Trace:
    y = data(4, 4).shard(TWO, 0) + 1
    return capture(y if to is None else y.to(to))


def other_device(to: str = "NUMPY:1") -> Trace:
    return capture((data(4, 4) * 2).to(to) + 1)


def moved(to: str = "NUMPY:1") -> Trace:
    return capture(data(4, 4).to(to) + 1)


def by_function(precompile: bool) -> Trace:
    @function(precompile=precompile)
    def double(a: Tensor) -> Tensor:
        return a * 2

    return capture(double(data(4) + 1).sum(0))


def asked(also: bool = True) -> Trace:
    y = data(4, 4) * 2
    z = y.sum(0)
    return capture((y, z) if also else z, inputs={"y": y})


@dataclass(frozen=True)
class Case:
    """A program with a reason in it, what its sentence says, and the same with the decision turned."""

    program: Callable[[], Trace]
    says: tuple[str, ...]
    flipped: Callable[[], Trace]
    about: str | None = None  # the named value whose decision is looked at


FUSE, REALIZE = {"y": "fuse"}, {"y": "realize"}
CASES: dict[Reason, Case] = {
    Reason.SINGLE_CONSUMER: Case(
        doubled, ("`y` is fused: only sum ⟂0", "reads it, at [R1, r0]"), lambda: doubled(overrides=REALIZE), "y"
    ),
    Reason.CONSUMERS_AGREE: Case(
        read_twice_alike,
        ("`y` is fused: its 2 readers (add and sqrt) all read it at [r0, r1]",),
        lambda: read_twice_alike(overrides=REALIZE),
    ),
    Reason.CONSUMERS_DISAGREE: Case(
        stored_for_readers,
        ("`y` is stored (4 × 4, 64 B)", "two readers loop differently", "at [r1, r0]", "axis 0 would be `r1` and `r0`"),
        lambda: stored_for_readers(overrides=FUSE),
    ),
    Reason.BEFORE_LOOPS: Case(
        scaled_by_total,
        ("`total` is fused", "no axes", "once, before the loops"),
        lambda: scaled_by_total(overrides={"total": "realize"}),
    ),
    Reason.RANGE_ENDED: Case(
        normalized,
        ("`total` is stored (4, 16 B)", "repeats it along `r1`", "again and again, 4 times"),
        lambda: normalized(overrides={"total": "fuse"}),
    ),
    Reason.COST_TOO_MANY_BUFFERS: Case(
        stored_for_readers,
        ("`y` stays in memory", "would read 4 buffers (`a`, `b`, `c` and `d`), the limit is 3"),
        lambda: stored_for_readers(policies=Policies(fusion=Upstream(4))),
    ),
    Reason.COST_REDUCE_READS_BUFFER: Case(
        product_and_transpose,
        ("`y` stays in memory", "it is a reduction that reads", "would be repeated for every element"),
        lambda: product_and_transpose(overrides=FUSE),
    ),
    Reason.ONLY_REORDERS: Case(
        reordered,
        ("`y` is fused back", "costs less than a buffer", "reads 1 buffer, the limit is 3"),
        lambda: reordered(overrides=REALIZE),
    ),
    Reason.FORCED_CONTIGUOUS: Case(
        contiguous, ("is stored (4 × 4, 64 B): contiguous() asks for memory",), lambda: contiguous(False)
    ),
    Reason.USER_FORCED: Case(contiguous, ("stays in memory", "a buffer was asked for"), lambda: contiguous(False)),
    Reason.BUFFER_LIMIT: Case(
        lambda: eight_inputs(4), ("would have 5 arguments, the limit is 4",), lambda: eight_inputs(5)
    ),
    Reason.REDUCE_SPLIT: Case(
        large_sum, ("65,536 inputs for each output, against a threshold of 32,768", "256 pieces"),
        lambda: large_sum(65537),
    ),
    Reason.REDUCE_NOT_SPLIT: Case(
        lambda: large_sum(65537),
        ("is reduced in one kernel: 65,536 inputs for each output, against a threshold of 65,537",),
        lambda: large_sum(65536),
    ),
    Reason.OVERRIDE: Case(lambda: overridden(REALIZE), ("`y` is stored", "an override says so"), doubled),
    Reason.POLICY: Case(
        lambda: reordered(policies=Policies(Eager())), ("`y` stays in memory", "policy Eager() says so"), reordered
    ),
    Reason.SMALLER_ARENA: Case(
        chain_of_products,
        ("planner tlsf", "greedy needs 512 B", "no plan could need less than 512 B"),
        lambda: chain_of_products(policies=Policies(memory=Greedy())),
    ),
    Reason.ALLREDUCE_NAIVE: Case(added_up, ("few elements or two devices",), lambda: added_up(RING=2)),
    Reason.ALLREDUCE_RING: Case(
        lambda: added_up(FOUR, RING=2), ("chunks go around", "threshold 256,000"), lambda: added_up(FOUR, RING=0)
    ),
    Reason.ALLREDUCE_ALL2ALL: Case(
        lambda: added_up(FOUR, ALL2ALL=2), ("adds up one chunk",), lambda: added_up(FOUR, ALL2ALL=0)
    ),
    # ** what scheduling again cannot turn: another program does **
    Reason.FORCED_OUTPUT: Case(asked, ("`y` is stored (4 × 4, 64 B): it was asked for",), lambda: asked(False), "y"),
    Reason.FORCED_STORE: Case(asked, ("`y` is stored", "a write is where a kernel ends"), lambda: asked(False), "y"),
    Reason.STORE_READS_TARGET: Case(
        flipped_in_place, ("it is written to", "overwritten before they are read"), lambda: flipped_in_place(True)
    ),
    Reason.CONSTANT: Case(constant, ("needs no buffer: it is a constant",), lambda: constant(True)),
    Reason.DEAD_AXIS: Case(
        repeated_sum, ("nothing in it changes along `R1`", "multiplication by its length"), lambda: repeated_sum(0)
    ),
    Reason.CLOSED_FORM: Case(counted, ("the sum is arithmetic and needs no loop",), lambda: capture(data(10).sum())),
    Reason.BUFFER_VIEW: Case(
        part_of_memory, ("needs no kernel: it is a contiguous part of memory",), lambda: part_of_memory(2)
    ),
    Reason.HELD: Case(
        lambda: overwritten(True), ("fresh memory: a Tensor of shape (4,) still needs the old value",),
        lambda: overwritten(False),
    ),
    Reason.NOT_HELD: Case(
        lambda: overwritten(False), ("is written in place: nobody else reads the old value",), lambda: overwritten(True)
    ),
    Reason.SUPERSEDED: Case(written_twice, ("only the next write reads it",), lambda: written_twice(True)),
    Reason.TWO_STATES: Case(
        old_and_new, ("as it was before the write and as it is after it",), lambda: old_and_new(True)
    ),
    Reason.EMPTY: Case(of_nothing, ("needs no buffer: it has no elements",), lambda: of_nothing(2)),
    Reason.CACHE_HIT: Case(
        lambda: seen_before(True), ("the same graph was scheduled before",), lambda: seen_before(False)
    ),
    Reason.CACHE_MISS: Case(
        lambda: seen_before(False), ("no such graph was scheduled before",), lambda: seen_before(True)
    ),
    Reason.ONE_BUFFER_PER_DEVICE: Case(
        sharded, ("each device keeps its own part (axis 0, devices NUMPY and NUMPY:1)",), lambda: sharded(("NUMPY",))
    ),
    Reason.OWN_PART: Case(sharded, ("each device computes its own part",), lambda: sharded(("NUMPY",))),
    Reason.RESHARDED: Case(
        two_layouts, ("a device needs elements that lie on others", "wanted along 0"), lambda: two_layouts(0)
    ),
    Reason.REPLICATED: Case(whole_weights, ("every device needs all of it",), lambda: whole_weights(0)),
    Reason.GATHERED: Case(gathered, ("one device asks for what lies on several",), lambda: gathered(None)),
    Reason.CROSSES_DEVICES: Case(other_device, ("its reader is on another device",), lambda: other_device("NUMPY")),
    Reason.ONLY_MOVES_BYTES: Case(moved, ("only moves bytes between devices", "bytes 64"), lambda: moved("NUMPY")),
    Reason.INLINED: Case(
        lambda: by_function(False), ("not precompiled is part of the graph around it",), lambda: by_function(True)
    ),
    Reason.PRECOMPILED: Case(
        lambda: by_function(True), ("is scheduled: a precompiled function is scheduled on its own",),
        lambda: by_function(False),
    ),
    Reason.FUNCTION_ARGUMENT: Case(
        lambda: by_function(True), ("reads its arguments from memory",), lambda: by_function(False)
    ),
}  # fmt: skip
