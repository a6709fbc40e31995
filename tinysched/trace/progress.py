"""Long work says how far it is, to whoever listens: a bar in a notebook or a terminal, or a widget in the browser.

In: :func:`report` where work is done, piece by piece. Out: what :func:`heard` was given is called with it. Nobody listening
costs one look at a context variable. Work can be stopped between two pieces, by Ctrl-C or the notebook's ■: what was being
made is dropped, and nothing else changed.

>>> told = []
>>> with heard(lambda *what: told.append(what)):
...     report("drawing rangeify", 3, 10)
>>> told
[('drawing rangeify', 3, 10)]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Any, cast

from tinysched.ir.observe import Observer, current_observer
from tinysched.settings import PROGRESS

Sink = Callable[[str, int, int], None]
"""What is done, how many pieces of it are, and of how many (0: nobody knows)."""
PATIENCE = 2.0
"""Seconds before a bar appears: what is quick needs none."""
_SINK: ContextVar[Sink | None] = ContextVar("tinysched_progress", default=None)


def report(what: str, done: int, of: int) -> None:
    """Tells how far some work is."""
    if (sink := _SINK.get()) is not None:
        sink(what, done, of)


@contextmanager
def heard(sink: Sink) -> Iterator[None]:
    """Within the block ``sink`` is told."""
    token = _SINK.set(sink)
    try:
        yield
    finally:
        _SINK.reset(token)


def now_and_then(sink: Sink, seconds: float = 0.2) -> Sink:
    """A sink that hears only what comes some time after the last, and the end: for sinks that are slow."""
    last = [-seconds]

    def hear(what: str, done: int, of: int) -> None:
        if done == of or time.monotonic() - last[0] >= seconds:
            last[0] = time.monotonic()
            sink(what, done, of)

    return hear


@contextmanager
def shown() -> Iterator[None]:
    """Within the block long work shows a bar, unless somebody listens already (or PROGRESS=0)."""
    if _SINK.get() is not None or not PROGRESS:
        yield
        return
    bar = Bar()
    with heard(bar):
        try:
            yield
        finally:
            bar.close()


def counting_kernels(of: int) -> Observer:
    """An observer of a run of so many kernels, which says how many are done; another observer still hears everything."""
    return cast(Observer, _Counting(of, current_observer()))


class _Counting:
    def __init__(self, of: int, other: Observer | None) -> None:
        self.of, self.done, self.other = of, 0, other

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return getattr(self.other, name, lambda *told: None)

    def on_event(self, kind: str, data: dict[str, Any]) -> None:
        if self.other is not None:
            self.other.on_event(kind, data)
        if kind == "run":
            self.done += 1
            report("kernel", self.done, self.of)


class Bar:
    """A bar on the terminal's last line, or one output of a notebook cell, which is empty when the work is done."""

    def __init__(self) -> None:
        self.start, self.handle, self.written = time.monotonic(), None, 0

    def __call__(self, what: str, done: int, of: int) -> None:
        if time.monotonic() - self.start < PATIENCE:
            return
        if in_notebook():
            self._display(what, done, of)
        elif sys.stderr.isatty():
            self._write(_said(what, done, of))

    def close(self) -> None:
        """Takes the bar away."""
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)
        if self.written:
            self._write("")

    def _display(self, what: str, done: int, of: int) -> None:
        from IPython.display import display

        value = f' value="{done}" max="{of}"' if of else ""
        bar = f"<progress{value}></progress> {escape(_said(what, done, of))}; ■ stops it"
        data = {"text/html": bar, "text/plain": _said(what, done, of)}
        if self.handle is None:
            show: Any = display  # IPython is untyped
            self.handle = show(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self.written) + ("" if text else "\r"))
        sys.stderr.flush()
        self.written = len(text)


def _said(what: str, done: int, of: int) -> str:
    """``drawing rangeify 3/10``; no numbers where nobody knows of how many."""
    return f"{what} {done}/{of}" if of else what


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel. IPython is not imported for the question."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
