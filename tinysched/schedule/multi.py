"""Many devices: a graph of values on several devices becomes one ordinary graph for each device, joined by COPYs.

In: a body with UNSHARD and MSTACK in it. Out: the same writes over single-device values. Parts stay where they lie: an
UNSHARD is pushed outwards through every operation, which each device does on its own part, until somebody needs other
elements than a device has: then these, and no others, are copied. What reaches the SINK is one write per device.

How a value's parts lie, and how elements come to other devices, is :mod:`tinysched.schedule.layout`.

>>> a, b = (UOp.new_buffer(d, 4, dtypes.float32) for d in ("NUMPY", "NUMPY:1"))
>>> y = expand_devices(UOp.sink(unshard((a, b), 0) + 1))
>>> [u.src[0] is part for u, part in zip(y.src, (a, b))]
[True, True]
"""

from __future__ import annotations

from tinysched.dtypes import dtypes
from tinysched.errors import SpecError
from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.derive import prod
from tinysched.ir.lines import where
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite, map_nodes
from tinysched.ir.sharding import (
    MANY_DEVICES,
    bounds_of,
    copy_to,
    cut,
    memories,
    parts_of,
    replicate,
    reshaped_axis,
    unshard,
)
from tinysched.ir.uop import UOp
from tinysched.schedule.allreduce import lower_allreduce
from tinysched.schedule.copies import is_one_piece, place_copies
from tinysched.schedule.layout import (
    Layout,
    Pieces,
    common_layout,
    home_of,
    layout_of,
    on_one,
    pieces,
    spread,
    spread_pieces,
)
from tinysched.tensor.storage import Step, overwritten, replace_base, steps_of

# ** computing: each device on its own part **


@rule(UPat(GroupOp.Elementwise | GroupOp.Passthrough | {Ops.STACK}, name="x"))
def elementwise_multi(x: UOp) -> UOp | None:
    """op(UNSHARD(MSTACK(a, b)), y) -> UNSHARD(MSTACK(op(a, part of y), op(b, part of y)))"""
    layout = common_layout(x)
    if layout is None:
        return _on_one_device(x)
    columns = [spread(s, layout, x.ndim) for s in x.src]
    facts = (("axis", layout.axis), ("devices", layout.devices))
    decide(x, "prepare", Verdict.SHARDED, Reason.OWN_PART, Values(facts))
    home = next((s.tag for s in x.src if s.op is Ops.UNSHARD and s.tag), None)
    return unshard([UOp(x.op, x.dtype, src, x.arg) for src in zip(*columns, strict=True)], layout.axis, home)


def _on_one_device(x: UOp) -> UOp | None:
    """op(parts that are all on one device, y) -> op(the parts joined, y)"""
    sources = [s for s in x.src if s.device is not None]
    if not sources:
        return None
    largest = max(sources, key=lambda s: s.size)
    device = _first_device(largest)
    src = tuple([on_one(s, device) for s in x.src])
    return None if src == x.src else UOp(x.op, x.dtype, src, x.arg)


def _first_device(u: UOp) -> str:
    return str(parts_of(u)[0].device if parts_of(u) else u.device)


@rule(UPat(Ops.REDUCE, src=(UPat((Ops.UNSHARD, Ops.MSTACK), name="s"),), name="x"))
def reduce_multi(x: UOp, s: UOp) -> UOp:
    """REDUCE(UNSHARD(MSTACK(a, b))) -> UNSHARD(MSTACK(REDUCE(a), REDUCE(b))), or ALLREDUCE(MSTACK(...)) over its axis"""
    layout = layout_of(s)
    if layout is None:
        return UOp(Ops.REDUCE, x.dtype, (on_one(s, _first_device(s)),), x.arg)
    own = [UOp(Ops.REDUCE, x.dtype, (p,), x.arg) for p in parts_of(s)]
    op, n = x.arg
    if layout.axis is None or layout.axis >= n:
        return unshard(own, None if layout.axis is None else layout.axis - n, s.tag)
    return UOp(Ops.ALLREDUCE, x.dtype, (replicate(own),), (op, layout.devices))


@rule(UPat(Ops.UNSHARD, name="x"))
def unshard_nothing(x: UOp) -> UOp | None:
    """UNSHARD of no elements -> a constant, which is on no device"""
    return x.const_like(0).expand_leading(x.shape) if x.src[0].op is Ops.MSTACK and 0 in x.shape else None


# ** movement ops **


@rule(UPat(GroupOp.Movement, src=(UPat(Ops.MSTACK, name="s"),), name="x"))
def move_whole(x: UOp, s: UOp) -> UOp:
    """move(MSTACK(a, b)) -> MSTACK(move(a), move(b))"""
    return replicate(UOp(x.op, x.dtype, (p,), x.arg) for p in s.src)


@rule(UPat(Ops.EXPAND, src=(UPat(Ops.UNSHARD, name="s"),), name="x"))
def expand_multi(x: UOp, s: UOp) -> UOp:
    """EXPAND(UNSHARD(MSTACK(a, b), axis)) -> UNSHARD(MSTACK(EXPAND(a), EXPAND(b)), axis + new axes)"""
    return unshard([p.expand_leading(x.arg) for p in parts_of(s)], s.arg + len(x.arg), s.tag)


@rule(UPat(Ops.PERMUTE, src=(UPat(Ops.UNSHARD, name="s"),), name="x"))
def permute_multi(x: UOp, s: UOp) -> UOp:
    """PERMUTE(UNSHARD(MSTACK(a, b), axis)) -> UNSHARD(MSTACK(PERMUTE(a), PERMUTE(b)), where the axis went)"""
    return unshard([p.permute(x.arg) for p in parts_of(s)], x.arg.index(s.arg), s.tag)


@rule(UPat(Ops.RESHAPE, src=(UPat(Ops.UNSHARD, name="s"),), name="x"))
def reshape_multi(x: UOp, s: UOp) -> UOp:
    """RESHAPE(UNSHARD(MSTACK(a, b), axis)) -> UNSHARD(MSTACK(RESHAPE(a), RESHAPE(b)), the axis that starts there)"""
    if (found := _reshaped(x, s)) is None:
        return whole(s).reshape(x.arg)
    axis, own = found
    shapes = zip(parts_of(s), own, strict=True)
    return unshard([p.reshape((*x.arg[:axis], n, *x.arg[axis + 1 :])) for p, n in shapes], axis, s.tag)


def _reshaped(x: UOp, s: UOp) -> tuple[int, list[int]] | None:
    """The axis after a RESHAPE, and how long each part's is; None where one would end in the middle of a row."""
    axis = reshaped_axis(s.shape, x.arg, s.arg)
    own = [] if axis is None else [n for p in parts_of(s) if (n := _own_length(p, x, s.arg, axis)) is not None]
    return None if axis is None or len(own) < len(parts_of(s)) else (axis, own)


def _own_length(part: UOp, x: UOp, axis: int, new: int) -> int | None:
    if part.shape[axis + 1 :] == x.arg[new + 1 :]:
        return int(part.shape[axis])
    items, row = prod(part.shape[axis:]), prod(x.arg[new + 1 :])
    return items // row if isinstance(items, int) and isinstance(row, int) and row and items % row == 0 else None


@rule(UPat(Ops.SHRINK, src=(UPat(Ops.UNSHARD, name="s"),), name="x"))
def shrink_multi(x: UOp, s: UOp) -> UOp:
    """SHRINK(UNSHARD(MSTACK(a, b, c))) -> UNSHARD(MSTACK(the end of a, the start of b)): parts stay where they lie"""
    start, end = x.arg[s.arg]
    if not (isinstance(start, int) and isinstance(end, int)):
        return whole(s).shrink(x.arg)
    found, parts = [], parts_of(s)
    for p, (a, b) in zip(parts, bounds_of(parts, s.arg), strict=True):
        own = (max(a, start) - a, min(b, end) - a)
        if own[0] < own[1]:
            found.append(p.shrink((*x.arg[: s.arg], own, *x.arg[s.arg + 1 :])))
    return unshard(found, s.arg, home_of(s)) if found else x.const_like(0).expand_leading(x.shape)


@rule(UPat(Ops.PAD, src=(UPat(Ops.UNSHARD, name="s"),), name="x"))
def pad_multi(x: UOp, s: UOp) -> UOp:
    """PAD(UNSHARD(MSTACK(a, b, c))) -> UNSHARD(MSTACK(zeros and a, b, c and zeros))"""
    before, after = x.arg[s.arg]
    if not (isinstance(before, int) and isinstance(after, int)):
        return whole(s).pad(x.arg)
    parts = parts_of(s)
    last = len(parts) - 1
    ends = [(before if i == 0 else 0, after if i == last else 0) for i in range(len(parts))]
    padded = [p.pad((*x.arg[: s.arg], e, *x.arg[s.arg + 1 :])) for p, e in zip(parts, ends, strict=True)]
    return unshard(padded, s.arg, home_of(s))


@rule(UPat(Ops.FLIP, src=(UPat(Ops.UNSHARD, name="s"),), name="x"))
def flip_multi(x: UOp, s: UOp) -> UOp:
    """FLIP(UNSHARD(MSTACK(a, b))) -> UNSHARD(MSTACK(FLIP(a), FLIP(b))), over its axis UNSHARD(MSTACK(FLIP(b), FLIP(a)))"""
    flipped = [p.flip(x.arg) for p in parts_of(s)]
    return unshard(flipped[::-1] if x.arg[s.arg] else flipped, s.arg, s.tag)


def whole(s: UOp) -> UOp:
    """A value that is cut, whole on each of its devices."""
    devices = tuple(dict.fromkeys(p.device for p in parts_of(s)))
    decide(s, "prepare", Verdict.COPIED, Reason.REPLICATED, Values((("devices", devices),)))
    return replicate(on_one(s, d) for d in devices) if len(devices) > 1 else on_one(s, devices[0])


# ** copies **


@rule(UPat(Ops.COPY, src=(UPat.var("s"),), name="x"))
def copy_multi(x: UOp, s: UOp) -> UOp | None:
    """COPY(s, (d, e)) -> MSTACK(COPY(s, d), COPY(s, e));  COPY(UNSHARD(MSTACK(a, b)), d) -> its parts on d"""
    if isinstance(x.arg, tuple):
        decide(x, "prepare", Verdict.COPIED, Reason.REPLICATED, Values((("devices", x.arg),)))
        return replicate(_whole_on(s, d) for d in x.arg)
    if not parts_of(s):
        return s if s.device == x.arg else None
    decide(x, "prepare", Verdict.COPIED, Reason.GATHERED, Values((("device", x.arg),)))
    found = pieces(s, x.arg)
    return unshard(found.values, found.axis) if len(found.values) > 1 else found.values[0]


def _whole_on(s: UOp, device: str) -> UOp:
    return on_one(s, device) if parts_of(s) else copy_to(s, device)


@rule(UPat(Ops.MSTACK, name="x"))
def stack_of_joined(x: UOp) -> UOp | None:
    """MSTACK(UNSHARD(MSTACK(a, b)), c) -> MSTACK(a and b joined, c)  where a and b are on one device"""
    return replicate(on_one(s, _first_device(s)) for s in x.src) if any(parts_of(s) for s in x.src) else None


@rule(UPat(Ops.MSELECT, src=(UPat((Ops.MSTACK, Ops.UNSHARD), name="s"),), name="x"))
def select_part(x: UOp, s: UOp) -> UOp:
    """MSELECT(MSTACK(a, b), 1) -> b"""
    part: UOp = parts_of(s)[x.arg]
    return part


# ** writes **


@rule(UPat(Ops.STORE, src=(UPat.var("target"), UPat.var("value"))))
def store_multi(target: UOp, value: UOp) -> UOp | None:
    """STORE(UNSHARD(MSTACK(t, u)), x) -> MSTACK(STORE(t, part of x), STORE(u, part of x)): one for each shard touched

    Of no elements nothing is stored.
    """
    if 0 in target.shape:
        return UOp(Ops.NOOP, dtypes.void)
    parts = parts_of(target)
    if not parts:
        if not parts_of(value):
            return None
        return _grouped(_store_pieces(target, pieces(value, target.device)))
    devices = tuple(p.device for p in parts)
    bounds = tuple(bounds_of(parts, target.arg)) if target.op is Ops.UNSHARD else ()
    found = spread_pieces(value, Layout(devices, target.arg if bounds else None, bounds), target.ndim)
    return _grouped([s for t, p in zip(parts, found, strict=True) for s in _store_pieces(t, p)])


def _grouped(stores: list[UOp]) -> UOp:
    return stores[0] if len(stores) == 1 else replicate(stores)


def _store_pieces(target: UOp, found: Pieces) -> list[UOp]:
    """Copies are stored where they belong, one by one, if they can be: that saves the kernel that would join them."""
    here = sum(p.op is not Ops.COPY for p in found.values)
    if len(found.values) > 1 and here <= 1:
        targets = [cut(target, found.axis, a, b) for a, b in bounds_of(found.values, found.axis)]
        if all(is_one_piece(t) for t in targets):
            return [t.store(p) for t, p in zip(targets, found.values, strict=True)]
    return [target.store(found.joined())]


@rule(UPat(Ops.AFTER, name="x"))
def after_multi(x: UOp) -> UOp | None:
    """AFTER(UNSHARD(MSTACK(m, n)), MSTACK(STORE(m, a), STORE(n, b))) -> UNSHARD(MSTACK(AFTER(m, ...), AFTER(n, ...)))"""
    done = [
        s for group in x.src[1:] for s in (group.src if group.op is Ops.MSTACK else (group,)) if s.op is not Ops.NOOP
    ]
    parts = parts_of(x.src[0])
    if not parts:
        return None if len(done) == len(x.src) - 1 else x.src[0].after(*done)
    axis = x.src[0].arg if x.src[0].op is Ops.UNSHARD else None
    to: dict[tuple[UOp, ...], list[UOp]] = {memories(p): [] for p in parts}
    for s in done:
        if (written := memories(s.src[0])) not in to:
            raise _lost(x, s)
        to[written].append(s)
    return unshard([replace_base(p, p.base.after(*to[memories(p)])) for p in parts], axis)


def _lost(x: UOp, store: UOp) -> SpecError:
    return SpecError(
        f"a write of {store.src[0].shape} into {x.shape} on {x.device} would go to a copy, and be lost",
        where=where(x),
        help=f"write before .shard(), or into all of it on one device: .to('{_first_device(x.src[0])}')",
    )


@rule(UPat(Ops.SINK, name="x"))
def sink_multi(x: UOp) -> UOp | None:
    """SINK(UNSHARD(MSTACK(a, b))) -> SINK(a, b)"""
    if not any(parts_of(s) for s in x.src):
        return None
    return x.replace(src=tuple(dict.fromkeys(p.base for s in x.src for p in parts_of(s) or (s,))))


multi_pm = PatternMatcher(
    [
        lower_allreduce, unshard_nothing, elementwise_multi, reduce_multi, move_whole, expand_multi, permute_multi,
        reshape_multi, shrink_multi, pad_multi, flip_multi, copy_multi, stack_of_joined, select_part,
        store_multi, after_multi, sink_multi,
    ]
)  # fmt: skip


# ** the pass **


def expand_devices(sink: UOp) -> UOp:
    """One graph per device; what remains between them are COPYs of one device's values to another."""
    sink = graph_rewrite(map_nodes(sink, choose_across_shards), multi_pm, name="many devices")
    left = next((u for u in sink.toposort() if u.op in MANY_DEVICES and u.op is not Ops.COPY), None)
    if left is not None:
        raise SpecError(f"{left.op.name} is not a value of one device", where=where(left), help="a rule is missing")
    return place_copies(anchor(sink))


def choose_across_shards(u: UOp) -> UOp | None:
    """STORE(a view of x that its shards cannot show one by one, y) -> STORE(x, WHERE(there, y, x))

    Such a view starts at the position of a Variable (which shard that is, is known only when it runs), or has steps that
    do not divide its shards: x[1::2]. Each device looks which places are its own.
    """
    if u.op is not Ops.STORE or not isinstance(u.device, tuple):
        return None
    target, value = u.src
    steps, state = steps_of(target), target.base
    return None if _shown_shard_by_shard(state, steps) else state.store(overwritten(state, steps, value).rtag())


def _shown_shard_by_shard(state: UOp, steps: tuple[Step, ...]) -> bool:
    """Whether what a view shows of each shard is a view of that shard."""
    view = state
    while view.op is Ops.AFTER:
        view = view.src[0]
    for op, arg in steps:
        if view.op is not Ops.UNSHARD or len(parts_of(view)) == 1:
            return True
        x = UOp(op, view.dtype, (view,), arg)
        if op is Ops.RESHAPE and _reshaped(x, view) is None:
            return False
        if op in (Ops.SHRINK, Ops.PAD) and not all(isinstance(n, int) for n in arg[view.arg]):
            return False
        found = multi_pm.rewrite(x)
        assert found is not None, "every movement op has a rule"
        view = found[1]
    return True


def anchor(sink: UOp) -> UOp:
    """f(constants) that a device's value is computed with -> f(constants of that device)

    Without it, devices would share what one of them computes of constants alone, and store it on one of them.
    """

    def localise(u: UOp) -> UOp | None:
        device = u.device
        if not isinstance(device, str) or u.op in (Ops.COPY, Ops.SINK):
            return None
        src = tuple([_on_device(s, device) if s.device is None and s.op is not Ops.STORE else s for s in u.src])
        return None if src == u.src else UOp(u.op, u.dtype, src, u.arg, u.tag)

    return map_nodes(sink, localise)


def _on_device(u: UOp, device: str) -> UOp:
    if u.base.op is Ops.CONST or u.dtype is dtypes.index:
        return u
    constants = [c for c in u.toposort() if c.op is Ops.CONST and c.dtype is not dtypes.index]
    return u.substitute({c: copy_to(c, device) for c in constants})
