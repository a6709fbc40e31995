"""The command line's report and explain: figures, formats, limits, and what changed since a baseline."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinysched import Tensor, capture
from tinysched.cli import main
from tinysched.explain.report import report
from tinysched.trace import Trace

PROGRAM = """\
import numpy as np
from tinysched import Tensor

x = Tensor(np.ones((8, 8), np.float32)).realize()


def small():
    y = x * 2
    z = y.sum(0)
    return z


def large():
    y = (x * 2){hint}
    z = y.sum(0)
    return z


def broken():
    return 3


if __name__ == "__main__":
    print("ran")
    (x + 1).realize()
    (x.sum() * 2).realize()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(PROGRAM.replace("{hint}", ".contiguous()"))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_text(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "report", f"{program}:large")
    assert status == 0 and not err
    assert out.startswith("model.py: large: 2 kernels, 800 B moved, 128 operations, arena 256 B\n")
    assert "E_8_8" in out and "r_8_8" in out and "model.py:14" in out
    assert "stays in memory (8 × 8, 256 B): a buffer was asked for (USER_FORCED)." in out


def test_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, "report", f"{program}:large", "--json")[1])
    assert data["totals"]["kernels"] == 2 and data["totals"]["bytes"] == 800
    assert [k["name"] for k in data["schedules"][0]["kernels"]] == ["E_8_8", "r_8_8"]
    assert data["problems"] == []


def test_markdown(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "report", f"{program}:large", "--markdown")[1]
    assert out.startswith("# model.py: large\n") and "| 0 | E\\_8\\_8 |" in out


def test_a_whole_program_is_reported_schedule_by_schedule(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "report", program)[1]
    assert "ran" in out and "schedule 1 of 2" in out and "schedule 2 of 2" in out


@pytest.mark.parametrize("limit", ["--max-kernels=1", "--max-bytes=799"])
def test_a_limit_fails_the_build(limit: str, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "report", f"{program}:large", limit)
    assert status == 1 and "PROBLEM: " in out and "the limit is" in err
    assert run(capsys, "report", f"{program}:large", "--max-kernels=2", "--max-bytes=800")[0] == 0


def test_a_baseline_says_what_changed_and_why(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.json"
    slower = program.read_text()
    program.write_text(PROGRAM.replace("{hint}", ""))
    assert run(capsys, "report", f"{program}:large", "--save", old)[0] == 0
    assert Trace.from_json(old.read_text()).schedules
    assert run(capsys, "report", f"{program}:large", "--baseline", old)[0] == 0
    program.write_text(slower)
    status, out, err = run(capsys, "report", f"{program}:large", "--baseline", old)
    assert status == 1 and "1 kernel more than the baseline (2 instead of 1)" in err
    assert "is stored now: " in out and "(USER_FORCED)" in out


def test_explain_a_line(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explain", f"{program}:small", "8", "--flips")
    assert status == 0 and "model.py:8: `y = x * 2`" in out
    assert "is fused: only" in out and "Stored instead (an override): 1 kernel more" in out
    assert "kernel 0 (r_8_8)" in run(capsys, "explain", f"{program}:small", "kernel 0")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "nowhere.py"], "there is no file nowhere.py"),
        (["report", "{program}:nobody"], "has no function nobody"),
        (["report", "{program}:broken"], "a int cannot be captured"),
        (["report", "{program}:small", "--baseline", "nowhere.json"], "cannot be read"),
        (["report", "{program}:small", "--baseline", "{program}"], "this is no trace"),
        (["explain", "{program}:small", "999"], "is no node, no name and no line"),
    ],
)
def test_errors_are_one_message(
    arguments: list[str], says: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, *(a.replace("{program}", str(program)) for a in arguments))
    assert status == 2 and says in err and err.startswith("tinysched: ") and "Traceback" not in err


def test_as_a_command(program: Path) -> None:
    command = [sys.executable, "-m", "tinysched", "report", f"{program}:large", "--max-kernels", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert done.returncode == 1 and "2 kernels, the limit is 1" in done.stderr


def test_a_whole_file_has_the_names_of_its_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "script.py"
    program.write_text("from tinysched import Tensor\nx = Tensor([1.0, 2.0]).realize()\nh = x * 2\nh.sum().realize()\n")
    main_before = sys.modules["__main__"]
    code, out, _ = run(capsys, "explain", program, "h")
    assert code == 0 and "`h` is fused" in out and sys.modules["__main__"] is main_before
    nothing = tmp_path / "nothing.py"
    nothing.write_text("def step():\n    return None\n")
    code, _, error = run(capsys, "report", nothing)
    assert code == 2 and "computes nothing" in error and "nothing.py:step" in error


def test_work_that_is_done_again_is_worse_than_the_baseline() -> None:
    """One kernel instead of two, but it adds up the first product again for each element of the second."""
    x = Tensor(np.ones((32, 32), np.float32)).realize()
    y = (x @ x) @ x
    old = capture(y, title="chain")
    new = old.with_overrides(dict.fromkeys(stored(old), "fuse"))
    (problem,) = report(new, baseline=old).problems
    assert problem.startswith("chain: ") and "operations instead of" in problem


def stored(trace: Trace) -> list[int]:
    s = trace.schedules[0]
    return [b.node for b in s.buffers if b.role == "intermediate" and b.node is not None]
