"""Every notebook runs from top to bottom, and a warning on the way is an error: a notebook that rots misleads."""

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])

# Only what the cells cause: PYTHONWARNINGS would judge Jupyter's own code too, which no notebook can mend. Run as a
# cell that is never stored, and put first, so that imports are judged too.
WARNINGS_ARE_ERRORS = """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("default", module="(ipykernel|IPython|jupyter_client|zmq|tornado|asyncio)")
"""


def run(book: nbformat.NotebookNode, cwd: Path) -> nbformat.NotebookNode:
    """Executes the cells in order in a fresh kernel; the first that raises ends it with its traceback."""
    book = nbformat.from_dict({**book, "cells": [new_code_cell(WARNINGS_ARE_ERRORS), *book.cells]})
    client = NotebookClient(book, kernel_name="python3", timeout=600, resources={"metadata": {"path": str(cwd)}})
    client.execute(env=os.environ | {"IPYTHONDIR": str(cwd / ".ipython")})
    return book


def test_the_start_notebook_is_there() -> None:
    assert FOLDER / "00_start.ipynb" in NOTEBOOKS


@each_notebook
def test_runs_without_a_warning(path: Path, tmp_path: Path) -> None:
    """In a copy of the folder: notebooks find the files beside them, and leave nothing in the checkout."""
    folder = shutil.copytree(FOLDER, tmp_path / "notebooks")
    book = run(nbformat.read(path, as_version=4), folder)
    complaints = [
        output.text
        for cell in book.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert not complaints


@each_notebook
def test_is_stored_as_it_reads_well_without_a_kernel(path: Path) -> None:
    """Every cell was run, in order and once, and widget state is left out: a page without a kernel draws it blank."""
    book = nbformat.read(path, as_version=4)
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code" and cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    assert "widgets" not in book.metadata


def test_a_warning_stops_a_notebook(tmp_path: Path) -> None:
    """The net holds: otherwise the tests above would pass whatever a notebook does."""
    book = new_notebook(cells=[new_code_cell("import warnings; warnings.warn('old', DeprecationWarning)")])
    with pytest.raises(CellExecutionError) as caught:
        run(book, tmp_path)
    assert caught.value.ename == "DeprecationWarning"
