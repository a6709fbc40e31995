"""The gradient of a FUNCTION is a FUNCTION: its body computes the gradients of the arguments.

In: a FUNCTION, the gradients of its values, and how gradients flow through a graph. Out: the gradients of its arguments.
The backward body holds what it needs of the forward one. Where both are inlined these are the same nodes, computed once;
a precompiled backward computes them again.

>>> from tinysched import Tensor, function
>>> x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
>>> scaled = function(lambda x: (x * w).sum(), precompile=True)
>>> [g.tolist() for g in scaled(x).gradient(x, w)]
[[3.0, 4.0], [1.0, 2.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from tinysched.dtypes import dtypes
from tinysched.ir.function import FunctionArg, abstract, get_value, placeholder, placeholders
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp

Flow = Callable[[UOp, dict[UOp, UOp], Iterable[UOp]], dict[UOp, UOp]]
"""From a root, gradients of nodes below it, and the nodes asked for, to all gradients."""


def function_gradient(
    f: UOp, given: Sequence[UOp | None], needed: Container[UOp], flow: Flow
) -> Iterator[tuple[UOp, UOp]]:
    """Arguments that are ``needed``, each with its gradient; ``given`` are those of the values (None: nothing flows)."""
    arg: FunctionArg = f.arg
    count = len(f.src) - len(arg.variables)
    passed = dict(enumerate(f.src[:count]))
    seeds: dict[UOp, UOp] = {}
    for slot, (value, g) in enumerate(zip(arg.body.src, given), count):
        if g is not None:
            passed[slot], seed = g, placeholder(slot, value)
            seeds[value] = seeds[value] + seed if value in seeds else seed
    params = placeholders(arg.body).items()
    targets = {slot: p for slot, p in params if f.src[slot] in needed and dtypes.is_float(p.dtype)}
    grads = flow(arg.body, seeds, targets.values())
    found = {slot: grads[p] for slot, p in targets.items() if p in grads}
    if not found:
        return
    body, args = abstract(found.values(), lambda u: passed[u.arg.slot] if _is_placeholder(u) else None)
    backward = FunctionArg(body, f"{arg.name} backward", arg.precompile, arg.variables)
    call = UOp(Ops.FUNCTION, dtypes.void, (*args, *f.src[count:]), backward)
    for i, slot in enumerate(found):
        yield f.src[slot], get_value(call, i)


def _is_placeholder(u: UOp) -> bool:
    return u.op is Ops.PARAM and not u.is_variable
