"""Fixtures for tests in a real browser: `open_notebook` for JupyterLab, `open_page` for a file.

One server and one browser serve the whole session, so all these tests go to one worker under pytest-xdist. When a test
fails, a picture of each page it opened and what its console said are kept, and the report says where.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import Watch, launch
from tests.browser.lab import Server, open_and_run, serve

HERE = Path(__file__).parent
WATCHES = pytest.StashKey[list[Watch]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a browser, and shares one."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("browser")
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One Chromium for all tests; each page has a context, so nothing stored reaches the next test."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One Jupyter server for all tests."""
    with serve(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture
def new_page(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Callable[..., Watch]]:
    """Makes empty pages that are watched: `new_page(own, **context)`, where only `own` may be asked for anything."""
    watches = request.node.stash.setdefault(WATCHES, [])

    def make(own: str, **context: object) -> Watch:
        page = chromium.new_context(**{"viewport": {"width": 1400, "height": 1000}, **context}).new_page()
        watches.append(Watch(page, own))
        return watches[-1]

    yield make
    for watch in watches:
        watch.page.context.close()
    outside = [url for watch in watches for url in watch.outside]
    assert not outside, f"asked outside: {outside}"


@pytest.fixture
def open_notebook(jupyter: Server, new_page: Callable[..., Watch]) -> Callable[..., Page]:
    """`open_notebook(path or [cell, …], app="lab" or "notebook", run=True)`: a page with the notebook, all cells run.

    The notebook is copied and loses its outputs first. A cell that raises and a request to the outside fail the test.
    """

    def open_it(source: Path | list[str], *, app: str = "lab", run: bool = True, **context: object) -> Page:
        page = new_page(jupyter.url, **context).page
        open_and_run(page, jupyter, source, app=app, run=run)
        return page

    return open_it


@pytest.fixture
def open_page(new_page: Callable[..., Watch]) -> Iterator[Callable[..., Page]]:
    """`open_page(path)`: a file opened as file://, which must ask for nothing but itself and raise no error."""
    watches: list[Watch] = []

    def open_it(path: Path, **context: object) -> Page:
        watch = new_page(path.resolve().as_uri(), **context)
        watches.append(watch)
        watch.page.goto(path.resolve().as_uri())
        return watch.page

    yield open_it
    errors = [error for watch in watches for error in watch.errors]
    assert not errors, f"the page raised: {errors}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps a picture and the console of every page of a test that failed, while the pages are still open."""
    report = yield
    if report.when == "call" and report.failed:
        for number, watch in enumerate(item.stash.get(WATCHES, [])):
            report.sections.append((f"page {number}", _keep(item, number, watch)))
    return report


def _keep(item: pytest.Item, number: int, watch: Watch) -> str:
    """Writes both files and says where; that a page can't be pictured must not hide why the test failed."""
    folder = item.config._tmp_path_factory.mktemp("failed", numbered=True)  # type: ignore[attr-defined]
    (folder / "console.txt").write_text("\n".join(watch.errors + watch.console))
    picture = folder / f"page-{number}.png"
    try:
        watch.page.screenshot(path=picture, timeout=10_000)
    except Exception as error:
        return f"{folder / 'console.txt'} (no picture: {error})"
    return f"{picture}\n{folder / 'console.txt'}"
