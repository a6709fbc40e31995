"""The explorer as a Python object: where it opens, what runs, what is displayed, what a what-if does."""

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from tinysched import Tensor, capture, explore
from tinysched.cli import main, split
from tinysched.errors import ArgumentError, TraceError
from tinysched.trace import Trace
from tinysched.widgets import Explorer


def softmax() -> Tensor:
    x = Tensor.rand(4, 5).realize()
    return x.softmax(-1)


def attention() -> tuple[Tensor, Tensor]:
    q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
    scores = q @ k.transpose(-2, -1)
    return scores, scores.softmax(-1) @ v


def test_it_opens_where_it_is_told() -> None:
    scores, out = attention()
    assert (explore(out).stage, explore(out).step) == ("tensor graph", 0)
    e = explore(out, stage="simplify", step=2, view="arena", height=300)
    assert (e.stage, e.step, e.view, e.height) == ("simplify", 2, "arena", 300)
    e = explore(out, node="scores", stage="rangeify")
    s = e.trace.schedules[0]
    assert s.nodes[e.selection["id"]].name == "scores"
    told = s.stage("rangeify").steps[e.step - 1]
    assert told.reason == "CONSUMERS_DISAGREE"  # type: ignore[union-attr]
    assert scores.shape


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"view": "x"}, ArgumentError, "no view"),
        ({"stage": "x"}, TraceError, "no stage"),
        ({"node": "x"}, ArgumentError, "no node"),
    ],
)  # fmt: skip
def test_places_that_do_not_exist(wrong: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        explore(softmax(), **wrong)


def test_exploring_computes_nothing_and_running_does() -> None:
    x = Tensor([1.0, 2.0]).realize()
    y = x * 3
    e = explore(y)
    assert y.uop.realized is None and e._can_run
    e.run()
    assert y.tolist() == [3.0, 6.0]
    run = json.loads(e._run)
    assert len(run["seconds"]) == 1
    assert next(iter(run["values"].values()))["sample"] == [[3.0, 6.0]]
    e.run()
    assert y.tolist() == [3.0, 6.0], "again is allowed"


def test_the_button_runs_and_failures_are_told() -> None:
    e = explore(softmax())
    sent: list[Any] = []
    e.send = sent.append
    e._asked(e, {"kind": "run"}, [])
    assert e._run and not sent
    e._captured.run = lambda values: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    e._asked(e, {"kind": "run"}, [])
    assert sent == [{"kind": "failed", "text": "ZeroDivisionError: division by zero"}]
    e._asked(e, {"kind": "other"}, [])
    e._asked(e, "nonsense", [])


def test_a_trace_is_shown_without_a_way_to_run() -> None:
    trace = Trace.from_json(capture(softmax()).to_json())
    e = explore(trace)
    assert e.trace is trace and not e._can_run
    assert json.loads(zlib.decompress(e._packed))["trace"]["title"] == trace.title
    assert isinstance(explore(Trace("nothing")), Explorer)


def test_an_override_schedules_again() -> None:
    scores, out = attention()
    e = explore(out)
    before = e._packed
    assert scores.shape
    e.overrides = {"scores": "fuse"}
    assert len(e.trace.schedules[0].kernels) == 4 and e._packed != before
    assert "scores" not in [b.name for b in e.trace.schedules[0].buffers]
    e.overrides = None
    assert "scores" in [b.name for b in e.trace.schedules[0].buffers]


def test_what_is_displayed() -> None:
    """A picture and a text of their own, and the widget with the same text."""
    e = explore(softmax())
    bundle = e._repr_mimebundle_()
    assert bundle is not None
    assert "application/vnd.jupyter.widget-view+json" in bundle[0]
    assert "3 kernels" in bundle[0]["text/plain"]


# ** command line **

PROGRAM = """
from tinysched import Tensor
def small():
    return Tensor([1.0, 2.0]).realize() * 3
if __name__ == "__main__":
    (Tensor([[1.0, 2.0]]).realize() + 1).sum(1).realize()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def test_explore_writes_a_page(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "out.html"
    assert main(["explore", f"{program}:small", "-o", str(page)]) == 0
    assert "<title>program.py: small</title>" in page.read_text(encoding="utf-8")
    assert str(page) in capsys.readouterr().out


def test_report_prints_text_or_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(program)]) == 0
    assert "1 kernel" in capsys.readouterr().out
    assert main(["report", f"{program}:small", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["kernels"] == 1


def test_mistakes_are_one_message(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nowhere.py"]) == 2
    assert main(["report", f"{program}:nothing"]) == 2
    told = capsys.readouterr().err
    assert "there is no file nowhere.py" in told and "there are: Tensor, small" in told and "Traceback" not in told


def test_a_drive_letter_is_no_function() -> None:
    assert split("C:\\work\\a.py")[1] is None
    assert split("C:\\work\\a.py:f") == (Path("C:\\work\\a.py"), "f")


def test_the_module_is_the_command(program: Path) -> None:
    command = [sys.executable, "-m", "tinysched", "report", f"{program}:small"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 kernel" in done.stdout
