"""Every error that tinysched raises on purpose.

In: what went wrong, where (a node with its shape and the user's line) and how to mend it.
Out: one exception whose text reads ``what`` / ``where`` / ``help``.

>>> print(ShapeError("cannot reshape (2, 3) to (5,)", help="6 elements are needed, 5 were asked for"))
cannot reshape (2, 3) to (5,)
  help: 6 elements are needed, 5 were asked for
"""

from __future__ import annotations

from typing import Any


class TinyschedError(Exception):
    """Base of all errors of this library.

    ``what`` is one sentence, ``where`` names the node and the user's line (may be empty), ``help`` says how to mend it.
    """

    def __init__(self, what: str, *, where: str = "", help: str = "") -> None:
        self.what, self.where, self.help = what, where, help
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


class ShapeError(TinyschedError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class IndexingError(TinyschedError, IndexError):
    """An index that is out of range or of a kind that is not supported."""


class DTypeError(TinyschedError, TypeError):
    """A dtype (or a Python type) that an operation cannot take."""


class DeviceError(TinyschedError, ValueError):
    """An unknown device, or buffers on devices that do not fit together."""


class ArgumentError(TinyschedError, ValueError):
    """A value of an argument that makes no sense."""


class GradientError(TinyschedError, RuntimeError):
    """A gradient that does not exist or that would be misleading."""


class SpecError(TinyschedError, ValueError):
    """A graph that is not legal at its stage; ``node``: the first that is not."""

    node: Any = None


class RewriteError(TinyschedError, RuntimeError):
    """A rewrite that does not end, or a rule that returned something illegal."""


class ScheduleError(TinyschedError, RuntimeError):
    """A graph that cannot be scheduled (a cycle, kernels over two devices, ...)."""


class StalePlan(TinyschedError, RuntimeError):
    """A plan whose assumptions no longer hold."""


class RunError(TinyschedError, RuntimeError):
    """A kernel or a device that failed while running; ``call``: the CALL that there is no program for, if that is why."""

    call: Any = None


class LostValue(RunError):
    """A Tensor whose memory was being overwritten when a device failed."""


class TraceError(TinyschedError, ValueError):
    """A trace file that is truncated, hostile or of another version."""
