"""Settings that steer scheduling and running: context variables that start from the environment.

In: environment variables at start, ``with Context(NAME=value):`` later. Out: ``NAME.value`` in this context
(threads and tasks do not see one another's settings).

>>> with Context(SPLIT_REDUCEOP=0):
...     SPLIT_REDUCEOP.value
0
>>> SPLIT_REDUCEOP.value
1
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tinysched.errors import ArgumentError


class Setting:
    """One named setting: an int, or a word out of ``choices``. ``steers`` says whether it is part of the cache key."""

    __slots__ = ("_var", "choices", "default", "doc", "name", "steers")

    def __init__(self, name: str, default: int | str, doc: str, *, choices: tuple[str, ...] = (), steers: bool = True):
        self.name, self.default, self.doc, self.choices, self.steers = name, default, doc, choices, steers
        SETTINGS[name] = self
        text = os.environ.get(name)
        self._var: ContextVar[int | str] = ContextVar(name, default=default if text is None else self.check(text))

    @property
    def value(self) -> int:
        """The number in this context."""
        return self._var.get()  # type: ignore[return-value]  # words are read through .word

    @property
    def word(self) -> str:
        """The word in this context, for settings with choices."""
        return str(self._var.get())

    def check(self, value: int | str) -> int | str:
        """``value`` in this setting's type; raises :class:`ArgumentError` if it is not one of the choices or no int."""
        if self.choices:
            if value not in self.choices:
                raise ArgumentError(f"{self.name}={value!r} is unknown", help=f"one of {', '.join(self.choices)}")
            return value
        try:
            return int(value)
        except (TypeError, ValueError):
            raise ArgumentError(f"{self.name}={value!r} is not a whole number", help=self.doc) from None

    def set(self, value: int | str) -> int | str:
        """Sets the value in this context and returns the old one."""
        old = self._var.get()
        self._var.set(self.check(value))
        if self.steers:
            _STEERING.set(None)
        return old

    def __bool__(self) -> bool:
        return bool(self._var.get())


SETTINGS: Final[dict[str, Setting]] = {}
Steering = frozenset[tuple[str, int | str]]
"""Names and values of settings. (A frozenset keeps its hash.)"""
_STEERING: Final[ContextVar[Steering | None]] = ContextVar("settings that steer", default=None)
"""All that steer, as they are in this context; None until somebody asks again."""

DEBUG = Setting("DEBUG", 0, "1: a line per schedule, 2: a line per kernel, 4: the programs", steers=False)
SCACHE = Setting("SCACHE", 1, "0: never look into the schedule cache", steers=False)
SPLIT_REDUCEOP = Setting("SPLIT_REDUCEOP", 1, "0: never split a large reduction into two kernels")
REDUCEOP_SPLIT_THRESHOLD = Setting(
    "REDUCEOP_SPLIT_THRESHOLD", 32768, "input/output ratio from which a reduction splits"
)
REDUCEOP_SPLIT_SIZE = Setting("REDUCEOP_SPLIT_SIZE", 22, "log2 of the largest output of the first kernel of a split")
MAX_KERNEL_BUFFERS = Setting("MAX_KERNEL_BUFFERS", 0, "most buffers of one kernel; 0: the device's own limit")
PCONTIG = Setting("PCONTIG", 0, "1: realize only the axes on which consumers disagree")
NO_MEMORY_PLANNER = Setting("NO_MEMORY_PLANNER", 0, "1: every intermediate gets its own memory")
RING = Setting("RING", 1, "ring allreduce: 0 never, 1 above the threshold, 2 always")
ALL2ALL = Setting("ALL2ALL", 0, "all-to-all allreduce: 0 never, 1 above the threshold, 2 always")
RING_ALLREDUCE_THRESHOLD = Setting("RING_ALLREDUCE_THRESHOLD", 256_000, "elements from which an allreduce is a ring")
BEAM = Setting("BEAM", 0, "tries this many program variants per kernel and keeps the fastest")
PROGRESS = Setting("PROGRESS", 1, "0: long captures and runs show no bar", steers=False)
TRAINING = Setting("TRAINING", 0, "1: dropout drops, batch norm takes the batch's statistics", steers=False)
CPU = Setting(
    "CPU", "numpy", "how kernels on NUMPY devices run", choices=("numpy", "numba", "loops", "auto"), steers=False
)


@contextmanager
def Context(**values: int | str) -> Iterator[None]:
    """Settings for a ``with`` block. Raises :class:`ArgumentError` for unknown names or values."""
    for name in values:
        if name not in SETTINGS:
            raise ArgumentError(f"there is no setting {name}", help=f"known: {', '.join(sorted(SETTINGS))}")
    checked = {name: SETTINGS[name].check(value) for name, value in values.items()}
    old = {name: SETTINGS[name].set(value) for name, value in checked.items()}
    try:
        yield
    finally:
        for name, value in old.items():
            SETTINGS[name].set(value)


def steering_key() -> Steering:
    """The settings that change what is scheduled, for cache keys."""
    known = _STEERING.get()
    if known is None:
        known = frozenset([(name, s._var.get()) for name, s in SETTINGS.items() if s.steers])
        _STEERING.set(known)
    return known
