"""A pass as a series of pictures, for slides: one per step, all of one size, nothing moves but what the step changed.

In: a trace, a stage, which of its steps. Out: SVG texts (:func:`to_svg_frames`), or an animated GIF (:func:`to_gif`). Both
draw the same :class:`Frame`: the picture of :mod:`~tinysched.views.picture` at a step, and below it the step's sentence.
New nodes carry +, removed ones stay for one frame with −, changed ones carry ~, a ring shows what the step is about.

>>> from tinysched.trace.document import Decided, Node, Schedule, Stage
>>> x, y = Node("PARAM", "float32", "x", "memory", shape=(4,)), Node("EXP2", "float32", "exp2", "alu", (0,), (4,))
>>> stage = Stage("demo", 1, 1, steps=(Decided(1, "fused", "SINGLE_CONSUMER"),))
>>> trace = Trace("t", (Schedule("s", (x, y), (stage,)),))
>>> [(frame.step, frame.focus) for frame in frames(trace, "demo")]
[(0, ()), (1, (1,))]
>>> len(to_svg_frames(trace, "demo"))
2
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.explain import sentence
from tinysched.trace.document import Schedule, Stage
from tinysched.trace.trace import Trace
from tinysched.views.picture import Caption, Picture, columns, draw
from tinysched.views.png import Pen, paint
from tinysched.views.static import find
from tinysched.views.svg import GREY, HEAD, INK, PAD, PAPER, drawing, tag

MOST_FRAMES = 200
"""More are made only for who asks for certain steps."""
LARGEST = 1600
"""Pixels along a side of a GIF; a larger picture is drawn smaller."""
WIDTH = 640
"""The least width of a frame, so that sentences have room."""
FOCUS, ADDED, REMOVED, CHANGED = "#0b62c4", "#0a7d5a", "#b3261e", "#8a5a00"
_LINE = 19.0


@dataclass(frozen=True)
class Frame:
    """One picture. ``marks``: a sign by slot; ``gone``: what this step removed; ``focus``: slots that the step is about."""

    title: str
    step: int
    told: str
    shown: dict[int, Caption]
    edges: tuple[int, ...]
    marks: dict[int, str] = field(default_factory=dict)
    gone: dict[int, Caption] = field(default_factory=dict)
    focus: tuple[int, ...] = ()


def frames(trace: Trace, stage: str | int, steps: Iterable[int] | None = None, schedule: int = -1) -> tuple[Frame, ...]:
    """A frame for each of ``steps`` (0 is the start; by default all). Raises :class:`ArgumentError` for more than
    :data:`MOST_FRAMES` that nobody asked for, and for steps that do not exist."""
    s, where = find(trace, stage, schedule)
    return tuple(_frames(trace, s, where, draw(s, where), steps))


def _frames(trace: Trace, s: Schedule, stage: Stage, picture: Picture, steps: Iterable[int] | None) -> Iterator[Frame]:
    last = len(picture.steps)
    if steps is None and last >= MOST_FRAMES:
        raise ArgumentError(
            f"{stage.name} has {last:,} steps, which would be as many pictures",
            help=f"give some of them: steps=range(0, {MOST_FRAMES})",
        )
    wanted = list(range(last + 1) if steps is None else steps)
    if wrong := [step for step in wanted if not 0 <= step <= last]:
        raise ArgumentError(f"{stage.name} has no step {wrong[0]}", help=f"there are steps 0 to {last}")
    for step in wanted:
        yield _frame(trace, s, stage, picture, step)


def _frame(trace: Trace, s: Schedule, stage: Stage, picture: Picture, step: int) -> Frame:
    shown, edges = picture.at(step)
    title = f"{s.title}: {stage.name}, step {step} of {len(picture.steps)}"
    if step == 0:
        return Frame(title, 0, stage.doc or f"The graph at the start of {stage.name}.", shown, tuple(sorted(edges)))
    change = picture.steps[step - 1]
    told = sentence(trace, s, stage.steps[step - 1]) if step <= len(stage.steps) else f"What {stage.name} leaves."
    before, _ = picture.at(step - 1)
    marks = {c.slot: "+" for c in change.add} | {c.slot: "~" for c in change.change}
    gone = {slot: before[slot] for slot in change.remove if slot in before}
    return Frame(title, step, told, shown, tuple(sorted(edges)), marks, gone, change.focus)


def _size(picture: Picture, found: Iterable[Frame]) -> tuple[float, float, int]:
    """Width and height of all frames, and how many columns of text a line has."""
    width = max(picture.layout.width + 2 * PAD, WIDTH)
    across = int((width - 2 * PAD) / 7.2)
    lines = max(len(_lines(frame.told, across)) for frame in found)
    return width, picture.layout.height + 2 * PAD + HEAD + lines * _LINE + 14, across


def _lines(told: str, across: int) -> list[str]:
    return textwrap.wrap(told, max(20, across - (columns(told) - len(told)))) or [""]


# ** as SVG **


def to_svg_frames(
    trace: Trace,
    stage: str | int = "rangeify",
    steps: Iterable[int] | None = None,
    *,
    folder: str | Path | None = None,
    schedule: int = -1,
) -> tuple[str, ...]:
    """An SVG text per step; with ``folder`` they are also written there, as ``000.svg`` and so on."""
    s, where = find(trace, stage, schedule)
    picture = draw(s, where)
    found = tuple(_frames(trace, s, where, picture, steps))
    if not found:
        return ()
    made = tuple(_svg(s, picture, frame, _size(picture, found)) for frame in found)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for frame, text in zip(found, made):
            (Path(folder) / f"{frame.step:03}.svg").write_text(text, encoding="utf-8")
    return made


def _svg(s: Schedule, p: Picture, frame: Frame, size: tuple[float, float, int]) -> str:
    width, height, across = size
    graph = [*drawing(s, p, frame.shown, list(frame.edges)), *_signs(p, frame)]
    below = p.layout.height + 2 * PAD + HEAD + 4
    parts = [
        tag("title", escape(f"{frame.title}. {frame.told}")),
        tag("rect", width="100%", height="100%", fill=PAPER),
        tag("text", escape(frame.title), x=PAD, y=24, font_size=14, font_weight=600, fill=INK),
        tag("g", "".join(graph), transform=f"translate({PAD} {PAD + HEAD})"),
        *(
            tag("text", escape(line), x=PAD, y=below + i * _LINE, font_size=14, fill=INK)
            for i, line in enumerate(_lines(frame.told, across))
        ),
    ]
    shape = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    font = "system-ui, DejaVu Sans, sans-serif"
    return tag("svg", "".join(parts), xmlns="http://www.w3.org/2000/svg", font_family=font, role="img", **shape)


def _signs(p: Picture, frame: Frame) -> Iterator[str]:
    for slot in frame.focus:
        if slot in frame.shown:
            yield _ring(p, slot, FOCUS, 3, 5)
    for slot, sign in frame.marks.items():
        colour = ADDED if sign == "+" else CHANGED
        yield _ring(p, slot, colour, 2, 1) + _sign(p, slot, sign, colour)
    for slot, caption in frame.gone.items():
        q = p.layout.places[slot]
        words = tag("text", escape(caption.title), x=q.x, y=q.y + 4, font_size=11, fill=GREY, text_anchor="middle")
        yield _ring(p, slot, REMOVED, 1.6, 0, stroke_dasharray="4 3") + words + _sign(p, slot, "−", REMOVED)


def _ring(p: Picture, slot: int, colour: str, width: float, out: float, **more: object) -> str:
    q = p.layout.places[slot]
    left, top = q.x - q.width / 2 - out, q.y - q.height / 2 - out
    size: dict[str, Any] = {"x": left, "y": top, "width": q.width + 2 * out, "height": q.height + 2 * out}
    return tag("rect", "", **size, rx=8, fill="none", stroke=colour, stroke_width=width, **more)


def _sign(p: Picture, slot: int, sign: str, colour: str) -> str:
    q = p.layout.places[slot]
    place = {"x": q.x + q.width / 2 + 4, "y": q.y - q.height / 2 + 6}
    return tag("text", sign, **place, font_size=18, font_weight=700, fill=colour)


# ** as GIF **


def to_gif(
    trace: Trace,
    path: str | Path,
    stage: str | int = "rangeify",
    steps: Iterable[int] | None = None,
    *,
    seconds: float = 1.2,
    schedule: int = -1,
) -> Path:
    """Writes an animated GIF of a pass, ``seconds`` per step and three times that at the end, and returns its path."""
    s, where = find(trace, stage, schedule)
    picture = draw(s, where)
    found = tuple(_frames(trace, s, where, picture, steps))
    if not found:
        raise ArgumentError("a GIF needs at least one step", help="leave steps out for all of them")
    size = _size(picture, found)
    images: list[Any] = [_painted(s, picture, frame, size).quantize(64, dither=0) for frame in found]
    times = [round(seconds * 1000)] * (len(images) - 1) + [round(seconds * 3000)]
    target = Path(path)
    images[0].save(target, "GIF", save_all=True, append_images=images[1:], duration=times, loop=0, disposal=1)
    return target


def _painted(s: Schedule, p: Picture, frame: Frame, size: tuple[float, float, int]) -> Any:
    width, height, across = size
    pen = Pen(width, height, min(1.0, LARGEST / max(width, height)))
    pen.text(PAD, 20, frame.title, 14, INK, "lm", bold=True)
    for i, line in enumerate(_lines(frame.told, across)):
        pen.text(PAD, p.layout.height + 2 * PAD + HEAD + i * _LINE, line, 13, INK, "lm")
    pen.origin = (PAD, PAD + HEAD)
    paint(pen, s, p, frame.shown, list(frame.edges))
    for slot in frame.focus:
        if slot in frame.shown:
            _outline(pen, p, slot, FOCUS, 3, 5)
    for slot, sign in frame.marks.items():
        colour = ADDED if sign == "+" else CHANGED
        _outline(pen, p, slot, colour, 2, 1)
        _write(pen, p, slot, sign, colour)
    for slot, caption in frame.gone.items():
        q = p.layout.places[slot]
        _outline(pen, p, slot, REMOVED, 1.4, 0)
        pen.text(q.x, q.y, caption.title, 11, GREY, "mm")
        _write(pen, p, slot, "−", REMOVED)
    return pen.image


def _outline(pen: Pen, p: Picture, slot: int, colour: str, width: float, out: float) -> None:
    q = p.layout.places[slot]
    left, top, right, bottom = (
        q.x - q.width / 2 - out,
        q.y - q.height / 2 - out,
        q.x + q.width / 2 + out,
        q.y + q.height / 2 + out,
    )
    pen.line([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], colour, width)


def _write(pen: Pen, p: Picture, slot: int, sign: str, colour: str) -> None:
    q = p.layout.places[slot]
    pen.text(q.x + q.width / 2 + 4, q.y - q.height / 2, sign, 16, colour, "lm", bold=True)
