"""Old and new nodes of rewrites that copy a graph node by node: pairs that follow from what such a rewrite is.

Two do that without a word for each node: callify (BUFFERs become PARAMs, values that must be in memory get a write), and
the rules that compute a stored value where it is read, ``STAGE(f(r), r)[i] -> f(i)``. Both keep every op and every source,
so the copies are found by walking down both sides at once.

In: a rewrite, or callify's two graphs and its decisions. Out: (old, new) pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinysched.dtypes import dtypes
from tinysched.ir.decision import Decision, Verdict
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp
from tinysched.trace.provenance import value_of

Pair = tuple[UOp, UOp]


def copies(old: UOp, new: UOp) -> Iterator[Pair]:
    """The pairs below two roots, as far as both sides have the same ops.

    >>> x, y = UOp.range(2, 0), UOp.range(3, 1)
    >>> list(copies(x, x))
    []
    >>> a, b = x.cast(dtypes.int32), y.cast(dtypes.int32)
    >>> list(copies(a, b)) == [(a, b)]
    True
    """
    seen: set[Pair] = set()
    stack = [(old, new)]
    while stack:
        u, v = stack.pop()
        if u is v or (u, v) in seen or u.dtype is dtypes.index:
            continue
        seen.add((u, v))
        if not _alike(u, v):
            continue
        yield u, v
        stack.extend(zip(u.src, v.src, strict=True))


def _alike(u: UOp, v: UOp) -> bool:
    return u.op is v.op and len(u.src) == len(v.src)


def of_rewrite(before: UOp, after: UOp) -> Iterator[Pair]:
    """The copies that a rewrite made, where it is one of those that take a STAGE's value to its reader."""
    if before.op is Ops.STORE and after.op is Ops.STORE:
        before, after = before.src[1], after.src[1]
    if before.op is Ops.INDEX and before.src[0].op is Ops.STAGE and after.op is not Ops.INDEX:
        yield from copies(before.src[0].src[0], after)


def of_arguments(asked: UOp, body: UOp, memory: tuple[UOp, ...]) -> Iterator[Pair]:
    """The user's BUFFERs and the PARAMs that stand for them."""
    theirs = {u for u in asked.toposort() if u.op is Ops.BUFFER}
    for u in body.toposort():
        if u.op is Ops.PARAM and not u.is_variable and u.arg.slot < len(memory) and memory[u.arg.slot] in theirs:
            yield memory[u.arg.slot], u


def of_callify(asked: UOp, body: UOp, decisions: list[Decision]) -> Iterator[Pair]:
    """What the user's nodes became in callify's body.

    Its roots are, in order, the user's writes and the values that it decided to store.
    """
    stored = {d.node for d in decisions if d.verdict is Verdict.REALIZED}
    writes = [u for u in asked.toposort() if u.op is Ops.AFTER or u in stored]
    if len(writes) != len(body.src):
        return
    became = dict(zip(writes, body.src))
    for u, root in became.items():
        yield u, root
        yield from _callified(u, root, became)


def _callified(u: UOp, root: UOp, became: dict[UOp, UOp]) -> Iterator[Pair]:
    """The pairs below one root, up to other roots."""
    value = value_of(root)
    if u.op is Ops.AFTER:
        stack = [(u.src[-1], root.src[-1])]
    elif u.op is Ops.CONTIGUOUS:
        stack = [(u.src[0], value)]
    else:
        stack = [(u, _uncast(value, u))]
    seen: set[Pair] = set()
    while stack:
        a, b = stack.pop()
        if (a, b) in seen or (a is not u and a in became):
            continue
        seen.add((a, b))
        if a is not b and a.maybe_shape == b.maybe_shape:
            yield a, b
        if a.op is b.op and len(a.src) == len(b.src):
            stack.extend(zip(a.src, b.src, strict=True))
        elif a.op in GroupOp.Passthrough or (a.op in GroupOp.Movement and b.op is Ops.PARAM):
            # a hint above what is memory anyway, or a view that is shown by fewer steps
            stack.append((a.src[0], b))


def _uncast(value: UOp, u: UOp) -> UOp:
    """The value below the cast that stores a weak type as a strong one."""
    if value.op is Ops.CAST and u.op is not Ops.CAST and value.src[0].op is u.op:
        return value.src[0]
    return value
