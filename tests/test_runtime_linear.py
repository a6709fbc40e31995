"""Memory, counters and the running of whole LINEARs."""

from __future__ import annotations

import gc
import signal
import threading
from typing import Any

import numpy as np
import pytest

from tests.test_runtime_kernels import flat, param, ranges
from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError, DeviceError, DTypeError, RunError, SpecError
from tinysched.ir.observe import watching
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic.conditions import in_bounds
from tinysched.ir.uop import UOp
from tinysched.runtime import linear as runner
from tinysched.runtime import tuning
from tinysched.runtime.cost import Cost, cost_of
from tinysched.runtime.counters import GlobalCounters
from tinysched.runtime.device import Buffer, Device, buffer_of
from tinysched.runtime.linear import KernelTime, execute
from tinysched.runtime.nest import load
from tinysched.settings import Context


def linear(*calls: UOp) -> UOp:
    return UOp(Ops.LINEAR, dtypes.void, calls)


def scaled(size: int, by: float) -> UOp:
    """A kernel that multiplies ``size`` floats."""
    (r0,) = ranges(size)
    p0, p1 = param(0, size, dtypes.float32), param(1, size, dtypes.float32)
    return UOp.sink(p0.index(r0).store(load(p1.index(r0)) * by).end(r0))


def memory(size: int, values: Any = None, device: str = "NUMPY") -> UOp:
    u = UOp.new_buffer(device, size, dtypes.float32)
    if values is not None:
        buffer_of(u).copyin(np.asarray(values, np.float32))
    return u


# ** devices **


@pytest.mark.parametrize(
    ("given", "name"), [("NUMPY", "NUMPY"), ("numpy:0", "NUMPY"), ("Numpy:01", "NUMPY:1"), ("NUMPY:255", "NUMPY:255")]
)
def test_devices_have_one_name(given: str, name: str) -> None:
    assert Device.canonicalize(given) == name and Device[given].name == name


@pytest.mark.parametrize("name", ["GPU", "NUMPY:x", "NUMPY:256", "NUMPY:-1", "", "NUMPY:1:2", "<script>"])
def test_unknown_devices_are_errors_that_name_the_known(name: str) -> None:
    with pytest.raises(DeviceError, match="NUMPY:1 to NUMPY:255"):
        Device.canonicalize(name)


def test_cupy_is_reserved() -> None:
    with pytest.raises(DeviceError, match="CUPY cannot be used: "):
        Device.canonicalize("CUPY:0")


def test_the_default_device() -> None:
    assert Device.DEFAULT == "NUMPY" == Device.canonicalize(None)
    with Context(DEVICE="numpy:2"):
        assert Device.DEFAULT == Device.canonicalize(None) == "NUMPY:2"
    Device.DEFAULT = "NUMPY:3"
    assert Device.DEFAULT == "NUMPY:3"
    Device.DEFAULT = "NUMPY"
    with pytest.raises(DeviceError), Context(DEVICE="TPU"):
        pass


# ** buffers **


def test_buffers_are_allocated_late_and_freed_with_their_last_view() -> None:
    device = Device["NUMPY:7"]
    before = device.allocated
    buffer = Buffer("NUMPY:7", 100, dtypes.float64)
    assert not buffer.is_allocated and device.allocated == before
    view = buffer.view(80, 5, dtypes.int32)
    view.array[...] = 3
    assert buffer.is_allocated and view.is_allocated and device.allocated == before + 800
    device.reset_peak()
    del buffer
    assert device.allocated == before + 800
    del view
    gc.collect()
    assert device.allocated == before and device.peak == before + 800


def test_views_share_memory_and_stay_inside() -> None:
    buffer = Buffer("NUMPY", 16, dtypes.int32)
    inner = buffer.view(8, 10, dtypes.int32).view(4, 12, dtypes.int16)
    buffer.array[...] = np.arange(16)
    assert inner.base is buffer and inner.offset == 12
    assert np.shares_memory(inner.array, buffer.array)
    assert inner.copyout().view(np.int32).tolist() == [3, 4, 5, 6, 7, 8]
    assert not np.shares_memory(inner.copyout(), buffer.array)
    for offset, size in ((60, 2), (-4, 1), (64, 1)):
        with pytest.raises(ArgumentError, match="does not fit"):
            buffer.view(offset, size, dtypes.int32)


def test_copyin_and_copyout_say_what_is_wrong() -> None:
    buffer = Buffer("NUMPY", 4, dtypes.float32)
    with pytest.raises(RunError, match="no values yet"):
        buffer.copyout()
    for wrong in (np.zeros(3, np.float32), np.zeros(4, np.float64)):
        with pytest.raises(ArgumentError, match="do not fill"):
            buffer.copyin(wrong)
    buffer.copyin(np.arange(4, dtype=np.float32).reshape(2, 2))
    assert buffer.copyout().tolist() == [0, 1, 2, 3]
    with pytest.raises(DTypeError, match="bfloat16"):
        Buffer("NUMPY", 4, dtypes.bfloat16).allocate()


def test_too_much_memory_is_one_clear_sentence() -> None:
    with pytest.raises(RunError, match="no memory for 4,611,686,018,427,387,904 bytes on NUMPY"):
        Buffer("NUMPY", 1 << 60, dtypes.float32).allocate()


def test_buffer_of_views() -> None:
    u = memory(24, range(24))
    assert buffer_of(u) is buffer_of(u) is u.buffer
    rows = buffer_of(u.reshape((4, 6)).shrink(((1, 3), (0, 6))))
    assert rows.copyout().tolist() == list(range(6, 18)) and rows.base is u.buffer
    one = buffer_of(u.reshape((4, 6)).shrink(((2, 3), (1, 4))).reshape((3,)))
    assert one.copyout().tolist() == [13, 14, 15]
    arena = UOp.new_buffer("NUMPY", 64, dtypes.int8)
    slot = UOp(Ops.BITCAST, dtypes.float32, (arena.shrink(((16, 32),)),))
    assert (buffer_of(slot).offset, buffer_of(slot).size) == (16, 4)
    with pytest.raises(SpecError, match="not one piece"):
        buffer_of(u.reshape((4, 6)).shrink(((1, 3), (0, 5))))
    with pytest.raises(SpecError, match="no memory"):
        buffer_of(u.reshape((4, 6)).permute((1, 0)))


# ** running **


@pytest.mark.parametrize("cpu", ["numpy", "loops", "numba", "auto"])
def test_kernels_run_in_order_and_are_counted(cpu: str) -> None:
    a, b, c = memory(5, range(5)), memory(5), memory(5)
    GlobalCounters.reset()
    with Context(CPU=cpu):
        run = execute(linear(scaled(5, 2.0).call(b, a), scaled(5, 10.0).call(c, b)))
    assert buffer_of(c).copyout().tolist() == [0, 20, 40, 60, 80]
    assert len(run.seconds) == 2 and all(s > 0 for s in run.seconds)
    assert (GlobalCounters.kernel_count, GlobalCounters.copy_count) == (2, 0)
    assert (GlobalCounters.global_ops, GlobalCounters.global_mem) == (10, 80)
    assert GlobalCounters.time_sum_s == pytest.approx(sum(run.seconds))


def test_copies_go_across_devices_and_are_no_kernels() -> None:
    a, b = memory(3, [1, 2, 3]), memory(3, device="NUMPY:1")
    GlobalCounters.reset()
    copy = UOp(Ops.COPY, dtypes.float32, (param(1, 3, dtypes.float32),), "NUMPY:1")
    execute(linear(copy.call(b, a)))
    assert buffer_of(b).copyout().tolist() == [1, 2, 3] and buffer_of(b).device == "NUMPY:1"
    assert (GlobalCounters.kernel_count, GlobalCounters.copy_count, GlobalCounters.global_mem) == (0, 1, 0)


def test_intermediates_live_in_the_arena_and_can_be_kept() -> None:
    a, c = memory(4, range(4)), memory(4)
    arena = UOp.new_buffer("NUMPY", 16, dtypes.int8)
    slot = (
        UOp(Ops.BITCAST, dtypes.float32, (arena.shrink(((0, 16),)),))
        if arena.size != 16
        else arena.bitcast(dtypes.float32)
    )
    calls = (scaled(4, 2.0).call(slot, a), scaled(4, 3.0).call(c, slot), scaled(4, 5.0).call(slot, c))
    run = execute(linear(*calls[:2]), keep=[slot])
    assert run.kept[slot].tolist() == [0, 2, 4, 6]
    assert np.shares_memory(buffer_of(slot).array, buffer_of(arena).array)
    assert not np.shares_memory(run.kept[slot], buffer_of(arena).array)
    assert execute(linear(*calls), keep=[slot]).kept[slot].tolist() == [0, 30, 60, 90]


def test_peak_memory_is_what_the_buffers_take() -> None:
    device = Device["NUMPY:9"]
    size = 1 << 18
    a, b = (UOp.new_buffer("NUMPY:9", size, dtypes.float32) for _ in range(2))
    buffer_of(a).array[...] = 1
    device.reset_peak()
    execute(linear(scaled(size, 2.0).call(b, a)))
    assert device.peak == device.allocated == 2 * 4 * size


def test_all_memory_is_there_before_the_first_kernel() -> None:
    a, b = memory(3, [1, 2, 3]), memory(3)
    huge = UOp.new_buffer("NUMPY", 1 << 60, dtypes.float32)
    with pytest.raises(RunError, match="no memory"):
        execute(linear(scaled(3, 2.0).call(b, a), scaled(3, 2.0).call(huge, a)))
    assert not buffer_of(b).is_allocated or buffer_of(b).copyout().tolist() != [2, 4, 6]


def test_hooks_profile_and_events() -> None:
    a, b = memory(3, [1, 2, 3]), memory(3)
    call = scaled(3, 2.0).call(b, a)
    told: list[Any] = []
    profile: list[KernelTime] = []

    class Watcher:
        def on_event(self, kind: str, data: dict[str, Any]) -> None:
            told.append((kind, data["position"], data["call"], data["ops"], data["bytes_read"], data["bytes_written"]))

    with watching(Watcher()):  # type: ignore[arg-type]
        run = execute(linear(call), profile=profile, after_kernel=lambda i, c, s: told.append((i, c, s)))
    assert told == [("run", 0, call, 3, 12, 12), (0, call, run.seconds[0])]
    assert profile == [KernelTime("kernel", run.seconds[0], Cost(3, 12, 12))]


def test_debug_prints_kernels_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = memory(3, [1, 2, 3]), memory(3)
    execute(linear(scaled(3, 2.0).call(b, a)))
    assert capsys.readouterr().out == ""
    with Context(DEBUG=2):
        execute(linear(scaled(3, 2.0).call(b, a)))
    line = capsys.readouterr().out
    assert all(word in line for word in ("NUMPY", "kernel", "24 B", "GB/s", "3 ops")) and "def " not in line
    with Context(DEBUG=4):
        execute(linear(scaled(3, 2.0).call(b, a)))
    assert "def kernel(p0, p1):" in capsys.readouterr().out


@pytest.mark.parametrize("cpu", ["numpy", "loops"])
def test_variables_are_bound_within_their_bounds(cpu: str) -> None:
    n, (r0,) = UOp.variable("n", 1, 4), ranges(2)
    p0, p1 = param(0, 2, dtypes.float32), param(1, 6, dtypes.float32)
    sink = UOp.sink(p0.index(r0).store(load(p1.index(r0 + n))).end(r0))
    a, b = memory(6, range(6)), memory(2)
    with Context(CPU=cpu):
        for value in (1, 4):
            execute(linear(sink.call(b, a)), {"n": value, "unused": 9})
            assert buffer_of(b).copyout().tolist() == [value, value + 1]
    for wrong in ({}, {"n": 5}, {"n": 0}):
        with pytest.raises(ArgumentError, match="'n'"):
            execute(linear(sink.call(b, a)), wrong)


@pytest.mark.parametrize("cpu", ["numpy", "loops"])
def test_a_failing_kernel_is_named_and_keeps_its_cause(cpu: str) -> None:
    (r0,) = ranges(2)
    p0, p1, p2 = param(0, 2, dtypes.float32), param(1, 2, dtypes.float32), param(2, 2, dtypes.float32)
    rows = load(p2.index(r0)).cast(dtypes.index)
    sink = UOp.sink(p0.index(r0).store(load(p1.index(rows))).end(r0))
    a, b, c, d = memory(2, [5, 6]), memory(2, [0, 9]), memory(2), memory(2)
    with Context(CPU=cpu), pytest.raises(RunError, match="kernel kernel failed: index 9 is outside") as found:
        execute(linear(scaled(2, 2.0).call(c, a), sink.call(d, a, b)))
    assert isinstance(found.value.__cause__, IndexError) and "p1: 2 float32" in found.value.where
    assert buffer_of(c).copyout().tolist() == [10, 12]


# ** interrupts **


def interrupting(monkeypatch: pytest.MonkeyPatch, kernel: UOp) -> None:
    """Makes Ctrl-C come while ``kernel`` runs."""
    real = runner.backend()

    def bind(sink: UOp, arrays: Any, values: Any) -> Any:
        run = real.bind(sink, arrays, values).run

        def interrupted() -> None:
            if sink is kernel:
                signal.raise_signal(signal.SIGINT)
            run()

        return tuning.Bound(interrupted, tuple)

    monkeypatch.setattr(runner, "backend", lambda: real._replace(bind=bind))


def test_an_interrupt_waits_for_the_end_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = memory(3, [1, 2, 3]), memory(3), memory(3, [0, 0, 0])
    first, second = scaled(3, 2.0), scaled(3, 10.0)
    interrupting(monkeypatch, first)
    ended: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        execute(linear(first.call(b, a), second.call(c, b)), after_kernel=lambda i, call, s: ended.append(i))
    assert ended == [0] and buffer_of(b).copyout().tolist() == [2, 4, 6]
    assert buffer_of(c).copyout().tolist() == [0, 0, 0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_in_the_last_kernel_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = memory(3, [1, 2, 3]), memory(3)
    interrupting(monkeypatch, scaled(3, 2.0))
    with pytest.raises(KeyboardInterrupt):
        execute(linear(scaled(3, 2.0).call(b, a)))
    assert buffer_of(b).copyout().tolist() == [2, 4, 6]


def test_an_interrupt_is_taken_only_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c, d = memory(3, [1, 2, 3]), memory(3), memory(3), memory(3, [0, 0, 0])
    first = scaled(3, 2.0)
    interrupting(monkeypatch, first)
    calls = (first.call(b, a), scaled(3, 10.0).call(c, b), scaled(3, 100.0).call(d, c))
    with pytest.raises(KeyboardInterrupt):
        execute(linear(*calls), may_stop=lambda position: position != 1)
    assert buffer_of(c).copyout().tolist() == [20, 40, 60] and buffer_of(d).copyout().tolist() == [0, 0, 0]


def test_other_threads_run_without_touching_signals() -> None:
    a, b = memory(3, [1, 2, 3]), memory(3)
    thread = threading.Thread(target=execute, args=(linear(scaled(3, 2.0).call(b, a)),))
    thread.start()
    thread.join()
    assert buffer_of(b).copyout().tolist() == [2, 4, 6]


# ** cost **


def test_cost_counts_loops_as_they_stand() -> None:
    r0, r1, r2 = ranges(3, 5, 4, reduce=1)
    p0, p1, p2 = param(0, 15, dtypes.float32), param(1, 12, dtypes.float32), param(2, 20, dtypes.float32)
    dot = (load(p1.index(r0 * 4 + r2)) * load(p2.index(r2 * 5 + r1))).reduce(Ops.ADD, r2)
    sink = UOp.sink(p0.index(r0 * 5 + r1).store(dot + 1.0).end(r0, r1))
    assert cost_of(sink) == Cost(15 * 4 * 2 + 15, (12 + 20) * 4, 60)


def test_cost_counts_under_a_mask_only_where_it_holds() -> None:
    r0, r1 = ranges(100, 8, reduce=1)
    p0, p1 = param(0, 100, dtypes.float32), param(1, 24, dtypes.float32)
    inside = in_bounds(r0 - 40, 0, 3)
    row = load(p1.index(flat((3, 8), (r0 - 40, r1)).valid(inside))).reduce(Ops.ADD, r1)
    sink = UOp.sink(p0.index(r0).store(inside.where(row, 0.0)).end(r0))
    assert cost_of(sink) == Cost(3 * 8, 96, 400)


def test_cost_over_two_axes_and_of_variables() -> None:
    n, (r0, r1) = UOp.variable("n", 0, 6), ranges(4, 7)
    p0, p1 = param(0, 28, dtypes.float32), param(1, 28, dtypes.float32)
    below = r0 + r1 < 5
    value = below.where((load(p1.index(flat((4, 7), (r0, r1)))) * 2).alu(Ops.SQRT), 0.0)
    assert cost_of(UOp.sink(p0.index(flat((4, 7), (r0, r1))).store(value).end(r0, r1))).ops == 2 * (5 + 4 + 3 + 2)
    r2 = UOp.range(n, 0, AxisType.REDUCE)
    sink = UOp.sink(p0.index(UOp.const(0)).store(load(p1.index(r2)).reduce(Ops.ADD, r2)))
    assert [cost_of(sink, {"n": 3}).ops, cost_of(sink, {"n": 0}).ops, cost_of(sink).ops] == [3, 0, 6]


def test_cost_reads_each_element_once() -> None:
    r0, r1 = ranges(3, 5)
    p0, p1, p2 = param(0, 15, dtypes.float32), param(1, 5, dtypes.float32), param(2, 100, dtypes.int8)
    value = load(p1.index(r1)) + load(p2.index(r0 * 2)).cast(dtypes.float32)
    assert cost_of(UOp.sink(p0.index(r0 * 5 + r1).store(value).end(r0, r1))) == Cost(15, 20 + 3, 60)


def test_counters_add_up_from_many_threads() -> None:
    GlobalCounters.reset()
    threads = [
        threading.Thread(target=lambda: [GlobalCounters.add(ops=1, mem=2) for _ in range(1000)]) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem) == (4000, 4000, 8000)
