"""Makes notebooks/*.ipynb from the percent scripts beside them: executed, with pictures, without widget state.

    python scripts/make_notebooks.py            makes them all again
    python scripts/make_notebooks.py --check    says which are not in step with their scripts (and fails)

Widget state is left out on purpose: a page without a kernel would draw it blank, where now it shows the picture.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


def read(script: Path) -> Any:
    """The notebook that a percent script is."""
    book = importlib.import_module("jupytext").read(script)  # by name: it is untyped
    for i, cell in enumerate(book.cells):
        cell["id"] = f"cell-{i}"  # the same every time
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return book


def execute(book: Any, folder: Path) -> Any:
    """Runs every cell in ``folder``."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(book, kernel_name="python3", timeout=600, resources=resources, store_widget_state=False).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # times of day
    return book


def make(script: Path) -> None:
    """Executes a script's notebook in a copy of the folder, so that what it writes is not left behind."""
    import nbformat

    write: Any = nbformat.write  # untyped
    with tempfile.TemporaryDirectory() as name:
        copy = Path(shutil.copytree(FOLDER, Path(name) / "notebooks"))
        book = execute(read(script), copy)
    write(book, script.with_suffix(".ipynb"))
    print(f"made {script.with_suffix('.ipynb').name}")


def in_step(script: Path) -> bool:
    """Whether a notebook has the cells of its script."""
    import nbformat

    stored: Any = nbformat.read  # untyped
    path = script.with_suffix(".ipynb")
    if not path.exists():
        return False
    pair = (stored(path, as_version=4), read(script))
    ours, theirs = ([(c.cell_type, c.source) for c in book.cells] for book in pair)
    return ours == theirs


def main(arguments: list[str]) -> int:
    scripts = sorted(FOLDER.glob("*.py"))
    if "--check" in arguments:
        stale = [s.name for s in scripts if not in_step(s)]
        print("\n".join(f"{name} and its notebook differ: python scripts/make_notebooks.py" for name in stale))
        return int(bool(stale))
    for script in scripts:
        make(script)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
