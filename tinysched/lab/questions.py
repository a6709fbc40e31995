"""The questions that the engine can answer, by the words that they end in.

In: a question and one or two traces. Out: :class:`Answer`: a value that was just computed, and the sentences that say why
(the engine's Decisions, edges of the order, placements, rules).

>>> for ending in list(questions())[:4]: print(ending)
kernels
bytes moved
operations
arena bytes
>>> answer("how warm is it", ())
Traceback (most recent call last):
...
tinysched.errors.ArgumentError: nobody can answer 'how warm is it'
...
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.explain.decisions import Decisions, Told
from tinysched.explain.speak import size
from tinysched.lab.reads import elements_read, way
from tinysched.trace.document import Rewrite, Schedule, Stage
from tinysched.trace.trace import Trace

MOST_EVIDENCE = 12


@dataclass(frozen=True)
class Answer:
    """``value`` is compared with the guess, ``text`` is shown, ``evidence`` says why, a sentence each."""

    value: Any
    text: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """Questions that end like ``pattern``. ``traces``: how many it takes."""

    ending: str
    doc: str
    pattern: re.Pattern[str]
    answer: Callable[..., Answer]
    traces: int = 1


_QUESTIONS: list[Question] = []
_Fn = Callable[..., Answer]


def _question(ending: str, pattern: str = "", traces: int = 1) -> Callable[[_Fn], _Fn]:
    """Adds a question; what is in the pattern's groups is passed on."""

    def add(fn: _Fn) -> _Fn:
        written = re.compile(rf"(?:.*\W)?{pattern or re.escape(ending)}\s*\??", re.IGNORECASE)
        _QUESTIONS.append(Question(ending, str(fn.__doc__).strip(), written, fn, traces))
        return fn

    return add


def questions() -> dict[str, str]:
    """What can be asked: how a question ends, and what is then answered."""
    return {q.ending: q.doc for q in _QUESTIONS}


def answer(question: str, traces: Sequence[Trace]) -> Answer:
    """The engine's answer. Raises :class:`ArgumentError` where no question ends like this, or a trace is missing."""
    for q in reversed(_QUESTIONS):  # the longer endings come later
        if (match := q.pattern.fullmatch(question.strip())) is None:
            continue
        if len(traces) != q.traces:
            raise ArgumentError(
                f"{question!r} is about {q.traces} trace{'s' * (q.traces > 1)}, not {len(traces)}",
                help="reveal(p, trace)" if q.traces == 1 else "reveal(p, before, after)",
            )
        return q.answer(*traces, *match.groups())
    raise ArgumentError(f"nobody can answer {question!r}", help=f"a question ends in one of: {', '.join(questions())}")


def _last(trace: Trace) -> Schedule:
    if not trace.schedules:
        raise ArgumentError(f"{trace.title!r} has no schedules", help="capture something that is computed")
    return trace.schedules[-1]


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _listed(lines: Sequence[str]) -> tuple[str, ...]:
    """The first few, and how many more there are."""
    more = len(lines) - MOST_EVIDENCE
    return tuple(lines) if more <= 0 else (*lines[:MOST_EVIDENCE], f"… and {more} more: print(trace.to_text())")


# ** counts **


@_question("kernels", r"kernels?")
def _kernels(trace: Trace) -> Answer:
    """how many kernels run"""
    n = sum(len(s.kernels) for s in trace.schedules)
    split = [t.text for t in Decisions(trace).all() if t.reason in ("REDUCE_SPLIT", "BUFFER_LIMIT")] if n else []
    return Answer(n, _many(n, "kernel"), _listed([*_stored(trace), *split]))


def _stored(trace: Trace) -> Iterator[str]:
    """Why each value that a kernel writes has a buffer."""
    seen = set[str]()
    for which, s in enumerate(trace.schedules):
        for k, kernel in enumerate(s.kernels):
            for node in (s.buffers[kernel.buffers[w]].node for w in kernel.writes):
                told = Decisions(trace).why(node, schedule=which).chain if node is not None else ()
                yield f"kernel {k} ({kernel.name}): {_shortened(told[-1], seen) if told else 'a part of a value'}"


def _shortened(told: Told, seen: set[str]) -> str:
    """A sentence; of those with one reason the first says it, and the others what they are about."""
    what, colon, _ = told.text.partition(": ")
    known = told.reason in seen
    seen.add(told.reason)
    return f"{what}, for the same reason ({told.reason})." if known and colon else told.text


@_question("bytes moved")
def _bytes(trace: Trace) -> Answer:
    """how many bytes all kernels read and write"""
    n = sum(s.bytes_moved for s in trace.schedules)
    return Answer(n, f"{n:,} bytes", _listed([line for s in trace.schedules for line in _traffic(s)]))


def _traffic(s: Schedule) -> Iterator[str]:
    for k, kernel in enumerate(s.kernels):
        yield f"kernel {k} ({kernel.name}) reads {size(kernel.bytes_read)} and writes {size(kernel.bytes_written)}"


@_question("operations")
def _operations(trace: Trace) -> Answer:
    """how many additions, multiplications, … all kernels do"""
    pairs = [(k, kernel) for s in trace.schedules for k, kernel in enumerate(s.kernels)]
    n = sum(kernel.ops for _, kernel in pairs)
    lines = [f"kernel {k} ({kernel.name}) does {_many(kernel.ops, 'operation')}" for k, kernel in pairs]
    return Answer(n, _many(n, "operation"), _listed(lines))


@_question("arena bytes")
def _arena(trace: Trace) -> Answer:
    """how large the memory for intermediates is"""
    lanes = [lane for s in trace.schedules for lane in s.memory.lanes]
    n = sum(lane.arena_bytes for lane in lanes)
    lines = [
        f"lower bound {lane.lower_bound_bytes:,} (the most that is alive at once), {lane.unplanned_bytes:,} without reuse"
        for lane in lanes
    ]
    return Answer(n, f"{n:,} bytes", _listed(lines))


@_question("bytes saved", traces=2)
def _saved(before: Trace, after: Trace) -> Answer:
    """how many bytes the second schedule moves less than the first"""
    a, b = _bytes(before), _bytes(after)
    return Answer(a.value - b.value, f"{a.value - b.value:,} bytes", _both(a, b))


@_question("operations added", traces=2)
def _added(before: Trace, after: Trace) -> Answer:
    """how many operations the second schedule does more than the first"""
    a, b = _operations(before), _operations(after)
    return Answer(b.value - a.value, _many(b.value - a.value, "operation"), _both(a, b))


def _both(before: Answer, after: Answer) -> tuple[str, ...]:
    """Each of the two figures, and what it is made of."""
    rows = ((before, "before"), (after, "after"))
    return tuple(line for a, when in rows for line in (f"{a.text} {when}:", *(f"  {e}" for e in a.evidence)))


# ** rules **


def _fired(trace: Trace, stages: Sequence[Stage]) -> list[str]:
    return [trace.rules[step.rule].name for stage in stages for step in stage.steps if isinstance(step, Rewrite)]


@_question("times RULE", r"times (\w+)(?: fires)?")
def _times(trace: Trace, rule: str) -> Answer:
    """how often a rule fires"""
    fired = Counter(_fired(trace, _last(trace).stages))
    n = fired[rule]
    doc = next((f"{r.name}: {r.doc}" for r in trace.rules if r.name == rule), f"no rule called {rule} fired")
    others = ", ".join(f"{name} {count}" for name, count in fired.most_common(MOST_EVIDENCE))
    return Answer(n, f"{n:,}", (doc, f"all that fired: {others}"))


@_question("first rule of STAGE", r"first rule of ([\w ]+?)")
def _first_rule(trace: Trace, stage: str) -> Answer:
    """the name of the rule that fires first in a pass"""
    fired = _fired(trace, (_last(trace).stage(stage),))
    if not fired:
        return Answer("none", "none", (f"no rule fires in {stage}",))
    doc = next(r.doc for r in trace.rules if r.name == fired[0])
    return Answer(fired[0], fired[0], (doc, f"in order: {', '.join(fired[:MOST_EVIDENCE])}"))


# ** callify **


@_question("arguments")
def _arguments(trace: Trace) -> Answer:
    """how many buffers are arguments (PARAMs) of the scheduled function"""
    s = _last(trace)
    params = [b for b in s.buffers if b.role != "intermediate"]
    lines = [f"{b.name or 'a buffer'}: {b.role}, {size(b.bytes)}" for b in params]
    return Answer(len(params), _many(len(params), "argument"), _listed(lines))


@_question("cache")
def _cache(trace: Trace) -> Answer:
    """hit or miss"""
    s = _last(trace)
    told = [t.text for t in Decisions(trace).all() if t.reason in ("CACHE_HIT", "CACHE_MISS")]
    return Answer(s.cache.outcome, s.cache.outcome, tuple(told))


# ** order **


@_question("kernels that can start")
def _can_start(trace: Trace) -> Answer:
    """how many kernels wait for no other"""
    s = _last(trace)
    waiting = {e.after for e in s.order}
    free = [k for k in range(len(s.kernels)) if k not in waiting]
    lines = [f"kernel {k} ({s.kernels[k].name}) waits for nobody" for k in free]
    return Answer(len(free), _many(len(free), "kernel"), _listed(lines))


@_question("kernels in a row")
def _in_a_row(trace: Trace) -> Answer:
    """the longest chain of kernels of which each waits for the one before (the critical path)"""
    s = _last(trace)
    chain = [(1, -1)] * len(s.kernels)
    for e in sorted(s.order, key=lambda e: e.after):
        chain[e.after] = max(chain[e.after], (chain[e.before][0] + 1, e.before))
    k = max(range(len(chain)), key=lambda k: chain[k], default=-1)
    n, path = chain[k][0] if chain else 0, list[str]()
    while k >= 0:
        path, k = [str(k), *path], chain[k][1]
    return Answer(n, _many(n, "kernel"), (f"one such chain: {' → '.join(path)} of {len(s.kernels)} kernels",))


# ** indices **


@_question("SOURCE read for RESULT[1, 2]", r"(\w+) read for (\w+)\[([\d, ]+)\]")
def _read_for(trace: Trace, source: str, result: str, at: str) -> Answer:
    """the index of the element of SOURCE that one element of RESULT is computed from (the first, and how many)"""
    place = tuple(int(n) for n in at.split(",") if n.strip())
    found = elements_read(trace, source, result, place)
    if not found:
        return Answer("nothing", "nothing", (f"it lies in padding: {way(trace, source, result, place)}",))
    rest = f"{len(found)} elements: {', '.join(map(str, found[:MOST_EVIDENCE]))}{', …' * (len(found) > MOST_EVIDENCE)}"
    return Answer(
        found[0], str(found[0]), tuple(filter(None, (rest * (len(found) > 1), way(trace, source, result, place))))
    )
