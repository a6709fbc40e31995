"""The passes in their order, each with what it is made of, for the pages about them.

In: the pipeline, which is data. Out: :data:`STAGES`. What the pipeline does not list, since it cannot be replaced, stands
around it: callify before, the functions' own schedules and the memory plan after.

>>> [s.name for s in STAGES][:3], STAGES[-1].name
(['callify', 'prepare', 'rangeify'], 'memory')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scripts.reference import reach
from scripts.reference.examples import EXAMPLES
from tinysched import clear_caches
from tinysched.explain import sentence
from tinysched.explain.flips import decisions_of, flip, words
from tinysched.ir.decision import Reason
from tinysched.schedule import pipeline
from tinysched.schedule.callify import transform_to_call
from tinysched.schedule.memory import memory_plan_rewrite
from tinysched.schedule.resolve import flatten
from tinysched.trace import Trace

ARITHMETIC = "tinysched.ir.symbolic.affine"
"""Index arithmetic has a section of its own: every pass uses it."""


@dataclass(frozen=True)
class Stage:
    """A pass: its name, a paragraph, and the functions that it starts from."""

    name: str
    doc: str
    starts: tuple[Callable[..., Any], ...]

    @cached_property
    def made(self) -> reach.Made:
        """What all starts together are made of."""
        parts = [reach.of(start) for start in self.starts]
        functions, rules, reasons = (
            tuple(dict.fromkeys(x for part in parts for x in getattr(part, what)))
            for what in ("functions", "rules", "reasons")
        )
        return reach.Made(functions, rules, reasons)

    @property
    def rules(self) -> list[reach.NamedRule]:
        """Its rules, those of index arithmetic left aside."""
        return [rule for rule in self.made.rules if rule.fn.__module__ != ARITHMETIC]

    @property
    def files(self) -> list[str]:
        """The modules of the scheduler that its functions lie in, as they are met."""
        modules = (fn.__module__ for fn in self.made.functions)
        return list(dict.fromkeys(m for m in modules if m.startswith("tinysched.schedule") and m != pipeline.__name__))

    @property
    def reasons(self) -> list[Reason]:
        """The reasons that it gives: those its functions name, and those it was seen to give."""
        seen = [told.reason for told in told_of_all().values() if told.stage == self.name]
        return list(dict.fromkeys((*self.made.reasons, *seen)))


STAGES = (
    Stage(
        "callify",
        "A graph becomes a function call: `CALL(body, arguments)`. What has to be in memory is written to it, buffers "
        "become arguments, so that the same computation on other buffers is the same graph and its schedule is found "
        "in the cache. Whether a write may happen in place is decided here as well.",
        (transform_to_call, pipeline._explain_cache),
    ),
    *(Stage(s.name, s.doc, (s.fn,)) for s in pipeline.PIPELINE.stages),
    Stage("resolve", "Calls of functions become the kernels of their bodies.", (flatten,)),
    Stage(
        "memory",
        "Intermediates share one arena per device: each lies where the dead ones were.",
        (memory_plan_rewrite,),
    ),
)


@dataclass(frozen=True)
class Told:
    """A decision that was taken while an example was scheduled: where, what is said of it, what would turn it."""

    reason: Reason
    stage: str
    said: str
    turned: str
    evidence: Any


_TOLD: dict[Reason, Told] = {}


def told_of_all() -> dict[Reason, Told]:
    """The decision that each example is about; the examples are run once."""
    if not _TOLD:
        for reason, example in EXAMPLES.items():
            clear_caches()
            _TOLD[reason] = told_of(example(), reason)
    return _TOLD


def told_of(trace: Trace, reason: Reason) -> Told:
    """A decision of a trace with ``reason``, the first about a value that has a name if there is one.

    Raises LookupError where the trace has none.
    """
    found = [
        (schedule, sentence(trace, trace.schedules[schedule], step), (stage, i, step))
        for schedule, s in enumerate(trace.schedules)
        for stage, i, step in decisions_of(s)
        if step.reason == reason.name
    ]
    if not found:
        raise LookupError(f"its example does not show {reason.name}")
    which, said, at = next((f for f in found if f[1].startswith("`")), found[0])
    name = trace.schedules[which].stages[at[0]].name.split(": ")[-1]
    return Told(reason, name, said, words(flip(trace, which, at), at[2]), at[2].evidence)
