"""Element types: promotion and accumulators against the installed peer, constants as NumPy holds them."""

from __future__ import annotations

import math
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

from tinysched import Context, Tensor, dtypes
from tinysched.dtypes import (
    DType,
    as_scalar,
    least_upper_dtype,
    least_upper_float,
    strong_dtype,
    sum_acc_dtype,
    to_dtype,
)
from tinysched.errors import DTypeError

ALL = (dtypes.bool, *dtypes.ints, *dtypes.floats, *dtypes.weaks)
NUMPY = [d for d in ALL if d.np_name and d not in dtypes.weaks]


@pytest.fixture(scope="module")
def peer():
    if find_spec("tinygrad") is None:
        pytest.skip("no tinygrad; it comes with the extra `test`")
    import tinygrad.dtype

    return tinygrad.dtype


def theirs(peer, d: DType):
    return getattr(peer.dtypes, d.name)


@pytest.mark.peer
def test_promotion_is_the_peers(peer):
    for a, b in product(ALL, ALL):
        assert theirs(peer, least_upper_dtype(a, b)) == peer.least_upper_dtype(theirs(peer, a), theirs(peer, b)), (a, b)


@pytest.mark.peer
def test_accumulators_are_the_peers(peer):
    for d in ALL:
        assert theirs(peer, sum_acc_dtype(d)) == peer.sum_acc_dtype(theirs(peer, d)), d
        assert theirs(peer, least_upper_float(d)) == peer.least_upper_float(theirs(peer, d)), d
        assert theirs(peer, strong_dtype(d)) == peer.strong_dtype(theirs(peer, d)), d


@pytest.mark.peer
@pytest.mark.parametrize("value", [True, 3, 2.5, [1, 2], [1.5, 2], [True, False], [[1], [2]], []])
def test_python_values_have_the_peers_types(peer, value):
    assert theirs(peer, dtypes.from_py(value)) == peer.dtypes.from_py(value)


@pytest.mark.peer
@pytest.mark.parametrize("d", [d for d in ALL if d not in dtypes.floats and d not in dtypes.weaks], ids=str)
def test_limits_are_the_peers(peer, d):
    assert (d.min, d.max, d.itemsize) == (theirs(peer, d).min, theirs(peer, d).max, theirs(peer, d).itemsize)


@pytest.mark.parametrize("d", NUMPY, ids=str)
def test_constants_are_what_numpy_holds(d):
    values = [0, 1, -1, 300, 2**31, -(2**40), 0.1, -2.7, True]
    for value in values if d.kind in "iu" else [*values, math.inf, -math.inf]:
        with np.errstate(all="ignore"):
            want = np.array([value]).astype(d.np)[0].item()
        assert as_scalar(value, d) == want
        assert Tensor(value, dtype=d).item() == want


def test_weak_constants_keep_their_value():
    assert (Tensor(np.array([1.0])) * Tensor(0.1)).item() == 0.1
    assert (Tensor(np.array([1])) * Tensor(2**40)).item() == 2**40
    assert (Tensor(2) + Tensor(3)).dtype is dtypes.weakint
    assert (Tensor(2) * 2.5).item() == 5.0


@pytest.mark.parametrize("d", NUMPY, ids=str)
def test_there_and_back(d):
    a = np.array([0, 1, 1], d.np)
    x = Tensor(a)
    assert x.dtype is d
    assert to_dtype(d.np) is to_dtype(d.name) is d
    assert x.numpy().dtype == a.dtype
    assert x.tolist() == a.tolist()


@pytest.mark.parametrize(("given", "found"), [(float, "float32"), (int, "int32"), (bool, "bool"), ("half", None)])
def test_python_types_and_unknown_names(given, found):
    if found is not None:
        assert to_dtype(given).name == found
        return
    with pytest.raises(DTypeError):
        to_dtype("no such type")


def test_cast_to_each_from_each():
    for a, b in product(NUMPY, NUMPY):
        values = np.array([0, 1, 100], a.np)
        np.testing.assert_array_equal(Tensor(values).cast(b).numpy(), values.astype(b.np), err_msg=f"{a} {b}")


# ---- each op at each dtype

EDGES = {
    "b": [False, True],
    "u": [0, 1, 2, 7, 100, -1, -2],  # the last two wrap to the largest
    "i": [0, 1, -1, 2, -3, 7, 100, "min", "max"],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 100.0, math.inf, -math.inf, math.nan],
}
BINARY = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
    "subtract": lambda x, y: x - y,
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "fmod": lambda x, y: x.fmod(y),
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
}
UNARY = {"negative": lambda x: -x, "abs": lambda x: x.abs(), "sign": lambda x: x.sign(), "invert": lambda x: ~x}
REDUCE = {"max": lambda x: x.max(0), "min": lambda x: x.min(0), "any": lambda x: x.any(0), "all": lambda x: x.all(0)}
NOT_THERE = {"b": {"subtract", "floor_divide", "remainder", "fmod", "negative", "sign"}, "u": set(), "i": set()}
NOT_THERE["f"] = {"bitwise_and", "bitwise_or", "bitwise_xor", "invert"}
# floats: NumPy takes the remainder first and repairs the quotient, which differs at infinities
INEXACT = {"floor_divide", "remainder", "fmod"}


def edges(d: DType) -> np.ndarray:
    limits = {"min": d.min, "max": d.max}
    values = [limits.get(v, v) if isinstance(v, str) else v for v in EDGES[d.kind]]
    with np.errstate(all="ignore"):
        return np.array(values).astype(d.np)


@pytest.mark.parametrize("cpu", ["numpy", "loops"])
@pytest.mark.parametrize("d", NUMPY, ids=str)
def test_each_op_at_each_dtype(d, cpu):
    a = edges(d)
    x, y = (m.reshape(-1).copy() for m in np.meshgrid(a, a))
    if d.kind == "f":
        finite = np.isfinite(x) & np.isfinite(y) & (y != 0)
    with Context(CPU=cpu), np.errstate(all="ignore"):
        for name, fn in BINARY.items():
            if name not in NOT_THERE[d.kind]:
                keep = finite if d.kind == "f" and name in INEXACT else slice(None)
                found = fn(Tensor(x[keep]), Tensor(y[keep])).numpy()
                check(found, getattr(np, name)(x[keep], y[keep]), name)
        for name, fn in UNARY.items():
            if name not in NOT_THERE[d.kind]:
                check(fn(Tensor(a)).numpy(), getattr(np, name)(a), name)
        for name, fn in REDUCE.items():
            check(fn(Tensor(x.reshape(a.size, -1))).numpy(), getattr(np, name)(x.reshape(a.size, -1), 0), name)


def check(found: np.ndarray, want: np.ndarray, name: str) -> None:
    assert found.dtype == want.dtype, name
    np.testing.assert_array_equal(found, want, err_msg=name)
