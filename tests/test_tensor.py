"""The Tensor API, line by line: values and dtypes against NumPy, dtypes and shapes against the installed peer."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from tests.tensor_tables import LINES, Line
from tinysched import Tensor


def expected(line: Line) -> np.ndarray:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(line.numpy(*line.inputs))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_values_are_numpys(line: Line):
    found = line.ours(*(Tensor(a) for a in line.inputs)).numpy()
    want = expected(line)
    assert found.shape == want.shape
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=line.tol, atol=line.tol)


def test_names_are_unique():
    names = [line.name for line in LINES]
    assert len(set(names)) == len(names)


@pytest.mark.peer
@pytest.mark.skipif(find_spec("tinygrad") is None, reason="no tinygrad; it comes with the extra `test`")
def test_dtypes_and_shapes_are_the_peers():
    from benchmarks.peer import Peer

    peer, wrong = Peer("NULL"), []
    with peer.settings():
        for line in (x for x in LINES if x.peer is True):
            try:
                theirs = line.ours(*(peer.empty(a.shape, a.dtype.name) for a in line.inputs))
            except Exception as error:
                wrong.append(f"{line.name}: the peer raises {type(error).__name__}: {error}")
                continue
            ours = line.ours(*(Tensor.empty(*a.shape, dtype=a.dtype.name) for a in line.inputs))
            pair = [(t.shape, _name(t.dtype)) for t in (ours, theirs)]
            if pair[0] != pair[1]:
                wrong.append(f"{line.name}: {pair[0]}, the peer {pair[1]}")
    assert not wrong, "\n".join(wrong)


def _name(dtype: object) -> str:
    """The peer names its types after C."""
    names = {"char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32"}
    names |= {"long": "int64", "ulong": "uint64", "half": "float16", "float": "float32", "double": "float64"}
    text = str(dtype).removeprefix("dtypes.")
    return names.get(text, text)
