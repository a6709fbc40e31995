"""The Tensors inside of a model: finding them, naming them, and putting other values there.

In: any object with attributes, lists, tuples or dicts. Out: dictionaries from dotted names to Tensors.

>>> from tinysched import Tensor
>>> sorted(get_state_dict({"a": [Tensor.empty(2), Tensor.empty(3)], "b": 7}))
['a.0', 'a.1']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tinysched.errors import ArgumentError, ShapeError
from tinysched.tensor import Tensor


def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every Tensor in ``obj`` by its path: attributes, keys and positions, joined by dots."""
    return {name.strip("."): t for name, t in _walk(obj, prefix)}


def _walk(obj: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(obj, Tensor):
        yield prefix, obj
        return
    for name, part in _parts(obj):
        yield from _walk(part, f"{prefix}{name}.")


def _parts(obj: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(obj, "_asdict"):  # a named tuple
        yield from obj._asdict().items()
    elif isinstance(obj, Mapping):
        yield from ((str(k), v) for k, v in obj.items())
    elif isinstance(obj, (list, tuple)):
        yield from ((str(i), v) for i, v in enumerate(obj))
    elif hasattr(obj, "__dict__") and not isinstance(obj, type):
        yield from vars(obj).items()


def get_parameters(obj: Any) -> list[Tensor]:
    """Every Tensor in ``obj``."""
    return list(get_state_dict(obj).values())


def load_state_dict(
    model: Any, state_dict: Mapping[str, Tensor], strict: bool = True, realize: bool = True
) -> list[Tensor]:
    """Gives the Tensors of ``model`` the values of the same names, and returns them.

    ``strict``: every name of the model must be there. Raises :class:`ArgumentError` or :class:`ShapeError` before
    anything is changed.
    """
    mine = get_state_dict(model)
    missing = [name for name in mine if name not in state_dict]
    if missing and strict:
        raise ArgumentError(f"no values for {', '.join(missing)}", help="give them, or strict=False")
    values = {name: _fitting(name, t, state_dict[name]) for name, t in mine.items() if name in state_dict}
    loaded = [mine[name].replace(value.shard_like(mine[name])) for name, value in values.items()]
    if realize and loaded:
        Tensor.realize(*loaded)
    return loaded


def _fitting(name: str, t: Tensor, value: Tensor) -> Tensor:
    if value.shape == t.shape:
        return value
    if {value.shape, t.shape} == {(), (1,)}:
        return value.reshape(t.shape)
    raise ShapeError(
        f"{name} has shape {t.shape}, its value {value.shape}", help="load it into a model of the same sizes"
    )
