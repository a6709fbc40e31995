"""Explorers as pages: what a kernel shows instead of widgets while the site is made.

In: the folder for pages, and the notebook's name. Out: from then on each explorer that a cell shows is written to a page,
and the cell shows a frame with it, opened at the place where the explorer stood.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from IPython.display import display

from tinysched.widgets import Explorer


def install(folder: str, stem: str) -> None:
    """From now on, explorers of this kernel are shown as pages in ``folder``, named after ``stem``."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    count = 0

    def show(explorer: Explorer) -> None:
        nonlocal count
        count += 1
        name = f"{stem}-{count}.html"
        explorer.trace.to_html(Path(folder) / name)
        text = explorer.trace.to_text()
        frame = (
            f'<iframe class="ts-live" src="{name}#{escape(place(explorer))}" title="{escape(explorer.trace.title)}" '
            f'loading="lazy" style="width: 100%; height: {explorer.height}px; border: 1px solid #8884"></iframe>'
            f'<small><a href="{name}#{escape(place(explorer))}">in the whole window</a></small>'
        )
        show_raw: Any = display  # IPython is untyped
        show_raw({"text/html": frame, "text/plain": text}, raw=True)

    # On the class, and not by IPython's for_type: anywidget gives each widget a class of its own.
    widget: Any = Explorer
    widget._ipython_display_ = show


def place(explorer: Explorer) -> str:
    """Where an explorer stands, as the viewer's links say it: ``pass=rangeify&step=12&node=31``."""
    parts = {"pass": explorer.stage, "step": explorer.step}
    if len(explorer.trace.schedules) > 1:
        parts["schedule"] = explorer.schedule
    if explorer.selection:
        parts[explorer.selection["kind"]] = explorer.selection["id"]
    return urlencode(parts)
