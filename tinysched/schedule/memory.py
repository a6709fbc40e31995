"""The memory plan: all intermediates of a device share one arena, and reuse what is dead.

In: a LINEAR over plain buffers, and which of them somebody outside holds. Out: the LINEAR with each other BUFFER as a
piece of an arena, ``BITCAST(SHRINK(arena, ((offset, offset + nbytes),)))``, and the :class:`MemoryPlan` that says why
there. The plan follows from the LINEAR alone, so that it can be kept and used again with other buffers.

>>> from tinysched.ir.uop import ParamArg
>>> a, b, c = (UOp.new_buffer("NUMPY", 100, dtypes.float32) for _ in range(3))
>>> out = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 100, "NUMPY"))
>>> calls = [UOp.sink().call(x, y) for x, y in ((a, out), (b, a), (c, b), (out, c))]
>>> linear, plan = memory_plan_rewrite(UOp(Ops.LINEAR, dtypes.void, tuple(calls)), held=())
>>> for placement in plan.placements:
...     print(placement.name, placement.reason)
b0 at 0: first
b2 at 512: first
b3 at 0: reuses b0, dead after kernel 1
>>> plan.lanes[0].unplanned_bytes, plan.lanes[0].arena_bytes, plan.lanes[0].lower_bound_bytes
(1536, 1024, 1024)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tinysched.dtypes import dtypes
from tinysched.errors import ScheduleError
from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.schedule.planners import (
    ALIGN,
    Lifetime,
    MemoryPlanner,
    NoPlan,
    Smallest,
    arena_bytes,
    lower_bound,
)
from tinysched.schedule.policy import DEFAULT
from tinysched.settings import DEBUG, NO_MEMORY_PLANNER


@dataclass(frozen=True, slots=True)
class Lane:
    """The intermediates of one device (copies have a lane of their own), and what each planner made of them."""

    device: str | tuple[str, ...]
    copy: bool
    arena: UOp | None
    arena_bytes: int
    lower_bound_bytes: int
    unplanned_bytes: int
    planner: str
    planners: tuple[tuple[str, int], ...]
    """Each planner that was tried and the arena it needs."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A buffer in its lane's arena: used by the kernels ``first`` to ``last``, after ``reuses`` (``(name, last)``)."""

    buffer: UOp
    name: str
    lane: int
    offset_bytes: int
    nbytes: int
    first: int
    last: int
    reuses: tuple[str, int] | None

    @property
    def reason(self) -> str:
        if self.reuses is None:
            return f"at {self.offset_bytes}: first"
        return f"at {self.offset_bytes}: reuses {self.reuses[0]}, dead after kernel {self.reuses[1]}"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """All lanes and placements, both by first use. Buffers are named by first use, arguments included: b0, b1, …"""

    lanes: tuple[Lane, ...] = ()
    placements: tuple[Placement, ...] = ()

    @property
    def arena_bytes(self) -> int:
        return sum(lane.arena_bytes for lane in self.lanes)

    @property
    def lower_bound_bytes(self) -> int:
        return sum(lane.lower_bound_bytes for lane in self.lanes)

    @property
    def unplanned_bytes(self) -> int:
        return sum(lane.unplanned_bytes for lane in self.lanes)


def memory_plan_rewrite(
    linear: UOp,
    held: Collection[UOp] = (),
    planner: MemoryPlanner = DEFAULT.memory,
    no_plan: bool | None = None,
) -> tuple[UOp, MemoryPlan]:
    """Moves every BUFFER that is not ``held`` into an arena. ``no_plan``, if not given, is the setting's value."""
    if no_plan or (no_plan is None and NO_MEMORY_PLANNER):
        planner = NoPlan()
    lanes: dict[tuple[Any, bool], list[_Used]] = {}
    for used in _intermediates(linear, set(held)):
        lanes.setdefault((used.buffer.device, used.copied), []).append(used)
    packed = [_pack(key, i, used, planner) for i, (key, used) in enumerate(lanes.items())]
    placements = sorted((p for _, ps in packed for p in ps), key=lambda p: (p.first, int(p.name[1:])))
    plan = MemoryPlan(tuple(lane for lane, _ in packed), tuple(placements))
    _tell(plan)
    return _rewrite(linear, plan), plan


# ** lifetimes **


@dataclass(slots=True)
class _Used:
    """A buffer, its name, and the kernels that use it."""

    buffer: UOp
    name: str
    first: int
    last: int
    copied: bool = False

    @property
    def lifetime(self) -> Lifetime:
        """What a copy uses is held for as long again, so that the next kernels needn't wait for the copy engine."""
        longer = self.last - self.first + 1 if self.copied else 0
        return Lifetime(self.first, self.last + longer, self.buffer.nbytes())


def _intermediates(linear: UOp, held: set[UOp]) -> list[_Used]:
    """Buffers that live only within the LINEAR, by first use. Memory that exists already is somebody's."""
    names: dict[UOp, str] = {}
    found: dict[UOp, _Used] = {}
    for i, call in enumerate(linear.src):
        for u in (memory for argument in call.src[1:] for memory in _memory_below(argument)):
            name = names.setdefault(u, f"b{len(names)}")
            if u.op is not Ops.BUFFER or u in held or u.buffer is not None or not u.nbytes():
                continue
            used = found.setdefault(u, _Used(u, name, i, i))
            used.last = i
            used.copied |= call.src[0].op is Ops.COPY
    return list(found.values())


def _memory_below(argument: UOp) -> Iterator[UOp]:
    if argument.op is Ops.BUFFER or argument.op is Ops.PARAM:
        return iter((argument,))
    return (u for u in argument.toposort() if u.op is Ops.BUFFER or u.op is Ops.PARAM)


# ** placing **


def _pack(
    key: tuple[Any, bool], number: int, used: Sequence[_Used], planner: MemoryPlanner
) -> tuple[Lane, list[Placement]]:
    """One lane: offsets by the planner, checked, each with its reason."""
    device, copied = key
    lifetimes = [u.lifetime for u in used]
    tries = planner.tries(lifetimes) if isinstance(planner, Smallest) else {planner.name: planner.place(lifetimes)}
    sizes = {name: arena_bytes(lifetimes, offsets) for name, offsets in tries.items()}
    best = min(sizes, key=sizes.__getitem__)
    apart = isinstance(planner, NoPlan)  # every buffer keeps its own memory
    arena = None if apart else UOp.new_buffer(device, sizes[best], dtypes.int8)
    lane = Lane(
        device, copied, arena, sizes[best], lower_bound(lifetimes), sum(life.room for life in lifetimes), best,
        tuple(sizes.items()),
    )  # fmt: skip
    if apart:
        return lane, []
    before = _previous(used, lifetimes, tries[best], best)
    return lane, [
        Placement(u.buffer, u.name, number, offset, u.buffer.nbytes(), u.first, u.last, old)
        for u, offset, old in zip(used, tries[best], before, strict=True)
    ]


def _previous(
    used: Sequence[_Used], lifetimes: Sequence[Lifetime], offsets: Sequence[int], planner: str
) -> list[tuple[str, int] | None]:
    """For each buffer the one that was last in its place, and until when.

    One walk through time. ``starts`` and ``owners`` divide the arena into pieces by who had them last. Raises
    :class:`ScheduleError` where a planner puts a buffer on one that is still alive.
    """
    starts, owners = [0], [-1]
    found: list[tuple[str, int] | None] = [None] * len(used)
    for i in sorted(range(len(used)), key=lambda i: lifetimes[i].first):
        low, high = offsets[i], offsets[i] + lifetimes[i].room
        if low < 0 or low % ALIGN:
            raise ScheduleError(
                f"planner {planner} put {used[i].name} at {low}", help=f"offsets are multiples of {ALIGN}, from 0"
            )
        a, b = bisect_right(starts, low) - 1, bisect_left(starts, high)
        previous = [owner for owner in owners[a:b] if owner >= 0]
        for old in previous:
            if lifetimes[old].last >= lifetimes[i].first:
                raise ScheduleError(
                    f"planner {planner} put {used[i].name} on {used[old].name}, which is alive until kernel "
                    f"{lifetimes[old].last}",
                    help=f"{used[i].name} is alive from kernel {lifetimes[i].first}: choose another offset",
                )
        if previous:
            old = max(previous, key=lambda j: (used[j].last, -j))
            found[i] = (used[old].name, used[old].last)
        last = owners[b - 1]
        keeps = [(starts[a], owners[a])] if starts[a] < low else []
        follows = [(high, last)] if b == len(starts) or starts[b] > high else []
        pieces = [*keeps, (low, i), *follows]
        starts[a:b], owners[a:b] = [s for s, _ in pieces], [o for _, o in pieces]
    return found


# ** the result **


def _rewrite(linear: UOp, plan: MemoryPlan) -> UOp:
    piece: dict[UOp, UOp] = {}
    for p in plan.placements:
        arena = plan.lanes[p.lane].arena
        assert arena is not None
        part = UOp(Ops.SHRINK, dtypes.int8, (arena,), ((p.offset_bytes, p.offset_bytes + p.nbytes),))
        piece[p.buffer] = UOp(Ops.BITCAST, p.buffer.dtype, (part,))
    if not piece:
        return linear
    calls = []
    for call in linear.src:
        arguments = [a.substitute(piece) if a.src else piece.get(a, a) for a in call.src[1:]]
        calls.append(call.over((call.src[0], *arguments)))
    return linear.replace(src=tuple(calls))


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.2f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.2f} KB"


def _tell(plan: MemoryPlan) -> None:
    if DEBUG.value >= 1 and plan.arena_bytes != plan.unplanned_bytes:
        old, new = _size(plan.unplanned_bytes), _size(plan.arena_bytes)
        print(f"memory reduced from {old} -> {new}, {len(plan.placements)} -> {len(plan.lanes)} bufs")
    if (watcher := current_observer()) is None:
        return
    for lane in plan.lanes:
        facts = (("planner", lane.planner), *lane.planners, ("lower bound", lane.lower_bound_bytes))
        reason = Reason.SMALLER_ARENA if len(lane.planners) > 1 else Reason.POLICY
        decide(lane.arena, "memory", Verdict.PLACED, reason, Values(facts))
    watcher.on_event("placement", {"plan": plan})
