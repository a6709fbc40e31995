"""A picture for a notebook cell: a PNG that stays when the kernel is gone, wherever a notebook is shown, and text.

In: a trace (or what can be captured), a stage and a step. Out: :class:`Picture`.

>>> from tinysched import Tensor
>>> shown = picture(Tensor([1, 2]).realize() + 3)
>>> shown.text.splitlines()[0], shown.png[1:4]
('picture: 1 kernel, 16 B moved', b'PNG')
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from html import escape
from typing import Any

from tinysched.trace.capture import capture
from tinysched.trace.document import Trace
from tinysched.views.png import SCALE, to_png
from tinysched.views.text import summary


@dataclass(frozen=True)
class Picture:
    """``png`` where pictures are shown, ``text`` everywhere else."""

    png: bytes = field(repr=False)
    text: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, str], dict[str, Any]]:
        width, height = (int.from_bytes(self.png[i : i + 4]) // SCALE for i in (16, 20))  # of a PNG's header
        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": self.text}
        return data, {"image/png": {"width": width, "height": height}}


def image(png: bytes, text: str) -> str:
    """An <img> for HTML."""
    data = base64.b64encode(png).decode()
    return f'<img style="max-width:100%" alt="{escape(text, quote=True)}" src="data:image/png;base64,{data}">'


def picture(x: Any, stage: str | int | None = None, step: int | None = None) -> Picture:
    """The graph of a stage after some steps, with its kernels (by default: what was written, as it came out)."""
    trace = x if isinstance(x, Trace) else capture(x, title="picture")
    return Picture(to_png(trace, stage, step), summary(trace))
