"""The user's lines that made a node: a side table beside the graph, never part of a node's identity.

In: the call stack while a Tensor operation runs. Out: for a node every line that made it, also when interning found it
again. At most :data:`MOST_LINES` lines per node; they die with the node.

>>> from tinysched.ir.uop import UOp
>>> lines_of(UOp.range(3, 7))
()
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from tinysched.ir.uop import UOp

MOST_LINES = 8
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS: dict[CodeType, bool] = {}  # bounded by the number of functions in the process


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's program. ``gradient``: it made a value whose gradient this node belongs to."""

    file: str
    number: int
    function: str = ""
    gradient: bool = False

    @property
    def code(self) -> str:
        """The text of the line, '' where it is not to be had."""
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        return place(file_name(self.file), self.number) + (" (gradient)" if self.gradient else "")


def file_name(path: str) -> str:
    """A file as people know it: its name, and of a notebook's cell the number that stands before it, ``cell [3]``."""
    if "ipykernel" not in path and not path.startswith("<ipython-input"):
        return os.path.basename(path)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()  # never imported for the question
    told = shell and shell.compile.format_code_name(path)  # ("Cell", "In[3]"), as tracebacks have it
    return "cell " + (told[1].removeprefix("In") if told else re.sub(r"\D", "", os.path.basename(path))[:8])


def place(file: str, number: int) -> str:
    """A line of a file as people write it.

    >>> place("model.py", 7), place("cell [3]", 7)
    ('model.py:7', 'cell [3], line 7')
    """
    return f"{file}, line {number}" if file.startswith("cell ") else f"{file}:{number}"


def _is_ours(code: CodeType) -> bool:
    ours = _OURS.get(code)
    if ours is None:
        ours = _OURS[code] = code.co_filename.startswith(_PACKAGE) or code.co_filename.startswith("<frozen")
    return ours


def user_frame() -> FrameType | None:
    """The innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code):
        frame = frame.f_back
    return frame


def mark(u: UOp) -> UOp:
    """Notes the user's current line as one that made ``u``; returns ``u``."""
    frame: Any = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code):
        frame = frame.f_back
    if frame is not None:
        add_line(u, Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
    return u


def add_line(u: UOp, line: Line) -> None:
    """Notes ``line`` as one that made ``u``."""
    known = getattr(u, "_lines", ())
    if line not in known and len(known) < MOST_LINES:
        u._lines = (*known, line)


def lines_of(u: UOp) -> tuple[Line, ...]:
    """The user's lines that made ``u``, oldest first."""
    return getattr(u, "_lines", ())


def where(u: UOp) -> str:
    """A node as errors name it: op, shape and the user's line."""
    shape = u.maybe_shape
    text = u.op.name + (f" of shape {shape}" if shape is not None else "")
    made = lines_of(u)
    return text + (f", made at {made[-1]}: {made[-1].code}" if made else "")
