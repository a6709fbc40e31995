"""What graphs mean, in plain NumPy: the judge of passes. Nothing of the engine's own arithmetic is used.

In: a node of any stage, memory (a flat array per BUFFER or PARAM) and the values of Variables. Out: a :class:`Spread`, the
value at every turn of the node's open loops at once; or the memory that a write, a state or a LINEAR leaves.

>>> from tinysched.ir.ops import AxisType
>>> r0, R1 = UOp.range(2, 0), UOp.range(3, 1, AxisType.REDUCE)
>>> x = UOp.new_buffer("NUMPY", 6, dtypes.float32)
>>> total = x.index(r0 * 3 + R1).reduce(Ops.ADD, R1)
>>> Meaning({x: np.arange(6, dtype=np.float32)}).value(total).array.tolist()
[3.0, 12.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinysched.dtypes import dtypes, strong_dtype
from tinysched.errors import TraceError
from tinysched.ir.derive import map_arg
from tinysched.ir.function import placeholders
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import INVALID, UOp

Array = np.ndarray[Any, Any]
MOST_POINTS = 1 << 25
"""More values at once than this are not computed: a check is for small inputs."""
MOST_TURNS = 1 << 16
_BINARY: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.FDIV: np.true_divide, Ops.POW: np.power, Ops.MAX: np.maximum,
    Ops.FLOORDIV: np.floor_divide, Ops.FLOORMOD: np.mod, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal, Ops.XOR: np.bitwise_xor, Ops.OR: np.bitwise_or, Ops.AND: np.bitwise_and,
    Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, Ops.CMOD: np.fmod, Ops.WHERE: np.where, Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal,
}  # fmt: skip
_REDUCE: dict[Ops, Any] = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}
_STATES = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER})


@dataclass(frozen=True)
class Spread:
    """Values over loops: one axis per loop in ``loops``, then the axes of the node's shape."""

    loops: tuple[UOp, ...]
    array: Array

    def over(self, loops: Sequence[UOp], ndim: int) -> Array:
        """The array with an axis for each of ``loops`` (of one element where nothing changes), then ``ndim`` axes."""
        own = self.array.ndim - len(self.loops)
        order = sorted(range(len(self.loops)), key=lambda i: loops.index(self.loops[i]))
        array = self.array.transpose((*order, *range(len(self.loops), self.array.ndim)))
        sizes = dict(zip((self.loops[i] for i in order), array.shape))
        return array.reshape((*(sizes.get(r, 1) for r in loops), *(1,) * (ndim - own), *array.shape[len(self.loops) :]))


def union(spreads: Iterable[Spread]) -> tuple[UOp, ...]:
    """All loops of some values, in one order."""
    found = {r for s in spreads for r in s.loops}
    return tuple(sorted(found, key=lambda r: (r.arg[0], str(r.arg[1]))))


class Meaning:
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
            for v in u.toposort(gate=lambda v: v not in self.known and v.op not in _STATES):
                if v not in self.known and v.op not in _STATES and v.op is not Ops.STAGE:
                    self.known[v] = self._checked(v)
            if u not in self.known:
                self.known[u] = self._checked(u)
        return self.known[u]

    def _checked(self, u: UOp) -> Spread:
        with np.errstate(all="ignore"):
            found = self._value(u)
        if u.dtype is dtypes.void:
            return found
        return Spread(found.loops, np.asarray(found.array).astype(strong_dtype(u.dtype).np, copy=False))

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
            return Spread(inner.loops, np.ascontiguousarray(inner.array).view(strong_dtype(u.dtype).np))
        if op in GroupOp.Passthrough or op in (Ops.LOAD, Ops.COPY, Ops.BIND):
            return self.value(u.src[-1] if op is Ops.BIND else u.src[0])
        if op is Ops.STACK:
            parts = [self.value(s) for s in u.src]
            loops, ndim = union(parts), u.ndim - 1
            arrays = np.broadcast_arrays(*(s.over(loops, ndim) for s in parts))
            return Spread(loops, np.stack(arrays, len(loops)))
        if op is Ops.PARAM and u.arg.shape is not None:  # what stands for an argument in the body of a function
            return Spread((), self.state(u).reshape(tuple(map(self.number, u.arg.shape))))
        if op in _STATES:
            return Spread((), self.state(u))
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
        return Meaning(given, {**self.variables, **passed}).value(f.arg.body.src[u.arg])

    def _elementwise(self, u: UOp) -> Spread:
        inner = [self.value(s) for s in u.src]
        loops, ndim = union(inner), max(s.array.ndim - len(s.loops) for s in inner)
        args = np.broadcast_arrays(*(s.over(loops, ndim) for s in inner))
        self._small(args[0].shape)
        return Spread(loops, _alu(u, args))

    @staticmethod
    def _small(shape: tuple[int, ...]) -> None:
        if math.prod(shape) > MOST_POINTS:
            raise TraceError(f"{math.prod(shape):,} values at once are too many to check", help="use smaller inputs")

    def _moved(self, u: UOp) -> Spread:
        inner = self.value(u.src[0])
        lead = len(inner.loops)
        return Spread(inner.loops, _moved(inner.array, u.op, map_arg(u.arg, self.number), lead))

    def _reduce(self, u: UOp) -> Spread:
        op, n = u.arg
        inner, ufunc = self.value(u.src[0]), _REDUCE[op]
        if n:
            axes = tuple(range(len(inner.loops), len(inner.loops) + n))
            return Spread(inner.loops, _total(ufunc, inner.array, axes, u.dtype))
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
        return Spread(tuple(r for r in loops if r not in over), _total(ufunc, array, axes, u.dtype))

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

    def _staged(self, u: UOp) -> Spread:
        """A STAGE is computed at all turns of its loops, then read at the indices."""
        stage, indices = u.src[0], [self._position(i) for i in u.src[1:]]
        inner = self.value(stage.src[0])
        own = [r for r in stage.src[1:] if r.op is Ops.RANGE]
        free = tuple(r for r in inner.loops if r not in own)
        loops = union([*(s for pair in indices for s in pair), Spread(free, np.zeros((1,) * len(free)))])
        dense = inner.over((*own, *free), 0)
        dense = np.broadcast_to(dense, (*(self.number(r.src[0]) for r in own), *dense.shape[len(own) :]))
        at = [w.over(loops, 0) for (w, _), r in zip(indices, stage.src[1:]) if r.op is Ops.RANGE]
        at = [np.clip(i, 0, n - 1) for i, n in zip(at, dense.shape)]
        at += [self.value(r).over(loops, 0) for r in free]
        read = dense[tuple(np.broadcast_arrays(*at))] if at else dense
        ok = np.ones((1,) * len(loops), bool)
        for _, valid in indices:
            ok = ok & valid.over(loops, 0)
        return Spread(loops, np.where(ok, read, np.zeros((), read.dtype)))

    # ** memory **

    def state(self, u: UOp) -> Array:
        """The flat memory that a state stands for."""
        if u not in self.states:
            chain = [u]
            while chain[-1].op is Ops.AFTER and _state_below(chain[-1].src[0]) not in self.states:
                chain.append(_state_below(chain[-1].src[0]))
            if chain[-1].op is not Ops.AFTER:
                first = chain.pop()
                self.states[first] = self._fresh(first)
            for after in reversed(chain):
                array = self.state(_state_below(after.src[0])).copy()
                for done in after.src[1:]:
                    self.write(done, array, _state_below(after.src[0]))
                self.states[after] = array
        return self.states[u]

    @staticmethod
    def _fresh(u: UOp) -> Array:
        """Memory that nobody wrote yet."""
        if u.op is not Ops.BUFFER:
            raise TraceError(f"{u!r} has no memory", help="check a part of the program without it")
        return np.zeros(u.size, strong_dtype(u.dtype).np)

    def write(self, done: UOp, array: Array, before: UOp) -> None:
        """Does one write to ``array``, which holds the state ``before``."""
        if done.op is Ops.CALL:
            self.call(done, {before: array})
        store = done.src[0] if done.op is Ops.END else done
        if store.op is not Ops.STORE:
            return
        if store.src[0].op is not Ops.INDEX:
            places = _places(store.src[0], len(array), self.number)
            value = self.value(store.src[1])
            array[places] = np.broadcast_to(value.array, places.shape).view(array.dtype)
        elif self._reads_elsewhere(store, before):
            self.one_by_one(store, array, before)
        else:
            self._at_once(store, array)

    def _at_once(self, store: UOp, array: Array) -> None:
        where, valid = self._position(store.src[0].src[1])
        value = self.value(store.src[1])
        loops = union([where, valid, value])
        places, ok, values = np.broadcast_arrays(*(s.over(loops, 0) for s in (where, valid, value)))
        array[places[ok]] = values[ok]

    @staticmethod
    def _reads_elsewhere(store: UOp, before: UOp) -> bool:
        """Whether the order of a write's turns matters: it reads the written memory at another index."""
        reads = store.src[1].toposort(gate=lambda v: v.op not in _STATES and v.op is not Ops.STAGE)
        return any(v.op is Ops.INDEX and v.src[0] is before and v.src[1:] != store.src[0].src[1:] for v in reads)

    def one_by_one(self, store: UOp, array: Array, before: UOp) -> None:
        """Turn by turn, as loops do it; what is staged was computed before the first turn."""
        reads = store.src[1].toposort(gate=lambda v: v.op not in _STATES and v.op is not Ops.STAGE)
        staged = {v: self.value(v) for v in reads if v.op is Ops.INDEX and v.src[0].op is Ops.STAGE}
        where, valid = self._position(store.src[0].src[1])
        loops = sorted(store.ranges, key=lambda r: int(r.arg[0]))
        sizes = [self.number(r.src[0]) for r in loops]
        if math.prod(sizes) > MOST_TURNS:
            raise TraceError(f"{math.prod(sizes):,} turns one by one are too many to check", help="use smaller inputs")
        for turn in np.ndindex(*sizes):
            env = dict(zip(loops, turn))
            if not _at(valid, env):
                continue
            now = Meaning({**self.states, before: array}, self.variables, {**self.env, **env})
            now.known.update({v: Spread((), _at(s, env)) for v, s in staged.items()})
            array[int(_at(where, env))] = now.value(store.src[1]).array

    # ** kernels **

    def call(self, call: UOp, held: Mapping[UOp, Array]) -> None:
        """Runs one kernel; ``held``: the arrays of arguments that are written."""
        arrays = [
            held[s] if (s := _state_below(a)) in held else self.state(s) for a in call.src[1:] if not a.is_variable
        ]
        run_kernel(call.src[0], [_view(a, array) for a, array in zip(call.src[1:], arrays)], self.variables)


def run_kernel(body: UOp, arrays: Sequence[Array], variables: Mapping[str, int]) -> None:
    """Runs one kernel on the memory of its arguments."""
    if body.op is Ops.COPY:
        arrays[0][...] = arrays[1]
        return
    if body.op is Ops.FUNCTION:  # a precompiled one: its values go to the first arguments
        given = {p: arrays[slot] for slot, p in placeholders(body.arg.body).items()}
        values = [Meaning(given, variables).value(v).array for v in body.arg.body.src]
        for array, value in zip(arrays, values):
            array[: value.size] = value.reshape(-1)
        return
    for done in body.src:
        store = done.src[0] if done.op is Ops.END else done
        target = store.src[0].src[0]
        params = {u: arrays[u.arg.slot] for u in body.toposort() if u.op is Ops.PARAM and not u.is_variable}
        out, means = arrays[target.arg.slot], Meaning(params, variables)
        others = [a for slot, a in enumerate(arrays) if slot != target.arg.slot]
        if store.src[0].op is Ops.INDEX and any(np.shares_memory(out, a) for a in others):
            means.one_by_one(store, out, target)
        else:
            means.write(done, out, target)


def run_linear(linear: UOp, memory: Mapping[UOp, Array], variables: Mapping[str, int]) -> list[tuple[UOp, Array]]:
    """Runs the CALLs of a LINEAR on ``memory`` (other buffers start as zeros): each CALL, and a copy of what it wrote."""
    arrays = dict(memory)
    done: list[tuple[UOp, Array]] = []
    for call in linear.src:
        views = []
        for a in call.src[1:]:
            base = _state_below(a)
            if base not in arrays:
                arrays[base] = np.zeros(base.size, strong_dtype(base.dtype).np)
            views.append(_view(a, arrays[base]))
        run_kernel(call.src[0], views, variables)
        done.append((call, views[0].copy()))
    return done


def _view(argument: UOp, array: Array) -> Array:
    """The memory that a kernel's argument is: a view of ``array``, that of its base."""
    if argument.op in _STATES:
        return array
    inner = _view(argument.src[0], array)
    if argument.op is Ops.SHRINK:
        (start, end), *_ = argument.arg
        return inner[start:end]
    return inner.view(strong_dtype(argument.dtype).np) if argument.op is Ops.BITCAST else inner.reshape(-1)


def _state_below(u: UOp) -> UOp:
    while u.op in GroupOp.Movement or u.op in (Ops.BITCAST, Ops.CAST):
        u = u.src[0]
    return u


def _at(s: Spread, env: Mapping[UOp, int]) -> Array:
    return np.asarray(s.array[tuple(env[r] for r in s.loops)])


def _places(target: UOp, size: int, number: Callable[[Any], int]) -> Array:
    """Where the elements of a view lie in its memory."""
    chain = []
    while target.op in GroupOp.Movement or target.op is Ops.BITCAST:
        chain += [target] if target.op in GroupOp.Movement else []
        target = target.src[0]
    places = np.arange(size)
    for m in reversed(chain):
        places = _moved(places, m.op, map_arg(m.arg, number), 0)
    return places


def _alu(u: UOp, args: Sequence[Array]) -> Any:
    """One elementwise operation, as NumPy computes it at the dtype of its operands."""
    op, dtype = u.op, u.src[-1].dtype
    if op is Ops.SUB:
        return np.not_equal(*args) if dtype is dtypes.bool else np.subtract(*args)
    if op is Ops.NEG:
        return np.logical_not(*args) if dtype is dtypes.bool else np.negative(*args)
    if op is Ops.TRUNC:
        return np.trunc(*args) if dtype.kind == "f" else args[0]
    if op is Ops.CDIV:
        a, b = args
        return np.floor_divide(a, b) + ((np.mod(a, b) != 0) & ((a < 0) != (b < 0)))
    if op not in _BINARY:
        raise TraceError(f"a check does not know what {op.name} means", help="check a part of the program without it")
    return _BINARY[op](*args)


def _total(ufunc: Any, array: Array, axes: tuple[int, ...], dtype: Any) -> Array:
    """A reduction over some axes; of nothing, what it starts from."""
    start = {np.add: 0, np.multiply: 1, np.maximum: dtype.min}[ufunc]
    kind = strong_dtype(dtype).np
    return np.asarray(ufunc.reduce(array.astype(kind, copy=False), axis=axes, dtype=kind, initial=kind.type(start)))


def _moved(array: Array, op: Ops, arg: Any, lead: int) -> Array:
    """One movement op on the axes after the first ``lead``."""
    loops = array.shape[:lead]
    if op is Ops.RESHAPE:
        return array.reshape((*loops, *arg))
    if op is Ops.PERMUTE:
        return array.transpose((*range(lead), *(i + lead for i in arg)))
    if op is Ops.FLIP:
        return np.flip(array, tuple(i + lead for i, f in enumerate(arg) if f))
    if op is Ops.SHRINK:
        return array[(*(slice(None),) * lead, *(slice(a, b) for a, b in arg))]
    if op is Ops.PAD:
        return np.pad(array, (*((0, 0),) * lead, *arg)) if array.ndim else array
    inner = array.reshape((*loops, *(1,) * len(arg), *array.shape[lead:]))
    return np.broadcast_to(inner, (*loops, *arg, *array.shape[lead:]))
