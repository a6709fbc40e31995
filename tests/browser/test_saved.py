"""What is left of an explorer where no kernel is: reopened in JupyterLab, trusted or not, in nbconvert's HTML, in Voila."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watch
from tests.browser.lab import Server, free_port, wait_for
from tests.browser.test_explorer import ATTENTION

Open = Callable[..., Page]
NewPage = Callable[..., Watch]


@pytest.fixture(scope="module")
def book() -> Any:
    """A notebook with an explorer, run without a browser."""
    made = new_notebook(cells=[new_code_cell(ATTENTION), new_code_cell("print('below')")])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(made, kernel_name="python3", timeout=120, store_widget_state=False).execute()
    return made


def test_a_saved_notebook_steps_again_when_it_is_reopened(
    jupyter: Server, open_notebook: Open, new_page: NewPage
) -> None:
    page = open_notebook([ATTENTION])
    expect(page.locator(".ts-output .ts")).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-RenderedImage")).to_be_hidden()
    expect(page.locator(".ts-saved")).to_be_hidden()
    page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    page.evaluate("async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }")
    name = page.url.split("/")[-1].split("?")[0]
    page.context.close()
    again = new_page(jupyter.url).page
    again.goto(jupyter.address(name), wait_until="domcontentloaded")
    explorer = again.locator(".ts-saved .ts")
    expect(explorer).to_be_visible(timeout=120_000)
    expect(again.locator(".jp-RenderedImage")).to_be_hidden()
    assert "model not found" not in again.locator(".jp-Notebook").inner_text()
    expect(explorer.locator(".ts-pass.ts-current .ts-passname")).to_have_text("rangeify")
    explorer.locator(".ts-passnext").click()
    explorer.locator(".ts-next").click()
    expect(explorer.locator(".ts-where")).to_contain_text("step 1/")
    expect(explorer.locator(".ts-run")).to_be_disabled()


def test_an_untrusted_notebook_shows_the_picture(jupyter: Server, new_page: NewPage, book: Any) -> None:
    nbformat.write(book, jupyter.root / "untrusted.ipynb")
    page = new_page(jupyter.url).page
    page.goto(jupyter.address("untrusted.ipynb"), wait_until="domcontentloaded")
    expect(page.locator(".jp-RenderedImage img")).to_be_visible(timeout=120_000)
    expect(page.locator(".ts")).to_have_count(0)
    expect(page.locator(".jp-OutputArea").first).to_contain_text("4 kernels")
    assert "model not found" not in page.locator(".jp-Notebook").inner_text()


def test_a_converted_notebook_steps(open_page: Open, tmp_path: Path, book: Any) -> None:
    from nbconvert import HTMLExporter

    nowhere = dict.fromkeys(
        ("mathjax_url", "require_js_url", "jquery_url", "mermaid_js_url", "jupyter_widgets_base_url"), ""
    )
    (tmp_path / "page.html").write_text(HTMLExporter(**nowhere).from_notebook_node(book)[0], encoding="utf-8")
    page = open_page(tmp_path / "page.html")
    explorer = page.locator(".ts-saved .ts")
    expect(explorer).to_be_visible()
    expect(page.locator(".jp-RenderedImage")).to_be_hidden()
    explorer.locator(".ts-next").click()
    expect(explorer.locator(".ts-where")).to_have_text(re.compile(r"step 36/\d+"))


def test_notebook_seven(open_notebook: Open) -> None:
    page = open_notebook([ATTENTION], app="notebook")
    expect(page.locator(".ts-output .ts")).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-RenderedImage")).to_be_hidden()
    page.locator(".ts-passnext").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".ts-where")).to_contain_text("step 1/")


def test_voila(new_page: NewPage, tmp_path: Path, book: Any) -> None:
    """A dashboard: the widget steps, with a kernel behind it."""
    nbformat.write(book, tmp_path / "book.ipynb")
    port = free_port()
    command = [sys.executable, "-m", "voila", "book.ipynb", "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/voila/static/", server)
            watch = new_page(url)
            watch.page.goto(url, wait_until="domcontentloaded")
            expect(watch.page.locator(".ts-output .ts")).to_be_visible(timeout=120_000)
            watch.page.locator(".ts-passnext").first.click()
            expect(watch.page.locator(".ts-pass.ts-current .ts-passname").first).to_have_text("simplify")
            watch.outside = [at for at in watch.outside if "fontawesome" not in at and "font-awesome" not in at]
        finally:
            server.terminate()
