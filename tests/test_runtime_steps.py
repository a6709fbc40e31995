"""Kernels made ready for the fast backends: masks and indices point for point, convolutions and pools against loops."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graphs import examples
from tests.test_runtime_kernels import Kernel, flat, numbers, ranges
from tests.test_runtime_numba import in_python
from tinysched import Context, Tensor, plan
from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.conditions import at_least, conjunction, in_bounds, less
from tinysched.ir.symbolic.given import simplify_given, tidy
from tinysched.ir.uop import UOp
from tinysched.runtime import numba, numpy
from tinysched.runtime.cost import _Counter
from tinysched.runtime.linear import execute
from tinysched.runtime.steps import steps_of
from tinysched.schedule.policy import AllLegal, Policies


def value_at(u: UOp, point: dict[UOp, int]) -> Any:
    return _Counter(set(), {}).value(u, point)


def points(*loops: UOp) -> list[dict[UOp, int]]:
    return [dict(zip(loops, p, strict=True)) for p in product(*(range(r.src[0].arg) for r in loops))]


@given(st.data())
@examples(150)
def test_bounds_on_digits_hold_at_the_same_points(data: st.DataObject) -> None:
    n, k, m = (data.draw(st.integers(2, top)) for top in (14, 5, 12))
    r, s = ranges(n, k)
    x = r * data.draw(st.integers(-3, 3)) + s * data.draw(st.integers(-13, 13)) + data.draw(st.integers(-9, 9))
    digit, c = (x % m if data.draw(st.booleans()) else x // m), data.draw(st.integers(-1, m))
    upper = data.draw(st.booleans())
    found = less(digit, c) if upper else at_least(digit, c)
    for p in points(r, s):
        assert bool(value_at(found, p)) == ((value_at(digit, p) < c) == upper)


@given(st.data())
@examples(150)
def test_simplified_masks_and_indices_are_the_same_where_they_are_asked_for(data: st.DataObject) -> None:
    n, k, m = (data.draw(st.integers(2, top)) for top in (14, 5, 15))
    r, s = ranges(n, k)
    flat_at = s * n + r
    low, a = data.draw(st.integers(-3, 3)), data.draw(st.integers(1, 4))
    parts = [
        in_bounds(flat_at % m, max(0, low), m - 1),
        less(flat_at, data.draw(st.integers(1, n * k))),
        in_bounds(r - s, low, low + 5),
        less(flat_at % m % a, 1),
    ]
    mask = conjunction(p for p in parts if data.draw(st.booleans()))
    index = flat_at // m * 7 + flat_at % m // a + data.draw(st.integers(0, 3))
    tidied, simple = tidy(mask), simplify_given(mask, index)
    for p in points(r, s):
        assert bool(value_at(tidied, p)) == bool(value_at(mask, p))
        if value_at(mask, p):
            assert value_at(simple, p) == value_at(index, p)


def test_the_digits_of_a_convolutions_gradient_disappear() -> None:
    r, s = ranges(24, 6)
    flat_at = s * 24 + r
    mask = tidy(conjunction((less(flat_at, 125), less(flat_at % 25, 20))))
    assert mask is conjunction((in_bounds(r - s, 0, 20), less(s, 5)))
    assert simplify_given(mask, flat_at % 25 * 20 + flat_at // 25) is simplify_given(mask, (r - s) * 20 + s)


def on_both(make: Any, *arrays: np.ndarray, rtol: float = 1e-4) -> None:
    """What ``make`` returns (a list of Tensors) is the same on the loops and on the default backend."""
    found = []
    for cpu in ("loops", "numpy"):
        with Context(CPU=cpu):
            outs = make(*(Tensor(a).realize() for a in arrays))
            Tensor.realize(*outs)
            found.append([t.numpy() for t in outs])
    for slow, fast in zip(*found, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation"),
    [(7, 3, 1, 0, 1), (8, 3, 2, 1, 1), (9, 2, 3, 0, 1), (8, 3, 1, 2, 2), (6, 5, 1, 2, 1), (7, 1, 2, 0, 1)],
)
def test_convolutions_and_their_gradients(size: int, kernel: int, stride: int, padding: int, dilation: int) -> None:
    def make(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
        y = x.relu().conv2d(w, b, stride=stride, padding=padding, dilation=dilation).relu()
        return [y, *(y * y).sum().gradient(x, w, b)]

    on_both(make, numbers(2, 2, size, size + 1), numbers(3, 2, kernel, kernel), numbers(3))


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(6, 2, 2), (7, 2, 2), (7, 3, 2), (6, 3, 1), (9, 3, 3), (8, 2, 3)]
)
def test_pools_and_their_gradients(size: int, kernel: int, stride: int) -> None:
    def make(x: Tensor) -> list[Tensor]:
        high, mean = (f((kernel, kernel), stride) for f in (x.max_pool2d, x.avg_pool2d))
        return [high, mean, *((high * high).sum() + (mean * mean).sum()).gradient(x)]

    on_both(make, numbers(2, 2, size, size))


def joined() -> tuple[Kernel, UOp, tuple[UOp, ...]]:
    """out[r, c] = sum over S of (x[r - S] w[S, c] summed over K, where r - S lies within x)."""
    k, (r, c, s, i) = Kernel(), ranges(9, 3, 4, 5, reduce=2)
    x, w = numbers(6, 5), numbers(4, 5, 3)
    mask = in_bounds(r - s, 0, 6)
    inner = (k.read(x, (r - s) * 5 + i, mask) * k.read(w, flat((4, 5, 3), (s, i, c)))).reduce(Ops.ADD, i)
    return k, mask.where(inner, 0.0).reduce(Ops.ADD, s), (r, c)


def test_masked_sums_of_sums_become_one_product() -> None:
    k, value, loops = joined()
    x, w = k.inputs
    out = k.run((9, 3), value, loops, rtol=1e-5)
    want = [[sum(x[r - s] @ w[s, :, c] for s in range(4) if 0 <= r - s < 6) for c in range(3)] for r in range(9)]
    np.testing.assert_allclose(out, want, rtol=1e-5)
    assert numpy.program_text(k.sink(27, value, flat((9, 3), loops), loops)).count("np.matmul") == 1


def test_what_a_mask_leaves_out_may_be_infinite() -> None:
    k, value, loops = joined()
    sink = k.sink(27, value, flat((9, 3), loops), loops)
    assert [p.arg.slot for p in steps_of(sink).finite] == [2] and not steps_of(sink, join=False).finite
    k.inputs[1][3] = np.inf  # the last row of the filter: it reaches out[3] to out[8] only
    out = k.run((9, 3), value, loops, rtol=1e-5)
    assert np.isfinite(out[:3]).all() and not np.isfinite(out[3:]).any()


def test_sums_run_only_over_what_their_masks_let_through() -> None:
    k, (r, s) = Kernel(), ranges(5, 7, reduce=1)
    x = numbers(7, 5)
    value = in_bounds(s - r, 1, 2).where(k.read(x, s * 5 + r), 0.0).reduce(Ops.ADD, s)
    assert (k.run((5,), value, (r,)) == [x[i + 1, i] for i in range(5)]).all()
    [sink] = steps_of(k.sink(5, value, r, (r,))).sinks
    assert not any(u.op is Ops.REDUCE for u in sink.toposort())


def test_rows_by_number_are_right_where_the_mask_of_the_store_fails_too() -> None:
    """An index that only holds under the mask would name no row in the places around it, which arrays have as well."""
    k, (r,) = Kernel(), ranges(8)
    rows, x = numbers(8, dtype=np.int32) % 5, numbers(28)
    index = r // 2 * -2 + (r + 1) % 3 * -1 + k.read(rows, r).cast(dtypes.index) + 8
    sink = k.sink(8, k.read(x, index), r * -1 + 7, (r,), in_bounds(r, 2, 5))
    out = np.zeros(8, np.float32)
    numpy.compile_kernel(sink)([out, rows.reshape(-1), x], {})
    want = np.zeros(8, np.float32)
    for i in range(2, 5):
        want[7 - i] = x[i // 2 * -2 - (i + 1) % 3 + rows[i] + 8]
    np.testing.assert_array_equal(out, want)


def test_an_index_with_digits_is_only_right_where_its_reader_looks() -> None:
    """Simplified under the mask, it would lead out of memory in the places around it."""
    k, (r, s) = Kernel(), ranges(8, 8)
    x, near = numbers(65), in_bounds(r - s, 1, 2)
    value = k.read(x, r * 8 + s // 2 * -2 + (r * 8 - s + 7) % 3 + 6)
    out = k.run((8, 8), value, (r, s), valid=near, before=7)
    want = np.full((8, 8), 7, np.float32)
    for i in range(1, 8):
        want[i, i - 1] = x[i * 8 - (i - 1) // 2 * 2 + (i * 8 - (i - 1) + 7) % 3 + 6]
    np.testing.assert_array_equal(out, want)


# ** one array for two loops **


def fused(y: Tensor) -> UOp:
    """The one kernel of a value when everything is fused."""
    [call] = plan(y, policies=Policies(fusion=AllLegal())).linear.src
    return call.src[0]


def softmax_of_products(x: Tensor) -> Tensor:
    e = (x - x.max(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)) @ x.reshape(1, 5, 7).sum(0).T  # both sums run over the same array


SHARED = {
    "softmax": (lambda x: x.softmax(-1), 1),
    "softmax of columns": (lambda x: x.softmax(0), 1),
    "two sums of one value": (lambda x: x.exp().sum(-1) * (x.exp() * x).sum(-1), 1),
    "under two sums": (softmax_of_products, 1),
    "rows and columns": (lambda x: x.exp() / (x.exp().sum(0, keepdim=True) + x.exp().sum(1, keepdim=True)), 1),
    "other values": (lambda x: x.exp() / (x * 2).exp().sum(-1, keepdim=True), 2),
    "along two loops at once": (lambda x: x.exp() / x.exp().sum(), 2),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_stands_along_two_loops_is_computed_once(name: str) -> None:
    make, count = SHARED[name]
    x = Tensor(numbers(5, 7) * np.float32(0.3)).realize()
    y = make(x)
    sink = fused(y)
    assert numpy.program_text(sink).count("np.exp2") == count
    linear = plan(y, policies=Policies(fusion=AllLegal())).linear
    found = []
    for cpu in ("loops", "numpy"):
        with Context(CPU=cpu):
            out = linear.src[0].src[1]
            found.append(execute(linear, keep=[out]).kept[out])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], y.numpy().reshape(-1), rtol=1e-5)


def test_shared_loops_run_in_blocks_of_rows() -> None:
    x = Tensor(numbers(300, 1000) * np.float32(0.3)).realize()
    text = numpy.program_text(fused(x.softmax(-1)))
    assert text.count("np.exp2") == 1 and "for b0 in range(0, 300, 60):" in text and "b1" not in text
    out = np.empty(300_000, np.float32)
    numpy.compile_kernel(fused(x.softmax(-1)))([out, x.numpy().reshape(-1)], {})
    np.testing.assert_allclose(out, x.softmax(-1).numpy().reshape(-1), rtol=1e-5)


# ** networks whose gradients read through several windows at once **


class Net(NamedTuple):
    """A convolution, perhaps turned, stretched, normalized; then a pool."""

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int, int]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    back: int = 0
    grow: int = 0
    relu: bool = False
    maximum: bool = False
    normal: bool = False

    def results(self) -> list[Tensor]:
        out, *window = self.kernel
        x, w = (Tensor(numbers(*s) * np.float32(0.3)).realize() for s in (self.shape, (out, self.shape[1], *window)))
        y = x.conv2d(w, stride=self.stride, padding=self.padding, dilation=self.dilation)
        y = y.conv_transpose2d(w, stride=self.back, dilation=self.dilation) if self.back else y
        if self.grow:
            size = (y.shape[2] + self.grow, y.shape[3] + 1)
            y = y.interpolate(size, mode="linear" if self.maximum else "nearest")
        y = y.reshape(y.shape[0], -1).softmax(-1).reshape(y.shape) if self.normal else y
        y = y.relu() if self.relu else y
        pool = tuple(min(2, n) for n in y.shape[2:])
        y = y.max_pool2d(pool) if self.maximum else y.avg_pool2d(pool, stride=1)
        return [y, *(y * y).sum().gradient(x, w)]


def values_of(net: Net, cpu: str) -> list[np.ndarray]:
    with Context(CPU=cpu):
        found = net.results()
        Tensor.realize(*found)
        return [t.numpy() for t in found]


def agree(net: Net) -> None:
    want = values_of(net, "loops")
    for cpu in ("numpy", "numba"):
        for a, b in zip(values_of(net, cpu), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


@pytest.fixture
def lowered_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "WORTH", 0)
    monkeypatch.setattr(numba, "compiled", in_python)


NETS = {
    "a factor that only the mask of its product keeps inside": Net(
        (1, 2, 6, 5), (2, 2, 3), 3, 1, relu=True, maximum=True
    ),
    "a masked gather of bools": Net((3, 1, 9, 9), (2, 2, 2), grow=2, maximum=True, normal=True),
    "rows that are numbered where the mask ends": Net((3, 2, 4, 5), (1, 3, 1), 3, grow=2, maximum=True),
}


@pytest.mark.usefixtures("lowered_in_python")
@pytest.mark.parametrize("name", NETS)
def test_gradients_through_windows_have_the_values_of_loops(name: str) -> None:
    agree(NETS[name])


@pytest.mark.usefixtures("lowered_in_python")
@settings(examples(6), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_gradients_of_random_networks_have_the_values_of_loops(data: st.DataObject) -> None:
    one = partial(lambda low, high: data.draw(st.integers(low, high)))
    flag = partial(data.draw, st.booleans())
    net = Net(
        (one(1, 2), one(1, 3), one(5, 8), one(5, 8)), (one(1, 3), one(1, 3), one(1, 3)),
        one(1, 3), one(0, 1), one(1, 2), one(0, 3), one(0, 2), flag(), flag(), flag(),
    )  # fmt: skip
    agree(net)


def test_the_number_of_a_row_is_read_under_its_own_mask() -> None:
    """A mask that holds for the row must not be taken off what the row's number is read from."""
    x, w = Tensor(numbers(3, 2)).realize(), Tensor(numbers(5, 3)).realize()
    rows = Tensor(np.array([1, -3, 0, 2, -1], np.int32)).realize()
    for cpu in ("loops", "numpy"):
        with Context(CPU=cpu):
            z = x[rows].reshape(-1).cumsum(0).reshape(5, 2).T @ w
            want = np.cumsum(x.numpy()[rows.numpy()].reshape(-1)).reshape(5, 2).T @ w.numpy()
            np.testing.assert_allclose(z.numpy(), want, rtol=1e-5)
