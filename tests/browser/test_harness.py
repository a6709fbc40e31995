"""The harness itself: a widget is really clicked in JupyterLab, and a page that reaches outside is caught."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default { render({ model, el }) {
      const button = document.createElement("button");
      button.className = "harness-count";
      const show = () => { button.textContent = `seen ${model.get("seen")}`; };
      button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes(); };
      model.on("change:seen", show);
      show();
      el.append(button);
    } }
    """
    count = traitlets.Int(0).tag(sync=True)
    seen = traitlets.Int(0).tag(sync=True)

    @traitlets.observe("count")
    def _count(self, change):
        self.seen = 10 * change.new

Counter()
'''


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_a_click_reaches_the_kernel_and_comes_back(open_notebook: Callable[..., Page], app: str) -> None:
    page = open_notebook(["1 + 1", COUNTER], app=app)
    button = page.locator(".harness-count")
    expect(button).to_have_text("seen 0", timeout=60_000)
    button.click()
    button.click()
    expect(button).to_have_text("seen 20", timeout=60_000)


def test_a_cell_that_raises_fails_with_its_traceback(open_notebook: Callable[..., Page]) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        open_notebook(["1 / 0", "2"])


def test_a_page_that_asks_outside_is_caught(new_page: Callable[..., object], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<script src="https://example.org/x.js"></script><img src="data:,"><p>here')
    watch = new_page((tmp_path / "page.html").as_uri())
    watch.page.goto((tmp_path / "page.html").as_uri())
    expect(watch.page.locator("p")).to_have_text("here")
    assert watch.outside == ["https://example.org/x.js"]
    watch.outside.clear()  # seen, as it should be: the fixture's own check has nothing left to say


def test_a_plain_page_opens(open_page: Callable[..., Page], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<button onclick='this.textContent = 2'>1</button>")
    button = open_page(tmp_path / "page.html").locator("button")
    button.click()
    expect(button).to_have_text("2")
