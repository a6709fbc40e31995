"""The memory plan and the order of kernels, from what the engine told about them.

In: a recording's events and the numbers of the buffers. Out: :class:`Memory` and :class:`Edge` values.
"""

from __future__ import annotations

from typing import Any

from tinysched.ir.uop import UOp
from tinysched.trace.document import Edge, Lane, Memory, Placement
from tinysched.trace.recorder import Recording


def order(recording: Recording, number: dict[UOp, int]) -> tuple[Edge, ...]:
    """The reasons for the order, each once."""
    told = (edge for name, data in recording.events if name == "order" for edge in data["edges"])
    edges = {Edge(e.before, e.after, e.kind, number[e.buffer]) for e in told if e.buffer in number}
    return tuple(sorted(edges, key=lambda e: (e.after, e.before, e.kind, e.buffer)))


def memory(recording: Recording, number: dict[UOp, int]) -> Memory:
    """The memory plan as documented; empty where nothing was planned."""
    plan: Any = next((data["plan"] for name, data in recording.events if name == "placement"), None)
    if plan is None:
        return Memory()
    lanes = tuple(
        Lane(
            str(lane.device),
            lane.arena_bytes,
            lane.lower_bound_bytes,
            lane.unplanned_bytes,
            bool(lane.copy),
            dict(lane.planners),
        )
        for lane in plan.lanes
    )
    placements = tuple(
        Placement(number[p.buffer], p.lane, p.offset_bytes, p.nbytes, p.first, p.last, str(p.reason))
        for p in plan.placements
        if p.buffer in number
    )
    return Memory(plan.lanes[0].planner if plan.lanes else "", lanes, placements)
