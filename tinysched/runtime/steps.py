"""A kernel made ready for the fast backends: masks in simple form, sums joined, and what windows read computed once.

In: a kernel's SINK, without Variables. Out: :class:`Steps`, one or several kernels that run one after the other, the
last of which is the kernel itself, and the memory that passes values between them. Three rewrites, in this order:

1. indices and masks are simplified where they are asked for (:mod:`tinysched.ir.symbolic.given`);
2. ``sum(WHERE(mask, sum(a * b), 0))`` becomes one sum of ``WHERE(mask, a, 0) * b``: a single contraction;
3. a factor that slides over its loops (``f(x[r + R])``, in a convolution) is computed once per ``r + R``.

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> sizes = enumerate((80, 100, 21))
>>> out, x, w = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in sizes)
>>> r0, R1 = UOp.range(80, 0), UOp.range(21, 1, AxisType.REDUCE)
>>> blur = (load(x.index(r0 + R1)).alu(Ops.EXP2) * load(w.index(R1))).reduce(Ops.ADD, R1)
>>> steps = steps_of(UOp.sink(out.index(r0).store(blur).end(r0)))
>>> [[r.src[0].arg for r in s.toposort() if r.op is Ops.RANGE] for s in steps.sinks], steps.memory[0].arg.size
([[100], [80, 21]], 100)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Final

from tinysched.dtypes import DType, dtypes
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic.affine import affine_of, simplify_index
from tinysched.ir.symbolic.conditions import clauses, conjunction
from tinysched.ir.symbolic.given import Note, folded, in_bounds, simplify_given, substitute, tidy, unnoted, windows
from tinysched.ir.uop import TRUE, ParamArg, UOp, all_of
from tinysched.runtime.nest import arguments_of, guards_of, load, static_nodes, stores_of, valid_of

WINDOW: Final = 1 << 19
"""The first number of the loop variables that stand for places of windows."""


@dataclass
class Steps:
    """Kernels that together do what one did."""

    sinks: list[UOp]
    memory: list[UOp] = field(default_factory=list)
    """The PARAMs that earlier ones write for later ones; their slots follow those of the kernel."""
    finite: tuple[UOp, ...] = ()
    """PARAMs whose values have to be finite, as the joined sums multiply them by zeros that the kernel does not."""
    note: Note = unnoted
    """Is told which node of a step stands for which of the kernel."""


def steps_of(sink: UOp, join: bool = True, note: Note = unnoted) -> Steps:
    """The steps of a kernel; ``join=False`` where not all of ``finite`` are."""
    if len(stores_of(sink)) != 1:
        return Steps([sink])
    order = sink.toposort()
    if any(u.op is Ops.WHERE for u in order):
        has_digits = any(u.op in (Ops.FLOORDIV, Ops.FLOORMOD) and u.dtype is dtypes.index for u in order)
        sink = _split_loops(_simplified(sink, note), note) if has_digits else _masked_once(sink, note)
    steps = Steps([_narrowed(sink, note)], note=note)
    if join:
        _join_sums(steps)
    _compute_windows_once(steps)
    return steps


def _rewritten(sink: UOp, change: Callable[[UOp, Mapping[UOp, UOp]], UOp], note: Note) -> UOp:
    """The kernel with each node as ``change(node, what those below it have become)`` says."""
    became: dict[UOp, UOp] = {}
    for u in sink.toposort():
        became[u] = change(u, became)
        note(u, became[u])
    return became[sink]


def _with_new(became: Mapping[UOp, UOp], u: UOp) -> UOp:
    """A node with its sources as they are now."""
    src = tuple([became[s] for s in u.src])
    return u if src == u.src else UOp(u.op, u.dtype, src, u.arg)


# ** masks **


def _split_loops(sink: UOp, note: Note) -> UOp:
    """Loops over both digits of a variable that is part of a digit: ``(r - R) % 2`` asks for ``r // 2`` and ``r % 2``."""
    found: dict[UOp, int] = {}
    for u in sink.toposort():
        if u.op in (Ops.FLOORMOD, Ops.FLOORDIV) and u.dtype is dtypes.index and u.src[1].op is Ops.CONST:
            terms, m = affine_of(u.src[0]).terms, int(u.src[1].arg)
            if len(terms) > 1 and all(r.op is Ops.RANGE for r, _ in terms):
                found |= {r: m for r, c in terms if abs(c) == 1 and m < r.src[0].arg and r.src[0].arg % m == 0}
    if not found:
        return sink
    count = 1 + max(u.arg[0] for u in sink.toposort() if u.op is Ops.RANGE)
    parts = {
        r: (UOp.range(r.src[0].arg // m, *r.arg), UOp.range(m, count + i, r.arg[1]))
        for i, (r, m) in enumerate(found.items())
    }
    whole: dict[UOp, UOp] = {r: high * low.src[0].arg + low for r, (high, low) in parts.items()}

    def change(u: UOp, became: Mapping[UOp, UOp]) -> UOp:
        if u in whole:
            return whole[u]
        src = tuple([became[s] for s in u.src])
        if u.op in (Ops.REDUCE, Ops.END):
            src = (src[0], *(part for r in u.src[1:] for part in parts.get(r, (became[r],))))
        return u if src == u.src else folded(UOp(u.op, u.dtype, src, u.arg))

    return _simplified(_rewritten(sink, change, note), note)


def _simplified(sink: UOp, note: Note) -> UOp:
    """Masks, and the indices under them, in the simplest form that is right where they are asked for."""
    guards, static = guards_of(stores_of(sink)[0][0]), static_nodes(sink.toposort())

    def change(u: UOp, became: Mapping[UOp, UOp]) -> UOp:
        new = _with_new(became, u)
        if u.op is Ops.LOAD:
            # rows by number are checked wherever an array has them, so their masks and indices stay right everywhere
            guard = guards.get(u, TRUE) if u.src[0].src[1].get_idx() in static else TRUE
            return _load(new.src[0], tidy(guard))
        if u.op is not Ops.WHERE or u.is_gated:
            return new
        if u.src[0].op is Ops.AND:
            parts = clauses(u.src[0])
            mask = tidy(conjunction(c for c in parts if c in static))
            condition = all_of([*clauses(mask), *(became[c] for c in parts if c not in static)])
            new = new.src[1] if condition is TRUE else UOp(u.op, u.dtype, (condition, *new.src[1:]), u.arg)
        return _without_double_mask(new)

    return _rewritten(sink, change, note)


def _masked_once(sink: UOp, note: Note) -> UOp:
    """The kernel without masks that say again what a mask below says: all that is to simplify where nothing has digits."""
    doubled = {u: v for u in sink.toposort() if (v := _without_double_mask(u)) is not u}
    return substitute(sink, doubled, note) if doubled else sink


def _without_double_mask(u: UOp) -> UOp:
    """A value that is read under the mask of a WHERE and is 0 elsewhere, as the WHERE says again."""
    if u.op is not Ops.WHERE or u.src[1].op is not Ops.LOAD or u.src[2].op is not Ops.CONST or u.src[2].arg != 0:
        return u
    return u.src[1] if set(clauses(u.src[0])) <= set(clauses(valid_of(u.src[1]))) else u


def _load(place: UOp, guard: UOp) -> UOp:
    memory, index = place.src
    valid = tidy(index.get_valid(), guard)
    at = simplify_given(conjunction((guard, valid)), index.get_idx())
    return load(memory.index(at.valid(valid)))


# ** sums **


def _narrowed(sink: UOp, note: Note) -> UOp:
    """Sums only over what their masks let through: fewer values of a loop variable, or only the one that is asked for."""

    def change(u: UOp, became: Mapping[UOp, UOp]) -> UOp:
        new = _with_new(became, u)
        return _narrow(new, note) if u.op is Ops.REDUCE and u.arg[0] is Ops.ADD else new

    return _rewritten(sink, change, note)


def _narrow(u: UOp, note: Note) -> UOp:
    value, ranges = u.src[0], list(u.src[1:])
    if value.op is not Ops.WHERE or value.src[2].op is not Ops.CONST or value.src[2].arg != 0:
        return u
    for w in windows(value.src[0]):
        r = next((r for r, c in affine_of(w.total).terms if abs(c) == 1 and r in ranges), None)
        if r is w.total and w.low == 0 and w.high < r.src[0].arg:
            shorter = UOp.range(w.high, *r.arg)
            value, ranges[ranges.index(r)] = substitute(value, {r: shorter}, note), shorter
        elif r is not None and w.high - w.low == 1:
            sign = dict(affine_of(w.total).terms)[r]
            only = simplify_index((w.total * -sign + r) + w.low * sign)
            if only.vmin >= 0 and only.vmax < r.src[0].arg:
                value = substitute(value, {r: only}, note)
                ranges.remove(r)
                return _narrow(value.reduce(Ops.ADD, *ranges), note) if ranges else value
    return value.reduce(Ops.ADD, *ranges) if value is not u.src[0] else u


def _join_sums(steps: Steps) -> None:
    sink = steps.sinks[-1]
    order = sink.toposort()
    uses, static = Counter(s for u in order for s in u.src), static_nodes(order)
    for u in order:
        if u.op is Ops.REDUCE and u.arg[0] is Ops.ADD and uses[u.src[0]] == 1 and (new := _joined(u, uses, static)):
            joined, finite = new
            steps.note(u.src[0].src[1].src[0], joined.src[0])  # the product that the inner sum adds up
            steps.sinks[-1] = substitute(sink, {u: joined}, steps.note)
            steps.finite = finite
            return


def _joined(u: UOp, uses: Counter[UOp], static: set[UOp]) -> tuple[UOp, tuple[UOp, ...]] | None:
    """The one sum of a sum of masked sums of products, and which memory it needs to be finite."""
    masked = u.src[0]
    if masked.op is not Ops.WHERE or masked.src[0] not in static or masked.src[2].op is not Ops.CONST:
        return None
    mask, inner, outside = masked.src
    if outside.arg != 0 or inner.op is not Ops.REDUCE or inner.arg[0] is not Ops.ADD or uses[inner] != 1:
        return None
    factors = factors_of(inner, uses)
    first = next((f for f in factors if f.ranges >= mask.ranges), None)
    others = [f for f in factors if f is not first]
    if first is None or not others or not all(f.op is Ops.LOAD for f in others):
        return None
    product = mask.where(first, first.const_like(0))
    for f in others:
        product = product * _read_within(f, mask)
    ranges = (*u.src[1:], *inner.src[1:])
    return product.reduce(Ops.ADD, *ranges), tuple(f.src[0].src[0] for f in others)


def _read_within(access: UOp, mask: UOp) -> UOp:
    """A LOAD that nothing masks any more: as it is where its index stays inside of memory by itself."""
    memory, index = access.src[0].src
    i = index.get_idx()
    if i.vmin >= 0 and i.vmax < memory.arg.size:
        return access
    return load(memory.index(i.valid(conjunction((index.get_valid(), mask)))))


def factors_of(u: UOp, uses: Counter[UOp]) -> list[UOp]:
    """What a REDUCE multiplies before it sums, as far as nobody else reads the products in between."""
    factors: list[UOp] = []
    stack = [u.src[0]]
    while stack:
        f = stack.pop()
        if f.op is Ops.MUL and uses[f] == 1:
            stack.extend(reversed(f.src))
        else:
            factors.append(f)
    return factors


# ** windows **


def _compute_windows_once(steps: Steps) -> None:
    sink = steps.sinks[-1]
    order = sink.toposort()
    uses = Counter(s for u in order for s in u.src)
    for u in order:
        if u.op is not Ops.REDUCE or u.arg[0] is not Ops.ADD:
            continue
        factors = factors_of(u, uses)
        found = {f: read for f in dict.fromkeys(factors) if (read := _slid_over(f, u.src[1:], steps)) is not None}
        if found:
            # in the order of memory: first the places within a window, then what is summed as a whole
            whole = {r: _is_whole(r, found.values()) for r in u.src[1:]}
            value = substitute(u.src[0], found, steps.note)
            value = value.reduce(Ops.ADD, *sorted(u.src[1:], key=lambda r: whole[r]))
            steps.sinks[-1] = substitute(sink, {u: value}, steps.note)
            return


def _is_whole(r: UOp, reads: Iterable[UOp]) -> bool:
    """Whether a loop variable is an innermost axis of the memory that is read."""
    return any(c == 1 for u in reads for v, c in affine_of(u.src[0].src[1].get_idx()).terms if v is r)


@dataclass
class Slide:
    """A value that is being freed of its windows: in terms of new loop variables, which stand for sums of old ones."""

    value: UOp
    places: dict[UOp, UOp]
    """Each loop variable of the value in terms of those it had before."""
    note: Note
    masks: list[UOp] = field(default_factory=list)
    """Where the sums have to lie, as the value is 0 elsewhere."""

    def once(self) -> bool:
        """Puts one variable in place of two, if all that the value reads depends on their sum."""
        for pivot, other, k in _pairs(self.value):
            total = simplify_index(pivot + other * k)
            low, high = _span(self.value, total)
            new = UOp.range(high - low, WINDOW + len(self.places), AxisType.LOOP)
            value = substitute(self.value, {pivot: simplify_index(new + low - other * k)}, self.note)
            if pivot in value.ranges or other in value.ranges:
                continue
            place = substitute(total, self.places)
            if (low, high) != (total.vmin, total.vmax + 1):
                self.masks.append(in_bounds(place, low, high))
            self.value = value
            self.places = {r: p for r, p in self.places.items() if r not in (pivot, other)}
            self.places[new] = simplify_index(place - low)
            return True
        return False


def _slid_over(f: UOp, summed: tuple[UOp, ...], steps: Steps) -> UOp | None:
    """A read of memory that holds ``f`` once for each place of its windows; None where it has none."""
    if f.op is Ops.LOAD or len(f.ranges) < 2 or any(u.op is Ops.REDUCE for u in f.toposort()):
        return None
    slide = Slide(f, {r: r for r in f.ranges}, steps.note)
    while slide.once():
        pass
    size = prod(int(r.src[0].arg) for r in slide.places)
    if 2 * size > prod(int(r.src[0].arg) for r in f.ranges):
        return None
    # what is summed as a whole lies innermost: a window's rows are long pieces of memory then
    ranges = sorted(slide.places, key=lambda r: (r in summed, min(v.arg[0] for v in slide.places[r].ranges)))
    memory = _new_memory(steps, f.dtype, size)
    loops = [UOp.range(int(r.src[0].arg), i) for i, r in enumerate(ranges)]
    value = substitute(slide.value, dict(zip(ranges, loops)), steps.note)
    steps.sinks.insert(len(steps.memory), UOp.sink(memory.index(_flat(loops, loops)).store(value).end(*loops)))
    steps.memory.append(memory)
    at = _flat([slide.places[r] for r in ranges], ranges)
    return load(memory.index(at.valid(conjunction(slide.masks))))


# ** factors **

COSTLY: Final = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV})


def with_stored_factors(steps: Steps) -> Steps:
    """The steps with one more before a product of matrices: what computes one of its factors at some cost.

    A backend that leaves products to BLAS makes that factor with loops of its own.
    """
    sink = steps.sinks[-1]
    order = sink.toposort()
    uses = Counter(s for u in order for s in u.src)
    for u in order:
        found = _costly_factor(u, uses) if u.op is Ops.REDUCE and u.arg[0] is Ops.ADD else None
        if found is None:
            continue
        value, others = found
        loops = sorted(value.ranges, key=lambda r: (r in u.src[1:], r.arg[0]))
        memory = _new_memory(steps, value.dtype, prod(int(r.src[0].arg) for r in loops))
        place = memory.index(_flat(loops, loops))
        product = load(place)
        for f in others:
            product = product * f
        for made in (value, product):
            steps.note(u.src[0], made)
        last = substitute(sink, {u: product.reduce(Ops.ADD, *u.src[1:])}, steps.note)
        step = UOp.sink(place.store(value).end(*loops))
        return Steps([*steps.sinks[:-1], step, last], [*steps.memory, memory], steps.finite, steps.note)
    return steps


def _costly_factor(u: UOp, uses: Counter[UOp]) -> tuple[UOp, list[UOp]] | None:
    """What a sum of products multiplies that costs something, with all that varies no further; and the other factors."""
    factors = factors_of(u, uses)
    for f in factors:
        inside = [v for v in f.toposort() if v.dtype is not dtypes.index]
        if not any(v.op in COSTLY for v in inside) or any(v.op in (Ops.REDUCE, Ops.WHERE) for v in inside):
            continue
        own = [g for g in factors if g.ranges <= f.ranges]
        others = [g for g in factors if g not in own]
        if others and not f.ranges.isdisjoint(u.src[1:]) and any(g.ranges - f.ranges for g in others):
            value = own[0]
            for g in own[1:]:
                value = value * g
            return value, others
    return None


def _new_memory(steps: Steps, dtype: DType, size: int) -> UOp:
    """Memory between steps; its slot follows those of the kernel and of what there is."""
    params, _ = arguments_of(steps.sinks[-1])
    slot = 1 + max(int(p.arg.slot) for p in (*params, *steps.memory))
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, params[0].arg.device))


def _flat(places: list[UOp], ranges: list[UOp]) -> UOp:
    index = UOp.const(0)
    for place, r in zip(places, ranges):
        index = index * r.src[0].arg + place
    return simplify_index(index)


def _pairs(value: UOp) -> Iterator[tuple[UOp, UOp, int]]:
    """Loop variables that are added in an index: ``(r, s, k)`` for ``r + s * k``."""
    for u in value.toposort():
        if u.op is Ops.LOAD:
            terms = [(v, c) for v, c in affine_of(u.src[0].src[1].get_idx()).terms if v.op is Ops.RANGE]
            for (v, c), (w, d) in permutations(terms, 2):
                if d % c == 0 and abs(d // c) < v.vmax:
                    yield v, w, d // c


def _span(value: UOp, total: UOp) -> tuple[int, int]:
    """From where to where a sum of loop variables matters to a value."""
    low, high = total.vmin, total.vmax + 1
    if value.op is not Ops.WHERE or value.src[2].op is not Ops.CONST or value.src[2].arg != 0:
        return low, high
    for w in windows(value.src[0]):
        if w.total is total:
            return w.low, w.high
        if w.total is simplify_index(total * -1):
            return 1 - w.high, 1 - w.low
    return low, high
