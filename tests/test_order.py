"""create_schedule: random programs run in any order it allows give what they give in program order; networkx judges."""

import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinysched.dtypes import dtypes
from tinysched.errors import ScheduleError
from tinysched.ir.decision import Cost, Reason
from tinysched.ir.lines import Line, add_line
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.accesses import EVERYTHING, accesses, written_slots
from tinysched.schedule.order import Edge, create_schedule
from tinysched.schedule.policy import (
    AllLegal,
    BreadthFirst,
    Eager,
    Live,
    MemoryAware,
    Policies,
    Ready,
    Upstream,
    ask_fusion,
)

ROOT = Path(__file__).parents[1]
SIZE = 8


@dataclass(frozen=True)
class Info:
    name: str


class Notes:
    """An observer that keeps the order's edges."""

    def __init__(self):
        self.edges: list[Edge] = []

    def on_event(self, kind, data):
        if kind == "order":
            self.edges = data["edges"]

    def on_replace(self, before, after): ...


@dataclass(frozen=True)
class LastIn:
    """Unlike both built-in policies: the kernel that became ready last."""

    def pick(self, ready: Sequence[Ready], live: Live) -> int:
        return len(ready) - 1


@dataclass(frozen=True)
class Shuffled:
    seed: int

    def pick(self, ready: Sequence[Ready], live: Live) -> int:
        return (self.seed * 7919 + len(ready) * 31 + len(live.left)) % len(ready)


POLICIES = (BreadthFirst(), MemoryAware(), LastIn(), Shuffled(3), Shuffled(11))


def buffer(size=SIZE):
    return UOp.new_buffer("NUMPY", size, dtypes.int32)


def param(slot, size=SIZE, device="NUMPY"):
    return UOp(Ops.PARAM, dtypes.int32, (), ParamArg(slot, size, device))


@dataclass(frozen=True)
class Part:
    """Elements start .. start+n of buffer ``which`` (a number in the program)."""

    which: int
    start: int
    n: int

    @property
    def elements(self):
        return {(self.which, i) for i in range(self.start, self.start + self.n)}


@dataclass(frozen=True)
class Kernel:
    """Writes to each part a number that depends on the kernel, the element and the sum of all parts it reads."""

    number: int
    writes: tuple[Part, ...]
    reads: tuple[Part, ...]

    @property
    def name(self):
        return f"k{self.number}"

    def slots(self):
        """Program buffers in the order of the CALL's arguments."""
        return list(dict.fromkeys(p.which for p in self.writes + self.reads))

    def body(self, size=SIZE):
        slots = {which: i for i, which in enumerate(self.slots())}
        total = UOp.const(self.number, dtypes.int32)
        for i, p in enumerate(self.reads):
            r = UOp.range(p.n, 10 + i)
            load = UOp(Ops.LOAD, dtypes.int32, (param(slots[p.which], size, None).index(r + p.start),))
            total = total + load.reduce(Ops.ADD, r)
        stores = []
        for i, p in enumerate(self.writes):
            r = UOp.range(p.n, i)
            stores.append(param(slots[p.which], size, None).index(r + p.start).store(total).end(r))
        return UOp.sink(*stores, arg=Info(self.name))

    def run(self, memory: list[list[int]]):
        total = self.number * 1_000_003
        for p in self.reads:
            for i in range(p.start, p.start + p.n):
                total = (total * 31 + memory[p.which][i]) % 2_147_483_647
        for p in self.writes:
            for i in range(p.start, p.start + p.n):
                memory[p.which][i] = total + i


@dataclass
class Program:
    """Kernels in program order, and the graph of states they make."""

    kernels: list[Kernel]
    memory: list[UOp]
    states: dict[int, UOp] = field(default_factory=dict)

    def graph(self, roots: Sequence[int] = ()):
        now = dict(enumerate(self.memory))
        for k in self.kernels:
            call = k.body().call(*(now[w] for w in k.slots()))
            for w in dict.fromkeys(p.which for p in k.writes):
                now[w] = now[w].after(call)
        self.states = now
        return UOp.sink(*(now[i] for i in (roots or range(len(self.memory))) if now[i].op is Ops.AFTER))

    def run(self, kernels: Sequence[Kernel]):
        memory = [[100 * b + i for i in range(SIZE)] for b in range(len(self.memory))]
        for k in kernels:
            k.run(memory)
        return memory

    def of(self, linear: UOp) -> list[Kernel]:
        """The LINEAR's kernels; their arguments must be the plain memory that the program means."""
        by_name = {k.name: k for k in self.kernels}
        found = [by_name[call.src[0].arg.name] for call in linear.src]
        for call, k in zip(linear.src, found, strict=True):
            assert list(call.src[1:]) == [self.memory[w] for w in k.slots()]
        return found


@st.composite
def programs(draw):
    n_buffers = draw(st.integers(1, 4))
    memory = [param(i) if draw(st.booleans()) else buffer() for i in range(n_buffers)]

    def part():
        start = draw(st.integers(0, SIZE - 1))
        return Part(draw(st.integers(0, n_buffers - 1)), start, draw(st.integers(1, SIZE - start)))

    kernels = []
    for number in range(draw(st.integers(1, 9))):
        writes = [part() for _ in range(draw(st.integers(1, 2)))]
        writes = list({p.which: p for p in writes}.values())
        reads = [part() for _ in range(draw(st.integers(0, 3)))]
        kernels.append(Kernel(number, tuple(writes), tuple(reads)))
    return Program(kernels, memory), draw(st.permutations(range(n_buffers)))


def conflicts(a: Kernel, b: Kernel) -> bool:
    """Whether two kernels may not change places: one writes an element that the other touches."""
    write_a, write_b = (set().union(*(p.elements for p in k.writes)) for k in (a, b))
    read_a, read_b = (set().union(*(p.elements for p in k.reads)) for k in (a, b))
    return bool(write_a & (read_b | write_b) or write_b & read_a)


def order_of(sink, policy=None):
    notes = Notes()
    with watching(notes):
        linear = create_schedule(sink, policy or BreadthFirst())
    return linear, notes.edges


def names(linear):
    return [call.src[0].arg.name for call in linear.src]


# ** random programs **


@given(programs(), st.sampled_from(POLICIES))
def test_any_allowed_order_gives_the_values_of_program_order(case, policy):
    program, roots = case
    linear, edges = order_of(program.graph(roots), policy)
    order = program.of(linear)
    assert sorted(k.number for k in order) == list(range(len(program.kernels)))
    assert program.run(order) == program.run(program.kernels)
    assert all(e.before < e.after for e in edges)


@given(programs())
def test_every_conflict_is_ordered_by_the_edges_and_networkx_agrees(case):
    program, roots = case
    linear, edges = order_of(program.graph(roots))
    order = program.of(linear)
    graph = nx.DiGraph([(e.before, e.after) for e in edges])
    graph.add_nodes_from(range(len(order)))
    assert nx.is_directed_acyclic_graph(graph)
    closure = nx.transitive_closure_dag(graph)
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            if a.number < b.number and conflicts(a, b):
                assert closure.has_edge(i, j), (a, b, edges)


def hull(parts, which) -> set[int]:
    """From the first element of a buffer that is touched to the last."""
    found = {i for p in parts for b, i in p.elements if b == which}
    return set(range(min(found), max(found) + 1)) if found else set()


@given(programs())
def test_edges_say_what_is_so(case):
    program, roots = case
    linear, edges = order_of(program.graph(roots))
    order = program.of(linear)
    for e in edges:
        a, b = order[e.before], order[e.after]
        which = program.memory.index(e.buffer)
        used_by_b = which in b.slots()
        if e.kind == "RAW":
            assert used_by_b and which in {p.which for p in a.writes}
        else:
            assert e.kind == "WAR"
            assert hull(a.reads, which) & hull(b.writes, which)


# ** by hand **


def kernel(name, writes=(0,), reads=(), start=0, n=SIZE, read_start=None):
    """A kernel whose slots are given directly."""
    at = start if read_start is None else read_start
    total = UOp.const(1, dtypes.int32)
    r = UOp.range(n, 0)
    for slot in reads:
        total = total + UOp(Ops.LOAD, dtypes.int32, (param(slot, device=None).index(r + at),))
    stores = [param(slot, device=None).index(r + start).store(total).end(r) for slot in writes]
    return UOp.sink(*stores, arg=Info(name))


def test_read_between_two_writes():
    b, x = buffer(), buffer()
    one = b.after(kernel("w1").call(b))
    read = x.after(kernel("r", reads=(1,)).call(x, one))
    two = one.after(kernel("w2").call(one))
    linear, edges = order_of(UOp.sink(two, read))
    assert names(linear) == ["w1", "r", "w2"]
    assert {(e.before, e.after, e.kind) for e in edges} == {(0, 1, "RAW"), (1, 2, "WAR"), (0, 2, "RAW")}
    assert all(e.buffer is b for e in edges)


def test_a_swap_by_way_of_memory_of_its_own():
    a, b, t = param(0), param(1), buffer()
    kept = t.after(kernel("keep", reads=(1,)).call(t, a))
    new_a = a.after(kernel("a", reads=(1,)).call(a, b))
    new_b = b.after(kernel("b", reads=(1,)).call(b, kept))
    for roots in ((new_a, new_b), (new_b, new_a)):
        assert names(create_schedule(UOp.sink(*roots))) == ["keep", "a", "b"]


def test_diamond_of_reads_and_writes():
    b, x, y = param(0), buffer(), buffer()
    times = x.after(kernel("times", reads=(1,)).call(x, b))
    new = b.after(kernel("set").call(b))
    out = y.after(kernel("sum", reads=(1, 2)).call(y, times, new))
    assert names(create_schedule(UOp.sink(out))) == ["times", "set", "sum"]


def test_disjoint_bytes_make_no_edge():
    b, x = param(0), buffer()
    read = x.after(kernel("read", reads=(1,), n=4).call(x, b))
    high = b.after(kernel("high", start=4, n=4).call(b))
    all_of_it = high.after(kernel("all").call(high))
    linear, edges = order_of(UOp.sink(all_of_it, read))
    found = {(names(linear)[e.before], names(linear)[e.after], e.kind) for e in edges}
    assert found == {("high", "all", "RAW"), ("read", "all", "WAR")}


def test_argument_views_and_the_same_state_twice():
    b, x = buffer(), buffer()
    one = b.after(kernel("w").call(b.reshape((2, 4))))
    call = kernel("r", reads=(1, 2)).call(x, one.reshape((4, 2)), one.bitcast(dtypes.uint32))
    linear, edges = order_of(UOp.sink(x.after(call)))
    assert linear.src[1].src[1:] == (x, b, b)
    assert len(edges) == 1


def test_two_params_of_one_slot_are_the_same_memory():
    whole, half, x = param(0, 8), param(0, 4), buffer()
    read = x.after(kernel("read", reads=(1,), n=4).call(x, half))
    new = whole.after(kernel("write").call(whole))
    linear = create_schedule(UOp.sink(new, read))
    assert names(linear) == ["read", "write"]
    assert linear.src[0].src[2] is half


def test_an_output_that_nobody_reads_is_still_written():
    x, y, p = buffer(), buffer(), param(0)
    old = y.after(kernel("reads old", reads=(1,)).call(y, p))
    both = x.after(kernel("both", writes=(0, 1)).call(x, p))
    assert names(create_schedule(UOp.sink(both, old))) == ["reads old", "both"]


def test_afters_that_only_order():
    x, y, z = buffer(), buffer(), buffer()
    first = x.after(kernel("first").call(x))
    second = y.after(kernel("second").call(y), first)
    waiting = UOp(Ops.AFTER, z.dtype, (z, second))
    third = z.after(kernel("third", reads=(0,)).call(waiting))
    for policy in POLICIES:
        assert names(create_schedule(UOp.sink(third, second, first), policy)) == ["first", "second", "third"]


def test_states_chain_even_where_a_kernel_names_an_older_one():
    b = param(0)
    one = b.after(kernel("w1").call(b))
    two = one.after(kernel("w2", n=4).call(b))
    for policy in POLICIES:
        assert names(create_schedule(UOp.sink(two), policy)) == ["w1", "w2"]


def test_what_overwrites_its_own_reads_needs_no_edge_to_what_follows():
    b = param(0)
    for i in range(3):
        b = b.after(kernel(f"add{i}", reads=(0,)).call(b))
    _, edges = order_of(UOp.sink(b))
    assert [(e.before, e.after, e.kind) for e in edges] == [(0, 1, "RAW"), (1, 2, "RAW")]


def test_kernels_that_make_one_state_together():
    b = buffer()
    parts = [kernel(f"p{i}", start=2 * i, n=2).call(b) for i in (3, 1, 0, 2)]
    linear, edges = order_of(UOp.sink(b.after(*parts)))
    assert names(linear) == ["p3", "p1", "p0", "p2"] and not edges
    linear, edges = order_of(UOp.sink(b.after(kernel("a").call(b), kernel("b").call(b))), LastIn())
    assert names(linear) == ["a", "b"] and [e.kind for e in edges] == ["WAW"]


def test_copies_and_variables_as_arguments():
    src, dst, out = param(0), UOp.new_buffer("NUMPY:1", SIZE, dtypes.int32), buffer()
    copy = UOp(Ops.COPY, dtypes.int32, (param(1, device=None),), "NUMPY:1")
    v = UOp.variable("v", 1, 4)
    copied = dst.after(copy.call(dst, src))
    later = src.after(kernel("overwrite").call(src))
    used = out.after(kernel("use", reads=(1,)).call(out, copied, v))
    linear = create_schedule(UOp.sink(later, used))
    assert [call.src[0].op for call in linear.src] == [Ops.COPY, Ops.SINK, Ops.SINK]
    assert next(c for c in linear.src if c.src[0].arg == Info("use")).src[3] is v


def test_breadth_first_is_the_queue():
    x = [buffer() for _ in range(5)]
    a = x[0].after(kernel("a").call(x[0]))
    b = x[1].after(kernel("b", reads=(1,)).call(x[1], a))
    c = x[2].after(kernel("c").call(x[2]))
    d = x[3].after(kernel("d", reads=(1,)).call(x[3], b))
    e = x[4].after(kernel("e", reads=(1, 2)).call(x[4], d, c))
    assert names(create_schedule(UOp.sink(e))) == ["a", "c", "b", "d", "e"]


def test_memory_aware_finishes_what_it_began():
    """Large temporaries, each read by one small kernel: breadth first has all of them alive at once."""
    outs = []
    for i in range(6):
        big, small = buffer(10_000), buffer(1)
        made = big.after(kernel(f"make{i}").call(big))
        outs.append(small.after(kernel(f"use{i}", reads=(1,)).call(small, made)))
    sink = UOp.sink(*outs)
    assert names(create_schedule(sink))[:6] == [f"make{i}" for i in range(6)]
    assert names(create_schedule(sink, MemoryAware())) == [f"{what}{i}" for i in range(6) for what in ("make", "use")]


def test_live_counts_bytes():
    big, small = buffer(1000), buffer(1)
    live = Live([[big], [small, big]])
    first, second = Ready(0, "a", (big,)), Ready(1, "b", (small, big))
    assert live.growth(first) == 4096
    live.run(first)
    assert live.nbytes == 4096 and live.growth(second) == -4096
    live.run(second)
    assert live.nbytes == 0


def test_nothing_to_do():
    assert create_schedule(UOp.sink(buffer())).src == ()


def test_fusion_policies():
    stage, scalar, wide = buffer(), buffer(1), [buffer() for _ in range(4)]
    assert Upstream().keep(stage, Cost(tuple(wide), 3)) == (True, Reason.COST_TOO_MANY_BUFFERS)
    assert Upstream().keep(stage, Cost((*wide[:3], scalar, scalar), 3)) == (False, Reason.ONLY_REORDERS)
    assert Upstream().keep(stage, Cost((), 3, (stage,))) == (True, Reason.COST_REDUCE_READS_BUFFER)
    assert Eager().keep(stage, Cost((), 3)) and not AllLegal().keep(stage, Cost(tuple(wide), 3, (stage,)))

    class Plain:
        def keep(self, stage, cost):
            return True

    assert ask_fusion(Plain(), stage, Cost((), 3)) == (True, Reason.POLICY)


def test_policies_are_values():
    assert {Policies(): 1}[Policies()] == 1
    assert Policies(order=MemoryAware()) != Policies()


# ** errors **


def test_a_cycle_is_printed_with_kernels_buffers_and_lines():
    a, b = param(0), param(1)
    new_a = a.after(kernel("into_a", reads=(1,)).call(a, b))  # reads the old b
    new_b = b.after(kernel("into_b", reads=(1,)).call(b, a))  # reads the old a
    add_line(new_a.src[1], Line("/home/me/swap.py", 7))
    with pytest.raises(ScheduleError) as error:
        create_schedule(UOp.sink(new_a, new_b))
    text = str(error.value)
    assert "into_a -> into_b -> into_a" in text or "into_b -> into_a -> into_b" in text
    assert "reads p0 before into_a (swap.py:7: ) overwrites it (WAR)" in text
    assert "contiguous()" in text


def test_one_kernel_that_reads_two_states():
    b, x = param(0), buffer()
    new = b.after(kernel("write").call(b))
    newer = new.after(kernel("again", n=2).call(new))
    for later in (new, newer):
        both = x.after(kernel("both", reads=(1, 2)).call(x, b, later))
        with pytest.raises(ScheduleError, match="both reads p0 in two states"):
            create_schedule(UOp.sink(both))


def test_two_states_of_which_only_one_is_read():
    b = param(0)
    new = b.after(kernel("write").call(b))
    last = new.after(kernel("last", reads=(1,)).call(b, new))
    assert names(create_schedule(UOp.sink(last))) == ["write", "last"]


def test_rivals():
    b = param(0)
    with pytest.raises(ScheduleError, match="two kernels overwrite p0"):
        create_schedule(UOp.sink(b.after(kernel("a").call(b)), b.after(kernel("b", n=2).call(b))))


def test_a_state_and_the_same_with_one_more_kernel():
    b, x = param(0), buffer()
    low, high = kernel("low", n=4).call(b), kernel("high", start=4, n=4).call(b)
    read = x.after(kernel("read", reads=(1,)).call(x, b.after(low)))
    linear, edges = order_of(UOp.sink(b.after(low, high), read))
    assert names(linear) == ["low", "read", "high"]
    assert [(e.before, e.after, e.kind) for e in edges] == [(0, 1, "RAW"), (1, 2, "WAR")]


def test_branches_that_write_other_bytes():
    """Each reader may see its own branch only, so one that sees all of one branch has no place."""
    b, x, y = param(0), buffer(), buffer()
    low, high = b.after(kernel("low", n=4).call(b)), b.after(kernel("high", start=4, n=4).call(b))
    reads_low = x.after(kernel("rl", reads=(1,), n=4).call(x, low))
    reads_high = y.after(kernel("rh", reads=(1,), start=4, n=4).call(y, high))
    assert len(create_schedule(UOp.sink(reads_low, reads_high)).src) == 4
    all_low, all_high = (z.after(kernel(n, reads=(1,)).call(z, s)) for n, z, s in (("al", x, low), ("ah", y, high)))
    assert names(create_schedule(UOp.sink(all_low, high))) == ["low", "al", "high"]
    with pytest.raises(ScheduleError, match="wait for one another"):
        create_schedule(UOp.sink(all_low, all_high))


def test_arguments_that_are_no_memory():
    b = buffer()
    with pytest.raises(ScheduleError, match="must be memory, not ADD"):
        create_schedule(UOp.sink(b.after(kernel("k", reads=(1,)).call(b, b + b))))
    linear = UOp(Ops.LINEAR, dtypes.void)
    with pytest.raises(ScheduleError, match="CALL of LINEAR"):
        create_schedule(UOp.sink(b.after(linear.call(b))))


def test_a_policy_that_picks_nothing():
    @dataclass(frozen=True)
    class Beyond:
        def pick(self, ready, live):
            return len(ready)

    b = buffer()
    with pytest.raises(ScheduleError, match="picked kernel 1 of 1"):
        create_schedule(UOp.sink(b.after(kernel("k").call(b))), Beyond())


# ** what kernels touch **


def test_accesses_span_every_index():
    p, q = param(0, device=None), param(1, device=None)
    r0, r1 = UOp.range(2, 0), UOp.range(3, 1)
    gated = (r0 * 3 + r1 - 2).valid((r0 * 3 + r1) > 1)
    found = accesses(UOp.sink(p.index(r0 * 3 + r1).store(UOp(Ops.LOAD, dtypes.int32, (q.index(gated),))).end(r0, r1)))
    assert found.writes == {0: (0, 24)} and found.reads == {1: (0, 16)}


def test_accesses_through_loaded_indices_and_without_load():
    p, q, table = (param(i, device=None) for i in range(3))
    r = UOp.range(4, 0)
    row = UOp(Ops.LOAD, dtypes.int32, (table.index(r + 2),)).cast(dtypes.index)
    found = accesses(UOp.sink(p.index(r).store(q.index(row)).end(r)))
    assert found.reads == {1: (0, 32), 2: (8, 24)}
    assert accesses(UOp.sink(p.index(r).store(p.index(r + 4)).end(r))).reads == {0: (16, 32)}
    assert accesses(UOp.sink(p.bitcast(dtypes.float32).index(r).store(q.index(r)).end(r))).writes == {0: EVERYTHING}


def test_written_slots():
    assert written_slots(kernel("k", writes=(2, 0), reads=(1,))) == [2, 0]
    assert written_slots(UOp(Ops.COPY, dtypes.int32, (param(1, device=None),), "NUMPY")) == [0]
    assert written_slots(UOp.sink(param(0).index(UOp.const(0)).store(UOp.const(1, dtypes.int32)))) == [0]


# ** size and determinism **


def seconds_of(fn, *args):
    gc.collect()
    gc.disable()
    started = time.process_time()
    fn(*args)
    gc.enable()
    return time.process_time() - started


def test_long_chains_and_many_readers_stay_linear():
    def chain(n):
        state = param(0)
        body = kernel("k", reads=(0,))
        for _ in range(n):
            state = state.after(body.call(state))
        return UOp.sink(state)

    def readers(n):
        b = param(0)
        body = kernel("r", reads=(1,))
        outs = [x.after(body.call(x, b)) for x in (buffer() for _ in range(n))]
        return UOp.sink(b.after(kernel("w").call(b)), *outs)

    for make in (chain, readers):
        seconds = {}
        for n in (1_500, 6_000):
            sink = make(n)
            seconds[n] = min(seconds_of(create_schedule, sink) for _ in range(3))
        assert seconds[6_000] < 4 * 2 * seconds[1_500] + 0.1


def test_a_chain_of_ten_thousand_kernels():
    state = buffer()
    body = kernel("k", reads=(1,))
    for _ in range(10_000):
        new = buffer()
        state = new.after(body.call(new, state))
    assert len(create_schedule(UOp.sink(state)).src) == 10_000


def random_schedule(seed: int) -> str:
    """What a schedule says, without numbers that a process counts up."""
    rng = random.Random(seed)
    memory = [param(i) if i % 2 else buffer() for i in range(6)]

    def part():
        start = rng.randrange(SIZE)
        return Part(rng.randrange(6), start, rng.randrange(1, SIZE - start + 1))

    kernels = [Kernel(i, (part(),), tuple(part() for _ in range(rng.randrange(4)))) for i in range(60)]
    text = []
    for policy in (BreadthFirst(), MemoryAware()):
        linear, edges = order_of(Program(kernels, memory).graph(), policy)
        text += [" ".join(names(linear))]
        text += [f"{e.before} {e.after} {e.kind} {memory.index(e.buffer)}" for e in edges]
    return "\n".join(text)


def test_the_same_in_every_process():
    code = "from tests.test_order import random_schedule; print(random_schedule(5))"
    outs = set()
    for hash_seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        outs.add(out.stdout)
    assert outs == {random_schedule(5) + "\n"}
