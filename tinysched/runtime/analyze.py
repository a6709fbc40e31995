"""What a kernel does, in the terms of array programs: one analysis for every fast backend.

In: a kernel's SINK (without Variables: their values are put in first). Out: :class:`Analysis`: which part of the
iteration space each value is needed in, how each load reads memory (:class:`View`, :class:`Padded`, :class:`Gather`),
which reductions are contractions, which values have to be computed in which order.

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 2), (1, 6)))
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> row = load(x.index(R1 * 2 + r0)).reduce(Ops.ADD, R1)
>>> found = Analysis(UOp.sink(out.index(r0).store(row).end(r0)))
>>> [u.op.name for u in found.order], found.accesses[row.src[0]].strides
(['LOAD', 'REDUCE'], {R1:3: 2, r0:2: 1})
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd, prod

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.uop import TRUE, UOp, all_of
from tinysched.runtime.axes import Axes, Axis, Box, Linear, Span, hull, is_empty, meet, within
from tinysched.runtime.forms import Access, Choice, Contraction, Coordinate, Gather, Padded, Scan, Unsupported, View
from tinysched.runtime.nest import guards_of, negated, static_nodes, stores_of, valid_of


@dataclass
class Analysis:
    """The analysis of one kernel with one STORE."""

    sink: UOp
    order: list[UOp] = field(default_factory=list)
    """The values to compute, sources first."""
    accesses: dict[UOp, Access] = field(default_factory=dict)
    choices: dict[UOp, Choice] = field(default_factory=dict)
    needs: dict[UOp, list[UOp]] = field(default_factory=dict)
    """What each of them is computed from."""
    sums: dict[UOp, Contraction | Scan | UOp] = field(default_factory=dict)
    """What each REDUCE reduces: a contraction, memory of which it is the running sums, or a value."""
    products: dict[UOp, UOp] = field(default_factory=dict)
    """Products of some factors of a REDUCE, made here: the value that it sums, which is the product of all."""
    domain: dict[UOp, Box] = field(default_factory=dict)
    axes_of: dict[UOp, frozenset[Axis]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stores = stores_of(self.sink)
        if len(stores) != 1:
            raise Unsupported("a kernel with several stores")
        self.store, ranges = stores[0]
        nodes = self.store.toposort()
        self.static = static_nodes(nodes)
        self.guards = guards_of(self.store)
        self.uses = Counter(s for u in nodes for s in u.src)
        reduces = [u for u in reversed(nodes) if u.op is Ops.REDUCE]
        digits = [u for u in nodes if u.op in (Ops.FLOORDIV, Ops.FLOORMOD) and u.dtype is dtypes.index]
        self.axes = Axes(ranges, reduces, digits)
        self._find_domains(nodes)
        self._find_order()

    # ** where is a value needed? **

    def _find_domains(self, nodes: list[UOp]) -> None:
        """The box around all places where each value is read."""
        self.domain[self.store] = self.axes.box(valid_of(self.store))[0]
        for u in reversed(nodes):
            if (here := self.domain.get(u)) is None:
                continue
            for s, box in self._readings(u):
                there = meet(here, box) if box else here
                if not is_empty(there):
                    self.domain[s] = hull(self.domain[s], there) if s in self.domain else there
        for u in self.static:  # masks ask for them in other places, too
            self.domain.pop(u, None)

    def _readings(self, u: UOp) -> Iterable[tuple[UOp, Box]]:
        """The sources of a node, each with the box in which they are read."""
        if u.op is not Ops.WHERE or u.src[0] not in self.static or u.is_gated:  # a masked row has a number, too
            return [(s, {}) for s in u.src]
        condition, inside, outside = self._where(u)
        there = self.axes.box(condition)[0]
        elsewhere = self.axes.box(negated(condition))[0]
        return [(u.src[0], {}), (inside, there), (outside, elsewhere)]

    def spans(self, u: UOp) -> dict[Axis, Span]:
        """For each axis along which a value varies, the part in which it is computed."""
        box = self.domain.get(u, {})
        return {a: box.get(a, (0, a.size)) for a in self.axes_of[u]}

    # ** what has to be computed? **

    def _find_order(self) -> None:
        self.empty = any(a.size == 0 for a in self.axes.loops) or is_empty(self.domain[self.store])
        if self.empty:
            return
        stack = [(u, False) for u in self._needs_of_store()]
        while stack:
            u, ready = stack.pop()
            if u in self.axes_of:
                continue
            if not ready:
                self.needs[u] = [s for s in self._needs(u) if s.op is not Ops.CONST]
                stack.append((u, True))
                stack.extend((s, False) for s in self.needs[u] if s not in self.axes_of)
                continue
            if u.op is Ops.REDUCE and u not in self.sums and (factors := self._factors(u)):
                self._multiply_out(u, factors)
            self.axes_of[u] = self._axes(u)
            self.order.append(u)

    def _needs_of_store(self) -> list[UOp]:
        index = self.store.src[0].src[1]
        self.target = self.axes.linear(index.get_idx())
        rest = self.axes.box(index.get_valid())[1]
        self.mask = self._mask(rest, self.domain[self.store])
        value = self.store.src[1]
        return [u for u in (value, *(o for o, _ in self.target.others), self.mask) if u.op is not Ops.CONST]

    def _needs(self, u: UOp) -> Iterable[UOp]:
        """The values that a value is computed from."""
        if u.op is Ops.RANGE:
            return ()
        if u.op is Ops.LOAD:
            access = self.accesses[u] = self._access(u)
            return access.needs if isinstance(access, Gather) else ()
        if u.op is Ops.WHERE and u.src[0] in self.static:
            choice = self.choices[u] = self._choice(u)
            return (choice.mask, choice.inside, choice.outside)
        if u.op is Ops.REDUCE and (scan := self._scan(u)) is not None:
            self.sums[u] = scan
            return ()
        return self._factors(u) if u.op is Ops.REDUCE else u.src

    def _axes(self, u: UOp) -> frozenset[Axis]:
        if u.op is Ops.RANGE:
            return frozenset(self.axes.of([u]))
        if u.op is Ops.LOAD:
            return self._axes_of_access(self.accesses[u])
        if isinstance(scan := self.sums.get(u), Scan):
            return frozenset(scan.source.strides)
        if u.op is Ops.REDUCE:
            return self._union(self.needs[u]) - set(self.axes.of(u.src[1:]))
        if (choice := self.choices.get(u)) is not None:
            return self._union((choice.mask, choice.inside, choice.outside)) | choice.box.keys()
        return self._union(u.src)

    def _union(self, values: Iterable[UOp]) -> frozenset[Axis]:
        found = frozenset[Axis]().union(*(self.axes_of.get(u, ()) for u in values))
        if len({a.at for a in found}) < len(found):
            raise Unsupported("two axes in one place")
        return found

    def _axes_of_access(self, access: Access) -> frozenset[Axis]:
        if isinstance(access, View):
            return frozenset(access.strides)
        if isinstance(access, Padded):
            return frozenset(a for c in access.coordinates for a in c.coefs)
        mask = self.axes_of.get(access.mask, frozenset()) if access.mask is not None else frozenset()
        rows = self._union(o for o, _ in access.rows.others)
        return mask | rows | access.rows.coefs.keys() | access.source.strides.keys()

    # ** choices **

    def _choice(self, u: UOp) -> Choice:
        condition, inside, outside = self._where(u)
        box, rest = self.axes.box(condition)
        here = self.domain.get(u, {})
        found = {a: span for a, span in meet(here, box).items() if a in box and span != here.get(a, (0, a.size))}
        if is_empty(meet(here, box)):
            return Choice({}, TRUE, outside, outside)
        return Choice(found, self._mask(rest, here), inside, outside if found or rest else inside)

    def _where(self, u: UOp) -> tuple[UOp, UOp, UOp]:
        """Condition and branches of a WHERE, without a negation of the condition.

        The branch that lies in a box comes first: ``r % 3 < 1`` of 4 is no box, its opposite ``1 <= r < 3`` is one.
        """
        condition, inside, outside = u.src
        while condition.op is Ops.CMPNE and condition.src[1] is TRUE:
            condition, inside, outside = condition.src[0], outside, inside
        if not self.axes.box(condition)[0] and self.axes.box(opposite := negated(condition))[0]:
            return opposite, outside, inside
        return condition, inside, outside

    def _mask(self, conditions: list[UOp], here: Box) -> UOp:
        """The AND of conditions as a value in a box; it may be made of new nodes."""
        mask = all_of(conditions)
        for u in mask.toposort():
            if u in self.domain or u in self.static:
                continue
            if all(s in self.static for s in u.src) and (u.src or u.op in (Ops.CONST, Ops.RANGE)):
                self.static.add(u)
            else:
                self.domain[u] = here
        return mask

    # ** loads **

    def _access(self, u: UOp) -> Access:
        """How a LOAD reads: the cheapest way that provably stays inside of memory."""
        memory, index = u.src[0].src
        form, here = self.axes.linear(index.get_idx()), self.domain.get(u, {})
        low, high = form.bounds(here)
        fits = not form.others and low >= 0 and high <= memory.arg.size
        valid = index.get_valid()
        box, rest = self.axes.box(valid)
        masked = bool(rest) or not within(here, box)
        if fits and not masked:
            return View(memory, form.const, form.coefs)
        if not masked and all(o in self.static for o, _ in form.others):  # read where its reader does not look
            valid = self.guards.get(u, TRUE)
            masked = valid is not TRUE
        if masked and not form.others and (padded := self._padded(memory, form, valid, here)) is not None:
            return padded
        return self._gather(memory, form, valid if masked else None, here)

    def _padded(self, memory: UOp, form: Linear, valid: UOp, here: Box) -> Padded | None:
        """A padded copy, where the mask consists of bounds on sums of axes that the index is made of."""
        box, rest = self.axes.box(valid)
        sums = self._bounded_sums(rest)
        if sums is None:
            return None
        left = dict(form.coefs)
        found: list[Coordinate] = []
        for coefs, span in sums:
            key = next((a for a, k in coefs.items() if abs(k) == 1 and a in left and a not in box), None)
            stride = left[key] * coefs[key] if key is not None else 0
            for a, k in coefs.items():
                left[a] = left.get(a, 0) - stride * k
            found.append(_coordinate(coefs, span, stride, here))
        singles = {a: c for a, c in left.items() if c} | {a: left.get(a, 0) for a in box}
        found += [_coordinate({a: 1}, box.get(a, (0, a.size)), c, here) for a, c in singles.items()]
        found.sort(key=lambda c: -abs(c.stride))
        low = high = form.const
        for c in found if all(c.valid[0] < c.valid[1] for c in found) else ():
            ends = [c.stride * c.valid[0], c.stride * (c.valid[1] - 1)]
            low, high = low + min(ends), high + max(ends)
        room = 4 * max(memory.arg.size, prod(a.size for a in {*form.coefs, *box}))
        if low < 0 or high >= memory.arg.size or prod(c.high - c.low for c in found) > room:
            return None
        return Padded(View(memory, form.const, {}), tuple(found))

    def _bounded_sums(self, conditions: list[UOp]) -> list[tuple[dict[Axis, int], Span]] | None:
        """Conditions as spans of sums of axes, one per sum; None if one of them is anything else."""
        spans: dict[tuple[tuple[Axis, int], ...], Span] = {}
        for c in conditions:
            bound = self.axes.bound(c)
            if bound is None or bound[0].others:
                return None
            form, limit = bound
            coefs = sorted(form.coefs.items(), key=lambda t: t[0].at)
            flip = coefs[0][1] < 0
            key = tuple((a, -k if flip else k) for a, k in coefs)
            low, high = spans.get(key) or Linear(dict(key), (), 0).bounds({})
            limit -= form.const
            spans[key] = (max(low, -limit), high) if flip else (low, min(high, limit + 1))
        return [(dict(key), span) for key, span in spans.items()]

    def _gather(self, memory: UOp, form: Linear, valid: UOp | None, here: Box) -> Gather:
        """Rows by computed numbers; the axes that the numbers depend on are part of them."""
        needs = [o for o, _ in form.others] + ([self._mask([valid], here)] if valid is not None else [])
        inside = frozenset(a for o, _ in form.others for a in self.axes.of(self._varies(o)))
        if not form.others:
            inside = frozenset(form.coefs)
        rows = {a: c for a, c in form.coefs.items() if a in inside}
        along = {a: c for a, c in form.coefs.items() if a not in inside}
        step = gcd(*(c for _, c in form.others), *rows.values()) or 1
        low, high = Linear(along, (), form.const % step).bounds(here)
        last = memory.arg.size - 1
        if low < 0 or high > step or (last - low) // step != (last - high + 1) // step:
            # a row that does not exist could have elements that do: number the elements themselves
            rows, along, step, high = dict(form.coefs), {}, 1, 1
        count = (memory.arg.size - high) // step + 1
        scaled = Linear(
            {a: c // step for a, c in rows.items()},
            tuple((o, c // step) for o, c in form.others),
            form.const // step,
        )
        source = View(memory, form.const % step, along)
        return Gather(source, step, count, scaled, valid, tuple(needs))

    def _varies(self, number: UOp) -> list[UOp]:
        """The loops along which a number changes, and those of the masks under which it is read."""
        found = set(number.ranges)
        for u in number.toposort():
            if u.op is Ops.LOAD:
                found |= self.guards.get(u, TRUE).ranges
        return [r for r in found if r in self.axes.parts]

    def _scan(self, u: UOp) -> Scan | None:
        """A sum over R of ``x[r + R - n]`` where that is not negative, for r and R up to n: running sums along r."""
        summed = self.axes.of(u.src[1:])
        if u.arg[0] is not Ops.ADD or u.src[0].op is not Ops.LOAD or len(summed) != 1 or u.dtype is dtypes.bool:
            return None
        access = self._access(u.src[0])
        if not isinstance(access, Padded):
            return None
        slides = [c for c in access.coordinates if summed[0] in c.coefs]
        others = [c for c in access.coordinates if c not in slides]
        if len(slides) != 1 or any(map(_is_masked, others)):
            return None
        slid, axes = slides[0], [a for a in slides[0].coefs if a is not summed[0]]
        if len(axes) != 1 or set(slid.coefs.values()) != {1}:
            return None
        axis, start = axes[0], summed[0].size - 1
        if slid.valid != (start, start + axis.size) or axis.size - 1 > start or axis in self.domain.get(u, {}):
            return None
        strides = {axis: slid.stride}
        for c in others:
            for a, k in c.coefs.items():
                strides[a] = strides.get(a, 0) + k * c.stride
        return Scan(View(access.source.memory, access.source.offset + start * slid.stride, strides), axis)

    # ** sums of products **

    def _factors(self, u: UOp) -> list[UOp]:
        """What a REDUCE multiplies before it sums, as far as nobody else reads the products in between."""
        op, value = u.arg[0], u.src[0]
        if any(a.size == 0 for a in self.axes.of(u.src[1:])):
            return []
        if op is not Ops.ADD or value.op is not Ops.MUL or value.dtype is dtypes.bool:
            return [value]
        factors: list[UOp] = []
        stack = list(reversed(value.src))
        while stack:
            f = stack.pop()
            if f.op is Ops.MUL and self.uses[f] == 1:
                stack.extend(reversed(f.src))
            else:
                factors.append(f)
        return factors

    def _multiply_out(self, u: UOp, factors: list[UOp]) -> None:
        """Decides how a REDUCE is computed: as a contraction of two products, or from one value."""
        summed = frozenset(self.axes.of(u.src[1:]))
        groups = self._groups(factors)
        if len(factors) < 2 or groups is None or {x for x in summed - self._union(factors) if x.size != 1}:
            self.sums[u] = self._product(u, factors)
            return
        left, right = (self._product(u, group) for group in groups)
        a, b = self.axes_of[left], self.axes_of[right]
        rows, columns = _sorted(a - b - summed), _sorted(b - a - summed)
        if rows and columns and rows[0].at > columns[0].at:  # the result comes out in the order of the axes
            left, right, rows, columns, a, b = right, left, columns, rows, b, a
        alone = (_sorted(summed & (a - b)), _sorted(summed & (b - a)))
        batch, inner = _sorted((a & b) - summed), _sorted(a & b & summed)
        self.sums[u] = Contraction(left, right, batch, rows, columns, inner, alone)

    def _product(self, u: UOp, factors: list[UOp]) -> UOp:
        """The product of some factors of a REDUCE as a value of its own."""
        product = factors[0]
        for f in factors[1:]:
            source, product = product, UOp(Ops.MUL, u.dtype, (product, f), None, "product")
            self.products[product] = u.src[0]
            box = self.domain.get(u.src[0], {})
            self.domain[product] = hull(self.domain.get(product, box), box)
            if product not in self.axes_of:
                self.needs[product] = [s for s in (source, f) if s.op is not Ops.CONST]
                self.axes_of[product] = self._union(self.needs[product])
                self.order.append(product)
        return product

    def _groups(self, factors: list[UOp]) -> list[list[UOp]] | None:
        """The factors in two groups, each multiplied out for itself: two that overlap little, others where they fit."""
        varying = [f for f in factors if self.axes_of.get(f)]
        if len(varying) < 2:
            return None
        first = max(varying, key=lambda f: _volume(self.axes_of[f]))
        varying.remove(first)
        second = max(varying, key=lambda f: _volume(self.axes_of[f] - self.axes_of[first]))
        groups = [([first], self.axes_of[first]), ([second], self.axes_of[second])]
        rest = list(factors)
        rest.remove(first)
        rest.remove(second)
        for f in rest:
            axes = self.axes_of.get(f, frozenset())
            i = min((0, 1), key=lambda i: (_volume(axes | groups[i][1]) / _volume(groups[i][1]), _volume(groups[i][1])))
            groups[i][0].append(f)
            groups[i] = (groups[i][0], groups[i][1] | axes)
        return [fs for fs, _ in groups]


def _coordinate(coefs: dict[Axis, int], valid: Span, stride: int, here: Box) -> Coordinate:
    low, high = Linear(coefs, (), 0).bounds(here)
    start, stop = max(valid[0], low), min(valid[1], high)
    return Coordinate(coefs, low, high, (start, max(start, stop)), stride)


def _is_masked(c: Coordinate) -> bool:
    return c.valid != (c.low, c.high)


def _sorted(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    return tuple(sorted(axes, key=lambda a: a.at))


def _volume(axes: Iterable[Axis]) -> int:
    return prod(a.size for a in axes)
