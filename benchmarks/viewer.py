"""How the explorer feels: pages of large schedules, opened and driven in Chromium.

In: names of pages. Out: a row for each: its size, seconds until the first picture, frames per second while the picture is
dragged and zoomed (all, and the slowest tenth), and milliseconds from a key to the picture of the step. On a machine that
does other things too only CPU times ("cpu", all threads of the page together) mean something; frames per second don't.

    python -m benchmarks viewer                     all pages
    python -m benchmarks viewer --only nodes_5000

Goals: 5,000 nodes: first picture in 1 s, 20 frames per second, a step in 100 ms. GPT-2 small: at most 5 MB, open in 2 s.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.libs import Ours
from benchmarks.workloads import WORKLOADS, Kit

Page = Any
"""Playwright's; it is imported when a page is opened."""

DRAWN: Final = """
(() => {
  const drawn = () => {
    const svg = document.querySelector("svg.ts-svg .ts-title"), canvas = document.querySelector("canvas.ts-svg");
    if (svg || (canvas && canvas.width > 300)) requestAnimationFrame(() => (window.tsDrawn = performance.now()));
    else requestAnimationFrame(drawn);
  };
  requestAnimationFrame(drawn);
})();
"""
"""Notes when the first frame with a picture in it was drawn."""
FRAMES: Final = """
() => {
  window.tsFrames = [];
  const frame = (t) => { if (window.tsFrames) window.tsFrames.push(t), requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}
"""
STEP: Final = """
() => new Promise((done) => {
  const start = performance.now();
  const at = document.querySelector(".ts-where").textContent;
  document.querySelector(".ts-next").click();
  const check = () => {
    if (document.querySelector(".ts-where").textContent === at) return requestAnimationFrame(check);
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start), 0));
  };
  check();
})
"""


def nodes_5000(k: Kit) -> list[Any]:
    """About 5,000 tensor nodes: 16 branches of mixed elementwise work and reductions, joined now and then."""
    xs = [k.E(32, 33) for _ in range(16)]
    for depth in range(39):
        xs = [
            x * 1.5 + y.tanh() if depth % 3 else (x - x.max(1, keepdim=True)) * 0.5 for x, y in zip(xs, xs[1:] + xs[:1])
        ]
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return [total.sum()]


PAGES: Final[dict[str, Callable[[Kit], list[Any]]]] = {
    "nodes_5000": nodes_5000,
    "gpt2_small": WORKLOADS["gpt2_small"],
    "resnet18": WORKLOADS["resnet18"],
    "mnist_train_adam": WORKLOADS["mnist_train_adam"],
}

STEPS: Final = 30


@dataclass(frozen=True)
class Feel:
    """The figures of one page; bytes, seconds, frames per second, milliseconds."""

    nodes: int
    kernels: int
    size_bytes: int
    made_seconds: float
    made_cpu: float
    first_seconds: float
    first_cpu: float
    pan: tuple[float, float]
    zoom: tuple[float, float]
    step_ms: float
    step_cpu: float

    def row(self, name: str) -> str:
        cells = (
            f"{self.nodes:,}", f"{self.kernels:,}", f"{self.size_bytes / 1e6:.2f}", f"{self.made_seconds:.1f}",
            f"{self.made_cpu:.1f}", f"{self.first_seconds:.2f}", f"{self.first_cpu:.2f}", f"{self.pan[0]:.0f}",
            f"{self.pan[1]:.0f}", f"{self.zoom[0]:.0f}", f"{self.zoom[1]:.0f}", f"{self.step_ms:.0f}", f"{self.step_cpu:.0f}",
        )  # fmt: skip
        return line(name, cells)


def line(name: str, cells: Sequence[str]) -> str:
    return f"{name:<18}" + "".join(f"{c:>9}" for c in cells)


HEAD: Final = line(
    "page",
    (
        "nodes",
        "kernels",
        "MB",
        "made s",
        "cpu s",
        "first s",
        "cpu s",
        "pan fps",
        "slow",
        "zoom fps",
        "slow",
        "step ms",
        "cpu ms",
    ),
)


def measure(name: str, folder: Path, browser: Any) -> Feel:
    """Makes the page, opens it, and drives it."""
    from tinysched import capture
    from tinysched.trace.rebuild import below

    trace = capture(PAGES[name](Kit(Ours(), 0)), title=name)
    s = trace.schedules[-1]
    start, cpu = time.perf_counter(), time.process_time()
    path = trace.to_html(folder / f"{name}.html")
    made, made_cpu = time.perf_counter() - start, time.process_time() - cpu
    page = browser.new_page(bypass_csp=True, viewport={"width": 1400, "height": 1000})
    busy = _busy()
    idle = busy()
    page.add_init_script(DRAWN)
    page.goto(path.as_uri())
    page.wait_for_function("window.tsDrawn", timeout=120_000)
    first, first_cpu = page.evaluate("window.tsDrawn") / 1e3, busy() - idle
    pan, zoom = _frames(page, _drag), _frames(page, _zoom)
    page.evaluate("location.hash = '#pass=rangeify&step=1'")
    page.wait_for_timeout(500)
    before = busy()
    steps = [page.evaluate(STEP) for _ in range(STEPS)]
    step_cpu = (busy() - before) * 1e3 / STEPS
    page.close()
    nodes = len(below(s.nodes, (s.stages[0].root,)))
    size = path.stat().st_size
    step = statistics.median(steps)
    return Feel(nodes, len(s.kernels), size, made, made_cpu, first, first_cpu, pan, zoom, step, step_cpu)


def _busy() -> Callable[[], float]:
    """A clock that tells how many seconds this browser's pages have computed, all threads together."""
    import psutil  # comes with ipykernel

    mine = [p for p in psutil.Process().children(recursive=True) if "--type=renderer" in p.cmdline()]

    def seconds() -> float:
        return float(sum(sum(p.cpu_times()[:2]) for p in mine if p.is_running()))

    return seconds


def _frames(page: Page, act: Callable[[Page], None]) -> tuple[float, float]:
    """Frames per second while something is done: all of them, and the slowest tenth."""
    page.evaluate(FRAMES)
    act(page)
    times = page.evaluate("() => { const found = window.tsFrames; window.tsFrames = null; return found; }")
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    return 1e3 * len(gaps) / sum(gaps), 1e3 / gaps[int(len(gaps) * 0.9)]


def _drag(page: Page) -> None:
    page.mouse.move(700, 400)
    page.mouse.down()
    for i in range(60):
        page.mouse.move(700 + 4 * (i % 30), 400 - 6 * i)
    page.mouse.up()


def _zoom(page: Page) -> None:
    for way in ["out"] * 8 + ["in"] * 8:
        page.get_by_role("button", name=f"zoom {way}").click()


def main(only: Sequence[str]) -> int:
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import find_chromium, launch

    if find_chromium() is None:
        sys.exit("no Chromium was found: the pages need one (apt-get install chromium)")
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        for name in PAGES:
            if not only or name in only:
                print(measure(name, Path(folder), browser).row(name), flush=True)
        browser.close()
    return 0
