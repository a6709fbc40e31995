"""Memory planners: where in one arena each intermediate lies, given only when it is alive and how large it is.

In: :class:`Lifetime` values. Out: an offset in bytes for each, a multiple of :data:`ALIGN`, such that no two that are
alive at once overlap. Planners are values; an exercise plugs in its own (anything with ``name`` and ``place``).

>>> a, b, c = Lifetime(0, 1, 1000), Lifetime(1, 2, 500), Lifetime(2, 3, 300)
>>> Greedy().place([a, b, c])  # c takes a's place: a is dead after kernel 1
[0, 1024, 0]
>>> lower_bound([a, b, c])
1536
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

ALIGN: Final = 256
"""Offsets are multiples of this, and every buffer takes whole blocks of it."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of ``nbytes`` that must keep its memory from kernel ``first`` to kernel ``last`` (both included).

    ``room``: the bytes that it takes in the arena.
    """

    first: int
    last: int
    nbytes: int
    room: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "room", round_up(self.nbytes))


class MemoryPlanner(Protocol):
    """Chooses offsets. ``name`` is what plans and traces call it."""

    @property
    def name(self) -> str: ...

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]: ...


def round_up(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at once: no arena can be smaller."""
    change: dict[int, int] = defaultdict(int)
    for life in lifetimes:
        change[life.first] += life.room
        change[life.last + 1] -= life.room
    most = alive = 0
    for time in sorted(change):
        alive += change[time]
        most = max(most, alive)
    return most


def arena_bytes(lifetimes: Sequence[Lifetime], offsets: Sequence[int]) -> int:
    """The size of the arena that these offsets need."""
    return max((offset + life.room for life, offset in zip(lifetimes, offsets, strict=True)), default=0)


# ** no reuse **


@dataclass(frozen=True)
class NoPlan:
    """Each its own memory, side by side."""

    name: str = "none"

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]:
        offsets, end = [], 0
        for life in lifetimes:
            offsets.append(end)
            end += life.room
        return offsets


# ** in time order, as an allocator at run time would: two-level segregated fit **


class _FreeBlocks:
    """The free blocks of a growing arena, by size class; sizes and addresses count blocks of ALIGN bytes.

    Two levels: the power of two below a size, and 32 equal steps within it. Both together are one class number, and one
    int has a bit for each class that has blocks, so the next class that fits is found by looking for a bit.
    """

    def __init__(self) -> None:
        self.end = 0
        self.classes: defaultdict[int, dict[int, int]] = defaultdict(dict)  # class -> {start: size}, oldest first
        self.filled = 0
        self.at_start: dict[int, int] = {}
        self.at_end: dict[int, int] = {}

    @staticmethod
    def _class(size: int) -> tuple[int, int]:
        """The class of a size, and how far apart (a power of two, as a shift) sizes in it may be."""
        shift = max(0, size.bit_length() - 6)
        return shift * 32 + (size >> shift), shift

    def _add(self, start: int, size: int) -> None:
        number, _ = self._class(size)
        self.classes[number][start] = size
        self.filled |= 1 << number
        self.at_start[start] = self.at_end[start + size] = size

    def _remove(self, start: int, size: int) -> None:
        number, _ = self._class(size)
        del self.classes[number][start], self.at_start[start], self.at_end[start + size]
        if not self.classes[number]:
            self.filled &= ~(1 << number)

    def take(self, size: int) -> int:
        """A start for ``size`` blocks: from the first class all of whose blocks are large enough, else at the end."""
        _, shift = self._class(size)
        wanted, _ = self._class(-(-size >> shift) << shift)
        if larger := self.filled >> wanted:
            number = wanted + (larger & -larger).bit_length() - 1
            start, found = next(iter(self.classes[number].items()))
        else:  # the arena grows; a free block that ends where it ends is part of the new one
            found = self.at_end.get(self.end, 0)
            start = self.end - found
            self.end = max(self.end, start + size)
        if found:
            self._remove(start, found)
        if found > size:
            self._add(start + size, found - size)
        return start

    def give(self, start: int, size: int) -> None:
        """Frees blocks; free neighbours become one block."""
        if (before := self.at_end.get(start)) is not None:
            self._remove(start - before, before)
            start, size = start - before, size + before
        if (behind := self.at_start.get(start + size)) is not None:
            self._remove(start + size, behind)
            size += behind
        self._add(start, size)


@dataclass(frozen=True)
class Tlsf:
    """Upstream's way: opens and closes in time order, an allocator (two-level segregated fit) finds the place."""

    name: str = "tlsf"

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]:
        # what closes after a kernel is freed before the next one opens
        events = [(life.first, 1, i) for i, life in enumerate(lifetimes)]
        events += [(life.last + 1, 0, i) for i, life in enumerate(lifetimes)]
        free, starts = _FreeBlocks(), [0] * len(lifetimes)
        for _, opens, i in sorted(events):
            size = lifetimes[i].room // ALIGN
            if not size:
                continue
            if opens:
                starts[i] = free.take(size)
            else:
                free.give(starts[i], size)
        return [start * ALIGN for start in starts]


# ** all at once: the largest first **

_FIRST: Final[tuple[Callable[[Lifetime], tuple[int, int]], ...]] = (
    lambda life: (-life.room, life.first),
    lambda life: (-life.room * (life.last - life.first + 1), life.first),
    lambda life: (life.first - life.last, -life.room),
)
"""What is placed first: the largest; the largest area in offset × time; the longest alive."""


@dataclass(frozen=True)
class Greedy:
    """One buffer after the other into the lowest gap that is free all its life, the largest buffer first.

    While that leaves the arena above the lower bound, the buffer that lies highest is moved to the front of the order,
    up to ``steps`` times from each of the orders in _FIRST. ``effort`` bounds all of it: how many pairs of buffers are
    looked at.
    """

    name: str = "greedy"
    steps: int = 40
    effort: int = 500_000

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]:
        bound = lower_bound(lifetimes)
        smallest, best = -1, [0] * len(lifetimes)
        for offsets in self._attempts(lifetimes):
            size = arena_bytes(lifetimes, offsets)
            if smallest < 0 or size < smallest:
                smallest, best = size, offsets
            if smallest == bound:
                break
        return best

    def _attempts(self, lifetimes: Sequence[Lifetime]) -> Iterator[list[int]]:
        rooms = [life.room for life in lifetimes]
        attempts = 1 + self.effort // (1 + len(rooms) + pairs_alive(lifetimes))
        for first in _FIRST[:attempts]:
            order = sorted(range(len(rooms)), key=lambda i: first(lifetimes[i]))
            for _ in range(min(self.steps, -(-attempts // len(_FIRST)))):
                offsets = _lowest_gaps(rooms, lifetimes, order)
                yield offsets
                top = max(reversed(order), key=lambda i: offsets[i] + rooms[i])
                order = [top, *(i for i in order if i != top)]


def pairs_alive(lifetimes: Sequence[Lifetime]) -> int:
    """How many buffers are alive at some time of a buffer's life, in all."""
    starts, ends = sorted(life.first for life in lifetimes), sorted(life.last for life in lifetimes)
    # of all others, those that begin after it or end before it are not
    apart = sum(bisect_left(ends, life.first) + len(starts) - bisect_right(starts, life.last) for life in lifetimes)
    return len(lifetimes) * (len(lifetimes) - 1) - apart


def _lowest_gaps(rooms: Sequence[int], lifetimes: Sequence[Lifetime], order: Sequence[int]) -> list[int]:
    """Each buffer, in this order, at the lowest offset that is free of those placed before it in all of its life."""
    offsets = [-1] * len(rooms)
    placed: list[tuple[int, int, int, int]] = []  # from where to where, from when to when
    for i in order:
        low, room, first, last = 0, rooms[i], lifetimes[i].first, lifetimes[i].last
        for start, end, opens, closes in placed:
            if opens <= last and first <= closes:
                if low + room <= start:
                    break
                if low < end:
                    low = end
        offsets[i] = low
        insort(placed, (low, low + room, first, last))
    return offsets


# ** the default **


@dataclass(frozen=True)
class Smallest:
    """Tries several planners and takes the smallest arena (of equals the first)."""

    planners: tuple[MemoryPlanner, ...] = (Tlsf(), Greedy())
    name: str = "smallest"

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]:
        return min(self.tries(lifetimes).values(), key=lambda offsets: arena_bytes(lifetimes, offsets))

    def tries(self, lifetimes: Sequence[Lifetime]) -> dict[str, list[int]]:
        """The offsets of each planner, by its name."""
        return {planner.name: planner.place(lifetimes) for planner in self.planners}
