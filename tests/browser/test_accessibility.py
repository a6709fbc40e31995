"""Everybody can use the explorer: axe-core finds nothing in any view, in light and dark; all works by keyboard alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tinysched import Tensor, capture
from tinysched.trace import Trace
from tinysched.views.panels import PANELS

Open = Callable[..., Page]
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}}
NO_PAGE_OF_OURS = {"landmark-one-main", "page-has-heading-one", "region"}
"""About whole pages with a text around: the explorer is one application, also as a page."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
    scores = q @ k.transpose(-2, -1)
    return capture(scores.softmax(-1) @ v, title="attention", run=True, values=True)


def complaints(page: Page) -> list[str]:
    """What axe-core finds, a line each."""
    found: list[dict[str, Any]] = Axe().run(page, options=RULES).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {node['html'][:160]}"
        for v in found
        if v["id"] not in NO_PAGE_OF_OURS
        for node in v["nodes"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_view(open_page: Open, trace: Trace, tmp_path: Path, scheme: str) -> None:
    page = open_page(trace.to_html(tmp_path / "a.html"), color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    expect(page.locator(".ts-bar")).to_be_visible()
    page.evaluate("location.hash = '#pass=rangeify&step=9&kernel=1'")
    assert complaints(page) == []
    for panel in PANELS:
        page.evaluate(
            f"[...document.querySelectorAll('[role=tab]')].find(t => t.dataset.panel === '{panel.id}').click()"
        )
        assert complaints(page) == [], panel.id
    page.keyboard.press("?")
    expect(page.locator(".ts-help")).to_be_visible()
    assert complaints(page) == []


@pytest.mark.parametrize("width", [600, 2560])
def test_axe_finds_nothing_in_a_column_nor_on_a_projector(
    open_page: Open, trace: Trace, tmp_path: Path, width: int
) -> None:
    size = {"width": width, "height": 900}
    page = open_page(trace.to_html(tmp_path / "a.html"), viewport=size, bypass_csp=True, reduced_motion="reduce")
    expect(page.locator(".ts-bar")).to_be_visible()
    assert complaints(page) == []
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, "nothing sticks out to the right"


def test_everything_has_a_key_and_keys_work_only_inside(open_page: Open, trace: Trace, tmp_path: Path) -> None:
    page = open_page(trace.to_html(tmp_path / "a.html"))
    explorer = page.locator(".ts").first
    expect(page.locator(".ts-bar")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("callify")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("callify")
    explorer.focus()
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.panel ?? ''"))
    assert {panel.id for panel in PANELS} <= reached, "every view is reached by Tab"


def test_for_a_projector_everything_is_larger(open_page: Open, trace: Trace, tmp_path: Path) -> None:
    page = open_page(trace.to_html(tmp_path / "a.html"), viewport={"width": 1920, "height": 1080})
    name = page.locator(".ts-passname").first
    small = name.bounding_box()
    page.locator(".ts").first.focus()
    page.keyboard.press("p")
    large = name.bounding_box()
    assert small is not None and large is not None and large["height"] > 1.4 * small["height"]
    drawn = page.locator(".ts").first.bounding_box()
    assert drawn is not None and drawn["height"] <= 1081, "nothing sticks out below"
    page.keyboard.press("p")
    assert name.bounding_box() == small


def test_nothing_moves_for_who_wants_that(open_page: Open, trace: Trace, tmp_path: Path) -> None:
    page = open_page(trace.to_html(tmp_path / "a.html"), reduced_motion="reduce")
    page.evaluate("location.hash = '#pass=prepare&step=1'")
    moving = "[...document.querySelectorAll('.ts *')].filter(e => e.getAnimations().length).length"
    assert page.evaluate(moving) == 0


def test_the_graph_is_walked_by_keys(open_page: Open, trace: Trace, tmp_path: Path) -> None:
    page = open_page(trace.to_html(tmp_path / "a.html"))
    expect(page.locator(".ts-bar")).to_be_visible()
    page.keyboard.press("u")
    first = page.locator(".ts-spoken").inner_text().split(" ")[0]
    page.keyboard.press("u")
    expect(page.locator(".ts-spoken")).not_to_be_empty()
    second = page.locator(".ts-spoken").inner_text()
    page.keyboard.press("d")
    expect(page.locator(".ts-spoken")).to_contain_text(first)
    assert second.split(" ")[0] != first
    page.keyboard.press("d")
    expect(page.locator(".ts-spoken")).to_have_text("Nobody here reads it.")
