"""What a pass is made of, found by following the names that its functions use.

In: a function of the pipeline. Out: :class:`Made`: the functions that it calls (directly or not), the rules of the
tables that it applies, and the reasons that it can give. Nobody keeps a list of these, so none can be out of date.

>>> from tinysched.schedule.prepare import prepare
>>> made = of(prepare)
>>> "merge_reshapes" in {r.name for r in made.rules}, Reason.REDUCE_SPLIT in made.reasons
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from tinysched.ir.decision import Reason
from tinysched.ir.pattern import PatternMatcher
from tinysched.schedule import policy

SEEN = ("tinysched.ir.symbolic", "tinysched.schedule")
"""Functions of other modules (graph walks, dtypes) are the same for every pass."""


@dataclass(frozen=True)
class NamedRule:
    """A rule of any table: its name, ``before -> after``, and the function that is applied."""

    name: str
    doc: str
    fn: FunctionType


@dataclass(frozen=True)
class Made:
    """The parts of a pass, in the order in which they are met."""

    functions: tuple[FunctionType, ...]
    rules: tuple[NamedRule, ...]
    reasons: tuple[Reason, ...]


def of(start: Callable[..., Any]) -> Made:
    """What ``start`` is made of."""
    functions: dict[FunctionType, None] = {}
    rules: dict[FunctionType, NamedRule] = {}
    reasons: dict[Reason, None] = {}
    stack: list[Any] = [start]
    while stack:
        fn = stack.pop()
        if not isinstance(fn, FunctionType) or fn in functions or not fn.__module__.startswith(SEEN):
            continue
        functions[fn] = None
        used = list(_used(fn))
        found = [rule for thing in used for rule in rules_in(thing)]
        rules |= {rule.fn: rule for rule in found}
        reasons |= dict.fromkeys(reason for thing in used for reason in _reasons_in(thing))
        stack += reversed([*(rule.fn for rule in found), *used, *(f for thing in used for f in _asked(thing))])
    return Made(tuple(functions), tuple(rules.values()), tuple(reasons))


def _used(fn: FunctionType) -> Iterator[Any]:
    """The global objects that a function names; of :class:`Reason` its members."""
    for name in _names(fn.__code__):
        thing = fn.__globals__.get(name)
        if thing is Reason:
            yield from (Reason[n] for n in _names(fn.__code__) if n in Reason.__members__)
        elif thing is not None:
            yield thing


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def rules_in(thing: Any) -> Iterator[NamedRule]:
    """The rules of a table, be it a matcher, or a tuple or dict of rules."""
    parts: Iterable[Any] = ()
    if isinstance(thing, (PatternMatcher, tuple, list)):
        parts = thing
    elif isinstance(thing, dict):
        parts = thing.values()
    for part in dict.fromkeys(p for p in parts if hasattr(p, "fn") and hasattr(p, "doc") and hasattr(p, "name")):
        yield NamedRule(part.name, part.doc, part.fn)


def _reasons_in(thing: Any) -> Iterator[Reason]:
    if isinstance(thing, Reason):
        yield thing
    if isinstance(thing, dict):
        yield from (value for value in thing.values() if isinstance(value, Reason))


def _asked(thing: Any) -> Iterator[Any]:
    """The functions behind a class, and behind a policy, which is asked through its protocol: the default one stands."""
    if thing is policy.ask_fusion:
        yield policy.Upstream.keep
    if isinstance(thing, type) and thing.__module__.startswith(SEEN):
        yield from vars(thing).values()
