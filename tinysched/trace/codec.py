"""Frozen dataclasses as JSON values and back, with every type checked on the way in.

In: a value made of dataclasses, tuples, dicts, strings and numbers, or what ``json.loads`` gave. Out: the other of the
two. Fields that have their default are left out, so documents stay small; a field ``in_`` is ``in`` in JSON; numbers that
JSON does not know are the words ``nan``, ``inf`` and ``-inf``. Nothing is evaluated and nothing is unpickled.

>>> @dataclasses.dataclass(frozen=True)
... class Point:
...     x: int
...     tags: tuple[str, ...] = ()
>>> encode(Point(1))
{'x': 1}
>>> decode(Point, {"x": 1, "tags": ["a"]})
Point(x=1, tags=('a',))
>>> decode(Point, {"x": "1"})
Traceback (most recent call last):
...
tinysched.errors.TraceError: x: a whole number is needed, not '1'
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any, NoReturn

from tinysched.errors import TraceError

Decoder = Callable[[Any, str], Any]
MOST = 1 << 62
"""No number in a document is larger: sizes and counts are far smaller, and the viewer's numbers end somewhere too."""
MOST_DEPTH = 40
"""How deep free-form evidence may nest."""
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def fail(path: str, what: str) -> NoReturn:
    raise TraceError(f"{path or 'the document'}: {what}")


# ** out **


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, str, Any], ...]:
    """Attribute, JSON name and default of each field."""
    none = dataclasses.MISSING
    defaults = ((f, f.default if f.default_factory is none else f.default_factory()) for f in dataclasses.fields(cls))
    return tuple((f.name, f.name.rstrip("_"), default) for f, default in defaults)


def encode(value: Any) -> Any:
    """A JSON value for ``value``."""
    if value is None or value.__class__ in (str, int, bool):
        return value
    if value.__class__ is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    out = {"kind": value.KIND} if hasattr(value, "KIND") else {}
    for name, key, default in _fields(value.__class__):
        field = getattr(value, name)
        if field is not default and field != default:
            out[key] = encode(field)
    return out


# ** in **


def decode(cls: Any, data: Any, path: str = "") -> Any:
    """``data`` as an instance of ``cls``. Raises :class:`TraceError` that names the place where it is not one."""
    return decoder(cls)(data, path)


def _exactly(cls: type, what: str) -> Decoder:
    def read(data: Any, path: str) -> Any:
        if data.__class__ is not cls:
            fail(path, f"{what} is needed, not {data!r:.40}")
        return data

    return read


def _integer(data: Any, path: str) -> int:
    if data.__class__ is not int:
        fail(path, f"a whole number is needed, not {data!r:.40}")
    if not -MOST <= data <= MOST:
        fail(path, "a number is too large")
    return int(data)


def _number(data: Any, path: str) -> float:
    if data.__class__ is int and -MOST <= data <= MOST:
        return float(data)
    if data.__class__ is float and math.isfinite(data):
        return float(data)
    if data.__class__ is str and data in _WORDS:
        return _WORDS[data]
    fail(path, f"a number is needed, not {data!r:.40}")


def _free(data: Any, path: str, depth: int = 0) -> Any:
    """Evidence: any JSON value of bounded depth, with tuples for lists so that it is as frozen as the rest."""
    if depth > MOST_DEPTH:
        fail(path, "nested too deep")
    if isinstance(data, dict):
        return {str(k): _free(v, path, depth + 1) for k, v in data.items()}
    if isinstance(data, list):
        return tuple(_free(v, path, depth + 1) for v in data)
    return data


@functools.cache
def decoder(cls: Any) -> Decoder:
    """The function that reads a ``cls``; made once per type."""
    plain: dict[Any, Decoder] = {
        int: _integer, float: _number, str: _exactly(str, "a text"), bool: _exactly(bool, "true or false"),
        type(None): _exactly(type(None), "null"), Any: _free,
    }  # fmt: skip
    if cls in plain:
        return plain[cls]
    origin, args = typing.get_origin(cls), typing.get_args(cls)
    if origin is tuple:
        return _tuple(args)
    if origin is dict:
        return _dict(decoder(args[1]))
    if origin in (typing.Union, types.UnionType):
        return _union(args)
    return _dataclass(cls)


def _tuple(args: tuple[Any, ...]) -> Decoder:
    if args[-1] is not Ellipsis:
        return _fixed(tuple(decoder(a) for a in args))
    item = decoder(args[0])

    def read(data: Any, path: str) -> Any:
        if data.__class__ is not list:
            fail(path, f"a list is needed, not {data!r:.40}")
        return tuple([item(v, f"{path}[{i}]") for i, v in enumerate(data)])

    return read


def _fixed(items: tuple[Decoder, ...]) -> Decoder:
    def read(data: Any, path: str) -> Any:
        if data.__class__ is not list or len(data) != len(items):
            fail(path, f"a list of {len(items)} is needed, not {data!r:.40}")
        return tuple([item(v, path) for item, v in zip(items, data, strict=True)])

    return read


def _dict(item: Decoder) -> Decoder:
    def read(data: Any, path: str) -> Any:
        if data.__class__ is not dict:
            fail(path, f"an object is needed, not {data!r:.40}")
        return {k: item(v, f"{path}.{k}") for k, v in data.items()}

    return read


def _union(args: tuple[Any, ...]) -> Decoder:
    tagged = {a.KIND: decoder(a) for a in args if hasattr(a, "KIND")}
    if tagged:
        return _tagged(tagged)
    rest = [decoder(a) for a in args if a is not type(None)]
    optional = type(None) in args

    def read(data: Any, path: str) -> Any:
        if data is None and optional:
            return None
        for item in rest[:-1]:
            try:
                return item(data, path)
            except TraceError:
                continue
        return rest[-1](data, path)

    return read


def _tagged(items: dict[str, Decoder]) -> Decoder:
    def read(data: Any, path: str) -> Any:
        kind = data.get("kind") if data.__class__ is dict else None
        if not isinstance(kind, str) or kind not in items:
            fail(path, f"an object with a kind out of {', '.join(items)} is needed, not {data!r:.40}")
        return items[kind]({k: v for k, v in data.items() if k != "kind"}, path)

    return read


def _dataclass(cls: Any) -> Decoder:
    hints = typing.get_type_hints(cls)
    items = {key: (name, decoder(hints[name])) for name, key, _ in _fields(cls)}
    needed = {key for _, key, default in _fields(cls) if default is dataclasses.MISSING}

    def read(data: Any, path: str) -> Any:
        if data.__class__ is not dict:
            fail(path, f"an object is needed, not {data!r:.40}")
        if missing := needed - data.keys():
            fail(path, f"{', '.join(sorted(missing))} is missing")
        if unknown := data.keys() - items.keys():
            fail(path, f"{', '.join(sorted(map(repr, unknown)))} is unknown")
        prefix = path + "." if path else ""
        return cls(**{items[k][0]: items[k][1](v, prefix + k) for k, v in data.items()})

    return read
