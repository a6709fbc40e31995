"""Copies as Python makes them: each is a value of its own, in this process or in another."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinysched import Tensor, capture, nn
from tinysched.trace.trace import Trace

TWO = ("NUMPY", "NUMPY:1")
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}
MADE: dict[str, Callable[[], Tensor]] = {
    "memory": lambda: Tensor([[1.0, 2.0], [3.0, 4.0]]).realize(),
    "lazy": lambda: Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2,
    "constant": lambda: Tensor.full((2, 2), 3.0),
    "view": lambda: Tensor(np.arange(8.0).reshape(2, 4)).realize()[:, ::2],
    "written": lambda: _written(),
    "int8": lambda: Tensor([[1, 2], [3, 4]], dtype="int8"),
    "empty": lambda: Tensor.zeros(2, 0),
    "0-d": lambda: Tensor([5.0]).sum(),
    "other device": lambda: Tensor([[1.0, 2.0]], device="NUMPY:1"),
    "shards": lambda: Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(TWO, 1),
    "whole on two": lambda: Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(TWO, None),
}


def _written() -> Tensor:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    x[0] = 7.0
    return x


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_a_copy_has_the_same_value_and_neither_sees_writes_to_the_other(name: str, way: str) -> None:
    x = MADE[name]()
    x.name, x.requires_grad = "weights", True
    y = WAYS[way](x)
    assert (y.shape, y.dtype, y.device, y.name, y.requires_grad) == (x.shape, x.dtype, x.device, "weights", True)
    before = x.numpy()
    y += 1
    assert np.array_equal(x.numpy(), before) and np.array_equal(y.numpy(), before + 1)
    x += 2
    assert np.array_equal(x.numpy(), before + 2) and np.array_equal(y.numpy(), before + 1)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copied_model_learns_by_itself(way: str) -> None:
    model = nn.Linear(3, 2)
    model.tied = model.weight
    other = WAYS[way](model)
    assert other.tied is other.weight
    before = model.weight.numpy()
    optimizer = nn.optim.SGD([other.weight, other.bias], lr=0.5)
    other(Tensor.ones(1, 3)).sum().backward()
    optimizer.step()
    assert np.array_equal(model.weight.numpy(), before) and model.weight.grad is None
    np.testing.assert_allclose(other.weight.numpy(), before - 0.5, rtol=1e-6)


def test_gradients_are_copied_deeply() -> None:
    x = Tensor([1.0, 2.0])
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    y.grad += 1
    assert x.grad.tolist() == [2.0, 4.0] and y.grad.tolist() == [3.0, 5.0]


def test_another_process_reads_what_was_pickled(tmp_path: Path) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(TWO, 0)
    file = tmp_path / "x.pickle"
    file.write_bytes(pickle.dumps([x, x.sum(), capture(x + 1)]))
    code = f"import pickle; x, s, t = pickle.load(open({str(file)!r}, 'rb')); print((x * s).tolist(), x.device, t)"
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]).stdout
    assert said.startswith("[[10.0, 20.0], [30.0, 40.0]] ('NUMPY', 'NUMPY:1') <Trace")


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_trace_is_the_same_document(way: str) -> None:
    trace = capture(Tensor([1.0, 2.0]) + 1)
    other = WAYS[way](trace)
    assert isinstance(other, Trace) and other.to_json() == trace.to_json() and other.check().ok
