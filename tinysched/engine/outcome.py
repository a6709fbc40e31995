"""What a run means for Tensors: which values are computed by when, and what is lost if a kernel fails.

In: callify's ``buffer_map``, the Storages that a plan was made for, and its LINEAR. Out: commits (every live Storage whose
graph holds a computed node from now on reads its memory), and the Storages whose value is gone.

A write in place destroys an older state. While a Storage still needs that state for a value that is not computed yet, the
run must not be interrupted; if a device fails there, exactly these Storages are lost.

>>> from tinysched.dtypes import dtypes
>>> Outcome({}, (), frozenset()).stale(UOp(Ops.LINEAR, dtypes.void)) is None
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tinysched.ir.lines import add_line, lines_of
from tinysched.ir.ops import Ops
from tinysched.ir.rewrite import rebuild
from tinysched.ir.sharding import memories
from tinysched.ir.uop import UOp
from tinysched.schedule.accesses import accesses, written_slots
from tinysched.schedule.indexing import memory_of
from tinysched.tensor.storage import Storage, live_storages


@dataclass(eq=False)
class Outcome:
    """What a plan's run will mean.

    ``asked``: the Storages it was made for, each with its value and its number of writes then; ``args``: the call's buffers.
    """

    buffer_map: Mapping[UOp, UOp]
    asked: tuple[tuple[Storage, UOp, int], ...]
    args: frozenset[UOp]
    ran: bool = False
    existed: frozenset[UOp] = field(init=False)

    def __post_init__(self) -> None:
        self.existed = frozenset([b for b in self.args if b.realized is not None])

    # ** is it still true **

    def stale(self, linear: UOp) -> str | None:
        """Why the plan must not run (any more), or None."""
        overwrites = self.overwrites()
        for storage, value, writes in self.asked:
            if storage.writes != writes:
                return "a Tensor it was made for was written since"
            if overwrites and not self.ran and storage.uop is not value:
                return "a Tensor it was made for was realized since"
        if self.ran and overwrites and self._reads_what_it_overwrites(linear, overwrites):
            return "it has run, and it reads what it overwrote"
        return None

    def overwrites(self) -> frozenset[UOp]:
        """Memory that existed before the plan and that it writes to."""
        return self.existed.intersection(m for place in self.buffer_map.values() for m in _memories(place))

    @staticmethod
    def _reads_what_it_overwrites(linear: UOp, overwrites: frozenset[UOp]) -> bool:
        read = {call.src[1 + slot] for call in linear.src for slot in accesses(call.src[0]).reads}
        return not read.isdisjoint(overwrites)

    # ** when is what computed **

    def done_at(self, linear: UOp) -> dict[UOp, int]:
        """For every node of ``buffer_map`` the position of the kernel after which its value is whole."""
        writers = _writers(linear)
        states: dict[UOp, list[UOp]] = {}
        for node, place in self.buffer_map.items():
            for memory in _memories(place):
                states.setdefault(memory, []).append(node)
        done: dict[UOp, int] = {}
        for memory, nodes in states.items():
            at = writers.get(memory, [-1])
            nodes.sort(key=write_depth)
            exact = memory in self.existed and len(at) == len(nodes)
            for k, node in enumerate(nodes):
                done[node] = max(at[k] if exact else at[-1], done.get(node, -1))
        return done

    def overwritten(self, linear: UOp) -> list[tuple[int, UOp]]:
        """``(position, state)``: the kernel that starts to destroy each older state of memory that existed."""
        writers = _writers(linear)
        done = self.done_at(linear)
        found: list[tuple[int, UOp]] = []
        for node, place in self.buffer_map.items():
            if node.op is not Ops.AFTER:
                continue
            before = _state(node.src[0])
            for memory in self.existed.intersection(_memories(place)):
                if before.op is Ops.AFTER:
                    found.append((done[node], before))
                elif memory in writers or before is memory:
                    found.append((writers.get(memory, [-1])[0], memory))
        return found

    def lost(self, linear: UOp, position: int, *, partial: bool) -> list[Storage]:
        """Live Storages whose value is gone if the run ends before kernel ``position`` (``partial``: in the middle of it)."""
        done = self.done_at(linear)
        gone = {state for at, state in self.overwritten(linear) if at < position or (partial and at == position)}
        if not gone:
            return []
        finished = {node for node, at in done.items() if at < position}
        return [s for s in live_storages() if _needs(s.uop, gone, finished)]

    def asked_from(self, linear: UOp, position: int) -> UOp | None:
        """The first value that was to be computed by kernel ``position`` or one behind it."""
        later = [(at, i, node) for i, (node, at) in enumerate(self.done_at(linear).items()) if at >= position]
        return min(later)[2] if later else None

    def finish(self, linear: UOp, position: int) -> None:
        """Commits what kernels before ``position`` have computed."""
        done = self.done_at(linear) if position < len(linear.src) else {}
        commit({n: place for n, place in self.buffer_map.items() if done.get(n, -1) < position})


def write_depth(state: UOp) -> int:
    """How many writes a state has behind it."""
    n = 0
    while state.op not in (Ops.BUFFER, Ops.PARAM) and state.src:
        n += state.op is Ops.AFTER
        state = state.src[0]
    return n


def _writers(linear: UOp) -> dict[UOp, list[int]]:
    """The kernels that write each buffer, in order."""
    writers: dict[UOp, list[int]] = {}
    for i, call in enumerate(linear.src):
        for slot in written_slots(call.src[0]):
            writers.setdefault(memory_of(call.src[1 + slot]), []).append(i)
    return writers


def _memories(place: UOp) -> tuple[UOp, ...]:
    """The BUFFERs that a value lies in: one for each device."""
    return (memory_of(place),) if isinstance(place.device, str) else memories(place)


def _state(u: UOp) -> UOp:
    while u.op not in (Ops.AFTER, Ops.BUFFER, Ops.UNSHARD, Ops.MSTACK):
        u = u.src[0]
    return u


def _needs(root: UOp, gone: set[UOp], finished: set[UOp]) -> bool:
    """Whether a value still has to be computed from one of the states that are gone."""
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        u = stack.pop()
        if u in seen or u in finished:
            continue
        if u in gone:
            return True
        seen.add(u)
        stack.extend(u.src)
    return False


# ** committing **


def commit(buffer_map: Mapping[UOp, UOp]) -> None:
    """Every live Storage whose graph holds a computed node from now on reads its memory."""
    if not buffer_map:
        return
    reaches: dict[UOp, bool] = {}
    changed = [s for s in live_storages() if _reaches(s.uop, buffer_map, reaches)]
    became: dict[UOp, UOp] = dict(buffer_map)
    for s in changed:
        if s.uop not in became:
            order = s.uop.toposort(gate=lambda u: u not in became)
            rebuild(s.uop, became, order)
            for u in order:  # what is not computed yet was made by the same lines as before
                for line in lines_of(u):
                    add_line(became[u], line)
        s.set(became[s.uop])


def _reaches(root: UOp, keys: Mapping[UOp, UOp], known: dict[UOp, bool]) -> bool:
    """Whether one of ``keys`` is part of ``root``'s graph; what was found is remembered in ``known``."""
    stack = [root]
    while stack:
        u = stack[-1]
        if u in known:
            stack.pop()
        elif u in keys or not u.src:
            known[u] = u in keys
        elif missing := [s for s in u.src if s not in known]:
            stack.extend(missing)
        else:
            known[u] = any(known[s] for s in u.src)
    return known[root]


def mark_lost(storages: Iterable[Storage], why: str) -> None:
    """From now on reading these Storages raises :class:`LostValue`."""
    for s in storages:
        s.lost = why
