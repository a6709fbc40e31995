"""Recall: a graph of a structure that was planned before gets that plan's kernels, over memory of its own.

In: the Storages that are asked for. Out: a :class:`Structure`, and the :class:`Recipe` of an earlier plan that had the same.
Two graphs are of one structure if they differ in nothing but which BUFFERs they are over, and if what callify and the
passes look at around them is the same: settings, the default device, and which of their nodes Storages outside hold on to.
It is a cache of whole plans, before callify; the schedule cache behind it knows bodies (the same for all values of a
Variable, say). Whoever watches sees every pass at work.

>>> from tinysched import Tensor, plan
>>> x, y = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()
>>> first, second = (structure_of([(t + 1).storage], "NUMPY") for t in (x, y))
>>> first.key == second.key, first.memory == [x.uop.base], second.memory == [y.uop.base]
(True, True, True)
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any, NamedTuple

from tinysched.ir.ops import Ops
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.callify import Asked, asked_graph, look_around
from tinysched.schedule.pipeline import Schedule, remember
from tinysched.settings import steering_key
from tinysched.tensor.storage import Storage

recipes: OrderedDict[Any, Recipe] = OrderedDict()
"""What was scheduled, by key of the structure; what was not asked for longest goes first."""

_DEPENDS_ON_OTHERS = frozenset({Ops.AFTER, Ops.CONTIGUOUS, Ops.FUNCTION})
"""What becomes of these depends on what Storages outside hold."""


class Structure(NamedTuple):
    """A graph in the order of the walk (its SINK last), the BUFFERs in it, and a key without them."""

    key: tuple[Any, ...]
    order: list[UOp]
    memory: list[UOp]
    around: Asked | None


def structure_of(storages: list[Storage], device: str) -> Structure:
    """The structure of what is asked for.

    In the key a node is what it does and the numbers of its sources; a BUFFER is a place; what else has no sources is
    itself. (None begins a node and nothing else, so that no two structures read alike.)
    """
    order = asked_graph(storages)
    key: list[Any] = [device, steering_key()]
    memory: list[UOp] = []
    number = dict(zip(order, range(len(order))))
    number_of = number.__getitem__
    alone = True
    for u in order:
        if u.src:
            op, arg = u.op, u.arg
            bits = arg if arg.__class__ is not float else struct.pack("d", arg)  # 0.0 is not -0.0
            key += (None, op, u.dtype, bits, u.tag)
            key += map(number_of, u.src)
            alone = alone and op not in _DEPENDS_ON_OTHERS
        elif u.op is Ops.BUFFER:
            key += (None, u.dtype, u.arg.size, u.arg.device)
            memory.append(u)
        else:
            key.append(u)
    if alone:
        return Structure(tuple(key), order, memory, None)
    around = look_around(storages, order, device)
    held = {u for u in around.must if u.op is Ops.CONTIGUOUS}
    for facts in (held, around.readers):
        key += (None, *[n for u, n in number.items() if u in facts])
    return Structure(tuple(key), order, memory, around)


class Scheduled(NamedTuple):
    """A body with its arguments, its schedule, where the value of each node of the user's graph will be, and the values of
    Variables."""

    body: UOp
    args: tuple[UOp, ...]
    schedule: Schedule
    buffer_map: dict[UOp, UOp]
    var_vals: dict[str, int]


class Recipe(NamedTuple):
    """What was scheduled, without its memory: the BUFFERs of the graph have numbers, and those that were made the next ones.

    ``args``: which BUFFER each argument of the body is; ``new``: device, size and dtype of those to make; ``places``: where
    the value of the node at a position of the walk will be, over PARAMs that stand for BUFFERs.
    """

    body: UOp
    schedule: Schedule
    args: tuple[int, ...]
    new: tuple[Any, ...]
    places: tuple[tuple[int, UOp], ...]

    @staticmethod
    def of(made: Scheduled, graph: Structure) -> Recipe:
        """What is the same for all graphs of a structure, in what was made for one of them."""
        number = {b: i for i, b in enumerate(dict.fromkeys([*graph.memory, *made.args]))}
        new = [(b.arg.device, b.arg.size, b.dtype) for b in list(number)[len(graph.memory) :]]
        became = {b: UOp(Ops.PARAM, b.dtype, (), ParamArg(i, b.arg.size, b.arg.device)) for b, i in number.items()}
        at = {u: i for i, u in enumerate(graph.order)}
        places = [(at[u], _over(place, became)) for u, place in made.buffer_map.items()]
        return Recipe(made.body, made.schedule, tuple([number[b] for b in made.args]), tuple(new), tuple(places))

    def over(self, graph: Structure) -> Scheduled:
        """The same for another graph of the structure."""
        buffers = graph.memory + [UOp.new_buffer(*like) for like in self.new]
        buffer_map = {graph.order[at]: _placed(place, buffers) for at, place in self.places}
        return Scheduled(self.body, tuple([buffers[i] for i in self.args]), self.schedule, buffer_map, {})


def _over(view: UOp, became: dict[UOp, UOp]) -> UOp:
    """A view of other memory. What each node became is added to ``became``."""
    if view not in became:
        became[view] = view.over(tuple([_over(s, became) for s in view.src]))
    return became[view]


def _placed(place: UOp, buffers: list[UOp]) -> UOp:
    """A view with BUFFERs for its PARAMs. It is a few nodes deep."""
    if place.op is Ops.PARAM:
        slot: int = place.arg.slot
        return buffers[slot]
    return UOp(place.op, place.dtype, tuple([_placed(s, buffers) for s in place.src]), place.arg)


def keep(graph: Structure, made: Scheduled) -> None:
    """From now on graphs of this structure get what was scheduled for this one.

    The values of Variables are part of a structure, so that another one is not likely: those graphs are not kept.
    """
    if not made.var_vals:
        remember(recipes, graph.key, Recipe.of(made, graph))


def clear_caches() -> None:
    """Forgets all structures."""
    recipes.clear()
