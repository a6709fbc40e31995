"""A trace in figures, for builds: how many kernels, how much traffic, and what changed since a baseline, and why.

In: a trace (and an older one, and limits). Out: :class:`Report`, as text, JSON or Markdown; ``problems`` fail a build.

>>> from tinysched import Tensor, capture
>>> y = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize() * 2
>>> old = capture(y.sum(), inputs={"y": y}, title="demo")
>>> found = report(old.with_overrides({"y": "realize"}), baseline=old, max_kernels=1)
>>> for problem in found.problems:
...     print(problem)
2 kernels, the limit is 1
demo: 1 kernel more than the baseline (2 instead of 1)
>>> print(found.changes[0])
`y` is stored now: `y` stays in memory (2 × 2, 16 B): an override says so (OVERRIDE).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tinysched.explain.decisions import Decisions
from tinysched.explain.sentences import decided
from tinysched.explain.speak import count, line_text, listed, size, speaker
from tinysched.ir.lines import place
from tinysched.trace.document import Decided, Kernel, Schedule
from tinysched.trace.trace import Trace

_STORED = frozenset({"realized", "partially realized", "kept"})


@dataclass(frozen=True)
class Report:
    """What a build wants to know of a trace."""

    trace: Trace
    problems: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def totals(self) -> dict[str, int]:
        """Kernels, copies, bytes, operations and arena of all schedules together."""
        kernels = [k for s in self.trace.schedules for k in s.kernels]
        return {
            "schedules": len(self.trace.schedules),
            "kernels": sum(k.kind == "kernel" for k in kernels),
            "copies": sum(k.kind == "copy" for k in kernels),
            "bytes": sum(k.bytes_read + k.bytes_written for k in kernels),
            "operations": sum(k.ops for k in kernels),
            "arena_bytes": sum(lane.arena_bytes for s in self.trace.schedules for lane in s.memory.lanes),
        }

    def to_json(self) -> str:
        """The figures, and one object per kernel."""
        data: dict[str, Any] = {"title": self.trace.title, "totals": self.totals}
        data["schedules"] = [
            {
                "title": s.title,
                "kernels": [_plain(self.trace, s, i) for i in range(len(s.kernels))],
                "stored": _stored(self.trace, s),
            }
            for s in self.trace.schedules
        ]
        data |= {"problems": self.problems, "changes": self.changes}
        return json.dumps(data, indent=1, ensure_ascii=False)

    def to_markdown(self) -> str:
        """A heading, a table per schedule, why each value is stored, and what is wrong."""
        t = self.totals
        text = [f"# {_cell(self.trace.title)}", "", f"{_headline(t)}", ""]
        text += [f"- **{_cell(p)}**" for p in self.problems] + [f"- {_cell(c)}" for c in self.changes]
        for s in self.trace.schedules:
            text += ["", f"## {_cell(s.title)}", "", "| # | kernel | reads | writes | bytes | operations | lines |"]
            text += ["| --: | --- | --- | --- | --: | --: | --- |"]
            text += [f"| {' | '.join(_cell(str(c)) for c in _row(self.trace, s, i))} |" for i in range(len(s.kernels))]
            text += ["", *(f"- {_cell(said)}" for said in _stored(self.trace, s))]
        return "\n".join(text).rstrip() + "\n"

    def to_text(self) -> str:
        """The same for a terminal."""
        text = [f"{self.trace.title}: {_headline(self.totals)}"]
        text += [f"PROBLEM: {p}" for p in self.problems] + [f"changed: {c}" for c in self.changes]
        for s in self.trace.schedules:
            text += ["", s.title] if len(self.trace.schedules) > 1 else [""]
            rows = [[str(c) for c in _row(self.trace, s, i)] for i in range(len(s.kernels))]
            text += _table(["#", "kernel", "reads", "writes", "bytes", "operations", "lines"], rows)
            text += ["", *_stored(self.trace, s)]
        return "\n".join(text)


def report(
    trace: Trace, *, baseline: Trace | None = None, max_kernels: int | None = None, max_bytes: int | None = None
) -> Report:
    """The report of a trace, with what is over a limit or worse than the baseline."""
    plain = Report(trace)
    t, problems = plain.totals, []
    if max_kernels is not None and t["kernels"] > max_kernels:
        problems.append(f"{count(t['kernels'], 'kernel')}, the limit is {max_kernels:,}")
    if max_bytes is not None and t["bytes"] > max_bytes:
        problems.append(f"{t['bytes']:,} bytes moved, the limit is {max_bytes:,}")
    changes: list[str] = []
    if baseline is not None:
        problems += _worse(baseline, trace)
        changes = _changes(baseline, trace)
    return Report(trace, tuple(problems), tuple(changes))


# ** against a baseline **


def _worse(old: Trace, new: Trace) -> list[str]:
    """More kernels, more traffic or work done again, schedule by schedule."""
    found = []
    for i, s in enumerate(new.schedules):
        if i >= len(old.schedules):
            found.append(f"{s.title}: {count(len(s.kernels), 'kernel')} in a schedule that the baseline does not have")
            continue
        before = old.schedules[i]
        if (more := len(s.kernels) - len(before.kernels)) > 0:
            found.append(
                f"{s.title}: {count(more, 'kernel')} more than the baseline ({len(s.kernels)} instead of {len(before.kernels)})"
            )
        elif s.bytes_moved > before.bytes_moved:
            found.append(f"{s.title}: {s.bytes_moved:,} bytes moved instead of {before.bytes_moved:,}")
        elif _repeats(before, s):
            found.append(f"{s.title}: {_operations(s):,} operations instead of {_operations(before):,}")
    return found


def _repeats(old: Schedule, new: Schedule) -> bool:
    """Whether a schedule computes again what another computed once: saving no traffic, or with more than twice the work."""
    was, now = _operations(old), _operations(new)
    return now > was and (new.bytes_moved == old.bytes_moved or now > 2 * was)


def _operations(s: Schedule) -> int:
    return sum(kernel.ops for kernel in s.kernels)


def _changes(old: Trace, new: Trace) -> list[str]:
    """The values that are stored now and were not, and the other way round, with their reasons."""
    found = []
    for before, s in zip(old.schedules, new.schedules):
        was, now = _verdicts(old, before), _verdicts(new, s)
        found += [f"{name} is stored now: {now[name]}" for name in now if name not in was]
        found += [f"{name} is no longer stored; it was: {was[name]}" for name in was if name not in now]
    return found


def _verdicts(trace: Trace, s: Schedule) -> dict[str, str]:
    """For each stored value, by what it is called and the line that made it, the sentence that says why."""
    say, found = speaker(trace, s), {}
    for buffer in s.buffers:
        if buffer.node is None or buffer.role == "input" or s.nodes[buffer.node].kind == "memory":
            continue
        lines = [line.code for line in say.lines(buffer.node)][:1]
        named = s.nodes[buffer.node].name is not None
        name = say.name(buffer.node) + (f" ({lines[0]})" if lines and not named else "")
        found[name] = _why(trace, s, buffer.node)
    return found


def _why(trace: Trace, s: Schedule, node: int) -> str:
    """The verdict on a stored value."""
    say = speaker(trace, s)
    steps = [d for _, _, d in say.follow.steps(node) if isinstance(d, Decided) and d.verdict in _STORED]
    steps = [d for d in steps if d.reason != "FORCED_STORE"] or steps  # what is behind the write says more
    return decided(say, steps[-1]) if steps else Decisions(trace).why(node, schedule=trace.schedules.index(s)).verdict


def _stored(trace: Trace, s: Schedule) -> list[str]:
    """A sentence for every value that is stored, in kernel order."""
    return list(_verdicts(trace, s).values())


# ** rows **


def _headline(t: dict[str, int]) -> str:
    copies = f", {count(t['copies'], 'copy').replace('copys', 'copies')}" if t["copies"] else ""
    return (
        f"{count(t['kernels'], 'kernel')}{copies}, {size(t['bytes'])} moved, {count(t['operations'], 'operation')}, "
        f"arena {size(t['arena_bytes'])}"
    )


def _names(s: Schedule, k: Kernel) -> tuple[list[str], list[str]]:
    called = [s.buffers[b].name or f"b{b}" for b in k.buffers]
    return [c for i, c in enumerate(called) if i not in k.writes or i in k.updates], [called[i] for i in k.writes]


def _row(trace: Trace, s: Schedule, i: int) -> list[object]:
    k = s.kernels[i]
    reads, writes = _names(s, k)
    lines = list(dict.fromkeys(place(line.file, line.number) for line in (trace.lines[n] for n in k.lines)))
    moved = size(k.bytes_read + k.bytes_written)
    return [
        i,
        k.name,
        listed(reads, 6) if reads else "-",
        listed(writes),
        moved,
        f"{k.ops:,}",
        listed(lines, 3) if lines else "-",
    ]


def _plain(trace: Trace, s: Schedule, i: int) -> dict[str, Any]:
    k = s.kernels[i]
    reads, writes = _names(s, k)
    lines = [line_text(trace.lines[n]) for n in k.lines]
    figures = {"bytes_read": k.bytes_read, "bytes_written": k.bytes_written, "operations": k.ops}
    return {"name": k.name, "kind": k.kind, "reads": reads, "writes": writes, **figures, "lines": lines}


def _cell(text: str) -> str:
    """Text that Markdown shows as it is."""
    for char in "\\|<>*_[]":
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in [head, *rows]]
