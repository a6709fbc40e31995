"""Exercises 2: rewrite rules. 2.1: ``(x + c1) + c2 -> x + (c1 + c2)``; 2.2: ``max(max(x, c1), c2) -> max(x, c)``.

The answer is a :class:`~tinysched.ir.pattern.Rule`. The engine runs it: the pass "prepare" of the real pipeline is
followed by it. Values must be kept (of floats too, whose sums are rounded), no graph may grow (unless a
value in the middle is read elsewhere too), on whole numbers no such
pair may be left, and a second run must change nothing.

>>> from tinysched.lab.check import check
>>> print(str(check(None, "2.1")).splitlines()[0])
2.1 a rule for two additions in a row: nothing to check yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinysched.dtypes import dtypes
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import PatternMatcher, Rule, UPat
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.text import graph_text
from tinysched.ir.uop import UOp
from tinysched.lab.draw import Draw
from tinysched.lab.exercise import Exercise, Wrong
from tinysched.lab.fixtures import Array, floats, integers, ran, tensor
from tinysched.lab.notyet import NotYet, is_blank
from tinysched.lab.passes import followed
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import capture

AFTER_THE_RULE = "prepare"
"""The pass that the rule follows: the graph is drawn as it leaves it."""
_OF_PATTERNS = (
    "src=[…] finds its sources in either order, src=(…) in this one; c1.arg + c2.arg is a number, c1 + c2 a node"
)
BIG = 2**24
"""From here on a float32 cannot hold every whole number."""


def _largest(x: Any, c: int) -> Any:
    return x.maximum(c) if isinstance(x, Tensor) else np.maximum(x, x.dtype.type(c))


_STEPS: dict[str, Callable[[Any, int], Any]] = {
    "+": lambda x, c: x + c, "c+": lambda x, c: c + x, "*": lambda x, c: x * c, "-": lambda x, c: -x, "max": _largest,
}  # fmt: skip


@dataclass(frozen=True)
class Chain:
    """Operations one after the other on an ``x`` of some shape; ``again``: an early value is added at the end."""

    kind: str
    shape: tuple[int, ...]
    steps: tuple[tuple[str, int], ...]
    again: bool = False

    def run(self, x: Any) -> Any:
        """The program on a Tensor or on an array: both read it the same way."""
        value, values = x, [x]
        for op, c in self.steps:
            value = _STEPS[op](value, c)
            values.append(value)
        return value + values[1] if self.again and len(values) > 1 else value

    def __str__(self) -> str:
        text = "x"
        for op, c in self.steps:
            written = {"-": f"(-{text})", "c+": f"({c} + {text})", "max": f"max({text}, {c})"}
            text = written.get(op, f"({text} {op} {c})")
        return f"{text}{' + its first step' * self.again}, x of {self.kind} and of shape {self.shape}"


def _chains(ops: tuple[str, ...]) -> Callable[[Draw], Chain]:
    """Random chains of these operations."""

    def case(draw: Draw) -> Chain:
        kind = draw.one_of(("int32", "float32"))
        steps = tuple(_step(draw, kind, ops) for _ in range(draw.integer(1, 5)))
        return Chain(kind, draw.shape(draw.integer(1, 2)), steps, again=draw.integer(0, 3) == 3)

    return case


def _step(draw: Draw, kind: str, ops: tuple[str, ...]) -> tuple[str, int]:
    op = draw.one_of(ops)
    c = draw.integer(1, 9)
    big = kind == "float32" and op in ("+", "c+") and draw.integer(0, 2) == 2
    return op, (BIG if draw.integer(0, 1) else -BIG) if big else c


Pair = Callable[[UOp], bool]
"""Whether a node is one that the rule should have taken away."""


def _judge(answer: Any, chain: Chain) -> Wrong | None:
    return _judge_rule(answer, chain, _is_pair, "two additions of constants in a row are left")


def _judge_max(answer: Any, chain: Chain) -> Wrong | None:
    return _judge_rule(answer, chain, _is_max_of_max, "two maxima with constants in a row are left")


def _judge_rule(answer: Any, chain: Chain, pair: Pair, left: str) -> Wrong | None:
    if not isinstance(answer, Rule):
        if callable(answer) and is_blank(answer()):
            raise NotYet("there is no rule yet")
        return Wrong(f"a rule is wanted, made with @rule(UPat(...)), not {answer!r:.60}")
    if unknown := [name for name in answer.takes if name not in _names(answer.pattern)]:
        given = ", ".join(sorted(_names(answer.pattern) - {"ctx"})) or "none"
        return Wrong(
            f"{answer.name} takes {unknown[0]}, and nothing in its pattern has that name (the names there: {given})",
            hint='a pattern may stand inside of another: src=[UPat(Ops.ADD, src=[UPat.var("x"), …]), …]',
        )
    rule = Rule(answer.name, answer.doc, answer.pattern, _no_blank(answer), answer.takes)
    x: Array = (integers if chain.kind == "int32" else floats)(chain.shape)
    out = chain.run(t := tensor(x))
    before = _graph(out)
    after = graph_rewrite(before, PatternMatcher([rule]))
    pipeline = followed("prepare", PatternMatcher([rule]))
    if text := _of_graphs(before, after, rule, chain.again) or left * any(pair(u) for u in after.toposort()):
        trace = capture(out, title="yours", inputs={"x": t}, pipeline=pipeline)
        return Wrong(text, trace, _both(before, after), AFTER_THE_RULE, hint=_OF_PATTERNS)
    expected = chain.run(x).astype(x.dtype)
    wrong = ran(out, expected, "yours", {"x": t}, tolerance=1e-7, pipeline=pipeline)
    return wrong and replace(wrong, stage=AFTER_THE_RULE)


def _names(pattern: UPat) -> set[str]:
    """What a pattern gives names to."""
    below = (pattern.src,) if isinstance(pattern.src, UPat) else pattern.src or ()
    own = {"ctx"} if pattern.name is None else {"ctx", pattern.name}
    return own.union(*(_names(p) for p in below))


def _no_blank(rule: Rule) -> Any:
    def fn(**bindings: Any) -> Any:
        result: Any = rule.fn(**bindings)
        if result is Ellipsis:
            raise NotYet(f"{rule.name} returns nothing yet")
        return result

    return fn


def _graph(out: Tensor) -> UOp:
    return UOp.sink(out.uop)


def _of_graphs(before: UOp, after: UOp, rule: Rule, shared: bool) -> str:
    """What is wrong with the graph, whatever its values."""
    if graph_rewrite(after, PatternMatcher([rule])) is not after:
        return "a second run of the rule changes the graph again"
    if not shared and len(after.toposort()) > len(before.toposort()):
        return "the graph has grown"
    return ""


def _both(before: UOp, after: UOp) -> str:
    return f"before\n{graph_text(before)}\nafter\n{graph_text(after)}"


def _is_max_of_max(u: UOp) -> bool:
    return _with_constant(u, Ops.MAX) and any(_with_constant(s, Ops.MAX) for s in u.src)


def _is_pair(u: UOp) -> bool:
    """Whether ``u`` is ``(x + c1) + c2`` on whole numbers."""
    if not (_with_constant(u, Ops.ADD) and u.dtype in dtypes.ints):
        return False
    return any(_with_constant(s, Ops.ADD) for s in u.src)


def _with_constant(u: UOp, op: Ops) -> bool:
    return u.op is op and any(s.op is Ops.CONST for s in u.src)


EXERCISES = (
    Exercise(
        "2.1",
        "a rule for two additions in a row",
        "a rule (x + c1) + c2 -> x + (c1 + c2) that keeps every value, floats too, and leaves no such pair of integers",
        _chains(("+", "+", "c+", "*", "-")),
        _judge,
        hint="on float32, (x + 16777216) + -16777216 is not x + 0: sums of floats are rounded. u.dtype in dtypes.ints asks",
        by_hand=(
            Chain("int32", (3,), (("+", 4), ("+", 3))),
            Chain("int32", (3,), (("c+", 4), ("c+", 3), ("+", 2))),
            Chain("float32", (3,), (("+", BIG), ("+", -BIG))),
        ),
    ),
    Exercise(
        "2.2",
        "a rule for two maxima in a row",
        "a rule max(max(x, c1), c2) -> max(x, the larger of c1 and c2), for every type of number",
        _chains(("max", "max", "+", "*")),
        _judge_max,
        hint="u.maximum(c) makes the node; a maximum rounds nothing, so floats need no exception",
        by_hand=(
            Chain("int32", (3,), (("max", 4), ("max", 3))),
            Chain("float32", (3,), (("max", 2), ("max", 5))),
            Chain("float32", (3,), (("max", 2), ("max", 5), ("max", 1))),
        ),
    ),
)
