"""Every named rule keeps the value of what it rewrites, bit by bit: NaN, inf, -0.0, overflow and bools included.

For each rule of each table there is a generator of nodes that it applies to. A rule without one fails the test.
"""

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.evaluate import Machine, same
from tinysched.dtypes import dtypes
from tinysched.ir.derive import prod
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.symbolic.conditions import at_least, conjunction, less
from tinysched.ir.symbolic.rules import symbolic
from tinysched.ir.text import graph_text
from tinysched.ir.uop import FALSE, INVALID, TRUE, ParamArg, UOp
from tinysched.schedule.indexing import MEMORY, run_rangeify
from tinysched.schedule.policy import AllLegal, Eager
from tinysched.schedule.prepare import earliest_rewrites
from tinysched.schedule.rangeify import GLOBAL, LOCAL, BufferizeOpts, apply_rangeify, pm_apply_rangeify
from tinysched.schedule.reduce_simplify import pm_reduce_simplify
from tinysched.schedule.simplify import (
    LimitContext,
    PromoteContext,
    SimplifyContext,
    pm_limit_bufs,
    pm_promote_partial,
    pm_remove_bufferize,
)
from tinysched.settings import Context

INTS = (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64)
FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)
VALUES = (*INTS, *FLOATS, dtypes.bool)
LOOPS = (UOp.range(2, 0), UOp.range(3, 1), UOp.range(7, 2))
VARIABLE = UOp.variable("v", 1, 4)
REDUCED = (UOp.range(4, 8, AxisType.REDUCE), UOp.range(5, 9, AxisType.REDUCE))
SUMMED = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.5, 3.0, 1e-7)
FLOAT_VALUES = (*SUMMED, 60_000.0)
SIZE = 12


# ** what nodes are made of **


def memory(slot, dtype, size=SIZE):
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, "NUMPY"))


def x(rng, dtype):
    """A value that nothing is known of."""
    if dtype is dtypes.index:
        return index(rng)
    return memory(rng.randint(0, 2) + 10 * VALUES.index(dtype), dtype).index(UOp.const(rng.randint(0, 3)))


def index(rng, parts=2):
    """Index arithmetic over loops and a Variable, not in normal form."""
    total = UOp.const(rng.randint(-3, 3))
    for _ in range(parts):
        u = rng.choice((*LOOPS, VARIABLE))
        u = rng.choice((u, u, u // rng.randint(2, 3), u % rng.randint(2, 3)))
        total = total + u * rng.randint(-3, 4)
    return total


def constant(rng, dtype):
    if dtype.kind == "f":
        return UOp.const(rng.choice(FLOAT_VALUES), dtype)
    if dtype is dtypes.index:
        return UOp.const(rng.randint(-9, 9), dtype)
    return UOp.const(rng.choice((0, 1, 2, 3, 100, dtype.min, dtype.max)), dtype)


def either(rng, op, a, b):
    """An operation with its operands in one of both orders."""
    return a.alu(op, b) if rng.random() < 0.5 else b.alu(op, a)


def condition(rng):
    """A bool: of index arithmetic, or of memory."""
    if rng.random() < 0.3:
        return x(rng, dtypes.bool)
    if rng.random() < 0.2:
        return rng.choice(LOOPS).eq(rng.randint(0, 2))
    return bound(rng)


def bound(rng):
    """A bound on an expression, in normal form and undecided."""
    while True:
        u = rng.choice((rng.choice(LOOPS), LOOPS[1] * 2 + LOOPS[2], LOOPS[2] + VARIABLE))
        found = rng.choice((less, at_least))(u, rng.randint(-1, 12))
        if found not in (TRUE, FALSE):
            return found


def in_range(rng, dtype):
    """A whole number with bounds of its own."""
    return (rng.choice(LOOPS) + rng.randint(0, 9)).cast(dtype)


# ** environments **


def memories(rng, root, floats=FLOAT_VALUES):
    """Values for all memory below a node."""
    nodes = sorted({u for u in root.toposort() if u.op is Ops.PARAM and not u.is_variable}, key=lambda u: u.arg.slot)
    return {u: contents(rng, u.dtype, u.arg.size, floats) for u in nodes}


def contents(rng, dtype, size, floats):
    if dtype.kind == "f":
        values = [rng.choice(floats) for _ in range(size)]
    elif dtype is dtypes.bool:
        values = [rng.random() < 0.5 for _ in range(size)]
    else:
        values = [rng.choice((0, 1, 2, 3, 4, 7, dtype.min, dtype.max)) for _ in range(size)]
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype.np)


def environment(rng):
    return {VARIABLE: rng.randint(1, 4), **{r: rng.randrange(r.src[0].arg) for r in (*LOOPS, *REDUCED)}}


def assert_same_value(rng, before, after, close=False, tries=12, floats=FLOAT_VALUES):
    assert before.dtype is after.dtype, f"{before.dtype} became {after.dtype}"
    assert after.ranges <= before.ranges
    for _ in range(tries):
        machine = Machine(memories(rng, before, floats), environment(rng))
        a, b = machine.value(before), machine.value(after)
        assert same(a, b, close=close), f"{a!r} became {b!r}\n{graph_text(before)}\n->\n{graph_text(after)}"


# ** symbolic **

FLOAT_OPS = (*(GroupOp.Unary - {Ops.POW}), Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.POW, *GroupOp.Comparison)
INT_OPS = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.XOR, Ops.OR, Ops.AND, Ops.NEG, Ops.TRUNC, *GroupOp.Comparison)
INDEX_OPS = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.FLOORDIV, Ops.FLOORMOD, *GroupOp.Comparison)


def fold_alu(rng):
    dtype = rng.choice((*VALUES, dtypes.index))
    ops = FLOAT_OPS if dtype.kind == "f" else INDEX_OPS if dtype is dtypes.index else INT_OPS
    op = rng.choice(sorted(ops))
    a = constant(rng, dtype)
    b = UOp.const(rng.randint(1, 5)) if op in (Ops.FLOORDIV, Ops.FLOORMOD) else constant(rng, dtype)
    return a.alu(op) if op in GroupOp.Unary else a.alu(op, b)


def fold_cast(rng):
    source, target = rng.choice((*VALUES, dtypes.index)), rng.choice((*VALUES, dtypes.index))
    c = constant(rng, dtypes.index if source.kind in "iu" and target is dtypes.index else source)
    if source.kind == "f" and target.kind in "iu":
        c = UOp.const(rng.choice((0.0, -0.0, 1.5, 100.0, 3.99) + ((-7.9,) if target.kind == "i" else ())), source)
    return UOp(Ops.CAST, target, (c,))


def where_where(rng):
    dtype = rng.choice(VALUES)
    z = rng.choice((x(rng, dtype), constant(rng, dtype)))
    return condition(rng).where(condition(rng).where(x(rng, dtype), z), z)


def of(dtypes_, build):
    """A generator that builds with a random one of some dtypes."""
    return lambda rng: build(rng, rng.choice(dtypes_))


def with_constant(dtypes_, ops, value):
    return of(dtypes_, lambda rng, d: either(rng, rng.choice(ops), x(rng, d), UOp.const(value, d)))


def cast_cast(rng):
    a, b, c = (rng.choice((*VALUES, dtypes.index)) for _ in range(3))
    u = in_range(rng, a) if a.kind in "iu" else x(rng, a)
    if a.kind == "f" and c.kind in "iu":
        u = u.maximum(0.0).minimum(3.0)  # NumPy says nothing of what NaN and inf are as whole numbers
    return UOp(Ops.CAST, c, (UOp(Ops.CAST, b, (u,)),))


SYMBOLIC: dict[str, Callable[[random.Random], UOp]] = {
    "fold_alu": fold_alu,
    "fold_cast": fold_cast,
    "where_const": of(VALUES, lambda rng, d: rng.choice((TRUE, FALSE)).where(x(rng, d), x(rng, d))),
    "add_zero": with_constant((*INTS, dtypes.index), (Ops.ADD, Ops.XOR, Ops.OR), 0),
    "add_negative_zero": with_constant(FLOATS, (Ops.ADD,), -0.0),
    "sub_zero": of(VALUES, lambda rng, d: x(rng, d).alu(Ops.SUB, UOp.const(0, d))),
    "mul_one": with_constant((*VALUES, dtypes.index), (Ops.MUL,), 1),
    "div_one": lambda rng: rng.choice((
        of(FLOATS, lambda rng, d: x(rng, d).alu(Ops.FDIV, UOp.const(1, d))),
        of(INTS, lambda rng, d: x(rng, d).alu(rng.choice((Ops.FLOORDIV, Ops.CDIV)), UOp.const(1, d))),
    ))(rng),
    "mul_zero": with_constant((*INTS, dtypes.index), (Ops.MUL, Ops.AND), 0),
    "shift_zero": of(INTS, lambda rng, d: x(rng, d).alu(rng.choice((Ops.SHL, Ops.SHR)), UOp.const(0, d))),
    "and_const": lambda rng: either(rng, rng.choice((Ops.MUL, Ops.AND)), x(rng, dtypes.bool), rng.choice((TRUE, FALSE))),
    "or_const": lambda rng: either(
        rng, rng.choice((Ops.OR, Ops.MAX, Ops.ADD)), x(rng, dtypes.bool), rng.choice((TRUE, FALSE))),
    "idempotent": of(VALUES, lambda rng, d: (lambda u: u.alu(
        rng.choice((Ops.MAX,) if d.kind == "f" else (Ops.MAX, Ops.OR, Ops.AND)), u))(x(rng, d))),
    "trunc_int": of((*INTS, dtypes.bool), lambda rng, d: x(rng, d).alu(Ops.TRUNC)),
    "not_not": lambda rng: condition(rng).logical_not().logical_not(),
    "ne_false": lambda rng: either(rng, Ops.CMPNE, condition(rng), FALSE),
    "not_less": lambda rng: bound(rng).logical_not(),
    "normal_less": lambda rng: index(rng) < rng.choice((index(rng), UOp.const(rng.randint(-5, 9)))),
    "compare_bounds": of(INTS, lambda rng, d: either(
        rng, rng.choice((Ops.CMPEQ, Ops.CMPNE)), in_range(rng, d), UOp.const(rng.choice((20, 100)), d))),
    "less_bounds": of(INTS, lambda rng, d: either(rng, Ops.CMPLT, in_range(rng, d), UOp.const(rng.choice((0, 50)), d))),
    "bool_as_int_ne": of(INTS, lambda rng, d: condition(rng).cast(d).ne(rng.randint(0, 3))),
    "normal_and": lambda rng: bound(rng) & bound(rng) & bound(rng),
    "or_same": lambda rng: (lambda a: either(rng, Ops.OR, a, conjunction((a, condition(rng)))))(condition(rng)),
    "where_same": of(VALUES, lambda rng, d: (lambda u: condition(rng).where(u, u))(x(rng, d))),
    "where_bool": lambda rng: condition(rng).where(TRUE, FALSE),
    "where_not": of(VALUES, lambda rng, d: condition(rng).logical_not().where(x(rng, d), x(rng, d))),
    "where_where": where_where,
    "cast_same": of(VALUES, lambda rng, d: UOp(Ops.CAST, d, (x(rng, d),))),
    "cast_cast": cast_cast,
    "normal_index": lambda rng: rng.choice((index(rng, 3), index(rng) // 2, index(rng) % 3, index(rng) * 2)),
    "load_nowhere": of(VALUES, lambda rng, d: memory(0, d).index(UOp.const(INVALID))),
    "index_in_int": of(INTS, lambda rng, d: rng.choice((
        in_range(rng, d) + in_range(rng, d), in_range(rng, d) * rng.randint(0, 5), 7 + in_range(rng, d)))),
    "compare_indices": of(INTS, lambda rng, d: either(
        rng, rng.choice(sorted(GroupOp.Comparison)), in_range(rng, d),
        rng.choice((in_range(rng, d), UOp.const(rng.randint(0, 9), d))))),
    "bool_mul": lambda rng: condition(rng) * condition(rng),
}  # fmt: skip


def sides(name, table):
    return next(r for r in table if r.name == name)


def check_rule(rule, generate, *, ctx=lambda: None, verify=assert_same_value, tries=80, least=12):
    """Applies ``rule`` to what ``generate`` makes, and judges each outcome."""
    applied = 0
    for seed in range(tries):
        rng = random.Random(seed)
        before = generate(rng)
        after = rule.apply(before, ctx())
        if after is not None:
            applied += 1
            verify(rng, before, after)
    assert applied >= min(least, tries), f"the generator of {rule.name} made it apply {applied} times in {tries}"


def test_every_symbolic_rule_has_a_generator():
    assert sorted(SYMBOLIC) == sorted(r.name for r in symbolic)


@pytest.mark.parametrize("rule", symbolic.rules, ids=lambda r: r.name)
def test_symbolic_rule(rule):
    check_rule(rule, SYMBOLIC[rule.name])


@pytest.mark.parametrize("rule", symbolic.rules, ids=lambda r: r.name)
def test_symbolic_as_a_whole_keeps_what_its_rules_are_made_for(rule):
    for seed in range(30):
        rng = random.Random(seed)
        before = SYMBOLIC[rule.name](rng)
        assert_same_value(rng, before, graph_rewrite(before, symbolic), tries=4)


def mixture(rng, dtype, depth):
    """A deep expression out of what all the generators make."""
    if depth == 0:
        return rng.choice((x, constant))(rng, dtype)
    fitting = [u for u in (SYMBOLIC[name](rng) for name in rng.sample(sorted(SYMBOLIC), 6)) if u.dtype is dtype]
    if fitting:
        return fitting[0]
    a, b = mixture(rng, dtype, depth - 1), mixture(rng, dtype, depth - 1)
    if dtype is dtypes.bool:
        return a.alu(rng.choice((Ops.AND, Ops.OR, Ops.CMPNE)), b)
    return rng.choice((a + b, a * b, a.maximum(b), mixture(rng, dtypes.bool, depth - 1).where(a, b)))


def test_symbolic_keeps_mixtures():
    for seed in range(300):
        rng = random.Random(seed)
        before = mixture(rng, rng.choice(VALUES), 3)
        after = graph_rewrite(before, symbolic)
        assert graph_rewrite(after, symbolic) is after
        assert_same_value(rng, before, after, tries=4)


A, B = (memory(i, dtypes.float32).index(UOp.const(0)) for i in (0, 1))
I8, U8, I32 = (memory(i, d).index(UOp.const(0)) for i, d in enumerate(INTS[:3]))
STAYS = {
    "x * 0.0": A * 0.0, "0.0 * x": 0.0 * A, "x - x": A - A, "x / x": A.alu(Ops.FDIV, A), "x + 0.0": A + 0.0,
    "0.0 + x": 0.0 + A, "(a * b) / b": (A * B).alu(Ops.FDIV, B), "(a + b) - b": (A + B) - B, "x == x": A.eq(A),
    "x != x": A.ne(A), "x < x": A < A, "max(x, -inf)": A.maximum(float("-inf")), "0.0 - x": 0.0 - A,
    "x + -x": A + A.alu(Ops.NEG), "x * -1.0": A * -1.0, "1 / (1 / x)": A.alu(Ops.RECIPROCAL).alu(Ops.RECIPROCAL),
    "int8(int32)": I32.cast(dtypes.int8).cast(dtypes.int32), "uint8(int8)": I8.cast(dtypes.uint8).cast(dtypes.int32),
    "float(int32)": I32.cast(dtypes.float32).cast(dtypes.int32), "half(float)": A.cast(dtypes.float16).cast(A.dtype),
    "bool(int32)": I32.cast(dtypes.bool).cast(dtypes.int32), "1 | x": (UOp.const(1, U8.dtype) | U8).ne(1),
    "int8 overflow": I8 + 100 < I8, "x // 0": I32 // 0, "trunc(x)": A.alu(Ops.TRUNC),
    "where": (A < B).where(A, B), "bools of memory": (A < B) & (B < A),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_what_might_change_a_value_is_never_folded(name):
    assert graph_rewrite(STAYS[name], symbolic) is STAYS[name]


def test_conditions_on_an_index_keep_what_is_read():
    """INVALID has no value of its own: it is judged by what is read through it."""
    for seed in range(200):
        rng = random.Random(seed)
        p = memory(0, dtypes.float32, 64)
        inner = rng.choice((LOOPS[2] * 3 + LOOPS[1], LOOPS[0] + 4, LOOPS[2] // 2 + VARIABLE))
        gated = inner.valid(condition(rng).logical_not())
        gated = condition(rng).where(gated, UOp.const(INVALID)) if rng.random() < 0.5 else gated
        before = p.index(gated)
        after = graph_rewrite(before, symbolic)
        for _ in range(8):
            machine = Machine(memories(rng, before), environment(rng))
            flat = index_of(machine, gated)
            expected = 0 if flat is None else machine.states[p][flat]
            assert same(machine.value(after), np.float32(expected)), (before, after)


def index_of(machine, u):
    """Where an index points: None for nowhere."""
    while u.op is Ops.WHERE:
        u = u.src[1] if machine.value(u.src[0]) else u.src[2]
    return None if u.arg is INVALID else int(machine.value(u))


# ** reductions **


def reduce_unparented(rng):
    dtype = rng.choice(VALUES)
    r, s = REDUCED
    value = rng.choice((x(rng, dtype), memory(50, dtype).index(s), in_range(rng, dtype)))
    return value.reduce(rng.choice((Ops.ADD, Ops.MAX)), *rng.choice(((r,), (r, s), (s, r))))


def reduce_collapse(rng):
    """A masked sum: the condition names one element, or bounds the loop."""
    r, s = REDUCED
    dtype = rng.choice(VALUES)
    pick = rng.random() < 0.5
    conditions = [position(rng, r) if pick else bound_on(rng, r)]
    if rng.random() < 0.5:
        conditions.append(rng.choice((bound_on(rng, r), bound(rng), x(rng, dtypes.bool))))
    value = rng.choice((x(rng, dtype), memory(51, dtype).index(s + 1)))
    if pick:
        value = rng.choice((value, memory(51, dtype).index(r * 2 + LOOPS[1])))
    if dtype in INTS and rng.random() < 0.3:
        value = UOp.const(1, dtype)
    mask = conjunction(conditions)
    zero = value.const_like(0)
    masked = mask.where(value, zero) if rng.random() < 0.8 else mask.logical_not().where(zero, value)
    return masked.reduce(Ops.ADD, *rng.choice(((r,), (r, s))))


def position(rng, r):
    """A condition that says which element it is."""
    dtype = rng.choice((dtypes.index, dtypes.int32, dtypes.uint8, dtypes.int8))
    there = index(rng) if dtype is dtypes.index else x(rng, dtype)
    here = rng.choice((r, r + LOOPS[0], LOOPS[1] - r, r + 2))
    same_place = either(rng, Ops.CMPEQ, here.cast(dtype), there)
    return same_place if rng.random() < 0.7 else either(rng, Ops.CMPNE, here.cast(dtype), there).logical_not()


def bound_on(rng, r):
    u = rng.choice((r, r + LOOPS[2], LOOPS[2] - r, r + LOOPS[1] * 2, VARIABLE - r))
    found = rng.choice((less, at_least))(u, rng.randint(-4, 9))
    return found if r in found.ranges else less(r, 3)


REDUCES = {"reduce_unparented": reduce_unparented, "reduce_collapse": reduce_collapse}


def assert_same_sum(rng, before, after):
    """A sum may be added up in another order, and starts from 0.0: what is left of it may be -0.0."""
    assert_same_value(rng, before, after, close=True, tries=6, floats=SUMMED)


def test_every_reduce_rule_has_a_generator():
    assert sorted(REDUCES) == sorted(r.name for r in pm_reduce_simplify)


@pytest.mark.parametrize("rule", pm_reduce_simplify.rules, ids=lambda r: r.name)
def test_reduce_rule(rule):
    check_rule(rule, REDUCES[rule.name], verify=assert_same_sum, tries=200)


@pytest.mark.parametrize("rule", pm_reduce_simplify.rules, ids=lambda r: r.name)
def test_reduce_rules_together_with_symbolic(rule):
    for seed in range(150):
        rng = random.Random(seed)
        before = REDUCES[rule.name](rng)
        assert_same_sum(rng, before, graph_rewrite(before, symbolic + pm_reduce_simplify))


def test_a_sum_over_more_than_float16_can_count():
    """The size of the loop is no float16: 0 * inf would be NaN."""
    zero = memory(0, dtypes.float16).index(UOp.const(0))
    total = zero.reduce(Ops.ADD, UOp.range(70_000, 0, AxisType.REDUCE))
    after = graph_rewrite(total, symbolic + pm_reduce_simplify)
    assert Machine({zero.src[0]: np.zeros(SIZE, np.float16)}).value(after) == 0


def test_a_count_of_none_takes_nothing_of_an_infinite_value():
    r = REDUCED[0]
    value = memory(0, dtypes.float32).index(LOOPS[2])
    total = less(r - LOOPS[2], 0).where(value, 0).reduce(Ops.ADD, r)
    after = graph_rewrite(total, symbolic + pm_reduce_simplify)
    assert not any(u.op is Ops.REDUCE for u in after.toposort())
    machine = Machine({value.src[0]: np.full(SIZE, np.inf, np.float32)}, {LOOPS[2]: 0})
    assert machine.value(after) == 0


def test_a_position_that_wraps_around_is_none():
    """In int8 the positions 0 and 256 are the same number."""
    r = UOp.range(300, 8, AxisType.REDUCE)
    value, there = memory(0, dtypes.int32, 300).index(r), memory(1, dtypes.int8).index(UOp.const(0))
    total = r.cast(dtypes.int8).eq(there).where(value, 0).reduce(Ops.ADD, r)
    after = graph_rewrite(total, symbolic + pm_reduce_simplify)
    machine = Machine({value.src[0]: np.arange(300, dtype=np.int32), there.src[0]: np.full(SIZE, 3, np.int8)})
    assert machine.value(after) == machine.value(total) == 3 + 259


# ** candidate buffers **


def stage(value, *loops, **opts):
    return UOp(Ops.STAGE, value.dtype, (value, *loops), BufferizeOpts("NUMPY", **opts))


def written(target, at, value, *loops):
    """``target`` after one write."""
    return target.after(target.index(at).store(value).end(*loops))


def some_value(rng, *loops):
    """A value over some loops, that reads memory (but not that of slot 0)."""
    r = sum((u * (i + 1) for i, u in enumerate(loops)), start=UOp.const(0))
    p = memory(1, dtypes.float32, 24)
    return rng.choice((p.index(r) + 1.0, p.index(r).alu(Ops.NEG), p.index(r) * memory(2, dtypes.float32, 24).index(r)))


def remove_bufferize(rng):
    a, b, (i, j) = UOp.range(2, 20), UOp.range(3, 21), LOOPS[:2]
    st = stage(some_value(rng, a, b), a, b)
    gate = rng.choice((TRUE, less(LOOPS[2], 3)))
    return st.index(i.valid(gate), rng.choice((j, UOp.const(1), j * -1 + 2)))


def stage_const(rng):
    a = UOp.range(3, 20)
    return stage(constant(rng, rng.choice(VALUES)), a).index(LOOPS[1])


def cleanup_dead_axes(rng):
    a, b = UOp.range(2, 20), UOp.range(3, 21)
    value = some_value(rng, rng.choice((a, b)))
    axes = rng.choice(((a, b), (a, UOp.const(0), b)))
    at = [LOOPS[0] if r is a else LOOPS[1] if r is b else UOp.const(0) for r in axes]
    return stage(value, *axes).index(*at)


def fix_store_hazard(rng):
    """A write of what reads the same memory: elsewhere, at the very element, or at others."""
    r, a = LOOPS[2], UOp.range(7, 20)
    p = memory(0, dtypes.float32, 24)
    here = rng.choice((lambda u: u, lambda u: u + 3, lambda u: u * 2))
    there = rng.choice((here, here, lambda u: u + 14 if here(r).vmax < 14 else u * -1 + 6, lambda u: u * -1 + 6))
    value = p.index(there(a)) * 2.0 + memory(1, dtypes.float32, 24).index(a)
    st = stage(value, a, hazard=True, sole=rng.random() < 0.5)
    return written(p, here(r), st.index(r), r)


def store_to_itself(rng):
    r = LOOPS[2]
    p = memory(0, dtypes.float32, 24)
    return written(p, r * 2, p.index(r * 2), r)


NOTHING = UOp(Ops.NOOP, dtypes.void)


def end_noop(rng):
    return memory(0, dtypes.float32).after(NOTHING.end(*rng.sample(LOOPS, 2)))


def after_noop(rng):
    r, p, nothing = LOOPS[0], memory(0, dtypes.float32), NOTHING
    done = p.index(r).store(UOp.const(1.0, dtypes.float32)).end(r)
    return rng.choice((p.after(nothing), p.after(done, nothing), p.after(nothing, done)))


VALUE_STAGES = {
    "stage_const": stage_const, "cleanup_dead_axes": cleanup_dead_axes, "remove_bufferize": remove_bufferize,
}  # fmt: skip


def limit_bufs(rng):
    """A value of four buffers, or of four reductions that read one each."""
    reads = [memory(i, dtypes.int32, 24).index(LOOPS[0] * 3 + LOOPS[1]) for i in range(4)]
    if rng.random() < 0.3:
        reads = [
            memory(i, dtypes.int32, 24).index(REDUCED[0] * 3 + LOOPS[1]).reduce(Ops.ADD, REDUCED[0]) for i in range(4)
        ]
    a, b, c, d = rng.sample(reads, 4)
    return rng.choice(((a + b) * (c + d), (a < b).where(c * 2, d + 1), (a * b + c).maximum(d)))


def promote_partial(rng):
    """A candidate buffer within a loop that its value depends on."""
    i, j, b = LOOPS[0], LOOPS[1], UOp.range(3, 21)
    inner = memory(1, dtypes.float32, 24).index(i * 3 + b) + 1.0
    value = rng.choice((inner, inner * memory(2, dtypes.float32, 24).index(i + LOOPS[2])))
    return stage(value, b, addrspace=LOCAL).index(rng.choice((j, j * -1 + 2, UOp.const(1))))


def test_a_cut_at_the_buffer_limit_keeps_the_value():
    assert [r.name for r in pm_limit_bufs] == ["limit_bufs"]
    check_rule(pm_limit_bufs.rules[0], limit_bufs, ctx=lambda: LimitContext(4, itertools.count(100)))


def test_a_promoted_buffer_keeps_the_value():
    assert [r.name for r in pm_promote_partial] == ["promote_partial"]

    def verify(rng, before, after):
        assert after.src[0].arg.addrspace == GLOBAL and not after.src[0].ranges
        assert_same_value(rng, before, after)

    check_rule(
        pm_promote_partial.rules[0], promote_partial, ctx=lambda: PromoteContext(itertools.count(100)), verify=verify
    )


WRITES = {
    "fix_store_hazard": (fix_store_hazard, Ops.STORE), "store_to_itself": (store_to_itself, Ops.STORE),
    "end_noop": (end_noop, Ops.END), "after_nothing": (after_noop, Ops.AFTER),
}  # fmt: skip


def test_every_buffer_rule_has_a_generator():
    assert sorted((*VALUE_STAGES, *WRITES)) == sorted(r.name for r in pm_remove_bufferize)


@pytest.mark.parametrize("name", VALUE_STAGES)
def test_buffer_rule(name):
    def verify(rng, before, after):
        """What is read at an index that is not valid is masked by who reads it, so it may be anything."""
        valid = conjunction(i.get_valid() for i in before.src[1:])
        assert_same_value(rng, valid.where(before, before.const_like(0)), valid.where(after, after.const_like(0)))

    check_rule(sides(name, pm_remove_bufferize), VALUE_STAGES[name], ctx=forced, verify=verify)


def forced():
    return SimplifyContext(AllLegal())


def state_of(rng, root):
    memory_ = memories(rng, root)
    return Machine(memory_, environment(rng)).state(root)


@pytest.mark.parametrize("name", WRITES)
def test_write_rule(name):
    generate, op = WRITES[name]
    rule = sides(name, pm_remove_bufferize)
    applied = 0
    for seed in range(60):
        root = generate(random.Random(seed))
        node = next(u for u in reversed(root.toposort()) if u.op is op)
        after = rule.apply(node, forced())
        if after is not None:
            applied += 1
            new = root.substitute({node: after})
            assert same(state_of(random.Random(seed), root), state_of(random.Random(seed), new)), graph_text(root)
    assert applied >= 12


def test_a_write_that_would_read_what_it_overwrote_keeps_its_buffer():
    """Read backwards, the second half of the loop would see what the first wrote."""
    r, a, p = LOOPS[2], UOp.range(7, 20), memory(0, dtypes.float32, 24)
    rule = sides("fix_store_hazard", pm_remove_bufferize)
    for there, safe in ((a * -1 + 6, False), (a + 1, False), (a, True), (a + 7, True)):
        st = stage(p.index(there), a, hazard=True, sole=True)
        store = p.index(r).store(st.index(r))
        assert (rule.apply(store, SimplifyContext()) is not None) == safe, there


def test_buffers_that_must_stay():
    a, value = UOp.range(3, 20), memory(1, dtypes.float32).index(UOp.range(3, 20)) + 1.0
    rule = sides("remove_bufferize", pm_remove_bufferize)
    at = LOOPS[1]
    assert rule.apply(stage(value, a, removable=False).index(at), SimplifyContext(AllLegal())) is None
    assert rule.apply(stage(value, a, hazard=True).index(at), SimplifyContext(AllLegal())) is None
    assert rule.apply(stage(value, a).index(at), SimplifyContext(Eager())) is None
    assert rule.apply(stage(value, a, override="fuse").index(at), SimplifyContext(Eager())) is not None
    assert rule.apply(stage(value, a).index(at), SimplifyContext()) is not None


# ** prepare **


def tensor(rng, *shape, dtype=dtypes.float32, slot=0):
    return memory(slot, dtype, prod(shape)).reshape(shape)


def reshape(u, shape):
    return UOp(Ops.RESHAPE, u.dtype, (u,), shape)


def reduce_of_nothing(rng):
    dtype, op = rng.choice(VALUES), rng.choice((Ops.ADD, Ops.MUL, Ops.MAX))
    u = tensor(rng, 2, 3, dtype=dtype).shrink(((1, 1), (0, 3)))
    return rng.choice((u, u.permute((1, 0)), u.expand_leading((2,)))).rop(op, (rng.choice((0, 1)),))


def empty_value(rng):
    u = tensor(rng, 2, 3, dtype=rng.choice(VALUES)).shrink(((1, 1), (0, 3)))
    return rng.choice(
        (u, u + u, u.permute((1, 0)), u.contiguous(), UOp(Ops.STACK, u.dtype, (u, u)), u.cast(dtypes.int8))
    )


def whole(p, value):
    return p.after(p.store(value))


def store_twice(rng):
    p, value = memory(0, dtypes.float32, 6), UOp.const(2.0, dtypes.float32)
    cut = rng.choice((lambda u: u, lambda u: u.shrink(((1, 4),)), lambda u: u.reshape((2, 3)).flip((True, False))))
    first = p.after(cut(p).store(value))
    return first.after(cut(first).store(value))


def bitcast_target(rng):
    p = memory(0, dtypes.int32, 6)
    return p.after(p.bitcast(dtypes.float32).store(memory(1, dtypes.float32, 6) * 2.0))


def empty_store(rng):
    p = memory(0, dtypes.float32, 6)
    return p.after(p.shrink(((2, 2),)).store(memory(1, dtypes.float32, 6).shrink(((2, 2),))))


def after_nothing(rng):
    p, nothing = memory(0, dtypes.float32, 6), NOTHING
    done = p.store(UOp.const(2.0, dtypes.float32))
    return rng.choice((p.after(nothing), p.after(done, nothing)))


def large_reduce(rng):
    op = rng.choice((Ops.ADD, Ops.MAX))
    u = tensor(rng, *rng.choice(((48, 2), (3, 64), (2, 40, 3), (100,))), dtype=rng.choice((dtypes.int32, dtypes.uint8)))
    return (u + 1).rop(op, rng.choice(((0,), (u.ndim - 1,), tuple(range(u.ndim)))))


PREPARE = {
    "merge_reshapes": lambda rng: reshape(reshape(tensor(rng, 2, 6), rng.choice(((3, 4), (12,)))), (4, 3)),
    "noop_reshape": lambda rng: reshape(tensor(rng, 2, 6), (2, 6)),
    "merge_permutes": lambda rng: tensor(rng, 2, 3, 4).permute(rng.choice(((1, 2, 0), (2, 1, 0)))).permute((1, 0, 2)),
    "drop_hints": lambda rng: UOp(rng.choice((Ops.DETACH, Ops.CONTIGUOUS_BACKWARD)), dtypes.float32, (tensor(rng, 6),)),
    "contiguous_twice": lambda rng: tensor(rng, 6).contiguous().contiguous(),
    "contiguous_constant": lambda rng: UOp.const(2.0, dtypes.float32).expand_leading((rng.randint(1, 4), 3)).contiguous(),
    "reduce_of_nothing": reduce_of_nothing,
    "empty_value": empty_value,
    "split_reduceop": large_reduce,
}  # fmt: skip
PREPARE_WRITES = {
    "empty_store": (empty_store, Ops.STORE), "after_nothing": (after_nothing, Ops.AFTER),
    "store_twice": (store_twice, Ops.AFTER), "bitcast_target": (bitcast_target, Ops.STORE),
}  # fmt: skip


def test_every_prepare_rule_has_a_generator():
    assert sorted((*PREPARE, *PREPARE_WRITES)) == sorted(r.name for r in earliest_rewrites)


@pytest.mark.parametrize("name", PREPARE)
def test_prepare_rule(name):
    def verify(rng, before, after):
        assert before.shape == after.shape
        assert_same_value(rng, before, after, tries=2)

    with Context(REDUCEOP_SPLIT_THRESHOLD=16):
        check_rule(sides(name, earliest_rewrites), PREPARE[name], verify=verify, tries=40)


@pytest.mark.parametrize("name", PREPARE_WRITES)
def test_prepare_write_rule(name):
    generate, op = PREPARE_WRITES[name]
    rule = sides(name, earliest_rewrites)
    for seed in range(20):
        root = generate(random.Random(seed))
        node = next(u for u in reversed(root.toposort()) if u.op is op)
        after = rule.apply(node)
        assert after is not None
        new = root.substitute({node: after})
        assert same(state_of(random.Random(seed), root), state_of(random.Random(seed), new)), graph_text(root)


def test_different_stores_stay():
    p, value = memory(0, dtypes.float32, 6), UOp.const(2.0, dtypes.float32)
    first = p.after(p.shrink(((0, 3),)).store(value))
    for second in (first.shrink(((1, 4),)).store(value), first.shrink(((0, 3),)).store(value + 1)):
        assert sides("store_twice", earliest_rewrites).apply(first.after(second)) is None


# ** tensor ops written with loops **


def applied(rng, value):
    """A tensor value as it is written into memory."""
    out = memory(90, value.dtype, prod(value.shape))
    return out.after(out.reshape(value.shape).store(value))


def apply_store(rng):
    out, value = memory(90, dtypes.float32, 12), tensor(rng, 2, 3) + 1.0
    view = rng.choice((
        out.shrink(((3, 9),)).reshape((2, 3)), out.reshape((3, 4)).shrink(((0, 3), (1, 3))).permute((1, 0)),
        out.reshape((4, 3)).shrink(((1, 3), (0, 3))).flip((True, False))))  # fmt: skip
    return out.after(view.store(value))


def apply_after(rng):
    out = memory(90, dtypes.float32, 6)
    first = out.after(out.reshape((2, 3)).store(tensor(rng, 2, 3) * 2.0))
    return first.after(first.shrink(((1, 4),)).store(first.shrink(((2, 5),)) + 1.0))


APPLY = {
    "apply_reduce": lambda rng: applied(
        rng, (tensor(rng, 2, 3, 4, dtype=rng.choice((dtypes.int32, dtypes.uint8))) + 1).rop(
            rng.choice((Ops.ADD, Ops.MAX, Ops.MUL)), rng.choice(((0,), (1, 2), (0, 1, 2))))),
    "apply_pad": lambda rng: applied(
        rng, (tensor(rng, 2, 3).alu(rng.choice((Ops.EXP2, Ops.RECIPROCAL))) + 1.0).pad(((1, 0), (0, 2)))),
    "apply_stack": lambda rng: applied(
        rng, UOp(Ops.STACK, dtypes.float32, tuple(tensor(rng, 2, 3, slot=i) * 2.0 for i in range(rng.randint(1, 4))))),
    "apply_movement": lambda rng: applied(
        rng, rng.choice((
            lambda u: u.permute((1, 0)), lambda u: u.reshape((3, 2)), lambda u: u.flip((True, True)),
            lambda u: u.shrink(((0, 1), (1, 3))), lambda u: u.expand_leading((2,)),
        ))(tensor(rng, 2, 3) + 1.0)),
    "apply_elementwise": lambda rng: applied(
        rng, rng.choice((
            tensor(rng, 2, 3) + tensor(rng, 1, 3, slot=1), tensor(rng, 2, 3) * tensor(rng, 2, 1, slot=1),
            tensor(rng, 2, 3).cast(dtypes.float16), tensor(rng, 2, 3).bitcast(dtypes.int32),
            (tensor(rng, 3) < tensor(rng, 2, 3)).where(tensor(rng, 2, 1, slot=1), UOp.const(1.0, dtypes.float32))))),
    "apply_contiguous": lambda rng: applied(rng, (tensor(rng, 2, 3) + 1.0).contiguous().permute((1, 0)) * 2.0),
    "apply_copy": lambda rng: applied(rng, UOp(Ops.COPY, dtypes.float32, (tensor(rng, 2, 3) + 1.0,), "NUMPY:1") * 2.0),
    "apply_store": apply_store,
    "apply_after": apply_after,
    "apply_other": lambda rng: applied(rng, tensor(rng, 2, 3) + UOp.const(1.0, dtypes.float32)),
}  # fmt: skip


def test_every_apply_rule_has_a_generator():
    assert sorted((*APPLY, "apply_call")) == sorted(r.name for r in pm_apply_rangeify)


def test_apply_call():
    """The arguments of a function that is called are memory: states, views of them, and values that are stored first."""
    out, rng = memory(90, dtypes.float32, 6), random.Random(0)
    before = tensor(rng, 2, 3)
    written_ = whole(before.base, UOp.const(2.0, dtypes.float32))
    value = (tensor(rng, 2, 3, slot=1) + 1.0).contiguous()
    body = UOp(Ops.FUNCTION, dtypes.void, (), "f")
    sink = UOp.sink(out.after(body.call(out, written_.reshape((2, 3)), value)))
    call = apply_rangeify(sink, run_rangeify(sink), {}).src[0].src[1]
    function, target, state, staged = call.src
    assert (function, target, state.op, staged.op) == (body, out, Ops.RESHAPE, Ops.STAGE) and state.src[
        0
    ].op is Ops.AFTER
    assert state.src[0].src[1].op is Ops.END and staged.shape == (2, 3)
    values = memories(rng, sink)
    for i, j in np.ndindex(2, 3):
        element = Machine(values).value(staged.index(UOp.const(i), UOp.const(j)))
        assert same(element, Machine(values).value(value)[i, j])


@pytest.mark.parametrize("rule", [r for r in pm_apply_rangeify if r.name in APPLY], ids=lambda r: r.name)
def test_apply_rule(rule):
    for seed in range(25):
        before = APPLY[rule.name](random.Random(seed))
        sink = UOp.sink(before)
        assert any(u.op in rule.ops for u in sink.toposort()), "its generator does not trigger it"
        after = apply_rangeify(sink, run_rangeify(sink), {}).src[0]
        assert not any(u.op in GroupOp.Movement | {Ops.STACK} for u in after.toposort())
        values = memories(random.Random(seed), before)
        assert same(Machine(values).state(before), Machine(values).state(after)), graph_text(before)


def test_the_first_rule_that_names_an_op_applies_to_it():
    for op in GroupOp.Movement | GroupOp.Elementwise | {Ops.REDUCE, Ops.STACK, Ops.CONTIGUOUS, Ops.STORE, Ops.AFTER}:
        assert next(r.name for r in pm_apply_rangeify if op in r.ops) != "apply_other", op
    assert Ops.PARAM in MEMORY


TABLES = (symbolic, pm_reduce_simplify, pm_remove_bufferize, earliest_rewrites, pm_apply_rangeify)


@pytest.mark.parametrize("table", TABLES)
def test_rules_say_what_they_do(table):
    assert len({r.name for r in table}) == len(list(table)), "names are unique"
    for r in table:
        assert "->" in r.doc or r.name == "apply_other", f"{r.name}: {r.doc}"
