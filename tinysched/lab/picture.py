"""A picture for a notebook cell: a PNG that stays when the kernel is gone, wherever a notebook is shown, and text.

In: a trace (or what can be captured), a stage and a step. Out: :class:`Picture`.

>>> from tinysched import Tensor
>>> shown = picture(Tensor([1, 2]).realize() + 3)
>>> shown.text.splitlines()[0], shown.png[1:4]
('picture: 1 kernel, 16 B moved', b'PNG')
>>> print(picture(Tensor([1, 2]).realize() + 3, plain=True).text)
#  node   shape or loops  dtype  reads  kernel
0  b1                  2  int32  -      -
1  add 3               2  int32  0      -
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from tinysched.trace.capture import capture
from tinysched.trace.trace import Trace
from tinysched.views.png import SCALE, to_png
from tinysched.views.static import find
from tinysched.views.text import graph, summary


@dataclass(frozen=True)
class Picture:
    """``png`` where pictures are shown, ``text`` everywhere else."""

    png: bytes = field(repr=False)
    text: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, str], dict[str, Any]]:
        width, height = size(self.png)
        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": self.text}
        return data, {"image/png": {"width": width, "height": height}}


def size(png: bytes) -> tuple[int, int]:
    """Width and height at which a picture is meant to be shown, from the PNG's header."""
    return int.from_bytes(png[16:20]) // SCALE, int.from_bytes(png[20:24]) // SCALE


def image(png: bytes, text: str) -> str:
    """An <img> for HTML."""
    data = base64.b64encode(png).decode()
    alt = escape(text, quote=True)
    return f'<img style="max-width:100%" width="{size(png)[0]}" alt="{alt}" src="data:image/png;base64,{data}">'


def picture(x: Any, stage: str | int | None = None, step: int | None = None, *, plain: bool = False) -> Picture:
    """The graph of a stage after some steps, with its kernels (by default: what was written, as it came out).

    ``plain``: without kernels, for when they are still to be guessed.
    """
    trace = x if isinstance(x, Trace) else capture(x, title="picture")
    if not plain:
        return Picture(to_png(trace, stage, step), summary(trace))
    bare = trace.changed(schedules=tuple(replace(s, kernels=(), buffers=()) for s in trace.schedules))
    s, where = find(bare, 0 if stage is None else stage, -1)
    return Picture(to_png(bare, stage, step or 0), graph(s, where, step or 0))
