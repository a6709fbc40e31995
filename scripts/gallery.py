"""The page of traces to step through, each with the program that it is of.

In: the functions below; the page shows their lines. Out: Markdown, and a page for each trace that steps by itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from tinysched import Tensor, capture, nn
from tinysched.trace import Trace

_HEAD = """\
# Traces to step through

Each frame is the explorer with one schedule in it: click into it, then **← →** step, **↑ ↓** change the pass. Nothing
runs: what you see was recorded when this page was made, from the program above it, by `capture`. Each can be had as a file
of its own by the link below it.
"""
HEIGHT_PX = 620


def softmax() -> Trace:
    """Softmax: two readers of one value, three kernels"""
    x = Tensor.rand(32, 64).realize()
    return capture(x.softmax())


def attention() -> Trace:
    """Attention: why the scores are stored"""
    q, k, v = (Tensor.rand(4, 64, 32).realize() for _ in range(3))
    scores = q @ k.transpose(1, 2) / 32**0.5
    return capture(scores.softmax(-1) @ v)


def convolution() -> Trace:
    """Convolution and pooling: windows are index arithmetic"""
    image = Tensor.rand(1, 3, 16, 16).realize()
    layer = nn.Conv2d(3, 8, 3, padding=1)
    Tensor.realize(*nn.state.get_parameters(layer))
    return capture(layer(image).relu().max_pool2d())


def training_step() -> Trace:
    """A training step: forward, backward, and the new weights, in one schedule"""
    hidden, head = nn.Linear(64, 32), nn.Linear(32, 10)
    optimizer = nn.optim.Adam(nn.state.get_parameters([hidden, head]))
    Tensor.realize(*nn.state.get_parameters([hidden, head]))
    x, y = Tensor.rand(16, 64).realize(), Tensor.randint(16, high=10).realize()

    def step() -> tuple[Tensor, ...]:
        optimizer.zero_grad()
        loss = head(hidden(x).relu()).sparse_categorical_crossentropy(y).backward()
        return loss, *optimizer.schedule_step()

    return capture(step)


def devices() -> Trace:
    """A product on two devices: each its rows, then one allreduce"""
    x = Tensor.rand(8, 16).shard(("NUMPY", "NUMPY:1"), axis=0)
    w = Tensor.rand(16, 4).shard(("NUMPY", "NUMPY:1"))
    return capture((x @ w).square().mean())


GALLERY: tuple[Callable[[], Trace], ...] = (softmax, attention, convolution, training_step, devices)


def page(folder: Path, link: str) -> str:
    """The Markdown text; writes the traces to ``folder``, which the text names by ``link``."""
    folder.mkdir(parents=True, exist_ok=True)
    return "\n".join([_HEAD, *(_entry(program, folder, link) for program in GALLERY)])


def _entry(program: Callable[[], Trace], folder: Path, link: str) -> str:
    name = f"{program.__name__}.html"
    trace = program().changed(title=program.__name__.replace("_", " "))
    trace.to_html(folder / name)
    source = inspect.getsource(program).split("\n", 2)[2]
    source = re.sub(r"\breturn (?=capture\()", "trace = ", inspect.cleandoc(source))
    frame = f'<iframe class="ts-live" src="{link}/{name}" title="{trace.title}" loading="lazy"'
    style = f'style="width: 100%; height: {HEIGHT_PX}px; border: 1px solid #8884"'
    return (
        f"## {program.__doc__}\n\n```python\n{source}\n```\n\n{frame} {style}></iframe>\n\n"
        f'<a href="{link}/{name}">{name}</a>: by itself, in the whole window.\n'
    )
