"""The course's notebooks open and run in JupyterLab and in Notebook 7, with solutions filled in, and the explorer lives."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watch
from tests.browser.lab import Server

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SOLUTIONS = NOTEBOOKS / "solutions"
RUN_CELL = """i => { const app = window.jupyterapp, book = app.shell.currentWidget.content;
  book.activeCellIndex = i; void app.commands.execute('notebook:run-cell'); }"""


@pytest.mark.slow
@pytest.mark.parametrize(("app", "stem"), [("lab", "01_lazy"), ("notebook", "04_rangeify")])
def test_a_notebook_of_the_course_runs(open_notebook: Callable[..., Page], app: str, stem: str) -> None:
    page = open_notebook(SOLUTIONS / f"{stem}.ipynb", app=app)
    explorer = page.locator(".ts-output .ts").first
    explorer.scroll_into_view_if_needed(timeout=60_000)
    expect(explorer).to_be_visible(timeout=60_000)
    expect(page.get_by_text("checks passed").first).to_be_attached()


def test_a_stored_answer_is_folded_until_its_cell_is_run(jupyter: Server, new_page: Callable[..., Watch]) -> None:
    """As it lies in the checkout: the picture behind a prediction, and any word of it, comes when it is asked for."""
    book = nbformat.read(NOTEBOOKS / "01_lazy.ipynb", as_version=4)
    book.cells = [
        book.cells[1],
        *(c for c in book.cells if "a = Tensor(" in c.source or c.source == "b = a + 4 + 3\nb"),
    ]
    kept = nbformat.read(NOTEBOOKS / "01_lazy.ipynb", as_version=4).cells
    book.cells.append(next(c for c in kept if c.source.startswith("explore(b")))
    nbformat.write(book, jupyter.root / "folded.ipynb")
    page = new_page(jupyter.url).page
    page.goto(jupyter.address("folded.ipynb"), wait_until="domcontentloaded")
    cell = page.locator(".jp-CodeCell").nth(3)
    expect(cell).to_contain_text("From an earlier run", timeout=120_000)
    assert "1 kernel" not in cell.inner_text()
    page.wait_for_function(
        "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )
    for i in range(4):
        page.evaluate(RUN_CELL, i)
    expect(cell.locator(".ts-output .ts")).to_be_visible(timeout=60_000)
    expect(cell.locator(".ts-head")).to_contain_text("1 kernel")
    assert "From an earlier run" not in cell.inner_text()
