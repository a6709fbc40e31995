"""Exercises 8: 8.2 is the lower bound. 8.1 packs an arena: what is alive at once must not overlap.

The answer is ``place(lifetimes) -> offsets``; a lifetime has ``first`` and ``last`` (kernels that use the buffer, both
included) and ``room`` (bytes, a multiple of 256). The engine runs it as its memory planner. To beat is *first fit*: one
buffer after the other, in order of first use, at the lowest free offset. On no case may the arena be larger than that,
and on those by hand (GPT-2 blocks and two small ones) it must be smaller.

>>> from tinysched.lab.check import check
>>> print(str(check(lambda lifetimes: [0 for _ in lifetimes], "8.1")).splitlines()[4])
  buffers a (number 0) and b (number 1) overlap: both are alive at kernel 1
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinysched.lab.check import given
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.models import gpt2_blocks
from tinysched.lab.sketch import arena as sketch
from tinysched.schedule.planners import ALIGN, Lifetime, arena_bytes, lower_bound
from tinysched.schedule.policy import Policies
from tinysched.trace.capture import capture
from tinysched.trace.trace import Trace

Place = Callable[[Sequence[Lifetime]], Sequence[int]]


@dataclass(frozen=True)
class FirstFit:
    """The packer to beat: in order of first use, each at the lowest offset that is free all its life."""

    name: str = "first fit"

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]:
        offsets = [0] * len(lifetimes)
        done: list[int] = []
        for i in sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].first, i)):
            offsets[i] = lowest(i, lifetimes, offsets, done)
            done.append(i)
        return offsets


def lowest(i: int, lifetimes: Sequence[Lifetime], offsets: Sequence[int], done: Sequence[int]) -> int:
    """The lowest offset at which buffer ``i`` meets none of those that have their place (``done``)."""
    offset = 0
    for j in sorted((j for j in done if together(lifetimes[i], lifetimes[j])), key=lambda j: offsets[j]):
        if offset + lifetimes[i].room <= offsets[j]:
            break
        offset = max(offset, offsets[j] + lifetimes[j].room)
    return offset


def together(a: Lifetime, b: Lifetime) -> bool:
    """Whether two buffers are alive at once."""
    return a.first <= b.last and b.first <= a.last


@dataclass(frozen=True)
class Packer:
    """A learner's function as a memory planner."""

    answer: Place
    name: str = "yours"

    def place(self, lifetimes: Sequence[Lifetime]) -> list[int]:
        return [int(offset) for offset in given(self.answer, list(lifetimes))]


# ** cases **


@dataclass(frozen=True)
class Lifetimes:
    """Buffers; ``beat``: first fit leaves room for something better here."""

    all: tuple[Lifetime, ...]
    beat: bool = False

    def __str__(self) -> str:
        return f"{len(self.all)} buffers\n" + "\n".join(
            f"  {called(n)}: kernels {b.first} to {b.last}, {b.room:,} bytes" for n, b in enumerate(self.all)
        )


@dataclass(frozen=True)
class Blocks:
    """GPT-2 blocks, packed by the engine with the learner's packer."""

    count: int

    def __str__(self) -> str:
        return f"{self.count} GPT-2 blocks"


def _case(draw: Draw) -> Lifetimes:
    return Lifetimes(tuple(_lifetime(draw) for _ in range(draw.integer(1, 9))))


def _lifetime(draw: Draw) -> Lifetime:
    first = draw.integer(0, 8)
    return Lifetime(first, first + draw.integer(0, 6), ALIGN * draw.integer(1, 8))


def lifetimes_of(trace: Trace) -> list[Lifetime]:
    """The intermediates of a trace's last schedule, by first use."""
    return [Lifetime(p.first, p.last, p.bytes) for p in trace.schedules[-1].memory.placements]


_HIGHEST_OFFSET = Lifetimes(
    (Lifetime(0, 0, 768), Lifetime(2, 4, 1024), Lifetime(0, 1, 768), Lifetime(3, 3, 256), Lifetime(1, 3, 768))
)
"""Largest first has the lowest highest offset here, and yet the larger arena: what counts is where a buffer ends."""
_BEATEN = (
    Lifetimes((Lifetime(0, 1, 256), Lifetime(0, 3, 256), Lifetime(2, 3, 512)), beat=True),
    Lifetimes((Lifetime(0, 2, 512), Lifetime(1, 4, 256), Lifetime(3, 5, 768), Lifetime(5, 6, 256)), beat=True),
)

# ** the judge **


def called(i: int) -> str:
    """A buffer by the letter that it has in a drawing."""
    return f"{chr(97 + i % 26)} (number {i})"


def overlap(lifetimes: Sequence[Lifetime], offsets: Sequence[int]) -> str:
    """What is wrong with offsets, '' if nothing."""
    if len(offsets) != len(lifetimes):
        return f"{len(lifetimes)} offsets are wanted, one for each buffer, and {len(offsets)} came back"
    bad = next((i for i, offset in enumerate(offsets) if offset < 0 or offset % ALIGN), None)
    if bad is not None:
        return f"buffer {called(bad)} lies at {offsets[bad]}: offsets are multiples of {ALIGN}, from 0"
    for i, j in itertools.combinations(range(len(lifetimes)), 2):
        a, b = lifetimes[i], lifetimes[j]
        if together(a, b) and offsets[i] < offsets[j] + b.room and offsets[j] < offsets[i] + a.room:
            return f"buffers {called(i)} and {called(j)} overlap: both are alive at kernel {max(a.first, b.first)}"
    return ""


def _judge(answer: Any, case: Lifetimes | Blocks) -> Wrong | None:
    if isinstance(case, Blocks):
        return _in_the_engine(answer, case)
    offsets = Packer(answer).place(case.all)
    if text := overlap(case.all, offsets):
        return _wrong(text, case.all, offsets)
    return _too_large(case.all, offsets, case.beat)


def _too_large(lifetimes: Sequence[Lifetime], offsets: Sequence[int], beat: bool) -> Wrong | None:
    size, first_fit = arena_bytes(lifetimes, offsets), arena_bytes(lifetimes, FirstFit().place(lifetimes))
    if size < first_fit or (size == first_fit and not beat):
        return None
    wanted = "less" if beat else "no more"
    bound = lower_bound(lifetimes)
    text = (
        f"your arena has {size:,} bytes; first fit needs {first_fit:,}, and {wanted} is wanted (lower bound {bound:,})"
    )
    return _wrong(text, lifetimes, offsets)


def _in_the_engine(answer: Any, case: Blocks) -> Wrong | None:
    blocks = gpt2_blocks(case.count)
    lifetimes = lifetimes_of(capture(blocks))
    offsets = Packer(answer).place(lifetimes)
    if text := overlap(lifetimes, offsets):
        return Wrong(text)
    trace = capture(blocks, policies=Policies(memory=Packer(answer)))
    if overlap(lifetimes_of(trace), [p.offset_bytes for p in trace.schedules[-1].memory.placements]):
        return Wrong("the engine was given other offsets than the check", trace)
    return _too_large(lifetimes, offsets, beat=True)


def _wrong(text: str, lifetimes: Sequence[Lifetime], offsets: Sequence[int]) -> Wrong:
    lives = [(life.first, life.last, life.room) for life in lifetimes]
    drawing = drawn(lifetimes, offsets) if len(lifetimes) <= 26 else ""
    return Wrong(text, drawing=drawing, picture=lambda: sketch(lives, offsets, lower_bound(lifetimes)))


def drawn(lifetimes: Sequence[Lifetime], offsets: Sequence[int]) -> str:
    """The arena as text: a column per kernel, a row per 256 bytes, a letter per buffer, # where two meet."""
    columns = max((life.last for life in lifetimes), default=0) + 1
    rows = [["."] * columns for _ in range(arena_bytes(lifetimes, offsets) // ALIGN)]
    for i, (life, offset) in enumerate(zip(lifetimes, offsets)):
        for row in rows[max(offset, 0) // ALIGN : (offset + life.room) // ALIGN]:
            for k in range(life.first, life.last + 1):
                row[k] = chr(97 + i % 26) if row[k] == "." else "#"
    lines = [f"{n * ALIGN:>6} |{''.join(row)}|" for n, row in enumerate(rows)]
    return "\n".join([*reversed(lines), f"kernel  {''.join(str(k % 10) for k in range(columns))}"])


def _judge_bound(answer: Any, case: Lifetimes) -> Wrong | None:
    said, bound = given(answer, list(case.all)), lower_bound(case.all)
    side_by_side = list(itertools.accumulate((life.room for life in case.all), initial=0))[:-1]
    text = f"you say {said}, and at one kernel {bound} bytes are alive (each buffer in a row of its own here)"
    return None if said == bound else _wrong(text, case.all, side_by_side)


EXERCISES = (
    Exercise(
        "8.1",
        "an arena smaller than first fit's",
        "place(lifetimes): an offset for each, no overlap of what is alive at once, a smaller arena than first fit",
        _case,
        _judge,
        hint="first fit is quick to put a small buffer where a large one would have fitted later. Who should choose first?",
        by_hand=(Lifetimes((Lifetime(0, 1, 256), Lifetime(1, 2, 256))), *_BEATEN, _HIGHEST_OFFSET, Blocks(4)),
        count=60,
    ),
    Exercise(
        "8.2",
        "the lower bound",
        "bound(lifetimes): the most bytes (room) that are alive at one kernel",
        _case,
        _judge_bound,
        hint="only where a buffer begins can the sum be largest",
        by_hand=(
            Lifetimes((Lifetime(0, 1, 256), Lifetime(1, 2, 256))),
            Lifetimes((Lifetime(0, 0, 512), Lifetime(1, 1, 256))),
            Lifetimes((Lifetime(0, 1, 48), Lifetime(1, 2, 300))),
        ),
        count=60,
    ),
)
