"""Runs the notebooks for the site, each explorer written as a page of its own that the notebook's page holds in a frame.

In: a folder of notebooks, which are overwritten. Out: they, executed, and beside them (in the folder given) a page for
each explorer. A page steps without a kernel, so that the site shows what a class saw, and not a picture of it.

A student's notebook has exercises without answers, whose cells may well raise: errors are shown as they are.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 2
PATIENCE_S = 300

# Run first in each kernel, as a cell that is not kept.
_PRELUDE = """
from scripts import live_pages as _live_pages
_live_pages.install({folder!r}, {stem!r})
del _live_pages
"""


def run(path: Path, pages: Path) -> None:
    """Executes one notebook in place."""
    import nbformat
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    read: Any = nbformat.read  # untyped, as all of nbformat
    write: Any = nbformat.write
    cell: Any = new_code_cell
    book = read(path, as_version=4)
    book.cells.insert(0, cell(_PRELUDE.format(folder=str(pages), stem=path.stem)))
    client = NotebookClient(
        book,
        kernel_name="python3",
        timeout=PATIENCE_S,
        allow_errors=True,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute(env=os.environ | {"PYTHONPATH": str(ROOT)})
    del book.cells[0]
    for ran in book.cells:
        if ran.cell_type == "code":
            ran.outputs = [_as_told(output) for output in ran.outputs]
    write(book, path)


def _as_told(output: Any) -> Any:
    """A refusal to go on before there is a guess is a sentence; anything else that was raised keeps its traceback."""
    from nbformat.v4 import new_output

    if output.output_type != "error" or output.ename != "NotYet":
        return output
    make: Any = new_output
    return make("stream", name="stdout", text="\n".join(output.traceback) + "\n")


def run_all(notebooks: Path, pages: Path) -> None:
    """Executes every notebook of a folder; those in folders below it (solutions) keep the pictures they are stored with."""
    pages.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda path: run(path, pages), sorted(notebooks.glob("*.ipynb"))):
            pass
