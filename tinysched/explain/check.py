"""Which pass, and within it which rewrite, changed a value: the graph after every pass, evaluated on the same inputs.

In: a trace (a loaded one will do), and inputs, random ones if not given. The passes are run again and every graph is
evaluated by :mod:`tinysched.explain.evaluate`. Out: :class:`Checked`. Between passes whole graphs are compared. Within a
pass, a rewrite's before and after are compared as functions of their open loops; where a pass is not local it says how
after relates to before (rangeify: a node at the indices the walk gave it; order and memory: kernel by kernel).

>>> from tinysched import Tensor, capture
>>> print(capture((Tensor([1.0, 2.0]).realize() * 3).sum()).check())
every pass keeps every value: callify, prepare, rangeify, simplify, limit buffers, add buffers, split kernels, order, memory
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinysched.dtypes import strong_dtype
from tinysched.errors import ArgumentError, TinyschedError
from tinysched.explain.arrays import Array, Spread, close, kind_of, union
from tinysched.explain.effects import Meaning, run_linear
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import is_memory, parts_of
from tinysched.ir.uop import UOp
from tinysched.schedule.rangeify import rule_of
from tinysched.trace.document import Schedule
from tinysched.trace.inputs import alike
from tinysched.trace.recorder import StageRecord
from tinysched.trace.trace import Trace
from tinysched.trace.whatif import Again, Changes, again


@dataclass(frozen=True)
class Checked:
    """The outcome. ``stage`` is '' where every pass keeps every value; ``rule``, ``step``: the first rewrite that does not."""

    stages: tuple[str, ...]
    stage: str = ""
    rule: str = ""
    step: int | None = None
    text: str = ""

    @property
    def ok(self) -> bool:
        return not self.stage

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return f"every pass keeps every value: {', '.join(self.stages)}"
        where = f", rule {self.rule}" if self.rule else ""
        at = f", step {self.step + 1}" if self.step is not None else ""
        return f"{self.stage} changes a value{where}{at}: {self.text}"


def check(
    trace: Trace, inputs: Mapping[Any, Any] | None = None, *, schedule: int = -1, pipeline: Any = None
) -> Checked:
    """Looks for the first pass, and in it the first rewrite, that changes a value. ``inputs``: arrays by Tensor name."""
    s = trace.schedules[schedule]
    made = again(trace, Changes(pipeline=pipeline), schedule)
    judge = _Judge(made, s, inputs or {})
    names = tuple(stage.name for stage in made.recording.stages[1:])
    found = judge.callify() or next((bad for bad in map(judge.stage, made.recording.stages[2:]) if bad), None)
    return Checked(names, *found) if found else Checked(names)


Bad = tuple[str, str, int | None, str]
"""Stage, rule, step, and what differs."""


class _Judge:
    """Evaluates the graphs of one schedule."""

    def __init__(self, made: Again, s: Schedule, inputs: Mapping[Any, Any]):
        self.made, self.document = made, s
        body = made.body.toposort()
        self.params = [u for u in body if u.op is Ops.PARAM and not u.is_variable]
        self.names = {u: n for i, u in made.start.uops.items() if (n := s.nodes[i].name) is not None}
        self.variables = {str(v.arg.name): v.arg.vmax for v in made.body.variables()}
        bound = (u for u in made.start.uops.values() if u.op is Ops.BIND)
        self.variables |= {str(u.src[0].arg.name): int(u.src[1].arg) for u in bound}
        self.memory = self._inputs(dict(inputs))
        self.last: dict[int, Array] | None = None

    def _inputs(self, given: dict[Any, Any]) -> dict[UOp, Array]:
        """Memory for every argument of the call: as given, else random (copies on several devices are alike)."""
        given = self._dealt(given)
        same = alike(self.made.body)
        rng = np.random.default_rng(0)
        came = {new: old for old, new, _ in self.made.recording.stages[1].replaced if new.op is Ops.PARAM}
        found: dict[UOp, Array] = {}
        known: dict[UOp, Array] = {}
        for u in self.params:
            name = self.names.get(came.get(u, u)) or self.names.get(u)
            dtype = strong_dtype(u.dtype).np
            if name in given:
                value = given.pop(name)
                array = np.array(value.numpy() if hasattr(value, "numpy") else value, dtype).reshape(-1)
                if array.size != u.size:
                    raise ArgumentError(f"{name} has {u.size} elements, not {array.size}")
            else:
                numbers: Any = rng.standard_normal(u.size) if dtype.kind == "f" else rng.integers(0, 3, u.size)
                array = numbers.astype(dtype)
            array = found.get(same.get(u, u), array.astype(kind_of(u.dtype), copy=False))
            found[u] = known[came[u]] if came.get(u) in known else array
            known.setdefault(came.get(u, u), found[u])  # fresh memory starts as what it takes the place of
        if given:
            raise ArgumentError(
                f"no input is called {next(iter(given))!r}", help=f"there are {sorted(self.names.values())}"
            )
        return found

    def _dealt(self, given: dict[Any, Any]) -> dict[Any, Any]:
        """What is given for a value on several devices as what is given for its parts, which get names of their own."""
        for u in [u for u, name in self.names.items() if name in given and parts_of(u) and is_memory(u)]:
            value = given.pop(name := self.names[u])
            array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
            shape, parts = tuple(int(n) for n in u.shape), parts_of(u)
            if array.shape != shape:
                raise ArgumentError(f"{name} has shape {shape}, not {array.shape}")
            pieces = np.split(array, len(parts), u.arg) if u.op is Ops.UNSHARD else [array] * len(parts)
            for p, piece in zip(parts, pieces, strict=True):
                part = f"{name} on {p.device}"
                self.names[p.base], given[part] = part, piece
        return given

    def meaning(self) -> Meaning:
        """A fresh evaluator over the inputs."""
        return Meaning(self.memory, self.variables)

    # ** whole graphs **

    def results(self, graph: UOp) -> dict[int, Array]:
        """What a graph leaves in each argument that it writes, by slot."""
        if graph.op is Ops.LINEAR:
            memory = {u: a.copy() for u, a in self.memory.items()}
            run_linear(graph, memory, self.variables)
            written = self.last or {}
            return {u.arg.slot: memory[u] for u in self.params if u.arg.slot in written}
        means = self.meaning()
        found: dict[int, Array] = {}
        for root in sorted((r for r in graph.src if r.op is Ops.AFTER), key=_depth):
            found |= {_memory(u).arg.slot: array for u, array in means.effects(root).items()}
        return found

    def differs(self, graph: UOp) -> str:
        """What is different after a pass, '' if nothing."""
        now, before = self.results(graph), self.last
        self.last = now if before is None else before
        for slot, array in (before or {}).items():
            if slot not in now:
                now[slot] = self.memory[next(u for u in self.params if u.arg.slot == slot)]
            if not close(array, now[slot]):
                return f"p{slot} is {_short(now[slot])} instead of {_short(array)}"
        return ""

    # ** within a pass **

    def callify(self) -> Bad | None:
        """The user's nodes against those of callify's body."""
        record = self.made.recording.stages[1]
        came = {new: old for old, new, _ in record.replaced if new.op is Ops.PARAM}
        theirs = Meaning({old: self.memory[new] for new, old in came.items() if new in self.memory}, self.variables)
        ours = self.meaning()
        pairs = sorted(record.replaced, key=lambda pair: len(pair[0].toposort()))
        for old, new, _ in pairs:
            known = all(u in theirs.states for u in old.toposort() if u.op is Ops.BUFFER)
            if not known or old.op in (Ops.BUFFER, Ops.SINK, Ops.MSTACK):  # parts are not looked at one by one
                continue
            if not _agree(theirs, old, ours, new):
                return record.name, "", None, f"{self._called(old)} became {new!r}, which has another value"
        self.differs(self.made.body)
        return None

    def stage(self, record: StageRecord) -> Bad | None:
        if ": " in record.name or not record.end.src:  # inside of a function, whose LINEAR takes its place later
            return None
        if not (text := self._graph_differs(record)):
            return None
        where = self._rewrites(record) or self._replacements(record) or self._kernels(record) or ("", None, text)
        return record.name, *where

    def _graph_differs(self, record: StageRecord) -> str:
        try:
            return self.differs(record.end)
        except (TinyschedError, ValueError, IndexError, KeyError, TypeError, AssertionError) as error:
            return f"its graph has no meaning ({error})"

    def _rewrites(self, record: StageRecord) -> tuple[str, int, str] | None:
        """The first rewrite whose before and after are different functions."""
        for k, told in enumerate(record.steps):
            if told[0] != "rewrite":
                continue
            _, rule, before, after = told
            if not self._same(before, after):
                return rule.name, k, f"{self._called(before)} became {self._called(after)} ({rule.doc})"
        return None

    def _replacements(self, record: StageRecord) -> tuple[str, int | None, str] | None:
        """The first node that a pass wrote anew with another meaning."""
        indices = {told[1]["node"]: told[1]["out"] for told in record.steps if told[0] == "ranges"}
        for old, new, _ in record.replaced:
            if old.op in (Ops.SINK, Ops.CALL) or new.op is Ops.LINEAR:
                continue
            ok = self._related(old, new, indices[old]) if old in indices else self._same(old, new)
            if not ok:
                rule = rule_of(old) if indices else ""
                return rule, None, f"{self._called(old)} became {new!r}"
        return None

    def _kernels(self, record: StageRecord) -> tuple[str, int | None, str] | None:
        """The first kernel of a LINEAR that does not write what its state, or the kernel before, was to hold."""
        if record.end.op is not Ops.LINEAR:
            return None
        memory = {u: a.copy() for u, a in self.memory.items()}
        done = run_linear(record.end, memory, self.variables)
        for (k, (call, array)), wanted in zip(enumerate(done), self._wanted(record, len(done))):
            if wanted is not None and not close(array, wanted):
                name = getattr(call.src[0].arg, "name", "copy")
                return "", None, f"kernel {k} ({name}) does not write what it did before this pass"
        return None

    def _wanted(self, record: StageRecord, count: int) -> Iterator[Array | None]:
        if record.root.op is Ops.LINEAR:
            memory = {u: a.copy() for u, a in self.memory.items()}
            yield from (array for _, array in run_linear(record.root, memory, self.variables))
            return
        became = {new: old for old, new, _ in record.replaced}
        means = self.meaning()
        states = {s: u for u in record.root.toposort() if u.op is Ops.AFTER for s in u.src[1:] if s.op is Ops.CALL}
        for call in record.end.src:
            state = states.get(became.get(call, call))
            yield means.state(state) if state is not None else None

    # ** two nodes **

    def _same(self, before: UOp, after: UOp) -> bool:
        """Whether two nodes are the same function of their loops, or leave the same memory."""
        if before is after:
            return True
        try:
            if before.op in (Ops.STORE, Ops.END, Ops.NOOP) or (before.op is Ops.AFTER and after.op is Ops.AFTER):
                return self._same_effect(before, after)
            return before.op is Ops.SINK or _agree(self.meaning(), before, self.meaning(), after)
        except (TinyschedError, ValueError, IndexError, KeyError, TypeError):
            return False

    def _same_effect(self, before: UOp, after: UOp) -> bool:
        """Whether two writes, or two states, leave the same in memory."""
        means = self.meaning()
        if before.op is Ops.AFTER:
            return close(means.state(before), self.meaning().state(after))
        one, two = means.effects(before), self.meaning().effects(after)
        return all(close(one.get(m, means.state(m)), two.get(m, means.state(m))) for m in one | two)

    def _related(self, old: UOp, new: UOp, out: tuple[UOp, ...]) -> bool:
        """Rangeify's relation: the new node is the old value at the indices that the walk gave it."""
        if old.op in (Ops.STORE, Ops.AFTER, Ops.SINK):
            return True
        means = self.meaning()
        whole, now = means.value(old).array, means.value(new)
        places, valid = [means.value(i.get_idx()) for i in out], [means.value(i.get_valid()) for i in out]
        loops = union([now, *places, *valid])
        at = np.broadcast_arrays(
            *(p.over(loops, 0) for p in places), *(v.over(loops, 0) for v in valid), now.over(loops, 0)
        )
        n = len(out)
        ok = np.ones(at[-1].shape, bool)
        for v, p, size in zip(at[n : 2 * n], at[:n], whole.shape):
            ok = ok & v.astype(bool) & (p >= 0) & (p < size)
        return close(whole[tuple(p[ok] for p in at[:n])], at[-1][ok])

    def _called(self, u: UOp) -> str:
        return f"`{self.names[u]}`" if u in self.names else repr(u)


def _memory(u: UOp) -> UOp:
    while u.op not in (Ops.PARAM, Ops.BUFFER):
        u = u.src[0]
    return u


def _depth(u: UOp) -> int:
    n = 0
    while u.op not in (Ops.PARAM, Ops.BUFFER):
        n += u.op is Ops.AFTER
        u = u.src[0]
    return n


def _agree(a: Meaning, u: UOp, b: Meaning, v: UOp) -> bool:
    """Whether two nodes have the same values: states as memory, others over the loops of both."""
    if u.op is Ops.AFTER and v.op is Ops.AFTER:
        return close(a.state(u), b.state(v))
    if v.op is Ops.AFTER:
        return close(a.value(u).array.reshape(-1), b.state(v)[: a.value(u).array.size])
    one, two = a.value(u), b.value(v)
    loops = union([one, two])
    return close(_over(one, loops), _over(two, loops))


def _over(s: Spread, loops: tuple[UOp, ...]) -> Array:
    return s.over(loops, s.array.ndim - len(s.loops))


def _short(a: Array) -> str:
    text = ", ".join(f"{v:.6g}" for v in a.reshape(-1)[:4].astype(float))
    return f"[{text}{', …' if a.size > 4 else ''}]"
