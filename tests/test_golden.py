"""Golden texts: every stage of ten graphs, as text. ``pytest tests/test_golden.py --update-golden`` writes them anew.

A change here is a change of what a learner sees at that stage: read the difference, and commit it with the change that
made it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tinysched import Tensor, clear_caches, plan
from tinysched.ir.observe import watching
from tinysched.ir.text import graph_text
from tinysched.ir.uop import UOp

GOLDEN = Path(__file__).parent / "golden"


def _ramp(*shape: int) -> Tensor:
    return Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def _training_step() -> list[Tensor]:
    x, w = _ramp(3, 4), _ramp(4, 2)
    loss = (x @ w).relu().sum()
    (grad,) = loss.gradient(w)
    return [loss, w.assign(w - 0.5 * grad)]


def _shared_exp() -> list[Tensor]:
    e = _ramp(3, 5).exp()
    return [e / e.sum(1, keepdim=True), e.sum(0)]


GRAPHS: dict[str, Callable[[], list[Tensor]]] = {
    "elementwise": lambda: [_ramp(3, 4) * 2 + 1],
    "transpose_add": lambda: [_ramp(3, 4).T + _ramp(4, 3)],
    "row_sum": lambda: [_ramp(3, 4).sum(1)],
    "softmax": lambda: [_ramp(3, 5).softmax(-1)],
    "shared_exp": _shared_exp,
    "pad_exp": lambda: [_ramp(2, 3).exp().pad(((1, 0), (0, 2)))],
    "matmul_relu": lambda: [(_ramp(3, 4) @ _ramp(4, 2)).relu()],
    "gather": lambda: [_ramp(5, 2)[Tensor([3, 0, 4])]],
    "split_reduce": lambda: [Tensor.empty(65536).realize().sum()],
    "training_step": _training_step,
}


class _Stages:
    """An observer that keeps each stage's graph as text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_stage_end(self, name: str, root: UOp) -> None:
        self.texts.append(f"== {name} ==\n{graph_text(root)}")

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


def stages_of(tensors: list[Tensor]) -> str:
    """All stages of one schedule as text."""
    seen = _Stages()
    clear_caches()
    with watching(seen):
        plan(*tensors)
    return "\n\n".join(seen.texts) + "\n"


@pytest.mark.parametrize("name", GRAPHS)
def test_stages_are_as_recorded(name: str, request: pytest.FixtureRequest) -> None:
    text, file = stages_of(GRAPHS[name]()), GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        file.write_text(text)
    assert text == file.read_text(), f"{file.name} differs: look, then pytest tests/test_golden.py --update-golden"


def test_stages_do_not_depend_on_what_ran_before() -> None:
    first = stages_of(GRAPHS["softmax"]())
    stages_of(GRAPHS["gather"]())
    assert stages_of(GRAPHS["softmax"]()) == first
