"""Variables: whole numbers that a schedule leaves open, so that another value hits the same cache entry.

In: the writes of a body, whose shapes and values may hold ``BIND(Variable, value)``. Out: the same graph over Variables
alone, and ``var_vals``. A Variable has one value within one expression; pending writes at two of its values both happen:
the second value gets a name of its own.

>>> v = UOp.variable("n", 1, 10)
>>> bound = bindings([UOp.sink(v.bind(3))])
>>> bound.var_vals, bound.strip(v.bind(3)) is v
({'n': 3}, True)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError
from tinysched.ir.derive import arg_uops, map_arg
from tinysched.ir.lines import where
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.rewrite import map_nodes
from tinysched.ir.symbolic.affine import simplify_index
from tinysched.ir.uop import UOp, with_arg



@dataclass
class Bindings:
    """The bound Variables of a schedule: what each BIND becomes, and the values by name."""

    became: dict[UOp, UOp] = field(default_factory=dict)
    var_vals: dict[str, int] = field(default_factory=dict)

    def add(self, bind: UOp) -> None:
        """Gives a BIND its Variable: itself, or one of another name where its name has another value already."""
        if bind in self.became:
            return
        variable, value = bind.unbind()
        name, n = str(variable.arg.name), 2
        while self.var_vals.get(name, value) != value:
            name, n = f"{variable.arg.name}#{n}", n + 1
        self.var_vals[name] = value
        self.became[bind] = variable if name == variable.arg.name else with_arg(variable, name=name)

    def strip(self, size: UOp) -> UOp:
        """An index expression over Variables instead of BINDs."""
        stripped = size.substitute({b: v for b, v in self.became.items()})
        return simplify_index(stripped) if stripped.dtype is dtypes.index else stripped


def binds_of(root: UOp) -> list[UOp]:
    """The BINDs of one expression, in shapes too; states of memory are not entered."""
    found: dict[UOp, None] = {}
    for u in root.toposort(gate=lambda u: u.op is not Ops.AFTER or u is root):
        if u.op is Ops.BIND:
            found[u] = None
        elif u.op in GroupOp.Movement:
            for size in arg_uops(u.arg):
                found.update(dict.fromkeys(b for b in size.toposort() if b.op is Ops.BIND))
    return list(found)


def bindings(roots: Iterable[UOp]) -> Bindings:
    """The bindings of all expressions. Raises :class:`ArgumentError` if one of them binds a Variable to two values."""
    result = Bindings()
    for root in roots:
        values: dict[UOp, int] = {}
        for bind in binds_of(root):
            variable, value = bind.unbind()
            if values.setdefault(variable, value) != value:
                raise ArgumentError(
                    f"{variable.arg.name} is bound to {values[variable]} and to {value} in one expression",
                    where=where(root.src[-1] if root.src else root),
                    help="a Variable has one value at a time: realize one part first, or use two Variables",
                )
            result.add(bind)
    return result


def strip_bindings(root: UOp, bound: Bindings) -> UOp:
    """The graph with Variables for BINDs, in its shapes too."""
    if not bound.became:
        return root

    def strip(u: UOp) -> UOp | None:
        if u.op is Ops.BIND:
            return bound.became[u]
        if u.op in GroupOp.Movement and any(True for _ in arg_uops(u.arg)):
            return u.replace(arg=map_arg(u.arg, bound.strip))
        return None

    return map_nodes(root, strip)
