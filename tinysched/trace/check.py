"""Whether a document hangs together: every id names something, and nodes stand after their sources.

In: a decoded :class:`Trace`, maybe from a hostile file. Out: nothing, or :class:`TraceError` that names the place.

>>> from tinysched.trace.document import Node, Schedule
>>> from tinysched.trace.trace import Trace
>>> check(Trace("t", (Schedule("s", nodes=(Node("ADD", "float32", "add", "alu", src=(0,)),)),)))
Traceback (most recent call last):
...
tinysched.errors.TraceError: schedules[0].nodes[0].src: 0 is not before 0
"""

from __future__ import annotations

from collections.abc import Iterable

from tinysched.trace.codec import fail
from tinysched.trace.document import Decided, Ranges, Rewrite, Run, Schedule, Stage, Step
from tinysched.trace.trace import Trace


def check(trace: Trace) -> None:
    """Raises :class:`TraceError` where an id names nothing."""
    for i, schedule in enumerate(trace.schedules):
        _schedule(trace, schedule, f"schedules[{i}]")


def _below(ids: Iterable[int], count: int, path: str, what: str) -> None:
    for i in ids:
        if not 0 <= i < count:
            fail(path, f"there is no {what} {i}")


def _schedule(trace: Trace, s: Schedule, path: str) -> None:
    nodes, lines, buffers = len(s.nodes), len(trace.lines), len(s.buffers)
    for i, node in enumerate(s.nodes):
        for source in node.src:
            if not 0 <= source < i:
                fail(f"{path}.nodes[{i}].src", f"{source} is not before {i}")
        _below(node.lines, lines, f"{path}.nodes[{i}].lines", "line")
    for i, stage in enumerate(s.stages):
        _stage(trace, stage, nodes, f"{path}.stages[{i}]")
    for i, kernel in enumerate(s.kernels):
        where = f"{path}.kernels[{i}]"
        linked = (i for lines_ in (kernel.links or {}).values() for ids in lines_ for i in ids)
        _below((kernel.node, *kernel.nodes, *linked), nodes, where, "node")
        _below(kernel.buffers, buffers, where, "buffer")
        _below(kernel.writes, len(kernel.buffers), where, "argument")
        _below(kernel.lines, lines, where, "line")
    for buffer in s.buffers:
        _below(() if buffer.node is None else (buffer.node,), nodes, f"{path}.buffers", "node")
    _tables(s, path)


def _tables(s: Schedule, path: str) -> None:
    kernels, buffers = len(s.kernels), len(s.buffers)
    for edge in s.order:
        _below((edge.before, edge.after), kernels, f"{path}.order", "kernel")
        _below((edge.buffer,), buffers, f"{path}.order", "buffer")
    for place in s.memory.placements:
        _below((place.first, place.last), kernels, f"{path}.memory", "kernel")
        _below((place.buffer,), buffers, f"{path}.memory", "buffer")
        _below((place.lane,), len(s.memory.lanes), f"{path}.memory", "lane")
    if s.run is not None:
        check_run(s, s.run, f"{path}.run")


def check_run(s: Schedule, run: Run, path: str) -> None:
    """Raises :class:`TraceError` unless ``run`` is one of schedule ``s``."""
    if len(run.seconds) not in (0, len(s.kernels)):
        fail(path, f"{len(run.seconds)} times for {len(s.kernels)} kernels")
    for what, each in (("options", run.opts), ("tries", run.tries)):
        if len(each) not in (0, len(s.kernels)):
            fail(path, f"{what} of {len(each)} kernels, and there are {len(s.kernels)}")
    for key in run.values or {}:
        _below((int(key) if key.isdecimal() and len(key) < 12 else -1,), len(s.buffers), path, "buffer")


def _stage(trace: Trace, stage: Stage, nodes: int, path: str) -> None:
    _below((stage.root, stage.end, *stage.calls), nodes, path, "node")
    for i, step in enumerate(stage.steps):
        _step(step, len(trace.rules), nodes, f"{path}.steps[{i}]")
    last = 0
    for old, new, position in stage.replaced:
        _below((old, new), nodes, f"{path}.replaced", "node")
        if not last <= position <= len(stage.steps):
            fail(f"{path}.replaced", f"{position} is out of order")
        last = position


def _step(step: Step, rules: int, nodes: int, path: str) -> None:
    if isinstance(step, Rewrite):
        _below((step.rule,), rules, path, "rule")
        _below((step.before, step.after), nodes, path, "node")
    elif isinstance(step, Decided):
        _below(() if step.node is None else (step.node,), nodes, path, "node")
        _nodes_in(step.evidence, nodes, path)
    elif isinstance(step, Ranges):
        _below((step.node,), nodes, path, "node")
        _below((rule for rule, _, _ in step.index), rules, path, "rule")


def _nodes_in(evidence: object, nodes: int, path: str) -> None:
    if isinstance(evidence, dict):
        if evidence.keys() == {"node"}:
            number = evidence["node"]
            _below((number if isinstance(number, int) else -1,), nodes, path, "node")
            return
        evidence = tuple(evidence.values())
    if isinstance(evidence, tuple):
        for part in evidence:
            _nodes_in(part, nodes, path)
