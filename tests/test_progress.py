"""Long work says how far it is, and can be stopped."""

import io
import sys

import pytest

from tinysched import Context, Tensor, capture, explore
from tinysched.trace import progress
from tinysched.trace.progress import Bar, heard, report, shown
from tinysched.views.document import packed


def softmax() -> Tensor:
    return Tensor.rand(4, 5).realize().softmax(-1)


def test_captures_runs_and_drawings_report() -> None:
    told: list[tuple[str, int, int]] = []
    with heard(lambda *what: told.append(what)):
        trace = capture(softmax(), run=True)
        packed(trace)
    kernels = [(done, of) for what, done, of in told if what == "kernel"]
    n = len(trace.schedules[0].kernels)
    assert kernels == [(k + 1, n) for k in range(n)]
    assert "scheduling: rangeify" in [what for what, _, _ in told]
    assert [what for what, _, _ in told if what.startswith("drawing")] == [
        f"drawing {s.name}" for s in trace.schedules[0].stages
    ]


def test_who_listens_to_a_run_still_hears_it() -> None:
    """A captured function may capture and run something itself."""
    inner = []

    def outer() -> Tensor:
        x = softmax()
        inner.append(capture(x, run=True))
        return x + 1

    trace = capture(outer)
    assert trace.schedules and inner[0].schedules[0].run is not None


def test_a_bar_appears_only_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", written := Terminal())
    monkeypatch.setattr(progress, "in_notebook", lambda: False)
    with shown():
        report("drawing", 1, 9)
    assert written.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with shown():
        report("drawing", 1, 9)
        report("scheduling", 4, 0)
    assert "drawing 1/9" in written.getvalue() and written.getvalue().endswith("\r")
    written.truncate(0)
    with Context(PROGRESS=0), shown():
        report("drawing", 1, 9)
    assert "drawing" not in written.getvalue()


def test_in_a_notebook_it_is_one_output_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handle:
        shown: list[object] = []

        def update(self, data: object, raw: bool) -> None:
            self.shown.append(data)

    bar = Bar()
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    bar.handle = Handle()  # type: ignore[assignment]
    bar("<b>", 1, 2)
    bar.close()
    first, last = Handle.shown
    assert "&lt;b&gt;" in first["text/html"] and 'value="1" max="2"' in first["text/html"]  # type: ignore[index]
    assert last == {"text/plain": ""}


def test_stopping_leaves_everything_as_it_was() -> None:
    x = softmax()

    def stop(what: str, done: int, of: int) -> None:
        if what == "scheduling: rangeify":
            raise KeyboardInterrupt

    with heard(stop), pytest.raises(KeyboardInterrupt):
        capture(x)
    assert x.uop.realized is None and capture(x).schedules[0].kernels
    assert x.numpy().sum() == pytest.approx(4, abs=1e-5)


def test_the_browser_hears_of_a_run_it_asked_for() -> None:
    e = explore(softmax())
    sent: list[dict[str, str]] = []
    e.send = sent.append
    e._asked(e, {"kind": "run"}, [])
    assert [m["text"] for m in sent if m["kind"] == "progress"][-1] == "kernel 3 of 3"
