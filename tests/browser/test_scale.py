"""Large things in the browser: thousands of nodes, kernels and steps, very tall graphs, long searches that can be stopped.

How quick all that is, `python -m benchmarks viewer` reports; here only what must hold on any machine.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from tinysched import Tensor, capture
from tinysched.trace import Trace
from tinysched.trace.document import Decided, Kernel, Node, Schedule, Stage

Open = Callable[..., Page]
INK = """() => { const c = document.querySelector('canvas');
  return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v, i) => i % 4 === 3 && v > 0); }"""


def chain(n: int) -> tuple[Node, ...]:
    first = Node("PARAM", "float32", "p0", "memory", shape=(4,))
    return (first, *(Node("SIN", "float32", "sin", "alu", (i,), (4,)) for i in range(n)))


def test_a_column_of_three_thousand_levels_stays_in_sight(open_page: Open, tmp_path: Path) -> None:
    nodes = chain(3_000)
    stage = Stage("tall", 3_000, 3_000)
    trace = Trace("tall", (Schedule("tall", nodes, (stage, stage)),))
    page = open_page(trace.to_html(tmp_path / "tall.html"))
    expect(page.locator(".ts-count")).to_have_text("showing 3,001 of 3,001 nodes")
    page.wait_for_function(INK)
    page.get_by_role("button", name="fit the whole graph").click()
    page.wait_for_function(INK)
    page.get_by_role("searchbox").fill("sin")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="go to what the step").click()
    page.wait_for_function(INK)


def test_thousands_of_steps_and_kernels_are_a_few_rows(open_page: Open, tmp_path: Path) -> None:
    """Lists hold what is in sight; tables say how many they leave out, and give them when asked."""
    nodes = chain(10)
    steps = tuple(Decided(10, "fused", "SINGLE_CONSUMER") for _ in range(3_000))
    kernels = tuple(Kernel(f"k{i}", 10, "NUMPY") for i in range(3_000))
    stage = Stage("long", 10, 10, steps=steps)
    trace = Trace("long", (Schedule("long", nodes, (stage, stage), kernels),))
    page = open_page(trace.to_html(tmp_path / "long.html"))
    expect(page.locator(".ts-where")).to_have_text("step 0/3000")
    assert page.locator(".ts-rows > *").count() < 100
    page.get_by_role("tab", name="kernels").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("showing 2,000 of 3,000")
    page.locator(".ts").first.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".ts-where")).to_have_text("step 40/3000")
    page.get_by_role("button", name="show all").click()
    expect(page.get_by_label("kernels", exact=True).locator("tbody tr").last).to_contain_text("k2999")


def test_a_long_search_asks_first_and_can_be_stopped(open_page: Open, tmp_path: Path) -> None:
    """Who reads an element of a value with millions: nobody looks for that unasked."""
    x = Tensor(np.zeros((2_000, 3_000), np.float32)).realize()
    trace = capture((x.T + 1).flip(0).contiguous() * 2, inputs={"x": x})
    page = open_page(trace.to_html(tmp_path / "wide.html"))
    page.get_by_role("tab", name="index").click()
    memory = page.locator(".ts-value2", has=page.locator("figcaption", has_text="x memory")).first
    memory.locator("svg").click(position={"x": 5, "y": 5})
    sentence = page.locator(".ts-indexsentence")
    expect(sentence).to_contain_text("too many elements")
    page.get_by_role("button", name="find who reads it").click()
    expect(sentence.locator("progress")).to_be_visible()
    sentence.get_by_role("button", name="stop").click()
    expect(sentence).to_have_text("Stopped.")


def test_values_of_every_size_are_shown(open_page: Open, tmp_path: Path) -> None:
    one, empty = Tensor(np.ones((1, 10), np.float32)).realize(), Tensor(np.zeros((0, 3), np.float32))
    large = Tensor(np.arange(2_000_000, dtype=np.float32).reshape(1_000, 2_000)).realize()
    asked = [(one + 1).contiguous(), (empty + 1).contiguous(), one.sum(), (large + 1).contiguous()]
    trace = capture(asked, run=True, values=True)
    page = open_page(trace.to_html(tmp_path / "values.html"))
    page.get_by_role("tab", name="values").click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("1×10")
    expect(panel).to_contain_text("10 … 10, mean 10")
    expect(panel).to_contain_text("of 2,000,000 elements, evenly spread")
    assert trace.schedules[0].run is not None
    page.get_by_role("tab", name="index").click()
    expect(page.locator(".ts-indexview")).to_be_visible()
