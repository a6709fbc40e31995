"""What UOps mean, written out over NumPy: the judge of rules and passes. Nothing of the engine's arithmetic is used.

Tensor graphs, graphs with loops and graphs in between have one meaning here: every value is an array of its node's
shape (a scalar after rangeify), memory is a flat array per BUFFER or PARAM, a state is the array that its writes leave.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinysched.dtypes import DType, dtypes, strong_dtype
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import INVALID, UOp

NUMPY = {
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.SQRT: np.sqrt, Ops.RECIPROCAL: np.reciprocal,
    Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.FDIV: np.true_divide, Ops.POW: np.power, Ops.MAX: np.maximum,
    Ops.FLOORDIV: np.floor_divide, Ops.FLOORMOD: np.mod, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal, Ops.XOR: np.bitwise_xor, Ops.OR: np.bitwise_or, Ops.AND: np.bitwise_and,
    Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, Ops.CMOD: np.fmod, Ops.WHERE: np.where,
}  # fmt: skip
IDENTITY = {Ops.ADD: 0, Ops.MUL: 1}


def alu(op: Ops, dtype: DType, args: list[Any]) -> Any:
    """One elementwise operation, as NumPy computes it at ``dtype`` (that of the operands)."""
    if op is Ops.SUB:
        return np.not_equal(*args) if dtype is dtypes.bool else np.subtract(*args)
    if op is Ops.NEG:
        return np.logical_not(*args) if dtype is dtypes.bool else np.negative(*args)
    if op is Ops.TRUNC:
        return np.trunc(*args) if dtype.kind == "f" else args[0]
    if op is Ops.CDIV:
        a, b = args
        return np.floor_divide(a, b) + ((np.mod(a, b) != 0) & ((a < 0) != (b < 0)))
    return NUMPY[op](*args)


def np_dtype(dtype: DType) -> Any:
    return strong_dtype(dtype).np


def moved(array: np.ndarray, op: Ops, arg: Any) -> np.ndarray:
    """One movement op, done by NumPy."""
    if op is Ops.RESHAPE:
        return array.reshape(arg)
    if op is Ops.PERMUTE:
        return array.transpose(arg)
    if op is Ops.FLIP:
        return np.flip(array, tuple(i for i, f in enumerate(arg) if f))
    if op is Ops.SHRINK:
        return array[tuple(slice(a, b) for a, b in arg)]
    if op is Ops.PAD:
        return np.pad(array, arg) if array.ndim else array
    return np.broadcast_to(array, (*arg, *array.shape))


class Machine:
    """Evaluates nodes over given memory; ``env`` gives the values of loops and Variables."""

    def __init__(self, memory: Mapping[UOp, np.ndarray], env: Mapping[UOp, int] | None = None):
        self.env = dict(env or {})
        self.states: dict[UOp, np.ndarray] = dict(memory)
        self.known: dict[Any, np.ndarray] = {}

    def value(self, u: UOp) -> np.ndarray:
        """The value of ``u`` where its open loops are as in ``env``."""
        slot = (u, *sorted((r.arg[0], self.env[r]) for r in u.ranges))
        if slot not in self.known:
            with np.errstate(all="ignore"):
                self.known[slot] = np.asarray(self._value(u)).astype(np_dtype(u.dtype), copy=False)
        return self.known[slot]

    def _value(self, u: UOp) -> Any:
        op = u.op
        if op is Ops.CONST:
            return u.arg
        if op is Ops.RANGE or u.is_variable:
            return self.env[u]
        if op in GroupOp.ALU:
            return alu(op, u.src[-1].dtype, self._broadcast([self.value(s) for s in u.src]))
        if op in GroupOp.Movement:
            return moved(self.value(u.src[0]), op, u.arg)
        if op is Ops.CAST:
            return self.value(u.src[0]).astype(np_dtype(u.dtype))
        if op is Ops.BITCAST:
            return self.value(u.src[0]).view(np_dtype(u.dtype))
        if op is Ops.REDUCE:
            return self._reduce(u)
        if op is Ops.STACK:
            return np.stack([self.value(s) for s in u.src])
        if op in GroupOp.Passthrough or op in (Ops.LOAD, Ops.COPY):
            return self.value(u.src[0])
        if op is Ops.INDEX:
            return self._read(u)
        return self.state(u)

    @staticmethod
    def _broadcast(args: list[np.ndarray]) -> list[np.ndarray]:
        return list(np.broadcast_arrays(*args))

    def at(self, env: Mapping[UOp, int]) -> "Machine":
        """The same memory with other values of some loops."""
        inner = Machine(self.states, {**self.env, **env})
        inner.known = self.known
        return inner

    def _reduce(self, u: UOp) -> Any:
        op, n = u.arg
        total = np.full(u.shape, IDENTITY.get(op, u.dtype.min), np_dtype(u.dtype))
        if n:
            steps = iter(self.value(u.src[0]).reshape(-1, *u.shape))
        else:
            steps = (self.at(point).value(u.src[0]) for point in self.points(u.src[1:]))
        for step in steps:
            total = np.asarray(alu(op, u.dtype, [total, step]))
        return total

    def points(self, ranges: tuple[UOp, ...]) -> Any:
        """Every combination of the loops' values, in order."""
        loops = [r for r in ranges if r.op is Ops.RANGE]
        for point in itertools.product(*(range(int(self.value(r.src[0]))) for r in loops)):
            yield dict(zip(loops, point, strict=True))

    def _read(self, u: UOp) -> Any:
        source, *indices = u.src
        if any(i.arg is INVALID or not self.value(i.get_valid()) for i in indices):
            return 0
        position = [int(self.value(i.get_idx())) for i in indices]
        if source.op is Ops.STAGE:
            loops = source.src[1:]
            assert all(p >= 0 for p in position), f"{u} is read at {position}"
            return self.at(dict(zip(loops, position, strict=True))).value(source.src[0])
        array = self.state(source)
        assert 0 <= position[0] < len(array), f"{u} is read at {position} of {len(array)}"
        return array[position[0]]

    # ** memory **

    def state(self, u: UOp) -> np.ndarray:
        """The flat memory that a state stands for."""
        if u not in self.states:
            assert u.op is Ops.AFTER, f"{u} has no memory"
            before = u.src[0]
            while before.op in GroupOp.Movement:
                before = before.src[0]
            array = self.state(before).copy()
            for done in u.src[1:]:
                self._write(done, array, before)
            self.states[u] = array
        return self.states[u]

    def _write(self, done: UOp, array: np.ndarray, before: UOp) -> None:
        """Does one write: of a whole view, or of one element per turn of its loops."""
        store = done.src[0] if done.op is Ops.END else done
        if store.op is Ops.NOOP:
            return
        target, value = store.src
        if target.op is not Ops.INDEX:
            places = self._places(target, len(array))
            array[places] = np.broadcast_to(self.value(value), places.shape).view(array.dtype)
            return
        for u in value.toposort(gate=lambda u: u.op is not Ops.AFTER):
            if u.op is Ops.AFTER and u is not before:
                self.state(u)  # what other kernels leave was there before the first write
        for point in self.points(done.src[1:] if done.op is Ops.END else ()):
            now = Machine({**self.states, before: array}, {**self.env, **point})
            for stage in (s for s in value.toposort() if s.op is Ops.INDEX and s.src[0].op is Ops.STAGE):
                slot = (stage, *sorted((r.arg[0], now.env[r]) for r in stage.ranges if r in now.env))
                if stage.ranges <= now.env.keys():  # what is staged was computed before the first write
                    now.known[slot] = Machine(self.states, now.env).value(stage)
            if now.value(target.src[1].get_valid()):
                array[int(now.value(target.src[1].get_idx()))] = now.value(value)

    @staticmethod
    def _places(target: UOp, size: int) -> np.ndarray:
        chain = []
        while target.op in GroupOp.Movement or target.op is Ops.BITCAST:
            chain += [target] if target.op in GroupOp.Movement else []
            target = target.src[0]
        places = np.arange(size)
        for m in reversed(chain):
            places = moved(places, m.op, m.arg)
        return places


def index_values(u: UOp, env: Mapping[UOp, np.ndarray]) -> np.ndarray:
    """Index arithmetic (or a condition) at many points at once: ``env`` gives the values of loops and Variables."""
    known: dict[UOp, Any] = dict(env)
    for v in u.toposort():
        if v.op is Ops.CONST:
            known[v] = np.asarray(v.arg)
        elif v not in known:
            known[v] = alu(v.op, dtypes.index, [known[s] for s in v.src])
    return known[u]


def every_point(shape: tuple[int, ...], loops: tuple[UOp, ...]) -> dict[UOp, np.ndarray]:
    """For each loop its value at every point of a space of this shape."""
    return dict(zip(loops, np.indices(shape), strict=True))


def same(a: Any, b: Any, *, close: bool = False) -> bool:
    """Equal in dtype, shape and bits (any NaN is any NaN); ``close`` allows rounding, and 0.0 for -0.0."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if close and a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return bool(np.allclose(a, b, rtol=1e-2 if a.dtype.itemsize == 2 else 1e-5, atol=1e-6, equal_nan=True))
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a)[a == 0], np.signbit(b)[a == 0]))
