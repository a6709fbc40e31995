"""Every notebook runs from top to bottom, and a warning on the way is an error: a notebook that rots misleads.

Of the course's notebooks the solutions pass every check, and the students' stop exactly at their blanks.
"""

import importlib
import os
import re
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.rglob("*.ipynb"))
COURSE = [path for path in NOTEBOOKS if (FOLDER / "src" / f"{path.stem}.py").exists()]
SOLUTIONS = [path for path in NOTEBOOKS if path.parent.name == "solutions"]
NAMES = {path: str(path.relative_to(FOLDER).with_suffix("")) for path in NOTEBOOKS}
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES.values())

# Only what the cells cause: PYTHONWARNINGS would judge Jupyter's own code too, which no notebook can mend. Run as a
# cell that is never stored, and put first, so that imports are judged too.
WARNINGS_ARE_ERRORS = """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("default", module="(ipykernel|IPython|jupyter_client|zmq|tornado|asyncio)")
"""


@cache
def maker() -> ModuleType:
    """The script that makes the notebooks."""
    spec = importlib.util.spec_from_file_location("make_notebooks", ROOT / "scripts" / "make_notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["make_notebooks"] = module
    spec.loader.exec_module(module)
    return module


def stored(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def run(book: nbformat.NotebookNode, cwd: Path) -> nbformat.NotebookNode:
    """Executes the cells in order in a fresh kernel; the first that raises ends it with its traceback."""
    book = nbformat.from_dict({**book, "cells": [new_code_cell(WARNINGS_ARE_ERRORS), *book.cells]})
    client = NotebookClient(book, kernel_name="python3", timeout=600, resources={"metadata": {"path": str(cwd)}})
    client.execute(env=os.environ | {"IPYTHONDIR": str(cwd / ".ipython")})
    return book


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell shows as text."""
    outputs = cell.get("outputs", [])
    return "\n".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs)


def errors_of(cell: nbformat.NotebookNode) -> list[str]:
    return [o.ename for o in cell.get("outputs", []) if o.output_type == "error"]


def code(book: nbformat.NotebookNode, word: str = "") -> list[nbformat.NotebookNode]:
    return [c for c in book.cells if c.cell_type == "code" and word in c.source]


def checks(book: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells that check an exercise."""
    return code(book, "exercise=")


def prose(book: nbformat.NotebookNode) -> str:
    return "\n".join(c.source for c in book.cells if c.cell_type == "markdown")


def test_the_notebooks_are_there() -> None:
    assert FOLDER / "00_start.ipynb" in NOTEBOOKS
    assert {p.stem for p in SOLUTIONS} <= {p.stem for p in COURSE}


@each_notebook
def test_runs_without_a_warning(path: Path, tmp_path: Path) -> None:
    """In a copy of the folder: notebooks find the files beside them, and leave nothing in the checkout.

    A student's notebook says "not yet" at its blanks, and there alone; with the solutions filled in, all checks pass.
    """
    folder = shutil.copytree(FOLDER, tmp_path / "notebooks")
    book = run(stored(path), folder)
    complaints = [
        output.text
        for cell in book.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert not complaints
    if path in SOLUTIONS:
        assert not [cell.source for cell in book.cells if errors_of(cell)]
        assert [cell.source for cell in checks(book) if "checks passed" not in text_of(cell)] == []
    elif path.stem in {p.stem for p in SOLUTIONS}:
        stopped = [cell for cell in book.cells if errors_of(cell)]
        assert all(errors_of(cell) == ["NotYet"] and "reveal(" in cell.source for cell in stopped)
        assert len(stopped) == len(code(book, "reveal(")), "a reveal that a blank does not stop"
        assert [cell.source for cell in checks(book) if "checks passed" in text_of(cell)] == []


@each_notebook
def test_is_stored_as_it_reads_well_without_a_kernel(path: Path) -> None:
    """Every cell was run, in order and once, and widget state is left out: a page without a kernel draws it blank."""
    book = stored(path)
    counts = [cell.execution_count for cell in code(book) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    assert "widgets" not in book.metadata


@pytest.mark.parametrize("path", COURSE, ids=[NAMES[p] for p in COURSE])
def test_what_tells_an_answer_is_folded(path: Path) -> None:
    """From a prediction to the next heading, in what students get; a line that tells nothing stands first."""
    hidden, asked = [], False
    for cell in stored(path).cells:
        if cell.cell_type == "markdown":
            asked = "**Predict" in cell.source or (asked and not re.search(r"^#", cell.source, re.MULTILINE))
            continue
        folded = cell.metadata.get("jupyter", {}).get("outputs_hidden", False)
        asks = "reveal(" in cell.source or "predict(" in cell.source or "exercise=" in cell.source
        assert folded == (asked and not asks and path not in SOLUTIONS), cell.source
        if folded and cell.outputs:
            hidden.append(cell)
    assert all(cell.outputs[0].data == {"text/plain": maker().EARLIER} for cell in hidden)
    blanks = path not in SOLUTIONS and any("predict(" in c.source and "..." in c.source for c in code(stored(path)))
    assert bool(hidden) == blanks


def test_notebooks_are_in_step_with_their_scripts() -> None:
    assert [str(t.path) for t in maker().targets([]) if not maker().in_step(t)] == []
    made = {t.path for t in maker().targets([])}
    assert made == set(NOTEBOOKS), "a notebook without a script"


# ** what the course promises **


@pytest.mark.parametrize("script", sorted(FOLDER.glob("src/*.py")), ids=lambda path: path.stem)
def test_cells_are_short_and_each_blank_has_its_solution(script: Path) -> None:
    cells = maker().cells(script)
    kinds = [next((t for t in maker().tags(c) if t in ("blank", "solution")), "") for c in cells]
    for i, kind in enumerate(kinds):
        assert kind != "blank" or kinds[i + 1] == "solution", cells[i].source
        assert kind != "solution" or kinds[i - 1] == "blank", cells[i].source
        assert kind != "blank" or "..." in cells[i].source, "a blank is written ..."
    long = [
        c.source for c, kind in zip(cells, kinds) if c.cell_type == "code" and _lines(c.source) > 8 + 8 * bool(kind)
    ]
    assert not long


def _lines(source: str) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in source.splitlines())


@each_notebook
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", prose(stored(path)))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


POINTER = re.compile(r"`(\w+)` in `((?:tinysched|tinygrad)/[\w/]+\.py)`")


@pytest.mark.peer
@pytest.mark.parametrize("path", COURSE, ids=[NAMES[p] for p in COURSE])
def test_pointers_into_code_hold(path: Path) -> None:
    """ "`name` in `file.py`": the file is there, ours and the peer's, and defines or names it."""
    peer = Path(str(importlib.util.find_spec("tinygrad").origin)).parent.parent
    text = prose(stored(path))
    pointers = POINTER.findall(text)
    assert pointers, "a notebook says where what it shows lives"
    files = {"tinysched": ROOT, "tinygrad": peer}
    for name, file in pointers:
        source = files[file.split("/")[0]] / file
        assert source.exists(), file
        assert re.search(rf"\b{name}\b", source.read_text()), f"{name} is not in {file}"
    for file in re.findall(r"`((?:tinysched|tinygrad)/[\w/]+\.py)`", text):
        assert (files[file.split("/")[0]] / file).exists(), file


# ** the nets hold **


def test_a_warning_stops_a_notebook(tmp_path: Path) -> None:
    """Otherwise the tests above would pass whatever a notebook does."""
    book = new_notebook(cells=[new_code_cell("import warnings; warnings.warn('old', DeprecationWarning)")])
    with pytest.raises(CellExecutionError) as caught:
        run(book, tmp_path)
    assert caught.value.ename == "DeprecationWarning"


def test_a_changed_script_is_out_of_step(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("# %%\n1 + 1\n")
    target = maker().Target(script, tmp_path / "a.ipynb")
    assert not maker().in_step(target)
    nbformat.write(maker().read(target), target.path)
    assert maker().in_step(target)
    script.write_text("# %%\n1 + 2\n")
    assert not maker().in_step(target)
