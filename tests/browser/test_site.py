"""The site in a real browser: every page opens from disk, asks nothing outside, and its explorers step without a kernel.

CI makes the site before the tests and says where (TINYSCHED_SITE); otherwise it is made here.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.chromium import Watch

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    if made := os.environ.get("TINYSCHED_SITE"):
        return Path(made)
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "scripts.make_site", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages_of(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


class Links(HTMLParser):
    """The links of a page, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {value for name in ("id", "name") if (value := found.get(name))}
        link = found.get("src") or (found.get("href") if tag in ("a", "link") else None)
        if link:
            self.links.append(link)


OUTSIDE = ("http:", "https:", "mailto:", "data:", "javascript:")


def broken(site: Path) -> Iterator[str]:
    """Links to files that are not there, or to places that their pages do not have."""
    read = {page.resolve(): Links(page) for page in pages_of(site)}
    for page, found in read.items():
        for link in found.links:
            if link.startswith(OUTSIDE):
                continue
            path, place = urldefrag(link)
            path = path.split("?")[0]
            target = (page.parent / unquote(path)).resolve() if path else page
            if target.is_dir() or not target.exists():
                yield f"{page.relative_to(site)}: {link}"
            elif place and "=" not in place and target in read and unquote(place) not in read[target].places:
                yield f"{page.relative_to(site)}: no {place} in {path or 'this page'}"


def test_every_link_leads_somewhere(site: Path) -> None:
    assert len(pages_of(site)) > 100
    assert not list(broken(site.resolve()))


def test_every_page_opens_and_asks_nothing_outside(site: Path, new_page: Callable[..., Watch]) -> None:
    """As a file, so that it may ask for the files of the site alone; nothing is said on the console either."""
    watch = new_page(site.resolve().as_uri())
    for path in pages_of(site):
        watch.page.goto(path.resolve().as_uri())
        expect(watch.page.locator("h1, .ts-bar, #search-results").first).to_be_attached()
        assert not watch.errors and not watch.outside, path
        assert not [said for said in watch.console if said.startswith(("error", "warning"))], (path, watch.console)


def steps_by_arrow_keys(page: Page, explorer: FrameLocator | Locator) -> None:
    """Right goes a step on, left goes back."""
    explorer.locator(".ts-bar").click(position={"x": 5, "y": 5})
    where = explorer.locator(".ts-where")
    page.keyboard.press("ArrowDown")  # to a pass that has steps
    before = where.text_content() or ""
    page.keyboard.press("ArrowRight")
    expect(where).not_to_have_text(before)
    page.keyboard.press("ArrowLeft")
    expect(where).to_have_text(before)


def test_a_standalone_trace_steps_with_the_arrow_keys(site: Path, new_page: Callable[..., Watch]) -> None:
    page = new_page(site.resolve().as_uri()).page
    page.goto((site / "docs" / "traces.html").resolve().as_uri())
    page.locator("iframe.ts-live").first.scroll_into_view_if_needed()
    steps_by_arrow_keys(page, page.frame_locator("iframe.ts-live").first)


def test_an_explorer_in_a_notebook_steps_and_stands_where_it_stood(site: Path, new_page: Callable[..., Watch]) -> None:
    """The second of the start notebook stands at rangeify; its picture makes room for it, and no widget is missed."""
    page = new_page(site.resolve().as_uri()).page
    page.goto((site / "notebooks" / "00_start.html").resolve().as_uri())
    saved = page.locator(".ts-saved").nth(1)
    saved.scroll_into_view_if_needed()
    expect(saved.locator(".ts-pass.ts-current .ts-passname")).to_have_text("rangeify")
    picture = page.locator(".cell_output").filter(has=saved).locator("img").first
    expect(picture).to_be_hidden()
    steps_by_arrow_keys(page, saved)


def test_search_finds_a_reason(site: Path, new_page: Callable[..., Watch]) -> None:
    page = new_page(site.resolve().as_uri()).page
    page.goto((site / "search.html").resolve().as_uri() + "?q=CONSUMERS_DISAGREE")
    expect(page.locator("#search-results a").first).to_be_visible(timeout=20_000)
