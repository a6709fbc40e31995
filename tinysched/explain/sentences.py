"""One sentence per step: first the verdict, then the reason, then the numbers, the engine's term in brackets once.

In: a step of a trace. Out: text. Each reason has its own function in :data:`_BECAUSE`, or words of its own in
:data:`REASONS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinysched.explain.speak import Speaker, count, is_reduce_loop, listed, size, speaker
from tinysched.ir.decision import Reason
from tinysched.trace.document import Decided, Ranges, Rewrite, Schedule, Step
from tinysched.trace.trace import Trace

_VERDICTS = {
    "fused": "is fused",
    "realized": "is stored",
    "partially realized": "is stored for some axes",
    "removed": "is fused back",
    "kept": "stays in memory",
    "split": "is split into two kernels",
    "limited": "is cut into more kernels",
    "view": "needs no kernel",
    "cached": "was scheduled before",
    "scheduled": "is scheduled",
    "in place": "is written in place",
    "fresh memory": "is written to fresh memory",
    "snapshot": "is kept as a snapshot",
    "no buffer": "needs no buffer",
    "placed": "has its place",
    "ordered": "has its turn",
    "copied": "is copied",
    "sharded": "is spread over devices",
}
_WITH_SHAPE = frozenset({"realized", "kept", "partially realized", "removed"})


def sentence(trace: Trace, schedule: Schedule, step: Step) -> str:
    """What ``step`` did."""
    say = speaker(trace, schedule)
    if isinstance(step, Rewrite):
        return _rewrite(say, step)
    if isinstance(step, Ranges):
        return _ranges(say, step)
    return decided(say, step)


def _rewrite(say: Speaker, step: Rewrite) -> str:
    rule = say.trace.rules[step.rule]
    what = f"{say.name(step.before)} becomes {say.name(step.after)}"
    return f"{rule.name}: {what}" + (f" (rule: {rule.doc})" if rule.doc else "")


def _ranges(say: Speaker, step: Ranges) -> str:
    out, sources = _loops(step.out), _loops(step.in_)
    text = f"{say.name(step.node)} is computed over {out}"
    if sources != out:
        text += f" and reads its source at {sources}"
    return text + (", in loops of its own, since it is stored" if step.realized else "")


def _loops(indices: Sequence[str]) -> str:
    """Indices of axes; those of one element are left out."""
    return ", ".join(i for i in indices if i != "0") or "no loop"


def decided(say: Speaker, step: Decided) -> str:
    """A decision: verdict, reason, numbers."""
    subject = "This graph" if step.node is None or step.reason in ("CACHE_HIT", "CACHE_MISS") else say.name(step.node)
    shape = say.shape(step.node) if step.node is not None and step.verdict in _WITH_SHAPE else ""
    facts = step.evidence if isinstance(step.evidence, dict) else {}
    because = _BECAUSE[step.reason](say, step, facts) if step.reason in _BECAUSE else ""
    verdict = _VERDICTS.get(step.verdict, step.verdict) + (f" ({shape})" if shape else "")
    if step.reason == "REDUCE_NOT_SPLIT":
        verdict = "is reduced in one kernel"
    return f"{subject} {verdict}: {because or plain(step.reason)} ({step.reason})."


def plain(reason: str) -> str:
    """A reason without numbers."""
    return REASONS.get(reason) or (Reason[reason].value if reason in Reason.__members__ else reason.lower())


REASONS = {
    "FORCED_OUTPUT": "it was asked for",
    "FORCED_CONTIGUOUS": "contiguous() asks for memory",
    "FORCED_STORE": "a write is where a kernel ends",
    "MULTI_DEVICE": "each device reads the parts of the others from memory",
    "ONLY_REORDERS": "computing it again where it is read costs less than a buffer",
    "USER_FORCED": "a buffer was asked for",
    "CONSTANT": "it is a constant, which costs nothing to compute",
    "EMPTY": "it has no elements",
    "BUFFER_VIEW": "it is a contiguous part of memory that is there already",
    "NOT_HELD": "nobody else reads the old value",
    "SUPERSEDED": "only the next write reads it, so its value is passed on",
    "CACHE_HIT": "the same graph was scheduled before",
    "OVERRIDE": "an override says so",
    "POLICY": "the policy says so",
    "BEFORE_LOOPS": "it has no axes, so it is computed once, before the loops of its one reader",
}


# ** reasons with numbers **


def _indices(say: Speaker, index: Any) -> str:
    return f"[{', '.join(say.names(index))}]"


def _single(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    consumers = facts.get("consumers")
    if step.node is not None and say.are_its_write(consumers, step.node):
        return f"nothing but its own write reads it, at {_at(say, facts)}, so it is computed in the loop that writes it"
    readers = listed(say.readers(consumers))
    return f"only {readers} reads it, at {_at(say, facts)}, so it is computed where it is needed"


def _at(say: Speaker, facts: dict[str, Any]) -> str:
    return _indices(say, next(iter(facts.get("indices") or ()), ()))


def _agree(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    readers = say.readers(facts.get("consumers"))
    return f"its {len(readers)} readers ({listed(readers)}) all read it at {_at(say, facts)}, so one loop serves them"


def _disagree(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    readers, indices = say.readers(facts.get("consumers")), facts.get("indices") or ()
    told = listed([_reading(say, r, i) for r, i in zip(readers, indices)])
    failed = [_axis(say, axis, indices) for axis in facts.get("axes") or ()]
    n = "two" if len(readers) == 2 else len(readers)
    return f"its {n} readers loop differently: {told}. One loop cannot serve them all: {', '.join(failed)}"


def _reading(say: Speaker, reader: str, index: Any) -> str:
    """How one reader goes over a value: the axes that it reduces, and the index of each axis."""
    over = [str(axis) for axis, i in enumerate(say.names(index)) if is_reduce_loop(i)]
    runs = f"{reader} runs over its ax{'is' if len(over) == 1 else 'es'} {listed(over)} and" if over else reader
    return f"{runs} reads it at {_indices(say, index)}"


def _axis(say: Speaker, axis: int, indices: Any) -> str:
    """``axis 1 would be `r5` (a loop of x) and `r2` (a loop of y)``; whose loops they are, where that tells them apart."""
    used = dict.fromkeys(say.names([index[axis] for index in indices if axis < len(index)]))
    owners = {u: say.loop_of.get(u, "") for u in used}
    apart = len(set(owners.values())) > 1
    told = [f"`{u}`" + (f" (a loop of {owner})" if owner and apart else "") for u, owner in owners.items()]
    return f"axis {axis} would be {' and '.join(told)}"


def _ended(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    by = say.readers([facts["by"]] if facts.get("by") is not None else [])
    loops = say.names(facts.get("ranges"))
    times = _trips(say, loops)
    again = f", {times:,} times" if times else ""
    return (
        f"{listed(by)} repeats it along {listed([f'`{r}`' for r in loops])}, where its value is the same every time. "
        f"Computed there, it would be computed again and again{again}; stored, it is computed once"
    )


def _trips(say: Speaker, loops: list[str]) -> int:
    """How many turns some loops take together, 0 where that is not known."""
    sizes = [say.loops.get(r, "") for r in loops]
    return math.prod(int(text) if text.isdecimal() else 0 for text in sizes)


def _too_many(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    buffers = say.names(facts.get("buffers"))
    return (
        f"computing it where it is read would read {count(len(buffers), 'buffer')} ({listed(buffers, 8)}), "
        f"the limit is {facts.get('limit')}"
    )


def _reduce_reads(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    buffers, reduces = say.names(facts.get("buffers")), say.names(facts.get("reduces"))
    verb = "read" if len(reduces) > 1 else "reads"
    reads = f"{verb} {listed(buffers)} from memory" if buffers else f"{verb} memory"
    if step.node is not None and reduces == [say.name(step.node)]:
        return f"it is a reduction that {reads}; fused, it would be repeated for every element that its reader computes"
    return f"{listed(reduces)} inside {reads}; fused, it would be repeated for every element that its reader computes"


def _cheap(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    if "buffers" not in facts:
        return ""
    n = len(facts["buffers"])
    reads = f"it reads {count(n, 'buffer')}, the limit is {facts.get('limit')}, and reduces none of them"
    return f"{plain('ONLY_REORDERS')}: {reads}"


def _split(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    ratio, threshold = facts.get("ratio"), facts.get("threshold")
    if not isinstance(ratio, int) or not isinstance(threshold, int):
        return ""
    text = f"{ratio:,} inputs for each output, against a threshold of {threshold:,}"
    if facts.get("pieces"):
        return f"{text}; axis {facts['axis']} is cut into {facts['pieces']} pieces, which are reduced first"
    if ratio >= threshold:
        return f"{text}, but no axis that is reduced divides into 8 to 256 pieces"
    return text


def _limit(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    return f"its kernel would have {facts.get('buffers')} arguments, the limit is {facts.get('limit')}"


def _store_reads(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    target = listed(say.names([facts["buffer"]])) if facts.get("buffer") is not None else "memory"
    return f"it is written to {target}, which it reads too: some elements would be overwritten before they are read"


def _held(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    who = ", ".join(str(r) for r in facts.get("readers") or ()) or "somebody"
    return f"{who} still needs the old value" if who != "overwritten twice" else "its old value is overwritten twice"


def _two_states(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    target = listed(say.names([facts["buffer"]])) if facts.get("buffer") is not None else "a buffer"
    return f"kernels need {target} as it was before the write and as it is after it"


def _dead_axis(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    loops = listed([f"`{r}`" for r in say.names(facts.get("loops"))])
    if step.verdict == "kept":
        return f"its value does not change along {loops}, so its buffer has no such axis"
    return f"nothing in it changes along {loops}, so that loop becomes a multiplication by its length"


def _closed_form(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    loop = listed([f"`{r}`" for r in say.names([facts["loop"]])]) if "loop" in facts else "its loop"
    return f"which turns of {loop} count is known beforehand, so the sum is arithmetic and needs no loop"


def _miss(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    differs = facts.get("differs in")
    if not differs:
        return "no such graph was scheduled before"
    return f"the same graph was scheduled before, but under other {listed([str(d) for d in differs])}"


def _arena(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    tried = {k: v for k, v in facts.items() if k not in ("planner", "lower bound") and isinstance(v, int)}
    sizes = listed([f"{k} needs {size(v)}" for k, v in tried.items()])
    best = "has the smaller arena" if len(set(tried.values())) > 1 else "needs no more than any other"
    bound = size(facts.get("lower bound") or 0)
    return f"planner {facts.get('planner')} {best}: {sizes}, and no plan could need less than {bound}"


def _policy(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    if "planner" in facts:
        return f"planner {facts['planner']} was asked for"
    choices = say.schedule.choices
    return f"the fusion policy {choices.fusion or 'in use'} says so"


def _devices(say: Speaker, step: Decided, facts: dict[str, Any]) -> str:
    told = ", ".join(f"{k} {_fact(v)}" for k, v in facts.items() if isinstance(v, (int, str, tuple)))
    return f"{plain(step.reason)}" + (f" ({told})" if told else "")


def _fact(value: Any) -> str:
    if isinstance(value, tuple):
        return (" × " if all(isinstance(v, int) for v in value) else " and ").join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


_BECAUSE: dict[str, Callable[[Speaker, Decided, dict[str, Any]], str]] = {
    "SINGLE_CONSUMER": _single,
    "CONSUMERS_AGREE": _agree,
    "CONSUMERS_DISAGREE": _disagree,
    "RANGE_ENDED": _ended,
    "COST_TOO_MANY_BUFFERS": _too_many,
    "COST_REDUCE_READS_BUFFER": _reduce_reads,
    "ONLY_REORDERS": _cheap,
    "REDUCE_SPLIT": _split,
    "REDUCE_NOT_SPLIT": _split,
    "BUFFER_LIMIT": _limit,
    "STORE_READS_TARGET": _store_reads,
    "HELD": _held,
    "TWO_STATES": _two_states,
    "DEAD_AXIS": _dead_axis,
    "CLOSED_FORM": _closed_form,
    "CACHE_MISS": _miss,
    "SMALLER_ARENA": _arena,
    "POLICY": _policy,
    **dict.fromkeys(
        (
            "ONE_BUFFER_PER_DEVICE", "OWN_PART", "RESHARDED", "REPLICATED", "GATHERED", "ALLREDUCE_NAIVE",
            "ALLREDUCE_RING", "ALLREDUCE_ALL2ALL", "CROSSES_DEVICES", "ONLY_MOVES_BYTES",
        ),
        _devices,
    ),
}  # fmt: skip
