"""What the user calls things: variables that hold Tensors, also inside of models.

In: the frame of the user's code, or the function that is captured. Out: names by tensor-graph node.

>>> class Box:
...     pass
>>> from tinysched import Tensor
>>> box = Box()
>>> box.weight = Tensor([1.0])
>>> sorted(name for name, _ in tensors_in({"model": box, "_hidden": box.weight}))
['model.weight']
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any

from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor

DEEPEST = 4
MOST_OBJECTS = 4_000
_NOT_HOLDERS = (ModuleType, type, str, bytes, int, float)


def names_in(frame: FrameType | None, inputs: Mapping[str, Tensor] | None) -> dict[UOp, str]:
    """The names that are visible in ``frame``; given ones win, then locals, then globals."""
    scopes: list[Mapping[str, Any]] = [dict(inputs or {})]
    if frame is not None:
        scopes += [variables_of(frame), dict(frame.f_globals)]
    names: dict[UOp, str] = {}
    for scope in scopes:
        for name, tensor in tensors_in(scope):
            names.setdefault(tensor.uop, name)
    return names


def called(x: Callable[[], Any]) -> tuple[Any, FrameType | None]:
    """What a function returns, and its frame, in which its variables still are (None for what is no Python function).

    The frame keeps them alive: it has to be cleared.
    """
    code = getattr(x, "__code__", None)
    frames: list[FrameType] = []
    before = sys.getprofile()

    def catch(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code is code:
            frames.append(frame)
            sys.setprofile(before)  # its own call is the only one of interest

    if code is not None:
        sys.setprofile(catch)
    try:
        return x(), frames[0] if frames else None
    finally:
        sys.setprofile(before)


def variables_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of a function's frame, {} for a module's.

    Before Python 3.13 asking a frame makes it keep a copy, and with it every value alive; the copy is emptied.
    """
    scope = frame.f_locals
    if scope is frame.f_globals:
        return {}
    found = dict(scope)
    if isinstance(scope, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        scope.clear()
    return found


def tensors_in(scope: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Tensors by the path that leads to them; plain variables before those inside of objects."""
    level = [(name, value) for name, value in scope.items() if not name.startswith("_")]
    seen: set[int] = set()
    for _ in range(DEEPEST):
        deeper: list[tuple[str, Any]] = []
        for name, value in level:
            if isinstance(value, Tensor):
                yield name, value
            elif id(value) not in seen and len(seen) < MOST_OBJECTS:
                seen.add(id(value))
                deeper += _parts(name, value)
        level = deeper


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, _NOT_HOLDERS) or (callable(value) and not hasattr(value, "__dict__")):
        return []
    if isinstance(value, dict):
        return [(f"{name}.{k}", v) for k, v in list(value.items()) if isinstance(k, str) and not k.startswith("_")]
    if isinstance(value, (list, tuple)):
        return [(f"{name}.{i}", v) for i, v in enumerate(value[:200])]
    fields = getattr(value, "__dict__", None)
    return (
        [(f"{name}.{k}", v) for k, v in list(fields.items()) if not k.startswith("_")]
        if isinstance(fields, dict)
        else []
    )


def title_of(x: Any, frame: FrameType | None) -> str:
    """The variable that holds ``x``, or a function's name."""
    if callable(x) and not isinstance(x, Tensor):
        name = str(getattr(x, "__name__", ""))
        return name if name and name != "<lambda>" else "trace"
    scope = {**frame.f_globals, **variables_of(frame)} if frame is not None else {}
    return next((name for name, value in scope.items() if value is x and not name.startswith("_")), "trace")
