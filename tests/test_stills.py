"""Where no widget lives: each part of the explorer has the picture, or the words, that say what it would show."""

import numpy as np
import pytest

from tinysched import Tensor, capture
from tinysched.trace import Trace
from tinysched.views.png import to_png
from tinysched.views.stills import arena_png, still
from tinysched.widgets import ArenaView, GraphView, OrderView, WhyView


@pytest.fixture(scope="module")
def trace() -> Trace:
    x = Tensor(np.arange(35, dtype=np.float32).reshape(5, 7)).realize()
    soft = x.softmax()
    return capture(soft, inputs={"x": x, "soft": soft}, title="soft")


def test_the_arena_and_the_order_are_pictures_of_their_own(trace: Trace) -> None:
    graph, order, arena = (still(trace, part, {}).png for part in ("graph", "order", "arena"))
    assert order == to_png(trace, "order") and arena == arena_png(trace.schedules[0])
    assert len({graph, order, arena}) == 3
    assert "RAW" in still(trace, "order", {}).text and "lower bound" in still(trace, "arena", {}).text


def test_an_explorer_is_pictured_by_the_view_it_opens_with(trace: Trace) -> None:
    assert still(trace, "explorer", {"view": "arena"}).png == arena_png(trace.schedules[0])
    assert still(trace, "explorer", {"view": "kernels"}).png == to_png(trace)


def test_a_graph_is_pictured_where_it_opens(trace: Trace) -> None:
    there = still(trace, "graph", {"stage": "rangeify", "step": 3})
    assert there.png == to_png(trace, "rangeify", 3) != to_png(trace)
    assert still(trace, "graph", {"stage": "tensor graph", "step": 0}).png == to_png(trace)


def test_why_is_about_the_selection(trace: Trace) -> None:
    chosen = still(trace, "why", {"selection": {"kind": "kernel", "id": 0}})
    assert chosen.png is None and chosen.text.startswith("max ⟂1") and "sum ⟂1" not in chosen.text
    assert "sum ⟂1" in still(trace, "why", {}).text  # of nothing: about all


def test_without_an_arena_the_words_say_so() -> None:
    trace = capture(Tensor([1.0, 2.0]).realize() * 3)
    assert still(trace, "arena", {}).png is None


def test_small_widgets_are_displayed_with_their_own_picture(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    for widget in (ArenaView(trace), OrderView(trace), GraphView(trace), WhyView(trace)):
        widget._ipython_display_()
    pictures = [data["image/png"] for data in shown if "image/png" in data]
    assert len(pictures) == len(set(pictures)) == 3
