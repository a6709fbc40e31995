"""The explorer as a Python object: where it opens, what runs, what is displayed, what a what-if does."""

import base64
import json
import os
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
from tinysched.views.document import packed
from tinysched.views.panels import PANELS
from tinysched.views.saved import fitted, page_output
from tinysched.widgets import (
    ArenaView,
    BytesView,
    DecisionsView,
    Explorer,
    GraphView,
    IndexExplorer,
    KernelView,
    OrderView,
    RangesView,
    RewriteStepper,
    TimelineView,
    ValuesView,
    WhyView,
)
from tinysched.widgets.view import View


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
    assert e._run and {m["kind"] for m in sent} == {"progress"}
    sent.clear()
    e._session.captured.run = lambda values: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    e._asked(e, {"kind": "run"}, [])
    assert sent == [{"kind": "failed", "text": "ZeroDivisionError: division by zero"}]
    e._asked(e, {"kind": "other"}, [])
    e._asked(e, "nonsense", [])


def test_an_interrupted_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(values: Any = True) -> Trace:
        raise KeyboardInterrupt

    e = explore(softmax())
    sent: list[Any] = []
    e.send = sent.append
    monkeypatch.setattr(e._session.captured, "run", interrupted)
    e._asked(e, {"kind": "run"}, [])
    assert sent[0]["kind"] == "failed" and "Stopped" in sent[0]["text"]


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


def shown(view: View, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The bundles that displaying a widget gives."""
    bundles: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **how: bundles.append(data))
    view._ipython_display_()
    return bundles


def test_what_is_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture with a text, a page that steps, and the widget with the same text: an output each."""
    picture, page, widget = shown(explore(softmax()), monkeypatch)
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG") and "3 kernels" in picture["text/plain"]
    assert "ts-saved" in page["text/html"] and len(page["text/html"]) < 150_000
    assert "application/vnd.jupyter.widget-view+json" in widget and "3 kernels" in widget["text/plain"]


def test_the_same_trace_is_displayed_as_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = capture(softmax())
    first, second = (shown(explore(trace), monkeypatch)[:2] for _ in range(2))
    assert first == second


def test_a_large_trace_keeps_what_fits_and_says_what_not() -> None:
    trace = capture(attention()[1])
    whole = json.loads(zlib.decompress(packed(trace)))
    for share, left_out in ((0.95, "steps of simplify"), (0.6, "the graph of")):
        most = int(len(packed(trace)) * share)
        kept = fitted(trace, most)
        assert kept is not None and len(kept) <= most
        doc = json.loads(zlib.decompress(kept))
        assert left_out in "; ".join(doc["left_out"])
    assert doc["trace"]["schedules"][0]["kernels"] == whole["trace"]["schedules"][0]["kernels"]
    assert fitted(trace, 100) is None
    page = page_output(trace, "explorer", 640, {}, budget=50_000)
    assert "too large" in page["text/html"] and "to_html" in page["text/html"]


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "a'\\:\n", "🧮 ⟂ 你好", "x" * 500])
def test_labels_are_data_in_what_a_notebook_keeps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor.rand(4).realize()
    trace = capture(x.exp().sum(), inputs={name: x}, title=name)
    picture, page, _ = shown(explore(trace), monkeypatch)
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")
    assert page["text/html"].count("<script") == page["text/html"].count("</script>") == 2
    assert "alert(1)</script>" not in page["text/html"] and "alert(1)</script>" not in trace.to_svg()


def test_a_closed_or_failed_explorer_leaves_the_program_alone() -> None:
    x = Tensor([1.0, 2.0]).realize()
    y = x * 3
    e = explore(y)
    e._session.captured.run = lambda values: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    e.send = lambda *given: None
    e._asked(e, {"kind": "run"}, [])
    e._asked(e, {"kind": "try", "node": 3, "what": "nonsense"}, [])
    other = WhyView(e)
    e.close()
    other.close()
    assert y.uop.realized is None and y.tolist() == [3.0, 6.0]
    assert (y + 1).tolist() == [4.0, 7.0]


# ** what if **


def test_a_decision_is_tried_measured_and_taken_back() -> None:
    scores, out = attention()
    e = explore(out)
    s = e.trace.schedules[0]
    node = next(i for i, n in enumerate(s.nodes) if n.name == "scores")
    e._asked(e, {"kind": "try", "node": node, "what": "fuse"}, [])
    assert e.overrides == {f"node {node}": "fuse"} and e.comparison is not None
    assert e.comparison.kernels == (4, 4) and e.comparison.arena_bytes[1] < e.comparison.arena_bytes[0]
    said = json.loads(e._compared)
    assert said["names"] == {f"node {node}": "`scores`"} and said["changed"] and said["same"] is None
    e._asked(e, {"kind": "measure"}, [])
    assert json.loads(e._compared)["same"] is True and json.loads(e._compared)["seconds"]
    e.run()
    assert out.shape and len(json.loads(e._run)["seconds"]) == 4, "a what-if of lazy Tensors can be run"
    e._asked(e, {"kind": "undo", "which": ""}, [])
    assert e.overrides is None and e.comparison is None and not e._compared
    assert "scores" in [b.name for b in e.trace.schedules[0].buffers]
    assert scores.shape


def test_what_cannot_be_turned_is_refused_and_changes_nothing() -> None:
    scores, out = attention()
    e = explore(out)
    before = e._packed
    with pytest.raises(ArgumentError, match="must be in memory"):
        e.overrides = {"out": "fuse"}
    assert e.overrides is None and e._packed == before
    sent: list[Any] = []
    e.send = sent.append
    e._asked(e, {"kind": "try", "node": 10**6, "what": "fuse"}, [])
    assert "no value of the program" in sent[0]["text"]
    assert scores.shape


def test_what_a_turned_decision_would_give_is_told() -> None:
    scores, out = attention()
    e = explore(out, node="scores", stage="rangeify")
    stage = [s.name for s in e.trace.schedules[0].stages].index("rangeify")
    sent: list[Any] = []
    e.send = sent.append
    e._asked(e, {"kind": "flip", "stage": stage, "step": e.step - 1}, [])
    assert sent[0]["kind"] == "flipped" and "Would fuse (an override)" in sent[0]["text"]
    assert scores.shape


def test_a_loaded_trace_can_be_turned_too() -> None:
    trace = Trace.from_json(capture(attention()[1], inputs={}).to_json())
    e = explore(trace)
    s = trace.schedules[0]
    node = s.buffers[0].node
    e.overrides = {f"node {node}": "fuse"}
    assert e.comparison is not None and not e._can_run


# ** small widgets **


def test_small_widgets_share_the_trace_and_the_what_ifs() -> None:
    scores, out = attention()
    e = explore(out, stage="rangeify", step=3)
    why, arena = WhyView(e), ArenaView(e)
    assert (why.part, arena.part) == ("why", "arena")
    assert (why.stage, why.step, why._group) == (e.stage, e.step, e._group)
    e.overrides = {"scores": "fuse"}
    assert why.trace is e.trace and arena._packed == e._packed and why.overrides == {"scores": "fuse"}
    trace = capture(out)
    assert GraphView(trace)._group == KernelView(trace)._group == explore(trace)._group != e._group
    assert OrderView(out).trace.schedules[0].kernels
    panels = {panel.id for panel in PANELS}
    for view in (RangesView, IndexExplorer, RewriteStepper, BytesView, TimelineView, ValuesView, DecisionsView):
        assert view(trace).part in panels
    assert scores.shape


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
    assert "there is no file nowhere.py" in told and "there are: small" in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("text", "func", "told"),
    [
        ("def f():\n    return 1 / 0\n", ":f", "line 2, in f\n"),
        ("def f(x):\n    return x\n", ":f", "missing 1 required positional argument"),
        ("def f():\n    raise SystemExit(3)\n", ":f", "ended with status 3"),
        ("x = (\n", "", "was never closed"),
        ("import nothing_like_it\n", "", "line 1, in <module>\n"),
        ("raise SystemExit(3)\n", "", "ended with status 3"),
        ("x = 3\n", "", "computes nothing"),
    ],
)
def test_what_a_program_raises_is_told_from_its_own_lines_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, func: str, told: str
) -> None:
    (tmp_path / "wrong.py").write_text(text)
    assert main(["report", f"{tmp_path / 'wrong.py'}{func}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tinysched: ") and told in said and "help:" in said and "cli.py" not in said


def test_a_script_may_end_with_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "script.py"
    file.write_text("import sys\nfrom tinysched import Tensor\n(Tensor([1.0, 2.0]) + 1).realize()\nsys.exit(0)\n")
    assert main(["report", str(file)]) == 0
    assert "1 kernel" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_told(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = str(program / "no folder" / "x")
    assert (
        main(["explore", f"{program}:small", "-o", nowhere])
        == main(["report", f"{program}:small", "--save", nowhere])
        == 2
    )
    assert capsys.readouterr().err.count("cannot be written") == 2


def test_who_reads_may_stop_before_the_end(program: Path) -> None:
    code = "import sys; from tinysched.cli import main; sys.exit(main(sys.argv[1:]))"
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", code, "report", f"{program}:small"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_drive_letter_is_no_function() -> None:
    assert split("C:\\work\\a.py")[1] is None
    assert split("C:\\work\\a.py:f") == (Path("C:\\work\\a.py"), "f")


def test_the_module_is_the_command(program: Path) -> None:
    command = [sys.executable, "-m", "tinysched", "report", f"{program}:small"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 kernel" in done.stdout


def test_the_trace_travels_once_in_one_binary_piece() -> None:
    """Selecting and stepping send what changed and nothing else."""
    e = explore(softmax(), stage="rangeify")
    sent: list[set[str]] = []
    e.send_state = lambda key=None: sent.append({key} if isinstance(key, str) else set(key or e.keys))
    e.selection = {"kind": "kernel", "id": 1}
    e.step = 2
    assert sent == [{"selection"}, {"step"}]
    state = e.get_state()
    assert isinstance(state["_packed"], bytes) and not [
        k for k in state if k != "_packed" and len(str(state[k])) > 200_000
    ]
