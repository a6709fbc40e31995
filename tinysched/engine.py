"""The engine joins tensors, schedules and runs: plan, realize, commit.

In: Tensors. Out: a :class:`Plan` (asking is free: it changes nothing), or Tensors whose values are in memory.

>>> from tinysched import Tensor
>>> x = Tensor([[1.0, 2.0, 3.0]])
>>> p = plan((x * 2).sum())
>>> len(p.linear.src), p.var_vals
(1, {})
>>> (x * 2).sum().item()
12.0
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinysched.dtypes import DType, strong_dtype
from tinysched.errors import ArgumentError, DTypeError, ScheduleError, StalePlan
from tinysched.ir.observe import current_observer, watching
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.rewrite import rebuild
from tinysched.ir.uop import UOp
from tinysched.runtime.device import Buffer, Device, buffer_of
from tinysched.runtime.linear import Run, execute
from tinysched.schedule.callify import transform_to_call
from tinysched.schedule.indexing import memory_of
from tinysched.schedule.kernels import TwoStates
from tinysched.schedule.memory import MemoryPlan

from tinysched.schedule.pipeline import PIPELINE, PassContext, Pipeline, create_linear_with_vars
from tinysched.schedule.policy import DEFAULT, Policies
from tinysched.tensor.core import Tensor
from tinysched.tensor.hooks import register
from tinysched.tensor.storage import Storage, live_storages

MOST_ATTEMPTS = 64
"""Each attempt gives one more write fresh memory; a graph that needs more than this is reported."""


@dataclass(frozen=True)
class Plan:
    """What realizing some Tensors would run. ``assumes``: the Storages it read, at the version it read them."""

    linear: UOp
    var_vals: Mapping[str, int]
    buffer_map: Mapping[UOp, UOp]
    memory: MemoryPlan
    call: UOp
    assumes: tuple[tuple[Storage, int], ...] = ()
    state: dict[str, bool] = field(default_factory=dict, compare=False)

    @property
    def overwrites(self) -> frozenset[UOp]:
        """Buffers that existed before and that this plan writes to."""
        return frozenset(b for b in self.call.src[1:] if b.realized is not None and b in set(self.buffer_map.values()))


# ** planning **


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Graphs are acyclic and freed by reference counts; the cycle collector would walk all nodes again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def plan(
    *tensors: Tensor,
    policies: Policies | None = None,
    pipeline: Pipeline | None = None,
    overrides: Mapping[Any, str] | None = None,
) -> Plan:
    """What realizing ``tensors`` together would run. Changes no value, no Tensor and no later plan.

    ``overrides`` map nodes of callify's body to "realize" or "fuse". Raises :class:`ScheduleError` where no order exists.
    """
    for t in tensors:
        if not isinstance(t, Tensor):
            raise DTypeError(f"only Tensors can be planned, not a {type(t).__name__}", help="Tensor(...) makes one")
    storages = [t.storage for t in tensors]
    ctx = PassContext(policies or DEFAULT, tuple((overrides or {}).items()))
    with _collector_paused():
        return _plan(storages, ctx, pipeline or PIPELINE)


def _plan(storages: list[Storage], ctx: PassContext, pipeline: Pipeline) -> Plan:
    fresh: frozenset[UOp] = frozenset()
    device = Device.DEFAULT
    watcher = current_observer()
    asked = UOp.sink(*dict.fromkeys(s.uop for s in storages))
    for _ in range(MOST_ATTEMPTS):
        if watcher is not None:
            watcher.on_stage("callify", str(transform_to_call.__doc__).splitlines()[0], asked)
        call, buffer_map = transform_to_call(storages, device=device, fresh=fresh)
        if watcher is not None:
            watcher.on_stage_end("callify", call.src[0])
        try:
            linear, var_vals, memory = create_linear_with_vars(call, ctx, pipeline)
        except ScheduleError as error:
            more = _writes_to_free(error, call, asked) - fresh
            if not more:
                raise
            fresh |= more
            continue
        assumes = tuple((s, s.version) for s in dict.fromkeys(storages))
        return Plan(linear, var_vals, buffer_map, memory, call, assumes)
    raise ScheduleError("no order of the kernels was found", help="realize some of the values before writing to them")


def _writes_to_free(error: ScheduleError, call: UOp, asked: UOp) -> frozenset[UOp]:
    """The writes of the user's graph that should go to fresh memory, so that old and new states can both be read."""
    if isinstance(error, TwoStates):
        memories = [error.memory]
    else:
        memories = list(getattr(error, "buffers", ()))
    real = {call.src[1:][m.arg.slot] for m in memories if m.op is Ops.PARAM}
    writes = [u for u in asked.toposort() if u.op is Ops.AFTER and memory_of(u) in real]
    if isinstance(error, TwoStates):  # the write that follows the older of the two states is enough
        depth = min(_depth(s) for s in error.states)
        first = frozenset(w for w in writes if _depth(w) == depth + 1)
        return first or frozenset(writes)
    return frozenset(writes)


def _depth(state: UOp) -> int:
    """How many writes a state has behind it."""
    n = 0
    while state.op not in (Ops.BUFFER, Ops.PARAM):
        n += state.op is Ops.AFTER
        state = state.src[0]
    return n


# ** running and committing **


def run_linear(
    linear: UOp | Plan, var_vals: Mapping[str, int] | None = None, *, keep: Iterable[UOp] = (), profile: Any = None
) -> Run:
    """Runs a plan (or its LINEAR alone) on the devices its buffers name; a plan's values are committed.

    Raises :class:`StalePlan` if a Tensor was written since the plan was made, or if a plan that overwrites what it reads
    is run a second time.
    """
    if isinstance(linear, UOp):
        return execute(linear, var_vals, keep=tuple(keep), profile=profile)
    p = linear
    if any(s.version != v for s, v in p.assumes) or (p.state.get("ran") and p.overwrites):
        raise StalePlan("the Tensors of this plan have changed since it was made", help="plan them again")
    with watching(current_observer()):
        run = execute(p.linear, {**p.var_vals, **(var_vals or {})}, keep=tuple(keep), profile=profile)
    p.state["ran"] = True
    commit(p.buffer_map)
    return run


def commit(buffer_map: Mapping[UOp, UOp]) -> None:
    """Every live Storage whose graph holds a computed node from now on reads its memory."""
    if not buffer_map:
        return
    reaches: dict[UOp, bool] = {}
    changed = [s for s in live_storages() if _reaches(s.uop, buffer_map, reaches)]
    became: dict[UOp, UOp] = dict(buffer_map)
    for s in changed:
        new = became.get(s.uop)
        if new is None:
            order = s.uop.toposort(gate=lambda u: u not in became)
            new = rebuild(s.uop, became, order)
        s.set(new)


def _reaches(root: UOp, keys: Mapping[UOp, UOp], known: dict[UOp, bool]) -> bool:
    """Whether one of ``keys`` is part of ``root``'s graph; what was found is remembered in ``known``."""
    stack = [root]
    while stack:
        u = stack[-1]
        if u in known:
            stack.pop()
            continue
        if u in keys or not u.src:
            known[u] = u in keys
            continue
        missing = [s for s in u.src if s not in known]
        if missing:
            stack.extend(missing)
            continue
        known[u] = any(known[s] for s in u.src)
    return known[root]


def realize(*tensors: Tensor) -> None:
    """Plans, runs and commits."""
    pending = [t for t in tensors if t.uop.base.op not in (Ops.BUFFER, Ops.CONST)]
    for t in tensors:
        base = t.uop.base
        if base.op is Ops.BUFFER and base.realized is None:
            buffer_of(base).allocate()
    if pending:
        with watching(current_observer()):
            p = plan(*pending)
            run_linear(p)


# ** what the tensor layer asks for **


class _Engine:
    """The engine as :mod:`tinysched.tensor.hooks` knows it."""

    def canonical_device(self, name: str | None) -> str:
        return Device.canonicalize(name)

    def memory_from(self, data: np.ndarray[Any, Any], dtype: DType, device: str) -> UOp:
        buffer = UOp.new_buffer(device, data.size, dtype)
        memory = Buffer(device, data.size, dtype)
        memory.allocate()
        memory.copyin(np.ascontiguousarray(data).reshape(-1))
        return buffer.attach(memory)

    def allocate(self, buffer: UOp) -> None:
        buffer_of(buffer).allocate()

    def realize(self, tensors: tuple[Tensor, ...]) -> None:
        realize(*tensors)

    def linear_with_vars(self, tensors: tuple[Tensor, ...]) -> tuple[UOp, dict[str, int]]:
        p = plan(*tensors)
        return p.linear, dict(p.var_vals)

    def read(self, value: UOp) -> np.ndarray[Any, Any]:
        return read_value(value)


def read_value(value: UOp) -> np.ndarray[Any, Any]:
    """A copy of a realized value: its memory seen through its movement ops, by NumPy."""
    chain: list[UOp] = []
    base = value
    while base.op in GroupOp.Movement or base.op in (Ops.CAST, Ops.BITCAST):
        chain.append(base)
        base = base.src[0]
    dtype = strong_dtype(base.dtype).np
    if base.op is Ops.CONST:
        array: np.ndarray[Any, Any] = np.asarray(base.arg, dtype)
    elif base.op is Ops.BUFFER:
        memory = buffer_of(base)
        memory.allocate()
        array = memory.array
    elif 0 in value.shape:
        return np.zeros(value.shape, strong_dtype(value.dtype).np)
    else:
        raise ArgumentError(f"{base!r} has no value yet", help="realize() it first")
    for u in reversed(chain):
        array = _moved(array, u)
    return np.array(array)


def _moved(array: np.ndarray[Any, Any], u: UOp) -> np.ndarray[Any, Any]:
    """One movement op (or cast) done by NumPy."""
    arg = u.arg
    if u.op is Ops.RESHAPE:
        return array.reshape(arg)
    if u.op is Ops.PERMUTE:
        return array.transpose(arg)
    if u.op is Ops.EXPAND:
        return np.broadcast_to(array, (*arg, *array.shape))
    if u.op is Ops.PAD:
        return np.pad(array, arg) if arg else array
    if u.op is Ops.SHRINK:
        return array[tuple(slice(a, b) for a, b in arg)]
    if u.op is Ops.FLIP:
        return np.flip(array, tuple(i for i, f in enumerate(arg) if f))
    dtype = strong_dtype(u.dtype).np
    return array.astype(dtype) if u.op is Ops.CAST else array.view(dtype)


register(_Engine())
__all__ = ["Plan", "commit", "plan", "read_value", "realize", "run_linear"]
