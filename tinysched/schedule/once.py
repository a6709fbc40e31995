"""What repeats is done once: from the walk to kernels, and only the first of equal parts goes through the rules.

In: a prepared graph. Out: the graph that rangeify, simplify, add buffers and split kernels make of it one after another.
:mod:`tinysched.schedule.parts` finds the parts. The first of each kind goes through the rules of these passes; the kernel
of a part that equals it is the same one, over other memory. Whoever watches sees every part go through the rules, to the
same kernels (``tests/test_once.py``).

Parts are equal if they look equal and read equal things: values that get memory of the same kind, in the same pattern,
and values that are computed again in each reader, which are equal parts themselves.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.schedule.policy import Upstream
>>> def memory(slot): return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 8, "NUMPY"))
>>> def write(to, of): return memory(to).after(memory(to).store(memory(of) * 2.0))
>>> once = Once(UOp.sink(write(0, 1), write(2, 3)), Upstream())
>>> first, second = (after.src[1] for after in once.run().src)
>>> first.src[0] is second.src[0], second.src[1:] == (memory(2), memory(3)), len(once.kinds)
(True, True, 1)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from tinysched.ir.ops import Ops
from tinysched.ir.template import Template
from tinysched.ir.uop import UOp
from tinysched.schedule.indexing import MEMORY, Overrides, memory_of, run_rangeify
from tinysched.schedule.kernels import buffer_for, kernel_of, numbered
from tinysched.schedule.parts import Outline, outline
from tinysched.schedule.policy import FusionPolicy
from tinysched.schedule.prepare import after_nothing
from tinysched.schedule.rangeify import apply_rule, context_of, options, stage
from tinysched.schedule.reduce_simplify import reindex
from tinysched.schedule.simplify import SimplifyContext, along, rewritten


class NotByParts(Exception):
    """A graph that the passes have to take as a whole."""


@dataclass(eq=False)
class Kind:
    """What equal parts share: what became of the first of them.

    ``node``: its STAGE or write, simplified; ``axes``: those along which the value changes, where there are others;
    ``seen``: the STAGE along these, as its readers see it in the end; ``stays``: whether it gets memory; ``kernel``: the
    program, and which of the leaves are its arguments.
    """

    node: UOp
    leaves: tuple[UOp, ...]
    loops: tuple[UOp, ...]
    axes: tuple[int, ...] | None = None
    stays: bool = True
    template: Template | None = None
    kernel: tuple[UOp, tuple[int, ...]] | None = None
    seen: UOp = field(init=False)

    def __post_init__(self) -> None:
        self.seen = self.node if self.axes is None else along(self.node, self.axes)

    @property
    def has_loops(self) -> bool:
        return bool(self.loops) or self.node.op is not Ops.STAGE or any(r.op is Ops.RANGE for r in self.own)

    @property
    def own(self) -> tuple[UOp, ...]:
        """The loops of its STAGE."""
        return self.node.src[1:]


@dataclass(eq=False)
class Part:
    """A value in memory or a write, over its memory and loops (in the order of its kind's).

    ``name``: the STAGE that stands for it while rules are applied to its readers, and as they see it in the end.
    """

    kind: Kind
    leaves: tuple[UOp, ...]
    loops: tuple[UOp, ...]
    name: tuple[UOp, UOp] | None = None


def over_own_loops(stage: UOp) -> UOp:
    """A STAGE over loops that all STAGEs of its shape have, before those of reductions: what equal values share are nodes."""
    loops = stage.src[1:]
    own = {r: UOp.range(r.src[0], i - len(loops)) for i, r in enumerate(loops) if r.op is Ops.RANGE}
    return stage.over((reindex(stage.src[0], own), *[own.get(r, r) for r in loops]))


class Once:
    """The passes from rangeify to split kernels over one graph. :meth:`run` may raise :class:`NotByParts`."""

    def __init__(self, sink: UOp, policy: FusionPolicy, overrides: Overrides | None = None, buffer_limit: int = 0):
        self.buffer_limit = buffer_limit
        self.ranges = run_rangeify(sink, overrides)
        self.order = self.ranges.order
        self.rangeify = context_of(self.order, self.ranges, overrides or {})
        self.simplify = SimplifyContext(policy)
        self.done: dict[UOp, UOp] = {}
        self.kinds: dict[Hashable, Kind] = {}
        self.parts: dict[UOp, Part] = {}
        self.numbered = numbered(self.order)
        self._about: dict[UOp, int] = {}
        self._options: dict[Hashable, int] = {}
        self._names: dict[UOp, UOp] = {}  # a STAGE whose value is known -> what its readers call it

    def run(self) -> UOp:
        """Parts, sources first; which of them are needed, readers first; their kernels, sources first."""
        became = self.rangeify.became
        for u in self.order:
            if u in self.ranges.realize:
                self.parts[u] = self.part(u)
            elif u.op is Ops.AFTER:
                became[u] = became[u.src[0].base] if all(self.is_nothing(s) for s in u.src[1:]) else u
                self.done[u] = u
            elif u.op in MEMORY:
                if u.src:
                    raise NotByParts
                became[u] = u
        return self.made(self.needed())

    def is_nothing(self, u: UOp) -> bool:
        """Whether a write turned out to write what is there."""
        return u in self.parts and self.parts[u].kind.node.op is Ops.NOOP

    # ** parts **

    def about(self, u: UOp) -> int:
        """What rules may ask about a value in memory or about a write, as a number."""
        found = self._about.get(u)
        if found is None:
            what = u.src[1] in self.ranges.hazards if u.op is Ops.STORE else options(self.rangeify, u)
            found = self._about[u] = self._options.setdefault(what, len(self._options))
        return found

    def part(self, u: UOp) -> Part:
        """A part as one of its kind; the first of a kind goes through the rules."""
        found = outline(u, self.ranges, self.about)
        key, leaves, loops = self.looked_through(u, found)
        kind = self.kinds.get(key) if key is not None else None
        if kind is not None:
            return Part(kind, leaves, loops)
        kind = self.first(u, found, leaves, loops)
        if key is None or not kind.has_loops:
            key = kind.node  # without loops, what is equal is the same node: there is one buffer for it
        kind = self.kinds.setdefault(key, kind)
        return Part(kind, kind.leaves, kind.loops)

    def looked_through(self, u: UOp, found: Outline) -> tuple[Hashable, tuple[UOp, ...], tuple[UOp, ...]]:
        """Key, leaves and loops of a part, with those of the values that are computed again in it."""
        leaves: dict[UOp, int] = {}
        memories: dict[UOp, int] = {}
        loops = {r: i for i, r in enumerate(found.loops)}
        key = [found.key]

        def place(leaf: UOp) -> None:
            memory = memory_of(leaf) if leaf.op in MEMORY else leaf
            key.append(leaves.setdefault(leaf, len(leaves)))
            key.append(memories.setdefault(memory, len(memories)))

        for b in found.border:
            part = self.parts.get(b)
            if part is None:
                place(self.rangeify.became[b])
                continue
            if part.kind.stays:
                key.append(part.kind.axes)
                place(self.name_of(part))
            if self.sees_value(u, b):
                key.append(part.kind)
                for leaf in part.leaves:
                    place(leaf)
                key += [loops.setdefault(r, len(loops)) for r in part.loops]
        in_order = sorted(range(len(loops)), key=[r.arg[0] for r in loops].__getitem__)
        return None if found.key is None else (*key, *in_order), tuple(leaves), tuple(loops)

    # ** rules **

    def first(self, u: UOp, found: Outline, leaves: tuple[UOp, ...], loops: tuple[UOp, ...]) -> Kind:
        """What the rules make of a part."""
        ctx = self.rangeify
        for b in found.border:
            if b in self.parts:
                ctx.stages[b] = self.value_of(self.parts[b]) if self.sees_value(u, b) else self.stage_of(self.parts[b])
        for v in found.nodes:
            if v in self.ranges.ins and v not in ctx.became and (v is u or v not in self.parts):
                apply_rule(ctx, v)
        if u.op is Ops.STORE:
            return Kind(rewritten(ctx.became[u], self.simplify, self.done), leaves, loops)
        node = rewritten(over_own_loops(stage(ctx, u, self.ranges.realize[u])), self.simplify, self.done)
        axes = self.simplify.alive(node)
        kind = Kind(node, leaves, loops, None if axes is None else tuple(axes))
        kind.stays = self.stays(kind)
        return kind

    def stays(self, kind: Kind) -> bool:
        """Whether a value gets memory, whoever reads it (but for :meth:`sees_value`)."""
        opts = kind.node.arg
        if not opts.removable:
            return True
        if opts.override == "fuse" or kind.node.src[0].op is Ops.CONST:
            return False
        return opts.hazard or bool(self.simplify.choice(kind.seen))

    def sees_value(self, reader: UOp, u: UOp) -> bool:
        """Whether rules may compute a value in its reader: a write may take in what reads the memory that it writes."""
        return not self.parts[u].kind.stays or (reader.op is Ops.STORE and u in self.ranges.hazards)

    def stage_of(self, part: Part) -> UOp:
        """The STAGE of a part that rules see when they are applied to its readers: a name alone, where it stays."""
        return self.names_of(part)[0] if part.kind.stays else self.value_of(part)

    def name_of(self, part: Part) -> UOp:
        """What the readers of a part that stays index in the end."""
        return self.names_of(part)[1]

    def names_of(self, part: Part) -> tuple[UOp, UOp]:
        if part.name is None:
            node = part.kind.node
            value = UOp(Ops.NOOP, node.dtype, (), len(self.done)) if part.kind.has_loops else node.src[0]
            part.name = self._known(node.over((value, *node.src[1:])), part.kind)
        return part.name

    def value_of(self, part: Part) -> UOp:
        """The STAGE of a part with its value."""
        kind = part.kind
        if part.leaves == kind.leaves and part.loops == kind.loops:
            value = kind.node
        else:
            if kind.template is None:
                kind.template = Template.of(kind.node, (*kind.leaves, *kind.loops, *kind.own))
            if kind.template is None:
                raise NotByParts
            value = kind.template.over((*part.leaves, *part.loops, *kind.own))
        _, seen = self._known(value, kind)
        if kind.stays:
            self._names[seen] = self.name_of(part)
        return value

    def _known(self, stage: UOp, kind: Kind) -> tuple[UOp, UOp]:
        """No rule applies to such a STAGE, and what is known of its kind is known of it. Returns how it is seen, too."""
        seen = stage if kind.axes is None else along(stage, kind.axes)
        self.done[stage], self.done[seen] = stage, seen
        if stage is not kind.node:
            self.simplify.like[stage], self.simplify.like[seen] = kind.node, kind.seen
        return stage, seen

    # ** kernels **

    def kernel(self, part: Part) -> tuple[UOp, list[UOp]]:
        """The program of a part that stays or of a write, and what it is called with."""
        kind = part.kind
        if kind.kernel is None:
            place = {leaf: i for i, leaf in enumerate(kind.leaves)}
            program, found = kernel_of(kind.seen, self.numbered)
            args = [self._names.get(a, a) for a in found]
            if not all(a in place for a in args) or 0 < self.buffer_limit <= len(args):
                raise NotByParts
            kind.kernel = program, tuple([place[a] for a in args])
        program, places = kind.kernel
        return program, [part.leaves[i] for i in places]

    def needed(self) -> set[UOp]:
        """The names of the parts that are read by others, down from the writes and the calls of functions."""
        found: set[UOp] = set()
        for u in reversed(self.order):
            part = self.parts.get(u)
            if u.op is Ops.CALL:
                found.update(self.name_of(self.parts[s]) for s in u.src if s in self.parts)
            elif part is None or self.is_nothing(u):
                continue
            elif u.op is Ops.STORE or (part.kind.stays and self.name_of(part) in found):
                found.update(self.kernel(part)[1])
        return found

    def made(self, needed: set[UOp]) -> UOp:
        """The graph of kernels: CALL for writes, BUFFER + CALL + AFTER for values in memory."""
        final: dict[UOp, UOp] = {}
        ctx = replace(self.rangeify, became=final, stages=final)
        count = self.numbered
        for u in self.order:
            part = self.parts.get(u)
            if part is None:
                if u.op in (Ops.AFTER, Ops.CALL, Ops.SINK) or u.op in MEMORY:
                    simpler = after_nothing.apply(apply_rule(ctx, u))
                    final[u] = final[u] if simpler is None else simpler
            elif self.is_nothing(u):
                final[u] = part.kind.node
            elif u.op is Ops.STORE:
                program, args = self.kernel(part)
                final[u] = program.call(*[final[a] for a in args])
            elif part.kind.stays and (name := self.name_of(part)) in needed:
                if name not in final:
                    count += 1
                    program, args = self.kernel(part)
                    buffer = buffer_for(part.kind.seen, count)
                    final[name] = buffer.after(program.call(buffer, *[final[a] for a in args]))
                final[u] = final[name]
        return final[self.order[-1]]
