"""The export for nbgrader: notebooks of the right form, in which solutions pass and blanks do not. (nbgrader isn't needed.)"""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from scripts.to_nbgrader import FOLDER, export
from tinysched.lab.exercise import all_exercises

ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"### BEGIN SOLUTION\n.*?### END SOLUTION", re.DOTALL)
SCHEMA = {"schema_version": int, "grade_id": str, "grade": bool, "solution": bool, "locked": bool, "task": bool}


@pytest.fixture(scope="module")
def assignments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return export(tmp_path_factory.mktemp("course"))


def marked(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if "nbgrader" in cell.metadata]


def test_each_exercise_is_a_solution_and_a_locked_check_with_points(assignments: list[Path]) -> None:
    graded = []
    for path in assignments:
        nbformat.validate(nbformat.read(path, as_version=4))
        cells = marked(path)
        marks = [cell.metadata.nbgrader for cell in cells]
        assert all(isinstance(mark[name], kind) for mark in marks for name, kind in SCHEMA.items())
        assert len({mark.grade_id for mark in marks}) == len(marks)
        for cell, mark in zip(cells, marks):
            assert mark.solution != mark.grade
            assert bool(MARKED.search(cell.source)) == mark.solution
            assert not mark.grade or (mark.locked and mark.points > 0 and "assert report.ok" in cell.source)
            graded += re.findall(r'exercise="([\w.]+)"', cell.source)
    scripts = [script.read_text(encoding="utf-8") for script in FOLDER.glob("src/*.py")]
    in_course = [key for text in scripts for key in re.findall(r'^check\(.*exercise="([\w.]+)"', text, re.MULTILINE)]
    assert sorted(graded) == sorted(in_course) and set(graded) <= all_exercises().keys()


def test_predictions_are_neither_graded_nor_given_away(assignments: list[Path]) -> None:
    for path in assignments:
        for cell in nbformat.read(path, as_version=4).cells:
            guesses = re.findall(r"predict\(\"[^\"]+\", ([^)]+)\)", cell.source) if cell.cell_type == "code" else []
            assert all(guess == "..." for guess in guesses), cell.source


@pytest.mark.parametrize("solved", [True, False], ids=["solution", "blank"])
def test_a_solution_gets_the_points_and_a_blank_does_not(assignments: list[Path], tmp_path: Path, solved: bool) -> None:
    """Run as nbgrader's autograder does: every cell, whatever raises; points where a check's cell does not raise."""
    path = next(path for path in assignments if path.stem.startswith("01"))
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        if not solved:
            cell.source = MARKED.sub("", cell.source)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(book, kernel_name="python3", timeout=300, allow_errors=True, resources=resources)
    client.execute(env=os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path / ".ipython")})
    graded = [cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    passed = [not any(output.output_type == "error" for output in cell.outputs) for cell in graded]
    assert passed and all(p == solved for p in passed)
