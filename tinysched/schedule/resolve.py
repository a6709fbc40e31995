"""Resolve: LINEARs in place of calls, and real memory in place of arguments.

In: a LINEAR over PARAMs, and what is passed for them. Out: the same kernels over that. :func:`flatten` does so for the
calls of functions, before memory is planned, so that the plan covers what their bodies need; and once more each time a
schedule is used, :func:`resolve_linear_call` puts the buffers of the user's Tensors there. A body is a scope: its PARAMs
are the arguments of its own call, and each call gets intermediates of its own.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> p, q = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 4, "NUMPY")) for slot in (0, 1))
>>> a, b = (UOp.new_buffer("NUMPY", 4, dtypes.float32) for _ in range(2))
>>> linear = UOp(Ops.LINEAR, dtypes.void, (UOp.sink().call(q, p),))
>>> resolve_linear_call(linear, (a, b), fresh_memory).src[0].src[1:] == (b, a)
True
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp, with_arg
from tinysched.schedule.accesses import Span, accesses, overlap
from tinysched.schedule.hazards import Kind
from tinysched.schedule.order import Edge

Fresh = Callable[[UOp], UOp]
"""Other memory for a BUFFER that belongs to one schedule."""


def fresh_memory(u: UOp) -> UOp:
    """Memory for this run."""
    return UOp.new_buffer(u.arg.device, u.arg.size, u.dtype)


def resolve_linear_call(linear: UOp, args: tuple[UOp, ...], fresh: Fresh) -> UOp:
    """A LINEAR with ``args`` for its PARAMs and fresh memory for its BUFFERs."""
    became: dict[UOp, UOp] = {}
    calls = []
    for call in linear.src:
        buffers = tuple([became[b] if b in became else _resolve(b, args, fresh, became) for b in call.src[1:]])
        calls.append(UOp(Ops.CALL, call.dtype, (call.src[0], *buffers), call.arg))
    return UOp(Ops.LINEAR, linear.dtype, tuple(calls))


def _resolve(u: UOp, args: tuple[UOp, ...], fresh: Fresh, became: dict[UOp, UOp]) -> UOp:
    """What one kernel argument is in the scope around (the same one wherever it occurs)."""
    chain = []
    while u not in became and u.op in (Ops.BITCAST, Ops.SHRINK, Ops.RESHAPE):
        chain.append(u)
        u = u.src[0]
    if u not in became:
        if u.op is Ops.PARAM and not u.is_variable:
            became[u] = args[u.arg.slot]
        else:
            became[u] = fresh(u) if u.op is Ops.BUFFER else u
    for v in reversed(chain):
        became[v] = UOp(v.op, v.dtype, (became[v.src[0]],), v.arg)
    return became[chain[0]] if chain else became[u]


def is_same(a: UOp, b: UOp) -> bool:
    """Whether two LINEARs are equal but for the numbers of the BUFFERs that belong to them."""
    match: dict[UOp, UOp] = {}
    stack = [(a, b)]
    while stack:
        u, v = stack.pop()
        if u is v:
            continue
        if u.op is Ops.BUFFER and v.op is Ops.BUFFER:
            same = (u.dtype, u.arg.size, u.arg.device) == (v.dtype, v.arg.size, v.arg.device)
            if not same or match.setdefault(u, v) is not v:
                return False
            continue
        if (u.op, u.dtype, u.arg, u.tag, len(u.src)) != (v.op, v.dtype, v.arg, v.tag, len(v.src)):
            return False
        stack.extend(zip(u.src, v.src, strict=True))
    return len(set(match.values())) == len(match)


# ** calls of functions **


def has_calls(linear: UOp) -> bool:
    return any(call.src[0].op is Ops.FUNCTION for call in linear.src)


def flatten(linear: UOp, linear_of: Callable[[UOp], UOp]) -> UOp:
    """CALL(FUNCTION, memory...) -> the CALLs of its LINEAR, over this memory and intermediates of their own"""
    used = (u.arg.number for call in linear.src for a in call.src[1:] for u in a.toposort() if u.op is Ops.BUFFER)
    numbers = itertools.count(min(used, default=0) - 1, -1)

    def fresh(u: UOp) -> UOp:
        return with_arg(u, number=next(numbers))

    calls: list[UOp] = []
    watcher = current_observer()
    for call in linear.src:
        if call.src[0].op is not Ops.FUNCTION:
            calls.append(call)
            continue
        inside = linear_of(call)
        made = resolve_linear_call(inside, call.src[1:], fresh)
        calls += made.src
        if watcher is not None:
            for old, new in zip(inside.src, made.src, strict=True):
                watcher.on_replace(old, new)
    flat = linear.replace(src=tuple(calls))
    if watcher is not None:
        watcher.on_event("order", {"edges": edges_of(flat)})
    return flat


def edges_of(linear: UOp) -> list[Edge]:
    """Which kernels of a LINEAR must stay in this order, and why, read off the LINEAR itself."""
    touched: dict[UOp, list[Use]] = {}
    found: dict[Edge, None] = {}
    for i, call in enumerate(linear.src):
        uses = [(_memory(call.src[1 + slot]), Use(i, span, writes)) for slot, span, writes in _uses(call.src[0])]
        for memory, use in uses:
            for other in reversed(touched.get(memory, ())):
                if not (use.writes or other.writes) or not overlap(use.span, other.span):
                    continue
                kind: Kind = "WAR" if not other.writes else "WAW" if use.writes else "RAW"
                found[Edge(other.kernel, i, kind, memory)] = None
                if other.writes:  # what came before that waits for it
                    break
        for memory, use in uses:
            touched.setdefault(memory, []).append(use)
    return list(found)


class Use(NamedTuple):
    """A kernel that reads or writes some bytes."""

    kernel: int
    span: Span
    writes: bool


def _uses(body: UOp) -> list[tuple[int, Span, bool]]:
    found = accesses(body)
    reads = [(slot, span, False) for slot, span in found.reads.items()]
    return [*reads, *((slot, span, True) for slot, span in found.writes.items())]


def _memory(u: UOp) -> UOp:
    while u.src:
        u = u.src[0]
    return u
