"""What is shown is what runs: each rule that a trace can show is taken away, and a pass leaves another graph (or none).

Some rules (merged reshapes) only bring a graph into one form; the kernels would be the same without them, at more work.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.rule_programs import PROGRAMS
from tinysched import capture, clear_caches
from tinysched.errors import TinyschedError
from tinysched.ir.pattern import Rule
from tinysched.ir.symbolic.affine import DIGIT_RULES, DigitRule
from tinysched.schedule.copies import pm_copies
from tinysched.schedule.functions import pm_functions
from tinysched.schedule.multi import multi_pm
from tinysched.schedule.prepare import earliest_rewrites
from tinysched.schedule.simplify import pm_limit_bufs, pm_promote_partial, pm_simplify
from tinysched.trace import Trace
from tinysched.trace.document import Ranges, Rewrite, Schedule
from tinysched.trace.rebuild import below

GRAPH_RULES = pm_functions + multi_pm + pm_copies + earliest_rewrites + pm_simplify + pm_promote_partial + pm_limit_bufs
RULES: tuple[Rule | DigitRule, ...] = tuple(dict.fromkeys((*GRAPH_RULES, *DIGIT_RULES)))


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
        steps = [step for s in trace.schedules for stage in s.stages for step in stage.steps]
        used = [step.rule for step in steps if isinstance(step, Rewrite)]
        used += [rule for step in steps if isinstance(step, Ranges) for rule, _, _ in step.index]
        for rule in dict.fromkeys(trace.rules[i].name for i in used):
            found.setdefault(rule, []).append(name)
    return found


@contextmanager
def without(rule: Rule | DigitRule) -> Iterator[None]:
    """Within the block the rule never applies."""
    sound = rule.fn
    object.__setattr__(rule, "fn", lambda *args, **bindings: None)
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
def test_without_a_rule_that_is_shown_something_else_runs(rule: Rule | DigitRule) -> None:
    programs = shown()[rule.name]
    assert any(differs(name, rule) for name in programs), f"nothing changes without {rule.name} in {programs}"


def differs(name: str, rule: Rule | DigitRule) -> bool:
    sound = what_runs(name)
    with without(rule):
        return bool(what_runs(name) != sound)


def test_the_programs_show_every_rule() -> None:
    assert not {r.name for r in RULES} - shown().keys()
