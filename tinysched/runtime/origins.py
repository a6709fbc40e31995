"""Which node of a kernel each line of a program computes, however often the kernel was rewritten on the way.

In: a kernel's SINK, and for each rewrite which node stands for which (:meth:`Origins.note`). Out: lines whose nodes are
those of the kernel. What has no line of its own (a factor multiplied by BLAS, a cast that changes nothing) is computed
where it is read.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 3, "NUMPY")) for i in (0, 1))
>>> r0 = UOp.range(3, 0)
>>> power, twice = (value := load(x.index(r0)) * 2.0).alu(Ops.EXP2), value + value
>>> origins = Origins(UOp.sink(out.index(r0).store(power).end(r0)))
>>> origins.note(power, twice)
>>> [line] = origins.of_lines([Line("p0[...] = p1*2 + p1*2", (twice,))])
>>> [u.op.name for u in line.nodes]
['EXP2', 'STORE', 'MUL', 'LOAD']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.loops import Line

_COMPUTED = GroupOp.Elementwise | {Ops.LOAD, Ops.REDUCE, Ops.STORE}


class Origins:
    """For the nodes of a kernel that is rewritten here: which node of the first kernel each one stands for."""

    def __init__(self, sink: UOp):
        self.order = sink.toposort()
        self.nodes = frozenset(self.order)
        self.first: dict[UOp, UOp] = {}

    def note(self, old: UOp, new: UOp) -> None:
        """``new`` has the value of ``old``, which may be new itself."""
        if new is not old and new not in self.nodes:
            self.first.setdefault(new, self.first.get(old, old))

    def of(self, nodes: Iterable[UOp]) -> tuple[UOp, ...]:
        """The nodes of the first kernel that these stand for; what was only added on the way stands for none."""
        found = dict.fromkeys(self.first.get(u, u) for u in nodes)
        return tuple(u for u in found if u in self.nodes)

    def of_lines(self, lines: Sequence[Line]) -> list[Line]:
        """The lines of a program with the nodes of the first kernel that each computes; each node is on some line."""
        found = [dict.fromkeys(self.of(line.nodes)) for line in lines]
        places: dict[UOp, dict[int, None]] = defaultdict(dict)
        for i, nodes in enumerate(found):
            for u in nodes:
                places[u][i] = None
        readers: dict[UOp, dict[int, None]] = defaultdict(dict)
        end = dict.fromkeys([len(lines) - 1])
        for u in reversed(self.order):
            here = places[u] or readers[u] or end
            for i in here if u.op in _COMPUTED else ():
                found[i][u] = None
            for s in u.src:
                readers[s] |= here
        return [Line(line.text, tuple(nodes)) for line, nodes in zip(lines, found)]
