"""Copies between devices: what becomes one, where it lands, and plans over several devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sharded import Told, calls, floats, names, ramp, spread
from tinysched import GlobalCounters, Tensor, Variable, clear_caches, function, plan, run_linear
from tinysched.dtypes import dtypes
from tinysched.errors import ScheduleError, SpecError
from tinysched.ir.decision import Reason, Verdict
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.spec import verify
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.copies import copy_kernel_to_copy
from tinysched.schedule.multi import expand_devices, multi_pm

# ** copies **


def test_a_copy_is_a_call_of_its_own_kind() -> None:
    x = Tensor(ramp(6)).realize()
    (call,) = Tensor.schedule_linear(x.to("NUMPY:1")).src
    assert call.src[0].op is Ops.COPY and call.src[0].src[0].op is Ops.PARAM
    assert (call.src[1].device, call.src[2]) == ("NUMPY:1", x.uop.base)
    (piece,) = Tensor.schedule_linear(x[2:5].to("NUMPY:1")).src
    assert piece.src[2].op is Ops.SHRINK and piece.src[2].arg == ((2, 5),)
    GlobalCounters.reset()
    assert x[2:5].to("NUMPY:1").tolist() == [2, 3, 4]
    assert (GlobalCounters.copy_count, GlobalCounters.kernel_count, GlobalCounters.global_mem) == (1, 0, 0)
    assert GlobalCounters.moved == {("NUMPY", "NUMPY:1"): 12}


def test_a_copy_of_a_computed_or_reordered_value_is_stored_first() -> None:
    x = Tensor(ramp(4, 4)).realize()
    for y in (x + 1, x.T, x[:, 1:3], x.flip(0)):
        assert calls(y.to("NUMPY:1")) == (1, 1)
        assert y.to("NUMPY:1").tolist() == y.tolist()
    assert calls(x[1:3].to("NUMPY:1")) == (0, 1)
    assert calls((x + 1).to("NUMPY:1") * 2) == (2, 1)
    y = x + 1
    assert calls(y.to("NUMPY:1"), y.to("NUMPY:2"), y.sum()) == (2, 2)  # y is computed once
    assert calls(x.to("NUMPY:1").to("NUMPY")) == (0, 2)
    assert calls(x.to("NUMPY")) == (0, 0)


def test_values_that_are_constants_are_not_copied() -> None:
    x = Tensor.ones(4, device="NUMPY:1").contiguous()
    assert calls(x) == (1, 0) and x.realize().device == "NUMPY:1"
    assert calls(Tensor.full((4,), 3.0).shard(names(2), 0) + 1) == (2, 0)


def test_copies_have_lanes_of_their_own_in_the_memory_plan() -> None:
    x = spread(floats(8, 64), 2, 0)
    memory = plan(((x * 2).sum(0) + 1).exp().sum()).memory
    lanes = {(lane.device, lane.copy) for lane in memory.lanes}
    assert {(d, True) for d in names(2)} <= lanes
    assert all(lane.arena is None or lane.arena.device == lane.device for lane in memory.lanes)


def test_copies_come_after_what_they_read_and_before_who_reads_them() -> None:
    x = spread(floats(8, 8), 4, 0)
    linear = Tensor.schedule_linear((x.sum(0) + 1).sum(0))
    written: set[UOp] = set()
    for call in linear.src:
        reads = [b for b in call.src[2:] if b.base.op is Ops.BUFFER and b.base.realized is None]
        assert all(b in written for b in reads)
        written.add(call.src[1])
    verify(linear, "linear")


def test_a_kernel_over_two_devices_is_an_error() -> None:
    p, q = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 4)) for slot in (0, 1))
    a, b = (UOp.new_buffer(device, 4, dtypes.float32) for device in names(2))
    r = UOp.range(4, 0)
    read = UOp(Ops.LOAD, dtypes.float32, (q.index(r),))
    for value, index in ((read + 1, r), (read, r * -1 + 3), (UOp(Ops.LOAD, dtypes.float32, (q.index(r // 2),)), r)):
        with pytest.raises(ScheduleError, match="buffers on NUMPY and NUMPY:1") as error:
            copy_kernel_to_copy(UOp.sink(p.index(index).store(value).end(r)).call(a, b))
        assert ".to(device)" in str(error.value)
    same = UOp.sink(p.index(r).store(read).end(r)).call(a, a)
    assert copy_kernel_to_copy(same) is same


# ** plans, cache, functions **


def test_planning_changes_nothing_and_a_plan_can_be_run() -> None:
    x = spread(ramp(4), 2, 0)
    y, before = x.sum() + x, x.uop
    made = plan(y)
    assert x.uop is before and y.uop.realized is None
    run_linear(made)
    assert y.uop.realized is not None and y.tolist() == [6, 7, 8, 9]


def test_the_cache_knows_devices() -> None:
    class Outcomes(Told):
        def __init__(self) -> None:
            super().__init__()
            self.outcomes: list[str] = []

        def on_event(self, kind: str, data: dict[str, Any]) -> None:
            if kind == "cache":
                self.outcomes.append(data["outcome"])

    clear_caches()
    told = Outcomes()
    for devices, axis in ((names(2), 0), (names(2), 0), (("NUMPY", "NUMPY:2"), 0), (names(2), None), (names(2), 0)):
        x = Tensor(ramp(4)).shard(devices, axis).realize()
        with watching(told):
            assert (x * 2).tolist() == [0, 2, 4, 6]
    assert told.outcomes == ["miss", "hit", "miss", "miss", "hit"]


@pytest.mark.parametrize("precompile", [False, True])
def test_functions_of_sharded_tensors(precompile: bool) -> None:
    @function(precompile=precompile)
    def scaled(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(0), x * 2

    @function(precompile=precompile)
    def there_and_back(x: Tensor) -> Tensor:
        return (x.to("NUMPY:1") + 1).to("NUMPY")

    total, twice = scaled(spread(ramp(4, 2), 2, 0))
    assert total.tolist() == [12, 16] and twice.tolist() == (ramp(4, 2) * 2).tolist()
    assert there_and_back(Tensor(ramp(3)).realize()).tolist() == [1, 2, 3]


def test_decisions_say_what_is_sharded_and_what_is_copied() -> None:
    x, y = spread(floats(4, 4), 2, 0), spread(floats(4, 4), 2, 1)
    told = Told()
    with watching(told):
        plan((x + y).sum().exp(), x.to("NUMPY"), x.shard(names(2), None) * 2)
    want = {
        Reason.ONE_BUFFER_PER_DEVICE: Verdict.SHARDED, Reason.OWN_PART: Verdict.SHARDED, Reason.RESHARDED: Verdict.COPIED,
        Reason.ALLREDUCE_NAIVE: Verdict.SHARDED, Reason.GATHERED: Verdict.COPIED, Reason.REPLICATED: Verdict.COPIED,
        Reason.ONLY_MOVES_BYTES: Verdict.COPIED,
    }  # fmt: skip
    assert want.items() <= {d.reason: d.verdict for d in told.decisions}.items()


def test_rules_are_named_and_leave_values_of_one_device() -> None:
    assert all("->" in r.doc for r in multi_pm)
    x = spread(ramp(4, 4), 2, 0)
    sink = UOp.sink(*plan((x + 1).sum(0), x.T @ x).call.src[0].src).rtag("many devices")
    graph = expand_devices(sink)
    verify(graph, "call")
    assert not any(u.op in (Ops.UNSHARD, Ops.MSTACK, Ops.MSELECT, Ops.ALLREDUCE) for u in graph.toposort())
    assert all(isinstance(u.device, str) or u.device is None for u in graph.toposort())


def test_the_spec_knows_values_of_several_devices() -> None:
    x = spread(ramp(4), 2, 0)
    verify(UOp.sink((x + 1).sum().uop, x.uop.src[0]), "tensor")
    for bad in (
        UOp(Ops.UNSHARD, x.dtype, (x.uop.src[0],), 1),
        UOp(Ops.UNSHARD, x.dtype, (x.uop.src[0].src[0],), 0),
        UOp(Ops.MSELECT, x.dtype, (x.uop.src[0],), 2),
        UOp(Ops.ALLREDUCE, x.dtype, (x.uop.src[0],), (Ops.SUB, x.device)),
    ):
        with pytest.raises(SpecError, match="not legal"):
            verify(UOp.sink(bad), "tensor")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_write_at_an_open_position_of_the_sharded_axis(axis: int) -> None:
    x, want = spread(ramp(8, 8), 4, axis), ramp(8, 8)
    for position in (0, 3, 7):
        at = Variable("at", 0, 7).bind(position)
        x[at : at + 1] = spread(-ramp(1, 8), 4, None)
        x.realize()
        want[position] = -ramp(8)
        assert x.numpy().tolist() == want.tolist()
    seen = Variable("seen", 1, 8).bind(4)
    assert x[:seen].sum().item() == want[:4].sum()


def test_copies_of_values_whose_size_is_a_variable() -> None:
    x = Tensor(ramp(4, 8)).realize()
    n = Variable("n", 1, 7).bind(3)
    for y in (x[:, :n], x.T[:n], x[:, :n] * 2):
        assert y.to("NUMPY:1").numpy().tolist() == y.numpy().tolist()


def test_variables_beside_the_sharded_axis() -> None:
    cache = Tensor(ramp(2, 8, 4)).shard(names(2), 0).realize()
    for position in (3, 5):
        at = Variable("at", 1, 7).bind(position)
        cache[:, at : at + 1] = spread(np.full((2, 1, 4), position, np.float32), 2, 0)
        seen = (cache[:, : at + 1].sum(1)).numpy()
        want = ramp(2, 8, 4)
        want[:, 3] = 3
        want[:, 5] = want[:, 5] if position == 3 else 5
        np.testing.assert_allclose(seen, want[:, : position + 1].sum(1))
