"""Functions in graphs: ``GETTUPLE(FUNCTION(arguments...), i)`` is the i-th value of a body over placeholders.

The body is in the FUNCTION's ``arg`` and no source, so that a walk over the graph around it never takes the body's slot 0
for its own. Placeholders are PARAMs with the shapes of the arguments; Variables are arguments too and come last.

In: values, and which of their nodes are arguments. Out: FUNCTION nodes, and what they stand for.

>>> x, y = (UOp.new_buffer("NUMPY", 4, dtypes.float32) for _ in range(2))
>>> body, args = abstract([x + x * y, y], lambda u: u if u in (x, y) else None)
>>> f = UOp(Ops.FUNCTION, dtypes.void, tuple(args), FunctionArg(body, "f"))
>>> args == [x, y], get_value(f, 0).shape, values_of(f)[0] is x + x * y
(True, (4,), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tinysched.dtypes import dtypes
from tinysched.ir.derive import map_arg, max_shape, plain, prod
from tinysched.ir.lines import add_line, lines_of
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import ParamArg, Shape, Sint, UOp


@dataclass(frozen=True, slots=True, repr=False)
class FunctionArg:
    """What a FUNCTION computes: a TUPLE of values over PARAMs and ``variables`` (the last arguments, in this order)."""

    body: UOp
    name: str
    precompile: bool = False
    variables: tuple[UOp, ...] = ()

    def __repr__(self) -> str:
        kind = " precompiled" if self.precompile else ""
        return f"{self.name}@{self.body.key.hex()[:16]}{kind}"

    def shape_of(self, i: int, args: tuple[UOp, ...]) -> Shape:
        """The shape of the i-th value, its Variables being those that are passed."""
        shape = self.body.src[i].shape
        if all(isinstance(n, int) for n in shape):
            return shape
        passed = self.passed(args)
        return tuple(n if isinstance(n, int) else plain(n.substitute(passed)) for n in shape)

    def passed(self, args: tuple[UOp, ...]) -> dict[UOp, UOp]:
        """Each Variable of the body, and what is passed for it where that is another node."""
        values = args[len(args) - len(self.variables) :]
        return {v: a for v, a in zip(self.variables, values, strict=True) if v is not a}


def get_value(f: UOp, i: int) -> UOp:
    """The i-th value of a FUNCTION."""
    return UOp(Ops.GETTUPLE, f.arg.body.src[i].dtype, (f,), i)


def placeholder(slot: int, like: UOp) -> UOp:
    """The PARAM that stands for an argument in a body."""
    size = int(prod(max_shape(like.shape)))
    return UOp(Ops.PARAM, like.dtype, (), ParamArg(slot, size, like.device, shape=like.shape))


def placeholders(body: UOp) -> dict[int, UOp]:
    """The PARAMs of a body, by slot."""
    return {u.arg.slot: u for u in body.toposort() if u.op is Ops.PARAM and not u.is_variable}


def abstract(values: Iterable[UOp], argument: Callable[[UOp], UOp | None]) -> tuple[UOp, list[UOp]]:
    """A body (a TUPLE of the values over placeholders), and the arguments in order of their slots.

    ``argument(node)`` is what is passed for a node, or None for nodes that are part of the body.
    """
    body = UOp(Ops.TUPLE, dtypes.void, tuple(values))
    became: dict[UOp, UOp] = {}
    args: list[UOp] = []
    for u in body.toposort(gate=lambda u: argument(u) is None):
        passed = argument(u)
        if passed is None:
            became[u] = over(u, tuple([became[s] for s in u.src]))
        else:
            became[u] = placeholder(len(args), u)
            args.append(passed)
    return became[body], args


def over(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """A node over other sources; it keeps the user's lines."""
    if src == u.src:
        return u
    new = UOp(u.op, u.dtype, src, u.arg, u.tag)
    for line in lines_of(u):
        add_line(new, line)
    return new


def values_of(f: UOp) -> tuple[UOp, ...]:
    """The values of a FUNCTION: its body with the arguments in place of the placeholders."""
    passed = f.arg.passed(f.src)
    return instantiate(f.arg.body, dict(enumerate(f.src)), passed).src


def instantiate(body: UOp, args: Mapping[int, UOp], variables: Mapping[UOp, UOp]) -> UOp:
    """A body with other nodes for the PARAMs whose slot is in ``args``, and for Variables, in its shapes too."""
    became: dict[UOp, UOp] = dict(variables)

    def size(n: UOp) -> Sint:
        return plain(n.substitute(dict(variables)))

    for u in body.toposort():
        if u in became:
            continue
        if u.op is Ops.PARAM and not u.is_variable:
            became[u] = args.get(u.arg.slot, u)
            continue
        new = over(u, tuple([became[s] for s in u.src]))
        if variables and u.op in GroupOp.Movement:
            new = new.replace(arg=map_arg(u.arg, size))
        became[u] = new
    return became[body]


def without_hint(value: UOp) -> UOp:
    """A value of an inlined function whose body does not ask for memory for it: who stores it does that already."""
    if value.op is not Ops.GETTUPLE or value.src[0].op is not Ops.FUNCTION or value.src[0].arg.precompile:
        return value
    f, inner = value.src[0], value.src[0].arg.body.src[value.arg]
    new = inner.src[0] if inner.op is Ops.CONTIGUOUS and inner.arg is None else without_hint(inner)
    if new is inner:
        return value
    values = [new if i == value.arg else v for i, v in enumerate(f.arg.body.src)]
    arg = replace(f.arg, body=f.arg.body.replace(src=tuple(values)))
    return get_value(f.replace(arg=arg), value.arg)


def shaped(memory: UOp, shape: Shape) -> UOp:
    """Flat memory in a value's shape (the first elements, where a Variable makes the value smaller)."""
    most = max_shape(shape)
    full = memory.reshape(most)
    return full if most == shape else full.shrink(tuple((0, n) for n in shape))
