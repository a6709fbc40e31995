"""What would change a decision: the change, made, and the schedule that it gives.

In: a decision of a trace. Out: a :class:`Flip` that was found by really scheduling again with an override, a setting, a
policy or a small edit of the program, or the words that say what forces the decision. Each trace remembers its flips.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
>>> trace = capture((x * 2).sum())
>>> at = [a for a in decisions_of(trace.schedules[0]) if a[2].reason == "SINGLE_CONSUMER"][-1]
>>> words(flip(trace, 0, at))
'Stored instead (an override): 1 kernel more, 32 B more moved, an arena 256 B larger.'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tinysched.errors import TinyschedError
from tinysched.explain.speak import MOVES, count, size, speaker
from tinysched.ir.uop import UOp
from tinysched.schedule.planners import Greedy, Tlsf
from tinysched.schedule.policy import DEFAULT, Policies, Upstream
from tinysched.trace.document import Decided, Flip, Schedule
from tinysched.trace.follow import At, Follow
from tinysched.trace.rebuild import STARTS, Rebuilt, below
from tinysched.trace.trace import Trace
from tinysched.trace.whatif import Changes, again, policies_of

STORED = frozenset({"realized", "partially realized", "kept"})
FUSED = frozenset({"fused", "removed", "no buffer"})

WHOLE = frozenset({"REDUCE_NOT_SPLIT", "DEAD_AXIS", "CLOSED_FORM", "EMPTY"})
"""Reasons that are not about memory, whatever the verdict."""

FORCED = {
    "FORCED_OUTPUT": "realizing a value puts it in memory; what is not asked for is computed where it is read",
    "FORCED_STORE": "a write is what a kernel is for",
    "MULTI_DEVICE": "devices share nothing but memory",
    "STORE_READS_TARGET": "the write would destroy what is still to be read; written to other memory, it fuses",
    "CONSTANT": "there is nothing to store: a constant is part of the program",
    "DEAD_AXIS": "the value is the same along that axis, whatever is decided",
    "CLOSED_FORM": "the sum is the same without a loop, whatever is decided",
    "BUFFER_VIEW": "the value is in memory already; only a copy (clone) would be a kernel",
    "HELD": "the old value must stay as long as somebody reads it; once nobody does, the write happens in place",
    "NOT_HELD": "as long as nobody reads the old value; somebody who held it would make the write go to fresh memory",
    "SUPERSEDED": "as long as nobody else reads what was written first",
    "TWO_STATES": "one of the two states needs memory of its own; read the old one first, and the write is in place",
    "EMPTY": "there is nothing to compute",
    "CACHE_HIT": "after clear_caches(), or with SCACHE=0, it is scheduled again, with the same result",
    "CACHE_MISS": "the next time the same graph comes, its schedule is found in the cache",
    "ONE_BUFFER_PER_DEVICE": "a value on several devices lies in a buffer on each; on one device it is one buffer",
    "OWN_PART": "the layout of its inputs decides; on one device there are no parts",
    "RESHARDED": "the layouts differ; cut along the same axis from the start, nothing has to move",
    "REPLICATED": "each device computes with all of it; cut along an axis, each would need its part only",
    "GATHERED": "it was asked for on one device; left where it is, nothing has to move",
    "CROSSES_DEVICES": "a kernel runs on one device; with .to() on the operands, it is computed where it is read",
    "ONLY_MOVES_BYTES": "a kernel that computed something too would be no copy",
    "INLINED": "the function was not marked precompile=True",
    "PRECOMPILED": "the function was marked precompile=True; without that it is part of the graph around it",
    "FUNCTION_ARGUMENT": "a precompiled function reads memory; without precompile=True its argument may fuse",
}
"""What forces a decision that scheduling again cannot turn."""


@dataclass(frozen=True)
class Turn:
    """A change that should turn a decision, and how a sentence calls it."""

    what: str
    changes: Changes


def decisions_of(s: Schedule) -> Iterator[tuple[int, int, Decided]]:
    """Every decision of a schedule with its place."""
    for k, stage in enumerate(s.stages):
        for n, step in enumerate(stage.steps):
            if isinstance(step, Decided):
                yield k, n, step


# ** the change for each reason **


Turning = Callable[[Trace, Schedule, Decided, int | None], list[Turn]]


def _override(what: str) -> Turning:
    def turns(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
        return [] if value is None else [Turn("an override", Changes(overrides={value: what}))]

    return turns


def _either(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    """What is stored is fused, what is fused is stored."""
    return _override("fuse" if d.verdict in STORED else "realize")(trace, s, d, value)


def _buffers(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    n = len(d.evidence["buffers"])
    fusion = replace(policies_of(trace, s), fusion=Upstream(n))
    return [Turn(f"with a limit of {n}", Changes(policies=fusion)), *_override("fuse")(trace, s, d, value)]


def _setting(**values: int) -> Turn:
    return Turn(" and ".join(f"{k}={v}" for k, v in values.items()), Changes(settings=values))


def _splits(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    return [_setting(REDUCEOP_SPLIT_THRESHOLD=max(d.evidence["ratio"], 1), SPLIT_REDUCEOP=1)]


def _stays_whole(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    return [_setting(REDUCEOP_SPLIT_THRESHOLD=d.evidence["ratio"] + 1)]


def _more_buffers(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    n = d.evidence["buffers"]
    return [_setting(MAX_KERNEL_BUFFERS=m) for m in (n, 2 * n, 64 * n)]


def _without_contiguous(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    follow = speaker(trace, s).follow
    splits = [x for _, _, x in (follow.steps(value) if value is not None else []) if isinstance(x, Decided)]
    if split := [x for x in splits if x.reason == "REDUCE_SPLIT"]:
        return _stays_whole(trace, s, split[0], value)

    body = below(s.nodes, (s.stages[STARTS - 1].end,))
    hints = [i for i in body if s.nodes[i].op == "CONTIGUOUS"]
    mine = [i for i in hints if value in (follow.shows(i), follow.shows(follow.value_of(i)))]

    def edit(start: Rebuilt) -> dict[UOp, UOp]:
        return {u: u.src[0] for u in map(start.node, mine)}

    return [Turn("without contiguous()", Changes(edit=edit))] if mine else []


def _upstream(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    return [Turn("with the default policies", Changes(policies=DEFAULT))]


def _no_override(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    return [Turn("without the override", Changes(forget=True))]


def _other_planner(trace: Trace, s: Schedule, d: Decided, value: int | None) -> list[Turn]:
    other = Greedy() if d.evidence.get("planner") == Tlsf().name else Tlsf()
    policies: Policies = replace(policies_of(trace, s), memory=other)
    return [Turn(f"with planner {other.name}", Changes(policies=policies))]


def _ways(**values: int) -> Turning:
    return lambda trace, s, d, value: [_setting(**values)]


TURNS: dict[str, Turning] = {
    "SINGLE_CONSUMER": _override("realize"),
    "CONSUMERS_AGREE": _override("realize"),
    "BEFORE_LOOPS": _override("realize"),
    "ONLY_REORDERS": _override("realize"),
    "CONSUMERS_DISAGREE": _override("fuse"),
    "RANGE_ENDED": _override("fuse"),
    "COST_TOO_MANY_BUFFERS": _buffers,
    "COST_REDUCE_READS_BUFFER": _override("fuse"),
    "FORCED_CONTIGUOUS": _without_contiguous,
    "USER_FORCED": _without_contiguous,
    "BUFFER_LIMIT": _more_buffers,
    "REDUCE_SPLIT": _stays_whole,
    "REDUCE_NOT_SPLIT": _splits,
    "OVERRIDE": _no_override,
    "POLICY": _upstream,
    "SMALLER_ARENA": _other_planner,
    "ALLREDUCE_NAIVE": _ways(RING=2),
    "ALLREDUCE_RING": _ways(RING=0),
    "ALLREDUCE_ALL2ALL": _ways(ALL2ALL=0),
}


# ** trying **


def flip(trace: Trace, which: int, at: At) -> Flip:
    """The decision turned, by really scheduling again. ``refused`` says why that cannot be."""
    s = trace.schedules[which]
    k, n, d = at
    assert isinstance(d, Decided)
    if known := next((f for f in s.flips if (f.stage, f.step) == (k, n)), None):
        return known
    memo = trace.flipped
    if (which, k, n) not in memo:
        memo[which, k, n] = _tried(trace, which, at)
    return memo[which, k, n]


def _tried(trace: Trace, which: int, at: At) -> Flip:
    s = trace.schedules[which]
    k, n, d = at
    assert isinstance(d, Decided)
    if d.reason in FORCED:
        return Flip(k, n, "", refused=FORCED[d.reason])
    value = speaker(trace, s).follow.shows(d.node) if d.node is not None else None
    if d.node is not None and s.nodes[d.node].op in MOVES and d.reason in ("SINGLE_CONSUMER", "CONSUMERS_AGREE"):
        return Flip(k, n, "", refused="a movement op is index arithmetic: there is no value of its own to store")
    if _is_written(s, d):
        return Flip(k, n, "", refused="its one reader is the write that stores it")
    if value is not None and (later := _last_word(speaker(trace, s).follow, at, value)):
        return Flip(k, n, "", refused=f"a later step has the last word ({later})")
    why = "a pass put this buffer there for its own needs, and nothing outside of it decides that"
    tried = None
    for turn in TURNS[d.reason](trace, s, d, value) if d.reason in TURNS else []:
        try:
            new = again(trace, turn.changes, which).trace.schedules[which]
        except TinyschedError as error:
            why = error.what
            continue
        tried = _compared(s, new, k, n, turn.what, _turned(s, new, k, d, value))
        if tried.turned:
            return tried
    return tried or Flip(k, n, "", refused=why)


def _is_written(s: Schedule, d: Decided) -> bool:
    readers = d.evidence.get("consumers", ()) if d.reason == "SINGLE_CONSUMER" and isinstance(d.evidence, dict) else ()
    return any(s.nodes[r["node"]].op == "STORE" for r in readers)


def _last_word(follow: Follow, at: At, value: int) -> str:
    """The reason of a later decision that took this one back, '' if none did."""
    told = [a for a in follow.steps(value) if isinstance(a[2], Decided) and a[2].reason not in WHOLE]
    here, last = at[2], told[-1][2] if told else at[2]
    assert isinstance(here, Decided) and isinstance(last, Decided)
    taken_back = {here.verdict in STORED, last.verdict in STORED} == {True, False} and last.verdict in STORED | FUSED
    return last.reason if taken_back and here.verdict in STORED | FUSED and here.reason not in WHOLE else ""


def _turned(old: Schedule, new: Schedule, k: int, d: Decided, value: int | None) -> bool:
    """Whether the same value got another verdict."""
    stage = old.stages[k].name
    if value is None or stage == "memory":
        return _said(new, stage, d) != d.evidence or len(new.kernels) != len(old.kernels)
    before, after = Follow(old), Follow(new)
    if d.verdict in STORED | FUSED and d.reason not in WHOLE:
        stored = (stored_at_last(before, value), stored_at_last(after, value))
        return stored[0] != stored[1] or (d.verdict in STORED) != stored[1]
    told = _reasons(before, value, stage)
    return told != _reasons(after, value, stage)


def _reasons(follow: Follow, i: int, stage: str) -> set[tuple[str, str]]:
    """What a stage said about a value."""
    told = ((k, x) for k, _, x in follow.steps(i) if isinstance(x, Decided))
    return {(x.verdict, x.reason) for k, x in told if follow.schedule.stages[k].name == stage}


def _said(s: Schedule, stage: str, d: Decided) -> Any:
    """The evidence for the same kind of decision in another schedule."""
    return next(
        (x.evidence for k, _, x in decisions_of(s) if s.stages[k].name == stage and x.verdict == d.verdict), None
    )


def stored_at_last(follow: Follow, i: int) -> bool:
    """Whether the last verdict about a value is that it lies in memory."""
    verdicts = [x.verdict for _, _, x in follow.steps(i) if isinstance(x, Decided) and x.reason not in WHOLE]
    last = next((v for v in reversed(verdicts) if v in STORED or v in FUSED), "")
    return last in STORED


def _compared(old: Schedule, new: Schedule, k: int, n: int, what: str, turned: bool) -> Flip:
    return Flip(
        stage=k,
        step=n,
        change=what,
        turned=turned,
        kernels=len(new.kernels) - len(old.kernels),
        bytes=new.bytes_moved - old.bytes_moved,
        ops=sum(kernel.ops for kernel in new.kernels) - sum(kernel.ops for kernel in old.kernels),
        arena_bytes=sum(lane.arena_bytes for lane in new.memory.lanes)
        - sum(lane.arena_bytes for lane in old.memory.lanes),
    )


def boundaries(trace: Trace) -> Trace:
    """The trace with a flip for each value that got a buffer (or was fused back), one per distinct kernel."""
    schedules = list(trace.schedules)
    for which, s in enumerate(schedules):
        seen: set[tuple[str, str]] = set()
        found: list[Flip] = []
        say = speaker(trace, s)
        for at in decisions_of(s):
            d = at[2]
            if d.node is None or d.reason in FORCED or d.verdict not in STORED | {"removed", "limited", "split"}:
                continue
            value = say.follow.shows(d.node)
            inside = [kernel.key for kernel in s.kernels if value in kernel.nodes]
            kind = (d.reason, inside[0] if inside else str(value))
            if kind in seen or (value is not None and _last_word(say.follow, at, value)):
                continue
            seen.add(kind)
            found.append(flip(trace, which, at))
        schedules[which] = replace(s, flips=tuple(found))
    return trace.changed(schedules=tuple(schedules))


# ** words **


NOT_TRIED = "What would change it was not tried (flips=True tries it)."


def words(f: Flip | None, d: Decided | None = None) -> str:
    """What a flip gave, as a sentence."""
    if f is None:
        return NOT_TRIED
    if f.refused:
        return f"That is forced: {f.refused}."
    if not f.turned:
        return f"Scheduled again {_how(f)}, the verdict stays."
    verb = {True: "Stored instead", False: "Would fuse", None: "Would be otherwise"}[_kind(f, d)]
    return f"{verb} {_how(f)}: {', '.join(_differences(f)) or 'nothing else changes'}."


def _how(f: Flip) -> str:
    return f.change if f.change.startswith("with") else f"({f.change})" if " " in f.change else f"with {f.change}"


def _kind(f: Flip, d: Decided | None) -> bool | None:
    """Whether the value would be stored, fused, or something else."""
    if d is None:
        return True if f.kernels > 0 else False if f.kernels < 0 else None
    if d.verdict in ("fused", "removed") and d.reason not in WHOLE:
        return True
    return False if d.verdict in STORED else None


def _differences(f: Flip) -> list[str]:
    found = [count(abs(f.kernels), "kernel") + _more(f.kernels, "fewer")] if f.kernels else []
    found += [f"{size(abs(f.bytes))}{_more(f.bytes)} moved"] if f.bytes else []
    found += [count(abs(f.ops), "operation") + _more(f.ops, "fewer")] if f.ops else []
    found += (
        [f"an arena {size(abs(f.arena_bytes))} {'larger' if f.arena_bytes > 0 else 'smaller'}"] if f.arena_bytes else []
    )
    return found


def _more(n: int, less: str = "less") -> str:
    return " more" if n > 0 else f" {less}"
