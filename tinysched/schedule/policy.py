"""Policies: the three choices of the scheduler that can be made in another way.

In: what a choice can go by. Out: the choice. :class:`Policies` is a value and part of the schedule cache's key, and so
every policy is one too (a frozen dataclass, or any object that is hashable and compares by what it does).

- **fusion**: does a removable buffer stay, or is its value computed again where it is read?
- **order**: which of the kernels that could run now runs next?
- **memory**: where in the arena does each intermediate lie? (:mod:`tinysched.schedule.planners`)

>>> Policies() == Policies(order=BreadthFirst()), Policies() == Policies(order=MemoryAware())
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol

from tinysched.ir.decision import Cost, Reason
from tinysched.ir.uop import UOp
from tinysched.schedule.planners import MemoryPlanner, Smallest, round_up

# ** fusion **


class Choice(NamedTuple):
    """Whether a buffer is kept, and why. It is true where the buffer is kept."""

    keep: bool
    reason: Reason = Reason.POLICY

    def __bool__(self) -> bool:
        return self.keep


class FusionPolicy(Protocol):
    """Asked about every STAGE that may be removed; a plain bool is a choice with Reason.POLICY."""

    def keep(self, stage: UOp, cost: Cost) -> Choice | bool: ...


def ask_fusion(policy: FusionPolicy, stage: UOp, cost: Cost) -> Choice:
    """The policy's choice with its reason."""
    answer = policy.keep(stage, cost)
    return answer if isinstance(answer, Choice) else Choice(answer)


def is_structural(policy: FusionPolicy) -> bool:
    """Whether a policy goes by what the buffers are (sizes, dtypes, how many) and not by which, so that equal parts of a
    graph get equal answers. A policy of yours may say so with an attribute ``structural = True``."""
    return getattr(policy, "structural", False)


@dataclass(frozen=True)
class Upstream:
    """Keeps what reads more than ``cost.limit`` buffers (those of one element not counted) or reduces over a buffer.

    ``limit``, if given, counts instead of the engine's.
    """

    structural: ClassVar[bool] = True

    limit: int | None = None

    def keep(self, stage: UOp, cost: Cost) -> Choice:
        limit = cost.limit if self.limit is None else self.limit
        if sum(buffer.size > 1 for buffer in cost.buffers) > limit:
            return Choice(True, Reason.COST_TOO_MANY_BUFFERS)
        if cost.reduces:
            return Choice(True, Reason.COST_REDUCE_READS_BUFFER)
        return Choice(False, Reason.ONLY_REORDERS)


@dataclass(frozen=True)
class Eager:
    """Keeps every buffer: nothing that could stay apart is fused."""

    structural: ClassVar[bool] = True

    def keep(self, stage: UOp, cost: Cost) -> Choice:
        return Choice(True)


@dataclass(frozen=True)
class AllLegal:
    """Removes every buffer that may be removed, at whatever cost."""

    structural: ClassVar[bool] = True

    def keep(self, stage: UOp, cost: Cost) -> Choice:
        return Choice(False)


# ** order **


@dataclass(frozen=True, slots=True)
class Ready:
    """A kernel that waits for no other any more: its number in the order the graph was walked, name, intermediates."""

    kernel: int
    name: str
    buffers: tuple[UOp, ...]


class Live:
    """The intermediates that are alive while kernels are put in order.

    One is alive from the first kernel that uses it to the last. Arguments of the whole schedule (PARAMs) always are and
    are not counted.
    """

    def __init__(self, uses: Iterable[Sequence[UOp]]):
        self.left: dict[UOp, int] = {}
        """How many kernels have yet to use a buffer."""
        self.sizes: dict[UOp, int] = {}
        """The buffers that are alive, with the bytes each takes."""
        for buffers in uses:
            for b in buffers:
                self.left[b] = self.left.get(b, 0) + 1
        self._rooms = {b: round_up(b.nbytes()) for b in self.left}

    @property
    def nbytes(self) -> int:
        """Bytes alive now."""
        return sum(self.sizes.values())

    def growth(self, kernel: Ready) -> int:
        """Bytes that come alive less bytes that die if ``kernel`` runs next."""
        born = sum(self._rooms[b] for b in kernel.buffers if b not in self.sizes)
        return born - sum(self._rooms[b] for b in kernel.buffers if self.left[b] == 1)

    def run(self, kernel: Ready) -> None:
        """``kernel`` is next in order."""
        for b in kernel.buffers:
            self.sizes[b] = self._rooms[b]
            self.left[b] -= 1
            if not self.left[b]:
                del self.sizes[b]


class OrderPolicy(Protocol):
    """Chooses the next kernel: the position in ``ready`` (in the order in which they became ready)."""

    def pick(self, ready: Sequence[Ready], live: Live) -> int: ...


@dataclass(frozen=True)
class BreadthFirst:
    """Upstream's queue: the kernel that has been ready for longest."""

    def pick(self, ready: Sequence[Ready], live: Live) -> int:
        return 0


@dataclass(frozen=True)
class MemoryAware:
    """The kernel after which the fewest bytes are alive; of equals the one that has been ready for longest.

    It looks at all ready kernels at each step, so a very wide graph takes longer to put in order.
    """

    def pick(self, ready: Sequence[Ready], live: Live) -> int:
        growth = [live.growth(kernel) for kernel in ready]
        return growth.index(min(growth))


# ** all three **


@dataclass(frozen=True)
class Policies:
    """How a schedule chooses. Hashable: part of the cache key."""

    fusion: FusionPolicy = field(default_factory=Upstream)
    order: OrderPolicy = field(default_factory=BreadthFirst)
    memory: MemoryPlanner = field(default_factory=Smallest)


DEFAULT: Final = Policies()

__all__ = [
    "DEFAULT", "AllLegal", "BreadthFirst", "Choice", "Eager", "FusionPolicy", "Live", "MemoryAware", "MemoryPlanner",
    "OrderPolicy", "Policies", "Ready", "Upstream", "ask_fusion",
]  # fmt: skip
