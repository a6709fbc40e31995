"""What values mean, in plain NumPy: the judge of passes. Nothing of the engine's own arithmetic is used.

In: a node of any stage, memory (a flat array per BUFFER or PARAM) and the values of Variables. Out: a :class:`Spread`, the
value at every turn of the node's open loops at once. What is on several devices is one value. What writes do to memory is
:mod:`tinysched.explain.effects`.

>>> from tinysched.ir.ops import AxisType
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> Values({}).value((r0 * 3 + R1).reduce(Ops.ADD, R1)).array.tolist()
[3, 12]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinysched.dtypes import dtypes
from tinysched.errors import TraceError
from tinysched.explain.arrays import REDUCE, Array, Spread, alu, bits, close, kind_of, moved, total, union
from tinysched.ir.derive import map_arg
from tinysched.ir.function import placeholders
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import MANY_DEVICES, parts_of
from tinysched.ir.uop import INVALID, UOp

MOST_POINTS = 1 << 25
"""More values at once than this are not computed: a check is for small inputs."""
STATES = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER})
_BY_READER = frozenset({Ops.STAGE, Ops.MSTACK})
"""Nodes whose meaning depends on who reads them."""


class Values:
    """Evaluates nodes over given memory. ``env``: loops that stand at one turn."""

    def __init__(
        self,
        memory: Mapping[UOp, Array],
        variables: Mapping[str, int] | None = None,
        env: Mapping[UOp, int] | None = None,
    ):
        self.states: dict[UOp, Array] = dict(memory)
        self.variables = dict(variables or {})
        self.env = dict(env or {})
        self.known: dict[UOp, Spread] = {}

    def value(self, u: UOp) -> Spread:
        """The value of ``u`` at every turn of its loops."""
        if u not in self.known:
            for v in u.toposort(gate=lambda v: v not in self.known and v.op not in STATES):
                if v not in self.known and v.op not in STATES and v.op not in _BY_READER:
                    self.known[v] = self._checked(v)
            if u not in self.known:
                self.known[u] = self._checked(u)
        return self.known[u]

    def _checked(self, u: UOp) -> Spread:
        with np.errstate(all="ignore"):
            found = self._value(u)
        if u.dtype is dtypes.void:
            return found
        return Spread(found.loops, np.asarray(found.array).astype(kind_of(u.dtype), copy=False))

    def number(self, u: Any) -> int:
        """A size: an int, or an expression over Variables."""
        return int(self.value(u).array) if isinstance(u, UOp) else int(u)

    def _value(self, u: UOp) -> Spread:
        op = u.op
        if op is Ops.CONST:
            return Spread((), np.asarray(0 if u.arg is INVALID else u.arg))
        if op is Ops.RANGE:
            return (
                Spread((), np.asarray(self.env[u])) if u in self.env else Spread((u,), np.arange(self.number(u.src[0])))
            )
        if u.is_variable:
            return Spread((), np.asarray(self.variables.get(str(u.arg.name), u.arg.vmax)))
        if op in GroupOp.ALU:
            return self._elementwise(u)
        if op in GroupOp.Movement:
            return self._moved(u)
        if op is Ops.REDUCE:
            return self._reduce(u)
        if op is Ops.INDEX:
            return self._staged(u) if u.src[0].op is Ops.STAGE else self._read(u)
        return self._other(u)

    def _other(self, u: UOp) -> Spread:
        op = u.op
        if op is Ops.CAST:
            return self.value(u.src[0])
        if op is Ops.BITCAST:
            inner = self.value(u.src[0])
            return Spread(inner.loops, bits(inner.array, u.src[0].dtype, u.dtype))
        if op in GroupOp.Passthrough or op in (Ops.LOAD, Ops.COPY, Ops.BIND):
            return self.value(u.src[-1] if op is Ops.BIND else u.src[0])
        if op is Ops.STACK:
            parts = [self.value(s) for s in u.src]
            loops, ndim = union(parts), u.ndim - 1
            arrays = np.broadcast_arrays(*(s.over(loops, ndim) for s in parts))
            return Spread(loops, np.stack(arrays, len(loops)))
        if op is Ops.PARAM and u.arg.shape is not None:  # what stands for an argument in the body of a function
            return Spread((), self.state(u).reshape(tuple(map(self.number, u.arg.shape))))
        if op is Ops.AFTER:
            return Spread((), self.state(u).reshape(tuple(map(self.number, u.shape))))
        if op in STATES:
            return Spread((), self.state(u))
        if op in MANY_DEVICES:
            return self._of_devices(u)
        if op is Ops.GETTUPLE:
            return self._of_function(u)
        if op in (Ops.FUNCTION, Ops.TUPLE, Ops.SINK, Ops.NOOP, Ops.STORE, Ops.END, Ops.CALL):
            return Spread((), np.zeros(0))
        raise TraceError(f"a check does not know what {op.name} means", help="check a part of the program without it")

    def _of_function(self, u: UOp) -> Spread:
        """A value of a function's body, its PARAMs being the arguments."""
        f = u.src[0]
        if f.op is Ops.TUPLE:
            return self.value(f.src[u.arg])
        known = placeholders(f.arg.body)
        given = {p: self.value(f.src[slot]).array.reshape(-1) for slot, p in known.items()}
        passed = {
            str(v.arg.name): self.number(a) for v, a in zip(f.arg.variables, f.src[-len(f.arg.variables) or None :])
        }
        return type(self)(given, {**self.variables, **passed}).value(f.arg.body.src[u.arg])

    def _of_devices(self, u: UOp) -> Spread:
        """A value that lies on several devices, as one value."""
        parts = [self.value(p).array for p in (parts_of(u.src[0]) or parts_of(u))]
        if not parts:
            raise TraceError(f"{u!r} has no parts", help="check a part of the program without it")
        if u.op is Ops.UNSHARD:
            return Spread((), np.concatenate(parts, u.arg))
        if u.op is Ops.ALLREDUCE:
            return Spread((), functools.reduce(REDUCE[u.arg[0]], parts))
        if u.op is Ops.MSELECT:
            return Spread((), parts[u.arg])
        if not all(close(parts[0], p) for p in parts[1:]):
            raise TraceError("devices that should have the same have different values")
        return Spread((), parts[0])

    def state(self, u: UOp) -> Array:
        """The flat memory that a state stands for: :class:`tinysched.explain.effects.Meaning` knows."""
        raise NotImplementedError

    def _elementwise(self, u: UOp) -> Spread:
        inner = [self.value(s) for s in u.src]
        loops, ndim = union(inner), max(s.array.ndim - len(s.loops) for s in inner)
        args = np.broadcast_arrays(*(s.over(loops, ndim) for s in inner))
        self._small(args[0].shape)
        return Spread(loops, alu(u, args))

    @staticmethod
    def _small(shape: tuple[int, ...]) -> None:
        if math.prod(shape) > MOST_POINTS:
            raise TraceError(f"{math.prod(shape):,} values at once are too many to check", help="use smaller inputs")

    def _moved(self, u: UOp) -> Spread:
        inner = self.value(u.src[0])
        lead = len(inner.loops)
        return Spread(inner.loops, moved(inner.array, u.op, map_arg(u.arg, self.number), lead))

    def _reduce(self, u: UOp) -> Spread:
        op, n = u.arg
        inner, ufunc = self.value(u.src[0]), REDUCE[op]
        if n:
            axes = tuple(range(len(inner.loops), len(inner.loops) + n))
            return Spread(inner.loops, total(ufunc, inner.array, axes, u.dtype))
        own = [self.value(r) for r in u.src[1:]]
        loops = union([inner, *own])
        ndim = inner.array.ndim - len(inner.loops)
        sizes = {r: self.number(r.src[0]) for r in loops}
        array = inner.over(loops, ndim)
        over = [r for r in loops if r in u.src[1:]]
        full = tuple(sizes[r] if r in over else n for r, n in zip(loops, array.shape)) + array.shape[len(loops) :]
        self._small(full)
        array = np.broadcast_to(array, full)
        axes = tuple(i for i, r in enumerate(loops) if r in over)
        return Spread(tuple(r for r in loops if r not in over), total(ufunc, array, axes, u.dtype))

    # ** reads **

    def _position(self, i: UOp) -> tuple[Spread, Spread]:
        """An index, and where it is valid."""
        return self.value(i.get_idx()), self.value(i.get_valid())

    def _read(self, u: UOp) -> Spread:
        memory = self.state(u.src[0])
        if len(u.src) == 1:
            return Spread((), memory)
        where, valid = self._position(u.src[1])
        loops = union([where, valid])
        places = where.over(loops, 0)
        read = (
            memory[np.clip(places, 0, max(len(memory) - 1, 0))] if len(memory) else np.zeros(places.shape, memory.dtype)
        )
        return Spread(loops, np.where(valid.over(loops, 0), read, np.zeros((), memory.dtype)))

    def stored(self, stage: UOp) -> tuple[Array, tuple[UOp, ...]]:
        """What a STAGE holds, an axis for each of its loops, then one for each that stays open around it."""
        inner = self.value(stage.src[0])
        own = [r for r in stage.src[1:] if r.op is Ops.RANGE]
        free = tuple(r for r in inner.loops if r not in own)
        dense = inner.over((*own, *free), 0)
        return np.broadcast_to(dense, (*(self.number(r.src[0]) for r in own), *dense.shape[len(own) :])), free

    def _staged(self, u: UOp) -> Spread:
        """A STAGE is computed at all turns of its loops, then read at the indices."""
        stage, indices = u.src[0], [self._position(i) for i in u.src[1:]]
        dense, free = self.stored(stage)
        loops = union([*(s for pair in indices for s in pair), Spread(free, np.zeros((1,) * len(free)))])
        at = [w.over(loops, 0) for (w, _), r in zip(indices, stage.src[1:]) if r.op is Ops.RANGE]
        at = [np.clip(i, 0, n - 1) for i, n in zip(at, dense.shape)]
        at += [self.value(r).over(loops, 0) for r in free]
        read = dense[tuple(np.broadcast_arrays(*at))] if at else dense
        ok = np.ones((1,) * len(loops), bool)
        for _, valid in indices:
            ok = ok & valid.over(loops, 0)
        return Spread(loops, np.where(ok, read, np.zeros((), read.dtype)))
