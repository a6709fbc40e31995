"""What a trace knows of the process that made it, and what no file holds: which Tensors its nodes were.

In: the nodes of each schedule while they are still there. Out: ids for Tensors and UOps. Only weak references: a trace
keeps no memory alive. A loaded trace has none of this.

>>> from tinysched import Tensor, capture
>>> y = Tensor([1.0, 2.0]).realize() * 3
>>> trace = capture(y)
>>> trace.schedules[0].title, trace.live.find(y)[0]
('y', 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor
from tinysched.tensor.storage import live_storages


@dataclass(eq=False)
class Live:
    """Ids of UOps and of Storages, by schedule, and what steered the schedules."""

    nodes: list[WeakKeyDictionary[UOp, int]] = field(default_factory=list)
    storages: list[dict[int, int]] = field(default_factory=list)
    policies: Any = None
    pipeline: Any = None
    _mine: WeakKeyDictionary[UOp, UOp] = field(default_factory=WeakKeyDictionary)
    _held: dict[int, UOp] = field(default_factory=dict)

    def take(self, mine: Mapping[UOp, UOp]) -> None:
        """Notes which nodes of the trace stand for the program's, and which Storages had them."""
        self._mine.update(mine)
        self._held = {s.number: mine[s.uop] for s in live_storages() if s.uop in mine}

    def add(self, ids: Mapping[UOp, int], body: Iterable[UOp]) -> None:
        """Notes the ids of one schedule, which is written down now: of the program's nodes, and of callify's body."""
        known = {u: ids[mine] for u, mine in self._mine.items() if mine in ids}
        self.nodes.append(WeakKeyDictionary(known | {u: ids[u] for u in body}))
        self.storages.append({number: ids[mine] for number, mine in self._held.items() if mine in ids})

    def find(self, x: Tensor | UOp) -> tuple[int, int] | None:
        """(schedule, id) of the last schedule that knows ``x``, once the trace is written down."""
        for i in reversed(range(len(self.nodes))):
            u = x.uop if isinstance(x, Tensor) else x
            found = self.nodes[i].get(u)
            if found is None and isinstance(x, Tensor):
                found = self.storages[i].get(x.storage.number)
            if found is not None:
                return i, found
        return None
