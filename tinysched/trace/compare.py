"""Two schedules of the same computation side by side: kernels, bytes, operations, arena, time, and whether values agree.

In: two traces. Out: :class:`Comparison`. Both schedules are really run, on the same random inputs, unless ``run=False``.
The predicted time is the roofline's: each kernel moves its bytes and computes as fast as this machine can at best.

>>> from tinysched import Tensor, capture
>>> y = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize() * 2
>>> trace = capture(y.sum(), inputs={"y": y})
>>> found = compare(trace, trace.with_overrides({"y": "realize"}))
>>> found.kernels, found.same, found.changed
((1, 2), True, ('`y` is stored in the second only',))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinysched.dtypes import strong_dtype
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.device import buffer_of
from tinysched.runtime.limits import Limits, machine_limits
from tinysched.runtime.linear import execute
from tinysched.schedule.resolve import fresh_memory, resolve_linear_call
from tinysched.trace.document import Schedule
from tinysched.trace.inputs import alike, nudged
from tinysched.trace.rebuild import below
from tinysched.trace.trace import Trace
from tinysched.trace.whatif import Again, again

Pair = tuple[int, int]
TOLERANCE = {2: 3e-2, 4: 1e-3, 8: 1e-9}
"""How far floats may be apart, by their size: sums are added up in other orders."""
RUNS = 3


@dataclass(frozen=True)
class Comparison:
    """(first, second) of each figure; all schedules of a trace together. ``same`` is None where nothing was run.

    Results that rounding alone decides (:func:`tinysched.trace.inputs.nudged`) are not compared; ``changed`` says so.

    ``predicted`` and ``seconds`` are times in seconds: at best (the roofline), and measured.
    """

    titles: tuple[str, str]
    kernels: Pair
    bytes: Pair
    ops: Pair
    arena_bytes: Pair
    predicted: tuple[float, float]
    seconds: tuple[float, float] | None = None
    same: bool | None = None
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [("", *self.titles), ("kernels", *self.kernels), ("bytes moved", *self.bytes), ("operations", *self.ops)]
        rows.append(("arena bytes", *self.arena_bytes))
        cells = [[f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in rows]
        cells.append(["time at best", *map(_time, self.predicted)])
        if self.seconds is not None:
            cells.append(["time measured", *map(_time, self.seconds)])
        widths = [max(len(row[i]) for row in cells) for i in range(3)]
        lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}".rstrip() for a, b, c in cells]
        said = {None: "values were not compared", True: "the values are the same", False: "THE VALUES DIFFER"}[
            self.same
        ]
        return "\n".join([*lines, said, *self.changed])


def _time(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:,.0f} µs" if us >= 10 else f"{us:.2g} µs"


def compare(a: Trace, b: Trace, *, run: bool = True, limits: Limits | None = None) -> Comparison:
    """``a`` and ``b`` side by side. ``limits``: of the machine that times are predicted for (this one, measured now)."""
    best = limits or machine_limits()
    pairs = list(zip(a.schedules, b.schedules))
    ran = [_ran(a, b, i) for i in range(len(pairs))] if run and len(a.schedules) == len(b.schedules) else None
    return Comparison(
        titles=("first", "second") if a.title == b.title else (a.title, b.title),
        kernels=_both(a, b, lambda s: len(s.kernels)),
        bytes=_both(a, b, lambda s: s.bytes_moved),
        ops=_both(a, b, lambda s: sum(k.ops for k in s.kernels)),
        arena_bytes=_both(a, b, lambda s: sum(lane.arena_bytes for lane in s.memory.lanes)),
        predicted=(predicted(a, best), predicted(b, best)),
        seconds=(sum(r[0] for r in ran), sum(r[1] for r in ran)) if ran is not None else None,
        same=all(r[2] for r in ran) if ran is not None else None,
        changed=(*(text for one, two in pairs for text in changed(one, two)), *_shaky(sum(r[3] for r in ran or ()))),
    )


def predicted(trace: Trace, limits: Limits) -> float:
    """Seconds that a trace's kernels need at least, one after the other."""
    kernels = (k for s in trace.schedules for k in s.kernels)
    return sum(limits.seconds(k.bytes_read + k.bytes_written, k.ops) for k in kernels)


def _both(a: Trace, b: Trace, figure: Callable[[Schedule], int]) -> Pair:
    return sum(map(figure, a.schedules)), sum(map(figure, b.schedules))


def changed(one: Schedule, two: Schedule) -> list[str]:
    """The values of one tensor graph that are stored in one schedule and not in the other."""
    graphs = [below(s.nodes, (s.stages[0].root,)) if s.stages else [] for s in (one, two)]
    if graphs[0] != graphs[1] or any(one.nodes[i].op != two.nodes[i].op for i in graphs[0]):
        return []
    first, second = ({b.node for b in s.buffers} & set(graphs[0]) for s in (one, two))
    texts = [(i, "first") for i in first - second if i is not None] + [
        (i, "second") for i in second - first if i is not None
    ]
    return [f"{_called(one, i)} is stored in the {where} only" for i, where in sorted(texts)]


def _called(s: Schedule, i: int) -> str:
    n = s.nodes[i]
    return f"`{n.name}`" if n.name else f"{n.label} ({' × '.join(map(str, n.shape or ()))})"


# ** running both **


def _ran(a: Trace, b: Trace, which: int) -> tuple[float, float, bool, int]:
    """Seconds of each, whether they leave the same in every argument, and how many could not be compared."""
    made = [again(t, None, which) for t in (a, b)]
    (t0, first), (t1, second) = (_run(m) for m in made)
    differ = [i for i, (x, y) in enumerate(zip(first, second)) if not _close(x, y)]
    if len(first) != len(second) or not differ:
        return t0, t1, len(first) == len(second), 0
    nudge = _run(made[0], nudge=True)[1]
    shaky = sum(not _close(first[i], nudge[i]) for i in differ)
    return t0, t1, shaky == len(differ), shaky


def _shaky(count: int) -> tuple[str, ...]:
    said = "one result is" if count == 1 else f"{count} results are"
    return (f"{said} not compared: rounding alone decides what comes out",) if count else ()


def _run(made: Again, nudge: bool = False) -> tuple[float, list[np.ndarray[Any, Any]]]:
    """Runs a schedule a few times on inputs that depend on nothing but their size: the best time, and what it leaves."""
    params = {u.arg.slot: u for u in made.body.toposort() if u.op is Ops.PARAM and not u.is_variable}
    args = tuple(_filled(params[slot]) for slot in range(len(params)))
    same = alike(made.body)
    linear = resolve_linear_call(made.schedule.linear, args, fresh_memory)
    variables = {str(v.arg.name): v.arg.vmax for v in made.body.variables()}
    best = float("inf")
    for _ in range(RUNS):
        for slot, arg in enumerate(args):
            numbers = _values(same.get(params[slot], params[slot]))
            buffer_of(arg).copyin(nudged(numbers) if nudge else numbers)
        with watching(None):
            best = min(best, sum(execute(linear, variables).seconds))
    return best, [buffer_of(arg).copyout() for arg in args]


def _filled(param: UOp) -> UOp:
    memory = UOp.new_buffer(param.arg.device, param.arg.size, param.dtype)
    buffer_of(memory).allocate()
    return memory


def _values(param: UOp) -> np.ndarray[Any, Any]:
    rng, dtype = np.random.default_rng(param.arg.slot), strong_dtype(param.dtype).np
    numbers: Any = rng.standard_normal(param.arg.size) if dtype.kind == "f" else rng.integers(0, 2, param.arg.size)
    return np.asarray(numbers, dtype)


def _close(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    finite = np.abs(x[np.isfinite(x)].astype(np.float64))
    scale = float(finite.max()) if finite.size else 1.0
    tolerance = TOLERANCE[x.dtype.itemsize]
    with np.errstate(all="ignore"):
        return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
