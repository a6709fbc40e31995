"""The explorer as a widget, clicked in a real JupyterLab: it steps, runs, and moves together with its traits."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

Open = Callable[..., Page]
START = Path(__file__).parent.parent.parent / "notebooks" / "00_start.ipynb"

SOFTMAX = """
from tinysched import Tensor, explore
x = Tensor.rand(4, 5).realize()
e = explore(x.softmax(-1), height=560)
e
"""


def test_it_is_stepped_by_buttons_and_keys(open_notebook: Open) -> None:
    page = open_notebook([SOFTMAX, "print('cell below')"])
    explorer = page.locator(".ts")
    expect(explorer).to_be_visible(timeout=60_000)
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("tensor graph")
    page.locator(".ts-passnext").click()
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("callify")
    page.locator(".ts-next").click()
    expect(page.locator(".ts-where")).to_contain_text("step 1/")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("prepare")
    cell = page.locator(".jp-Notebook .jp-Cell.jp-mod-active").first.get_attribute("data-windowed-list-index")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".ts-where")).to_contain_text("step 2/")
    after = page.locator(".jp-Notebook .jp-Cell.jp-mod-active").first.get_attribute("data-windowed-list-index")
    assert after == cell, "the notebook does not take the explorer's arrows"
    page.locator(".ts-tab", has_text="kernels").click()
    expect(page.locator(".ts-loops")).to_contain_text("for r0 in range")


def test_the_run_button_shows_times_and_values(open_notebook: Open) -> None:
    page = open_notebook([SOFTMAX])
    expect(page.locator(".ts")).to_be_visible(timeout=60_000)
    page.locator(".ts-run").click()
    expect(page.locator(".ts-value")).to_have_count(3, timeout=60_000)
    page.locator(".ts-tab", has_text="kernels").click()
    expect(page.locator(".ts-table tbody tr").first).to_contain_text(re.compile(r"\d (µs|ms|s)$"))


def test_a_failure_of_a_run_is_said_in_the_explorer(open_notebook: Open) -> None:
    page = open_notebook([SOFTMAX, "e._captured.run = lambda values: 1 / 0"])
    expect(page.locator(".ts")).to_be_visible(timeout=60_000)
    page.locator(".ts-run").click()
    expect(page.locator(".ts-notice")).to_contain_text("ZeroDivisionError", timeout=60_000)


def test_traits_move_it_and_it_moves_traits(open_notebook: Open) -> None:
    """A slider linked in the browser steps it; two explorers on a page do not clash."""
    slider = """
import ipywidgets
from IPython.display import display
s = ipywidgets.IntSlider(min=0, max=20)
link = ipywidgets.jslink((s, "value"), (e, "step"))
e.stage = "rangeify"
other = explore(x.sum(1), height=400)
display(s)
display(other)
"""
    page = open_notebook([SOFTMAX, slider])
    expect(page.locator(".ts")).to_have_count(2, timeout=60_000)
    first = page.locator(".ts").first
    expect(first.locator(".ts-pass.ts-current .ts-passname")).to_have_text("rangeify")
    first.locator(".ts-next").click()
    first.locator(".ts-next").click()
    expect(page.locator(".widget-readout")).to_have_text("2")
    expect(page.locator(".ts").nth(1).locator(".ts-pass.ts-current .ts-passname")).to_have_text("tensor graph")


def test_a_saved_notebook_has_a_picture_that_a_living_widget_hides(open_notebook: Open) -> None:
    page = open_notebook([SOFTMAX])
    expect(page.locator(".ts")).to_be_visible(timeout=60_000)
    expect(page.locator("img.ts-still")).to_be_hidden()
    kinds = page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON().map(o => Object.keys(o.data))"
    )
    assert ["text/html", "text/plain"] in [sorted(k) for k in kinds]


def test_the_start_notebook(open_notebook: Open) -> None:
    page = open_notebook(START)
    expect(page.locator(".ts").first).to_be_visible(timeout=120_000)
    page.locator(".ts-passnext").first.click()
    expect(page.locator(".ts-pass.ts-current .ts-passname").first).to_have_text("callify")
