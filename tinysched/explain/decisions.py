"""Why: the chain of decisions about a value, a kernel, a line or a buffer; the last one is the verdict.

In: a trace, and a Tensor (or its name), a node's id, a :class:`Kernel` or "kernel 2", a :class:`Buffer` or "b3", a
:class:`Line` or "model.py:7". Out: :class:`Why`, which prints as sentences and holds the steps they are made of.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
>>> y = x * 2
>>> print(capture(y.sum(0), inputs={"x": x, "y": y}).decisions.why("y").verdict)
`y` is fused: only sum ⟂0 reads it, at [R1, r0], so it is computed where it is needed (SINGLE_CONSUMER).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from tinysched.errors import ArgumentError
from tinysched.explain.flips import FORCED, NOT_TRIED, WHOLE, flip, words
from tinysched.explain.sentences import sentence
from tinysched.explain.shown import shown
from tinysched.explain.speak import MOVES, Speaker, count, line_text, listed, size, speaker
from tinysched.ir.uop import UOp
from tinysched.tensor.core import Tensor
from tinysched.trace.document import Buffer, Decided, Edge, Kernel, Line, Node, Rewrite, Schedule
from tinysched.trace.follow import At
from tinysched.trace.rebuild import below
from tinysched.trace.targets import find, is_line
from tinysched.trace.trace import Trace

_KERNEL, _BUFFER = re.compile(r"(?:kernel |k)(\d+)"), re.compile(r"(?:buffer )?b(\d+)")


TRY = "What would change each of these was not tried (flips=True tries it)."


@dataclass(frozen=True)
class Told:
    """One step of a chain: where it was told (stage and step, by position), and the sentence."""

    stage: int
    step: int
    reason: str
    text: str


@dataclass(frozen=True)
class Why:
    """What was decided about one thing. ``parts``: the same for the values inside, for a kernel or a line."""

    subject: str
    chain: tuple[Told, ...] = ()
    lines: tuple[str, ...] = ()
    where: str = ""
    flip: str = ""
    facts: tuple[str, ...] = ()
    parts: tuple[Why, ...] = ()

    @property
    def verdict(self) -> str:
        """The last word."""
        return self.chain[-1].text if self.chain else self.where or (self.facts[0] if self.facts else self.subject)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of the chain, in order."""
        return tuple(told.reason for told in self.chain)

    def __str__(self) -> str:
        return "\n".join([*self._text("", self.flip), *([TRY] if self._not_tried() and not self.flip else [])])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return shown(str(self))

    def _not_tried(self) -> bool:
        return self.flip == NOT_TRIED or any(part._not_tried() for part in self.parts)

    def _text(self, indent: str, flip: str) -> list[str]:
        text = [f"{indent}{self.subject}"] + [f"{indent}  line  {line}" for line in self.lines]
        *before, last = self.chain or (None,)
        text += [f"{indent}  then  {told.text}" for told in before if told is not None]
        text += [f"{indent}  so    {last.text}"] if last is not None else []
        text += [f"{indent}  if    {flip}"] if flip else []
        text += [f"{indent}  now   {self.where}"] if self.where else []
        text += [f"{indent}  {fact}" for fact in self.facts]
        below = ((part, "" if part.flip == NOT_TRIED else part.flip) for part in self.parts)
        return text + [line for part, tried in below for line in part._text(indent + "  ", tried)]


class Decisions:
    """The decisions of a trace."""

    def __init__(self, trace: Trace):
        self.trace = trace

    def __repr__(self) -> str:
        n = sum(isinstance(step, Decided) for s in self.trace.schedules for stage in s.stages for step in stage.steps)
        return f"<{n} decisions of {self.trace.title!r}: why(x) tells those about x, all() every one>"

    def why(self, x: Any, *, schedule: int | None = None, flips: bool = False) -> Why:
        """The chain of decisions about ``x``. ``flips`` tries what would turn the verdict. Without ``schedule`` the last
        one that knows ``x`` answers. Raises :class:`ArgumentError` where none does."""
        order = range(len(self.trace.schedules))[::-1] if schedule is None else [schedule % len(self.trace.schedules)]
        error: ArgumentError | None = None
        for which in order:
            try:
                return _Asked(self.trace, which, flips).why(x)
            except ArgumentError as e:
                error = error or e
        raise error or ArgumentError(
            f"{self.trace.title!r} has no schedules", help="capture something that is computed"
        )

    def all(self, schedule: int = -1) -> list[Told]:
        """Every decision of a schedule as a sentence."""
        s = self.trace.schedules[schedule]
        return [
            Told(k, n, step.reason, sentence(self.trace, s, step))
            for k, stage in enumerate(s.stages)
            for n, step in enumerate(stage.steps)
            if isinstance(step, Decided)
        ]


class _Asked:
    """One question, asked of one schedule."""

    def __init__(self, trace: Trace, which: int, flips: bool):
        self.trace, self.which, self.flips = trace, which, flips
        self.s: Schedule = trace.schedules[which]
        self.say: Speaker = speaker(trace, self.s)

    def why(self, x: Any) -> Why:
        if isinstance(x, Kernel) or (isinstance(x, str) and _KERNEL.fullmatch(x)):
            return self.kernel(self._position(self.s.kernels, x, _KERNEL, "kernel"))
        if isinstance(x, Buffer) or (isinstance(x, str) and _BUFFER.fullmatch(x) and not self._is_name(x)):
            return self.buffer(self._position(self.s.buffers, x, _BUFFER, "buffer"))
        ids = find(self.trace, self.s, x)
        by_line = isinstance(x, Line) or (not isinstance(x, (Tensor, UOp)) and not self._is_name(x) and self._lines(x))
        return self.line(x, ids) if by_line else self.value(ids[-1])

    def _is_name(self, x: Any) -> bool:
        return isinstance(x, str) and any(n.name == x for n in self.s.nodes)

    def _lines(self, x: Any) -> list[Line]:
        return [line for line in self.trace.lines if is_line(line, x)]

    @staticmethod
    def _position(table: tuple[Any, ...], x: Any, pattern: re.Pattern[str], what: str) -> int:
        if not isinstance(x, str):
            found = [i for i, known in enumerate(table) if known is x] or [i for i, k in enumerate(table) if k == x]
        else:
            match = pattern.fullmatch(x)
            found = [i for i in range(len(table)) if match is not None and i == int(match[1])]
        if not found:
            raise ArgumentError(f"there is no {what} {x!r:.60}", help=f"there are {len(table)}, from 0")
        return found[0]

    # ** a value **

    def value(self, i: int) -> Why:
        steps = self._steps(i)
        chain = tuple(Told(k, n, self._reason(step), self._sentence(i, (k, n, step))) for k, n, step in steps)
        return Why(
            subject=self._subject(i),
            chain=chain,
            lines=tuple(line_text(line) for line in self.say.lines(i)),
            where=self.where(i),
            flip=self._flip(steps),
        )

    def _steps(self, i: int) -> list[At]:
        """The steps about a value, or about the state that it is a view of; what was decided on each device is told once."""
        while not (steps := self.say.follow.steps(i)):
            if self.s.nodes[i].op in MOVES:
                i = self.s.nodes[i].src[0]
            else:
                break
        if (inner := self._in_function(i)) is not None:
            steps = [*steps, *self._steps(inner)]
        if len({b.device for b in self.s.buffers}) < 2:
            return steps
        once: dict[Any, At] = {}
        for at in steps:
            d = at[2]
            once.setdefault((at[0], d.verdict, d.reason) if isinstance(d, Decided) else at[:2], at)
        return list(once.values())

    def _in_function(self, i: int) -> int | None:
        """The value in the body of a function that a call gives."""
        became, nodes, node, seen = self.say.follow.became, self.s.nodes, i, {i}
        while nodes[node].op == "GETTUPLE":
            values = (e.new for e in became.get(node, ()) if e.new not in seen and nodes[e.new].op != "AFTER")
            if (value := next(values, None)) is None:
                break
            node = value
            seen.add(node)
        if (inner := self.say.follow.in_body(node)) is not None:
            return inner
        return node if node != i and nodes[node].op != "GETTUPLE" else None

    def _of_body(self, i: int) -> list[int]:
        """The kernels of a function that is scheduled on its own (of all its calls with arguments of these shapes)."""
        graph: set[int] = set()
        for reader, n in enumerate(self.s.nodes):
            if n.op == "GETTUPLE" and n.src == (i,) and (value := self.say.follow.in_body(reader)) is not None:
                graph.update(below(self.s.nodes, (value,)))
        return [k for k, kernel in enumerate(self.s.kernels) if not graph.isdisjoint(kernel.nodes)]

    def _subject(self, i: int) -> str:
        name, shape = self.say.name(i), self.say.shape(i)
        return f"{name} ({shape})" if shape else name

    def _reason(self, step: Any) -> str:
        return step.reason if isinstance(step, Decided) else self.trace.rules[step.rule].name

    def _sentence(self, i: int, at: At) -> str:
        k, n, step = at
        if not isinstance(step, Rewrite):
            return sentence(self.trace, self.s, step)
        rule = self.trace.rules[step.rule]
        became = self.say.name(step.after)
        return f"{self.say.name(i)} became {became} by rule {rule.name} ({rule.doc}), step {n + 1} of {self.s.stages[k].name}."

    def _flip(self, steps: list[At]) -> str:
        told = [at for at in steps if isinstance(at[2], Decided) and at[2].reason not in WHOLE]
        told = told or [at for at in steps if isinstance(at[2], Decided)]
        if not told:
            return ""
        at = told[-1]
        d = at[2]
        assert isinstance(d, Decided)
        stored = any((f.stage, f.step) == at[:2] for f in self.s.flips)
        tried = self.flips or stored or d.reason in FORCED
        return words(flip(self.trace, self.which, at) if tried else None, d)

    def where(self, i: int) -> str:
        """Where a value went: the kernels that compute it, its buffer, or the rule that removed it."""
        n = self.s.nodes[i]
        if (inner := self._in_function(i)) is not None:
            return self.where(inner)
        if n.op == "FUNCTION" and (inside := self._of_body(i)):
            return f"Its body is computed in {_kernels(inside)}."
        if n.kind == "memory" and n.op != "AFTER":
            used = [
                k for k, kernel in enumerate(self.s.kernels) if any(self.s.buffers[b].node == i for b in kernel.buffers)
            ]
            return (
                f"It is memory, read or written by {_kernels(used)}." if used else "It is memory that no kernel uses."
            )
        if n.kind == "const":
            return "A constant: part of the program that reads it."
        inside = [k for k, kernel in enumerate(self.s.kernels) if i in kernel.nodes]
        stored = [b for b, buffer in enumerate(self.s.buffers) if buffer.node == i]
        if inside:
            return f"Computed in {_kernels(inside)}" + "".join(f", stored in {self._buffer(b)}" for b in stored) + "."
        return self._gone(i)

    def _gone(self, i: int) -> str:
        if (seen := self._memory_below(i)) is not None:
            reads = self._reads(seen)
            how = f" ({listed([f'`{r}`' for r in reads], 3)})" if reads else ""
            return f"A view of {self.say.name(seen)}: no kernel computes it, its readers index memory{how}."
        e = self.say.follow.gone(i)
        if e is None:
            return "No kernel computes it."
        stage = self.s.stages[e.stage]
        became = self.say.name(e.new)
        if e.rule is not None:
            rule = self.trace.rules[e.rule]
            return f"Removed by rule {rule.name} at step {e.step + 1} of {stage.name}: it became {became}."
        if self.s.nodes[i].op in MOVES:
            return f"No counterpart after {stage.name}: it became index arithmetic in its reader ({became})."
        return f"It became {became} in {stage.name}."

    def _memory_below(self, i: int) -> int | None:
        """The memory that a movement op shows."""
        while self.s.nodes[i].op in MOVES:
            i = self.s.nodes[i].src[0]
        return i if self.s.nodes[i].op in ("BUFFER", "PARAM") else None

    def _reads(self, memory: int) -> list[str]:
        """The indices at which kernels read some memory."""
        known = {e.new for e in self.say.follow.became.get(memory, [])} | {memory}
        return list(
            dict.fromkeys(
                n.expr for n in (self.s.nodes[n.src[1]] for n in self._indexed if n.src[0] in known) if n.expr
            )
        )

    @functools.cached_property
    def _indexed(self) -> list[Node]:
        """Every read of memory."""
        stage = next((s for s in self.s.stages if s.name == "add buffers"), None)
        nodes = self.s.nodes
        return [nodes[j] for j in below(nodes, () if stage is None else (stage.end,)) if nodes[j].op == "INDEX"]

    def _buffer(self, b: int) -> str:
        buffer = self.s.buffers[b]
        place = next((p for p in self.s.memory.placements if p.buffer == b), None)
        at = f" at byte {place.offset_bytes:,} of the arena" if place is not None else ""
        return f"{buffer.name or f'b{b}'} ({size(buffer.bytes)}{at})"

    # ** a line, a kernel, a buffer **

    def line(self, x: Any, ids: list[int]) -> Why:
        lines = self._lines(x)
        none = ("movement", "hint", "memory", "const")
        values = [i for i in ids if self.s.nodes[i].kind not in none]
        parts = tuple(self.value(i) for i in values or ids)
        inside = [k for k, kernel in enumerate(self.s.kernels) if any(i in kernel.nodes for i in values or ids)]
        return Why("; ".join(line_text(line) for line in lines) or str(x), where=f"In {_kernels(inside)}.", parts=parts)

    def kernel(self, k: int) -> Why:
        kernel = self.s.kernels[k]
        graph = below(self.s.nodes, (self.s.stages[0].root,)) if self.s.stages else []
        inside = [i for i in graph if i in set(kernel.nodes) and self.s.nodes[i].kind not in ("movement", "hint")]
        writes = [kernel.buffers[w] for w in kernel.writes]
        held = [node for b in writes if (node := self.s.buffers[b].node) is not None]
        ends = tuple(self.value(i) for i in held if self.s.nodes[i].kind != "memory")
        facts = [
            f"{size(kernel.bytes_read)} read, {size(kernel.bytes_written)} written, {count(kernel.ops, 'operation')}, "
            f"{kernel.intensity:.2f} for each byte",
            f"computes {listed([self.say.name(i) for i in inside], 12)}",
            *(self.waits(e) for e in self.s.order if e.after == k),
        ]
        lines = tuple(line_text(self.trace.lines[n]) for n in kernel.lines)
        return Why(f"kernel {k} ({kernel.name})", lines=lines, facts=tuple(facts), parts=ends)

    def waits(self, e: Edge) -> str:
        """Why one kernel runs after another."""
        what = self.s.buffers[e.buffer].name or f"b{e.buffer}"
        because = {
            "RAW": f"it reads {what} after kernel {e.before} writes it",
            "WAR": f"kernel {e.before} still reads {what} before it is overwritten",
            "WAW": f"both write {what}",
        }
        return f"waits for kernel {e.before}: {because.get(e.kind, what)} ({e.kind})"

    def buffer(self, b: int) -> Why:
        buffer = self.s.buffers[b]
        writers = [k for k, x in enumerate(self.s.kernels) if b in [x.buffers[w] for w in x.writes]]
        readers = [k for k, x in enumerate(self.s.kernels) if b in x.buffers and k not in writers]
        facts = [f"{buffer.role}, {size(buffer.bytes)}, written by {_kernels(writers)}, read by {_kernels(readers)}"]
        for p in self.s.memory.placements:
            if p.buffer == b:
                facts.append(f"placed {p.reason}; alive from kernel {p.first} to kernel {p.last}")
        node = buffer.node
        parts = () if node is None or self.s.nodes[node].kind == "memory" else (self.value(node),)
        return Why(f"buffer {buffer.name or f'b{b}'}", facts=tuple(facts), parts=parts)


def where_gone(trace: Trace, s: Schedule) -> dict[int, str]:
    """Of each node of the tensor graph that no kernel computes: where its value went."""
    asked = _Asked(trace, trace.schedules.index(s), False)
    computed = {i for kernel in s.kernels for i in kernel.nodes}
    graph = below(s.nodes, (s.stages[0].root,)) if s.stages else []
    elsewhere = (i for i in graph if i not in computed and s.nodes[i].op not in ("SINK", "TUPLE"))
    return {i: asked.where(i) for i in elsewhere if s.nodes[i].expr is None}


def _kernels(numbers: list[int]) -> str:
    if not numbers:
        return "no kernel"
    return f"kernel{'s' * (len(numbers) > 1)} {listed([str(n) for n in numbers], 8)}"
