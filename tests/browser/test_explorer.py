"""The explorer as a widget, clicked in a real JupyterLab: it steps, runs, and moves together with its traits."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

Open = Callable[..., Page]
START = Path(__file__).parent.parent.parent / "notebooks" / "00_start.ipynb"

ATTENTION = """
from tinysched import Tensor, explore
q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
scores = q @ k.transpose(-2, -1)
out = scores.softmax(-1) @ v
e = explore(out, node="scores", stage="rangeify", height=600)
e
"""
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
    page = open_notebook([SOFTMAX, "e._session.captured.run = lambda values: 1 / 0"])
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


def test_a_decision_is_tried_and_taken_back(open_notebook: Open) -> None:
    """By the buttons: what it would give, both schedules side by side, measured, and back."""
    page = open_notebook([ATTENTION])
    expect(page.locator(".ts")).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="what would it give?").click()
    expect(page.locator(".ts-flip")).to_contain_text("Would fuse (an override)", timeout=60_000)
    page.get_by_role("button", name="try it: fuse").click()
    expect(page.locator(".ts-whatif")).to_have_text("what if: 1", timeout=60_000)
    expect(page.locator(".ts-compare")).to_contain_text("bytes moved")
    expect(page.locator(".ts-turned")).to_contain_text("scores is fused")
    page.get_by_role("button", name="measure both").click()
    expect(page.locator(".ts-drawerbody")).to_contain_text("Both leave the same values", timeout=60_000)
    page.locator(".ts-undo").click()
    expect(page.locator(".ts-whatif")).to_have_text("what if: 0", timeout=60_000)


def test_small_widgets_of_one_trace_move_together(open_notebook: Open) -> None:
    """Each in its own output, without Output widgets; ``interact`` turns a decision."""
    small = """
from tinysched.widgets import GraphView, WhyView, KernelView, OrderView, ArenaView
graph = GraphView(e, height=300)
graph
"""
    others = """
import ipywidgets
order = OrderView(e, height=300)
def turn(scores):
    e.overrides = {"scores": scores} if scores != "as it is" else None
ipywidgets.VBox([order, KernelView(e), ArenaView(e), WhyView(e)])
"""
    knob = 'ipywidgets.interact(turn, scores=["as it is", "fuse"]);'
    page = open_notebook([ATTENTION, small, others, knob])
    expect(page.locator(".ts")).to_have_count(6, timeout=60_000)
    page.locator(".ts").first.locator(".ts-passnext").click()
    expect(page.locator(".ts-single-graph .ts-singlehead")).to_contain_text("simplify")
    page.locator(".ts-single-order .ts-orderdag .ts-node").nth(1).click()
    expect(page.locator(".ts").first.locator(".ts-inspector h3").last).to_contain_text("1 r_")
    expect(page.locator(".ts-single-why h3").last).to_contain_text("1 r_")
    page.locator(".widget-dropdown select").select_option("fuse")
    expect(page.locator(".ts").first.locator(".ts-whatif")).to_have_text("what if: 1", timeout=60_000)


def test_the_start_notebook(open_notebook: Open) -> None:
    page = open_notebook(START)
    expect(page.locator(".ts").first).to_be_visible(timeout=120_000)
    page.locator(".ts-passnext").first.click()
    expect(page.locator(".ts-pass.ts-current .ts-passname").first).to_have_text("callify")


def test_a_run_before_the_explorer_is_shown_is_shown(open_notebook: Open) -> None:
    """A notebook runs, then shows: the table that was asked for is open, and knows of the run."""
    cell = """
from tinysched import Tensor, explore
e = explore(Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize().sum(0), view="values", height=400)
e.run()
e
"""
    table = """
from tinysched import capture
explore(capture(Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize().sum(0), run=True), view="kernels", height=400)
"""
    page = open_notebook([cell, table])
    expect(page.locator(".ts-heat").first).to_be_visible(timeout=60_000)
    shown = page.locator(".ts").nth(1)
    expect(shown.get_by_role("table", name="kernels")).to_be_visible(timeout=60_000)
    expect(shown.get_by_role("table", name="kernels").locator("tbody td").last).to_contain_text("s")


def test_the_views_of_a_lesson_are_widgets_too(open_notebook: Open) -> None:
    """Index, ranges, rewrites, bytes and values beside one explorer; the grid's keys stay in the grid."""
    cell = """
from tinysched.widgets import BytesView, IndexExplorer, RangesView, RewriteStepper, ValuesView
e.run()
import ipywidgets
ipywidgets.VBox([IndexExplorer(e), RangesView(e), RewriteStepper(e), BytesView(e), ValuesView(e)])
"""
    page = open_notebook([ATTENTION, cell])
    expect(page.locator(".ts-single")).to_have_count(5, timeout=60_000)
    grid = page.locator(".ts-single-index .ts-gridbox").first
    grid.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".ts-single-index .ts-indexsentence")).to_contain_text("1]")
    page.locator(".ts-single-ranges").get_by_role("button", name="next node →").click()
    expect(page.locator(".ts").first.locator(".ts-pass.ts-current .ts-passname")).to_have_text("rangeify")
    expect(page.locator(".ts-single-rewrites .ts-rule")).to_contain_text("->")
    expect(page.locator(".ts-single-bytes .ts-roofline")).to_be_visible()
    expect(page.locator(".ts-single-values .ts-heat").first).to_be_visible()


LOOKED_AT = """
from tinysched import Tensor, explore
from tinysched.widgets import IndexExplorer, RewriteStepper
x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
y = x.T.softmax() + 1
e = explore(y, stage="rangeify", step=1, view="values")
e.run()
e
"""


def test_in_a_notebooks_column(open_notebook: Open) -> None:
    """What ran before it was shown is shown; facts stand in two columns, whatever JupyterLab makes of lists; the arrow keys
    of a small widget go from rewrite to rewrite, and in a box for a number they are the box's own."""
    page = open_notebook([LOOKED_AT, "IndexExplorer(e)", "RewriteStepper(e)"])
    expect(page.locator(".ts-output .ts-value").first).to_be_visible(timeout=60_000)
    page.locator(".ts-rail .ts-row").nth(2).click()
    facts = page.locator(".ts-inspector .ts-facts-list").first
    lefts = [round(facts.locator(tag).nth(i).bounding_box()["x"]) for tag in ("dt", "dd") for i in (0, 1)]  # type: ignore[index]
    assert lefts[0] == lefts[1] < lefts[2] == lefts[3]
    counted, controls = (
        page.locator(".ts-count").first.bounding_box(),
        page.locator(".ts-controls").first.bounding_box(),
    )
    assert counted is not None and controls is not None
    assert counted["x"] + counted["width"] <= controls["x"] or counted["y"] + counted["height"] <= controls["y"] + 1

    box = page.locator(".ts-single-index input.ts-axis").first
    box.click()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator(".ts-single-index .ts-indexsentence")).to_contain_text("y[1, 0]")
    expect(page.locator(".ts-single-index input.ts-axis").first).to_be_focused()

    stepper = page.locator(".ts-single-rewrites")
    stepper.locator(".ts-singlehead").click()
    told = stepper.locator(".ts-indexhead")
    before = told.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(told).not_to_have_text(before)
    page.keyboard.press("ArrowLeft")
    expect(stepper.locator(".ts-table tr.ts-chosen")).to_have_count(1)
