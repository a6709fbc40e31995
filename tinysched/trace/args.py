"""The arguments of nodes as JSON values and back, so that a trace can be scheduled again.

In: what a UOp's ``arg`` or ``tag`` is. Out: plain JSON values; what JSON has no form for is an object with one key that
says what it is. Floats are written in hexadecimal: every bit comes back. Nothing is evaluated.

>>> to_data((2, -0.0, Ops.ADD), lambda u: 0)
(2, {'float': '-0x0.0p+0'}, {'op': 'ADD'})
>>> from_data(to_data((2, -0.0, Ops.ADD), lambda u: 0), lambda i: None)
(2, -0.0, Ops.ADD)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tinysched.dtypes import DType, to_dtype
from tinysched.errors import TinyschedError, TraceError
from tinysched.ir.derive import arg_uops
from tinysched.ir.function import FunctionArg
from tinysched.ir.ops import Ops
from tinysched.ir.uop import INVALID, BufferArg, ParamArg, UOp


def to_data(arg: Any, number: Callable[[UOp], int]) -> Any:
    """``arg`` as a JSON value; ``number`` gives a node's id."""
    if arg is INVALID:
        return {"invalid": True}
    if arg is None or arg.__class__ in (bool, int, str):
        return arg
    if isinstance(arg, float):
        return {"float": arg.hex()}
    if isinstance(arg, (tuple, list)):
        return tuple(to_data(a, number) for a in arg)
    if isinstance(arg, Ops):
        return {"op": arg.name}
    if isinstance(arg, DType):
        return {"dtype": arg.name}
    if isinstance(arg, UOp):
        return {"node": number(arg)}
    if isinstance(arg, BufferArg):
        return {"buffer": to_data((arg.size, arg.device), number)}
    if isinstance(arg, ParamArg):
        fields = (arg.slot, arg.size, arg.device, arg.name, arg.vmin, arg.vmax, arg.shape)
        return {"param": to_data(fields, number)}
    if isinstance(arg, FunctionArg):
        return {"function": to_data((arg.body, arg.name, arg.precompile, arg.variables), number)}
    return {"unknown": type(arg).__name__}


def nodes_in(arg: Any) -> Iterator[UOp]:
    """The nodes that an argument holds."""
    if isinstance(arg, FunctionArg):
        yield arg.body
        yield from arg.variables
    elif isinstance(arg, ParamArg):
        yield from arg_uops(arg.shape)
    else:
        yield from arg_uops(arg)


def from_data(data: Any, node: Callable[[int], UOp]) -> Any:
    """The argument that :func:`to_data` wrote down; a buffer's is ``("buffer", size, device)``, for it needs a number.

    Raises :class:`TraceError` for anything else.
    """
    if data is None or data.__class__ in (bool, int, str):
        return data
    if isinstance(data, (tuple, list)):
        return tuple(from_data(d, node) for d in data)
    if not isinstance(data, dict) or len(data) != 1:
        raise TraceError(f"{data!r:.60} is no argument of a node", help="the file was not made by to_json")
    ((kind, value),) = data.items()
    reader = _READERS.get(kind)
    if reader is None:
        raise TraceError(f"an argument of kind {kind!r:.40} cannot be read back", help="trace the program again")
    try:
        return reader(value, node)
    except (TypeError, ValueError, KeyError, OverflowError, TinyschedError) as error:
        raise TraceError(f"{data!r:.60} is no argument of a node: {error}", help="the file is damaged") from None


def _param(value: Any, node: Callable[[int], UOp]) -> ParamArg:
    slot, size, device, name, vmin, vmax, shape = from_data(value, node)
    if not isinstance(slot, int) or not isinstance(size, int) or size < 0 or not isinstance(name, str | None):
        raise TraceError(f"{value!r:.60} is no argument of a call")
    return ParamArg(slot, size, device, name, vmin, vmax, shape)


def _function(value: Any, node: Callable[[int], UOp]) -> FunctionArg:
    body, name, precompile, variables = from_data(value, node)
    if not isinstance(body, UOp) or not isinstance(name, str):
        raise TraceError(f"{value!r:.60} is no function")
    return FunctionArg(body, name, bool(precompile), variables)


def _buffer(value: Any, node: Callable[[int], UOp]) -> tuple[Any, ...]:
    size, device = from_data(value, node)
    if not isinstance(size, int) or size < 0:
        raise TraceError(f"a buffer of {size!r:.20} elements")
    return "buffer", size, device


_READERS: dict[str, Callable[[Any, Callable[[int], UOp]], Any]] = {
    "invalid": lambda value, node: INVALID,
    "float": lambda value, node: float.fromhex(value),
    "op": lambda value, node: Ops[value],
    "dtype": lambda value, node: to_dtype(value),
    "node": lambda value, node: node(value),
    "param": _param,
    "function": _function,
    "buffer": _buffer,
}
