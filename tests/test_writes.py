"""Writes in place, as the schedule sees them: random programs in Python, run on Tensors and on NumPy arrays.

An expression is a snapshot of the values when it was written, a view follows its Tensor, whatever is realized when,
together with what, or never, and whoever is dropped in between. A failing program is shrunk and printed as Python.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.evaluate import Machine
from tests.graphs import broadcasts, examples
from tinysched import GlobalCounters, Tensor, plan, run_linear
from tinysched.errors import StalePlan
from tinysched.ir.decision import Reason, Verdict
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.spec import STAGE_SPECS, verify
from tinysched.ir.uop import UOp
from tinysched.runtime.linear import BACKENDS
from tinysched.settings import Context

SHAPES = ((4,), (6,), (3, 4), (4, 4), (4, 4), (2, 3, 4))

# ** the words of a program, in both worlds **


def numpy_assign(x, value):
    x[...] = np.array(value)


NUMPY = {
    "assign": numpy_assign, "maximum": np.maximum, "where": np.where, "copy": np.copy, "contiguous": np.copy,
    "flat": lambda x: x.reshape(-1), "turn": lambda x: x.swapaxes(0, -1), "pad": lambda x: np.pad(x, ((1, 0),) * x.ndim),
    "total": lambda x, axis: x.sum(axis, keepdims=True), "new": np.copy, "lazy": np.copy, "values": np.copy,
    "realize": lambda *xs: None, "look": lambda *xs: None, "run": lambda *xs: None,
}  # fmt: skip


def look(*tensors):
    """Planning changes nothing."""
    before = [t.uop for t in tensors]
    plan(*tensors)
    assert all(t.uop is u for t, u in zip(tensors, before, strict=True))


TENSOR = {
    "assign": Tensor.assign, "maximum": Tensor.maximum, "where": lambda c, x, y: c.where(x, y), "copy": Tensor.clone,
    "contiguous": Tensor.contiguous, "flat": lambda x: x.reshape(-1), "turn": lambda x: x.transpose(0, -1),
    "pad": lambda x: x.pad(((1, 0),) * x.ndim), "total": lambda x, axis: x.sum(axis, keepdim=True),
    "new": lambda a: Tensor(a).realize(), "lazy": lambda a: Tensor(a) + 0, "values": lambda x: x,
    "realize": Tensor.realize, "look": look, "run": lambda *xs: run_linear(plan(*xs)),
}  # fmt: skip


@dataclass
class World:
    """A program as far as it has run: its lines, and its names in both worlds."""

    lines: list[str] = field(default_factory=list)
    arrays: dict = field(default_factory=lambda: dict(NUMPY))
    tensors: dict = field(default_factory=lambda: dict(TENSOR))
    data: dict = field(default_factory=dict)
    count: int = 0

    @property
    def names(self):
        return [k for k, v in self.arrays.items() if isinstance(v, np.ndarray) and k.startswith("t")]

    def do(self, line):
        self.lines.append(line)
        exec(line, self.arrays)
        exec(line, self.tensors)

    def make(self, expression):
        self.count += 1
        name = f"t{self.count}"
        self.do(f"{name} = {expression}")
        if self.arrays[name].base is None:  # a new value lies in order; NumPy keeps the order of what it is made of
            self.arrays[name] = np.ascontiguousarray(self.arrays[name])

    def check(self, name):
        self.lines.append(f"check {name}")
        np.testing.assert_array_equal(self.tensors[name].numpy(), self.arrays[name], err_msg=name)

    def array(self, code):
        """The value of an expression in NumPy's world."""
        return eval(code, self.arrays)


# ** random statements **


def random_key(rng, shape):
    """A basic index that keeps at least one axis and one element."""
    parts = []
    for n in shape:
        kind = rng.randrange(6)
        a = rng.randrange(n)
        b = rng.randint(a + 1, n)
        drops = len(parts) + 1 < len(shape) or any(":" in p for p in parts)
        choices = (":", f"{a}:{b}", f"{a}:{b}", "::-1", f"{a}:{b}:2", str(a) if drops else ":")
        parts.append(choices[kind])
    return "[" + ", ".join(parts) + "]"


def atom(rng, world, name=None):
    name = name or rng.choice(world.names)
    kind = rng.randrange(8)
    if kind < 3:
        return name
    if kind == 3:
        return f"turn({name})"
    part = name + random_key(rng, world.array(name).shape)
    axis = world.array(part).ndim - 1
    return f"total({part}, {axis})" if kind == 4 and axis else part


def moved(rng, world, name=None):
    """An atom to be written: NumPy does not look whether one-dimensional views overlap."""
    return f"values({atom(rng, world, name)})"


def expression(rng, world, name=None):
    a, b = atom(rng, world, name), atom(rng, world)
    kind = rng.randrange(7)
    if kind == 0 or not broadcasts(world.array(a).shape, world.array(b).shape):
        return f"{a} * {rng.randint(-1, 2)} + {rng.randint(1, 5)}"
    if kind == 1:
        return f"maximum({a}, {b})"
    if kind == 2:
        return f"where({a} < {b}, {a}, {b})"
    if kind == 3:
        return f"({a} - {b}) * 2"
    return f"{a} + {b}"


def fitting(rng, world, target):
    """An expression that can be written to ``target``; often of the very memory that is written."""
    shape = world.array(target).shape
    for _ in range(8):
        same = target.split("[")[0].split(".")[0]
        e = rng.choice((expression, moved))(rng, world, same if rng.random() < 0.5 else None)
        found = world.array(e).shape
        if broadcasts(shape, found) and np.broadcast_shapes(shape, found) == shape:
            return e
    return str(rng.randint(6, 9))


def new(rng, world):
    name = f"d{world.count + 1}"
    shape = rng.choice(SHAPES)
    start = rng.randint(1, 9) * 10
    array = np.arange(start, start + np.prod(shape), dtype=np.float64).reshape(shape)
    world.arrays[name] = world.tensors[name] = array
    world.data[name] = f"np.arange({start}.0, {start}.0 + {array.size}).reshape{shape}"
    world.make(f"{rng.choice(('new', 'new', 'lazy'))}({name})")


def view(rng, world):
    name = rng.choice(world.names)
    key = random_key(rng, world.array(name).shape)
    world.make(rng.choice((name + key, name + key, name + key, f"turn({name})", f"flat({name})")))


def snapshot(rng, world):
    e = expression(rng, world)
    kind = rng.randrange(6)
    name = rng.choice(world.names)
    world.make(
        f"contiguous({e})" if kind == 0 else f"copy({name})" if kind == 1 else f"pad({name})" if kind == 2 else e
    )


def write(rng, world):
    name = rng.choice(world.names)
    target = name + random_key(rng, world.array(name).shape)
    kind = rng.randrange(5)
    if kind == 0:
        world.do(f"assign({name}, {fitting(rng, world, name)})")
    elif kind == 1:
        world.do(f"{name} += {fitting(rng, world, name)}")
    else:
        world.do(f"{target} = {fitting(rng, world, target)}")


def swap(rng, world):
    a, b = rng.choice(world.names), rng.choice(world.names)
    if world.array(a).shape == world.array(b).shape:
        world.do(f"old = {a} + 0; assign({a}, {b} + 0); assign({b}, old); del old")


def some(rng, world):
    return rng.sample(world.names, rng.randint(1, min(3, len(world.names))))


def together(rng, world):
    world.do(f"{rng.choice(('realize', 'run', 'look'))}({', '.join(some(rng, world))})")


def drop(rng, world):
    if len(world.names) > 1:
        world.do(f"del {rng.choice(world.names)}")


def check(rng, world):
    world.check(rng.choice(world.names))


STATEMENTS = {
    "new": new, "view": view, "snapshot": snapshot, "write": write, "swap": swap, "together": together, "drop": drop,
    "check": check,
}  # fmt: skip
OFTEN = (
    "write",
    "write",
    "write",
    "snapshot",
    "snapshot",
    "view",
    "together",
    "together",
    "drop",
    "check",
    "swap",
    "new",
)


@dataclass(frozen=True)
class Program:
    """Statements, each with the seed of its choices, and how the end is read."""

    statements: tuple[tuple[str, int], ...]
    end: int = 0

    def run(self, world):
        new(random.Random(1), world)
        for kind, seed in self.statements:
            STATEMENTS[kind](random.Random(seed), world)
        rng = random.Random(self.end)
        names = rng.sample(world.names, len(world.names))
        if self.end % 2:
            world.do(f"realize({', '.join(names)})")
        for name in names:
            world.check(name)


def assert_like_numpy(program):
    world = World()
    try:
        program.run(world)
    except BaseException:
        data = [f"{name} = {text}" for name, text in world.data.items()]
        note("\n".join(["", *data, *world.lines]))
        raise


def written_programs(most=14):
    statement = st.tuples(st.sampled_from(OFTEN), st.integers(0, 10**6))
    return st.builds(Program, st.lists(statement, min_size=5, max_size=most).map(tuple), st.integers(0, 99))


@pytest.mark.parametrize("cpu", sorted(BACKENDS))
def test_programs_of_reads_and_writes_are_what_numpy_says(cpu):
    @examples(150)
    @given(written_programs())
    def check(program):
        with Context(CPU=cpu):
            assert_like_numpy(program)

    check()


@pytest.mark.parametrize("settings", [
    {"SCACHE": 0}, {"PCONTIG": 1}, {"NO_MEMORY_PLANNER": 1}, {"MAX_KERNEL_BUFFERS": 4}, {"REDUCEOP_SPLIT_THRESHOLD": 9},
], ids=str)  # fmt: skip
def test_programs_under_other_settings(settings):
    @examples(40)
    @given(written_programs())
    def check(program):
        with Context(**settings):
            assert_like_numpy(program)

    check()


class Watcher:
    """Verifies the graph after each stage, and keeps decisions."""

    def __init__(self):
        self.decisions, self.graphs, self.edges = [], {}, []

    def on_stage_end(self, name, root):
        self.graphs[name] = root
        verify(root, STAGE_SPECS[name])

    def on_decision(self, decision):
        self.decisions.append(decision)

    def on_event(self, kind, data):
        if kind == "order":
            self.edges = data["edges"]

    def on_stage(self, *event): ...

    on_rewrite = on_replace = on_index = on_stage

    def about(self, reason):
        return [d.verdict for d in self.decisions if d.reason is reason]


@examples(60)
@given(written_programs(most=10))
def test_graphs_with_writes_are_legal_after_every_pass(program):
    with watching(Watcher()):
        assert_like_numpy(program)


# ** one by one **


def memory(*shape):
    return Tensor(np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)).realize()


def seen(*tensors):
    watcher = Watcher()
    with watching(watcher):
        watcher.plan = plan(*tensors)
    watcher.kernels = [
        call.src[0].arg.name if call.src[0].op is Ops.SINK else "copy" for call in watcher.plan.linear.src
    ]
    return watcher


HAZARDS = {
    "the same element": (lambda x: x[1:3], lambda x: x[1:3] * 2, 1),
    "apart": (lambda x: x[0:2], lambda x: x[2:4] * 2, 1),
    "one before": (lambda x: x[1:4], lambda x: x[0:3] * 2, 2),
    "one after": (lambda x: x[0:3], lambda x: x[1:4] * 2, 2),
    "backwards": (lambda x: x, lambda x: x[::-1] * 2, 2),
    "transposed": (lambda x: x, lambda x: x.T * 2, 2),
    "columns apart": (lambda x: x[:, 0:2], lambda x: x[:, 2:4] + 1, None),
    "a sum of itself": (lambda x: x, lambda x: x - x.sum(0).reshape(1, 4), None),
    "a view of itself, moved": (lambda x: x[1:4], lambda x: x[0:3], 2),
    "a view of itself, apart": (lambda x: x[0:2], lambda x: x[2:4], 1),
}


@pytest.mark.parametrize("cpu", sorted(BACKENDS))
@pytest.mark.parametrize("name", HAZARDS)
def test_a_write_that_reads_its_own_memory(name, cpu):
    target, value, kernels = HAZARDS[name]
    x, a = memory(4, 4), memory(4, 4).numpy()
    target(x).assign(value(x))
    target(a)[...] = value(a)
    w = seen(x)
    assert kernels is None or len(w.kernels) == kernels, w.kernels
    if kernels == 2:
        assert Verdict.KEPT in w.about(Reason.STORE_READS_TARGET)
    with Context(CPU=cpu):
        np.testing.assert_array_equal(x.numpy(), a)


def test_a_value_that_is_written_and_read_elsewhere_is_computed_once():
    x, m = memory(4), memory(4, 50)
    value = x + m.sum(1)
    turned = value[::-1] * 2
    x.assign(value)
    del value
    GlobalCounters.reset()
    Tensor.realize(x, turned)
    assert GlobalCounters.global_ops <= 200 + 4 + 4 + 4
    a = np.arange(1.0, 5.0) + np.arange(1.0, 201.0).reshape(4, 50).sum(1)
    assert x.tolist() == a.tolist() and turned.tolist() == (a[::-1] * 2).tolist()


def test_contiguous_keeps_its_buffer_before_a_write():
    x = memory(4)
    x.assign((x * 2).contiguous())
    w = seen(x)
    assert len(w.kernels) == 2 and Verdict.KEPT in w.about(Reason.USER_FORCED) + w.about(Reason.STORE_READS_TARGET)
    assert x.tolist() == [2, 4, 6, 8]


def test_a_write_in_place_uses_the_memory_that_is_there():
    x = memory(4)
    before = x.uop.base
    x[1:3] = x[1:3] + 10
    w = seen(x)
    assert w.about(Reason.NOT_HELD) == [Verdict.IN_PLACE] and x.realize().uop.base is before
    assert x.tolist() == [1, 12, 13, 4]


def test_a_value_that_somebody_holds_is_not_overwritten():
    x = memory(4)
    before, old = x.uop.base, x * 2
    x += 1
    w = seen(x)
    assert w.about(Reason.HELD) == [Verdict.FRESH] and len(w.kernels) == 1, "a whole write needs no copy"
    assert x.tolist() == [2, 3, 4, 5] and x.uop.base is not before and old.tolist() == [2, 4, 6, 8]
    y = memory(4)
    old = y * 2
    y[0:1] = 7
    assert len(seen(y).kernels) == 2, "a part is written into a copy"
    assert y.tolist() == [7, 2, 3, 4] and old.tolist() == [2, 4, 6, 8]


def test_a_reader_that_is_asked_for_together_does_not_hold():
    x = memory(4)
    before, double = x.uop.base, x * 2
    x += 1
    w = seen(x, double)
    assert w.about(Reason.NOT_HELD) == [Verdict.IN_PLACE]
    [war] = [e for e in w.edges if e.kind == "WAR"]
    assert war.before < war.after
    Tensor.realize(x, double)
    assert x.uop.base is before and (x.tolist(), double.tolist()) == ([2, 3, 4, 5], [2, 4, 6, 8])


def test_one_kernel_that_needs_two_states_gets_fresh_memory():
    x = memory(4)
    old = x * 2
    x += 1
    both = old + x
    del old
    w = seen(both)
    assert Verdict.FRESH in w.about(Reason.TWO_STATES)
    assert both.tolist() == [4, 7, 10, 13] and x.tolist() == [2, 3, 4, 5]


def test_writes_in_a_row_are_seen_one_after_the_other():
    x = memory(4)
    seen_ = []
    for value in (1.0, 2.0, 1.0):
        x.assign(np.full(4, value))
        seen_.append(x + 0)
    assert [s.tolist() for s in seen_] == [[1] * 4, [2] * 4, [1] * 4] and x.tolist() == [1] * 4


def test_a_diamond_of_reads_and_writes():
    x = memory(4)
    a, b = x + 1, x * 2
    x.assign(a + b)
    c = x - a
    x.assign(c * b)
    n = np.arange(1.0, 5.0)
    results = (x, c, a, b)
    expected = ((2 * n + 0) * (2 * n), 2 * n, n + 1, 2 * n)
    for t, e in zip(results, expected, strict=True):
        np.testing.assert_array_equal(t.numpy(), e)


def test_a_swap():
    x, y = memory(4), memory(4) * 10
    y.realize()
    old = x + 0
    x.assign(y)
    y.assign(old)
    Tensor.realize(x, y)
    assert x.tolist() == [10, 20, 30, 40] and y.tolist() == [1, 2, 3, 4]


def test_views_of_one_memory_written_in_turn():
    x = memory(4, 4)
    top, left = x[:2], x[:, :2]
    top += 100
    left *= 2
    top[0] = 0
    a = np.arange(1.0, 17.0).reshape(4, 4)
    a[:2] += 100
    a[:, :2] *= 2
    a[0] = 0
    for t, e in ((left, a[:, :2]), (x, a), (top, a[:2])):
        np.testing.assert_array_equal(t.numpy(), e)


def test_two_parts_written_by_two_kernels_need_no_order():
    x = memory(4)
    x[0:2] = x[0:2] * 2
    x[2:4] = x[2:4] * 3
    w = seen(x)
    assert len(w.kernels) == 2 and not [e for e in w.edges if e.kind in ("WAR", "WAW")]
    assert x.tolist() == [2, 4, 9, 12]


def test_a_training_loop_reuses_its_memory():
    w, counts = memory(4), []
    base = w.uop.base
    for _ in range(4):
        grad = w * 2
        w -= grad * 0.25
        del grad
        GlobalCounters.reset()
        w.realize()
        counts.append(GlobalCounters.kernel_count)
    assert counts == [1, 1, 1, 1] and w.uop.base is base
    np.testing.assert_array_equal(w.numpy(), np.arange(1.0, 5.0) / 16)


def test_a_held_gradient_costs_twice_the_memory_and_not_more():
    w, grad, bases, counts = memory(4), None, set(), []
    for _ in range(6):
        grad = w * 2
        w -= grad * 0.25
        GlobalCounters.reset()
        w.realize()
        counts.append(GlobalCounters.kernel_count)
        bases.add(id(w.uop.buffer))
    np.testing.assert_array_equal(w.numpy(), np.arange(1.0, 5.0) / 64)
    np.testing.assert_array_equal(grad.numpy(), np.arange(1.0, 5.0) / 16)
    assert len(set(counts)) == 1


def test_a_plan_that_is_overtaken_by_a_write_is_stale():
    x = memory(4)
    x += 1
    p = plan(x)
    x += 1
    with pytest.raises(StalePlan):
        run_linear(p)
    assert x.tolist() == [3, 4, 5, 6]


def test_an_unrealized_value_is_written_as_an_expression():
    x = Tensor(np.arange(4.0)) + 1
    old = x * 1
    x[1:3] = 0
    w = seen(x)
    assert not w.about(Reason.NOT_HELD) and not any(u.op is Ops.AFTER for u in x.uop.toposort())
    assert x.tolist() == [1, 0, 0, 4] and old.tolist() == [1, 2, 3, 4]


def test_the_states_of_memory_mean_what_the_machine_says():
    """A tensor graph with writes, evaluated by the book, before and after the passes."""
    x = memory(3, 4)
    x[1:3] = x[0:2] * 2
    x[:, 1:3] = x[:, 2:4] + x[:, 0:2]
    w = seen(x)
    call = w.plan.call
    params = sorted({u for u in call.src[0].toposort() if u.op is Ops.PARAM}, key=lambda u: u.arg.slot)
    values = {p: b.buffer.copyout() for p, b in zip(params, call.src[1:], strict=True)}
    a = np.arange(1.0, 13.0).reshape(3, 4)
    a[1:3] = a[0:2] * 2
    a[:, 1:3] = a[:, 2:4] + a[:, 0:2]
    for stage in ("callify", "prepare", "rangeify", "simplify", "add buffers"):
        root = w.graphs[stage].src[-1]
        made = {u: np.empty(u.arg.size, u.dtype.np) for u in root.toposort() if u.op is Ops.BUFFER}
        np.testing.assert_array_equal(Machine({**values, **made}).state(root), a.reshape(-1), err_msg=stage)


def test_the_number_of_kernels_does_not_grow_with_views():
    x = memory(4, 4)
    views = [x[i] for i in range(4)]
    for v in views:
        v += 1
    assert len(seen(x).kernels) <= 4 and isinstance(x.uop, UOp)
    np.testing.assert_array_equal(x.numpy(), np.arange(2.0, 18.0).reshape(4, 4))


def test_kinds_of_statements_come_up():
    counts = Counter()
    for seed in range(40):
        rng, world = random.Random(seed), World()
        new(rng, world)
        for _ in range(12):
            kind = rng.choice(OFTEN)
            STATEMENTS[kind](rng, world)
            counts[kind] += 1
    assert set(counts) == set(STATEMENTS)
