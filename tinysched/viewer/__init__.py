"""The viewer's bundle: one ES module and one style sheet, the same for notebooks and for pages.

In: nothing. Out: their texts. The sources are in ``src``; ``npm run build`` in ``scripts/viewer``
makes ``dist`` from them (the tools lie there, so that no wheel takes them along).

>>> script().startswith("/* tinysched viewer"), "</script" in script()
(True, False)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

DIST = Path(__file__).parent / "dist"
SCRIPT, STYLE, LOADER = DIST / "viewer.js", DIST / "viewer.css", DIST / "loader.js"


@cache
def script() -> str:
    """The ES module; its default export is an anywidget, and it starts by itself in pages of :mod:`tinysched.views.page`."""
    return SCRIPT.read_text(encoding="utf-8")


@cache
def style() -> str:
    """The style sheet."""
    return STYLE.read_text(encoding="utf-8")


@cache
def loader() -> str:
    """What starts the compressed viewer of a saved notebook's output."""
    return LOADER.read_text(encoding="utf-8")
