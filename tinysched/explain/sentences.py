"""One sentence per step.

In: steps of a trace. Out: text. Each reason has its own function in :data:`_BECAUSE`; one without says the bare facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinysched.trace.document import Decided, Node, Ranges, Rewrite, Schedule, Step, Trace

_VERDICTS = {
    "fused": "is fused",
    "realized": "is stored",
    "partially realized": "is stored for some axes",
    "removed": "is fused back",
    "kept": "stays in memory",
    "split": "is split into two kernels",
    "limited": "is cut, for its kernel would have too many arguments",
    "view": "needs no kernel: it is a view",
    "cached": "was found in the cache",
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


def sentence(trace: Trace, schedule: Schedule, step: Step) -> str:
    """What ``step`` did."""
    if isinstance(step, Rewrite):
        return _rewrite(trace, schedule, step)
    if isinstance(step, Ranges):
        return _ranges(schedule, step)
    return _decided(schedule, step)


def called(node: Node) -> str:
    """A node as sentences name it: the user's name, its expression, or what it is."""
    if node.name is not None:
        return f"`{node.name}`"
    return node.expr if node.expr is not None else node.label


def size(node: Node) -> str:
    """The shape, '' for a single value."""
    return " × ".join(map(str, node.shape or ()))


def _rewrite(trace: Trace, schedule: Schedule, step: Rewrite) -> str:
    rule, before, after = trace.rules[step.rule], schedule.nodes[step.before], schedule.nodes[step.after]
    what = f"{called(before)} becomes {called(after)}"
    return f"{rule.name}: {what}" + (f" (rule: {rule.doc})" if rule.doc else "")


def _ranges(schedule: Schedule, step: Ranges) -> str:
    node = schedule.nodes[step.node]
    out, sources = _loops(step.out), _loops(step.in_)
    text = f"{called(node)} is computed over {out}"
    if sources != out:
        text += f" and reads its source at {sources}"
    return text + (", in loops of its own, since it is stored" if step.realized else "")


def _loops(indices: Sequence[str]) -> str:
    """Indices of axes; those of one element are left out."""
    return ", ".join(i for i in indices if i != "0") or "no loop"


def _decided(schedule: Schedule, step: Decided) -> str:
    node = schedule.nodes[step.node] if step.node is not None else None
    subject = "The schedule" if node is None else called(node)
    shape = f" ({size(node)})" if node is not None and size(node) and step.verdict in ("realized", "kept") else ""
    facts = step.evidence if isinstance(step.evidence, dict) else {}
    because = _BECAUSE[step.reason](schedule, facts) if step.reason in _BECAUSE and facts else ""
    why = because or _facts(facts) or _plain(step.reason)
    return f"{subject} {_VERDICTS.get(step.verdict, step.verdict)}{shape}: {why} ({step.reason})."


def _plain(reason: str) -> str:
    return _REASONS.get(reason, reason.lower().replace("_", " "))


def _facts(facts: dict[str, Any]) -> str:
    return ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in facts.items() if isinstance(v, (str, int, float)))


# ** reasons **

_REASONS = {
    "FORCED_OUTPUT": "it was asked for",
    "FORCED_CONTIGUOUS": "contiguous() asks for memory",
    "FORCED_STORE": "a write needs its value",
    "MULTI_DEVICE": "shards are read by their memory",
    "STORE_READS_TARGET": "the write reads what it overwrites",
    "SINGLE_CONSUMER": "it has one reader",
    "CONSUMERS_AGREE": "all its readers loop alike",
    "CONSUMERS_DISAGREE": "its readers loop differently",
    "RANGE_ENDED": "inside a loop of its reader it would be computed again and again",
    "ONLY_REORDERS": "it is cheap to compute where it is read",
    "USER_FORCED": "a buffer was asked for",
    "CONSTANT": "it is a constant",
    "EMPTY": "it has no elements",
    "CLOSED_FORM": "the sum is plain arithmetic",
    "DEAD_AXIS": "nothing changes along this axis",
    "HELD": "somebody still reads the old value",
    "NOT_HELD": "nobody else reads the old value",
    "CACHE_HIT": "the same graph was scheduled before",
    "CACHE_MISS": "no such graph was scheduled before",
    "OVERRIDE": "an override says so",
    "SMALLER_ARENA": "this planner needs the smaller arena",
}


def _name(schedule: Schedule, part: Any) -> str:
    """A node, or an index expression, from evidence."""
    return called(schedule.nodes[part["node"]]) if isinstance(part, dict) and "node" in part else str(part)


def _names(schedule: Schedule, parts: Any) -> list[str]:
    return [_name(schedule, p) for p in parts or ()]


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "nobody"


def _indices(schedule: Schedule, index: Any) -> str:
    return ", ".join(i for i in _names(schedule, index) if i != "0") or "one place"


def _single(schedule: Schedule, facts: dict[str, Any]) -> str:
    return f"only {_listed(_names(schedule, facts.get('consumers')))} reads it, so it is computed where it is needed"


def _agree(schedule: Schedule, facts: dict[str, Any]) -> str:
    readers = _names(schedule, facts.get("consumers"))
    index = next(iter(facts.get("indices") or ()), ())
    return f"its {len(readers)} readers ({_listed(readers)}) all loop over {_indices(schedule, index)}"


def _disagree(schedule: Schedule, facts: dict[str, Any]) -> str:
    readers = _names(schedule, facts.get("consumers"))
    indices = [_indices(schedule, i) for i in facts.get("indices") or ()]
    told = _listed([f"{r} reads it at {i}" for r, i in zip(readers, indices)][:4])
    return f"its readers loop differently: {told}. One loop cannot serve them all"


def _ended(schedule: Schedule, facts: dict[str, Any]) -> str:
    by = _names(schedule, [facts["by"]] if facts.get("by") is not None else [])
    loops = _listed(_names(schedule, facts.get("ranges")))
    return (
        f"{_listed(by)} repeats it along {loops}, where its value is the same every time; stored, it is computed once"
    )


def _too_many(schedule: Schedule, facts: dict[str, Any]) -> str:
    count, limit = len(facts.get("buffers") or ()), facts.get("limit")
    return f"computing it where it is read would read {count} buffers, the limit is {limit}"


def _reduce_reads(schedule: Schedule, facts: dict[str, Any]) -> str:
    reduces = _listed(_names(schedule, facts.get("reduces")))
    return f"{reduces} inside reads memory, and would be repeated for every reader"


def _split(schedule: Schedule, facts: dict[str, Any]) -> str:
    ratio, threshold = facts.get("ratio"), facts.get("threshold")
    if not isinstance(ratio, int) or not isinstance(threshold, int):
        return ""
    text = f"{ratio:,} inputs for each output, against a threshold of {threshold:,}"
    return text + (
        f", in {facts['pieces']} pieces" if facts.get("pieces") else f"; {facts['why']}" if facts.get("why") else ""
    )


def _limit(schedule: Schedule, facts: dict[str, Any]) -> str:
    return f"its kernel would have {facts.get('buffers')} arguments, the limit is {facts.get('limit')}"


_BECAUSE: dict[str, Callable[[Schedule, dict[str, Any]], str]] = {
    "SINGLE_CONSUMER": _single,
    "CONSUMERS_AGREE": _agree,
    "CONSUMERS_DISAGREE": _disagree,
    "RANGE_ENDED": _ended,
    "COST_TOO_MANY_BUFFERS": _too_many,
    "COST_REDUCE_READS_BUFFER": _reduce_reads,
    "REDUCE_SPLIT": _split,
    "REDUCE_NOT_SPLIT": _split,
    "BUFFER_LIMIT": _limit,
}
