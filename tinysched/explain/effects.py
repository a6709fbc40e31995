"""What writes leave in memory, in plain NumPy: states, kernels, whole LINEARs.

In: memory (a flat array per BUFFER or PARAM), and a write, a state or a LINEAR. Out: memory. A state that is spread over
several devices is one flat array; :meth:`Meaning.split` gives the memory that it lies in.

>>> from tinysched.dtypes import dtypes
>>> x, r = UOp.new_buffer("NUMPY", 3, dtypes.float32), UOp.range(3, 0)
>>> twice = x.after(x.index(r).store(x.index(r) * 2.0).end(r))
>>> Meaning({x: np.arange(3, dtype=np.float32)}).state(twice).tolist()
[0.0, 2.0, 4.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinysched.errors import TraceError
from tinysched.explain.arrays import Array, Spread, bits, kind_of, moved, union
from tinysched.explain.evaluate import STATES, Values
from tinysched.ir.derive import map_arg
from tinysched.ir.function import placeholders
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.sharding import parts_of
from tinysched.ir.uop import UOp

MOST_TURNS = 1 << 16
"""More turns than this are not taken one by one."""


class Meaning(Values):
    """Evaluates nodes, and does writes, over given memory."""

    def state(self, u: UOp) -> Array:
        """The flat memory that a state stands for."""
        if u not in self.states:
            chain = [u]
            while chain[-1].op is Ops.AFTER and state_below(chain[-1].src[0]) not in self.states:
                chain.append(state_below(chain[-1].src[0]))
            if chain[-1].op is not Ops.AFTER:
                first = chain.pop()
                self.states[first] = self._fresh(first)
            for after in reversed(chain):
                self.states[after] = self._after(after)
        return self.states[u]

    def _fresh(self, u: UOp) -> Array:
        """Memory that nobody wrote yet; of several devices, all of it as one."""
        if parts_of(u):
            return self.value(u).array.reshape(-1).copy()
        if u.op is not Ops.BUFFER:
            raise TraceError(f"{u!r} has no memory", help="check a part of the program without it")
        return np.zeros(u.size, kind_of(u.dtype))

    def _after(self, after: UOp) -> Array:
        """The state that an AFTER stands for."""
        before = state_below(after.src[0])
        if any(done.op is Ops.MSTACK for done in after.src[1:]):  # writes to the parts of it, device by device
            written = self.effects(after)
            return Meaning({**self.states, **written}, self.variables).value(before).array.reshape(-1)
        array = self.state(before).copy()
        for done in after.src[1:]:
            self.write(done, array, before)
        return array

    def effects(self, u: UOp) -> dict[UOp, Array]:
        """What a write (or a state, or several) leaves in each memory that it is made to."""
        if u.op is Ops.NOOP:
            return {}
        if u.op is Ops.MSTACK or (u.op is Ops.AFTER and any(done.op is Ops.MSTACK for done in u.src[1:])):
            found: dict[UOp, Array] = {}
            for done in (d for group in u.src[u.op is Ops.AFTER :] for d in (parts_of(group) or (group,))):
                means = Meaning({**self.states, **found}, self.variables)
                found |= means.effects(done)
            return found
        before = u if u.op is Ops.AFTER else state_of(u)
        array = self.state(before)
        if u.op is not Ops.AFTER:
            array = array.copy()
            self.write(u, array, before)
        return self.split(before, array)

    def split(self, state: UOp, array: Array) -> dict[UOp, Array]:
        """A state as the memory that it lies in: one, or the parts on several devices."""
        while state.op is Ops.AFTER and isinstance(state.device, tuple):
            state = state_below(state.src[0])
        if not (parts := parts_of(state)):
            return {state: array}
        axis = state.arg if state.op is Ops.UNSHARD else None
        whole = array.reshape(tuple(map(self.number, state.shape)))
        shapes = [tuple(map(self.number, p.shape)) for p in parts]
        pieces = [whole] * len(parts)
        if axis is not None:
            pieces = np.split(whole, np.cumsum([shape[axis] for shape in shapes])[:-1], axis)
        found: dict[UOp, Array] = {}
        for p, piece in zip(parts, pieces, strict=True):
            memory = state_below(p)
            held = found.setdefault(memory, self.state(memory).copy())
            held[_places(p, len(held), self.number)] = piece
        return found

    def write(self, done: UOp, array: Array, before: UOp) -> None:
        """Does one write to ``array``, which holds the state ``before``."""
        if done.op is Ops.CALL:
            self.call(done, {before: array})
        store = done.src[0] if done.op is Ops.END else done
        if store.op is not Ops.STORE:
            return
        if store.src[0].op is not Ops.INDEX:
            places = _places(store.src[0], len(array), self.number)
            value = np.broadcast_to(self.value(store.src[1]).array, places.shape)
            array[places] = bits(value, store.src[1].dtype, before.dtype)
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
        reads = store.src[1].toposort(gate=lambda v: v.op not in STATES and v.op is not Ops.STAGE)
        return any(v.op is Ops.INDEX and v.src[0] is before and v.src[1:] != store.src[0].src[1:] for v in reads)

    def one_by_one(self, store: UOp, array: Array, before: UOp) -> None:
        """Turn by turn, as loops do it; what is staged was computed before the first turn."""
        reads = store.src[1].toposort(gate=lambda v: v.op not in STATES and v.op is not Ops.STAGE)
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
        arguments = [self._argument(a, held) for a in call.src[1:] if not a.is_variable]
        run_kernel(call.src[0], arguments, self.variables)

    def _argument(self, a: UOp, held: Mapping[UOp, Array]) -> Array:
        """What a kernel is passed: memory, or (a function, before memory is given out) a value that will be in memory."""
        state = state_below(a)
        if state in held:
            return view_of(a, held[state])
        if state.op is Ops.STAGE:
            return view_of(a, self.stored(state)[0].reshape(-1), state)
        if state.op in STATES or parts_of(state):
            return view_of(a, self.state(state))
        return self.value(a).array.reshape(-1).copy()


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


class Ran(NamedTuple):
    """A CALL, and what its arguments held before it ran and the first of them after: copies."""

    call: UOp
    before: tuple[Array, ...]
    after: Array


def run_linear(linear: UOp, memory: Mapping[UOp, Array], variables: Mapping[str, int]) -> list[Ran]:
    """Runs the CALLs of a LINEAR on ``memory`` (other buffers start as zeros)."""
    arrays = dict(memory)
    done: list[Ran] = []
    for call in linear.src:
        views = []
        for a in call.src[1:]:
            base = state_below(a)
            if base not in arrays:
                arrays[base] = _zeros(base, arena=a is not base)
            views.append(view_of(a, arrays[base]))
        before = tuple(v.copy() for v in views)
        run_kernel(call.src[0], views, variables)
        done.append(Ran(call, before, views[0].copy()))
    return done


def _zeros(memory: UOp, arena: bool) -> Array:
    """Memory nobody wrote yet. An arena has two bytes for each of its bytes, for values are held in up to twice the width."""
    return np.zeros((memory.size, 2), np.uint8) if arena else np.zeros(memory.size, kind_of(memory.dtype))


def view_of(argument: UOp, array: Array, base: UOp | None = None) -> Array:
    """The memory that a kernel's argument is: a view of ``array``, that of its base."""
    if argument.op in STATES or argument is base:
        return array
    inner = view_of(argument.src[0], array, base)
    if argument.op is Ops.SHRINK:
        (start, end), *_ = argument.arg
        return inner[start:end]
    if argument.op is not Ops.BITCAST:
        return inner.reshape(-1)
    kind = kind_of(argument.dtype)
    return inner.reshape(-1, 2 * argument.dtype.itemsize)[:, : kind.itemsize].view(kind)[:, 0]


def state_of(write: UOp) -> UOp:
    """The state that a write is made to."""
    if write.op is Ops.AFTER:
        return state_below(write.src[0])
    target = (write.src[0] if write.op is Ops.END else write).src[0]
    return state_below(target.src[0] if target.op is Ops.INDEX else target)


def state_below(u: UOp) -> UOp:
    """The state, or memory, that a view is of."""
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
    places = np.arange(size).reshape(tuple(map(number, target.shape)))
    for m in reversed(chain):
        places = moved(places, m.op, map_arg(m.arg, number), 0)
    return places
