"""A plan that is recalled is the plan that would have been made, and what differs in anything is not recalled."""

import gc
import math
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given

from benchmarks.libs import open_side
from benchmarks.workloads import SMALL, small
from tests.graphs import examples, programs
from tests.sharded import floats, spread
from tests.test_writes import assert_like_numpy, written_programs
from tinysched import Context, Device, Tensor, Variable, clear_caches, plan
from tinysched.engine import recall
from tinysched.ir.ops import Ops
from tinysched.schedule.pipeline import PIPELINE, PassContext
from tinysched.schedule.policy import Eager, Policies
from tinysched.schedule.resolve import is_same

planning = sys.modules["tinysched.engine.plan"]


# ** it is the same **


class Judge:
    """Compares everything that is recalled with what is scheduled anew, and counts it."""

    def __init__(self, monkeypatch):
        self.recalled = 0
        self.original = planning._recalled
        monkeypatch.setattr(planning, "_recalled", self.judged)
        clear_caches()

    def judged(self, storages):
        known = recall.structure_of(storages, Device.DEFAULT).key in recall.recipes
        made = self.original(storages)
        if known:
            self.recalled += 1
            assert_same(made, planning._scheduled(storages, PassContext(), PIPELINE))
        return made


def assert_same(made, again):
    """Two outcomes of scheduling one graph: they differ in nothing but which new BUFFERs they are over."""
    pairs = {}

    def match(u, v):
        if u is v:
            return
        assert (u.op, u.dtype, u.tag, len(u.src)) == (v.op, v.dtype, v.tag, len(v.src))
        if u.op is Ops.BUFFER:
            assert (u.arg.size, u.arg.device) == (v.arg.size, v.arg.device) and u.realized is v.realized is None
            assert pairs.setdefault(u, v) is v
        else:
            assert u.arg == v.arg
        for a, b in zip(u.src, v.src, strict=True):
            match(a, b)

    assert made.body is again.body
    assert is_same(made.schedule.linear, again.schedule.linear) and made.var_vals == again.var_vals
    assert list(made.buffer_map) == list(again.buffer_map)
    for u, v in zip(made.args, again.args, strict=True):
        match(u, v)
    for u, v in zip(made.buffer_map.values(), again.buffer_map.values(), strict=True):
        match(u, v)
    assert len(set(pairs.values())) == len(pairs)


@pytest.fixture
def judge(monkeypatch):
    return Judge(monkeypatch)


@pytest.mark.parametrize("name", SMALL)
def test_workloads(name, judge):
    lib = open_side("ours")
    with lib.settings():
        for seed in (0, 1):
            lib.linear(small(name, lib, seed))
    assert judge.recalled == (name != "llama_block_sym")  # which has a Variable


def test_programs_of_reads_and_writes(monkeypatch):
    seen = []

    @examples(60)
    @given(written_programs(most=10))
    def check(program):
        with monkeypatch.context() as patch:
            judge = Judge(patch)
            for _ in range(2):
                assert_like_numpy(program)
            seen.append(judge.recalled)

    check()
    assert sum(seen) > len(seen)


@examples(60)
@given(programs(most=14), programs(most=14))
def test_equal_keys_mean_equal_schedules(one, other):
    """Whatever two programs have in common: one key, one LINEAR."""
    found = {}
    for program in (one, other, one):
        graph, outputs = program.build()
        tensors = [Tensor.from_uop(u) for u, _ in outputs]
        with Context(SCACHE=0):
            linear = plan(*tensors).linear
        key = recall.structure_of([t.storage for t in tensors], Device.DEFAULT).key
        kernels = tuple(call.src[0] for call in linear.src)
        assert found.setdefault(key, kernels) == kernels
        del graph


def test_values_on_several_devices(judge):
    for seed in (0, 1):
        a, b = floats(4, 6, seed=seed), floats(6, 3, seed=seed)
        x, y = spread(a, 2, 0), spread(b, 2, None)
        z = x @ y
        x.assign(x * 2)
        Tensor.realize(z, x)
        np.testing.assert_allclose(z.numpy(), a @ b, rtol=1e-5)
        np.testing.assert_array_equal(x.numpy(), a * 2)
    assert judge.recalled


def test_a_training_step_again(judge):
    w = Tensor(floats(3, 4)).realize()
    expected = w.numpy()
    for seed in range(4):
        x = floats(5, 3, seed=seed)
        grad = (Tensor(x) @ w).square().sum().gradient(w)[0]
        w.assign(w - 0.1 * grad)
        w.realize()
        expected = expected - 0.1 * 2 * x.T @ (x @ expected)
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert judge.recalled >= 3


# ** what differs is not recalled **


def memory(*shape, dtype=np.float32, device=None):
    return Tensor(np.ones(shape, dtype), device=device).realize()


def key_of(*tensors):
    return recall.structure_of([t.storage for t in tensors], Device.DEFAULT).key


def held(x, hold):
    """A view of a CONTIGUOUS in the middle, which somebody holds or not."""
    middle = (x + 1).contiguous()
    return middle * 2, (middle if hold else None)


def written(x, hold):
    """A write, before which the state was read by somebody or not."""
    before = x + 1 if hold else None
    x.assign(x * 2)
    return x, before


DIFFERENT = {
    "a constant": (lambda: memory(3) + 1, lambda: memory(3) + 2),
    "the sign of zero": (lambda: memory(3) * 0.0, lambda: memory(3) * -0.0),
    "not a number": (lambda: memory(3).maximum(math.nan), lambda: memory(3).maximum(1.0)),
    "a truth value and a number": (
        lambda: memory(3, dtype=np.int32) + True, lambda: memory(3, dtype=np.int32).cast("int64") + 1,
    ),
    "the dtype of memory": (lambda: memory(3) + 1, lambda: memory(3, dtype=np.int32) + 1),
    "the size of memory": (lambda: memory(3)[:2] + 1, lambda: memory(4)[:2] + 1),
    "the shape": (lambda: memory(6).reshape(2, 3) + 1, lambda: memory(6).reshape(3, 2) + 1),
    "the axis": (lambda: memory(3, 3).sum(0), lambda: memory(3, 3).sum(1)),
    "the order of operands": (lambda: memory(3) - memory(4)[:3], lambda: memory(4)[:3] - memory(3)),
    "one memory or two": (lambda: memory(3) + memory(3), lambda: (lambda x: x + x)(memory(3))),
    "which of two memories": (
        lambda: (lambda x, y: x * y - x)(memory(3), memory(3)), lambda: (lambda x, y: x * y - y)(memory(3), memory(3)),
    ),
    "the device of memory": (lambda: memory(3) + 1, lambda: memory(3, device="NUMPY:1") + 1),
    "what is asked for": (lambda: memory(3) + 1, lambda: ((x := memory(3) + 1), x * 2)),
    "the order of what is asked for": (
        lambda: ((x := memory(3) + 1), x * 2), lambda: ((x := memory(3) + 1) * 2, x),
    ),
    "a hint": (lambda: (memory(3) + 1) * 2, lambda: (memory(3) + 1).contiguous() * 2),
    "a hint's wishes": (
        lambda: (memory(3) + 1).contiguous(), lambda: (memory(3) + 1).contiguous(arg=("block=64",)),
    ),
    "memory or a write": (lambda: memory(3) + 1, lambda: memory(3).assign(memory(3) * 2) + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_shows_in_the_key(name):
    keys = []
    for make in (*DIFFERENT[name], *DIFFERENT[name]):
        made = make()
        keys.append(key_of(*(made if isinstance(made, tuple) else (made,))))
    assert keys[0] == keys[2] and keys[1] == keys[3]
    assert keys[0] != keys[1]


@pytest.mark.parametrize("make", [held, written])
def test_what_others_hold_shows_in_the_key(make):
    (free, _), (read, reader), (again, _) = (make(memory(3), hold) for hold in (False, True, False))
    assert key_of(free) == key_of(again) != key_of(read)
    for x, other in ((free, None), (read, reader), (again, None)):
        x.realize()
        assert x.tolist() == ([4.0] * 3 if make is held else [2.0] * 3)
        assert other is None or other.tolist() == [2.0] * 3


def test_what_is_asked_for_too_shows_in_the_key():
    """A write to memory that is asked for as it was: the old state is needed."""
    plans = []
    for _ in range(2):
        for also in (False, True):
            x = memory(3)
            old = Tensor.from_uop(x.uop)
            x.assign(x * 2)
            plans.append(plan(x, old) if also else plan(x))
            if not also:
                del old
    existed = [len(p.outcome.overwrites()) for p in plans]
    assert existed[:2] == existed[2:]


@pytest.mark.parametrize(
    "setting", [{"SPLIT_REDUCEOP": 0}, {"NO_MEMORY_PLANNER": 1}, {"MAX_KERNEL_BUFFERS": 4}], ids=str
)
def test_settings_show_in_the_key(setting):
    x = memory(3)
    plain = key_of(x + 1)
    with Context(**setting):
        other = key_of(x + 1)
        with Context(DEBUG=0):
            assert key_of(x + 1) == other
    assert key_of(x + 1) == plain != other


def test_the_default_device_shows_in_the_key():
    x = Tensor.arange(3) + 1
    here = plan(x).linear
    with Context(DEVICE="NUMPY:1"):
        there = plan(x).linear
    assert [k.src[0].src[1].arg.device for k in (here, there)] == ["NUMPY", "NUMPY:1"]


def test_other_policies_are_not_given_the_usual_plan():
    def y():
        return (memory(4, 5) + 1).softmax()

    usual, eager = len(plan(y()).linear.src), len(plan(y(), policies=Policies(fusion=Eager())).linear.src)
    assert usual < eager
    assert len(plan(y()).linear.src) == usual


def test_a_variable_has_its_own_value():
    v, x = Variable("n", 1, 8), memory(8)
    for n in (3, 5, 3):
        p = plan(x.shrink(((0, v.bind(n)),)).sum())
        assert p.var_vals == {"n": n}
        assert x.shrink(((0, v.bind(n)),)).sum().item() == n


# ** what it keeps **


def test_memory_is_not_kept():
    clear_caches()
    gc.collect()
    before = Device["NUMPY"].allocated
    for _ in range(3):
        x = memory(1000)
        y = (x + 1).contiguous()
        z = (y.sum() + y).realize()
        nodes = [weakref.ref(u) for t in (x, y, z) for u in t.uop.toposort() if u.op is Ops.BUFFER]
        del x, y, z
        gc.collect()
        assert recall.recipes and not any(ref() for ref in nodes)
        assert Device["NUMPY"].allocated == before


def test_it_keeps_only_so_many(monkeypatch):
    monkeypatch.setattr(sys.modules["tinysched.schedule.pipeline"], "MOST_SCHEDULES", 4)
    clear_caches()
    x = memory(3)
    keys = []
    for i in range(6):
        keys.append(key_of(x + i))
        plan(x + i)
    assert list(recall.recipes) == keys[2:]
    plan(x + 2)  # what is used stays
    plan(x + 9)
    assert keys[2] in recall.recipes and keys[3] not in recall.recipes
    clear_caches()
    assert not recall.recipes


def test_what_fails_is_not_kept(monkeypatch):
    clear_caches()
    x = memory(3)
    y = x + 1
    with monkeypatch.context() as patch:
        patch.setattr(planning, "lower_sink_to_linear", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.realize()
    assert not recall.recipes
    assert y.tolist() == [2.0] * 3
