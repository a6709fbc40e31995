"""Frozen data, a part of which is written down when somebody first looks at it.

In: the fields that are known, and a function that gives the others. Out: an instance that looks like any other.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Square(Later):
...     side: int
...     area: int = late(int)
>>> square = Square.later(lambda: print("now") or {"area": 9}, side=3)
>>> square.side
3
>>> square.area, square == Square(3, 9)
now
(9, True)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tinysched.ir.observe import watching
from tinysched.settings import SETTINGS, Context

Write = Callable[[], Mapping[str, Any]]
T = TypeVar("T")


class Later:
    """Base of a frozen dataclass, of which some fields (:func:`late`, or without a default) may come later."""

    @classmethod
    def later(cls, write: Write, **known: Any) -> Self:
        """An instance of which ``write`` gives the fields that are not ``known``."""
        new = object.__new__(cls)
        new.__dict__.update(known, _write=write)
        return new

    if not TYPE_CHECKING:  # a checker sees the fields

        def __getattr__(self, name: str) -> Any:
            write = self.__dict__.get("_write")
            if write is None or name not in type(self).__dataclass_fields__:
                raise AttributeError(f"a {type(self).__name__} has no {name!r}")
            self.__dict__.update(write())
            self.__dict__.pop("_write", None)
            return self.__dict__[name]


def late(default: Callable[[], T]) -> T:
    """A field that may come later. (A default of the class itself would be found there, and nothing be written.)"""
    return field(default_factory=default)


def none() -> None:
    """The default of a field that may come later and may be None."""


def as_now(write: Write) -> Write:
    """``write`` as it would be called now, whenever it is: under the same settings, unwatched, and once."""
    settings = {name: setting.word for name, setting in SETTINGS.items()}

    def then() -> Mapping[str, Any]:
        with Context(**settings), watching(None):
            return write()

    return functools.cache(then)
