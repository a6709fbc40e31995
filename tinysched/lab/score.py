"""The score of a schedule: yours beside the engine's own of the same program, and your best of this session.

In: a trace. Out: :class:`Score`, a table of kernels, bytes moved, operations and arena. The reference is made on the
spot: the same graph, scheduled with default policies and no overrides; both are run on the same random inputs, and a
schedule that gives other values has no score.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
>>> y = x * 2
>>> print(score(capture(y.sum(0), inputs={"y": y}, overrides={"y": "realize"})))
             yours  reference  best so far
kernels          2          1            2
bytes moved     84         36           84
operations      12         12           12
arena bytes    256          0          256
the values are those of the reference
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass

from tinysched.lab.notyet import NotYet, is_blank
from tinysched.schedule.pipeline import PIPELINE
from tinysched.schedule.policy import DEFAULT
from tinysched.trace.compare import compare
from tinysched.trace.trace import Trace
from tinysched.trace.whatif import Changes, again
from tinysched.views.text import table


@dataclass(frozen=True)
class Figures:
    """What a schedule costs."""

    kernels: int
    bytes_moved: int
    operations: int
    arena_bytes: int


def figures(trace: Trace) -> Figures:
    """The figures of all schedules of a trace together."""
    return Figures(
        kernels=sum(len(s.kernels) for s in trace.schedules),
        bytes_moved=sum(s.bytes_moved for s in trace.schedules),
        operations=sum(k.ops for s in trace.schedules for k in s.kernels),
        arena_bytes=sum(lane.arena_bytes for s in trace.schedules for lane in s.memory.lanes),
    )


@dataclass(frozen=True)
class Score:
    """``best``: of this session, of schedules of the same program with right values, the one that moves the least."""

    yours: Figures
    reference: Figures
    best: Figures | None
    same: bool

    def __repr__(self) -> str:
        best = self.best or self.yours
        rows = zip(
            ("kernels", "bytes moved", "operations", "arena bytes"), *map(astuple, (self.yours, self.reference, best))
        )
        cells = [[name, *(f"{n:,}" for n in numbers)] for name, *numbers in rows]
        said = "the values are those of the reference" if self.same else "THE VALUES ARE OTHERS: this does not count"
        return "\n".join([table(["", "yours", "reference", "best so far"], cells), said])


_BEST: dict[bytes, Figures] = {}
"""The best of this session by program. Bounded: the oldest goes."""
MOST_PROGRAMS = 256


def score(trace: Trace) -> Score:
    """Scores the last schedule of a trace. Raises :class:`NotYet` for a blank."""
    if is_blank(trace):
        raise NotYet("nothing to score yet", help="capture a schedule first: score(capture(...))")
    plain = again(trace, Changes(policies=DEFAULT, pipeline=PIPELINE, forget=True))
    yours, reference = figures(_last(trace)), figures(_last(plain.trace))
    same = bool(compare(_last(trace), _last(plain.trace)).same)
    if same:
        _remember(plain.body.key, yours)
    return Score(yours, reference, _BEST.get(plain.body.key), same)


def _last(trace: Trace) -> Trace:
    return trace if len(trace.schedules) == 1 else trace.changed(schedules=trace.schedules[-1:])


_ORDER: Callable[[Figures], tuple[int, int, int]] = lambda f: (f.bytes_moved, f.kernels, f.operations)  # noqa: E731


def _remember(key: bytes, found: Figures) -> None:
    known = _BEST.pop(key, found)
    _BEST[key] = min(known, found, key=_ORDER)
    while len(_BEST) > MOST_PROGRAMS:
        del _BEST[next(iter(_BEST))]
