"""A widget that shows a trace, or a part of the explorer: its traits, and what it does when the browser asks.

In: a :class:`~tinysched.widgets.session.Session`. Out: :class:`View`, an anywidget with synced traits.

>>> from tinysched import Tensor, capture
>>> view = View(session_of(capture(Tensor([1.0, 2.0]).realize() * 3)), stage="rangeify", step=1)
>>> view.stage, view.step
('rangeify', 1)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from tinysched import viewer
from tinysched.errors import TinyschedError
from tinysched.trace.codec import encode
from tinysched.trace.compare import Comparison
from tinysched.trace.progress import heard, now_and_then
from tinysched.trace.trace import Trace
from tinysched.views.document import packed
from tinysched.views.saved import page_output, picture_output
from tinysched.views.text import summary
from tinysched.widgets.session import Session, session_of

HEIGHT = 640


class View(anywidget.AnyWidget):
    """``trace`` is what it shows; moving in the browser moves the traits, and the other way round."""

    _esm = viewer.SCRIPT
    _css = viewer.STYLE

    schedule = traitlets.Int(0).tag(sync=True)
    stage = traitlets.Unicode("").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selection = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    overrides = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    height = traitlets.Int(HEIGHT).tag(sync=True)
    view = traitlets.Unicode("graph").tag(sync=True)
    part = traitlets.Unicode("explorer", read_only=True).tag(sync=True)
    _packed = traitlets.Bytes().tag(sync=True)
    _run = traitlets.Unicode("").tag(sync=True)
    _compared = traitlets.Unicode("").tag(sync=True)
    _live = traitlets.Bool(True).tag(sync=True)
    _can_run = traitlets.Bool(False).tag(sync=True)
    _group = traitlets.Unicode("").tag(sync=True)

    def __init__(self, session: Session, **traits: Any) -> None:
        self._session = session
        last = max(len(session.trace.schedules) - 1, 0)
        first = {"schedule": last, "stage": _first_stage(session.trace), "_can_run": session.captured.plan is not None}
        super().__init__(_packed=packed(session.trace), _group=session.group, **{**first, **traits})
        self.changed()
        session.watchers.add(self)
        self.on_msg(self._asked)

    @property
    def trace(self) -> Trace:
        """What is shown, with the times and values of the last run."""
        return self._session.trace

    @property
    def comparison(self) -> Comparison | None:
        """What is shown beside what was captured; None while no decision is turned."""
        return self._session.compared

    def run(self, values: Any = True) -> Trace:
        """Runs what is shown (as ``realize`` would) and shows times and values."""
        trace = self._session.run(values)
        for view in list(self._session.watchers):
            view._show_run()
        return trace

    def _show_run(self) -> None:
        done = self.trace.schedules[-1].run if self.trace.schedules else None
        self._run = "" if done is None else json.dumps(encode(done), separators=(",", ":"), allow_nan=False)

    # ** what if **

    @traitlets.validate("overrides")
    def _may(self, proposal: Any) -> Any:
        """Schedules again with these decisions turned; what cannot be is refused before the trait changes."""
        if proposal.value != self._session.overrides:
            self._session.turn(proposal.value)
        return proposal.value

    @traitlets.observe("overrides")
    def _none(self, change: Any) -> None:
        """None, which traitlets does not validate, takes all what-ifs back."""
        if change.new is None and self._session.overrides:
            self._session.turn(None)

    def changed(self) -> None:
        """The session shows another trace now."""
        session = self._session
        found = session.comparison()
        self.set_trait("overrides", dict(session.overrides) or None)
        self._can_run = session.captured.plan is not None
        with self.hold_sync():
            self._compared = "" if found is None else json.dumps(found, separators=(",", ":"))
            self._packed = packed(session.trace)
            self._show_run()

    # ** what the browser asks **

    def _asked(self, _: Any, content: Any, buffers: Any) -> None:
        """A button. What goes wrong is said in the view: a callback has no cell to raise in."""
        acts: dict[Any, Callable[[Any], None]] = {
            "run": self._asked_to_run,
            "try": lambda asked: self._session.try_it(int(asked["node"]), str(asked["what"]), self.schedule),
            "undo": lambda asked: self._session.undo(asked.get("which")),
            "flip": self._asked_to_flip,
            "measure": self._asked_to_measure,
        }
        act = acts.get(content.get("kind")) if isinstance(content, Mapping) else None
        if act is None:
            return
        try:
            act(content)
        except KeyboardInterrupt:  # the notebook's stop button: between two kernels, every value whole
            self.send({"kind": "failed", "text": "Stopped. What was not finished is as it was."})
        except Exception as error:
            text = str(error) if isinstance(error, TinyschedError) else f"{type(error).__name__}: {error}"
            self.send({"kind": "failed", "text": text})

    def _asked_to_run(self, asked: Any) -> None:
        self._run = ""
        with heard(
            now_and_then(lambda what, done, of: self.send({"kind": "progress", "text": f"{what} {done} of {of}"}))
        ):
            self.run()

    def _asked_to_flip(self, asked: Any) -> None:
        place = {"schedule": self.schedule, "stage": int(asked["stage"]), "step": int(asked["step"])}
        self.send({"kind": "flipped", **place, "text": self._session.flip(**place)})

    def _asked_to_measure(self, asked: Any) -> None:
        self._session.measure()
        for view in list(self._session.watchers):
            view._compared = json.dumps(self._session.comparison(), separators=(",", ":"))

    # ** what stays where no widget lives **

    def _ipython_display_(self) -> None:
        """Three outputs: a picture, a page that steps by itself, and the widget, which hides both while it lives."""
        from IPython.display import display

        show: Any = display  # IPython is untyped
        picture, size = picture_output(self.trace, self.part, self._place())
        show(picture, metadata=size, raw=True)
        show(page_output(self.trace, self.part, self.height, self._place()), raw=True)
        if (bundle := self._repr_mimebundle_()) is not None:
            show(bundle[0], metadata=bundle[1], raw=True)

    def _place(self) -> dict[str, Any]:
        names = ("schedule", "stage", "step", "selection", "view")
        return {name: getattr(self, name) for name in names}

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle and ({**bundle[0], "text/plain": summary(self.trace)}, bundle[1])


def _first_stage(trace: Trace) -> str:
    return trace.schedules[-1].stages[0].name if trace.schedules else ""


__all__ = ["HEIGHT", "View", "session_of"]
