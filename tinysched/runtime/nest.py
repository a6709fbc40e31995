"""Where every loop of a kernel stands: its SINK as nested blocks of statements.

In: a kernel's SINK. Out: a :data:`Block`. A value is computed in the outermost loop that knows all of its RANGEs, once;
what only one side of a mask needs (a reduction under a pad, one part of a cat) stands under that mask's condition.
This is the definition of a kernel's work: :mod:`loops` prints it, :mod:`cost` counts it.

>>> from tinysched.ir.uop import ParamArg
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 2), (1, 6)))
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> row = load(x.index(r0 * 3 + R1)).reduce(Ops.ADD, R1)
>>> [loop] = nest_of(UOp.sink(out.index(r0).store(row).end(r0)))
>>> [type(statement).__name__ for statement in loop.body]
['Let', 'Start', 'Loop', 'Store']
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tinysched.dtypes import dtypes
from tinysched.errors import RunError
from tinysched.ir.ops import AxisType, GroupOp, Ops
from tinysched.ir.symbolic.conditions import at_least, bound_of, clauses, conjunction, disjunction, less
from tinysched.ir.uop import TRUE, UOp
from tinysched.runtime.repeats import VALUES, Ranges, repeated, stores_of

MOST_NESTED: Final = 14
"""Python refuses to nest more than 20 loops; from this depth on, the ranges of a nest share one loop."""
MOST_USES: Final = 4
"""A value that more masks than this ask for is simply computed."""
MOST_REPEATED: Final = 2048
"""A kernel whose loops repeat more statements than this is not written down. Of the small MNIST network's, all fused, NumPy
ran those with up to 1,893 in 0.05 s, but none of those with 2,304 and more in 25 s; other networks' have up to millions, whose
text alone takes minutes. With the default fusion no workload repeats any."""


@dataclass(slots=True)
class Let:
    """Computes a node."""

    node: UOp


@dataclass(slots=True)
class Start:
    """The accumulator of a REDUCE, at the op's identity."""

    node: UOp


@dataclass(slots=True)
class Accumulate:
    """One step of a REDUCE."""

    node: UOp


@dataclass(slots=True)
class Store:
    """Writes a value."""

    node: UOp


@dataclass(slots=True)
class Loop:
    """``body`` for each value of the RANGEs (almost always one)."""

    ranges: tuple[UOp, ...]
    body: Block


@dataclass(slots=True)
class If:
    """``body`` only where the condition holds."""

    condition: UOp
    body: Block


Statement = Let | Start | Accumulate | Store | Loop | If
Block = list[Statement]


def kernel_name(sink: UOp) -> str:
    """What a kernel is called, as a Python name."""
    name = re.sub(r"\W", "_", str(getattr(sink.arg, "name", "") or "kernel"), flags=re.ASCII)
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"k_{name}"


@lru_cache(maxsize=4096)
def arguments_of(sink: UOp) -> tuple[tuple[UOp, ...], tuple[UOp, ...]]:
    """A kernel's memory by slot, and its Variables by name."""
    params = [u for u in sink.toposort() if u.op is Ops.PARAM]
    memory = sorted((u for u in params if not u.is_variable), key=lambda u: int(u.arg.slot))
    variables = sorted((u for u in params if u.is_variable), key=lambda u: str(u.arg.name))
    return tuple(memory), tuple(variables)


def load(index: UOp) -> UOp:
    """The value that stands at an INDEX."""
    return UOp(Ops.LOAD, index.dtype, (index,))


def valid_of(access: UOp) -> UOp:
    """The condition under which a LOAD or STORE touches memory."""
    return access.src[0].src[1].get_valid()


def check_repeats(sink: UOp) -> None:
    """Raises :class:`RunError` for a kernel that reductions were fused into until its loops repeat without end."""
    if (again := repeated(sink)) <= MOST_REPEATED:
        return
    reductions = sum(u.op is Ops.REDUCE for u in sink.toposort())
    shape = tuple(int(r.src[0].vmax) for r in stores_of(sink)[0][1])
    raise RunError(
        f"no program for a kernel of {reductions} reductions within one another: each loop computes again what is in it "
        f"({again:,} repeated statements), so that it would hardly end",
        where=f"kernel {kernel_name(sink)}, whose output has shape {shape}",
        help="let a value between its reductions have memory: with the default fusion, Policies(); by overrides; "
        "or by .contiguous() or .realize() there",
    )


def nest_of(sink: UOp) -> Block:
    """The statements of a kernel. Raises :class:`RunError` where they are too many (:func:`check_repeats`)."""
    check_repeats(sink)
    block: Block = []
    for store, ranges in stores_of(sink):
        masks = {u for u in static_nodes(store.toposort()) if u.dtype is dtypes.bool}
        nest = _Nest(guards_of(store), masks)
        target, value = store.src
        block += nest.loops(ranges, frozenset(), (), Store(store), (*target.src[1:], value))
    return block


# ** masks: under which conditions is a node needed? **


def static_nodes(order: Iterable[UOp]) -> set[UOp]:
    """The nodes that are index arithmetic or conditions on it: they follow from RANGEs and Variables alone."""
    found: set[UOp] = set()
    for u in order:
        if u.dtype is dtypes.index or u.dtype is dtypes.bool:
            leaf = u.op in (Ops.CONST, Ops.RANGE) or u.is_variable
            if leaf or (u.op in GroupOp.Elementwise and all(s in found for s in u.src)):
                found.add(u)
    return found


def negated(condition: UOp) -> UOp:
    """The opposite of a condition; of a bound, the other bound."""
    if (bound := bound_of(condition)) is not None and bound[0].dtype is dtypes.index:
        expr, upper, limit = bound
        return at_least(expr, limit + 1) if upper else less(expr, limit)
    return condition.logical_not()


def guards_of(store: UOp) -> dict[UOp, UOp]:
    """For each node below ``store`` a condition that holds wherever its value is used (True: compute it always)."""
    order = store.toposort()
    static = static_nodes(order)
    masks = {u for u in order if u.op is Ops.WHERE and u.src[0] in static}
    if not masks:
        return {}  # nothing is masked, as in most kernels
    uses: dict[UOp, list[UOp]] = {store: [TRUE]}
    guards: dict[UOp, UOp] = {}
    for u in reversed(order):
        asked = dict.fromkeys(uses.pop(u))
        guard = _any_of(list(asked))
        guards[u] = guard
        for i, s in enumerate(u.src):
            if u in masks and i > 0 and u.src[1] is not u.src[2]:
                condition = u.src[0] if i == 1 else negated(u.src[0])
                uses.setdefault(s, []).append(conjunction((guard, condition)))
            elif u.op is Ops.STORE and i == 1 and valid_of(u) in static:
                uses.setdefault(s, []).append(valid_of(u))
            else:
                uses.setdefault(s, []).append(guard)
    return {u: g for u, g in guards.items() if g is not TRUE}


def _any_of(conditions: list[UOp]) -> UOp:
    if len(conditions) == 1:
        return conditions[0]
    return TRUE if TRUE in conditions or len(conditions) > MOST_USES else disjunction(conditions)


# ** placing **


class _Nest:
    """Builds the blocks of one STORE."""

    def __init__(self, guards: dict[UOp, UOp], masks: set[UOp]):
        self.guards = guards
        self.masks = masks
        self.done: set[UOp] = set()  # what is computed already, here or in a loop around
        self.depth = 0

    def loops(
        self, ranges: Ranges, opened: frozenset[UOp], known: tuple[UOp, ...], last: Statement, needs: tuple[UOp, ...]
    ) -> Block:
        """``last`` inside of ``ranges``, and before it, each as far out as it can stand, the values it needs."""
        block = self.values(needs, opened, known)
        if not ranges:
            _guarded(block, valid_of(last.node) if isinstance(last, Store) else TRUE).append(last)
            return block
        count = 1 if self.depth < MOST_NESTED else len(ranges)
        before, self.done = self.done, set(self.done)
        self.depth += 1
        body = self.loops(ranges[count:], opened.union(ranges[:count]), known, last, needs)
        self.depth -= 1
        self.done = before  # what the loop computed is not known behind it
        return [*block, Loop(ranges[:count], body)]

    def values(self, needs: tuple[UOp, ...], opened: frozenset[UOp], known: tuple[UOp, ...]) -> Block:
        """Everything below ``needs`` that follows from the opened RANGEs and isn't computed yet."""
        block: Block = []
        for u in self.missing(needs):
            if not u.ranges <= opened:
                continue
            self.done.add(u)
            guards = (
                clauses(self.guards.get(u, TRUE)) if u not in self.masks else []
            )  # other conditions read masks, too
            guard = conjunction(c for c in guards if c.ranges <= opened and c not in known)
            if u.op is Ops.REDUCE:
                inside = (*known, *clauses(guard))
                statements = [Start(u), *self.loops(u.src[1:], opened, inside, Accumulate(u), u.src[:1])]
            else:
                statements = [Let(u)]
            _guarded(block, guard).extend(statements)
        return block

    def missing(self, needs: tuple[UOp, ...]) -> list[UOp]:
        """The values to compute for ``needs``, sources first."""
        order = UOp.sink(*needs).toposort(lambda u: u not in self.done)
        return [u for u in order if u.op in VALUES and u not in self.done]


def _guarded(block: Block, guard: UOp) -> Block:
    """Where in ``block`` statements under ``guard`` go: neighbours under one condition share their If."""
    if guard is TRUE:
        return block
    if not (block and isinstance(block[-1], If) and block[-1].condition is guard):
        block.append(If(guard, []))
    last = block[-1]
    assert isinstance(last, If)
    return last.body


__all__ = [
    "Accumulate", "AxisType", "Block", "If", "Let", "Loop", "Ranges", "Start", "Statement", "Store", "arguments_of",
    "check_repeats", "guards_of", "kernel_name", "load", "negated", "nest_of", "static_nodes", "stores_of", "valid_of",
]  # fmt: skip
