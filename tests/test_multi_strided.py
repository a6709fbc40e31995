"""Writes through slices with steps across shards: NumPy says what they give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sharded import Array, names, ramp, spread
from tinysched import Tensor
from tinysched.dtypes import dtypes
from tinysched.errors import ShapeError, SpecError
from tinysched.ir.sharding import unshard
from tinysched.ir.uop import UOp
from tinysched.schedule.multi import expand_devices

SHAPE = (6, 12, 5)  # its first two axes divide by 2 and by 3


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    """Slices of an axis with steps forwards and backwards, with bounds from either end; not empty."""
    bound = st.none() | st.integers(-size - 1, size + 1)
    step = st.integers(-5, 5).filter(bool)
    found = st.builds(slice, bound, bound, step)
    return draw(found.filter(lambda s: len(range(size)[s]) > 0))


def value_for(kind: str, tensor: Tensor, array: Array, region: Any) -> tuple[Any, Any]:
    """What is written into a Tensor, and what into the array."""
    if kind == "number":
        return -1.0, -1.0
    n, value = len(tensor.device), -ramp(*array[region].shape) - 1
    if kind == "array":
        return value, value
    if kind == "cut":  # along another axis than the tensor, if that divides
        axes = [axis for axis, size in enumerate(value.shape) if size % n == 0]
        return spread(value, n, axes[0] if axes else None), value
    return tensor.shard(names(n), None)[region] * 2 + 1, array[region] * 2 + 1


@settings(max_examples=60)
@given(st.data(), st.sampled_from([2, 3]), st.sampled_from([0, 1]), st.booleans())
def test_writes_in_steps_follow_numpy(data: st.DataObject, n: int, axis: int, lazy: bool) -> None:
    want = ramp(*SHAPE)
    x = Tensor(want).realize().shard(names(n), axis)
    x = x if lazy else x.realize()
    memory = x.uop.realized
    for kind in data.draw(st.lists(st.sampled_from(["number", "array", "cut", "own"]), min_size=1, max_size=3)):
        region = tuple(data.draw(slices(size)) if i <= 1 else slice(None) for i, size in enumerate(SHAPE))
        x[region], want[region] = value_for(kind, x, want, region)
    assert x.numpy().tolist() == want.tolist()
    assert lazy or x.uop.realized == memory  # in place


@pytest.mark.parametrize("n", [2, 3])
def test_writes_from_one_shard_into_another_read_the_old_values(n: int) -> None:
    x, want = spread(ramp(12, 5), n, 0), ramp(12, 5)
    held = x + 0
    x[1::2], want[1::2] = x.shard(names(n), None)[-2::-2], want[-2::-2].copy()
    x.reshape(60)[-7::-3], want.reshape(60)[-7::-3] = 7.0, 7.0
    assert x.numpy().tolist() == want.tolist() and held.numpy().tolist() == ramp(12, 5).tolist()


def test_a_view_that_no_shard_can_show_is_written_through() -> None:
    x, want = spread(ramp(6, 4), 2, 1), ramp(6, 4)
    x.reshape(24)[3:17], want.reshape(24)[3:17] = 7.0, 7.0
    assert x.numpy().tolist() == want.tolist()


@pytest.mark.parametrize("lazy", [False, True])
def test_a_value_that_would_move_items_is_refused_before_anything_is_written(lazy: bool) -> None:
    x = Tensor(ramp(12)).realize().shard(names(3), 0)
    x = x if lazy else x.realize()
    before = x.uop
    with pytest.raises(ShapeError, match=r"would move items between the shards of axis 0") as error:
        x[::3] = x[::3] * 2
    assert "x[::3] = x[::3] * 2" in str(error.value) and ".shard(('NUMPY', 'NUMPY:1', 'NUMPY:2'), None)" in str(
        error.value
    )
    assert x.uop is before and x.tolist() == ramp(12).tolist()


def test_a_write_that_would_go_to_a_copy_is_an_error_that_says_so() -> None:
    a, b, other = (UOp.new_buffer(device, 4, dtypes.float32) for device in ("NUMPY", "NUMPY:1", "NUMPY"))
    x = unshard((a, b), 0)
    lost = x.after(other.store(other + 1))
    with pytest.raises(SpecError, match=r"\(8,\) on \('NUMPY', 'NUMPY:1'\) would go to a copy, and be lost"):
        expand_devices(UOp.sink(lost))
