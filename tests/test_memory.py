"""Memory plans: nothing alive overlaps, arenas are near the bound, and every placement says why it is where it is."""

import itertools
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinysched.dtypes import dtypes
from tinysched.errors import ScheduleError
from tinysched.ir.decision import Reason, Verdict
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.memory import memory_plan_rewrite
from tinysched.schedule.planners import (
    ALIGN,
    Greedy,
    Lifetime,
    MemoryPlanner,
    NoPlan,
    Smallest,
    Tlsf,
    arena_bytes,
    lower_bound,
    pairs_alive,
)
from tinysched.settings import Context

ROOT = Path(__file__).parents[1]
PLANNERS: tuple[MemoryPlanner, ...] = (NoPlan(), Tlsf(), Greedy(), Smallest())


class Notes:
    """An observer that keeps decisions and events."""

    def __init__(self):
        self.decisions, self.events = [], {}

    def on_decision(self, decision):
        self.decisions.append(decision)

    def on_event(self, kind, data):
        self.events[kind] = data

    def on_replace(self, before, after): ...


def buffer(nbytes, device="NUMPY", dtype=dtypes.float32):
    return UOp.new_buffer(device, nbytes // dtype.itemsize, dtype)


def param(slot):
    return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 64, "NUMPY"))


KERNEL = UOp.sink()
COPY = UOp(Ops.COPY, dtypes.float32, (param(1),), "NUMPY:1")


def linear_of(*calls, copies=()):
    """A LINEAR of kernels that use the given buffers; those at the positions ``copies`` are COPYs."""
    return UOp(
        Ops.LINEAR, dtypes.void, tuple((COPY if i in copies else KERNEL).call(*args) for i, args in enumerate(calls))
    )


def pieces(linear):
    """(arena, offset, nbytes, dtype) of every argument that lies in an arena, kernel by kernel."""
    found = []
    for call in linear.src:
        views = [a for a in call.src[1:] if a.op is Ops.BITCAST]
        found.append([(v.src[0].src[0], v.src[0].arg[0][0], v.nbytes(), v.dtype) for v in views])
    return found


@st.composite
def lifetimes(draw, most=40):
    out = []
    for _ in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 30))
        nbytes = draw(st.one_of(st.integers(1, 5_000), st.sampled_from([256, 4096, 65_536, 1 << 20])))
        out.append(Lifetime(first, first + draw(st.integers(0, 12)), nbytes))
    return out


def overlapping(lives, offsets):
    """Pairs that are alive at one time and share a byte."""
    every = list(zip(lives, offsets, strict=True))
    return [
        (a, b)
        for i, (a, x) in enumerate(every)
        for b, y in every[:i]
        if a.first <= b.last and b.first <= a.last and x < y + b.nbytes and y < x + a.nbytes
    ]


# ** planners **


@given(lifetimes(), st.sampled_from(PLANNERS))
def test_nothing_alive_overlaps(lives, planner):
    offsets = planner.place(lives)
    assert len(offsets) == len(lives) and all(o >= 0 and o % ALIGN == 0 for o in offsets)
    assert not overlapping(lives, offsets)
    assert arena_bytes(lives, offsets) >= lower_bound(lives)


@given(lifetimes())
def test_the_default_is_the_smaller_of_both_and_never_more_than_no_plan(lives):
    tlsf, greedy, both, none = (
        arena_bytes(lives, planner.place(lives)) for planner in (Tlsf(), Greedy(), Smallest(), NoPlan())
    )
    assert both == min(tlsf, greedy)
    assert both <= none == sum(life.room for life in lives)


@given(lifetimes())
def test_lower_bound_and_pairs_by_brute_force(lives):
    at = [sum(life.room for life in lives if life.first <= t <= life.last) for t in range(50)]
    assert lower_bound(lives) == max(at)
    pairs = [(a, b) for a, b in itertools.permutations(lives, 2) if a.first <= b.last and b.first <= a.last]
    assert pairs_alive(lives) == len(pairs)


def layers(n, sizes, seed):
    """Lifetimes as training has them: each layer's activation lives until its backward kernel, gradients briefly."""
    rng = random.Random(seed)
    lives = []
    for i in range(n):
        lives.append(Lifetime(i, 2 * n - i, rng.choice(sizes)))
        lives.append(Lifetime(i, i + rng.randrange(1, 4), rng.choice(sizes)))
        lives.append(Lifetime(2 * n - i, 2 * n - i + rng.randrange(1, 4), rng.choice(sizes)))
    return lives


@pytest.mark.parametrize("seed", range(12))
def test_arenas_are_near_the_bound(seed):
    lives = layers(30, [512, 65_536, 131_072, 196_608, 262_144], seed)
    assert arena_bytes(lives, Smallest().place(lives)) <= 1.04 * lower_bound(lives)


def test_chains_reach_the_bound():
    """A transformer's inference: each value lives for a few kernels."""
    rng = random.Random(1)
    lives = [Lifetime(i, i + rng.choice([1, 1, 1, 2, 5]), rng.choice([4096, 16_384, 49_152])) for i in range(200)]
    assert arena_bytes(lives, Greedy().place(lives)) == lower_bound(lives)


@pytest.mark.parametrize("longest", [3, 20, 1000])
def test_a_thousand_buffers_take_less_than_half_a_second(longest):
    rng = random.Random(longest)
    lives = []
    for _ in range(1000):
        first = rng.randrange(1000)
        lives.append(Lifetime(first, first + rng.randrange(longest), int(2 ** rng.uniform(0, 22))))
    started = time.process_time()
    offsets = Smallest().place(lives)
    assert time.process_time() - started < 0.5
    assert arena_bytes(lives, offsets) <= 1.04 * lower_bound(lives)


def test_tlsf_merges_what_is_free():
    a, b, c = Lifetime(0, 0, 300), Lifetime(0, 1, 300), Lifetime(0, 1, 700)
    d = Lifetime(2, 2, 1792)  # as large as all three, which are dead
    assert Tlsf().place([a, b, c, d]) == [0, 512, 1024, 0]


def test_tlsf_grows_from_a_free_block_at_the_end():
    a, b, c = Lifetime(0, 5, 256), Lifetime(0, 1, 1024), Lifetime(2, 3, 4096)
    assert Tlsf().place([a, b, c]) == [0, 256, 256]


def test_tlsf_uses_what_is_left_of_a_block():
    a, b, c, d = Lifetime(0, 0, 2048), Lifetime(0, 2, 256), Lifetime(1, 2, 512), Lifetime(1, 2, 1536)
    assert Tlsf().place([a, b, c, d]) == [0, 2048, 0, 512]


# ** the rewrite **


def test_every_intermediate_becomes_a_piece_of_the_arena():
    x, out = param(0), buffer(4096)
    a, b, c = buffer(1000), buffer(500, dtype=dtypes.uint8), buffer(300, dtype=dtypes.int8)
    linear, plan = memory_plan_rewrite(linear_of((a, x), (b, a), (c, b), (out, c)), held={out})
    (arena,) = {p[0] for ps in pieces(linear) for p in ps}
    assert arena.op is Ops.BUFFER and arena.dtype is dtypes.int8 and arena.device == "NUMPY"
    assert arena is plan.lanes[0].arena and arena.nbytes() == plan.lanes[0].arena_bytes == 1536
    assert pieces(linear) == [
        [(arena, 0, 1000, dtypes.float32)],
        [(arena, 1024, 500, dtypes.uint8), (arena, 0, 1000, dtypes.float32)],
        [(arena, 0, 300, dtypes.int8), (arena, 1024, 500, dtypes.uint8)],
        [(arena, 0, 300, dtypes.int8)],
    ]
    assert linear.src[0].src[2] is x and linear.src[3].src[1] is out
    assert [(p.name, p.reason) for p in plan.placements] == [
        ("b0", "at 0: first"), ("b2", "at 1024: first"), ("b3", "at 0: reuses b0, dead after kernel 1"),
    ]  # fmt: skip


@st.composite
def linears(draw):
    n = draw(st.integers(1, 10))
    devices = ["NUMPY", "NUMPY:1"]
    made = [buffer(4 * draw(st.integers(0, 600)), draw(st.sampled_from(devices))) for _ in range(n)]
    memory = [*made, param(0), param(1)]
    uses = st.lists(st.sampled_from(memory), min_size=1, max_size=4)
    calls = draw(st.lists(uses, min_size=1, max_size=12))
    copies = draw(st.sets(st.integers(0, 11)))
    return linear_of(*calls, copies=copies), set(draw(st.lists(st.sampled_from(made), max_size=2)))


@given(linears(), st.sampled_from(PLANNERS))
def test_plans_of_random_linears(case, planner):
    before, held = case
    after, plan = memory_plan_rewrite(before, held, planner)
    for old, new in zip(before.src, after.src, strict=True):
        for a, b in zip(old.src[1:], new.src[1:], strict=True):
            same = a.op is Ops.PARAM or a in held or not a.nbytes() or isinstance(planner, NoPlan)
            assert (b is a) if same else (b.shape == a.shape and b.dtype is a.dtype and b.device == a.device)
    for p in plan.placements:
        lane = plan.lanes[p.lane]
        assert p.offset_bytes % ALIGN == 0 and p.offset_bytes + p.nbytes <= lane.arena_bytes
        assert lane.lower_bound_bytes <= lane.arena_bytes <= lane.unplanned_bytes
        assert lane.device == p.buffer.device
        assert lane.copy == any(p.buffer in c.src[1:] for c in before.src if c.src[0] is COPY)
    for i, p in enumerate(plan.placements):
        for q in plan.placements[:i]:
            if p.lane == q.lane and p.first <= q.last and q.first <= p.last:
                assert p.offset_bytes >= q.offset_bytes + q.nbytes or q.offset_bytes >= p.offset_bytes + p.nbytes


@given(linears())
def test_reasons_are_true(case):
    """What a placement names was the last to be in its place; 'first' means that nobody was."""
    _, plan = memory_plan_rewrite(*case)
    for p in plan.placements:
        earlier = [
            q
            for q in plan.placements
            if q.lane == p.lane
            and q.last < p.first
            and q.offset_bytes < p.offset_bytes + p.nbytes
            and p.offset_bytes < q.offset_bytes + q.nbytes
        ]
        if p.reuses is None:
            assert not earlier and p.reason == f"at {p.offset_bytes}: first"
        else:
            name, last = p.reuses
            assert last < p.first
            assert not earlier or (last >= max(q.last for q in earlier))
            assert p.reason == f"at {p.offset_bytes}: reuses {name}, dead after kernel {last}"


def test_copies_have_a_lane_of_their_own_and_are_held_longer():
    a, b, c, d = buffer(256), buffer(256, "NUMPY:1"), buffer(256, "NUMPY:1"), buffer(256, "NUMPY:1")
    calls = ((a,), (b, a), (c, b), (d, c), (param(0), d))
    _, plan = memory_plan_rewrite(linear_of(*calls, copies={1}))
    assert [(lane.device, lane.copy) for lane in plan.lanes] == [("NUMPY", True), ("NUMPY:1", True), ("NUMPY:1", False)]
    e, f, g = (buffer(256) for _ in range(3))
    _, plan = memory_plan_rewrite(linear_of((e,), (e,), (f,), (f,), (g,), (g,), copies={0, 2, 4}))
    e_at, f_at, g_at = (p.offset_bytes for p in plan.placements)  # e is held until 3, f until 5
    assert e_at == g_at != f_at


def test_held_and_existing_memory_stays():
    class Memory:
        is_allocated = True

    mine, held, left = buffer(256).attach(Memory()), buffer(256), buffer(256)
    linear, plan = memory_plan_rewrite(linear_of((mine, held, left)), held=[held])
    assert linear.src[0].src[1:3] == (mine, held)
    assert [p.buffer for p in plan.placements] == [left]


def test_views_of_intermediates_follow_them():
    a = buffer(1024)
    view = a.shrink(((64, 128),)).bitcast(dtypes.int32)
    linear, plan = memory_plan_rewrite(linear_of((a,), (param(0), view)))
    piece = linear.src[0].src[1]
    assert linear.src[1].src[2] is piece.shrink(((64, 128),)).bitcast(dtypes.int32)
    assert plan.placements[0].last == 1


def test_nothing_to_plan():
    before = linear_of((param(0), param(1)))
    assert memory_plan_rewrite(before)[0] is before and memory_plan_rewrite(before)[1].lanes == ()
    empty = buffer(0)
    assert memory_plan_rewrite(linear_of((empty,)))[1].placements == ()


@pytest.mark.parametrize("how", ["argument", "setting", "planner"])
def test_no_plan(how):
    a, b = buffer(300), buffer(300)
    before = linear_of((a,), (b, a))
    with Context(NO_MEMORY_PLANNER=int(how == "setting")):
        planner = NoPlan() if how == "planner" else Smallest()
        after, plan = memory_plan_rewrite(before, (), planner, True if how == "argument" else None)
    assert after is before and plan.placements == ()
    assert plan.arena_bytes == plan.unplanned_bytes == 1024


def test_the_observer_is_told():
    a, b, c = buffer(256), buffer(256), buffer(256)
    notes = Notes()
    with watching(notes):
        _, plan = memory_plan_rewrite(linear_of((a,), (b, a), (c, b)))
    assert notes.events["placement"]["plan"] is plan
    (decision,) = notes.decisions
    assert (decision.verdict, decision.reason) == (Verdict.PLACED, Reason.SMALLER_ARENA)
    facts = dict(decision.evidence.facts)
    assert facts == {"planner": "tlsf", "tlsf": 512, "greedy": 512, "lower bound": 512}
    assert plan.lanes[0].planners == (("tlsf", 512), ("greedy", 512)) and plan.lanes[0].planner == "tlsf"


def test_what_is_printed(capsys):
    a, b, c = buffer(1 << 20), buffer(1 << 20), buffer(1 << 20)
    with Context(DEBUG=1):
        memory_plan_rewrite(linear_of((a,), (b, a), (c, b)))
        memory_plan_rewrite(linear_of((a, b)))  # nothing is gained: nothing is said
    assert capsys.readouterr().out == "memory reduced from 3.15 MB -> 2.10 MB, 3 -> 1 bufs\n"


# ** planners of others **


@dataclass(frozen=True)
class At:
    """A planner that puts everything at one offset."""

    offset: int
    name: str = "at"

    def place(self, lifetimes):
        return [self.offset] * len(lifetimes)


@dataclass(frozen=True)
class Given:
    """A planner that has its offsets already."""

    offsets: tuple[int, ...]
    name: str = "given"

    def place(self, lifetimes):
        return list(self.offsets)


def test_the_reason_names_whoever_died_last():
    early, late, new = buffer(256), buffer(256), buffer(512)
    calls = linear_of((early, late), (late,), (new,))
    for offsets in ((0, 256, 0), (256, 0, 0)):
        _, plan = memory_plan_rewrite(calls, (), Given(offsets))
        assert plan.placements[2].reason == "at 0: reuses b1, dead after kernel 1"


def test_a_planner_that_overlaps_is_refused():
    a, b = buffer(256), buffer(256)
    with pytest.raises(ScheduleError, match="planner at put b1 on b0, which is alive until kernel 1"):
        memory_plan_rewrite(linear_of((a,), (b, a)), (), At(0))
    for offset in (100, -256):
        with pytest.raises(ScheduleError, match=f"put b0 at {offset}"):
            memory_plan_rewrite(linear_of((a,)), (), At(offset))
    assert memory_plan_rewrite(linear_of((a,), (b,)), (), At(512))[1].lanes[0].planner == "at"


@given(lifetimes(most=12), st.data())
def test_every_overlap_is_found(lives, data):
    made = [buffer(-(-life.nbytes // 4) * 4) for life in lives]
    calls = [[b for b, life in zip(made, lives, strict=True) if life.first <= t <= life.last] for t in range(45)]
    used = list(dict.fromkeys(b for call in calls for b in call))
    lives = [Lifetime(lives[made.index(b)].first, lives[made.index(b)].last, b.nbytes()) for b in used]
    offsets = tuple(ALIGN * data.draw(st.integers(0, 40)) for _ in used)
    rounded = [Lifetime(life.first, life.last, life.room) for life in lives]
    if overlapping(rounded, offsets):
        with pytest.raises(ScheduleError, match="which is alive until"):
            memory_plan_rewrite(linear_of(*calls), (), Given(offsets))
    else:
        memory_plan_rewrite(linear_of(*calls), (), Given(offsets))


# ** determinism **


def random_plan(seed: int) -> str:
    rng = random.Random(seed)
    made = [buffer(4 * rng.randrange(1, 5000), rng.choice(["NUMPY", "NUMPY:1"])) for _ in range(80)]
    calls = [rng.sample(made[max(0, i - 6) : i + 1], min(i + 1, 3)) for i in range(80)]
    _, plan = memory_plan_rewrite(linear_of(*calls, copies={3, 30}))
    lanes = [f"{lane.device} {lane.copy} {lane.arena_bytes} {lane.planners}" for lane in plan.lanes]
    return "\n".join([*lanes, *(f"{p.name} {p.lane} {p.reason}" for p in plan.placements)])


def test_the_same_in_every_process():
    code = "from tests.test_memory import random_plan; print(random_plan(5))"
    for hash_seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        assert out.stdout == random_plan(5) + "\n"
