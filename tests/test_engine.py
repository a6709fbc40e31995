"""Plans, runs and what they mean for Tensors: asking is free, failures lose nothing they need not, memory is planned."""

from __future__ import annotations

import _thread
import gc
import os
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tinysched import Context, Device, GlobalCounters, Tensor, capture, clear_caches, plan, run_linear
from tinysched.engine.outcome import Outcome
from tinysched.errors import DTypeError, LostValue, RunError, StalePlan
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime import linear as runtime
from tinysched.runtime.device import buffer_of


def ramp(*shape: int) -> Tensor:
    return Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


class Told:
    """An observer that keeps what it is told, by kind."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: self.events.append((name, args))

    def outcomes(self) -> list[str]:
        return [args[1]["outcome"] for name, args in self.events if name == "on_event" and args[0] == "cache"]  # type: ignore[index]


# ** asking is free **


def test_asking_changes_nothing() -> None:
    x = ramp(3, 4)
    y = x * 2
    x.assign(x + 1)
    before = (x.uop, y.uop, x.storage.version)
    first = plan(x, y)
    Tensor.schedule_linear(y)
    Tensor.linear_with_vars(x)
    repr(x)
    assert (x.uop, y.uop, x.storage.version) == before
    assert [c.src[0] for c in plan(x, y).linear.src] == [c.src[0] for c in first.linear.src]
    np.testing.assert_array_equal(y.numpy(), np.arange(12.0).reshape(3, 4) * 2)
    np.testing.assert_array_equal(x.numpy(), np.arange(12.0).reshape(3, 4) + 1)


def test_a_plan_can_be_run_and_commits() -> None:
    x = ramp(4)
    y = x + 1
    z = y * 2
    run_linear(plan(y))
    assert y.uop.realized is not None
    assert len(plan(z).linear.src) == 1 and z.uop.src[0].base.op is Ops.BUFFER
    np.testing.assert_array_equal(z.numpy(), (np.arange(4.0) + 1) * 2)


def test_the_linear_knows_its_plan() -> None:
    y = ramp(4) + 1
    run_linear(Tensor.schedule_linear(y))
    assert y.uop.realized is not None


def test_a_plan_of_a_written_tensor_is_stale() -> None:
    x = ramp(4)
    y = x + 1
    y.storage.write((), (x * 3).uop)
    p = plan(y)
    y.assign(x * 5)
    with pytest.raises(StalePlan, match="was written since"):
        run_linear(p)
    np.testing.assert_array_equal(y.numpy(), np.arange(4.0) * 5)


def test_a_plan_that_reads_what_it_overwrites_runs_once() -> None:
    x = ramp(4)
    x.assign(x + 1)
    p = plan(x)
    run_linear(p)
    with pytest.raises(StalePlan, match=r"plan them again|overwrote"):
        run_linear(p)
    np.testing.assert_array_equal(x.numpy(), np.arange(4.0) + 1)


def test_a_write_realized_elsewhere_makes_its_plan_stale() -> None:
    x = ramp(4)
    x.assign(x + 1)
    p = plan(x)
    x.realize()
    with pytest.raises(StalePlan):
        run_linear(p)
    np.testing.assert_array_equal(x.numpy(), np.arange(4.0) + 1)


def test_a_plan_without_writes_runs_twice() -> None:
    y = ramp(4) + 1
    p = plan(y)
    run_linear(p)
    run_linear(p)
    np.testing.assert_array_equal(y.numpy(), np.arange(4.0) + 1)


def test_only_tensors_can_be_planned() -> None:
    with pytest.raises(DTypeError, match="only Tensors"):
        plan(3)  # type: ignore[arg-type]


# ** failures **


class Broken(Exception):
    """A device that fails."""


def failing_at(monkeypatch: pytest.MonkeyPatch, position: int, error: type[BaseException] = RunError) -> None:
    """The kernel at a position of the next run fails in its middle."""
    real, count = runtime._run, iter(range(1000))

    def run(job: object) -> float:
        if next(count) == position:
            raise error("the device is on fire")
        return real(job)  # type: ignore[arg-type]

    monkeypatch.setattr(runtime, "_run", run)


def test_a_failure_before_any_write_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ramp(3, 4)
    y = x.softmax(-1)
    with monkeypatch.context() as m:
        failing_at(m, 1)
        with pytest.raises(RunError):
            y.realize()
    np.testing.assert_array_equal(x.numpy(), np.arange(12.0).reshape(3, 4))
    np.testing.assert_allclose(y.numpy().sum(1), 1, rtol=1e-6)


def test_states_before_the_failure_are_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ramp(4), ramp(5)
    a.assign(a + 1)
    b.assign(b * 2)
    with monkeypatch.context() as m:
        failing_at(m, 1)
        with pytest.raises(RunError):
            Tensor.realize(a, b)
    np.testing.assert_array_equal(a.numpy(), np.arange(4.0) + 1)
    with pytest.raises(LostValue, match="on fire"):
        b.numpy()


def test_a_failed_write_loses_exactly_what_needed_the_old_state(monkeypatch: pytest.MonkeyPatch) -> None:
    x, other = ramp(4), ramp(3)
    safe = other + 1
    x.assign(x * 2)
    with monkeypatch.context() as m:
        failing_at(m, 0)
        with pytest.raises(RunError):
            x.realize()
    with pytest.raises(LostValue, match="lost"):
        x.realize()
    np.testing.assert_array_equal(safe.numpy(), [1, 2, 3])


def test_a_lost_tensor_can_be_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ramp(4)
    x.assign(x * 2)
    with monkeypatch.context() as m:
        failing_at(m, 0)
        with pytest.raises(RunError):
            x.realize()
    x.assign(Tensor([9.0, 9.0, 9.0, 9.0]))
    np.testing.assert_array_equal(x.numpy(), [9, 9, 9, 9])


def test_fresh_outputs_fail_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ramp(4)
    y = x + 1
    with monkeypatch.context() as m:
        failing_at(m, 0)
        with pytest.raises(RunError):
            y.realize()
    np.testing.assert_array_equal(y.numpy(), np.arange(4.0) + 1)


def test_an_interrupt_waits_until_nothing_is_lost() -> None:
    """total needs the old x, which the write destroys: the interrupt is taken only after total is whole."""
    x = ramp(600)
    total = (x * 2).contiguous().sum() + x.sum()
    x.assign(x + 1)
    seen: list[int] = []
    lost = Outcome.lost

    def watched(self: Outcome, linear: UOp, position: int, *, partial: bool) -> list[object]:
        found = lost(self, linear, position, partial=partial)
        seen.append(len(found))
        return found  # type: ignore[return-value]

    with pytest.MonkeyPatch.context() as m:
        m.setattr(Outcome, "lost", watched)
        real = runtime._run

        def run(job: object) -> float:
            _thread.interrupt_main()
            return real(job)  # type: ignore[arg-type]

        m.setattr(runtime, "_run", run)
        with pytest.raises(KeyboardInterrupt):
            Tensor.realize(total, x)
    values = np.arange(600.0)
    np.testing.assert_allclose(total.numpy(), values.sum() * 3)
    np.testing.assert_array_equal(x.numpy(), values + 1)
    assert seen


# ** memory **


def test_intermediates_live_in_the_arena() -> None:
    y = ramp(30, 40).softmax(-1)
    p = plan(y)
    arenas = {b.src[0].src[0] for c in p.linear.src for b in c.src[1:] if b.op is Ops.BITCAST}
    assert len(arenas) == 1
    (arena,) = arenas
    run_linear(p)
    pieces = [buffer_of(b).array for c in p.linear.src for b in c.src[1:] if b.op is Ops.BITCAST]
    assert pieces and all(np.shares_memory(piece, buffer_of(arena).array) for piece in pieces)


def test_peak_memory_is_the_plan() -> None:
    x = ramp(300, 200)
    y = x
    for _ in range(4):
        y = (y * 0.5 + 1).contiguous()
    out = y.sum()
    del y  # held, it would be an output
    p = plan(out)
    memory = Device["NUMPY"]
    memory.reset_peak()
    before = memory.allocated
    run_linear(p)
    assert memory.peak - before <= p.memory.arena_bytes + 64
    assert p.memory.arena_bytes < 4 * x.nbytes()


def test_temporaries_that_nobody_holds_are_planned_and_held_ones_are_not() -> None:
    x = ramp(64)
    kept = (x * 2).contiguous()
    out = ((kept + 1).contiguous() * 3).sum()
    p = plan(out)
    assert any(pl.nbytes >= 256 for pl in p.memory.placements)
    out.realize()
    more = [((x + i).contiguous() * 2).sum() for i in range(4)]
    Tensor.realize(*more)
    np.testing.assert_array_equal(kept.numpy(), np.arange(64.0) * 2)


def test_memory_is_freed_when_nobody_holds_it() -> None:
    gc.collect()
    memory = Device["NUMPY"]
    before = memory.allocated
    x = Tensor(np.zeros(100_000, np.float32))
    y = (x + 1).realize()
    assert memory.allocated >= before + 800_000
    ref = weakref.ref(y.storage)
    del x, y
    gc.collect()
    assert ref() is None and memory.allocated == before


def test_a_training_loop_keeps_memory_flat_and_hits_the_cache() -> None:
    clear_caches()
    x, w = ramp(6, 5) * 0.01, Tensor(np.full((5, 3), 0.1, np.float32))
    Tensor.realize(x, w)
    sizes, hits = [], []
    for _ in range(1000):
        loss = (x @ w).square().mean()
        (grad,) = loss.gradient(w)
        w.assign(w - 0.1 * grad)
        told = Told() if len(sizes) < 5 else None
        if told is not None:
            p = None
            with watching(told):  # type: ignore[arg-type]
                p = plan(w, loss)
            hits.append(told.outcomes()[0])
            del p
        Tensor.realize(w, loss)
        del loss, grad
        sizes.append(Device["NUMPY"].allocated)
    assert hits[1:] == ["hit"] * 4
    assert len(set(sizes[5:])) == 1


# ** the cache **


def test_a_hit_is_another_buffer_with_the_same_graph() -> None:
    clear_caches()
    told = Told()
    with watching(told):  # type: ignore[arg-type]
        for values in ([1.0, 2.0], [3.0, 4.0]):
            (Tensor(values) + 1).realize()
        (Tensor([1.0, 2.0]) + 2).realize()
        (Tensor([1, 2]) + 1).realize()
        (Tensor([1.0, 2.0, 3.0]) + 1).realize()
    assert told.outcomes() == ["miss", "hit", "miss", "miss", "miss"]


def test_settings_are_part_of_the_key() -> None:
    clear_caches()
    told = Told()
    x = Tensor.empty(65536).realize()
    with watching(told):  # type: ignore[arg-type]
        plan(x.sum())
        with Context(SPLIT_REDUCEOP=0):
            assert len(plan(x.sum()).linear.src) == 1
        assert len(plan(x.sum()).linear.src) == 2
        with Context(SCACHE=0):
            plan(x.sum())
    assert told.outcomes() == ["miss", "miss", "hit", "off"]


def test_realizing_again_runs_nothing() -> None:
    y = (ramp(4) + 1).realize()
    GlobalCounters.reset()
    y.realize()
    y.numpy()
    assert GlobalCounters.kernel_count == 0


# ** order that no kernel order satisfies **


def test_a_swap_of_lazy_values() -> None:
    p, q = Tensor([2.0, 2.0]), Tensor([3.0, 3.0])
    old = p + 9
    p.assign(p + q)
    q.assign(q + old)
    Tensor.realize(p, q)
    assert (p.tolist(), q.tolist()) == ([5, 5], [14, 14])


# ** threads and processes **


def _attend(k: int) -> None:
    a = np.arange(12.0).reshape(3, 4) + k
    x = Tensor(a)
    y = (x @ x.T).softmax().sum(0)
    if k % 3 == 0:
        assert capture(y).schedules[-1].kernels
    if k % 5 == 0:
        clear_caches()
    x[1:] += 1.0
    scores = a @ a.T
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(y.numpy(), (powers / powers.sum(1, keepdims=True)).sum(0))
    a[1:] += 1.0
    np.testing.assert_allclose(x.numpy(), a)


def test_threads_with_tensors_of_their_own_do_not_disturb_one_another() -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(_attend, range(60)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_goes_on_with_what_is_in_memory() -> None:
    x = Tensor(np.arange(6.0)).realize()
    lazy = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = os.fork()
    if not child:
        os._exit(0 if np.array_equal((lazy + x).numpy(), np.arange(6.0) * 3) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(lazy.numpy(), np.arange(6.0) * 2)
