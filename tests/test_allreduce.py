"""Allreduce in three ways: the same totals, and the bytes that theory says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.sharded import Told, calls, moved, names, ramp, spread
from tinysched import Context, GlobalCounters, Tensor
from tinysched.ir.decision import Reason
from tinysched.ir.observe import watching
from tinysched.schedule.allreduce import chunks_of, ways
from tinysched.schedule.copies import bytes_between

# ** allreduce **


def test_which_way() -> None:
    assert [ways(n, 1_000_000) for n in (2, 3, 8)] == ["naive", "ring", "ring"]
    assert ways(4, 256_000) == "naive" and ways(4, 256_001) == "ring"
    with Context(RING_ALLREDUCE_THRESHOLD=10):
        assert ways(4, 11) == "ring"
    with Context(RING=0):
        assert ways(8, 1_000_000) == "naive"
    with Context(RING=2):
        assert ways(2, 4) == "ring"
    with Context(ALL2ALL=1):
        assert ways(4, 1_000_000) == "all-to-all" and ways(4, 100) == "naive" and ways(2, 1_000_000) == "naive"
    with Context(ALL2ALL=2, RING=2):
        assert ways(2, 4) == "all-to-all"


@pytest.mark.parametrize(("elements", "n"), [(256, 4), (100, 3), (7, 4), (3, 4), (1, 2), (4096, 8), (2 * 3 * 5 * 7, 4)])
def test_chunks_are_even_and_cover_all(elements: int, n: int) -> None:
    chunks = chunks_of(elements, n)
    sizes = [b - a for a, b in chunks]
    assert chunks[0][0] == 0 and chunks[-1][1] == elements and all(a[1] == b[0] for a, b in itertools.pairwise(chunks))
    assert len(chunks) <= n and min(sizes) > 0 and max(sizes) - min(sizes) <= 32


@pytest.mark.parametrize("way", [{"RING": 0}, {"RING": 2}, {"ALL2ALL": 2}])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("elements", [2, 7, 64, 1000])
def test_every_way_gives_the_same(way: dict[str, int], n: int, elements: int) -> None:
    data = (np.arange(n * elements) % 13).astype(np.float32).reshape(n, elements)
    with Context(**way):
        x = spread(data, n, 0)
        sums, largest = x.sum(0).realize(), (x.max(0) * 2).realize()
    assert {tuple(m.copyout()) for m in sums.uop.realized} == {tuple(data.sum(0))}
    assert {tuple(m.copyout()) for m in largest.uop.realized} == {tuple(data.max(0) * 2)}


def sent_and_received(x: Tensor) -> list[tuple[int, int]]:
    between = bytes_between(Tensor.schedule_linear(x)).items()
    sent = [sum(size for (source, _), size in between if source == d) for d in x.device]
    received = [sum(size for (_, to), size in between if to == d) for d in x.device]
    return list(zip(sent, received, strict=True))


@pytest.mark.parametrize("n", [3, 4, 8])
def test_bytes_per_device_are_as_theory_says(n: int) -> None:
    size = 32 * n * 4 * 4
    data = np.ones((n, size // 4), np.float32)
    with Context(RING=0):
        assert sent_and_received(spread(data, n, 0).sum(0)) == [((n - 1) * size, (n - 1) * size)] * n
    for way in ({"RING": 2}, {"ALL2ALL": 2}):
        with Context(**way):
            assert sent_and_received(spread(data, n, 0).sum(0)) == [(2 * (n - 1) * size // n,) * 2] * n


def test_the_steps_of_a_ring_can_be_seen() -> None:
    n = 4
    with Context(RING=2):
        x = spread(ramp(n, 256), n, 0).sum(0)
        # partial sums; n - 1 additions for each chunk; one kernel per device puts the chunks together
        assert calls(x) == (n + n * (n - 1) + n, 2 * n * (n - 1))
        GlobalCounters.reset()
        x.realize()
    assert GlobalCounters.copy_count == 2 * n * (n - 1)
    assert sum(GlobalCounters.moved.values()) == 2 * (n - 1) * 256 * 4
    assert set(GlobalCounters.moved) == {(names(n)[i], names(n)[(i + 1) % n]) for i in range(n)}  # only to the next
    with Context(ALL2ALL=2):
        assert calls(spread(ramp(n, 256), n, 0).sum(0)) == (3 * n, 2 * n * (n - 1))


def test_large_sums_go_around() -> None:
    x = spread(np.ones((4, 300_000), np.float32), 4, 0)
    told = Told()
    with watching(told):
        assert moved(x.sum(0)) == 2 * 3 * 300_000 * 4
    assert Reason.ALLREDUCE_RING in told.reasons()
