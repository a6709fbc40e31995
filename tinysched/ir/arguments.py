"""What some ops have as arguments: which memory, which parameter, and the index that is nowhere.

In: numbers and names. Out: values that compare by what they say, so that nodes with equal arguments are one node.

>>> ParamArg(0, 12, "NUMPY") == ParamArg(0, 12, "NUMPY"), INVALID
(True, INVALID)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


class Invalid:
    """The index that is read nowhere: a load through it gives 0, a store through it is skipped."""

    def __repr__(self) -> str:
        return "INVALID"

    def __reduce__(self) -> str:
        return "INVALID"


INVALID: Final = Invalid()


@dataclass(frozen=True, slots=True)
class BufferArg:
    """Which memory: a number (unique in a process), elements, device."""

    number: int
    size: int
    device: str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParamArg:
    """Argument ``slot`` of a CALL: ``size`` elements on ``device``; or, with a name and bounds, a Variable.

    With a ``shape`` it stands for any value of that shape, in the body of a FUNCTION.
    """

    slot: int
    size: int = 0
    device: str | tuple[str, ...] | None = None
    name: str | None = None
    vmin: int = 0
    vmax: int = 0
    shape: tuple[Any, ...] | None = None
