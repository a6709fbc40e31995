"""Element types: promotion and accumulators against the installed peer, constants as NumPy holds them."""

from __future__ import annotations

import math
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

from tinysched import Tensor, dtypes
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
