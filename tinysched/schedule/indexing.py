"""The walk: which loop variables each value is computed over, and so which values need memory.

In: a prepared graph whose roots are AFTER(memory, STORE(target, value)). Out: :class:`Ranges`, for every computed value
the tuple of RANGEs its readers want it at (``out``), the tuple it wants its sources at (``ins``), and the axes on which it
must be stored (``realize``). Consumers come first; every branch is a Decision.

Views of memory and of constants have no place in the walk: each reader indexes them in its own way.

>>> from tinysched.ir.uop import UOp
>>> from tinysched.dtypes import dtypes
>>> a = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(1, 12, "NUMPY")).reshape((3, 4))
>>> out = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 3, "NUMPY"))
>>> total = a.rop(Ops.ADD, (1,))
>>> walk = run_rangeify(UOp.sink(out.after(out.store(total))))
>>> [str(i) for i in walk.ins[total]]
['<index R1>', '<index r0>']
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from tinysched.ir.decision import Consumers, Ended, Evidence, Hazard, Reason, Verdict, decide
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.spec import MEMORY
from tinysched.ir.symbolic.conditions import disjunction
from tinysched.ir.symbolic.movement import ZERO, Indices, apply_movement_op
from tinysched.ir.uop import TRUE, ParamArg, Shape, Sint, UOp
from tinysched.settings import PCONTIG

__all__ = ["MEMORY", "Overrides", "ParamArg", "Ranges", "apply_movement_op", "run_rangeify"]

_NOT_WALKED = frozenset({Ops.SINK, Ops.CALL, Ops.FUNCTION, Ops.LINEAR, Ops.MSTACK, Ops.MSELECT, Ops.RANGE, Ops.CONST})
_ENDS_LOOPS = GroupOp.Elementwise | {Ops.REDUCE}
_INHERITS = "rangeify"
_NO_LOOPS: frozenset[UOp] = frozenset()

Overrides = dict[UOp, str]
"""What if: a value to 'realize' (whatever the rules say) or to 'fuse' (recomputed in each reader)."""


@dataclass
class Ranges:
    """The outcome of the walk."""

    ins: dict[UOp, Indices] = field(default_factory=dict)
    out: dict[UOp, Indices] = field(default_factory=dict)
    realize: dict[UOp, list[int]] = field(default_factory=dict)
    removable: dict[UOp, bool] = field(default_factory=dict)
    hazards: dict[UOp, UOp] = field(default_factory=dict)  # a stored value -> its STORE, which it reads the target of
    sole_reader: set[UOp] = field(default_factory=set)  # stored values that one node reads
    shared: set[UOp] = field(default_factory=set)  # values that more than one kernel may come to compute
    readers: dict[UOp, list[UOp]] = field(default_factory=dict)  # who reads each computed value, in order
    order: list[UOp] = field(default_factory=list)  # the nodes of the graph, sources first
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_range(self, size: Sint, kind: AxisType = AxisType.LOOP) -> UOp:
        """A fresh loop variable; an axis of one element needs none."""
        return ZERO if isinstance(size, int) and size == 1 else UOp.range(size, next(self.numbers), kind)


def is_leaf(u: UOp) -> bool:
    """A view of memory or of a constant: its readers index it themselves."""
    base = u.base
    return base.op in MEMORY or base.op is Ops.CONST or base.is_variable


_LEAVES = MEMORY | {Ops.CONST}


def sources(u: UOp) -> tuple[UOp, ...]:
    """The sources that are values this node reads element by element."""
    return u.src[:1] if u.op in (Ops.AFTER, Ops.REDUCE) or u.op in GroupOp.Movement else u.src


def broadcast_axes(src: Shape, out: Shape) -> tuple[int, ...]:
    """Axes of ``out`` along which a source of shape ``src`` repeats."""
    extra = len(out) - len(src)
    return (*range(extra), *(i + extra for i, n in enumerate(src) if n == 1 and out[i + extra] != 1))


def indices_for(reader: UOp, source: UOp, ins: Indices) -> Indices:
    """The indices at which ``reader`` wants ``source``: index 0 on axes that are broadcast."""
    if reader.op is Ops.STACK or reader.op not in GroupOp.Broadcastable:
        return ins
    shape = source.shape
    if len(shape) == len(ins) and shape == reader.shape:
        return ins
    extra = len(ins) - len(shape)
    repeats = broadcast_axes(shape, reader.shape)
    return tuple(ZERO if i in repeats else r for i, r in enumerate(ins) if i >= extra)


# ** what must be in memory whatever fusion would like **


def pm_generate_realize_map(order: list[UOp], ranges: Ranges, overrides: Overrides) -> None:
    """CONTIGUOUS and the user's writes; sources of MSTACK and MSELECT; values that overwrite what they read."""
    stored = _stored_with_options(order)
    reads = _reads_of_written(order)
    for u in order:
        if u.op is Ops.CONTIGUOUS and u not in stored and overrides.get(u) != "fuse":
            _force(ranges, u, Reason.FORCED_CONTIGUOUS, removable=False)
        elif u.op is Ops.COPY and u.src[0].device is not None:  # a constant is computed where it is read
            _force(ranges, u, Reason.CROSSES_DEVICES, removable=False)
        elif u.op is Ops.STORE:
            ranges.realize[u] = list(range(len(u.shape)))
            decide(u, _INHERITS, Verdict.REALIZED, Reason.FORCED_STORE)
            if reads[u]:
                _realize_store_source(ranges, u)
        elif u.op in (Ops.MSTACK, Ops.MSELECT):
            for s in u.src:
                if not is_leaf(s):
                    _force(ranges, s, Reason.MULTI_DEVICE, removable=False)


def _stored_with_options(order: list[UOp]) -> set[UOp]:
    """The CONTIGUOUS with options that a STORE alone reads: its memory is theirs, and its kernel takes the options."""
    hints = {u for u in order if u.op is Ops.CONTIGUOUS and u.arg is not None}
    stored = {u.src[1] for u in order if u.op is Ops.STORE} & hints
    return {u for u in stored if sum(u in r.src for r in order) == 1} if stored else stored


def _force(ranges: Ranges, u: UOp, reason: Reason, *, removable: bool, evidence: Evidence = None) -> None:
    ranges.realize[u] = list(range(len(u.shape)))
    ranges.removable[u] = removable and ranges.removable.get(u, True)
    decide(u, _INHERITS, Verdict.REALIZED, reason, evidence)


def _reads_of_written(order: list[UOp]) -> dict[UOp, bool]:
    """Of each STORE whether its value reads the memory that it writes.

    Each written memory is a bit; one pass gives every node the bits of the memories that it is computed from.
    """
    stores = [u for u in order if u.op is Ops.STORE]
    bits = {memory: 1 << i for i, memory in enumerate(dict.fromkeys(memory_of(u.src[0]) for u in stores))}
    found: dict[UOp, int] = {}
    for u in order:
        mask = bits.get(memory_of(u), 0) if u.op in MEMORY else 0
        if u.op is not Ops.AFTER:  # a state is read, not what it was made of
            for s in u.src:
                mask |= found[s]
        found[u] = mask
    return {u: bool(found[u.src[1]] & bits[memory_of(u.src[0])]) for u in stores}


def _realize_store_source(ranges: Ranges, store: UOp) -> None:
    """A value that reads the memory it is written to is stored first, until the indices prove that it need not be."""
    target, value = store.src
    ranges.hazards[value] = store
    if not is_leaf(value):
        _force(ranges, value, Reason.STORE_READS_TARGET, removable=True, evidence=Hazard(memory_of(target)))


def memory_of(u: UOp) -> UOp:
    """The memory below states and views. Remembered on each state: a chain of n writes is walked once, not n times."""
    path: list[UOp] = []
    while u.op not in (Ops.PARAM, Ops.BUFFER) and u.src:
        if (known := getattr(u, "_root", None)) is not None:
            u = known
            break
        path.append(u)
        u = u.src[0]
    for passed in path:
        passed._root = u
    return u


# ** the walk **


def run_rangeify(sink: UOp, overrides: Overrides | None = None) -> Ranges:
    """Gives every computed value its RANGEs, consumers first."""
    ranges = Ranges()
    order = ranges.order = sink.toposort()
    overrides = overrides or {}
    pm_generate_realize_map(order, ranges, overrides)
    for u, what in overrides.items():
        if what == "realize" and u not in ranges.realize and not is_leaf(u):
            _force(ranges, u, Reason.OVERRIDE, removable=False)
    readers = ranges.readers = _readers(order)
    ended: dict[UOp, frozenset[UOp]] = {}
    watcher = current_observer()
    for x in reversed(order):
        if x.op in _NOT_WALKED or x.op is Ops.AFTER or x not in readers:
            continue
        wanted = [indices_for(c, x, ranges.ins[c]) for c in readers[x] if c in ranges.ins]
        if x not in ranges.realize and not wanted:
            continue
        _walk_node(x, readers[x], wanted, ranges, ended)
        if watcher is not None:
            facts = {"node": x, "in": ranges.ins[x], "out": ranges.out[x], "realized": ranges.realize.get(x)}
            watcher.on_event("ranges", facts)
    return ranges


def _readers(order: list[UOp]) -> dict[UOp, list[UOp]]:
    """Who reads each computed value, in order; views of memory are left out."""
    readers: dict[UOp, list[UOp]] = {}
    for c in order:  # a view's source stands before it
        if c.op in _LEAVES or c.is_variable or (c.op in GroupOp.Movement and c.src[0] not in readers):
            continue
        readers[c] = []
        if c.op is Ops.SINK:
            continue
        for s in dict.fromkeys(sources(c)):
            if s in readers:
                readers[s].append(c)
    return readers


def _walk_node(
    x: UOp, readers: list[UOp], wanted: list[Indices], ranges: Ranges, ended: dict[UOp, frozenset[UOp]]
) -> None:
    if len(readers) == 1:
        ranges.sole_reader.add(x)
        over = ended.get(readers[0], _NO_LOOPS)
    else:
        over = _NO_LOOPS.union(*[ended[c] for c in readers if c in ended])
    above = ranges.shared.intersection(readers)
    if len(readers) > 1 or (above and not all(c in ranges.realize for c in above)):
        ranges.shared.add(x)
    repeated = _repeated_loops(x, readers, ranges)
    if x.op is Ops.REDUCE:
        over |= repeated
    if x in ranges.realize:
        out = tuple(ranges.new_range(n) for n in x.shape)
        over = _NO_LOOPS
    elif len(wanted) == 1:
        out = wanted[0]
    else:
        out = _merge(x, readers, wanted, ranges)
    if over and x.op in _ENDS_LOOPS:
        out = _end_loops(x, out, over, readers, ranges)
        over = _NO_LOOPS
    elif x not in ranges.realize and len(wanted) == 1:
        evidence = lambda: Consumers(tuple(readers), tuple(wanted))  # noqa: E731
        decide(x, _INHERITS, Verdict.FUSED, Reason.SINGLE_CONSUMER, evidence)
    if repeated:
        over |= repeated
    ranges.out[x] = out
    ranges.ins[x] = _inputs(x, out, ranges)
    if x.op is Ops.EXPAND and all(isinstance(n, int) for n in x.shape):
        over |= _loops(out[: len(x.arg)])
    ended[x] = over


def _loops(indices: Indices) -> frozenset[UOp]:
    """The loop variables in some indices."""
    return _NO_LOOPS.union(*[i.ranges for i in indices])


def _repeated_loops(x: UOp, readers: list[UOp], ranges: Ranges) -> frozenset[UOp]:
    """Loops of readers that broadcast ``x``: inside them its value is the same every time."""
    found: list[UOp] = []
    shape = x.shape
    for c in readers:
        if c.op in GroupOp.Broadcastable and c.shape != shape and c in ranges.ins:
            found += [ranges.ins[c][i] for i in broadcast_axes(shape, c.shape)]
    return _loops(tuple(found)) if found else _NO_LOOPS


def _merge(x: UOp, readers: list[UOp], wanted: list[Indices], ranges: Ranges) -> Indices:
    """Several readers: one loop if they agree (whatever their conditions), new loops and memory if they do not."""
    per_axis = list(zip(*wanted, strict=True))
    agrees = [len({i.get_idx() for i in axis}) == 1 for axis in per_axis]
    shared = any(a and axis[0].get_idx() is not ZERO for a, axis in zip(agrees, per_axis, strict=True))
    partial = bool(PCONTIG) and shared and not all(agrees)
    out: list[UOp] = []
    new_axes: list[int] = []
    for i, axis in enumerate(per_axis):
        if all(agrees) or (partial and agrees[i]):
            out.append(axis[0].get_idx().valid(disjunction(a.get_valid() for a in axis)))
        else:
            out.append(ranges.new_range(x.shape[i]))
            new_axes.append(i)
    failed = tuple(i for i, a in enumerate(agrees) if not a)
    evidence = Consumers(tuple(readers), tuple(wanted), failed)
    if new_axes:
        ranges.realize[x] = new_axes
        verdict = Verdict.PARTIALLY_REALIZED if partial else Verdict.REALIZED
        decide(x, _INHERITS, verdict, Reason.CONSUMERS_DISAGREE, evidence)
    else:
        decide(x, _INHERITS, Verdict.FUSED, Reason.CONSUMERS_AGREE, evidence)
    return tuple(out)


def _end_loops(x: UOp, out: Indices, over: frozenset[UOp], readers: list[UOp], ranges: Ranges) -> Indices:
    """Computed inside a loop that does not change it, this would be computed again and again: it gets memory.

    A value without axes that one kernel reads needs none: it is computed once, before the loops.
    """
    if not out and x not in ranges.shared and x not in ranges.realize:
        decide(x, _INHERITS, Verdict.FUSED, Reason.BEFORE_LOOPS, Consumers(tuple(readers), ((),)))
        return out
    axes = ranges.realize.get(x, [])
    new = tuple(r if i in axes else ranges.new_range(n) for i, (r, n) in enumerate(zip(out, x.shape, strict=True)))
    ranges.realize[x] = list(range(len(x.shape)))
    loops = tuple(sorted(over, key=lambda r: int(r.arg[0])))
    decide(x, _INHERITS, Verdict.REALIZED, Reason.RANGE_ENDED, Ended(readers[0] if readers else None, loops))
    return new


def _inputs(x: UOp, out: Indices, ranges: Ranges) -> Indices:
    """The indices at which ``x`` wants its sources."""
    if x.op in GroupOp.Movement:
        return apply_movement_op(x.op, x.src[0].shape, x.arg, out)
    if x.op is Ops.STACK:
        return out[1:]
    if x.op is Ops.REDUCE:
        loops = tuple(ranges.new_range(n, AxisType.REDUCE) for n in x.src[0].shape[: x.arg[1]])
        return loops + out
    return out


def valid_of(indices: Indices) -> list[UOp]:
    """The conditions that some indices carry."""
    return [v for i in indices if (v := i.get_valid()) is not TRUE]
