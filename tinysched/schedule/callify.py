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
>>> call, buffer_map = transform_to_call([y.storage])
>>> [u.op.name for u in call.src], len(buffer_map)
(['SINK', 'BUFFER', 'BUFFER'], 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tinysched.dtypes import strong_dtype
from tinysched.ir.decision import Hazard, Reason, Verdict, decide
from tinysched.ir.derive import max_shape, prod
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.affine import affine_of
from tinysched.ir.symbolic.movement import flat_index, index_through
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.indexing import memory_of
from tinysched.tensor.storage import Storage, live_storages, replace_base


@dataclass
class Allocation:
    """What became of the user's nodes, and where values will be."""

    device: str
    became: dict[UOp, UOp] = field(default_factory=dict)
    buffer_map: dict[UOp, UOp] = field(default_factory=dict)
    roots: list[UOp] = field(default_factory=list)


def transform_to_call(
    asked: Iterable[Storage], *, device: str = "NUMPY", fresh: frozenset[UOp] = frozenset()
) -> tuple[UOp, dict[UOp, UOp]]:
    """The call that computes the asked Storages, and where every value will be.

    ``fresh``: writes (AFTER nodes) that must not happen in place although nobody outside reads the old state, because a
    kernel of an earlier attempt would have needed both.
    """
    storages = list(dict.fromkeys(asked))
    values = [s.uop for s in storages if not _is_virtual(s.uop)]
    order = UOp.sink(*values).toposort()
    must = add_tags(values, order, storages)
    not_in_place = fresh | _held_writes(order, storages, must)
    state = Allocation(device)
    for u in order[:-1]:
        src = tuple([state.became[s] for s in u.src])
        v = u if src == u.src and u.tag is None else UOp(u.op, u.dtype, src, u.arg)  # a tag: a constant that is a leaf
        if u.op is Ops.AFTER:
            state.became[u] = _write(state, u, v, u in not_in_place)
        elif u in must:
            state.became[u] = replace_contig_with_store_after(state, u, v)
        else:
            state.became[u] = v
    return pm_replace_buf(state.roots), state.buffer_map


def _is_virtual(u: UOp) -> bool:
    """Memory that exists, constants and empty values need no kernel."""
    base = u.base
    return base.op in (Ops.BUFFER, Ops.CONST) or 0 in base.shape


# ** which nodes end up in memory **


def add_tags(values: list[UOp], order: list[UOp], asked: list[Storage]) -> set[UOp]:
    """The nodes that get memory of their own: bases of the asked values, writes, and held CONTIGUOUS."""
    must = {v.base for v in values}
    hints = [u for u in order if u.op is Ops.CONTIGUOUS and u not in must]
    if hints:
        must |= _held(hints, asked)
    return must | {u for u in order if u.op is Ops.AFTER}


def _others(asked: list[Storage]) -> list[Storage]:
    """Storages that somebody holds and that this schedule does not compute."""
    mine = set(asked)
    return [s for s in live_storages() if s not in mine]


def _held(hints: list[UOp], asked: list[Storage]) -> set[UOp]:
    """The CONTIGUOUS nodes that a Storage outside of the schedule still reads."""
    wanted = set(hints)
    roots = [s.uop for s in _others(asked) if s.uop.base.op is not Ops.BUFFER]
    return wanted.intersection(UOp.sink(*roots).toposort()) if roots else set()


def _held_writes(order: list[UOp], asked: list[Storage], must: set[UOp]) -> frozenset[UOp]:
    """The writes that may not happen in place: a state they overwrite is still read from outside, or overwritten twice."""
    writes = [u for u in order if u.op is Ops.AFTER]
    if not writes:
        return frozenset()
    following: dict[UOp, list[UOp]] = {}
    for w in writes:
        following.setdefault(_state(w.src[0]), []).append(w)
    not_in_place: dict[UOp, str] = {w: "overwritten twice" for ws in following.values() for w in ws[1:]}
    readers = _outside_states(asked, must)
    for state, ws in following.items():
        if state in readers:
            not_in_place.update((w, readers[state]) for w in ws)
    for w in writes:
        memory = memory_of(w)
        if w in not_in_place:
            decide(w, "callify", Verdict.FRESH, Reason.HELD, Hazard(memory, (not_in_place[w],)))
        else:
            decide(w, "callify", Verdict.IN_PLACE, Reason.NOT_HELD, Hazard(memory))
    return frozenset(not_in_place)


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
            if u.op in (Ops.BUFFER, Ops.AFTER):
                found.setdefault(u, f"a Tensor of shape {s.uop.shape}")
            if u not in must:
                stack.extend(u.src)
    for v in (v for s in asked for v in [s.uop] if v.base.op is Ops.BUFFER):
        found.setdefault(v.base, "an asked Tensor")
    return found


def _state(u: UOp) -> UOp:
    while u.op in GroupOp.Movement:
        u = u.src[0]
    return u


# ** memory for values **


def replace_contig_with_store_after(state: Allocation, u: UOp, v: UOp) -> UOp:
    """A value that must be in memory -> new BUFFER + STORE + AFTER; nothing where it is memory already."""
    source = v.src[0] if v.op is Ops.CONTIGUOUS and v.arg is None else v
    if v.op is Ops.CONTIGUOUS and (view := _existing(source)) is not None:
        decide(u, "callify", Verdict.VIEW, Reason.BUFFER_VIEW)
        state.buffer_map[u] = _plain(view)
        return view
    if 0 in u.shape:
        return v
    decide(u, "callify", Verdict.REALIZED, Reason.FORCED_OUTPUT)
    shape = u.shape
    buffer = UOp.new_buffer(u.device or state.device, prod(max_shape(shape)), strong_dtype(u.dtype))
    target = _shaped(buffer, shape)
    written = buffer.after(target.store(source.cast(buffer.dtype)))
    state.roots.append(written)
    state.buffer_map[u] = target.cast(u.dtype)
    return _shaped(written, shape).cast(u.dtype)


def _shaped(memory: UOp, shape: tuple[Any, ...]) -> UOp:
    """Flat memory in a value's shape (the first elements, where a Variable makes the value smaller)."""
    most = max_shape(shape)
    full = memory.reshape(most)
    return full if most == shape else full.shrink(tuple((0, n) for n in shape))


def _existing(source: UOp) -> UOp | None:
    """Movement ops over memory that show one contiguous stretch of it in order: the value is there already."""
    chain: list[UOp] = []
    base = source
    while base.op in GroupOp.Movement:
        chain.append(base)
        base = base.src[0]
    if base.op not in (Ops.BUFFER, Ops.AFTER) or not all(isinstance(n, int) for n in source.shape):
        return None
    if not chain:
        return source
    size = prod(source.shape)
    flat = UOp.range(size, 0)
    inner = flat_index(base.shape, index_through([source.reshape((size,)), *chain] if source.ndim != 1 else chain, (flat,)))
    form = affine_of(inner.get_idx())
    if inner.is_gated or (size > 1 and form.terms != ((flat, 1),)) or (size == 1 and form.terms):
        return None
    return base.shrink(((form.const, form.const + size),)).reshape(source.shape)


def _plain(u: UOp) -> UOp:
    """A view of a state as the view of its memory: how the value is found once the schedule has run."""
    return replace_base(u, memory_of(u))


def _write(state: Allocation, u: UOp, v: UOp, fresh: bool) -> UOp:
    """A write: into the memory it names, or into fresh memory that starts as a copy of it."""
    before, *stores = v.src
    if fresh:
        memory = memory_of(before)
        buffer = UOp.new_buffer(memory.device, memory.arg.size, memory.dtype)
        start = buffer if _covers(stores, memory.arg.size) else buffer.after(buffer.store(before))
        stores = [s.replace(src=(replace_base(s.src[0], start), s.src[1])) for s in stores]
        v = start.after(*stores)
    state.roots.append(v)
    state.buffer_map[u] = memory_of(v)
    return v


def _covers(stores: list[UOp], size: int) -> bool:
    """Whether the writes reach every element (views that are written through show each element at most once)."""
    return any(prod(max_shape(s.src[0].shape)) == size for s in stores)


# ** arguments **


def pm_replace_buf(roots: list[UOp]) -> UOp:
    """BUFFERs of a body -> PARAMs with a slot, in order of first use: the same graph on other memory is the same node."""
    body = UOp.sink(*dict.fromkeys(roots))
    became: dict[UOp, UOp] = {}
    args: list[UOp] = []
    for u in body.toposort():
        if u.op is Ops.BUFFER:
            became[u] = UOp(Ops.PARAM, u.dtype, (), ParamArg(len(args), u.arg.size, u.arg.device))
            args.append(u)
            continue
        src = tuple([became[s] for s in u.src])
        became[u] = u if src == u.src else UOp(u.op, u.dtype, src, u.arg, u.tag)
    return became[body].call(*args)
