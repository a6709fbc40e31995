"""A picture for a notebook cell: an SVG that stays when the kernel is gone, and the same as text.

In: a trace (or what can be captured), a stage and a step. Out: :class:`Picture`.

>>> from tinysched import Tensor
>>> shown = picture(Tensor([1, 2]).realize() + 3)
>>> shown.text.splitlines()[0], shown.svg[:4]
('picture: 1 kernel, 16 B moved', '<svg')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from tinysched.trace.capture import capture
from tinysched.trace.document import Trace
from tinysched.views.svg import data_uri, to_svg
from tinysched.views.text import summary


@dataclass(frozen=True)
class Picture:
    """``svg`` where HTML is shown, ``text`` everywhere else."""

    svg: str = field(repr=False)
    text: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return image(self.svg, self.text)


def image(svg: str, text: str) -> str:
    """An <img>, which code-hosting pages keep where they drop inline SVG."""
    return f'<img style="max-width:100%" alt="{escape(text, quote=True)}" src="{data_uri(svg)}">'


def picture(x: Any, stage: str | int | None = None, step: int | None = None) -> Picture:
    """The graph of a stage after some steps, with its kernels (by default: what was written, as it came out)."""
    trace = x if isinstance(x, Trace) else capture(x, title="picture")
    return Picture(to_svg(trace, stage, step), summary(trace))
