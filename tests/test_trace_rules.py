"""What is shown is what runs: a rule that a trace shows is taken away, and a pass leaves another graph (or none).

Some rules (merged reshapes) only bring a graph into one form; the kernels would be the same without them, at more work.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tinysched import Context, Tensor, capture, clear_caches
from tinysched.errors import TinyschedError
from tinysched.ir.pattern import Rule
from tinysched.schedule.prepare import earliest_rewrites
from tinysched.schedule.simplify import pm_limit_bufs, pm_simplify
from tinysched.trace import Trace
from tinysched.trace.document import Rewrite, Schedule
from tinysched.trace.rebuild import below

RULES: tuple[Rule, ...] = tuple(dict.fromkeys((*earliest_rewrites, *pm_simplify, *pm_limit_bufs)))


def data(*shape: int) -> Tensor:
    return Tensor(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 1).realize()


def attention() -> Any:
    q, k, v = (data(1, 2, 8, 4) for _ in range(3))
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def in_place() -> Any:
    x = data(6)
    x[1:].assign(x[:-1] + 1)
    return x


def elementwise_in_place() -> Any:
    x = data(6)
    x.assign(x * 2 + 1)
    return x


def empty_write() -> Any:
    x = data(6)
    x[2:2].assign(data(0))
    x[1:3].assign(data(2))
    return x


def convolution() -> Any:
    return data(1, 2, 6, 6).conv2d(data(3, 2, 3, 3), padding=1).relu().max_pool2d()


def many_inputs() -> Any:
    inputs = [data(4, 4) for _ in range(8)]
    with Context(MAX_KERNEL_BUFFERS=4):
        return capture(sum(inputs[1:], inputs[0]))


def large_sum() -> Any:
    with Context(REDUCEOP_SPLIT_THRESHOLD=64):
        return capture(data(16, 16).sum())


PROGRAMS: dict[str, Callable[[], Any]] = {
    "attention": attention,
    "in place": in_place,
    "elementwise in place": elementwise_in_place,
    "convolution": convolution,
    "many inputs": many_inputs,
    "large sum": large_sum,
    "layernorm": lambda: data(4, 8).layernorm(),
    "gather": lambda: data(6, 3)[Tensor([1, 4, 2]).realize()],
    "one hot": lambda: Tensor([1, 0, 2]).realize().one_hot(4),
    "arange": lambda: Tensor.arange(10).float() + data(10),
    "cumsum": lambda: data(10).cumsum(),
    "nothing": lambda: data(0, 4).sum(0) + data(4),
    "repeated": lambda: data(4).reshape(4, 1).expand(4, 8).sum(1),
    "reordered": lambda: (lambda y: y + y.T)(data(4, 4) * 2),
    "hints": lambda: (data(4) * 2).detach().contiguous_backward() + 3,
    "twice": lambda: (data(4) + 1) * 1.0 + (data(4) * 2 + 0.0),
    "bits": lambda: (data(4) * 2).bitcast("int32") & 7,
    "masks": lambda: ((data(4) > 2).where(1.0, 0.0) * 3).relu(),
    "flip": lambda: data(3, 4).flip(0).pad(((1, 1), (0, 0))).permute(1, 0) * 2,
    "half": lambda: data(4).half().float() * 2,
    "integers": lambda: (data(8).cast("int32") // 4).float(),
    "roll": lambda: data(8).reshape(2, 4).repeat(2, 1) + 1,
    "interpolate": lambda: data(1, 1, 4, 4).interpolate((8, 8), mode="linear"),
    "sorted": lambda: data(16).sort()[0],
    "empty part": lambda: (data(0, 4) * 2).pad(((0, 2), (0, 0))) + data(2, 4),
    "constants": lambda: Tensor.full((4,), 2.0).sqrt() * Tensor.full((4,), 3.0) + data(4),
    "empty write": empty_write,
    "cat": lambda: data(2, 3).cat(data(4, 3) * 2),
}


def traced(name: str) -> Trace:
    clear_caches()
    found = PROGRAMS[name]()
    return found if isinstance(found, Trace) else capture(found)


@functools.cache
def shown() -> dict[str, list[str]]:
    """The programs in whose traces each rule is shown."""
    found: dict[str, list[str]] = {}
    for name in PROGRAMS:
        trace = traced(name)
        steps = [
            step for s in trace.schedules for stage in s.stages for step in stage.steps if isinstance(step, Rewrite)
        ]
        for rule in dict.fromkeys(trace.rules[step.rule].name for step in steps):
            found.setdefault(rule, []).append(name)
    return found


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """Within the block the rule never applies."""
    sound = rule.fn
    object.__setattr__(rule, "fn", lambda **bindings: None)
    try:
        yield
    finally:
        object.__setattr__(rule, "fn", sound)
        clear_caches()


def what_runs(name: str) -> Any:
    """What every pass leaves, and the kernels; or the error that it ends in."""
    try:
        schedules = traced(name).schedules
    except (TinyschedError, AssertionError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return type(error).__name__
    return [[graph(s, stage.end) for stage in s.stages] + [(k.key, k.buffers) for k in s.kernels] for s in schedules]


def graph(s: Schedule, root: int) -> tuple[Any, ...]:
    """A graph as plain data: its nodes in order, sources by position."""
    ids = below(s.nodes, (root,))
    position = {i: k for k, i in enumerate(ids)}
    nodes = (s.nodes[i] for i in ids)
    return tuple((n.op, n.dtype, n.arg, tuple(position[j] for j in n.src)) for n in nodes)


SHOWN = [r for r in RULES if r.name in shown()]


@pytest.mark.parametrize("rule", SHOWN, ids=lambda r: r.name)
def test_without_a_rule_that_is_shown_something_else_runs(rule: Rule) -> None:
    programs = shown()[rule.name]
    sound = {name: what_runs(name) for name in programs}
    with without(rule):
        broken = {name: what_runs(name) for name in programs}
    assert broken != sound, f"{rule.name} is shown in {programs}, and nothing changes without it"


def test_the_programs_show_most_rules() -> None:
    missing = sorted({r.name for r in RULES} - shown().keys())
    assert len(SHOWN) >= 20, missing
