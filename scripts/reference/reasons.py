"""The page about the reasons: what each says, of what program, by which numbers, and what would change it.

In: the reasons, their examples, and the explainer. Out: Markdown. The sentences are what the explainer says of the
programs that stand beside them, at the time when the page is made.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from scripts.reference.examples import EXAMPLES, WITHOUT, data, source_of
from scripts.reference.stages import STAGES, Stage, Told, told_of_all
from tinysched.ir import decision
from tinysched.ir.decision import Reason

_HEAD = f"""\
# Why: every reason, in a program that runs

A pass that decides about a value says what it decided, for which reason, and by which numbers or index expressions
(its *evidence*). Here is each reason in a smallest program, the sentence that the explainer says of it, and what would
change that decision: found by scheduling again with it turned, or what forces it. This page is made by running the
programs. The first lines of each are

```python
from tinysched import Context, Tensor, capture, function
from tinysched.schedule.policy import Eager, Policies

TWO, FOUR = ("NUMPY", "NUMPY:1"), ("NUMPY", "NUMPY:1", "NUMPY:2", "NUMPY:3")

{inspect.getsource(data)}```

In a notebook, `print(trace.decisions.why(y))` says the whole chain of decisions about `y`.
"""


def page() -> str:
    """The Markdown text."""
    described: set[Reason] = set()
    parts = [_HEAD]
    for stage in STAGES:
        parts += _section(stage, described)
    return "\n".join(parts)


def _section(stage: Stage, described: set[Reason]) -> Iterator[str]:
    new = [reason for reason in stage.reasons if reason not in described and _belongs(reason, stage)]
    described.update(new)
    if new:
        yield f"## Given by {stage.name}\n"
    for reason in new:
        yield from _entry(reason)


def _belongs(reason: Reason, stage: Stage) -> bool:
    """Whether the example of a reason shows it in this stage. (Some are given by several.)"""
    told = told_of_all().get(reason)
    return told is None or told.stage == stage.name


def _entry(reason: Reason) -> Iterator[str]:
    anchor = reason.name.lower().replace("_", "-")
    yield f"(reason-{anchor})=\n### {reason.name}\n\nIn short: {reason.value}.\n"
    told = told_of_all().get(reason)
    if told is None:
        yield f"{WITHOUT[reason]}\n"
        return
    yield f"```python\n{source_of(EXAMPLES[reason])}\n```\n"
    yield f"> {told.said}\n"
    yield f"*What would change it.* {told.turned}\n"
    if told.evidence:
        yield f"*Evidence.* {_evidence(told)}\n"


def _evidence(told: Told) -> str:
    """The fields of the evidence, by their names."""
    names = ", ".join(f"`{name}`" for name in told.evidence)
    kind = next((c for c in _classes() if _fields(c) == set(told.evidence)), None)
    return f"{{py:class}}`~tinysched.ir.decision.{kind.__name__}` ({names})." if kind else f"The facts {names}."


def _classes() -> list[type[Any]]:
    known = (decision.Consumers, decision.Ended, decision.Cost, decision.Split, decision.Limit, decision.Hazard)
    return list(known)


def _fields(kind: type[Any]) -> set[str]:
    return {f.name for f in dataclasses.fields(kind)}
