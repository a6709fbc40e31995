"""Sentences in a notebook's cell: lines break at words, and go on below where they began.

In: text in lines, of which those that say why begin with two spaces and a word. Out: what IPython asks for.

>>> shown("softmax: 3 kernels\\n  why   `max` is stored")["text/html"].count("<div")
3
"""

from __future__ import annotations

from html import escape

HANG = 8
"""Columns of "  why   ": as far a line that goes on is moved to the right."""
_BOX = "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"


def shown(text: str) -> dict[str, str]:
    """A MIME bundle: the text, and for where it is drawn HTML that a narrow column does not cut in the middle of words."""
    lines = "".join(f'<div style="{_line(line)}">{escape(line) or "&nbsp;"}</div>' for line in text.splitlines())
    return {"text/plain": text, "text/html": f'<div style="{_BOX}">{lines}</div>'}


def _line(line: str) -> str:
    hang = HANG + len(line) - len(line.lstrip()) - 2 if line.startswith("  ") else 0
    return f"white-space:pre-wrap;overflow-wrap:anywhere;padding-left:{hang}ch;text-indent:-{hang}ch"
