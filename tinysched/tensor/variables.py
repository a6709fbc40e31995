"""Variables: whole numbers that a schedule leaves open, so that another value hits the same cache entry.

In: the writes of a body, whose shapes and values may hold ``BIND(Variable, value)``. Out: the same graph over
Variables alone, and ``var_vals``. A Variable has one value within one expression; pending writes at two of its values
both happen: the second value gets a name of its own.

>>> v = UOp.variable("n", 1, 10)
>>> bound = bindings([UOp.sink(v.bind(3))])
>>> bound.var_vals, bound.strip(v.bind(3)) is v
({'n': 3}, True)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.ir.derive import arg_uops, has_nodes, map_arg, plain
from tinysched.ir.lines import where
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.rewrite import map_nodes
from tinysched.ir.uop import Sint, UOp, with_arg
from tinysched.tensor.storage import WRITTEN


@dataclass
class Bindings:
    """The bound Variables of a schedule: what each BIND becomes, and the values by name."""

    became: dict[UOp, UOp] = field(default_factory=dict)
    var_vals: dict[str, int] = field(default_factory=dict)

    def add(self, bind: UOp) -> None:
        """Gives a BIND its Variable: itself, or one of another name where its name has another value already."""
        variable, value = bind.unbind()
        name, n = str(variable.arg.name), 2
        while self.var_vals.get(name, value) != value:
            name, n = f"{variable.arg.name}#{n}", n + 1
        self.var_vals[name] = value
        self.became[bind] = variable if name == variable.arg.name else with_arg(variable, name=name)

    def strip(self, size: UOp) -> Sint:
        """A size over Variables instead of BINDs; an int where they cancel out."""
        return plain(size.substitute(self.became))


def bindings(roots: Iterable[UOp], order: list[UOp] | None = None) -> Bindings:
    """The bindings of all writes (``order``: the nodes of their graph, if known).

    Raises :class:`ArgumentError` if one of them binds a Variable to two values."""
    writes = list(roots)
    order = UOp.sink(*writes).toposort() if order is None else order
    result = Bindings()
    for bind in binds_of(order):
        result.add(bind)
    if len(result.became) > len({bind.src[0] for bind in result.became}):
        for write in dict.fromkeys((*writes, *(u for u in order if u.tag == WRITTEN))):
            check_one_value(write)
    return result


def binds_of(order: Iterable[UOp]) -> dict[UOp, UOp]:
    """The BINDs that some nodes use, in their shapes too, each with the first node that does."""
    found: dict[UOp, UOp] = {}
    for u in order:
        for s in u.src:
            if s.op is Ops.BIND:
                found.setdefault(s, u)
        if (u.op in GroupOp.Movement or u.op is Ops.PARAM) and has_nodes(sizes_in(u)):
            for b in [b for size in arg_uops(sizes_in(u)) for b in size.toposort() if b.op is Ops.BIND]:
                found.setdefault(b, u)
    return found


def sizes_in(u: UOp) -> Any:
    """The part of a node's argument that may hold Variables."""
    if u.op in GroupOp.Movement:
        return u.arg
    return u.arg.shape if u.op is Ops.PARAM else None


def check_one_value(write: UOp) -> None:
    """Refuses a write with one Variable at two values. The states that it reads were written by other expressions."""
    expression, older = (UOp.sink(*write.src[:2]), write.src[2]) if write.tag == WRITTEN else (write, None)

    def is_within(u: UOp) -> bool:
        return u is write or (u.op is not Ops.AFTER and u.tag != WRITTEN and u is not older)

    values: dict[UOp, int] = {}
    # a function is an expression of its own: its arguments were checked when it was called
    inside = (u for u in expression.toposort(is_within) if is_within(u) and u.op is not Ops.FUNCTION)
    for bind, user in binds_of(inside).items():
        variable, value = bind.unbind()
        if values.setdefault(variable, value) != value:
            raise ArgumentError(
                f"{variable.arg.name} is bound to {values[variable]} and to {value} in one expression",
                where=where(user),
                help="a Variable has one value at a time: realize one part first, or use two Variables",
            )


def strip_bindings(root: UOp, bound: Bindings) -> UOp:
    """The graph with Variables for BINDs, in its shapes too."""
    return map_nodes(root, lambda u: stripped(u, bound)) if bound.became else root


def stripped(u: UOp, bound: Bindings) -> UOp:
    """A node whose sources have none, with Variables for BINDs in its shape too."""
    if u.op is Ops.BIND:
        return bound.became[u]
    sizes = sizes_in(u)
    if sizes is None or not has_nodes(sizes):
        return u
    if u.op is Ops.PARAM:
        return with_arg(u, shape=map_arg(u.arg.shape, bound.strip))
    return u.replace(arg=map_arg(u.arg, bound.strip))
