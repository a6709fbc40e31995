"""Makes the notebooks from percent scripts: executed, with pictures, without widget state.

    python scripts/make_notebooks.py            makes them all again
    python scripts/make_notebooks.py 03 07      makes those whose names start like this
    python scripts/make_notebooks.py --check    says which are not in step with their scripts (and fails)

A script in `notebooks/` is one notebook beside it. A script in `notebooks/src/` is two: of each exercise the student's
notebook has the cell tagged `blank`, and the one in `notebooks/solutions/` the cell tagged `solution` that follows it (a script
without exercises is one notebook).

Widget state is left out on purpose: a page without a kernel would draw it blank, where now it shows the picture.

What a student's notebook shows between a prediction and the next heading tells its answer. It is stored, since it makes a
page worth reading where there is no kernel, and folded: JupyterLab and Notebook 7 show it once the cell is run (or on a
click), the site on a click.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LINK = re.compile(r"\]\((\w+)\.ipynb\)")
FOLDED = "<details><summary>when you have revealed it</summary>\n\n{}\n\n</details>"
"""What a cell tagged `after` is in a student's notebook: it says what a prediction is still to say."""
HEADING = re.compile(r"^#+ ", re.MULTILINE)
PREDICT = "**Predict"
EARLIER = "From an earlier run:"
"""Stands first in what is folded: JupyterLab shows the first line of it, and that would tell the answer."""
ASKS = "reveal("
"""What a student's notebook may stop at, with a sentence, until a blank is filled in."""


@dataclass(frozen=True)
class Target:
    """A notebook: its script, where it lies, and the tag of the cells that it leaves out."""

    script: Path
    path: Path
    without: str = ""


def targets(names: list[str]) -> Iterator[Target]:
    """All notebooks (of scripts whose names start with one of ``names``)."""
    for script in sorted((*FOLDER.glob("*.py"), *FOLDER.glob("src/*.py"))):
        if names and not script.stem.startswith(tuple(names)):
            continue
        file = f"{script.stem}.ipynb"
        if script.parent == FOLDER:
            yield Target(script, FOLDER / file)
            continue
        if any("solution" in tags(cell) for cell in cells(script)):
            yield Target(script, FOLDER / file, without="solution")
            yield Target(script, FOLDER / "solutions" / file, without="blank")
        else:
            yield Target(script, FOLDER / file)


def cells(script: Path) -> list[Any]:
    """The cells of a percent script."""
    return list(importlib.import_module("jupytext").read(script).cells)  # by name: it is untyped


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def telling(cells: list[Any]) -> Iterator[Any]:
    """The code cells whose outputs tell what was to be predicted: those behind a prediction, up to the next heading."""
    asked = False
    for cell in cells:
        if cell.cell_type == "markdown":
            asked = PREDICT in cell.source or (asked and not HEADING.search(cell.source))
        elif asked and "blank" not in tags(cell) and ASKS not in cell.source:
            yield cell


def fold(cell: Any) -> None:
    """For JupyterLab and Notebook 7, for older ones, and for the site."""
    cell.metadata["jupyter"] = {"outputs_hidden": True}
    cell.metadata["collapsed"] = True
    cell.metadata["tags"] = [*tags(cell), "hide-output"]


def is_folded(cell: Any) -> bool:
    return "hide-output" in tags(cell)


def read(target: Target) -> Any:
    """The notebook that a percent script is, before it is executed."""
    book = importlib.import_module("jupytext").read(target.script)
    book.cells = [cell for cell in book.cells if target.without not in tags(cell)]
    for cell in telling(book.cells) if target.without == "solution" else ():
        fold(cell)
    for i, cell in enumerate(book.cells):
        cell["id"] = f"cell-{i}"  # the same every time
        if target.without == "solution" and cell.cell_type == "code" and ASKS in cell.source:
            cell.metadata["tags"] = [*tags(cell), "raises-exception"]
        if target.without == "solution" and "after" in tags(cell):
            cell.source = FOLDED.format(cell.source)
        if target.path.parent != FOLDER and cell.cell_type == "markdown":
            cell.source = LINK.sub(_link, cell.source)
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return book


def _link(match: re.Match[str]) -> str:
    """A link out of the folder of solutions, where the notebook has none."""
    has_solution = any(t.without == "blank" for t in targets([match[1]]))
    return match[0] if has_solution else f"](../{match[1]}.ipynb)"


def execute(book: Any, folder: Path) -> Any:
    """Runs every cell in ``folder``."""
    from nbclient import NotebookClient

    new_output: Any = importlib.import_module("nbformat.v4").new_output  # untyped

    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(book, kernel_name="python3", timeout=600, resources=resources, store_widget_state=False).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # times of day
        if is_folded(cell) and cell.outputs:
            cell.outputs.insert(0, new_output("display_data", {"text/plain": EARLIER}))
    return book


def make(target: Target) -> None:
    """Executes a notebook in a copy of the folder, so that what it writes is not left behind."""
    import nbformat

    write: Any = nbformat.write  # untyped
    with tempfile.TemporaryDirectory() as name:
        copy = Path(shutil.copytree(FOLDER, Path(name) / "notebooks"))
        book = execute(read(target), copy)
    target.path.parent.mkdir(exist_ok=True)
    write(book, target.path)
    print(f"made {target.path.relative_to(FOLDER)}")


def in_step(target: Target) -> bool:
    """Whether a notebook has the cells of its script."""
    import nbformat

    stored: Any = nbformat.read  # untyped
    if not target.path.exists():
        return False
    pair = (stored(target.path, as_version=4), read(target))
    ours, theirs = ([(c.cell_type, c.source, c.metadata) for c in book.cells] for book in pair)
    return ours == theirs


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        stale = [t.path.relative_to(FOLDER) for t in targets([]) if not in_step(t)]
        print("\n".join(f"{name} and its script differ: python scripts/make_notebooks.py" for name in stale))
        return int(bool(stale))
    for target in targets(arguments):
        make(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
