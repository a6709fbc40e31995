"""The page about the passes: in their order, what each does, its rules, and the reasons that it gives.

In: :data:`STAGES`. Out: Markdown. A rule is described where it is first used, with a link to its source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from scripts.reference.reach import NamedRule, rules_in
from scripts.reference.stages import STAGES, Stage
from tinysched.ir.decision import Reason
from tinysched.ir.symbolic.affine import DIGIT_RULES

_HEAD = """\
# The passes, their rules and their reasons

This page is made from the code. The order of the passes is data
([schedule/pipeline.py](../../tinysched/schedule/pipeline.py)). A rule is a function with a pattern and one line
`before -> after`, which is what is shown here; `[source]` leads to the few lines that do it. In each table the first rule
that applies wins. A reason is what a pass says when it decides about a value; [](reasons.md) shows each in a program that
runs.

In the explorer the passes are the rail on the left, and a rule or a decision is one step.
"""
_ARITHMETIC = """\
## Index arithmetic

Movement ops are arithmetic on loop variables, and two ways to write the same index have to become one. These rules take
`x // d` and `x % d` apart, for a sum of loops `x` and a constant `d`; each pass uses them. They are told to who watches,
like the rules of the passes.
"""


def page() -> str:
    """The Markdown text."""
    described: set[str] = set()
    parts = [_HEAD]
    for number, stage in enumerate(STAGES, 1):
        parts += _section(number, stage, described)
    parts += [_ARITHMETIC, *(_rule(rule) for rule in rules_in(DIGIT_RULES))]
    return "\n".join(parts)


def _section(number: int, stage: Stage, described: set[str]) -> Iterator[str]:
    yield f"(pass-{_slug(stage.name)})=\n## {number} {stage.name}\n\n{stage.doc}\n"
    if stage.files:
        yield f"In {', '.join(_module(m) for m in stage.files)}.\n"
    if stage.reasons:
        yield f"Reasons that it gives: {', '.join(map(reason_link, stage.reasons))}.\n"
    if stage.rules:
        yield f"### Rules of {stage.name}\n"
    known = [rule for rule in stage.rules if rule.name in described]
    yield from (_rule(rule) for rule in stage.rules if rule.name not in described)
    if known:
        yield f"And, described above: {', '.join(_reference(rule) for rule in known)}.\n"
    described.update(rule.name for rule in stage.rules)


def _rule(rule: NamedRule) -> str:
    """A rule's entry; of a plain function the entry is on its module's page, and here is a link to it."""
    fn = rule.fn
    if vars(sys.modules[fn.__module__])[fn.__name__] is fn and not fn.__name__.startswith("_"):
        return f"{_reference(rule)}\n: `{rule.doc}`\n"
    takes = ", ".join(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    return f"```{{py:function}} {fn.__name__}({takes})\n:module: {fn.__module__}\n\n`{rule.doc}`\n```\n"


def _reference(rule: NamedRule) -> str:
    return f"{{py:func}}`{rule.name} <{rule.fn.__module__}.{rule.fn.__name__}>`"


def _module(name: str) -> str:
    path = name.replace(".", "/") + ".py"
    return f"[{path.removeprefix('tinysched/')}](../../{path})"


def reason_link(reason: Reason) -> str:
    """A link to what the page of reasons says."""
    return f"[`{reason.name}`](#reason-{_slug(reason.name)})"


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-").replace("_", "-")
