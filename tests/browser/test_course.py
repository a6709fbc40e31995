"""The course's notebooks open and run in JupyterLab and in Notebook 7, with solutions filled in, and the explorer lives."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"


@pytest.mark.slow
@pytest.mark.parametrize(("app", "stem"), [("lab", "01_lazy"), ("notebook", "04_rangeify")])
def test_a_notebook_of_the_course_runs(open_notebook: Callable[..., Page], app: str, stem: str) -> None:
    page = open_notebook(SOLUTIONS / f"{stem}.ipynb", app=app)
    explorer = page.locator(".ts-explorer, .ts-root, .ts-bar").first
    explorer.scroll_into_view_if_needed(timeout=60_000)
    expect(explorer).to_be_visible(timeout=60_000)
    expect(page.get_by_text("checks passed").first).to_be_attached()
