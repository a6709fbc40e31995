"""Depth and width: chains of 100,000 nodes are built, derived, rewritten, scheduled and freed without recursion.

Times are generous bounds on CPU time (shared machines are slow); growth is what must not bend.
"""

import gc
import pickle
import sys
import time
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

from tinysched import Tensor, plan
from tinysched.dtypes import dtypes
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite, map_nodes, substitute
from tinysched.ir.spec import verify
from tinysched.ir.symbolic.affine import simplify_index
from tinysched.ir.symbolic.rules import symbolic
from tinysched.ir.text import graph_text, one_line
from tinysched.ir.uop import ParamArg, UOp, interned_count
from tinysched.schedule.pipeline import clear_caches
from tinysched.settings import Context

DEPTH = 100_000
X = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 4, "NUMPY"))


@contextmanager
def within(seconds):
    """Fails where the block takes more CPU time than this."""
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


@pytest.fixture(autouse=True)
def low_recursion_limit():
    """Whatever recurses over depth fails at once."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    yield
    sys.setrecursionlimit(old)


def chain(depth, start=X):
    """Alternating ops, so that no two neighbours are alike."""
    u = start
    for i in range(depth // 2):
        u = (u + float(i)).alu(Ops.NEG)
    return u


@pytest.mark.slow
def test_a_deep_chain_is_built_derived_and_freed():
    gc.collect()
    before = interned_count()
    with within(60):
        u = chain(DEPTH)
        assert (u.shape, u.device, u.ranges, u.dtype) == ((4,), "NUMPY", frozenset(), dtypes.float32)
        assert len(u.key) == 16 and u.bounds[0] == -float("inf")
        assert len(u.toposort()) == DEPTH + DEPTH // 2 + 1 and u.base is u and u.variables() == []
    first = weakref.ref(u.src[0])
    gc.disable()  # reference counts alone free it
    try:
        with within(20):
            del u
        assert first() is None
    finally:
        gc.enable()
    assert interned_count() <= before + 1


@pytest.mark.slow
def test_a_deep_chain_is_rewritten():
    @rule(UPat(Ops.NEG, src=(UPat(Ops.ADD, src=(UPat.var("x"), UPat.cvar("c"))),)))
    def flip_sign(x, c):
        """-(x + c) -> x - c"""
        return x.alu(Ops.SUB, c)

    u, table = chain(DEPTH), PatternMatcher([flip_sign])
    with within(120):
        for bottom_up in (False, True):
            new = graph_rewrite(u, table, bottom_up=bottom_up)
            assert new.op is Ops.SUB and len(new.toposort()) == DEPTH + 1
        assert graph_rewrite(u, symbolic) is u
        assert map_nodes(u, lambda v: v) is u
        other = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(1, 4, "NUMPY"))
        assert substitute(u, {X: other}).toposort()[0] is other


def test_a_deep_chain_is_verified_printed_and_pickled():
    u = chain(20_000)
    with within(60):
        verify(UOp.sink(u), "tensor")
        assert graph_text(u).count("\n") == len(u.toposort()) - 1 and one_line(u) == "<NEG float32 (4,)>"
        assert pickle.loads(pickle.dumps(u)) is u


def test_deep_index_arithmetic_has_a_normal_form():
    r, s = UOp.range(50, 0), UOp.range(7, 1)
    total = UOp.const(0)
    for i in range(20_000):
        total = total + (r if i % 2 else s)
    with within(60):
        assert simplify_index(total) is r * 10_000 + s * 10_000
        assert total.bounds == (0, 490_000 + 60_000)
        deep = r
        for _ in range(5_000):
            deep = (deep * 3 + 1) % 50
        assert simplify_index(deep).bounds[1] < 50


def test_deep_movement_chains():
    u = X.reshape((2, 2))
    for _ in range(DEPTH // 2):
        u = u.permute((1, 0)).flip((True, False))
    with within(60):
        assert u.shape == (2, 2) and u.base is X


def test_a_deep_graph_of_loops_ends():
    r = UOp.range(4, 0, AxisType.REDUCE)
    value = chain(DEPTH // 5, X.index(r))
    with within(30):
        total = value.reduce(Ops.ADD, r)
        assert value.ranges == {r} and total.ranges == frozenset()


def expected_of(values, depth):
    a = values.copy()
    for i in range(depth // 2):
        a = -(a + np.float32(i))
    return a


@pytest.mark.slow
def test_a_chain_of_100_000_schedules_and_is_freed():
    clear_caches()
    gc.collect()
    before = interned_count()
    x = Tensor(np.arange(4, dtype=np.float32))
    with within(240), Context(SCACHE=0):
        p = plan(Tensor.from_uop(chain(DEPTH, x.uop)))
        assert len(p.linear.src) == 1
    with within(20):
        del p
        gc.collect()
    clear_caches()
    assert interned_count() < before + 1000


def test_a_chain_of_10_000_runs():
    a = np.arange(4, dtype=np.float32)
    with within(120):
        t = Tensor.from_uop(chain(10_000, Tensor(a).uop))
        np.testing.assert_array_equal(t.numpy(), expected_of(a, 10_000))


def test_a_chain_of_writes_schedules():
    x = Tensor(np.zeros(4, np.float32)).realize()
    with within(120):
        for i in range(1_000):
            x[i % 4] = float(i)
        np.testing.assert_array_equal(x.numpy(), [996, 997, 998, 999])


def test_a_thousand_readers():
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    shared = x.uop.alu(Ops.EXP2)
    readers = [shared * float(i) if i % 2 else shared.permute((1, 0)) + float(i) for i in range(1_000)]
    with within(120):
        tensors = [Tensor.from_uop(u) for u in readers]
        Tensor.realize(*tensors)
        for i in (0, 1, 998, 999):
            want = np.exp2(x.numpy()) * i if i % 2 else np.exp2(x.numpy()).T + i
            np.testing.assert_allclose(tensors[i].numpy(), want, rtol=1e-6)


def test_a_sum_of_a_thousand_values():
    leaves = [Tensor(np.full(3, i, np.float32)) for i in range(1_000)]
    total = leaves[0].uop
    for leaf in leaves[1:]:
        total = total + leaf.uop
    with within(120):
        np.testing.assert_array_equal(Tensor.from_uop(total).numpy(), np.full(3, 499_500.0))


def test_reductions_a_hundred_deep():
    u, a = Tensor(np.full((2,) * 8, 1.0, np.float32)).uop, np.full((2,) * 8, 1.0, np.float32)
    for i in range(96):
        axis = i % 8
        u = deeper(u, axis)
        a = np.maximum(a, a.max(axis, keepdims=True) * np.float32(0.5))
    with within(180):
        np.testing.assert_allclose(Tensor.from_uop(u).numpy(), a)


def deeper(u, axis):
    """The larger of a value and half of its maximum along an axis."""
    kept = tuple(1 if i == axis else n for i, n in enumerate(u.shape))
    return u.maximum(u.rop(Ops.MAX, (axis,)).reshape(kept) * 0.5)


def seconds_to_plan(depth):
    x = Tensor(np.arange(4, dtype=np.float32))
    t = Tensor.from_uop(chain(depth, x.uop))
    start = time.process_time()
    plan(t)
    return time.process_time() - start


def test_scheduling_grows_no_faster_than_the_graph():
    with Context(SCACHE=0):
        seconds_to_plan(500)
        small = min(seconds_to_plan(2_000) for _ in range(3))
        large = min(seconds_to_plan(16_000) for _ in range(2))
    assert large < small * 8 * 2.5, f"{small:.3f} s for 2,000 ops, {large:.3f} s for 16,000"
