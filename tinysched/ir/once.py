"""What repeats is done once: parts of a graph that differ only in the numbers of their loops and in what they read.

In: the root of a part (a kernel, or a candidate buffer with all that it is computed from). Out of :func:`outline`: a key
that equal parts share, and what they may differ in: *leaves* (memory, mostly) and *loops*. Out of :class:`Template`: what
became of one part, to be made again over the leaves and loops of an equal one. :class:`Once` puts the two together.

Loops keep their order in the key, so that sums in normal form (terms by number of the loop) stay in normal form.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> def memory(slot): return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 8, "NUMPY"))
>>> def part(slot, number): return memory(slot).index(UOp.range(8, number) + 3) * 2.0
>>> first, second = (outline(part(*which), lambda u: Leaf(u, u.shape)) for which in ((0, 1), (7, 5)))
>>> first.key == second.key, second.leaves == (memory(7),), second.loops
(True, True, (<index r5>,))
>>> Template.of(part(0, 1), first).over(second) is part(7, 5)
True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from tinysched.dtypes import DType
from tinysched.ir.ops import Ops
from tinysched.ir.symbolic.affine import Affine, affine_of, is_settled, to_uop
from tinysched.ir.uop import UOp

BORDER = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER, Ops.MSTACK, Ops.MSELECT, Ops.STAGE})
"""Nodes at which a part may end."""


class Leaf(NamedTuple):
    """What stands at the border of a part: the node, and what rules may ask of it. Without a kind the part goes on there.

    ``memory``: leaves of the same memory (in two states) make another part than leaves of two memories.
    """

    node: UOp
    kind: Hashable = None
    memory: UOp | None = None


Look = Callable[[UOp], Leaf | None]
"""What stands at a node of the BORDER; None: nothing can be said, the part is like no other."""


class Outline(NamedTuple):
    """A part of a graph: what equal parts share, and what they may differ in."""

    key: Hashable
    leaves: tuple[UOp, ...]
    loops: tuple[UOp, ...]


def outline(root: UOp, look: Look) -> Outline | None:
    """The part below ``root``, or None where ``look`` says so."""
    key: list[Any] = []  # for each node a None, what it is, and which nodes it is made of
    number: dict[UOp, int] = {}  # of each node: the how manieth it is
    leaves: dict[UOp, int] = {}
    memories: dict[UOp | None, int] = {}
    loops: list[UOp] = []
    stack = [(root, root, iter(root.src))]  # a node, what stands there, and its sources
    while stack:
        u, v, below = stack[-1]
        for s in below:
            if s in number:
                continue
            if s.op is Ops.RANGE:
                loops.append(s)
                key += (None, s.src[0], s.arg[1])
            elif s.op in BORDER and (s.op is not Ops.PARAM or not s.is_variable):
                if (leaf := look(s)) is None:
                    return None
                if leaf.kind is None:
                    stack.append((s, leaf.node, iter(leaf.node.src)))
                    break
                at = leaves.setdefault(leaf.node, len(leaves))
                key += (None, leaf.kind, at, memories.setdefault(leaf.memory, len(memories)))
            elif not s.src:
                key += (None, s)
            elif (form := sum_of_loops(s)) is not None:
                for r in [r for r, _ in form.terms if r not in number]:
                    loops.append(r)
                    key += (None, r.src[0], r.arg[1])
                    number[r] = len(number)
                key += (None, form.const, *[c for _, c in form.terms], *[number[r] for r, _ in form.terms])
            else:
                stack.append((s, s, iter(s.src)))
                break
            number[s] = len(number)
        else:
            number[u] = len(number)
            key += (None, v.op, v.dtype, v.arg, *[number[s] for s in v.src])
            stack.pop()
    order = sorted(range(len(loops)), key=lambda i: loops[i].arg[0])
    return Outline((*key, None, *order), tuple(leaves), tuple(loops))


def sum_of_loops(u: UOp) -> Affine | None:
    """The normal form of a sum of loops, where it was made in that form."""
    if not is_settled(u):
        return None
    form = affine_of(u)
    return form if all(atom.op is Ops.RANGE for atom, _ in form.terms) else None


def _below(u: UOp) -> tuple[tuple[UOp, ...], tuple[int, ...] | None]:
    """The sources of a node; of a sum of loops its loops, and the coefficients and the constant."""
    form = sum_of_loops(u)
    if form is None:
        return u.src, None
    return tuple([loop for loop, _ in form.terms]), (*[c for _, c in form.terms], form.const)


class Step(NamedTuple):
    """A node to be made of nodes that stand at some places; with ``form`` it is a sum in normal form."""

    op: Ops
    dtype: DType
    arg: Any
    form: tuple[int, ...] | None
    src: tuple[int, ...]
    settled: bool


class Template(NamedTuple):
    """A graph as steps. At the first places stand leaves, then loops, then nodes that are the same in every copy."""

    fixed: tuple[UOp, ...]
    steps: tuple[Step, ...]
    root: int

    @staticmethod
    def of(root: UOp, part: Outline) -> Template | None:
        """``root``, which was made of ``part``, as a template; None where it has loops that the part does not have."""
        given = (*part.leaves, *part.loops)
        order, fixed = _moving(root, given)
        if any(u.op is Ops.RANGE for u in fixed):
            return None
        place = {u: i for i, u in enumerate((*given, *fixed, *order))}
        steps = []
        for u in order:
            below, form = _below(u)
            steps.append(Step(u.op, u.dtype, u.arg, form, tuple([place[s] for s in below]), is_settled(u)))
        return Template(tuple(fixed), tuple(steps), place[root])

    def over(self, part: Outline) -> UOp:
        """The same graph over the leaves and loops of an equal part."""
        made = [*part.leaves, *part.loops, *self.fixed]
        for op, dtype, arg, form, src, settled in self.steps:
            nodes = [made[i] for i in src]
            if form is not None:
                made.append(to_uop(Affine(tuple(zip(nodes, form)), form[-1])))
                continue
            u = UOp(op, dtype, tuple(nodes), arg)
            if settled:
                u._settled = True
            made.append(u)
        return made[self.root]


def _moving(root: UOp, given: tuple[UOp, ...]) -> tuple[list[UOp], list[UOp]]:
    """The nodes that depend on what is given, sources first, and those next to them that do not. No kernel is entered."""
    moving: dict[UOp, bool] = dict.fromkeys(given, True)
    order: list[UOp] = []
    stack = [root]
    while stack:
        u = stack.pop()
        if u in moving:
            continue
        below = _below(u)[0] if u.op is not Ops.SINK else ()
        missing = [s for s in below if s not in moving]
        if missing:
            stack.append(u)
            stack.extend(missing)
            continue
        moving[u] = any(moving[s] for s in below)
        if moving[u]:
            order.append(u)
    near = [root, *[s for u in order for s in _below(u)[0]]]
    return order, list(dict.fromkeys([s for s in near if not moving[s]]))


class _Known:
    """A part that was met, and what it became. What is dear is found out when a part comes that may be equal."""

    def __init__(self, root: UOp, new: UOp):
        self.root, self.new = root, new
        self.part: Outline | None = None
        self.template: Template | None = None


class Once:
    """``make`` for the parts of one graph: for a part that equals an earlier one, what that became is made again."""

    def __init__(self, make: Callable[[UOp], UOp], look: Look):
        self.make, self.look = make, look
        self.like: dict[UOp, UOp] = {}
        """What was made again -> what it is like."""
        self._alone: dict[Hashable, _Known] = {}  # parts that no other looked like so far, by what a glance shows
        self._known: dict[Hashable, _Known] = {}

    def __call__(self, root: UOp) -> UOp:
        """What ``root`` becomes."""
        glance = _glance(root)
        if glance not in self._alone:
            new = self.make(root)
            self._alone[glance] = _Known(root, new)
            return new
        self._outlined(self._alone[glance])
        part = outline(root, self.look)
        known = self._known.get(part.key) if part is not None else None
        if part is not None and known is not None and (template := self._template(known)) is not None:
            new = template.over(part)
            self.like[new] = known.new
            return new
        new = self.make(root)
        if part is not None and known is None:
            known = self._known[part.key] = _Known(root, new)
            known.part = part
        return new

    def _outlined(self, first: _Known) -> None:
        if first.part is None and (part := outline(first.root, self.look)) is not None:
            first.part = part
            self._known.setdefault(part.key, first)

    def _template(self, known: _Known) -> Template | None:
        if known.template is None and known.part is not None:
            known.template = Template.of(known.new, known.part)
        return known.template


def _glance(root: UOp) -> Hashable:
    """What two parts that are equal have in common at first sight: what stands near the root."""
    return root.op, *[(s.op, *[t if t.op is Ops.CONST else t.op for t in s.src]) for s in root.src]
