"""Which kernel computes what: followed through the events of every pass, never guessed from likeness.

In: every (old, new) that was told, and for each kernel the graph it was cut from. Out: for each node, of every stage, the
kernels whose loops compute its value (as bits, since one value may be computed in several).

A rewrite says "this value is now that one". Where the new node only hands a value on (a STAGE, a write, memory after a
write, a read of these), the value itself is what is stored: :func:`value_of` looks through them.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import UOp
>>> memory, x = UOp.new_buffer("NUMPY", 1, dtypes.float32), UOp.const(1.0, dtypes.float32)
>>> value_of(memory.after(memory.index(UOp.const(0)).store(x))) is x
True
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tinysched.dtypes import dtypes, strong_dtype
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import parts_of
from tinysched.ir.uop import UOp

_WRITES = (Ops.STORE, Ops.END)
_MOVES = GroupOp.Movement | GroupOp.Passthrough
_HANDS_ON = GroupOp.Movement | {Ops.INDEX, Ops.LOAD}
_BOUNDARIES = frozenset({Ops.AFTER, Ops.BUFFER, Ops.PARAM, Ops.CALL, Ops.STAGE})


def value_of(u: UOp) -> UOp:
    """The node that computes what ``u`` hands on; ``u`` itself where it computes, or reads memory as it came."""
    while True:
        if u.op is Ops.STAGE or u.op is Ops.END or u.op in GroupOp.Passthrough:
            u = u.src[0]
        elif u.op is Ops.STORE:
            u = u.src[1]
        elif u.op is Ops.AFTER and u.src[-1].op in _WRITES:
            u = u.src[-1]
        elif hands_on(u) and (inner := _written_below(u)) is not None:
            u = inner
        else:
            return u


def hands_on(u: UOp) -> bool:
    """Whether ``u`` only shows its source: a view, a read, or a cast between a weak type and the type it is stored as."""
    return u.op in _HANDS_ON or (u.op is Ops.CAST and strong_dtype(u.dtype) is strong_dtype(u.src[0].dtype))


def _written_below(u: UOp) -> UOp | None:
    """The STAGE, or the state after a write, that ``u`` is a view of or reads."""
    while hands_on(u):
        u = u.src[0]
    return u if u.op is Ops.STAGE or (u.op is Ops.AFTER and u.src[-1].op in _WRITES) else None


def inside(write: UOp) -> list[UOp]:
    """The nodes that a write computes, up to the memory it reads; ``write`` is END, STORE or a kernel's SINK."""
    return [u for u in write.toposort(gate=lambda u: u is write or u.op not in _BOUNDARIES) if u.op not in _BOUNDARIES]


def reads_a_kernel(u: UOp) -> bool:
    """Whether ``u`` reads memory that a kernel wrote: then its value is not computed where it stands."""
    while u.op in (Ops.INDEX, Ops.LOAD):
        u = u.src[0]
        if u.op in (Ops.STAGE, Ops.AFTER):
            return True
    return False


@dataclass
class Provenance:
    """Bits of kernels: those that compute a node's value, that store exactly it, and in which a read of memory stands."""

    computed: dict[UOp, int] = field(default_factory=dict)
    stored: dict[UOp, int] = field(default_factory=dict)
    reads: dict[UOp, int] = field(default_factory=dict)

    def kernels(self, u: UOp) -> list[int]:
        """The kernels in whose loops ``u`` stands, by number."""
        return numbers(self.reads[u] if u in self.reads else self.computed.get(u, 0))


def numbers(bits: int) -> list[int]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def origins(tensor_graph: Iterable[UOp], flow: list[tuple[UOp, UOp]]) -> dict[UOp, UOp]:
    """For nodes of every stage the tensor-graph node whose value they are, or are a part of.

    What an event made besides the node that it told of is a part of the same value. Memory that is read has none.
    """
    found = {u: u for u in tensor_graph if u.op not in _BOUNDARIES and not hands_on(u)}
    for old, new in flow:
        if (origin := found.get(value_of(old))) is not None:
            found.setdefault(value_of(new), origin)
    for old, new in flow:  # now what was made besides: it ends where others begin
        if (origin := found.get(value_of(old))) is not None:
            for v in new.toposort(lambda v: v not in found and v.op not in _BOUNDARIES):
                if v.dtype is not dtypes.index and not hands_on(v):
                    found.setdefault(v, origin)
    return found


def cut_from(calls: Iterable[UOp], flow: list[tuple[UOp, UOp]]) -> list[UOp | None]:
    """For each final CALL the write it was cut from: the events are followed back until a node that is no CALL."""
    came: dict[UOp, UOp] = {}
    for old, new in flow:
        if new.op is Ops.CALL and old is not new and (old.op is not Ops.CALL or new not in came):
            came[new] = old
    found: list[UOp | None] = []
    for call in calls:
        u: UOp | None = call
        seen: set[UOp] = set()
        while u is not None and u.op is Ops.CALL and u not in seen:
            seen.add(u)
            u = came.get(u)
        found.append(u if u is not None and u.op is not Ops.CALL else None)
    return found


def follow(writes: list[UOp | None], flow: list[tuple[UOp, UOp]]) -> Provenance:
    """Carries each kernel's nodes back through the events, last first."""
    found = Provenance()
    for k, write in enumerate(writes):
        if write is None:
            continue
        for u in inside(write):
            table = found.reads if reads_a_kernel(u) else found.computed
            table[u] = table.get(u, 0) | 1 << k
        v = value_of(write)
        found.stored[v] = found.stored.get(v, 0) | 1 << k
    for old, new in reversed(flow):
        _carry(found, old, new)
    return found


def _carry(found: Provenance, old: UOp, new: UOp) -> None:
    parts = parts_of(new)  # on several devices each computes its own part
    values = [new, *parts, *(value_of(part) for part in parts or (new,))]
    for table in (found.computed, found.stored):
        bits = 0
        for value in values:
            bits |= table.get(value, 0)
        if bits:
            table[old] = table.get(old, 0) | bits
    if new in found.reads and (old.op in (Ops.INDEX, Ops.LOAD) or old.op in _MOVES):
        found.reads[old] = found.reads.get(old, 0) | found.reads[new]
