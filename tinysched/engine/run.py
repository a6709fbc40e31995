"""Running a plan and committing what it computed.

In: a Plan, or its LINEAR. Out: values in memory, and Tensors that know it. A failure between kernels leaves every value
whole; after one in the middle of a write in place, exactly the Tensors that lost their value say so.

>>> from tinysched import Tensor
>>> x = Tensor([[1.0, 2.0, 3.0]])
>>> y = (x * 2).sum()
>>> _ = run_linear(y.schedule_linear(y))
>>> y
<Tensor () float32 on NUMPY, realized>
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from tinysched.engine.outcome import Outcome, mark_lost
from tinysched.engine.plan import Plan, plan
from tinysched.engine.read import read_value
from tinysched.errors import RunError, StalePlan
from tinysched.ir.lines import where
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import is_memory, memories
from tinysched.ir.uop import UOp
from tinysched.runtime.device import buffer_of
from tinysched.tensor.core import Tensor
from tinysched.tensor.hooks import engine
from tinysched.tensor.storage import Storage

if TYPE_CHECKING:
    from tinysched.runtime.linear import Run


def run_linear(
    linear: UOp | Plan,
    var_vals: Mapping[str, int] | None = None,
    *,
    profile: Any = None,
    keep: Collection[UOp] = (),
) -> Run:
    """Runs a plan (or its LINEAR) on the devices its buffers name, and commits the values.

    ``profile``: a list that gets the time of each kernel; ``keep``: buffers of the LINEAR whose values are copied.
    Raises :class:`StalePlan` if the plan's assumptions no longer hold, or if a plan that reads what it overwrites is run a
    second time. Source: upstream's ``run_linear``.
    """
    p = linear if isinstance(linear, Plan) else None
    graph = linear.linear if isinstance(linear, Plan) else linear
    outcome: Outcome | None = getattr(graph, "_plan", None)
    values = {**(p.var_vals if p is not None else {}), **(var_vals or {})}
    if outcome is None:
        return _execute(graph, values, keep=keep, profile=profile)
    if (why := outcome.stale(graph)) is not None:
        raise StalePlan(f"this plan no longer holds: {why}", help="plan the Tensors again")
    return _run(graph, outcome, values, keep, profile)


def _run(graph: UOp, outcome: Outcome, values: Mapping[str, int], keep: Collection[UOp], profile: Any) -> Run:
    finished, started = 0, False

    def start() -> None:
        nonlocal started
        started = True

    def after(position: int, call: UOp, seconds: float) -> None:
        nonlocal finished
        finished = position + 1

    def may_stop(position: int) -> bool:
        return not outcome.lost(graph, position, partial=False)

    try:
        run = _execute(graph, values, keep=keep, profile=profile, after_kernel=after, may_stop=may_stop, on_start=start)
    except BaseException as error:
        # a kernel that failed may have written half of its output; an interrupt is only taken where nothing is lost
        lost = outcome.lost(graph, finished, partial=started and not isinstance(error, KeyboardInterrupt))
        outcome.finish(graph, finished)
        mark_lost(lost, f"kernel {finished} failed while memory it was computed from was being overwritten ({error})")
        if isinstance(error, RunError):
            _say_for_what(error, graph, outcome, finished)
        raise
    outcome.ran = True
    outcome.finish(graph, len(graph.src))
    return run


def _say_for_what(error: RunError, graph: UOp, outcome: Outcome, finished: int) -> None:
    """Adds to an error which of the user's values was to be computed."""
    at = finished if error.call is None else graph.src.index(error.call)
    if (asked := outcome.asked_from(graph, at)) is not None:
        error.where = f"{error.where}, for {where(asked)}" if error.where else where(asked)


def _execute(graph: UOp, values: Mapping[str, int], **how: Any) -> Run:
    # the run times are loaded when something runs: who only plans and looks at kernels starts sooner
    from tinysched.runtime.linear import execute

    return execute(graph, values, **how)


def realize(*tensors: Tensor) -> None:
    """Plans, runs and commits. Memory that is asked for but never written (``Tensor.empty``) is allocated."""
    pending = []
    for t in tensors:
        base = t.uop.base
        if is_memory(base):
            for buffer in memories(base):
                buffer_of(buffer).allocate()
        elif base.op is not Ops.CONST:
            pending.append(t)
        elif t.storage.wants_memory:
            _back(t.storage)
    if pending:
        run_linear(plan(*pending))


def _back(storage: Storage) -> None:
    """Gives a constant the memory that it was asked to have: reads stay arithmetic, writes find a place."""
    if storage.backing is None and 0 not in (shape := storage.uop.shape):
        values = read_value(storage.uop)
        flat = engine().memory_from(values, storage.uop.dtype, engine().canonical_device(None))
        storage.backing = flat.reshape(shape)
