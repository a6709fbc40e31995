"""The arena as every planner would fill it: the same lifetimes, packed again by each.

In: a schedule. Out: per lane, for each planner its arena's size and the offset of each placement.

>>> from tinysched.trace.document import Lane, Memory, Placement
>>> places = (Placement(0, 0, 0, 1000, 0, 1), Placement(1, 0, 1024, 500, 1, 2), Placement(2, 0, 0, 300, 2, 3))
>>> s = Schedule("s", memory=Memory("greedy", (Lane("NUMPY", 1536, 1536, 2048),), places))
>>> [(p["name"], p["bytes"], p["offsets"]) for p in data(s)["lanes"][0]]
[('greedy', 1536, [0, 1024, 0]), ('tlsf', 1536, [0, 1024, 0]), ('none', 2048, [0, 1024, 1536])]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinysched.schedule.planners import Greedy, Lifetime, MemoryPlanner, NoPlan, Tlsf, arena_bytes
from tinysched.trace.document import Placement, Schedule

PLANNERS: tuple[MemoryPlanner, ...] = (Greedy(), Tlsf(), NoPlan())
MOST = 2_000
"""Placements that are packed again; of more, only the plan that runs is shown."""


def data(s: Schedule) -> dict[str, Any]:
    """Per lane a list of planners, the one that runs first where it is one of ours."""
    lanes = []
    for i in range(len(s.memory.lanes)):
        places = [p for p in s.memory.placements if p.lane == i]
        planners = sorted(PLANNERS, key=lambda p: p.name != s.memory.planner)
        lanes.append([_packed(p, places) for p in planners] if len(places) <= MOST else [])
    return {"lanes": lanes}


def _packed(planner: MemoryPlanner, places: Sequence[Placement]) -> dict[str, Any]:
    lifetimes = [Lifetime(p.first, p.last, p.bytes) for p in places]
    offsets = planner.place(lifetimes)
    return {"name": planner.name, "bytes": arena_bytes(lifetimes, offsets), "offsets": offsets}


def told(s: Schedule) -> str:
    """A line per lane and planner: how large its arena is, against the least possible."""
    rows = [
        f"{lane.device}{', copies' * lane.copy}: {p['name']} {p['bytes']:,} bytes, least possible {lane.lower_bound_bytes:,}"
        for lane, planners in zip(s.memory.lanes, data(s)["lanes"])
        for p in planners
    ]
    return "\n".join(rows)
