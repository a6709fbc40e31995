"""Reading and writing shards: one STORE for each shard touched, old values where they are held."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.sharded import calls, moved, names, ramp, spread
from tinysched import Tensor
from tinysched.errors import LostValue, RunError
from tinysched.runtime import linear as runtime

# ** reading and writing one shard **


@pytest.mark.parametrize("lazy", [False, True])
def test_reading_one_shard(lazy: bool) -> None:
    x = Tensor(ramp(8, 8)).realize().shard(names(4), 0)
    x = x if lazy else x.realize()
    first, last = x[0:2] * 2, x[6:8].to("NUMPY:3")
    assert lazy or (moved(last), calls(last)) == (0, (1, 0))  # it lies there
    assert first.tolist() == (ramp(8, 8)[:2] * 2).tolist() and last.tolist() == ramp(8, 8)[6:].tolist()


def stores_of(*tensors: Tensor) -> list[str]:
    """The devices that a plan's kernels write on, and those that it copies to."""
    return [call.src[1].device for call in Tensor.schedule_linear(*tensors).src]


@pytest.mark.parametrize(
    ("region", "touched"),
    [
        ((slice(0, 2),), ["NUMPY"]),
        ((slice(3, 4), slice(0, 1)), ["NUMPY:1"]),
        ((slice(1, 3),), ["NUMPY", "NUMPY:1"]),
        ((slice(0, 8), slice(1, 2)), list(names(4))),
        ((slice(None, None, -1),), list(names(4))),
        ((slice(6, 8), slice(None, None, 2)), ["NUMPY:3"]),
    ],
)
def test_a_write_is_one_store_per_shard_touched(region: tuple[slice, ...], touched: list[str]) -> None:
    x, want = spread(ramp(8, 3), 4, 0), ramp(8, 3)
    before = x.uop.realized
    x[region] = 7.0
    want[region] = 7.0
    assert sorted(stores_of(x)) == touched
    assert x.numpy().tolist() == want.tolist()
    assert x.uop.realized == before  # in place


def test_a_write_brings_only_what_each_shard_needs() -> None:
    x, rows = spread(ramp(8, 4), 4, 0), spread(-ramp(4, 4), 4, None)
    x[2:6] = rows
    assert moved(x) == 0
    y = Tensor(ramp(4, 4)).realize().shard(names(4), 0).realize()
    x[0:4] = y  # rows 1 to 3 go to other devices
    assert moved(x) == 3 * 4 * 4 - 4 * 4 + 4 * 4 - 4 * 4 + 4 * 4
    want = ramp(8, 4)
    want[2:6] = -ramp(4, 4)
    want[0:4] = ramp(4, 4)
    assert x.numpy().tolist() == want.tolist()


def test_a_write_from_an_array_or_a_list() -> None:
    x = spread(ramp(4, 2), 2, 0)
    x[1:3] = np.full((2, 2), 9, np.float32)
    x[3] = [5.0, 6.0]
    x[[0, 3]] = 1.0
    assert x.tolist() == [[1, 1], [9, 9], [9, 9], [1, 1]]


def test_views_and_snapshots_follow_numpy() -> None:
    x = spread(ramp(4, 2), 2, 0)
    view, snapshot, held = x[1:3], x + 0, x.contiguous()
    x[1:2] = -1.0
    view[1] = 50.0
    x.assign(x * 2)
    want = np.array([[0, 2], [-2, -2], [100, 100], [12, 14]], np.float32)
    assert x.tolist() == want.tolist() and view.tolist() == want[1:3].tolist()
    assert snapshot.tolist() == held.tolist() == ramp(4, 2).tolist()


def test_a_swap_between_shards_reads_the_old_values() -> None:
    x = spread(ramp(4), 2, 0)
    a, b = x[0:2] + 0, x[2:4] + 0
    x[0:2] = b
    x[2:4] = a
    assert x.tolist() == [2, 3, 0, 1]
    y = spread(ramp(6), 2, 0)
    y.assign(y.flip(0))
    assert y.tolist() == [5, 4, 3, 2, 1, 0]
    y[1:] = y[:-1] * 1
    assert y.tolist() == [5, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("first", [0, 1])
def test_what_was_gathered_before_a_write_has_the_old_values(first: int) -> None:
    x = spread(ramp(4), 2, 0)
    old = x.to("NUMPY:1")
    x.assign(x + 10)
    Tensor.realize(*((x, old) if first else (old, x)))
    assert old.tolist() == [0, 1, 2, 3] and x.tolist() == [10, 11, 12, 13]


def test_replicas_are_written_together() -> None:
    x = spread(ramp(4), 3, None)
    x[1:3] = 5.0
    x.realize()
    assert [memory.copyout().tolist() for memory in x.uop.realized] == [[0, 5, 5, 3]] * 3


def test_writes_to_values_that_are_not_computed_yet() -> None:
    x = Tensor(ramp(4, 4)).realize().shard(names(4), 0)
    x[:, 2:3] = Tensor.ones(4, 1).shard(names(4), 0).contiguous().realize()
    want = ramp(4, 4)
    want[:, 2:3] = 1
    y = Tensor.empty(4, 4, device=names(2))
    y[0] = 3.0
    y[1:] = 4.0
    assert x.tolist() == want.tolist() and y.tolist() == [[3] * 4, [4] * 4, [4] * 4, [4] * 4]


def test_values_that_a_failing_device_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = spread(ramp(4), 2, 0)
    x.assign(x.flip(0) + 1)
    y = spread(ramp(4), 2, 0)
    count, run = itertools.count(), runtime._run

    def fails_at_the_last(job: Any) -> float:
        if next(count) == len(Tensor.schedule_linear(x).src) - 1:
            raise RunError("the device is on fire")
        return run(job)

    monkeypatch.setattr(runtime, "_run", fails_at_the_last)
    with pytest.raises(RunError):
        x.realize()
    monkeypatch.undo()
    with pytest.raises(LostValue):
        x.numpy()
    assert y.tolist() == [0, 1, 2, 3]
