"""A recording without the program's memory: what a trace may keep until somebody looks at it.

In: what the engine told, in which the program's own graphs stand (from "callify" until it ends; all later ones are over
PARAMs). Out: the same with other BUFFERs in their place, which hold nothing. So a trace can be written down when it is
first read, and keeps no memory alive until then.

>>> from tinysched import Tensor
>>> x = Tensor([1.0, 2.0]).realize()
>>> apart = Apart()
>>> mine = apart.node((x * 3).uop)
>>> [u.buffer for u in mine.toposort() if u.op is Ops.BUFFER], x.uop.buffer is not None
([None], True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.trace.recorder import Told


class Apart:
    """The program's nodes and those that stand for them (itself, where no memory is below)."""

    def __init__(self) -> None:
        self.became: dict[UOp, UOp] = {}

    def node(self, root: UOp) -> UOp:
        """What stands for ``root``."""
        became = self.became
        if root in became:
            return became[root]
        for u in root.toposort(gate=lambda u: u not in became):
            if u not in became:
                became[u] = self._made(u)
        return became[root]

    def _made(self, u: UOp) -> UOp:
        if u.op is Ops.BUFFER:
            return UOp.new_buffer(u.arg.device, u.arg.size, u.dtype)
        src = tuple([self.became[s] for s in u.src])
        return u if src == u.src else UOp(u.op, u.dtype, src, u.arg, u.tag)

    def value(self, x: Any) -> Any:
        """A decision, its evidence, or what else an event tells, with the nodes that stand for the program's."""
        if isinstance(x, UOp):
            return self.node(x)
        if isinstance(x, tuple):
            return tuple([self.value(part) for part in x])
        if isinstance(x, dict):
            return {k: self.value(v) for k, v in x.items()}
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            return dataclasses.replace(x, **{f.name: self.value(getattr(x, f.name)) for f in dataclasses.fields(x)})
        return x

    def events(self, told: Iterable[Told], first: str) -> list[Told]:
        """What was told, with those of stage ``first`` over other memory; of a run only the times."""
        found: list[Told] = []
        inside = False
        for event in told:
            kind, *rest = event
            inside = inside or (kind == "stage" and rest[0] == first)
            if inside:
                event = (kind, *(self.value(part) for part in rest))
                inside = not (kind == "end" and rest[0] == first)
            elif kind == "event" and rest[0] == "run":
                event = (kind, "run", {k: rest[1][k] for k in ("position", "seconds", "opts", "tries")})
            found.append(event)
        return found
