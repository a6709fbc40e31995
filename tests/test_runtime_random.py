"""Random small kernels: the NumPy programs give the values of the loops, and the cost is what the loops do."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinysched.dtypes import DType, dtypes
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic import simplify_index
from tinysched.ir.symbolic.conditions import in_bounds
from tinysched.ir.uop import TRUE, ParamArg, UOp
from tinysched.runtime import loops, numpy, program
from tinysched.runtime.cost import cost_of
from tinysched.runtime.nest import load

Arrays = list[np.ndarray]


class KernelMaker:
    """Makes one random kernel and the arrays it reads."""

    def __init__(self, rng: random.Random, dtype: DType):
        self.rng, self.dtype = rng, dtype
        self.values = np.random.default_rng(rng.randrange(1 << 30))
        self.arrays: Arrays = [np.empty(0)]
        self.number = 0

    def make(self) -> tuple[UOp, Arrays]:
        loops = [self.range(AxisType.LOOP) for _ in range(self.rng.randrange(4))]
        value = self.value(loops, 3)
        value = value if value.dtype is self.dtype else value.cast(self.dtype)
        order = self.rng.sample(loops, len(loops))
        index = self.dense(order)
        size = index.vmax + 1 + self.rng.randrange(3)
        if self.rng.randrange(4) == 0 and loops:
            index = index.valid(self.condition(loops))
        self.arrays[0] = self.fill(size, self.dtype)
        return UOp.sink(self.param(0, size, self.dtype).index(index).store(value).end(*loops)), self.arrays

    def range(self, kind: AxisType) -> UOp:
        self.number += 1
        return UOp.range(self.rng.choice([1, 2, 3, 4, 5, 6, 8, 12]), self.number - 1, kind)

    def param(self, slot: int, size: int, dtype: DType) -> UOp:
        return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, "NUMPY"))

    def fill(self, size: int, dtype: DType, low: int = -4, high: int = 5) -> np.ndarray:
        return self.values.integers(low, high, size).astype(dtype.np)

    def dense(self, ranges: list[UOp]) -> UOp:
        index, step = UOp.const(0), 1
        for r in reversed(ranges):
            part = r if self.rng.randrange(4) else r * -1 + r.vmax
            index, step = index + part * step, step * (r.vmax + 1)
        return simplify_index(index)

    def condition(self, ranges: list[UOp]) -> UOp:
        total = self.rng.choice(ranges)
        if self.rng.randrange(2):
            total = total + self.rng.choice(ranges) * self.rng.choice([1, -1, 2])
        low = self.rng.randint(total.vmin, total.vmax)
        return in_bounds(simplify_index(total), low, low + self.rng.randint(1, 6))

    def digit(self, r: UOp) -> UOp:
        kind, n = self.rng.randrange(6), self.rng.choice([2, 3, 4, 6])
        return [r // n, r % n, (r // 2) % n, r * -1 + r.vmax, r + 1, r][kind]

    def index(self, ranges: list[UOp]) -> UOp:
        """A random index expression; not yet shifted into the buffer."""
        used = [r for r in ranges if self.rng.randrange(4)]
        if self.rng.randrange(3) == 0:
            index = self.dense(self.rng.sample(used, len(used)))
            return index if self.rng.randrange(3) else index // 2 * 2 + index % 3
        index = UOp.const(0)
        for r in used:
            index = index + (self.digit(r) if self.rng.randrange(2) else r) * self.rng.choice([1, 2, 3, 7, -1])
        return index

    def load(self, ranges: list[UOp], depth: int) -> UOp:
        index, valid = self.index(ranges), TRUE
        if depth > 0 and ranges and self.rng.randrange(5) == 0:
            rows = self.stored(self.index(ranges), dtypes.int32, TRUE, 0, 5).cast(dtypes.index)
            index = index + rows * self.rng.choice([1, 4])
            low, high = index.substitute({rows: UOp.const(0)}).bounds
            index = index - low
            return self.at(index, high - low + 4 * 5, self.dtype, TRUE, -4, 5)
        if ranges and self.rng.randrange(3) == 0:
            valid = self.condition(ranges)
            if self.rng.randrange(2):  # the index leaves the buffer where the mask fails
                r = self.rng.choice(ranges)
                shift = self.rng.randrange(r.vmax + 1)
                index, valid = index + (r - shift) * 3, valid & in_bounds(r - shift, 0, 100)
                low = index.vmin + 3 * min(shift, r.vmax)
                return self.at(index - low, index.vmax - low + 1, self.dtype, valid, -4, 5)
        return self.stored(index, self.dtype, valid, -4, 5)

    def stored(self, index: UOp, dtype: DType, valid: UOp, low: int, high: int) -> UOp:
        return self.at(index - index.vmin, index.vmax - index.vmin + 1, dtype, valid, low, high)

    def at(self, index: UOp, size: int, dtype: DType, valid: UOp, low: int, high: int) -> UOp:
        self.arrays.append(self.fill(size, dtype, low, high))
        param = self.param(len(self.arrays) - 1, size, dtype)
        return load(param.index(simplify_index(index).valid(valid)))

    def value(self, ranges: list[UOp], depth: int) -> UOp:
        kind = self.rng.randrange(12) if depth else 0
        if kind < 2:
            return self.load(ranges, depth)
        if kind < 6:
            op = self.rng.choice([Ops.ADD, Ops.MUL, Ops.MAX, Ops.SUB])
            a = self.value(ranges, depth - 1)
            return a.alu(op, a if self.rng.randrange(4) == 0 else self.value(ranges, depth - 1))
        if kind < 9:
            return self.reduction(ranges, depth)
        if kind < 11 and ranges:
            other = self.value(ranges, depth - 1) if self.rng.randrange(2) else UOp.const(2, self.dtype)
            return self.condition(ranges).where(self.value(ranges, depth - 1), other)
        if kind == 11 and ranges:
            return (self.value(ranges, depth - 1) < self.value(ranges, depth - 1)).cast(self.dtype)
        return (self.rng.choice(ranges) * 3 if ranges else UOp.const(3)).cast(self.dtype)

    def reduction(self, ranges: list[UOp], depth: int) -> UOp:
        own = [self.range(AxisType.REDUCE) for _ in range(self.rng.choice([1, 1, 2]))]
        inside = ranges + own
        if self.rng.randrange(2):
            body = self.value(inside, depth - 1) * self.value(inside, depth - 1)
            return body.reduce(Ops.ADD, *own)
        return self.value(inside, depth - 1).reduce(self.rng.choice([Ops.ADD, Ops.MAX]), *own)


def both(sink: UOp, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    a, b = ([x.copy() for x in arrays] for _ in range(2))
    loops.compile_kernel(sink)(a, {})
    numpy.compile_kernel(sink)(b, {})
    return a[0], b[0]


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.float32], ids=lambda d: d.name)
@settings(max_examples=200)
@given(st.randoms(use_true_random=False))
def test_numpy_gives_the_values_of_loops(dtype: DType, rng: random.Random) -> None:
    sink, arrays = KernelMaker(rng, dtype).make()
    want, got = both(sink, arrays)
    # the inputs are small whole numbers, so that even float sums are exact in any order until they grow large
    np.testing.assert_allclose(got, want, rtol=1e-4)


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(2, 9))
def test_blocks_change_no_value(rng: random.Random, block: int) -> None:
    sink, arrays = KernelMaker(rng, dtypes.int32).make()
    want, _ = both(sink, arrays)
    got = [x.copy() for x in arrays]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "SMALLEST_SHARED", (1, 1))
        numpy.compile_program.cache_clear()
        with np.errstate(all="ignore"):
            numpy.bind(sink, got, {}, block)()
        numpy.compile_program.cache_clear()
    np.testing.assert_array_equal(got[0], want)


class Counted:
    """A number that counts the operations on it."""

    ops = 0

    def __init__(self, value: Any):
        self.value = int(value)

    def count(self, value: int) -> Counted:
        Counted.ops += 1
        return Counted(value)

    def __add__(self, other: Counted) -> Counted:
        return self.count(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return self.count(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        return self.count(self.value * other.value)

    def __lt__(self, other: Counted) -> bool:
        return self.count(0) is not None and self.value < other.value

    def __int__(self) -> int:
        return self.value


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_cost_is_what_the_loops_do(rng: random.Random) -> None:
    sink, arrays = KernelMaker(rng, dtypes.int32).make()
    names = {"int32": Counted, "maximum": lambda a, b: a.count(max(a.value, b.value)), "within": loops.within}
    names |= {"int64": lambda x: np.int64(x), "product": itertools.product}
    exec(loops.program_text(sink), names)
    Counted.ops = 0
    names["kernel"](*([Counted(x) for x in a] for a in arrays))
    assert Counted.ops == cost_of(sink).ops
