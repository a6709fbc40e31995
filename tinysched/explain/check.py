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

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tinysched.dtypes import strong_dtype
from tinysched.errors import ArgumentError, SpecError, TinyschedError
from tinysched.explain.arrays import Array, Spread, close, kind_of, union
from tinysched.explain.blame import Words, difference, indices_text, kernel_of
from tinysched.explain.effects import Meaning, Ran, run_linear, state_below, view_of
from tinysched.explain.walked import differs_at, wrong_source, wrong_view
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import is_memory, parts_of
from tinysched.ir.spec import STAGE_SPECS, verify
from tinysched.ir.symbolic.movement import Indices
from tinysched.ir.uop import UOp
from tinysched.schedule.rangeify import rule_of
from tinysched.trace.document import Schedule
from tinysched.trace.inputs import alike
from tinysched.trace.recorder import StageRecord
from tinysched.trace.trace import Trace
from tinysched.trace.whatif import Again, Changes, again


@dataclass(frozen=True)
class Checked:
    """The outcome. ``stage`` is '' where every pass keeps every value; ``rule``, ``step``: the first rewrite that does not.

    ``text`` says what is wrong, ``verb`` what the pass does: it changes a value, dies, or leaves a graph that is not legal.
    ``trace``: the program as it was scheduled for this, in which that stage and step are.
    """

    stages: tuple[str, ...]
    stage: str = ""
    rule: str = ""
    step: int | None = None
    text: str = ""
    verb: str = "changes a value"
    trace: Trace | None = field(default=None, repr=False, compare=False)

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
        return f"{self.stage} {self.verb}{where}{at}: {self.text}"


def check(
    trace: Trace, inputs: Mapping[Any, Any] | None = None, *, schedule: int = -1, pipeline: Any = None
) -> Checked:
    """Looks for the first pass, and in it the first rewrite, that changes a value. ``inputs``: arrays by Tensor name."""
    s = trace.schedules[schedule]
    made = again(trace, Changes(pipeline=pipeline, partly=True), schedule)
    judge = _Judge(made, s, inputs or {}, schedule)
    names = tuple(stage.name for stage in made.recording.stages[1:])
    ended = [record for record in made.recording.stages[2:] if record.ended]  # a pass that died left nothing to judge
    found = judge.callify() or next((bad for bad in map(judge.stage, _in_turn(ended)) if bad), None)
    if not found and made.died is not None:
        found = judge.illegal or Bad(names[-1], "", None, f"{type(made.died).__name__}: {made.died}", "dies")
    bad = found or Bad("", "", None, "")
    return Checked(names, bad.stage, bad.rule, bad.step, bad.text, bad.verb, made.trace)


class Bad(NamedTuple):
    """A pass that is at fault, the rule and the step where that is known, what is wrong, and what the pass does, in short."""

    stage: str
    rule: str
    step: int | None
    text: str
    verb: str = "changes a value"


NO_MEANING = (TinyschedError, ValueError, IndexError, KeyError, TypeError, AssertionError)
"""What evaluating a graph that is none ends in."""


def _in_turn(stages: Sequence[StageRecord]) -> list[StageRecord]:
    """Passes as they end: calls are resolved, innermost first, once the bodies of functions have their LINEARs."""
    last = ("resolve", "memory")
    early = [s for s in stages if _pass_of(s) not in last]
    return early + [s for name in last for s in reversed(stages) if _pass_of(s) == name]


def _pass_of(stage: StageRecord) -> str:
    """The name of a pass, without that of the function that it is in."""
    return stage.name.rpartition(": ")[2]


class _Judge:
    """Evaluates the graphs of one schedule."""

    def __init__(self, made: Again, s: Schedule, inputs: Mapping[Any, Any], which: int):
        self.made, self.which = made, which
        body = made.body.toposort()
        self.params = [u for u in body if u.op is Ops.PARAM and not u.is_variable]
        self.names = {u: n for i, u in made.start.uops.items() if (n := s.nodes[i].name) is not None}
        self.variables = {str(v.arg.name): v.arg.vmax for v in made.body.variables()}
        bound = (u for u in made.start.uops.values() if u.op is Ops.BIND)
        self.variables |= {str(u.src[0].arg.name): int(u.src[1].arg) for u in bound}
        self.memory = self._inputs(dict(inputs))
        self.last: dict[int, Array] | None = None
        self.illegal: Bad | None = None
        self.bodies: dict[str, _Judge] = {}
        """Of each function that is scheduled on its own the judge of its body."""

    @functools.cached_property
    def words(self) -> Words:
        """What things are called; only needed where something differs."""
        return Words(self.made, self.which)

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
                array = _random(rng, u)
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
            if text := difference(now[slot], array):
                return f"p{slot}: {text}"
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
            if text := _differ(theirs, old, ours, new):
                return Bad(record.name, "", None, f"{self.words.node(old)} became {new!r}: {text}")
        self.differs(self.made.body)
        return None

    def stage(self, record: StageRecord) -> Bad | None:
        function = record.name.rpartition(": ")[0]
        if record.calls:
            self.bodies[function] = self._of_body(record.root)
        return (self.bodies[function] if function else self)._stage(record)

    def _of_body(self, body: UOp) -> _Judge:
        """A judge of the body of a function, over memory of its own."""
        judge = copy.copy(self)
        judge.params = [u for u in body.toposort() if u.op is Ops.PARAM and not u.is_variable]
        rng = np.random.default_rng(0)
        judge.memory = {u: _random(rng, u) for u in judge.params}
        judge.last = judge.illegal = None
        judge.differs(body)
        return judge

    def _stage(self, record: StageRecord) -> Bad | None:
        if not record.end.src:
            return None
        if text := self._graph_differs(record):
            where = self._rewrites(record) or self._replacements(record) or self._kernels(record) or ("", None, text)
            return self.illegal or Bad(record.name, *where)
        self.illegal = self.illegal or self._is_illegal(record)
        return None

    def _graph_differs(self, record: StageRecord) -> str:
        try:
            return self.differs(record.end)
        except NO_MEANING as error:
            return f"its graph has no meaning ({error})"

    def _is_illegal(self, record: StageRecord) -> Bad | None:
        """A pass that keeps every value, but leaves a graph that later ones are not made for. (Ours never do.)"""
        try:
            verify(record.end, STAGE_SPECS[_pass_of(record)])
        except SpecError as error:
            what = f"{error.what} ({self.words.node(error.node)}: {error.node!r})"
            return Bad(record.name, "", None, what, "leaves a graph that is not legal, and a later pass goes wrong")
        return None

    def _rewrites(self, record: StageRecord) -> tuple[str, int, str] | None:
        """The first rewrite whose before and after are different functions."""
        for k, told in enumerate(record.steps):
            if told[0] != "rewrite":
                continue
            _, rule, before, after = told
            if text := self._difference(before, after):
                return rule.name, k, f"{self.words.node(before)} became {after!r} ({rule.doc}): {text}"
        return None

    def _replacements(self, record: StageRecord) -> tuple[str, int | None, str] | None:
        """The first node that a pass wrote anew with another meaning."""
        indices = {told[1]["node"]: told[1] for told in record.steps if told[0] == "ranges"}
        for old, new, _ in record.replaced:
            if old.op in (Ops.SINK, Ops.CALL) or new.op is Ops.LINEAR:
                continue
            if old in indices:
                if found := self._walked(old, new, indices[old]["in"], indices[old]["out"]):
                    return found
            elif text := self._difference(old, new):
                return rule_of(old) if indices else "", None, f"{self.words.node(old)} became {new!r}: {text}"
        return None

    def _walked(self, old: UOp, new: UOp, ins: Indices, out: Indices) -> tuple[str, None, str] | None:
        """A node of rangeify's that is not the old value at the indices that the walk gave it."""
        if old.op in (Ops.STORE, Ops.AFTER, Ops.SINK) or not (text := differs_at(self.meaning(), old, new, out)):
            return None
        called = self.words.node(old)
        if (found := wrong_view(self.meaning(), old, ins, out)) is None:
            wrong = wrong_source(self.meaning(), old, new, ins)
            how = f". It reads {self.words.node(wrong[0])} as {wrong[1]!r}" if wrong else ""
            return rule_of(old), None, f"{called} became {new!r}: {text}{how}"
        view, at, below = found
        how = f"{self.words.node(view)} at {indices_text(at)} is read as its source at {indices_text(below)}"
        return rule_of(old), None, f"{called} became {new!r}: {text}. {how}, which is another element"

    def _kernels(self, record: StageRecord) -> tuple[str, int | None, str] | None:
        """The first kernel of a LINEAR that does not write what its state, or the kernel before, was to hold."""
        if record.end.op is not Ops.LINEAR:
            return None
        memory = {u: a.copy() for u, a in self.memory.items()}
        done = run_linear(record.end, memory, self.variables)
        for k, (ran, (wanted, makers)) in enumerate(zip(done, self._wanted(record))):
            if wanted is not None and not close(ran.after, wanted.after):
                return "", None, kernel_of(self.words, k, done, wanted, makers)
        return None

    def _wanted(self, record: StageRecord) -> Iterator[tuple[Ran | None, Sequence[int | None]]]:
        """What each kernel found and left before the pass, and the kernels that make what its arguments should hold."""
        if record.root.op is Ops.LINEAR:
            memory = {u: a.copy() for u, a in self.memory.items()}
            yield from ((ran, [None] * len(ran.before)) for ran in run_linear(record.root, memory, self.variables))
            return
        became = {new: old for old, new, _ in record.replaced}
        position = {became.get(call, call): k for k, call in enumerate(record.end.src)}
        means = self.meaning()
        states = {s: u for u in record.root.toposort() if u.op is Ops.AFTER for s in u.src[1:] if s.op is Ops.CALL}
        for call in position:
            if (state := states.get(call)) is None:
                yield None, ()
                continue
            given = [(a, state_below(a)) for a in call.src[1:]]
            before = tuple(view_of(a, means.state(s)) for a, s in given)
            makers = [position.get(s.src[-1]) if s.op is Ops.AFTER else None for _, s in given]
            yield Ran(call, before, means.state(state)), makers

    # ** two nodes **

    def _difference(self, before: UOp, after: UOp) -> str:
        """How two nodes differ as functions of their loops, or in what they leave in memory; '' if they do not."""
        if before is after or before.op is Ops.SINK:
            return ""
        try:
            if before.op in (Ops.STORE, Ops.END, Ops.NOOP) or (before.op is Ops.AFTER and after.op is Ops.AFTER):
                return self._other_effect(before, after)
            if before.op is Ops.STAGE and after.op is Ops.AFTER:  # a candidate buffer, and memory after it was written
                held, around = self.meaning().stored(before)
                return "" if around else difference(self.meaning().state(after)[: held.size], held.reshape(-1))
            return _differ(self.meaning(), before, self.meaning(), after)
        except NO_MEANING as error:
            return f"it has no meaning ({error})"

    def _other_effect(self, before: UOp, after: UOp) -> str:
        """How what two writes, or two states, leave in memory differs."""
        means, other = self.meaning(), self.meaning()
        if before.op is Ops.AFTER:
            return difference(other.state(after), means.state(before))
        if after.op is Ops.CALL:  # a kernel, cut from a write; what it writes is its first argument
            array = other.state(memory := state_below(after.src[1])).copy()
            other.call(after, {memory: array})
            return difference(array, next(iter(means.effects(before).values())))
        one, two = means.effects(before), other.effects(after)
        found = (difference(two.get(m, means.state(m)), one.get(m, means.state(m))) for m in one | two)
        return next(filter(None, found), "")


def _random(rng: np.random.Generator, u: UOp) -> Array:
    """What memory holds where nobody says what."""
    dtype = strong_dtype(u.dtype).np
    numbers: Any = rng.standard_normal(u.size) if dtype.kind == "f" else rng.integers(0, 3, u.size)
    return np.asarray(numbers.astype(dtype).astype(kind_of(u.dtype), copy=False))


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


def _differ(a: Meaning, u: UOp, b: Meaning, v: UOp) -> str:
    """How the values of two nodes differ: states as memory, others over the loops of both."""
    if u.op is Ops.AFTER and v.op is Ops.AFTER:
        return difference(b.state(v), a.state(u))
    if v.op is Ops.AFTER:
        return difference(b.state(v)[: a.value(u).array.size], a.value(u).array.reshape(-1))
    one, two = a.value(u), b.value(v)
    loops = union([one, two])
    return difference(_over(two, loops), _over(one, loops))


def _over(s: Spread, loops: tuple[UOp, ...]) -> Array:
    return s.over(loops, s.array.ndim - len(s.loops))
