"""What a kernel costs: operations applied and bytes touched, by its loops as they stand.

In: a kernel's SINK (and the values of its Variables). Out: :class:`Cost`. Counted are ALU operations and the steps of
REDUCEs, each as often as its loops run, under a mask only where the mask holds. Index arithmetic, casts and the choice
by a mask itself are free. Bytes are counted once per element touched, however often it is read.

>>> from tinysched.ir.ops import AxisType
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 2), (1, 6)))
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> squares = load(x.index(r0 * 3 + R1)).alu(Ops.SQRT).reduce(Ops.ADD, R1)
>>> cost_of(UOp.sink(out.index(r0).store(squares).end(r0)))
Cost(ops=12, bytes_read=24, bytes_written=8)
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.dtypes import dtypes
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.conditions import bound_of, clauses
from tinysched.ir.uop import UOp
from tinysched.runtime.nest import (
    MOST_REPEATED,
    Accumulate,
    Block,
    If,
    Let,
    Loop,
    arguments_of,
    nest_of,
    static_nodes,
    valid_of,
)
from tinysched.runtime.repeats import repeated, total

MOST_POINTS: Final = 1 << 22
"""A condition over more points than this is taken to hold everywhere; so are all conditions of
a kernel that is too large to be written down (:func:`~tinysched.runtime.nest.check_repeats`)."""
MOST_OPS: Final = 1 << 53
"""Such a kernel is said to apply no more than this: it never ends, and readers of JSON count exactly up to here."""


class Cost(NamedTuple):
    """One run of a kernel."""

    ops: int
    bytes_read: int
    bytes_written: int


def cost_of(sink: UOp, var_vals: Mapping[str, int] | None = None) -> Cost:
    """The cost of a kernel; Variables without a value are taken at their largest."""
    names = {str(v.arg.name) for v in arguments_of(sink)[1]}
    return cost_by_values(sink, tuple(sorted((k, n) for k, n in (var_vals or {}).items() if k in names)))


@lru_cache(maxsize=4096)
def cost_by_values(sink: UOp, var_vals: tuple[tuple[str, int], ...]) -> Cost:
    order = sink.toposort()
    counter = _Counter(static_nodes(order), dict(var_vals))
    if repeated(sink) > MOST_REPEATED:
        counter.ops = min(MOST_OPS, total(sink, lambda u: int(counter.applies(u)), counter.size))
    else:
        counter.count(nest_of(sink), (), ())
    touched: dict[tuple[Ops, UOp], int] = defaultdict(int)
    for u in order:
        if u.op in (Ops.LOAD, Ops.STORE):
            memory, index = u.src[0].src
            touched[u.op, memory] += counter.points(tuple(index.ranges), clauses(valid_of(u)))
    read, written = (
        sum(min(n, memory.arg.size) * memory.dtype.itemsize for (op, memory), n in touched.items() if op is kind)
        for kind in (Ops.LOAD, Ops.STORE)
    )
    return Cost(counter.ops, read, written)


class _Counter:
    def __init__(self, static: set[UOp], var_vals: dict[str, int]):
        self.static, self.var_vals = static, var_vals
        self.ops = 0

    def count(self, block: Block, ranges: tuple[UOp, ...], conditions: tuple[UOp, ...]) -> None:
        """Adds the operations of a block that stands inside of loops and under conditions."""
        here = sum(self.applies(s.node) if isinstance(s, Let) else isinstance(s, Accumulate) for s in block)
        if here:
            self.ops += here * self.points(ranges, conditions)
        for s in block:
            if isinstance(s, Loop):
                self.count(s.body, ranges + s.ranges, conditions)
            elif isinstance(s, If):
                self.count(s.body, ranges, (*conditions, *clauses(s.condition)))

    def applies(self, u: UOp) -> bool:
        masks = u.op is Ops.WHERE and u.src[0] in self.static
        return u.op in GroupOp.ALU and u not in self.static and u.dtype is not dtypes.index and not masks

    def size(self, r: UOp) -> int:
        return max(0, int(self.value(r.src[0], {})))

    def points(self, ranges: tuple[UOp, ...], conditions: Iterable[UOp]) -> int:
        """At how many points of the ranges all conditions hold."""
        spans = {r: (0, self.size(r)) for r in ranges}
        rest = []
        for c in conditions:
            bound = bound_of(c)
            if bound is not None and bound[0] in spans:  # the common case: a bound on one RANGE
                r, upper, limit = bound
                low, high = spans[r]
                spans[r] = (low, min(high, limit + 1)) if upper else (max(low, limit), high)
            elif c.ranges <= spans.keys() and c in static_nodes(c.toposort()):
                rest.append(c)
        lengths = {r: max(0, high - low) for r, (low, high) in spans.items()}
        total = prod(lengths.values())
        for group, over in _connected(rest):
            volume = prod(lengths[r] for r in over)
            if 0 < volume <= MOST_POINTS:
                total = total // volume * self.holding(group, {r: spans[r] for r in over})
        return total

    def holding(self, conditions: list[UOp], spans: dict[UOp, tuple[int, int]]) -> int:
        """The same by looking at each point."""
        axes = np.ix_(*(np.arange(low, high) for low, high in spans.values())) if spans else ()
        env = dict(zip(spans, axes))
        hold = np.ones([high - low for low, high in spans.values()], bool)
        for c in conditions:
            hold &= np.asarray(self.value(c, env), bool)
        return int(hold.sum())

    def value(self, u: UOp, env: Mapping[UOp, Any]) -> Any:
        """Index arithmetic on numbers or arrays of them."""
        known: dict[UOp, Any] = dict(env)
        for v in u.toposort():
            if v in known:
                continue
            if v.is_variable:
                known[v] = self.var_vals.get(str(v.arg.name), v.arg.vmax)
            elif v.op is Ops.CONST:
                known[v] = v.arg
            elif v.op in _EVALUATE:
                known[v] = _EVALUATE[v.op](*(known[s] for s in v.src))
        return known[u]


_EVALUATE: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.NEG: np.negative,
    Ops.FLOORDIV: np.floor_divide, Ops.FLOORMOD: np.remainder, Ops.CMPLT: operator.lt, Ops.CMPNE: operator.ne,
    Ops.CMPEQ: operator.eq, Ops.AND: np.logical_and, Ops.OR: np.logical_or, Ops.XOR: np.logical_xor,
    Ops.WHERE: np.where,
}  # fmt: skip


def _connected(conditions: list[UOp]) -> list[tuple[list[UOp], set[UOp]]]:
    """Conditions in groups that have no RANGE in common, each with its RANGEs."""
    groups: list[tuple[list[UOp], set[UOp]]] = []
    for c in conditions:
        joined, over = [c], set(c.ranges)
        apart = []
        for group in groups:
            if group[1] & over:
                joined, over = group[0] + joined, group[1] | over
            else:
                apart.append(group)
        groups = [*apart, (joined, over)]
    return groups
