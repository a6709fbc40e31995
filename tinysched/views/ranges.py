"""The walk of rangeify, node by node, readers first: what each reader wants, what was decided, at which index a source is read.

In: a trace and a schedule. Out: :class:`Visit` values, in the order of the walk. They are read off the steps that the pass
told: its decisions about a node, then the loops that the node got.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
>>> trace = capture(x.T.sum(0), inputs={"x": x})
>>> for v in visits(trace.schedules[0]):
...     print(trace.schedules[0].nodes[v.node].op, v.out, v.in_, v.rule)
STORE ('r0',) ('r0',) a write: the value is read at the element that is written
REDUCE ('r0',) ('R1', 'r0') a reduction: new loops R for the axes that are reduced, before those of its reader
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinysched.explain.speak import speaker
from tinysched.trace.document import Decided, Node, Ranges, Schedule, Stage
from tinysched.trace.rebuild import below
from tinysched.trace.trace import Trace

RULES = {
    "RESHAPE": "reshape: the indices are flattened to one and split into the other shape",
    "PERMUTE": "permute: the indices change places",
    "EXPAND": "expand: the indices of the added axes are dropped",
    "PAD": "pad: the width before is subtracted; outside of the source the condition fails",
    "SHRINK": "shrink: the start is added",
    "FLIP": "flip: counted from the other end",
    "REDUCE": "a reduction: new loops R for the axes that are reduced, before those of its reader",
    "STACK": "stack: the leading index chooses the source",
    "STORE": "a write: the value is read at the element that is written",
}
"""What each op does to the indices on their way from a value to its sources, in words."""
ELEMENTWISE = "elementwise: each source at the same indices, at 0 on axes that repeat"
PASSED_ON = "passed on: the source at the same indices"


@dataclass(frozen=True, slots=True)
class Visit:
    """The walk at one node. ``wanted``: (reader, its indices); ``decided``: steps about it; ``step``: that of its loops."""

    step: int
    node: int
    wanted: tuple[tuple[int, tuple[str, ...]], ...]
    decided: tuple[int, ...]
    out: tuple[str, ...]
    in_: tuple[str, ...]
    stored: tuple[int, ...] | None
    rule: str


def rule_of(n: Node) -> str:
    """What happens to the indices at a node."""
    return RULES.get(n.op, ELEMENTWISE if n.kind == "alu" else PASSED_ON)


def visits(s: Schedule) -> tuple[Visit, ...]:
    """The walk of a schedule; nothing where it had none."""
    return tuple(v for stage in s.stages if stage.name == "rangeify" for v in _visits(s, stage))


def _visits(s: Schedule, stage: Stage) -> Iterator[Visit]:
    readers = _readers(s, stage)
    ins: dict[int, tuple[str, ...]] = {}
    told: dict[int | None, list[int]] = {}
    for i, step in enumerate(stage.steps):
        if isinstance(step, Decided):
            told.setdefault(step.node, []).append(i)
        if not isinstance(step, Ranges):
            continue
        n = s.nodes[step.node]
        wanted = tuple((r, _at(s, r, n, ins[r])) for r in readers.get(step.node, ()) if r in ins)
        about = tuple(told.pop(step.node, ()))
        yield Visit(i, step.node, wanted, about, step.out, step.in_, step.realized, rule_of(n))
        ins[step.node] = step.in_


def _readers(s: Schedule, stage: Stage) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i in below(s.nodes, (stage.root,)):
        for source in dict.fromkeys(s.nodes[i].src):
            found.setdefault(source, []).append(i)
    return found


def _at(s: Schedule, reader: int, n: Node, index: tuple[str, ...]) -> tuple[str, ...]:
    """A reader's index for one source: its own last axes, 0 where the source repeats."""
    r = s.nodes[reader]
    if r.op == "STACK" or r.kind != "alu" or n.shape is None or r.shape is None or n.shape == r.shape:
        return index
    extra = len(index) - len(n.shape)
    sizes = zip(n.shape, index[extra:], r.shape[extra:])
    return tuple("0" if size == 1 and wide != 1 else i for size, i, wide in sizes)


def rows(trace: Trace, s: Schedule) -> list[list[str]]:
    """A table row per node: what readers want, its loops, at which index it reads, how, and what is stored."""
    say, found = speaker(trace, s), []
    for k, v in enumerate(visits(s)):
        wanted = "; ".join(f"{say.name(r)} at {_tuple(index)}" for r, index in v.wanted) or "nobody: it is a root"
        stored = "-" if v.stored is None else "all" if len(v.stored) == len(v.out) else ", ".join(map(str, v.stored))
        found.append([str(k), say.name(v.node), wanted, _tuple(v.out), _tuple(v.in_), v.rule.partition(":")[0], stored])
    return found


def _tuple(index: tuple[str, ...]) -> str:
    return "[" + ", ".join(index) + "]"


def data(s: Schedule) -> list[list[object]]:
    """What the viewer is given: ``[step, [[reader, index], …], [steps that decided]]`` per node of the walk."""
    return [[v.step, v.wanted, v.decided, v.rule] for v in visits(s)]
