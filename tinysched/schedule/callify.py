"""Callify: a graph becomes a function call, so that the same computation on other buffers is the same graph.

In: the Storages that are asked for, and all others that are alive (they decide what is held and what may be overwritten).
Out: ``CALL(body, *arguments)`` and ``buffer_map`` (a node of the user's graph -> where its value will be). The user's graph
is only read.

What must be in memory: the asked values, every write, and each CONTIGUOUS that somebody holds. A write happens in place
only if nobody outside of this schedule still reads an older state; else it goes to fresh memory (for a part of a buffer,
a copy of it).

>>> from tinysched import Tensor
>>> x = Tensor([1.0, 2.0]).realize()
>>> y = x + 1
>>> call, buffer_map, var_vals = transform_to_call([y.storage])
>>> [u.op.name for u in call.src], len(buffer_map)
(['SINK', 'BUFFER', 'BUFFER'], 1)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinysched.dtypes import strong_dtype
from tinysched.ir.decision import Hazard, Reason, Values, Verdict, decide
from tinysched.ir.derive import max_shape, prod
from tinysched.ir.function import without_hint
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import MANY_DEVICES, SPREAD, axis_of, check_devices, in_memory, is_memory, unshard
from tinysched.ir.symbolic.movement import stretch_of
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.functions import is_left_by_call
from tinysched.schedule.indexing import memory_of
from tinysched.tensor.storage import Storage, live_storages, replace_base
from tinysched.tensor.variables import Bindings, bindings, stripped


@dataclass
class Allocation:
    """What became of the user's nodes, and where values will be."""

    device: str
    became: dict[UOp, UOp] = field(default_factory=dict)
    changed: set[UOp] = field(default_factory=set)  # the nodes that became another one
    values: dict[UOp, UOp] = field(default_factory=dict)  # views of superseded states -> the value that was written
    buffer_map: dict[UOp, UOp] = field(default_factory=dict)
    roots: list[UOp] = field(default_factory=list)


class Asked(NamedTuple):
    """What callify goes by: a graph, the nodes that get memory of their own, and the states of memory that Storages outside
    will still read, with who does."""

    order: list[UOp]
    must: set[UOp]
    readers: dict[UOp, str]


def asked_graph(asked: Iterable[Storage]) -> list[UOp]:
    """The nodes that have to be computed for some Storages, their SINK last."""
    return graph_of([s.uop for s in asked if not _is_virtual(s.uop)])


def look_around(asked: Iterable[Storage], order: list[UOp], device: str) -> Asked:
    """What all Storages that are alive mean for a graph."""
    storages = list(dict.fromkeys(asked))
    must = add_tags(order, storages, device)
    writes = Ops.AFTER in {u.op for u in order}  # else it does not matter who else reads what
    return Asked(order, must, _outside_states(storages, must) if writes else {})


def transform_to_call(
    asked: Collection[Storage] | Asked, *, device: str = "NUMPY", fresh: frozenset[UOp] = frozenset()
) -> tuple[UOp, dict[UOp, UOp], dict[str, int]]:
    """The call that computes the asked Storages, where every value will be, and the values of its Variables.

    ``fresh``: writes (AFTER nodes) that must not happen in place although nobody outside reads the old state, because a
    kernel of an earlier attempt would have needed both.
    """
    if not isinstance(asked, Asked):
        asked = look_around(asked, asked_graph(asked), device)
    order, must, readers = asked
    not_in_place = _held_writes(order, readers, fresh)
    superseded = {} if fresh else _superseded(order, readers, not_in_place)
    state = Allocation(device)
    for u in order[:-1]:
        v = _rebuilt(state, u)
        if u in superseded:
            state.became[u] = v.src[0]
            state.values[superseded[u]] = v.src[1].src[1]
        elif u.op is Ops.AFTER:
            state.became[u] = _write(state, u, v, u in not_in_place)
        elif u in must:
            state.became[u] = replace_contig_with_store_after(state, u, v)
        else:
            state.became[u] = v
        if state.became[u] is not u:
            state.changed.add(u)
    body = UOp.sink(*dict.fromkeys(state.roots)).toposort()
    bound = bindings(state.roots, body)
    call, final = pm_replace_buf(body, bound)
    _tell(state, order, final)
    if call.src[0].tag == SPREAD:
        check_devices(order)
    return call, state.buffer_map, bound.var_vals


def _rebuilt(state: Allocation, u: UOp) -> UOp:
    """A node over what its sources became; whoever reads a superseded state reads the value that was written."""
    if state.changed.isdisjoint(u.src):
        return u
    if state.values and u.op is not Ops.AFTER:
        as_value = [state.values.get(s, state.became[s]) for s in u.src]
        src = (state.became[u.src[0]], *as_value[1:]) if u.op is Ops.STORE else tuple(as_value)
    else:
        src = tuple([state.became[s] for s in u.src])
    return u.over(src)


def _tell(state: Allocation, order: list[UOp], final: dict[UOp, UOp]) -> None:
    """Tells who watches what each node of the user's graph became: the write that stores it, and its value in the body."""
    if (watcher := current_observer()) is None:
        return
    for u in order[:-1]:
        became = state.became[u]
        pairs = [(u, became), (u, _rebuilt(state, u))]
        if u in state.buffer_map:  # what was asked for may be a cast and a view of what is written
            root = (became.src[0] if became.op is Ops.CAST else became).base
            pairs = [(u, root), *(zip(u.src[1:], root.src[1:]) if u.op is Ops.AFTER else ()), *pairs]
        for old, new in dict.fromkeys(pairs):
            if (now := final.get(new, old)) is not old:
                watcher.on_replace(old, now)


def _is_virtual(u: UOp) -> bool:
    """Memory that exists, constants and empty values need no kernel."""
    base = u.base
    return base.op is Ops.CONST or (base.op in _STATES and is_memory(base)) or 0 in base.shape


# ** which nodes end up in memory **


def graph_of(values: Iterable[UOp]) -> list[UOp]:
    """The nodes of some values' graph, its SINK last; a function that is called does all that it does, writes too."""
    order = UOp.sink(*dict.fromkeys(values)).toposort()
    while more := _writes_of_calls(order):
        order = UOp.sink(*order[-1].src, *more).toposort()
    return order


def _writes_of_calls(order: list[UOp]) -> list[UOp]:
    """Pending writes of functions that a graph calls, which are not part of it."""
    called = [u for u in order if u.op is Ops.FUNCTION]
    if not called:
        return []
    known, found = set(order), dict[UOp, None]()
    for s in live_storages():
        w = s.uop.base
        while w.op is Ops.AFTER and w not in known:
            value = w.src[1].src[1] if w.src[1].op is Ops.STORE else w
            if value.op is Ops.GETTUPLE and value.src[0] in called:
                found[w] = None
            w = w.src[0].base
    return list(found)


def add_tags(order: list[UOp], asked: list[Storage], device: str) -> set[UOp]:
    """The nodes that get memory of their own: bases of the asked values (below the SINK), writes, and held CONTIGUOUS.

    What is computed of constants belongs to the default device: values elsewhere do not make it memory there.
    """
    values = order[-1].src
    must = {v.base for v in values}
    hints = [u for u in order if u.op is Ops.CONTIGUOUS and u not in must]
    hints = [u for u in hints if u.src[0].base.op is not Ops.CONST]  # a constant is no work to compute again
    if hints and not all(v.device is None or v.device == device for v in values):
        hints = [u for u in hints if u.device is not None]
    if hints:
        must |= _held(hints, asked, must)
    return must | {u for u in order if u.op is Ops.AFTER}


def _others(asked: list[Storage]) -> list[Storage]:
    """Storages that somebody holds and that this schedule does not compute."""
    mine = set(asked)
    return [s for s in live_storages() if s not in mine]


def _held(hints: list[UOp], asked: list[Storage], must: set[UOp]) -> set[UOp]:
    """The CONTIGUOUS nodes that a Storage outside of the schedule still reads once other held values are memory."""
    wanted, held, seen = set(hints), set[UOp](), set[UOp]()
    for s in _others(asked):
        stack = [s.uop]
        while stack:
            u = stack.pop()
            if u in seen or u in must:
                continue
            seen.add(u)
            if u in wanted:
                held.add(u)
            else:
                stack.extend(u.src)
    return held


def _held_writes(order: list[UOp], readers: dict[UOp, str], fresh: frozenset[UOp]) -> frozenset[UOp]:
    """The writes that may not happen in place: a state they overwrite is still read from outside, or overwritten twice.

    Those in ``fresh`` may not either: a kernel would read both states.
    """
    writes = [u for u in order if u.op is Ops.AFTER]
    following: dict[UOp, list[UOp]] = {}
    for w in writes:
        following.setdefault(w.src[0].base, []).append(w)
    why: dict[UOp, str] = {w: "overwritten twice" for ws in following.values() for w in ws[1:]}
    for state, ws in following.items():
        if state in readers:
            why.update((w, readers[state]) for w in ws)
    for w in writes:
        memory = memory_of(w)
        if w in why:
            decide(w, "callify", Verdict.FRESH, Reason.HELD, Hazard(memory, (why[w],)))
        elif w in fresh:
            decide(w, "callify", Verdict.FRESH, Reason.TWO_STATES, Hazard(memory))
        elif is_left_by_call(w):
            why[w] = "the function that computes it"
            decide(w, "callify", Verdict.FRESH, Reason.PRECOMPILED, Hazard(memory, (why[w],)))
        else:
            decide(w, "callify", Verdict.IN_PLACE, Reason.NOT_HELD, Hazard(memory))
    return fresh.union(why)


def _superseded(order: list[UOp], readers: dict[UOp, str], not_in_place: frozenset[UOp]) -> dict[UOp, UOp]:
    """Writes of a whole value that only the next such write reads: the value is passed on and never stored.

    Maps each to the view of it that the next write reads and overwrites.
    """
    writes = [u for u in order if u.op is Ops.AFTER]
    chained = {w.src[0].base for w in writes if w.src[0].base.op is Ops.AFTER}
    if not chained:
        return {}
    users: dict[UOp, list[UOp]] = {}
    for u in order:
        for s in u.src:
            users.setdefault(s, []).append(u)
    owners = _owners(order)
    found: dict[UOp, UOp] = {}
    for w in writes:
        if w not in chained or w in readers or w in not_in_place or len(w.src) != 2:
            continue
        target = w.src[1].src[0]
        following = [u for u in users[w] if u.op is Ops.AFTER]
        if target.base is not w.src[0].base or len(following) != 1 or following[0] in not_in_place:
            continue
        view, store = replace_base(target, w), following[0].src[1]
        if store.src[0] is view and _only_read_by(store, view, w, users, owners):
            found[w] = view
            decide(w, "callify", Verdict.REMOVED, Reason.SUPERSEDED)
    return found


def _owners(order: list[UOp]) -> dict[UOp, UOp | None]:
    """The one write (STORE) whose value a node is part of; None for several, or for a value that is asked for."""
    owners: dict[UOp, UOp | None] = {}
    for u in reversed(order):
        owner = u if u.op is Ops.STORE else None if u.op is Ops.SINK else owners.get(u)
        for s in () if u.op is Ops.AFTER else u.src:
            owners[s] = owner if owners.get(s, owner) is owner else None
    return owners


def _only_read_by(store: UOp, view: UOp, w: UOp, users: dict[UOp, list[UOp]], owners: dict[UOp, UOp | None]) -> bool:
    """Whether a state is read through ``view`` alone, and that by the value of ``store`` alone."""
    chain = [view]
    while chain[-1] is not w:
        chain.append(chain[-1].src[0])
    below = set(chain)
    between = [u for m in chain[1:] for u in users[m] if u not in below and u.op is not Ops.AFTER]
    return not between and all(u is store or owners.get(u) is store for u in users[view] if u.op is not Ops.AFTER)


def _outside_states(asked: list[Storage], must: set[UOp]) -> dict[UOp, str]:
    """The memory states that Storages outside will still read once the nodes in ``must`` are computed."""
    found: dict[UOp, str] = {}
    seen: set[UOp] = set()
    for s in _others(asked):
        stack = [s.uop]
        while stack:
            u = stack.pop()
            if u in seen:
                continue
            seen.add(u)
            if u.op in _STATES:
                found.setdefault(u, f"a Tensor of shape {s.uop.shape}")
            if u not in must or _shows_memory(u):
                stack.extend(u.src)
    for s in asked:
        base = s.uop.base
        while _shows_memory(base):
            base = base.src[0].base
        if base.op in _STATES:
            found.setdefault(base, "an asked Tensor")
    return found


def _shows_memory(u: UOp) -> bool:
    """Whether a CONTIGUOUS will be a view of memory that exists: whoever holds it reads that state."""
    return u.op is Ops.CONTIGUOUS and u.arg is None and _existing(u.src[0]) is not None


_STATES = frozenset({Ops.BUFFER, Ops.AFTER, Ops.UNSHARD, Ops.MSTACK})
"""What may be memory: on one device, as a write left it, on several devices."""


# ** memory for values **


def replace_contig_with_store_after(state: Allocation, u: UOp, v: UOp) -> UOp:
    """A value that must be in memory -> new BUFFER + STORE + AFTER; nothing where it is memory already."""
    source = v.src[0] if v.op is Ops.CONTIGUOUS and v.arg is None else without_hint(v)
    if v.op is Ops.CONTIGUOUS and (view := _existing(source)) is not None:
        decide(u, "callify", Verdict.VIEW, Reason.BUFFER_VIEW)
        state.buffer_map[u] = _plain(view)
        return view
    if 0 in u.shape:
        return v
    decide(u, "callify", Verdict.REALIZED, Reason.FORCED_OUTPUT)
    target = _new_memory(u, u.device or state.device)
    written = target.base.after(target.store(source.cast(target.dtype)))
    state.roots.append(written)
    state.buffer_map[u] = target.cast(u.dtype)
    return replace_base(target, written).cast(u.dtype)


def _new_memory(u: UOp, device: str | tuple[str, ...]) -> UOp:
    """Memory in the shape of a value: one buffer, or one for each device, which has its part of the value."""
    dtype = strong_dtype(u.dtype)
    if isinstance(device, str):
        return _shaped(UOp.new_buffer(device, prod(max_shape(u.shape)), dtype), u.shape)
    axis = axis_of(u)
    shape = tuple(n // len(device) if i == axis else n for i, n in enumerate(u.shape))
    facts = (("axis", axis), ("devices", device))
    decide(u, "callify", Verdict.SHARDED, Reason.ONE_BUFFER_PER_DEVICE, Values(facts))
    return unshard([_shaped(UOp.new_buffer(d, prod(max_shape(shape)), dtype), shape) for d in device], axis)


def _shaped(memory: UOp, shape: tuple[Any, ...]) -> UOp:
    """Flat memory in a value's shape (the first elements, where a Variable makes the value smaller)."""
    most = max_shape(shape)
    full = memory.reshape(most)
    return full if most == shape else full.shrink(tuple((0, n) for n in shape))


def _existing(source: UOp) -> UOp | None:
    """Movement ops over memory that show one contiguous stretch of it in order: the value is there already."""
    base = source.base
    if isinstance(base.device, tuple):  # on several devices: all of it, as it lies
        return source if source.op is Ops.AFTER or is_memory(source) else None
    if base.op not in (Ops.BUFFER, Ops.AFTER) or (start := stretch_of(source)) is None:
        return None
    if source is base:
        return source
    return base.shrink(((start, start + prod(source.shape)),)).reshape(source.shape)


def _plain(u: UOp) -> UOp:
    """A view of a state as the view of its memory: how the value is found once the schedule has run."""
    return replace_base(u, _memory(u))


def _memory(u: UOp) -> UOp:
    """The memory below a state, in the form that it has on its device or devices."""
    if isinstance(u.device, str):
        return memory_of(u)
    while u.op is Ops.AFTER or u.op in GroupOp.Movement:
        u = u.src[0]
    return u


def _write(state: Allocation, u: UOp, v: UOp, fresh: bool) -> UOp:
    """A write: into the memory it names, or into fresh memory that starts as a copy of it."""
    before, *stores = v.src
    if fresh:
        old = _memory(before)
        memory = in_memory(old, lambda device, size: UOp.new_buffer(device, size, old.dtype))
        start = memory if _covers(stores, prod(memory.shape)) else memory.after(memory.store(before))
        stores = [s.replace(src=(replace_base(s.src[0], start), s.src[1])) for s in stores]
        v = start.after(*stores)
    state.roots.append(v)
    state.buffer_map[u] = _memory(v)
    return v


def _covers(stores: list[UOp], size: int) -> bool:
    """Whether the writes reach every element (views that are written through show each element at most once)."""
    return any(prod(s.src[0].shape) == size for s in stores)  # a size with a Variable equals no number


# ** arguments **


def pm_replace_buf(order: list[UOp], bound: Bindings) -> tuple[UOp, dict[UOp, UOp]]:
    """BUFFERs of a body -> PARAMs with a slot, in order of first use: the same graph on other memory is the same node.

    In: the body's nodes, its SINK last.
    Bound Variables lose their values, and nodes their tags. The SINK of a body that is about several devices is tagged.
    The second value says what each node became.
    """
    body = order[-1]
    became: dict[UOp, UOp] = {}
    args: list[UOp] = []
    many = False
    for u in order:
        if u.op is Ops.BUFFER:
            became[u] = UOp(Ops.PARAM, u.dtype, (), ParamArg(len(args), u.arg.size, u.arg.device))
            args.append(u)
            continue
        many = many or u.op in MANY_DEVICES
        src = tuple([became[s] for s in u.src])
        v = u.over(src) if u.tag is None else UOp(u.op, u.dtype, src, u.arg)
        became[u] = stripped(v, bound) if bound.became else v
    many = many or len({a.arg.device for a in args}) > 1
    return (became[body].rtag(SPREAD) if many else became[body]).call(*args), became
