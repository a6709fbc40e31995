"""Hand-built kernels on both host run times, with NumPy as the judge. All axes have different sizes."""

from __future__ import annotations

import ast
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinysched
from tinysched.dtypes import DType, dtypes, to_dtype
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic import simplify_index
from tinysched.ir.symbolic.conditions import at_least, in_bounds, less
from tinysched.ir.uop import TRUE, ParamArg, UOp
from tinysched.runtime import loops, numpy
from tinysched.runtime.nest import load

BACKENDS = {"loops": loops, "numpy": numpy}


def ranges(*sizes: int, reduce: int = 0) -> tuple[UOp, ...]:
    """Loop variables of these sizes; the last ``reduce`` of them are reduced over."""
    kinds = [AxisType.LOOP] * (len(sizes) - reduce) + [AxisType.REDUCE] * reduce
    return tuple(UOp.range(n, i, kind) for i, (n, kind) in enumerate(zip(sizes, kinds, strict=True)))


def param(slot: int, size: int, dtype: DType) -> UOp:
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, "NUMPY"))


class Kernel:
    """Collects the arrays that a kernel reads, and runs it on every run time."""

    def __init__(self) -> None:
        self.inputs: list[np.ndarray] = []

    def read(self, array: np.ndarray, index: UOp, valid: UOp = TRUE) -> UOp:
        if not any(a is array for a in self.inputs):
            self.inputs.append(array)
        slot = 1 + next(i for i, a in enumerate(self.inputs) if a is array)
        return load(param(slot, array.size, to_dtype(array.dtype)).index(simplify_index(index).valid(valid)))

    def sink(self, size: int, value: UOp, index: UOp, loops: tuple[UOp, ...], valid: UOp = TRUE) -> UOp:
        target = param(0, size, value.dtype).index(simplify_index(index).valid(valid))
        return UOp.sink(target.store(value).end(*loops))

    def run(
        self,
        shape: tuple[int, ...],
        value: UOp,
        loops: tuple[UOp, ...],
        *,
        index: UOp | None = None,
        valid: UOp = TRUE,
        before: Any = 7,
        rtol: float = 1e-6,
        **variables: int,
    ) -> np.ndarray:
        """The output, which both run times agree on; the loops run over its axes unless ``index`` says otherwise."""
        index = flat(shape, loops) if index is None else index
        sink = self.sink(int(np.prod(shape)), value, index, loops, valid)
        results = []
        for backend in BACKENDS.values():
            out = np.full(shape, before, value.dtype.np)
            backend.compile_kernel(sink)([out.reshape(-1), *(a.reshape(-1) for a in self.inputs)], variables)
            results.append(out)
        np.testing.assert_allclose(results[1], results[0], rtol=rtol)
        return results[1]


def flat(shape: tuple[int, ...], indices: tuple[UOp, ...]) -> UOp:
    index = UOp.const(0)
    for n, i in zip(shape, indices, strict=True):
        index = index * n + i
    return simplify_index(index)


def numbers(*shape: int, dtype: Any = np.float32, low: int = -9, high: int = 10) -> np.ndarray:
    rng = np.random.default_rng(sum(shape) + len(shape))
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if np.dtype(dtype).kind == "u" else low, high, shape).astype(dtype)


# ** reading **


def test_elementwise_with_broadcasting_strides() -> None:
    k, (r0, r1) = Kernel(), ranges(3, 5)
    a, b, c = numbers(3, 5), numbers(5), numbers(3, 1)
    value = k.read(a, flat((3, 5), (r0, r1))) * k.read(b, r1) + k.read(c, r0)
    np.testing.assert_allclose(k.run((3, 5), value, (r0, r1)), a * b + c, rtol=1e-6)


def test_permuted_and_flipped_reads() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(2, 3, 5)
    a = numbers(5, 2, 3)
    value = k.read(a, flat((5, 2, 3), (4 - r2, r0, 2 - r1)))
    assert (k.run((2, 3, 5), value, (r0, r1, r2)) == a[::-1, :, ::-1].transpose(1, 2, 0)).all()


def test_pad_reads_zeros_and_stays_in_memory() -> None:
    k, (r0, r1) = Kernel(), ranges(7, 9)
    a = numbers(4, 5)
    inside = in_bounds(r0 - 2, 0, 4) & in_bounds(r1 - 1, 0, 5)
    value = k.read(a, flat((4, 5), (r0 - 2, r1 - 1)), inside)
    assert (k.run((7, 9), value, (r0, r1)) == np.pad(a, ((2, 1), (1, 3)))).all()
    sink = k.sink(63, value, flat((7, 9), (r0, r1)), (r0, r1))
    assert "np.zeros" in numpy.program_text(sink) and "np.where" not in numpy.program_text(sink)


def test_pad_under_an_operation_that_does_not_keep_zero() -> None:
    k, (r0,) = Kernel(), ranges(6)
    a = numbers(3)
    inside = in_bounds(r0 - 1, 0, 3)
    value = inside.where(k.read(a, r0 - 1, inside).alu(Ops.EXP2), 0.0)
    np.testing.assert_allclose(k.run((6,), value, (r0,)), np.pad(np.exp2(a), (1, 2)), rtol=1e-6)


def test_mask_over_two_axes() -> None:
    k, (r0, r1) = Kernel(), ranges(4, 7)
    a = numbers(4, 7)
    value = less(r1 - r0, 2).where(k.read(a, flat((4, 7), (r0, r1))), 0.0)
    assert (k.run((4, 7), value, (r0, r1)) == np.tril(a, 1)).all()


@pytest.mark.parametrize(("size", "digit"), [(4, 3), (5, 3), (7, 4), (9, 5), (6, 3)])
def test_each_branch_of_a_choice_is_there_wherever_it_is_taken(size: int, digit: int) -> None:
    """``r % 3 < 1`` of 4 is no stretch of the loop, and its opposite is one."""
    r0, r1 = ranges(size, 2)
    a, b, at = numbers(size, 2), numbers(size, 2, dtype=np.float32) + 1, np.arange(size)[:, None]
    for u, n in ((r0 % digit, at % digit), (r0 // digit, at // digit)):
        for limit in range(1, digit):
            for condition, where in ((less(u, limit), n < limit), (at_least(u, limit), n >= limit)):
                k = Kernel()
                left = k.read(a, flat((size, 2), (r0, r1))) * 2.0
                right = k.read(b, flat((size, 2), (r0, r1))) + 3.0
                got = k.run((size, 2), condition.where(left, right), (r0, r1))
                np.testing.assert_allclose(got, np.where(where, a * 2, b + 3), rtol=1e-6)
                half, minus = left.const_like(0.5), right.const_like(-1.0)
                got = k.run((size, 2), condition.where(left, half) + condition.where(minus, right), (r0, r1))
                np.testing.assert_allclose(got, np.where(where, a * 2 - 1, b + 3.5), rtol=1e-6)


def test_operations_on_constants_have_axes_too() -> None:
    """An element whose number follows from constants that no rule folds."""
    k, (r0,) = Kernel(), ranges(3)
    a = numbers(5, 3)
    one = UOp.const(1, dtypes.int32)
    value = k.read(a, one.alu(Ops.SHL, one).cast(dtypes.index) * 3 + r0)
    number = one.alu(Ops.SHL, UOp.const(3, dtypes.int32)).cast(dtypes.float32).alu(Ops.SQRT)
    np.testing.assert_allclose(k.run((3,), value * number, (r0,)), a[2] * np.sqrt(np.float32(8)), rtol=1e-6)
    total = k.read(a, one.alu(Ops.SHL, one).cast(dtypes.index)).alu(Ops.EXP2)
    np.testing.assert_allclose(k.run((1,), total, (), index=UOp.const(0)), np.exp2(a.reshape(-1)[2:3]), rtol=1e-6)


def test_window_with_padding_is_a_view_of_a_padded_copy() -> None:
    k, (r0, r1, r2, r3) = Kernel(), ranges(2, 6, 3, 2, reduce=1)
    a = numbers(2, 5)  # out[r0, r1, r2] = sum over R3 of padded[r0, r1 + r2 + R3]
    at = r1 + r2 + r3 - 2
    value = k.read(a, flat((2, 5), (r0, at)), in_bounds(at, 0, 5)).reduce(Ops.ADD, r3)
    padded = np.pad(a, ((0, 0), (2, 4)))
    want = np.stack([[padded[:, i + j] + padded[:, i + j + 1] for j in range(3)] for i in range(6)]).transpose(2, 0, 1)
    np.testing.assert_allclose(k.run((2, 6, 3), value, (r0, r1, r2)), want, rtol=1e-6)
    assert "take" not in numpy.program_text(k.sink(36, value, flat((2, 6, 3), (r0, r1, r2)), (r0, r1, r2)))


def test_digits_become_axes() -> None:
    k, (r0, r1) = Kernel(), ranges(12, 5)
    a = numbers(4, 5, 3)  # read at [r0 % 4, r1, r0 // 4]
    value = k.read(a, flat((4, 5, 3), (r0 % 4, r1, r0 // 4)))
    want = a[np.arange(12) % 4, :, np.arange(12) // 4]
    assert (k.run((12, 5), value, (r0, r1)) == want).all()
    assert "take" not in numpy.program_text(k.sink(60, value, flat((12, 5), (r0, r1)), (r0, r1)))


def test_digits_that_do_not_divide() -> None:
    k, (r0, r1) = Kernel(), ranges(10, 3)
    a = numbers(4, 3, 3)
    value = k.read(a, flat((4, 3, 3), (r0 // 3, r1, r0 % 3)))
    want = a[np.arange(10) // 3, :, np.arange(10) % 3]
    assert (k.run((10, 3), value, (r0, r1)) == want).all()


def test_gather_by_loaded_rows_takes() -> None:
    k, (r0, r1) = Kernel(), ranges(5, 3)
    table, rows = numbers(7, 3), np.array([6, 0, 3, 3, 1], np.int32)
    value = k.read(table, k.read(rows, r0).cast(dtypes.index) * 3 + r1)
    assert (k.run((5, 3), value, (r0, r1)) == table[rows]).all()
    text = numpy.program_text(k.sink(15, value, flat((5, 3), (r0, r1)), (r0, r1)))
    assert "view(p2, 0, (7, 3), (3, 1))" in text and "gather(" in text


def test_gather_along_the_inner_axis() -> None:
    k, (r0, r1) = Kernel(), ranges(4, 6)
    a, rows = numbers(4, 5), numbers(4, 6, dtype=np.int64, low=0, high=5)
    value = k.read(a, r0 * 5 + k.read(rows, flat((4, 6), (r0, r1))).cast(dtypes.index))
    assert (k.run((4, 6), value, (r0, r1)) == np.take_along_axis(a, rows, 1)).all()


def test_gather_outside_of_a_mask_reads_zero() -> None:
    k, (r0,) = Kernel(), ranges(4)
    table, rows = numbers(3), np.array([2, -1, 5, 0], np.int32)
    row = k.read(rows, r0)
    valid = (row < 3) & (UOp.const(-1, dtypes.int32) < row)
    value = k.read(table, row.cast(dtypes.index), valid)
    assert k.run((4,), value, (r0,)).tolist() == [table[2], 0, 0, table[0]]


@pytest.mark.parametrize("wrong", [3, -1])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gather_outside_of_memory_is_an_error(backend: str, wrong: int) -> None:
    k, (r0,) = Kernel(), ranges(2)
    table, rows = numbers(3), np.array([1, wrong], np.int32)
    sink = k.sink(2, k.read(table, k.read(rows, r0).cast(dtypes.index)), r0, (r0,))
    arrays = [np.zeros(2, np.float32), *k.inputs]
    with pytest.raises(IndexError, match=f"index {wrong} is outside of the 3 elements"):
        BACKENDS[backend].compile_kernel(sink)(arrays, {})


def test_large_transposes_go_through_tiles() -> None:
    k, (r0, r1) = Kernel(), ranges(300, 1024)
    a, b = numbers(1024, 1024)[:, :300].copy(), numbers(300, 1024)
    plain = k.read(a, r1 * 300 + r0) + k.read(b, flat((300, 1024), (r0, r1)))
    assert "turned" not in numpy.program_text(k.sink(300 * 1024, plain, flat((300, 1024), (r0, r1)), (r0, r1)))
    k, (r0, r1) = Kernel(), ranges(1030, 1024)
    a, b = numbers(1024, 2048), numbers(1030, 1024)
    value = k.read(a, r1 * 2048 + r0) + k.read(b, flat((1030, 1024), (r0, r1)))
    sink = k.sink(1030 * 1024, value, flat((1030, 1024), (r0, r1)), (r0, r1))
    assert "turned" in numpy.program_text(sink)
    out = np.empty((1030, 1024), np.float32)
    numpy.compile_kernel(sink)([out.reshape(-1), a.reshape(-1), b.reshape(-1)], {})
    assert (out == a[:, :1030].T + b).all()


def test_triangular_sums_accumulate() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(3, 6, 6, reduce=1)
    a = numbers(3, 6, dtype=np.int32)
    value = k.read(a, r0 * 6 + r1 + r2 - 5, in_bounds(r1 + r2, 5, 11)).reduce(Ops.ADD, r2)
    assert (k.run((3, 6), value, (r0, r1)) == np.cumsum(a, 1)).all()
    sink = k.sink(18, value, flat((3, 6), (r0, r1)), (r0, r1))
    assert "np.add.accumulate" in numpy.program_text(sink) and "zeros" not in numpy.program_text(sink)


# ** writing **


def test_masked_store_leaves_the_rest() -> None:
    k, (r0, r1) = Kernel(), ranges(4, 6)
    a = numbers(4, 6)
    value = k.read(a, flat((4, 6), (r0, r1)))
    got = k.run((4, 6), value, (r0, r1), valid=in_bounds(r0, 1, 3) & less(r1, 5), before=0.5)
    want = np.full((4, 6), 0.5, np.float32)
    want[1:3, :5] = a[1:3, :5]
    assert (got == want).all()


def test_masked_store_over_two_axes_and_by_values() -> None:
    k, (r0, r1) = Kernel(), ranges(4, 6)
    a = numbers(4, 6)
    value = k.read(a, flat((4, 6), (r0, r1)))
    got = k.run((4, 6), value, (r0, r1), valid=less(r1 - r0, 1), before=0.5)
    assert (got == np.where(np.tri(4, 6, dtype=bool), a, np.float32(0.5))).all()
    got = k.run((4, 6), value, (r0, r1), valid=value < 0.0, before=0.5)
    assert (got == np.where(a < 0, a, np.float32(0.5))).all()


def test_store_into_part_of_memory() -> None:
    k, (r0, r1) = Kernel(), ranges(2, 3)
    a = numbers(2, 3)
    value = k.read(a, flat((2, 3), (r0, r1)))
    got = k.run((5, 4), value, (r0, r1), index=(r0 * -1 + 3) * 4 + r1 + 1, before=0.0)
    want = np.zeros((5, 4), np.float32)
    want[[3, 2], 1:] = a
    assert (got == want).all()


def test_scatter_by_loaded_rows() -> None:
    k, (r0,) = Kernel(), ranges(3)
    a, rows = numbers(3), np.array([4, 0, 2], np.int32)
    got = k.run((5,), k.read(a, r0), (r0,), index=k.read(rows, r0).cast(dtypes.index), before=0.0)
    want = np.zeros(5, np.float32)
    want[rows] = a
    assert (got == want).all()


def test_an_update_in_place_reads_before_it_writes() -> None:
    (r0, r1), size = ranges(3, 4), 12
    memory = param(0, size, dtypes.float32)
    old = load(memory.index(flat((3, 4), (r0, r1))))
    value = in_bounds(r0, 1, 2).where(old * 10, old + 1)
    sink = UOp.sink(memory.index(flat((3, 4), (r0, r1))).store(value).end(r0, r1))
    start = numbers(3, 4)
    want = start + 1
    want[1] = start[1] * 10
    for backend in BACKENDS.values():
        out = start.copy()
        backend.compile_kernel(sink)([out.reshape(-1)], {})
        np.testing.assert_allclose(out, want)


def test_memory_shared_between_arguments() -> None:
    k, (r0,) = Kernel(), ranges(4)
    placeholder = numbers(4)
    old = k.read(placeholder, r0)
    sink = k.sink(4, less(r0, 2).where(old * 10, old + 1), r0, (r0,))
    assert "out0[0:2]" in numpy.program_text(sink)  # fills its output in pieces
    for backend in BACKENDS.values():
        memory = np.arange(4, dtype=np.float32)
        backend.compile_kernel(sink)([memory, memory], {})
        assert memory.tolist() == [0, 10, 3, 4]


# ** reducing **


@pytest.mark.parametrize(("op", "want"), [(Ops.ADD, np.sum), (Ops.MUL, np.prod), (Ops.MAX, np.max)])
@pytest.mark.parametrize("axis", [0, 1, (0, 2), (0, 1, 2)])
def test_reduce(op: Ops, want: Any, axis: Any) -> None:
    shape, axes = (3, 5, 2), (axis if isinstance(axis, tuple) else (axis,))
    k, rs = (
        Kernel(),
        [UOp.range(n, i, AxisType.REDUCE if i in axes else AxisType.LOOP) for i, n in enumerate((3, 5, 2))],
    )
    a = numbers(*shape)
    kept = tuple(r for i, r in enumerate(rs) if i not in axes)
    value = k.read(a, flat(shape, tuple(rs))).reduce(op, *(rs[i] for i in axes))
    left = tuple(n for i, n in enumerate(shape) if i not in axes)
    np.testing.assert_allclose(k.run(left, value, kept), want(a, axis=axis), rtol=1e-5)


def test_nested_reduce() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(4, 3, 5, reduce=2)
    a = numbers(4, 3, 5)
    largest = k.read(a, flat((4, 3, 5), (r0, r1, r2))).reduce(Ops.MAX, r2)
    value = (largest * largest).reduce(Ops.ADD, r1)
    np.testing.assert_allclose(k.run((4,), value, (r0,)), (a.max(2) ** 2).sum(1), rtol=1e-5)


def test_several_reductions_in_one_kernel() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(4, 6, 5, reduce=2)
    a = numbers(4, 6)
    top = k.read(a, flat((4, 6), (r0, r1))).reduce(Ops.MAX, r1)
    total = (k.read(a, r0 * 6 + r2) - top).alu(Ops.EXP2).reduce(Ops.ADD, r2)
    want = np.exp2(a[:, :5] - a.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(k.run((4,), total * top, (r0,)), want * a.max(1), rtol=1e-5)


def test_two_reductions_over_one_range() -> None:
    k, (r0, r1) = Kernel(), ranges(4, 6, reduce=1)
    a = numbers(4, 6)
    x = k.read(a, flat((4, 6), (r0, r1)))
    value = x.reduce(Ops.ADD, r1) * (x * x).reduce(Ops.ADD, r1)
    np.testing.assert_allclose(k.run((4,), value, (r0,)), a.sum(1) * (a * a).sum(1), rtol=1e-4)


def test_reduce_over_masked_values() -> None:
    k, (r0, r1) = Kernel(), ranges(4, 6, reduce=1)
    a = numbers(4, 6)
    value = less(r1, 4).where(k.read(a, flat((4, 6), (r0, r1))), 0.0).reduce(Ops.ADD, r1)
    np.testing.assert_allclose(k.run((4,), value, (r0,)), a[:, :4].sum(1), rtol=1e-5)


def test_running_sum_as_a_triangular_reduction() -> None:
    k, (r0, r1) = Kernel(), ranges(7, 7, reduce=1)
    a = numbers(7)
    value = less(r1 - r0, 1).where(k.read(a, r1), 0.0).reduce(Ops.ADD, r1)
    np.testing.assert_allclose(k.run((7,), value, (r0,)), np.cumsum(a), rtol=1e-5)


def test_a_masked_reduction_is_only_evaluated_where_the_mask_holds() -> None:
    k, (r0, r1) = Kernel(), ranges(9, 6, reduce=1)
    a = numbers(2, 6)
    inside = in_bounds(r0 - 7, 0, 2)
    row = k.read(a, flat((2, 6), (r0 - 7, r1)), inside).reduce(Ops.ADD, r1)
    value = inside.where(row, 0.0)
    np.testing.assert_allclose(k.run((9,), value, (r0,)), np.pad(a.sum(1), (7, 0)), rtol=1e-5)
    sink = k.sink(9, value, r0, (r0,))
    assert "    if 6 < r0:\n            acc0" in loops.program_text(sink)
    assert "(2, 6)" in numpy.program_text(sink) and "(9, 6)" not in numpy.program_text(sink)


def test_nan_goes_through_max() -> None:
    k, (r0, r1) = Kernel(), ranges(2, 3, reduce=1)
    a = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    value = k.read(a, flat((2, 3), (r0, r1))).reduce(Ops.MAX, r1)
    np.testing.assert_array_equal(k.run((2,), value, (r0,)), np.max(a, 1))
    (s0,) = ranges(3)
    value = (j := Kernel()).read(a[0], s0).maximum(2.0)
    np.testing.assert_array_equal(j.run((3,), value, (s0,)), np.maximum(a[0], 2))


def test_sums_of_constants_and_of_values_without_the_axis() -> None:
    k, (r0, r1) = Kernel(), ranges(3, 5, reduce=1)
    a = numbers(3)
    assert k.run((3,), k.read(a, r0).reduce(Ops.MAX, r1), (r0,)).tolist() == a.tolist()
    np.testing.assert_allclose(k.run((3,), k.read(a, r0).reduce(Ops.ADD, r1), (r0,)), a * 5, rtol=1e-6)
    assert (k.run((3,), UOp.const(2, dtypes.int8).reduce(Ops.MUL, r1), (r0,)) == 32).all()


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.float16, np.float64])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_reductions_keep_their_dtype(dtype: Any, op: Ops) -> None:
    k, (r0, r1) = Kernel(), ranges(3, 40, reduce=1)
    a = numbers(3, 40, dtype=dtype, low=-3, high=4) if dtype is not np.float16 else numbers(3, 40).astype(dtype) / 3
    value = k.read(a, flat((3, 40), (r0, r1))).reduce(op, r1)
    ufunc = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    got = k.run((3,), value, (r0,), rtol=0.03 if dtype is np.float16 else 1e-6)
    np.testing.assert_allclose(got, ufunc.reduce(a, 1, dtype=dtype), rtol=0.03 if dtype is np.float16 else 1e-6)


# ** sums of products **


def product_of(k: Kernel, a: np.ndarray, b: np.ndarray, rs: tuple[UOp, ...], ia: UOp, ib: UOp) -> UOp:
    return (k.read(a, ia) * k.read(b, ib)).reduce(Ops.ADD, *rs)


def test_matmul_is_one_call_into_memory() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(3, 5, 4, reduce=1)
    a, b = numbers(3, 4), numbers(4, 5)
    value = product_of(k, a, b, (r2,), flat((3, 4), (r0, r2)), flat((4, 5), (r2, r1)))
    np.testing.assert_allclose(k.run((3, 5), value, (r0, r1), rtol=1e-5), a @ b, rtol=1e-5)
    text = numpy.program_text(k.sink(15, value, flat((3, 5), (r0, r1)), (r0, r1)))
    assert text.count("np.") == 1 and "np.matmul(m0, m1, out=view(p0, 0, (3, 5), (5, 1)))" in text


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul_of_transposed_operands(turned: tuple[bool, bool]) -> None:
    k, (r0, r1, r2) = Kernel(), ranges(3, 5, 4, reduce=1)
    a, b = numbers(3, 4), numbers(4, 5)
    ia = r2 * 3 + r0 if turned[0] else r0 * 4 + r2
    ib = r1 * 4 + r2 if turned[1] else r2 * 5 + r1
    a_memory = np.ascontiguousarray(a.T) if turned[0] else a
    b_memory = np.ascontiguousarray(b.T) if turned[1] else b
    value = product_of(k, a_memory, b_memory, (r2,), ia, ib)
    np.testing.assert_allclose(k.run((3, 5), value, (r0, r1), rtol=1e-5), a @ b, rtol=1e-5)
    transposed = k.run((5, 3), value, (r0, r1), index=r1 * 3 + r0, rtol=1e-5)
    np.testing.assert_allclose(transposed, (a @ b).T, rtol=1e-5)


def test_batched_matmul_with_an_epilogue() -> None:
    k, (r0, r1, r2, r3) = Kernel(), ranges(2, 3, 5, 4, reduce=1)
    a, b, bias = numbers(2, 3, 4), numbers(2, 4, 5), numbers(5)
    value = product_of(k, a, b, (r3,), flat((2, 3, 4), (r0, r1, r3)), flat((2, 4, 5), (r0, r3, r2)))
    value = (value + k.read(bias, r2)).maximum(0.0)
    want = np.maximum(a @ b + bias, 0)
    np.testing.assert_allclose(k.run((2, 3, 5), value, (r0, r1, r2), rtol=1e-4), want, rtol=1e-4, atol=1e-6)


def test_convolution_with_padding() -> None:
    k, rs = Kernel(), ranges(2, 3, 6, 5, 4, 3, 2, reduce=3)
    r0, r1, r2, r3, r4, r5, r6 = rs
    x, w = numbers(2, 4, 6, 5), numbers(3, 4, 3, 2)
    y, z = r2 + r5 - 1, r3 + r6 - 1
    inside = in_bounds(y, 0, 6) & in_bounds(z, 0, 5)
    patch = k.read(x, flat((2, 4, 6, 5), (r0, r4, y, z)), inside)
    value = (patch * k.read(w, flat((3, 4, 3, 2), (r1, r4, r5, r6)))).reduce(Ops.ADD, r4, r5, r6)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), axis=(2, 3))
    want = np.einsum("bcyxij,ocij->boyx", windows, w)
    np.testing.assert_allclose(k.run((2, 3, 6, 5), value, rs[:4], rtol=1e-3), want, rtol=1e-3, atol=1e-5)
    text = numpy.program_text(k.sink(180, value, flat((2, 3, 6, 5), rs[:4]), rs[:4]))
    assert "np.matmul" in text and "take" not in text


def test_products_of_three_and_of_sums_over_one_side() -> None:
    k, (r0, r1, r2, r3) = Kernel(), ranges(3, 5, 4, 2, reduce=2)
    a, b, c = numbers(3, 4), numbers(4, 5), numbers(4)
    ia, ib = flat((3, 4), (r0, r2)), flat((4, 5), (r2, r1))
    value = (k.read(a, ia) * k.read(b, ib) * k.read(c, r2) * 2.0).reduce(Ops.ADD, r2)
    np.testing.assert_allclose(k.run((3, 5), value, (r0, r1), rtol=1e-4), (a * c) @ b * 2, rtol=1e-4, atol=1e-6)
    j, d = Kernel(), numbers(4, 2)
    value = product_of(j, a, d, (r2, r3), ia, flat((4, 2), (r2, r3)))
    np.testing.assert_allclose(j.run((3,), value, (r0,), rtol=1e-4), a @ d.sum(1), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float64])
def test_matmul_at_every_kind_of_dtype(dtype: Any) -> None:
    k, (r0, r1, r2) = Kernel(), ranges(3, 5, 30, reduce=1)
    a, b = numbers(3, 30, dtype=dtype), numbers(30, 5, dtype=dtype)
    value = product_of(k, a, b, (r2,), flat((3, 30), (r0, r2)), flat((30, 5), (r2, r1)))
    tolerance = 0.05 if dtype is np.float16 else 1e-6
    sink = k.sink(15, value, flat((3, 5), (r0, r1)), (r0, r1))
    got = np.empty((3, 5), dtype)
    numpy.compile_kernel(sink)([got.reshape(-1), *(x.reshape(-1) for x in k.inputs)], {})
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(got, np.matmul(a, b), rtol=tolerance, atol=tolerance)


# ** operations **

FLOATS = (np.float16, np.float32, np.float64)
INTS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
UFUNCS: dict[Ops, Any] = {
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal,
    Ops.NEG: np.negative, Ops.TRUNC: np.trunc, Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply,
    Ops.FDIV: np.divide, Ops.MAX: np.maximum, Ops.POW: np.power, Ops.FLOORDIV: np.floor_divide,
    Ops.FLOORMOD: np.remainder, Ops.CMOD: np.fmod, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal,
    Ops.XOR: np.bitwise_xor, Ops.OR: np.bitwise_or, Ops.AND: np.bitwise_and, Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
}  # fmt: skip
FLOAT_ONLY = {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV, Ops.TRUNC}
INT_ONLY = {Ops.XOR, Ops.OR, Ops.AND, Ops.SHL, Ops.SHR}
CASES = [
    (op, dtype)
    for op in UFUNCS
    for dtype in (*FLOATS, *INTS)
    if not (op in FLOAT_ONLY and dtype in INTS) and not (op in INT_ONLY and dtype in FLOATS)
]


def edge_values(dtype: Any) -> np.ndarray:
    if dtype in FLOATS:
        return np.array([0.0, -0.0, 1.5, -2.25, 7, np.inf, -np.inf, np.nan, np.finfo(dtype).max, 0.3], dtype)
    info = np.iinfo(dtype)
    return np.array([0, 1, 2, 3, 7, info.max, info.min, info.max - 1, 100, info.min + 1], dtype)


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda v: getattr(v, "name", getattr(v, "__name__", "")))
def test_operation_at_dtype(op: Ops, dtype: Any) -> None:
    k, (r0, r1) = Kernel(), ranges(10, 9)
    unary = op in (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIPROCAL, Ops.NEG, Ops.TRUNC)
    a, b = edge_values(dtype), edge_values(dtype)[1:].copy()
    if op is Ops.POW and dtype in INTS:
        b = np.arange(9, dtype=dtype)
    x, y = k.read(a, r0), k.read(b, r1)
    with np.errstate(all="ignore"):
        want = UFUNCS[op](a[:, None], *(() if unary else (b[None],)))
        got = k.run((10, 9), x.alu(op) if unary else x.alu(op, y), (r0, r1), rtol=2e-3 if dtype is np.float16 else 1e-6)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=2e-3 if dtype is np.float16 else 1e-6)


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.__name__)
def test_cdiv_truncates(dtype: Any) -> None:
    k, (r0, r1) = Kernel(), ranges(10, 9)
    a, b = edge_values(dtype), edge_values(dtype)[1:].copy()
    got = k.run((10, 9), k.read(a, r0).alu(Ops.CDIV, k.read(b, r1)), (r0, r1))
    for i, j in np.ndindex(10, 9):
        x, y = int(a[i]), int(b[j])
        q = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert int(got[i, j]) == int(np.array(q & ((1 << 64) - 1), np.uint64).astype(dtype))


def test_powers_of_integers() -> None:
    k, (r0, r1) = Kernel(), ranges(5, 4)
    a, b = np.array([-2, -1, 0, 1, 3], np.int32), np.array([-3, -2, 0, 5], np.int32)
    got = k.run((5, 4), k.read(a, r0).alu(Ops.POW, k.read(b, r1)), (r0, r1))
    assert got.tolist() == [[0, 0, 1, -32], [-1, 1, 1, -1], [0, 0, 1, 0], [1, 1, 1, 1], [0, 0, 1, 243]]


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.SUB, Ops.XOR, Ops.OR, Ops.AND, Ops.CMPNE, Ops.CMPLT])
def test_operations_on_bools(op: Ops) -> None:
    k, (r0, r1) = Kernel(), ranges(2, 2)
    a, b = np.array([False, True]), np.array([True, False])
    table = {Ops.ADD: np.logical_or, Ops.MUL: np.logical_and, Ops.MAX: np.logical_or, Ops.SUB: np.logical_xor}
    got = k.run((2, 2), k.read(a, r0).alu(op, k.read(b, r1)), (r0, r1))
    assert (got == (table.get(op) or UFUNCS[op])(a[:, None], b[None])).all()
    assert k.run((2,), k.read(a, r0).alu(Ops.NEG), (r0,)).tolist() == [True, False]


def test_threefry_known_answers() -> None:
    """The vectors of the Random123 library for Threefry-2x32 with 20 rounds."""
    words = [((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
             ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
             ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0))]  # fmt: skip
    x, key, want = (np.array([low | high << 32 for low, high in w], np.uint64) for w in zip(*words, strict=True))
    k, (r0,) = Kernel(), ranges(3)
    assert (k.run((3,), k.read(x, r0).alu(Ops.THREEFRY, k.read(key, r0)), (r0,)) == want).all()


@pytest.mark.parametrize("target", [np.bool_, *FLOATS, *INTS], ids=lambda d: d.__name__)
@pytest.mark.parametrize("source", [np.bool_, *FLOATS, *INTS], ids=lambda d: d.__name__)
def test_casts(source: Any, target: Any) -> None:
    k, (r0,) = Kernel(), ranges(6)
    a = np.array([0, 1, 2, 100, 127, 3], source) if source not in FLOATS else np.array([0, 1.9, 2.5, 100, 7, 3], source)
    if source in (np.int8, np.int16, np.int32, np.int64):
        a[3] = -100
    got = k.run((6,), k.read(a, r0).cast(to_dtype(target)), (r0,))
    assert got.dtype == target and (got == a.astype(target)).all()


def test_casts_of_what_does_not_fit_are_silent() -> None:
    k, (r0,) = Kernel(), ranges(3)
    a = np.array([np.nan, np.inf, 1.0], np.float32)
    for backend in BACKENDS.values():
        out = np.zeros(3, np.int32)
        backend.compile_kernel(k.sink(3, k.read(a, r0).cast(dtypes.int32), r0, (r0,)))([out, a], {})
        assert out[2] == 1


def test_bitcast_and_where() -> None:
    k, (r0,) = Kernel(), ranges(5)
    a = numbers(5)
    bits = k.read(a, r0).bitcast(dtypes.int32)
    assert (k.run((5,), bits, (r0,)) == a.view(np.int32)).all()
    assert (k.run((5,), bits.bitcast(dtypes.float32), (r0,)) == a).all()
    x = k.read(a, r0)
    assert (k.run((5,), (x < 0.0).where(-x, x * 2), (r0,)) == np.where(a < 0, -a, a * 2)).all()
    assert (k.run((5,), (x < 0.0).where(UOp.const(1, dtypes.int8), 2), (r0,)) == np.where(a < 0, 1, 2)).all()


def test_index_arithmetic_as_values() -> None:
    k, (r0, r1) = Kernel(), ranges(3, 10)
    value = (r0 * 10 + r1 // 3 - 4).cast(dtypes.int32) * 2
    want = (np.arange(3)[:, None] * 10 + np.arange(10) // 3 - 4) * 2
    assert (k.run((3, 10), value, (r0, r1)) == want).all()
    near = np.arange(10) - np.arange(3)[:, None] < 5
    assert (k.run((3, 10), less(r1 - r0, 5).cast(dtypes.float32), (r0, r1)) == near).all()


def test_weak_types_compute_as_their_defaults() -> None:
    k, (r0,) = Kernel(), ranges(4)
    a = numbers(4, dtype=np.int32)
    weak = k.read(a, r0).cast(dtypes.weakint) + 1
    assert (
        k.run((4,), weak.cast(dtypes.weakfloat).cast(dtypes.float32) * 0.5, (r0,)) == (a + 1) * np.float32(0.5)
    ).all()


def test_integers_wrap_and_halves_round() -> None:
    k, (r0,) = Kernel(), ranges(3)
    a = np.array([127, -128, 100], np.int8)
    assert k.run((3,), k.read(a, r0) + 100, (r0,)).tolist() == [-29, -28, -56]
    h = np.array([2049, 0.1, 65504], np.float16)
    j = Kernel()
    got = j.run((3,), j.read(h, r0) + 1.0, (r0,))
    assert got.dtype == np.float16 and (got == h + np.float16(1)).all()


# ** shapes **


def test_scalar_kernels_have_no_loops() -> None:
    k = Kernel()
    a = numbers(1)
    value = k.read(a, UOp.const(0)) * 2 + 1
    assert k.run((1,), value, (), index=UOp.const(0)).tolist() == [a[0] * 2 + 1]
    assert k.run((1,), UOp.const(3.5, dtypes.float32), (), index=UOp.const(0)).tolist() == [3.5]


def test_loops_of_no_trips() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(3, 0, 0, reduce=1)
    a = numbers(4)
    assert k.run((3,), k.read(a, r2).reduce(Ops.ADD, r2), (r0,)).tolist() == [0, 0, 0]
    assert k.run((3,), k.read(a, r2).reduce(Ops.MAX, r2), (r0,)).tolist() == [-np.inf] * 3
    assert (k.run((3,), UOp.const(1.0, dtypes.float32), (r0, r1), index=r0) == 7).all()


def test_axes_of_size_one() -> None:
    k, (r0, r1, r2) = Kernel(), ranges(1, 4, 1, reduce=1)
    a = numbers(4)
    assert (k.run((1, 4), k.read(a, r1 + r0 + r2).reduce(Ops.ADD, r2), (r0, r1)) == a).all()


def test_variables() -> None:
    n, k = UOp.variable("n", 1, 5), Kernel()
    (r0,), r1 = ranges(3), UOp.range(n, 1, AxisType.REDUCE)
    a = numbers(3, 5)
    value = k.read(a, r0 * 5 + r1).reduce(Ops.ADD, r1) + (n * 2).cast(dtypes.float32)
    for size in (1, 3, 5):
        got = k.run((3,), value, (r0,), n=size, rtol=1e-5)
        np.testing.assert_allclose(got, a[:, :size].sum(1) + 2 * size, rtol=1e-5)


def test_a_variable_as_the_place_of_a_write() -> None:
    at, k, (r0,) = UOp.variable("class", 0, 6), Kernel(), ranges(2)  # a name that no program could use
    a = numbers(2)
    sink = k.sink(8, k.read(a, r0), r0 + at, (r0,))
    for backend in BACKENDS.values():
        out = np.zeros(8, np.float32)
        backend.compile_kernel(sink)([out, a], {"class": 4})
        assert out.tolist() == [0, 0, 0, 0, *a.tolist(), 0, 0]


def test_a_chain_of_ten_thousand_operations() -> None:
    k, (r0,) = Kernel(), ranges(3)
    a = numbers(3, dtype=np.int32)
    value, want = k.read(a, r0), a.copy()
    for i in range(10_000):
        value, want = (value + i, want + i) if i % 2 else (value.alu(Ops.XOR, value.const_like(i)), want ^ i)
    assert (k.run((3,), value, (r0,)) == want).all()


def test_more_axes_than_python_nests_loops_and_numpy_has_axes() -> None:
    k = Kernel()
    for n in (22, 33):
        rs = tuple(UOp.range(2 if i < 4 else 1, i) for i in range(n))
        a = numbers(16)
        value = k.read(a, flat((2, 2, 2, 2), rs[3::-1]))
        want = a.reshape(2, 2, 2, 2).transpose().reshape(-1)
        assert (k.run((16,), value, rs, index=flat((2, 2, 2, 2), rs[:4])) == want).all()


# ** programs **


def test_kernels_with_large_temporaries_run_in_blocks() -> None:
    k, (r0, r1) = Kernel(), ranges(50, 4096)
    a = numbers(50, 4096)
    x = k.read(a, flat((50, 4096), (r0, r1)))
    value = (x * x + 1.0).alu(Ops.SQRT)
    sink = k.sink(a.size, value, flat((50, 4096), (r0, r1)), (r0, r1))
    text = numpy.program_text(sink)
    assert "for b0 in range(0, 50, 10):" in text and "out=s0" in text
    out = np.empty_like(a)
    numpy.compile_kernel(sink)([out.reshape(-1), a.reshape(-1)], {})
    np.testing.assert_allclose(out, np.sqrt(a * a + 1), rtol=1e-6)


def test_blocks_that_do_not_divide() -> None:
    k, (r0,) = Kernel(), ranges(200_003)
    a = numbers(200_003)
    x = k.read(a, r0)
    sink = k.sink(a.size, (x * x + 1.0).alu(Ops.SQRT), r0, (r0,))
    assert "all_s0[:200003-b0]" in numpy.program_text(sink)
    out = np.empty_like(a)
    numpy.compile_kernel(sink)([out, a], {})
    np.testing.assert_allclose(out, np.sqrt(a * a + 1), rtol=1e-6)


def test_no_view_ever_leaves_memory() -> None:
    """Reads that nothing guards, of an element that is not there: an error on both run times, never a value."""
    k, (r0,) = Kernel(), ranges(5)
    a = numbers(4)
    for index in (r0, r0 - 1):
        sink = k.sink(5, k.read(a, index), r0, (r0,))
        for backend in BACKENDS.values():
            with pytest.raises(IndexError):
                backend.compile_kernel(sink)([np.zeros(5, np.float32), a], {})


def test_names_of_kernels_are_made_usable() -> None:
    class Info:
        name = "E_4\n<script>"

    k, (r0,) = Kernel(), ranges(4)
    sink = k.sink(4, k.read(numbers(4), r0), r0, (r0,)).replace(arg=Info())
    for backend in BACKENDS.values():
        assert backend.program_text(sink).startswith("def E_4__script_(p0, p1):")


def test_equal_kernels_are_compiled_once() -> None:
    k, (r0,) = Kernel(), ranges(13)
    a = numbers(13)
    value = k.read(a, r0) * 3.25
    before = numpy.compile_program.cache_info()
    k.run((13,), value, (r0,))
    k.run((13,), value, (r0,))
    after = numpy.compile_program.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)


def imports_of(module: str) -> set[str]:
    path = Path(tinysched.__file__).parent / "runtime" / f"{module}.py"
    nodes = list(ast.walk(ast.parse(path.read_text())))
    return {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)} | set(
        chain.from_iterable([a.name for a in n.names] for n in nodes if isinstance(n, ast.Import))
    )


@pytest.mark.parametrize("module", ["loops", "nest", "repeats"])
def test_the_reference_knows_no_analysis(module: str) -> None:
    nest = ("tinysched.runtime.nest", "tinysched.runtime.repeats")
    allowed = ("numpy", "tinysched.ir", "tinysched.dtypes", "tinysched.errors", *nest)
    others = {name for name in imports_of(module) if name.split(".")[0] not in sys.stdlib_module_names}
    assert all(name.startswith(allowed) for name in others), others
