"""Makes nbgrader assignments of the course's notebooks. Optional: nothing here needs nbgrader, and nobody else needs this.

    python -m scripts.to_nbgrader FOLDER

In: the percent scripts of the course, where an exercise is a cell tagged ``blank``, one tagged ``solution`` and a call of
``check``. Out: ``FOLDER/nbgrader_config.py`` and ``FOLDER/source/NAME/NAME.ipynb``: what ``nbgrader generate_assignment``
takes. An exercise's cell is the blank, then our solution between nbgrader's marks, which it takes out; so students get the
cell that they get from us. The cell that checks it is locked, has points, and raises where a check does not pass.

Predictions stay as they are, and are not graded: nobody should be afraid of a guess.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from scripts.make_notebooks import FOLDER, cells, tags

POINTS = 1
CHECK = re.compile(r"^check\((\w+), exercise=\"([\w.]+)\"\)$", re.MULTILINE)
CONFIG = '''\
"""Where an answer was taken out, nothing is put in its place: the cell above it is written with `...` already."""

c = get_config()  # noqa: F821
c.ClearSolutions.code_stub = {"python": ""}
'''


def assignment(script: Path) -> Any:
    """The notebook that nbgrader calls the source version: with solutions, points and locks, not executed."""
    from nbformat import v4

    new: Any = v4  # untyped
    parts = cells(script)
    graded = {name: key for part in parts for name, key in CHECK.findall(part.source)}
    made: list[Any] = []
    for i, part in enumerate(parts):
        if "solution" in tags(part):
            continue
        if part.cell_type == "markdown":
            made.append(new.new_markdown_cell(part.source))
        elif (name := _answers(part, graded)) is not None:
            made.append(_solution_cell(new, name, part.source, parts[i + 1].source))
        elif found := CHECK.search(part.source):
            made.append(_check_cell(new, part.source, found))
        else:
            made.append(new.new_code_cell(part.source))
    for i, cell in enumerate(made):
        cell["id"] = f"cell-{i}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return new.new_notebook(cells=made, metadata=kernel)


def _answers(part: Any, graded: dict[str, str]) -> str | None:
    """The graded name that a blank cell defines."""
    if "blank" not in tags(part):
        return None
    return next((name for name in graded if re.search(rf"^(def |class )?{name}\b", part.source, re.MULTILINE)), None)


def _solution_cell(new: Any, name: str, blank: str, solution: str) -> Any:
    source = f"{blank}\n\n\n### BEGIN SOLUTION\n{solution}\n### END SOLUTION"
    return new.new_code_cell(source, metadata={"nbgrader": _marks(name, solution=True)})


def _check_cell(new: Any, source: str, found: re.Match[str]) -> Any:
    """The same check, as a statement that raises. What the report says is the error's text."""
    call = found[0]
    source = source.replace(call, f"report = {call}\nprint(report)\nassert report.ok, report")
    key = found[2].replace(".", "_")
    return new.new_code_cell(source, metadata={"nbgrader": _marks(f"check_{key}", grade=True)})


def _marks(name: str, *, grade: bool = False, solution: bool = False) -> dict[str, Any]:
    """A cell's metadata in nbgrader's schema, version 3."""
    marks = {
        "schema_version": 3,
        "grade_id": name,
        "grade": grade,
        "solution": solution,
        "locked": grade,
        "task": False,
    }
    return marks | ({"points": POINTS} if grade else {})


def export(folder: Path) -> list[Path]:
    """Writes an assignment for every notebook with exercises, and returns their paths."""
    import nbformat

    write: Any = nbformat.write  # untyped
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    paths = []
    for script in sorted(FOLDER.glob("src/*.py")):
        if not any(CHECK.search(part.source) for part in cells(script)):
            continue
        path = folder / "source" / script.stem / f"{script.stem}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(assignment(script), path)
        paths.append(path)
    return paths


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    for path in export(Path(arguments[0])):
        print(f"to_nbgrader: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
