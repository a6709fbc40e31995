"""Decisions: what a pass decided about a value, why, and the numbers it went by.

In: nothing. Out: :class:`Decision` values, told to the observer at every branch that decides, for and against.

>>> Decision(None, "rangeify", Verdict.FUSED, Reason.SINGLE_CONSUMER).reason.name
'SINGLE_CONSUMER'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tinysched.ir.observe import current_observer


class Verdict(Enum):
    """What became of a value."""

    FUSED = "fused"  # computed where it is read
    REALIZED = "realized"  # gets a buffer
    PARTIALLY_REALIZED = "partially realized"  # gets a buffer for some axes only
    REMOVED = "removed"  # had a buffer, was fused back
    KEPT = "kept"  # a removable buffer stays
    SPLIT = "split"
    LIMITED = "limited"
    VIEW = "view"  # no kernel: another shape of memory that exists
    CACHED = "cached"
    SCHEDULED = "scheduled"
    IN_PLACE = "in place"
    FRESH = "fresh memory"
    SNAPSHOT = "snapshot"
    NO_BUFFER = "no buffer"
    PLACED = "placed"
    ORDERED = "ordered"
    COPIED = "copied"
    SHARDED = "sharded"


class Reason(Enum):
    """Why; each has its own evidence (a frozen dataclass below, or None)."""

    FORCED_OUTPUT = "the user asked for it"
    FORCED_CONTIGUOUS = "contiguous() asks for memory"
    FORCED_STORE = "a write needs its value"
    MULTI_DEVICE = "shards are read by their memory"
    STORE_READS_TARGET = "the write reads what it overwrites"
    SINGLE_CONSUMER = "one reader"
    CONSUMERS_AGREE = "all readers loop alike"
    CONSUMERS_DISAGREE = "readers loop differently"
    BEFORE_LOOPS = "it has no axes: computed once, before the loops of its reader"
    RANGE_ENDED = "a loop of its reader repeats it"
    COST_TOO_MANY_BUFFERS = "reads too many buffers"
    COST_REDUCE_READS_BUFFER = "a reduction inside reads a buffer"
    ONLY_REORDERS = "cheap to compute where it is read"
    USER_FORCED = "the user asked for a buffer"
    BUFFER_LIMIT = "the kernel would have too many arguments"
    REDUCE_SPLIT = "a large reduction to few values"
    REDUCE_NOT_SPLIT = "a reduction that does not split"
    CONSTANT = "it is a constant"
    DEAD_AXIS = "an axis along which nothing changes"
    CLOSED_FORM = "a sum that is arithmetic"
    BUFFER_VIEW = "a contiguous part of memory"
    HELD = "somebody still reads the old value"
    NOT_HELD = "nobody else reads the old value"
    SUPERSEDED = "only the next write reads it"
    TWO_STATES = "one kernel would read two states of a buffer"
    EMPTY = "it has no elements"
    INLINED = "a function that is not precompiled is part of the graph around it"
    PRECOMPILED = "a precompiled function is scheduled on its own"
    FUNCTION_ARGUMENT = "a precompiled function reads its arguments from memory"
    CACHE_HIT = "the same graph was scheduled before"
    CACHE_MISS = "no such graph was scheduled before"
    OVERRIDE = "an override says so"
    POLICY = "the fusion policy says so"
    ONE_BUFFER_PER_DEVICE = "each device keeps its own part"
    OWN_PART = "each device computes its own part"
    RESHARDED = "a device needs elements that lie on others"
    REPLICATED = "every device needs all of it"
    GATHERED = "one device asks for what lies on several"
    ALLREDUCE_NAIVE = "few elements or two devices: everybody gets everything"
    ALLREDUCE_RING = "many elements: chunks go around"
    ALLREDUCE_ALL2ALL = "each device adds up one chunk of all"
    CROSSES_DEVICES = "its reader is on another device"
    ONLY_MOVES_BYTES = "a kernel that only moves bytes between devices"
    SMALLER_ARENA = "the smaller arena of the planners tried"


@dataclass(frozen=True)
class Consumers:
    """The readers of a value and the index each uses, per axis; ``axes`` are those that fail."""

    consumers: tuple[Any, ...]
    indices: tuple[tuple[Any, ...], ...]
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ended:
    """The op whose loops end (an EXPAND, or a reader that broadcasts) and these loops."""

    by: Any
    ranges: tuple[Any, ...]


@dataclass(frozen=True)
class Cost:
    """Buffers that the value's computation reads, the limit, and the reductions inside that read one."""

    buffers: tuple[Any, ...]
    limit: int
    reduces: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Split:
    """Input size over output size of a reduction, the threshold, and how it splits (axis, pieces)."""

    ratio: int
    threshold: int
    axis: int = -1
    pieces: int = 0
    why: str = ""


@dataclass(frozen=True)
class Limit:
    """Arguments a kernel would have, and the most it may have."""

    buffers: int
    limit: int


@dataclass(frozen=True)
class Hazard:
    """The buffer that is written, and who else reads an older state of it."""

    buffer: Any
    readers: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Values:
    """Named facts that need no class of their own."""

    facts: tuple[tuple[str, Any], ...]


Evidence = Consumers | Ended | Cost | Split | Limit | Hazard | Values | None


@dataclass(frozen=True)
class Decision:
    """``stage`` decided ``verdict`` about ``node`` for ``reason``, going by ``evidence``."""

    node: Any
    stage: str
    verdict: Verdict
    reason: Reason
    evidence: Evidence = None


def decide(
    node: Any, stage: str, verdict: Verdict, reason: Reason, evidence: Evidence | Callable[[], Evidence] = None
) -> None:
    """Tells the observer, if there is one. Evidence that costs something is given as a function that makes it."""
    if (watcher := current_observer()) is not None:
        facts = evidence() if callable(evidence) else evidence
        watcher.on_decision(Decision(node, stage, verdict, reason, facts))
