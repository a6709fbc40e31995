"""Nodes: equal ones are one object, whatever lives and dies; what is derived from them is what brute force finds."""

import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluate import Machine, alu
from tests.graphs import examples, programs
from tinysched.dtypes import dtypes
from tinysched.errors import ShapeError, SpecError
from tinysched.ir.lines import MOST_LINES, Line, add_line, lines_of, mark, where
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.symbolic.affine import affine_of, simplify_index
from tinysched.ir.text import graph_text
from tinysched.ir.uop import _TABLE, FALSE, INVALID, TRUE, BufferArg, ParamArg, UOp, _forget, interned_count
from tinysched.schedule.kernels import KernelInfo

ROOT = Path(__file__).parents[1]
NAN = float("nan")


def param(slot, size, dtype=dtypes.float32, device="NUMPY"):
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, device))


# ** interning **

CONSTANTS = [
    (value, dtype)
    for dtype in (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.index, dtypes.weakint, dtypes.float16,
                  dtypes.float32, dtypes.float64, dtypes.weakfloat)
    for value in (0, 1, 2, True, False, 0.0, -0.0, 1.0, 255, -1, NAN, float("inf"))
    if dtype.kind == "f" or (value == value and abs(value) < 300)
]  # fmt: skip


def bits(value, dtype):
    """What tells two constants apart: the dtype, and the bits the value has in it."""
    if dtype is dtypes.index:
        return dtype.name, int(value)
    with np.errstate(all="ignore"):
        return dtype.name, np.asarray(value).astype(dtype.np).tobytes()


def test_constants_are_one_node_iff_dtype_and_bits_are_equal():
    for a, b in itertools.product(CONSTANTS, repeat=2):
        assert (UOp.const(*a) is UOp.const(*b)) == (bits(*a) == bits(*b)), (a, b)


def test_equal_nodes_are_one_object():
    x, y = param(0, 4), param(1, 4)
    assert x + y is x + y and x + y is not y + x
    assert x.reshape((2, 2)) is x.reshape((2, 2)) and x.reshape((2, 2)) is not x.reshape((4, 1))
    assert x.rtag("t") is not x and x.rtag("t").rtag() is x
    assert UOp.const(INVALID) is UOp.const(INVALID) and UOp.const(INVALID) is not UOp.const(0)
    assert UOp.range(4, 0) is not UOp.range(4, 0, AxisType.REDUCE)
    assert param(0, 4) is x and param(0, 4, dtypes.int32) is not x and param(0, 4, device="NUMPY:1") is not x
    assert UOp.new_buffer("NUMPY", 4, dtypes.int8) is not UOp.new_buffer("NUMPY", 4, dtypes.int8)
    assert UOp.const(True, dtypes.bool) is TRUE and UOp.const(0, dtypes.bool) is FALSE


def test_a_node_has_no_truth_value_and_no_other_slots():
    with pytest.raises(TypeError):
        bool(TRUE)
    with pytest.raises(AttributeError):
        TRUE.note = 1


def derive_everything(u):
    for node in u.toposort():
        assert node.key and node.bounds and (node.maybe_shape, node.device, node.ranges)
        if node.dtype is dtypes.index:
            simplify_index(node)


def test_nodes_die_with_their_last_holder_without_the_cycle_collector():
    buffer = UOp.new_buffer("NUMPY", 1234, dtypes.int32)
    gathered = buffer.index(UOp.range(1234, 0)).cast(dtypes.index) * 3 + 1
    value = buffer.index(gathered // 4 * 4 + gathered % 4)
    derive_everything(value)
    alive = weakref.ref(buffer)
    gc.disable()
    try:
        del buffer, gathered, value
        assert alive() is None
    finally:
        gc.enable()


def test_forms_of_index_arithmetic_hold_no_node_alive():
    gc.collect()
    before = interned_count()
    r, s = UOp.range(7001, 0), UOp.range(7003, 1)
    for u in (r * 6 + s, (r * 6 + s) // 5, (r * 7 + s) % 3 + r, (r // 2) * 2 + r % 2):
        derive_everything(u)
    del r, s, u
    gc.collect()
    assert interned_count() == before


def test_intern_after_death():
    """Between the death of a node and its callback an equal one may be made: it must stay interned."""
    key = (Ops.CONST, dtypes.int32, (), 987654, None)
    node = UOp.const(987654, dtypes.int32)
    old = _TABLE[key]
    del node
    assert key not in _TABLE
    _TABLE[key] = old  # dead, and its callback has yet to come
    new = UOp.const(987654, dtypes.int32)
    assert _TABLE[key]() is new
    _forget(old)
    assert UOp.const(987654, dtypes.int32) is new


def test_intern_after_death_in_a_garbage_cycle():
    """The collector clears all weak references first: a callback of another object then makes the node anew."""

    class Holder:
        pass

    made = []

    def remake(_):
        made.append(UOp.const(135791, dtypes.int64))

    first = Holder()
    ref = weakref.ref(first, remake)
    first.node, first.me = UOp.const(135791, dtypes.int64), first
    del first
    gc.collect()
    assert ref() is None and UOp.const(135791, dtypes.int64) is made[0]


def in_threads(count, work):
    """Runs ``work(i)`` in threads that start together and switch as often as possible; their results in order."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(i):
        barrier.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(old)
    assert not errors, errors[0]
    return results


def test_threads_agree_on_one_node():
    leaf = param(0, 6)

    def build(_):
        made = []
        for k in range(1000, 1300):
            made.append((leaf + float(k)).reshape((2, 3)))
        return made

    results = in_threads(6, build)
    assert all(a is b for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_threads_that_make_and_drop_one_node_never_hold_two():
    """Death in one thread races with birth in another; whoever holds the node at one time holds the same."""
    split = []

    def churn(_):
        for _ in range(3000):
            a = UOp.const(24680, dtypes.int16)
            b = UOp.const(24680, dtypes.int16)
            if a is not b:
                split.append((a, b))
            del a, b

    in_threads(4, churn)
    assert not split


def test_threads_derive_the_same():
    graph = param(0, 6).reshape((2, 3))
    for k in range(300):
        graph = graph + UOp.const(float(k), dtypes.float32).reshape((1, 1))
    keys = in_threads(4, lambda _: (graph.key, graph.shape, graph.device))
    assert len(set(keys)) == 1


# ** pickling and keys **


def gallery():
    """Nodes of every kind of argument."""
    x, v, r = param(0, 6), UOp.variable("n", 1, 9), UOp.range(6, 0)
    consts = [UOp.const(c, d) for c, d in ((NAN, dtypes.float32), (-0.0, dtypes.float64), (True, dtypes.bool))]
    return [
        *consts, UOp.const(INVALID), x.reshape((2, 3)).pad(((1, 0), (0, 2))), x.shrink(((0, v),)),
        x.rop(Ops.MAX, (0,)), UOp(Ops.BUFFER, dtypes.int8, (), BufferArg(3, 6, ("NUMPY", "NUMPY:1"))),
        UOp.sink(x.index(r.valid(r < 3)).store(UOp.const(1.0, dtypes.float32)).end(r), arg=KernelInfo("E_6")),
        UOp.range(v, 1, AxisType.REDUCE), (r // 4 + v) % 3, x.rtag(("why", 2.5)),
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_a_pickled_node_comes_back_as_the_same_object(protocol):
    for u in gallery():
        assert pickle.loads(pickle.dumps(u, protocol)) is u
    assert pickle.loads(pickle.dumps(gallery(), protocol)) == gallery()


PRINT_KEYS = """
from tests.test_ir import gallery
print(*(u.key.hex() for u in gallery()))
"""


def test_keys_are_the_same_in_every_process():
    found = set()
    for seed in ("1", "4711"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = [sys.executable, "-c", PRINT_KEYS]
        found.add(subprocess.run(run, env=env, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    assert found == {" ".join(u.key.hex() for u in gallery()) + "\n"}


@examples(60)
@given(programs(), programs())
def test_nodes_have_equal_keys_iff_they_are_one(a, b):
    roots = (UOp.sink(*(u for u, _ in p.build()[1])) for p in (a, b))
    nodes = {u for root in roots for u in root.toposort()} | set(gallery())
    assert len({u.key for u in nodes}) == len(nodes)


# ** what is derived **


def test_shapes():
    x, s = param(0, 12).reshape((3, 4)), UOp.const(1.0, dtypes.float32)
    assert (x.permute((1, 0)).shape, x.expand_leading((2,)).shape) == ((4, 3), (2, 3, 4))
    assert (x.pad(((1, 0), (0, 2))).shape, x.shrink(((1, 3), (0, 1))).shape) == ((4, 6), (2, 1))
    assert (x.flip((True, False)).shape, x.rop(Ops.ADD, (0,)).shape, x.rop(Ops.ADD, (0, 1)).shape) == ((3, 4), (4,), ())
    assert (x + s).shape == (s + x).shape == (3, 4) and s.shape == ()
    assert (x < x.shrink(((0, 3), (0, 1)))).shape == (3, 4)
    assert UOp(Ops.STACK, x.dtype, (x, x)).shape == (2, 3, 4)
    assert x.bitcast(dtypes.int8).shape == (3, 16) and x.cast(dtypes.int8).shape == (3, 4)
    assert (x.ndim, x.size, x.nbytes()) == (2, 12, 48)
    for u in (UOp.sink(x), x.store(x).end(UOp.range(2, 0)), UOp.sink(x).call(x)):
        assert u.maybe_shape is None
        with pytest.raises(SpecError):
            u.shape  # noqa: B018  # asking is what is tested


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match="do not broadcast"):
        (param(0, 3) + param(0, 4)).shape  # noqa: B018


def test_shapes_with_variables():
    v = UOp.variable("n", 1, 9)
    x = param(0, 90).reshape((10, 9)).shrink(((0, 10), (0, v)))
    assert x.shape == (10, v) and x.size == 90
    assert x.rop(Ops.ADD, (0,)).shape == (v,) and x.permute((1, 0)).shape == (v, 10)
    assert x.pad(((0, 0), (1, 0))).shape[1] is simplify_index(v + 1)
    assert x.shrink(((0, 10), (v - 1, v))).shape == (10, 1)
    assert x.variables() == [v] and (x + 1).shape == (10, v)


def test_dtype_device_and_base():
    x, y = param(0, 4), param(1, 4, device="NUMPY:1")
    assert (x < y).dtype is dtypes.bool and (x + 1).dtype is dtypes.float32
    assert (x < y).where(x, y).dtype is dtypes.float32 and x.cast(dtypes.int8).dtype is dtypes.int8
    assert (x + 1).device == "NUMPY" and (1 + y).device == "NUMPY:1" and UOp.const(1.0, dtypes.float32).device is None
    assert UOp(Ops.COPY, x.dtype, (x,), "NUMPY:2").device == "NUMPY:2"
    assert x.after(x.store(y)).device == "NUMPY" and y.index(UOp.range(4, 0)).device == "NUMPY:1"
    assert x.reshape((2, 2)).permute((1, 0)).base is x


def naive_ranges(u):
    """The definition: what is used below and not closed here."""
    below = frozenset().union(*map(naive_ranges, u.src))
    if u.op is Ops.RANGE:
        return below | {u}
    if u.op in (Ops.AFTER, Ops.CALL):
        return naive_ranges(u.src[0]) if u.op is Ops.AFTER else frozenset()
    closed = u.src[1:] if u.op in (Ops.REDUCE, Ops.END, Ops.STAGE) else ()
    return below - frozenset().union(*map(naive_ranges, closed))


def test_open_ranges():
    r, s, t = (UOp.range(n, i) for i, n in enumerate((2, 3, 4)))
    x = param(0, 24)
    load = x.index(r * 12 + s * 4 + t)
    total = load.reduce(Ops.ADD, s)
    inner = UOp(Ops.STAGE, total.dtype, (total, t), None).index(r)
    write = x.index(r).store(inner + total.reduce(Ops.MAX, t)).end(r)
    for u in write.toposort():
        assert u.ranges == naive_ranges(u), graph_text(u)
    assert total.ranges == {r, t} and inner.ranges == {r} and write.ranges == frozenset()
    assert UOp.range(r, 5).ranges == {r, UOp.range(r, 5)}, "a loop whose end depends on another loop"


INTEGER = (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.index)
OPS = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.FLOORDIV, Ops.FLOORMOD, Ops.AND, Ops.OR, Ops.XOR)
COMPARE = (Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)
LOOPS = (UOp.range(2, 0), UOp.range(3, 1), UOp.range(7, 2))
VARIABLE = UOp.variable("v", -2, 3)
MEMORY = {dtype: param(i, 3, dtype) for i, dtype in enumerate((*INTEGER[:3], dtypes.float32, dtypes.bool))}
VALUES = {
    MEMORY[dtypes.int8]: np.array([-128, 127, 3], np.int8), MEMORY[dtypes.uint8]: np.array([255, 0, 200], np.uint8),
    MEMORY[dtypes.int32]: np.array([-5, 2**31 - 1, 0], np.int32),
    MEMORY[dtypes.float32]: np.array([-1.5, 2.0, 0.0], np.float32), MEMORY[dtypes.bool]: np.array([True, False, True]),
}  # fmt: skip


@st.composite
def integers(draw, dtype, depth=4):
    """A whole-number expression over loops, a Variable and memory."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(integer_leaves(dtype))
    sub = integers(dtype, depth - 1)
    kind = draw(st.sampled_from(("op", "op", "const op", "where", "neg")))
    if kind == "where":
        return draw(conditions(depth - 1)).where(draw(sub), draw(sub))
    if kind == "neg":
        return -draw(sub)
    ops = [op for op in OPS if dtype is not dtypes.index or op not in (Ops.SUB, Ops.AND, Ops.OR, Ops.XOR)]
    op, x = draw(st.sampled_from(ops)), draw(sub)
    if op in (Ops.FLOORDIV, Ops.FLOORMOD) or kind == "const op":
        low = 1 if op in (Ops.FLOORDIV, Ops.FLOORMOD) else -9
        y = UOp.const(draw(st.integers(low, 9)), dtype)
        return x.alu(op, y) if draw(st.booleans()) or low == 1 else y.alu(op, x)
    return x.alu(op, draw(sub))


@st.composite
def integer_leaves(draw, dtype):
    index = draw(st.one_of(st.sampled_from((*LOOPS, VARIABLE)), st.integers(-9, 9).map(UOp.const)))
    if dtype is dtypes.index or draw(st.booleans()):
        return index.cast(dtype)
    at = draw(st.sampled_from((LOOPS[1], UOp.const(1))))
    source = draw(st.sampled_from((dtype, dtype, dtypes.bool, *INTEGER[:3])))
    return MEMORY[source].index(at).cast(dtype)


@st.composite
def conditions(draw, depth=2):
    if depth > 0 and draw(st.integers(0, 2)) == 0:
        op = draw(st.sampled_from((Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.ADD, Ops.MUL, Ops.SUB)))
        return draw(conditions(depth - 1)).alu(op, draw(conditions(depth - 1)))
    if draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from((TRUE, FALSE, MEMORY[dtypes.bool].index(LOOPS[1]))))
    dtype = draw(st.sampled_from(INTEGER))
    return draw(integers(dtype, depth)).alu(draw(st.sampled_from(COMPARE)), draw(integers(dtype, depth)))


def everywhere(u):
    """The values of ``u`` at every combination of loops and of the Variable."""
    machine = Machine(VALUES)
    for *point, v in itertools.product(*(range(r.vmax + 1) for r in LOOPS), (-2, 0, 3)):
        yield machine.at({**dict(zip(LOOPS, point, strict=True)), VARIABLE: v}).value(u)


@examples(150)
@given(st.sampled_from(INTEGER).flatmap(integers) | conditions(4))
def test_bounds_hold_everywhere(u):
    low, high = u.bounds
    values = [v.item() for v in everywhere(u)]
    assert low <= min(values) and max(values) <= high, f"{u}: {u.bounds}, but {min(values)} to {max(values)}"


@examples(100)
@given(integers(dtypes.index))
def test_the_normal_form_of_any_index_expression_has_its_values(u):
    new = simplify_index(u)
    assert simplify_index(new) is new and affine_of(new) == affine_of(u)
    assert all(a == b for a, b in zip(everywhere(u), everywhere(new), strict=True)), (u, new)


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.int8, dtypes.uint8, dtypes.bool])
@pytest.mark.parametrize("op", [*OPS, *COMPARE])
def test_bounds_of_each_operation_for_all_small_intervals(op, dtype):
    if dtype in (dtypes.index, dtypes.bool) and op in (Ops.FLOORDIV, Ops.FLOORMOD, Ops.XOR, Ops.SUB):
        return
    least, most = (0, 1) if dtype is dtypes.bool else (0 if dtype is dtypes.uint8 else -3, 5)
    intervals = [(a, b) for a in range(least, most + 1) for b in range(a, most + 1)]
    for (a, b), (c, d) in itertools.product(intervals, repeat=2):
        if op in (Ops.FLOORDIV, Ops.FLOORMOD) and c <= 0:
            continue
        x, y = (in_interval(*i, dtype) for i in ((a, b), (c, d)))
        assert (x.bounds, y.bounds) == ((a, b), (c, d))
        low, high = x.alu(op, y).bounds
        xs, ys = np.meshgrid(np.arange(a, b + 1).astype(dtype.np), np.arange(c, d + 1).astype(dtype.np))
        values = alu(op, dtype, [xs, ys])
        assert low <= values.min() and values.max() <= high, (op, (a, b), (c, d), (low, high))


def test_an_index_has_no_width_and_so_no_limits():
    r = UOp.range(8, 0)
    assert (r * 2**63).bounds == (0, 7 * 2**63) and (r * 2**63 // 2**63).bounds == (0, 7)
    assert UOp.const(2**31, dtypes.int32).bounds == (-(2**31), -(2**31))


def in_interval(a, b, dtype):
    """A node whose bounds are exactly ``a`` and ``b``."""
    if dtype is dtypes.bool:
        return UOp.const(bool(a), dtype) if a == b else MEMORY[dtype].index(UOp.const(0))
    return UOp.variable("x", a, b).cast(dtype)


def test_toposort_is_sources_first_and_stops_at_the_gate():
    x = param(0, 4)
    a = x + 1
    b = a * a
    order = (b + a).toposort()
    assert len(order) == len(set(order)) == 5
    assert all(order.index(s) < order.index(u) for u in order for s in u.src)
    assert (b + a).toposort(gate=lambda u: u is not a) == [a, b, b + a]


def test_groups_of_ops():
    assert GroupOp.Unary | GroupOp.Binary | GroupOp.Ternary == GroupOp.ALU
    assert not GroupOp.ALU & GroupOp.Movement and GroupOp.Reduce <= GroupOp.Commutative & GroupOp.Associative
    assert str(Ops.ADD) == repr(Ops.ADD) == "Ops.ADD"


# ** user lines **


def made_here(value):
    return mark(UOp.const(value, dtypes.float32))


def test_a_node_knows_every_line_that_made_it():
    u = made_here(0.123)
    v = mark(UOp.const(0.123, dtypes.float32))
    w = mark(UOp.const(0.123, dtypes.float32))
    assert u is v is w
    first, second, third = lines_of(u)
    assert first.function == "made_here" and first.code == "return mark(UOp.const(value, dtypes.float32))"
    assert second.file == __file__ and third.number == second.number + 1
    assert second.code == "v = mark(UOp.const(0.123, dtypes.float32))"
    assert where(u) == f"CONST of shape (), made at {third}: {third.code}"


def test_a_line_is_noted_once_and_their_number_is_bounded():
    u = UOp.const(0.456, dtypes.float32)
    for _ in range(3):
        mark(u)
    assert len(lines_of(u)) == 1
    for i in range(50):
        add_line(u, Line("cell", i))
    assert len(lines_of(u)) == MOST_LINES


def test_lines_die_with_their_node_and_are_no_part_of_it():
    key = made_here(0.789).key
    assert lines_of(UOp.const(0.789, dtypes.float32)) == ()
    assert UOp.const(0.789, dtypes.float32).key == key


def test_a_line_that_cannot_be_read_has_no_code():
    assert Line("<no such file>", 3).code == "" and str(Line("/a/b.py", 3, gradient=True)) == "b.py:3 (gradient)"
