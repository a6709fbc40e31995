"""The views below the graph in a page opened from disk: what a person picks, steps, sorts and compares."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tinysched import Tensor, capture
from tinysched.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
    moved = x.T.pad(((1, 0), (0, 1)))
    out = (moved * 2 + moved.sum(0)).contiguous().reshape(2, 6).reshape(12) + 1
    return capture(out, title="views", inputs={"x": x, "moved": moved}, run=True, values=True)


@pytest.fixture
def page(trace: Trace, open_page: Callable[..., Page], tmp_path: Path) -> Page:
    return open_page(trace.to_html(tmp_path / "views.html"))


def show(page: Page, view: str) -> None:
    page.get_by_role("tab", name=view, exact=True).click()


def figure_of(page: Page, name: str) -> Locator:
    return page.locator(".ts-value2", has=page.locator("figcaption", has_text=name)).first


def test_an_element_leads_to_those_it_reads_and_to_its_readers(page: Page) -> None:
    show(page, "index")
    sentence = page.locator(".ts-indexsentence")
    expect(sentence).to_contain_text("reads")
    page.get_by_label("every movement op").check()
    figure = figure_of(page, "permute 1,0")
    expect(figure.locator("code").first).to_contain_text("[i1, i0]")
    assert figure_of(page, "moved").locator(".ts-padding").get_attribute("d"), "padding is shown"
    figure_of(page, "x memory").locator("svg").click(position={"x": 6, "y": 6})
    expect(sentence).to_contain_text("x[0, 0]")
    expect(sentence).to_contain_text("need it")


def test_the_element_moves_by_keys_and_by_numbers(page: Page) -> None:
    show(page, "index")
    box = page.locator(".ts-value2.ts-chosen .ts-gridbox")
    box.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".ts-indexsentence")).to_contain_text("out[1]")
    assert "step=0" in page.url or "step" not in page.url, "the keys stay in the grid"
    page.get_by_label("i0 of").first.fill("2")
    page.get_by_label("i0 of").first.press("Tab")
    expect(page.locator(".ts-indexsentence")).to_contain_text("[2]")


def test_the_walk_steps_from_node_to_node(page: Page) -> None:
    show(page, "ranges")
    page.get_by_role("button", name="next node →").click()
    expect(page.locator(".ts-rangewalk")).to_contain_text("node 2 of")
    assert "pass=rangeify" in page.url
    rows = page.get_by_label("the walk of rangeify").locator("tbody tr")
    rows.nth(0).click()
    expect(page.locator(".ts-rangewalk")).to_contain_text("node 1 of")


def test_a_rewrite_shows_its_rule_and_its_code(page: Page) -> None:
    show(page, "rewrites")
    expect(page.locator(".ts-rule")).to_contain_text("->")
    expect(page.locator(".ts-rewrite")).to_contain_text("@rule")
    expect(page.locator(".ts-treeline.ts-own").first).to_be_visible()


def test_bytes_have_a_roof_and_tables_sort(page: Page, trace: Trace) -> None:
    show(page, "bytes")
    expect(page.locator(".ts-roofline")).to_be_visible()
    expect(page.locator(".ts-point")).to_have_count(sum(k.ops > 0 for k in trace.schedules[0].kernels))
    table = page.get_by_role("table", name="bytes moved by each kernel")
    head = table.get_by_role("button", name="time")
    head.click()
    expect(table.locator("th[aria-sort=ascending]")).to_have_text("time")
    head.click()
    expect(table.locator("th[aria-sort=descending]")).to_have_text("time")


def test_the_timeline_has_a_bar_per_kernel(page: Page, trace: Trace) -> None:
    show(page, "timeline")
    expect(page.locator(".ts-drawerbody .ts-block")).to_have_count(len(trace.schedules[0].kernels))


def test_two_values_are_compared(page: Page) -> None:
    show(page, "values")
    select = page.get_by_label("value to compare with")
    name = page.locator(".ts-value figcaption b").first.inner_text()
    select.select_option(label=name)
    expect(page.locator(".ts-drawerbody")).to_contain_text("No difference at these elements")


def test_decisions_are_filtered(page: Page, trace: Trace) -> None:
    show(page, "decisions")
    total = sum(1 for stage in trace.schedules[0].stages for step in stage.steps if step.KIND == "decision")
    expect(page.locator(".ts-drawerbody")).to_contain_text(f"showing {total} of {total} decisions")
    page.get_by_label("filter decisions by any word").fill("FORCED_CONTIGUOUS")
    expect(page.get_by_label("decisions", exact=True).locator("tbody tr")).to_have_count(
        sum(
            1
            for stage in trace.schedules[0].stages
            for s in stage.steps
            if getattr(s, "reason", "") == "FORCED_CONTIGUOUS"
        )
    )
