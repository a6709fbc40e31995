"""Every view as text, for terminals, tests and screen readers.

In: a trace, a schedule or a stage. Out: tables in plain text.

>>> from tinysched.trace.trace import Trace
>>> print(summary(Trace("nothing")))
nothing: no kernel is needed
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinysched.explain import sentence
from tinysched.explain.decisions import Decisions
from tinysched.explain.speak import count, speaker
from tinysched.trace.document import Decided, Edge, Kernel, Lane, Placement, Rewrite, Schedule, Stage
from tinysched.trace.trace import Trace
from tinysched.views import ranges, reads, roofline
from tinysched.views.arenas import told
from tinysched.views.picture import buffer_name, draw

_BECAUSE = {
    "RAW": "kernel {after} waits for kernel {before}: it reads {buffer}, which kernel {before} writes (RAW)",
    "WAR": "kernel {after} waits for kernel {before}, which still reads {buffer} before it is overwritten (WAR)",
    "WAW": "kernel {after} waits for kernel {before}: both write {buffer} (WAW)",
}


def size(n: int) -> str:
    """Bytes as people read them."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= step:
            return f"{n / step:.1f} {unit}" if n < 10 * step else f"{n / step:.0f} {unit}"
    return f"{n} B"


def summary(trace: Trace) -> str:
    """Kernels, order and memory of each schedule."""
    if not trace.schedules:
        return f"{trace.title}: no kernel is needed"
    return "\n\n".join(_schedule(s) for s in trace.schedules)


def _schedule(s: Schedule) -> str:
    head = f"{s.title}: {len(s.kernels)} kernel{'s' * (len(s.kernels) != 1)}, {size(s.bytes_moved)} moved"
    parts = [head, kernels(s), devices(s), order(s), *(arena(s, i) for i in range(len(s.memory.lanes)))]
    return "\n\n".join(p for p in parts if p)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[" ".join(str(c).split()) for c in row] for row in rows]
    widths = [max(len(c) for c in column) for column in zip(head, *cells)]
    right = [all(row[i][:1].isdigit() for row in cells) and bool(cells) for i in range(len(head))]
    lines = [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)).rstrip()
        for row in [list(head), *cells]
    ]
    return "\n".join(lines)


def kernels(s: Schedule) -> str:
    """The kernel table."""
    rows = [_kernel(s, k, kernel) for k, kernel in enumerate(s.kernels)]
    head = ["#", "kernel", "reads", "writes", "bytes", "ops", "ops/byte", "time"]
    if s.run is not None and s.run.opts:  # there was a choice of programs
        head.append("ran with")
        rows = [[*row, " ".join(opts) or "-"] for row, opts in zip(rows, s.run.opts)]
    return table(head, rows) if rows else ""


def _kernel(s: Schedule, k: int, kernel: Kernel) -> list[object]:
    reads = [buffer_name(s, b) for i, b in enumerate(kernel.buffers) if i not in kernel.writes or i in kernel.updates]
    writes = [buffer_name(s, kernel.buffers[i]) for i in kernel.writes]
    seconds = s.run.seconds[k] if s.run is not None and k < len(s.run.seconds) else None
    time = "-" if seconds is None else f"{seconds * 1e6:,.0f} µs"
    moved = size(kernel.bytes_read + kernel.bytes_written)
    return [
        k,
        kernel.name,
        ", ".join(reads) or "-",
        ", ".join(writes),
        moved,
        f"{kernel.ops:,}",
        f"{kernel.intensity:.2f}",
        time,
    ]


def stored(trace: Trace, schedule: int = -1) -> str:
    """The intermediates, largest first: how large, which kernel writes them, why they are stored, whose line that was."""
    s = trace.schedules[schedule]
    writer = {kernel.buffers[w]: k for k, kernel in enumerate(s.kernels) for w in kernel.writes}
    held = [b for b, buffer in enumerate(s.buffers) if buffer.role == "intermediate" and b in writer]
    rows = [
        [buffer_name(s, b), size(s.buffers[b].bytes), f"kernel {writer[b]}", *_held(trace, s, s.buffers[b].node)]
        for b in sorted(held, key=lambda b: -s.buffers[b].bytes)
    ]
    head = ["buffer", "size", "from", "value", "because", "your line"]
    return table(head, rows) if rows else "nothing is stored between kernels"


def _held(trace: Trace, s: Schedule, node: int | None) -> tuple[str, str, str]:
    """What a buffer holds, the reason, and the line."""
    if node is None:
        return "-", "-", "-"
    say, chain = speaker(trace, s), Decisions(trace).why(node, schedule=trace.schedules.index(s)).chain
    lines = [f"line {line.number}: {_cut(line.code)}" for line in say.lines(node)]
    reasons = [told.reason for told in chain]
    behind = [reason for reason in reasons if reason != "FORCED_STORE"] or reasons  # what is behind a write says more
    return say.name(node), behind[-1] if behind else "-", lines[0] if lines else "-"


def _cut(code: str, most: int = 70) -> str:
    """A line of code, as far as it fits into a table."""
    code = " ".join(code.split())
    return code if len(code) <= most else f"{code[: most - 1]}…"


def devices(s: Schedule) -> str:
    """Where several devices work: a lane for each (copies apart), and the bytes between them. Else nothing."""
    lanes: dict[str, list[int]] = {}
    moved: dict[str, int] = {}
    for k, kernel in enumerate(s.kernels):
        lanes.setdefault(f"{kernel.device}{', copies' * (kernel.kind == 'copy')}", []).append(k)
        if kernel.kind == "copy":
            source = s.buffers[kernel.buffers[1]].device
            moved[f"{source} to {kernel.device}"] = moved.get(f"{source} to {kernel.device}", 0) + kernel.bytes_written
    if len(lanes) < 2:
        return ""
    rows = [[lane, " ".join(str(k) if k in ks else "." for k in range(len(s.kernels)))] for lane, ks in lanes.items()]
    between = [f"{way}: {size(n)}" for way, n in moved.items()]
    return "\n".join(
        [table(["lane", "kernels"], rows), *(["between devices: " + ", ".join(between)] if between else [])]
    )


def order(s: Schedule) -> str:
    """A sentence per reason to wait."""
    return "\n".join(_because(s, e) for e in s.order)


def _because(s: Schedule, e: Edge) -> str:
    text = _BECAUSE.get(e.kind, "kernel {after} waits for kernel {before}: {buffer}")
    return text.format(before=e.before, after=e.after, buffer=buffer_name(s, e.buffer))


def arena(s: Schedule, lane: int, height: int = 12) -> str:
    """An arena as ASCII: a column per kernel, a row per slice of memory, a letter per buffer (bottom row: byte 0)."""
    facts = s.memory.lanes[lane]
    places = [p for p in s.memory.placements if p.lane == lane]
    if not places:
        return ""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    mark = {p.buffer: letters[i % len(letters)] for i, p in enumerate(places)}
    step = max(-(-facts.arena_bytes // height), 1)
    rows = [_arena_row(s, places, mark, row * step, facts) for row in range(-(-facts.arena_bytes // step) - 1, -1, -1)]
    legend = [
        [mark[p.buffer], buffer_name(s, p.buffer), p.offset_bytes, size(p.bytes), f"{p.first}-{p.last}", p.reason]
        for p in places
    ]
    head = (
        f"arena of {facts.device}: {size(facts.arena_bytes)} ({s.memory.planner}), "
        f"lower bound {size(facts.lower_bound_bytes)}, without reuse {size(facts.unplanned_bytes)}"
    )
    return "\n".join([head, *rows, table(["", "buffer", "at byte", "size", "kernels", "why there"], legend)])


def arenas(s: Schedule) -> str:
    """Every arena, and how large other planners would make it."""
    drawn = "\n\n".join(arena(s, lane) for lane in range(len(s.memory.lanes)))
    return f"{drawn}\n{told(s)}" if drawn else ""


def _arena_row(s: Schedule, places: list[Placement], mark: dict[int, str], offset: int, lane: Lane) -> str:
    cells = ["."] * len(s.kernels)
    for p in places:
        if p.offset_bytes <= offset < p.offset_bytes + max(p.bytes, 1):
            cells[p.first : p.last + 1] = [mark[p.buffer]] * (p.last + 1 - p.first)
    return f"{offset:>{len(str(lane.arena_bytes))}} |{''.join(cells)}|"


def graph(s: Schedule, stage: Stage, step: int = 0) -> str:
    """The visible graph after some steps, a line per node, inputs first."""
    picture = draw(s, stage)
    shown, edges = picture.at(step)
    reads: dict[int, list[int]] = {}
    for e in sorted(edges):
        a, b = picture.edges[e]
        reads.setdefault(b, []).append(a)
    rank = {slot: (picture.layout.places[slot].y, slot) for slot in shown}
    rows = [
        [
            slot,
            c.title,
            c.sub or "-",
            s.nodes[c.node].dtype,
            " ".join(map(str, reads.get(slot, []))) or "-",
            _hull(picture.hulls[slot]),
        ]
        for slot, c in sorted(shown.items(), key=lambda item: rank[item[0]])
    ]
    return table(["#", "node", "shape or loops", "dtype", "reads", "kernel"], rows)


def walk(trace: Trace, s: Schedule) -> str:
    """The walk that gives each value its loops, readers first: a line per node."""
    rows = ranges.rows(trace, s)
    head = ["#", "node", "its readers want it", "its loops", "reads its source at", "how", "stored axes"]
    return table(head, rows) if rows else "no pass gave out loops"


def reading(s: Schedule, node: int, element: tuple[int, ...]) -> str:
    """Everything that one element of a node reads, down to memory: a line per value."""
    return table(["node", "shape", "read at", "elements"], reads.rows(s, node, element))


def decisions(trace: Trace, s: Schedule) -> str:
    """Every decision as a sentence, pass by pass."""
    parts = []
    for stage in s.stages:
        told = [sentence(trace, s, step) for step in stage.steps if isinstance(step, Decided)]
        parts += [f"{stage.name}: {count(len(told), 'decision')}", *(f"  {text}" for text in told)] if told else []
    return "\n".join(parts)


def traffic(s: Schedule) -> str:
    """Bytes and operations of each kernel against the machine's limits, and fused against one kernel per operation."""
    head = ["#", "kernel", "bytes", "ops", "ops/byte", "time", "at best", "of that"]
    return "\n".join([*roofline.told(s), *([table(head, roofline.rows(s))] if s.kernels else [])])


def timeline(s: Schedule) -> str:
    """A run in order: when each kernel starts and ends, and on which device. Kernels run one after another."""
    if s.run is None or not s.run.seconds:
        return "it did not run: no times"
    rows, now = [], 0.0
    for k, (kernel, seconds) in enumerate(zip(s.kernels, s.run.seconds)):
        lane = kernel.device + (", copies" if kernel.kind == "copy" else "")
        rows.append([k, kernel.name, lane, f"{now * 1e6:,.0f}", f"{(now + seconds) * 1e6:,.0f}"])
        now += seconds
    return table(["#", "kernel", "device", "from µs", "to µs"], rows)


def rewrites(trace: Trace, s: Schedule) -> str:
    """Every rewrite: its rule in one line, where that is written, and the node before and after."""
    say = speaker(trace, s)
    rows = [
        [
            stage.name,
            i + 1,
            trace.rules[step.rule].name,
            say.name(step.before),
            say.name(step.after),
            trace.rules[step.rule].doc,
        ]
        for stage in s.stages
        for i, step in enumerate(stage.steps)
        if isinstance(step, Rewrite)
    ]
    return table(["pass", "step", "rule", "before", "after", "the rule"], rows) if rows else "no rule was applied"


def indices(s: Schedule) -> str:
    """What the first element of the (last) value asked for reads."""
    found = reads.reads(s)
    asked = [i for i in found.edges if s.nodes[i].kind != "movement"]
    if not asked or 0 in found.shapes[asked[-1]]:
        return "no value is computed from another"
    return reading(s, asked[-1], (0,) * len(found.shapes[asked[-1]]))


def turned(s: Schedule) -> str:
    """The decisions that were turned to make this schedule."""
    words = {"fuse": "fused", "realize": "stored"}
    rows = [f"{_override(s, key)} is {words[what]}" for key, what in (s.choices.overrides or {}).items()]
    return "\n".join([*rows, *s.choices.notes]) or "no decision was turned"


def _override(s: Schedule, key: str) -> str:
    return s.nodes[int(key)].name or s.nodes[int(key)].label if key.isdecimal() and int(key) < len(s.nodes) else key


def values(s: Schedule) -> str:
    """What a run kept: a line of statistics per buffer."""
    kept = (s.run.values or {}) if s.run is not None else {}
    rows = [
        [buffer_name(s, int(b)), "×".join(map(str, v.shape)) or "one value", v.min, v.max, v.mean, v.nan, v.inf]
        for b, v in kept.items()
    ]
    return table(["buffer", "shape", "least", "greatest", "mean", "NaN", "inf"], rows) if rows else ""


def _hull(kernels: tuple[int, ...]) -> str:
    return ",".join(map(str, kernels)) or "-"
