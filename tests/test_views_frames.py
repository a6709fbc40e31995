"""A pass as pictures for slides: as many frames as steps, of one size, showing what the explorer shows."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image

from tinysched import Tensor, capture
from tinysched.errors import ArgumentError
from tinysched.trace import Trace
from tinysched.trace.document import Node, Rewrite, Rule, Schedule, Stage
from tinysched.views import frames as F
from tinysched.views.picture import draw


@pytest.fixture(scope="module")
def trace() -> Trace:
    q, k = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(2))
    return capture((q @ k.transpose(-2, -1)).softmax(-1), title="softmax")


def hostile() -> Trace:
    x = Node("PARAM", "float32", "<script>", "memory", shape=(4,))
    y = Node("EXP2", "float32", "exp2", "alu", (0,), (4,))
    z = Node("SIN", "float32", "</text>", "alu", (0,), (4,))
    stage = Stage("demo", 1, 2, steps=(Rewrite(0, 1, 2),))
    return Trace("<b>", (Schedule("<b>", (x, y, z), (stage,)),), rules=(Rule("r", "exp2(x) -> sin(x)"),))


def test_a_frame_shows_what_the_picture_has_at_that_step(trace: Trace) -> None:
    s = trace.schedules[0]
    picture = draw(s, s.stage("simplify"))
    found = F.frames(trace, "simplify")
    assert [f.step for f in found] == list(range(len(picture.steps) + 1))
    for frame in found:
        shown, edges = picture.at(frame.step)
        assert frame.shown == shown and set(frame.edges) == edges
        assert set(frame.marks) <= set(shown) and not set(frame.gone) & set(shown)


def test_signs_are_drawn_and_labels_are_data() -> None:
    first, last = F.to_svg_frames(hostile(), "demo")
    for text in (first, last):
        root = ET.fromstring(text)
        assert root.get("viewBox") == ET.fromstring(first).get("viewBox"), "all of one size"
        assert "<script>" not in text and not any(e.get("id") for e in root.iter())
    words = [e.text for e in ET.fromstring(last).iter() if e.tag.endswith("text")]
    assert "+" in words and "−" in words and "exp2" in words, "what was removed stays for one frame"


def test_frames_are_written_where_asked(trace: Trace, tmp_path: Path) -> None:
    made = trace.to_svg_frames("simplify", steps=(0, 3), folder=tmp_path / "new")
    assert [p.name for p in sorted((tmp_path / "new").iterdir())] == ["000.svg", "003.svg"]
    assert (tmp_path / "new" / "003.svg").read_text(encoding="utf-8") == made[1]


def test_a_gif_has_a_frame_per_step(trace: Trace, tmp_path: Path) -> None:
    path = trace.to_gif(tmp_path / "a.gif", "simplify", steps=range(4), seconds=0.5)
    with Image.open(path) as gif:
        assert gif.n_frames == 4 and max(gif.size) <= F.LARGEST
        assert gif.info["duration"] == 500 and gif.info["loop"] == 0


def test_what_cannot_be_asked_for(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="has no step 99"):
        trace.to_svg_frames("simplify", steps=[99])
    with pytest.raises(ArgumentError, match="at least one step"):
        trace.to_gif(tmp_path / "a.gif", "simplify", steps=[])
    monkeypatch.setattr(F, "MOST_FRAMES", 3)
    with pytest.raises(ArgumentError, match="as many pictures"):
        trace.to_gif(tmp_path / "a.gif", "simplify")
    assert not (tmp_path / "a.gif").exists()
