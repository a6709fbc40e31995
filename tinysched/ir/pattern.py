"""Patterns and named rules: the table form in which passes say what they rewrite.

In: :class:`UPat` (what a node looks like) and functions with a ``before -> after`` docstring.
Out: :class:`PatternMatcher`, a list of rules that adds with ``+`` and is indexed by op.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import UOp
>>> @rule(UPat(Ops.MUL, src=[UPat.var("x"), UPat.const(1)]))
... def mul_one(x):
...     '''x * 1 -> x'''
...     return x
>>> r = UOp.range(4, 0)
>>> PatternMatcher([mul_one]).rewrite(r * 1)[1] is r
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tinysched.dtypes import DType
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp

Bindings = dict[str, UOp]
Match = Callable[[UOp, Bindings], bool]

MOST_SOURCES = 8
"""Of nodes with more sources than this there are too many kinds to remember them."""


class UPat:
    """What a node looks like.

    ``ops``: an op or several (None: any). ``src``: a tuple (in this order), a list of two (in either order), one UPat
    (every source), or None (not looked at). ``rest`` allows more sources than given. ``name`` binds the node; a name that
    occurs twice must be the same node.
    """

    __slots__ = ("arg", "dtype", "match", "name", "ops", "rest", "src")

    def __init__(
        self,
        ops: Ops | Iterable[Ops] | None = None,
        *,
        src: tuple[UPat, ...] | list[UPat] | UPat | None = None,
        name: str | None = None,
        dtype: DType | tuple[DType, ...] | None = None,
        arg: Any = None,
        rest: bool = False,
    ):
        self.ops = None if ops is None else frozenset((ops,)) if isinstance(ops, Ops) else frozenset(ops)
        self.src, self.name, self.arg, self.rest = src, name, arg, rest
        self.dtype = (dtype,) if isinstance(dtype, DType) else dtype
        self.match: Match = _matcher(self)

    @staticmethod
    def var(name: str, dtype: DType | tuple[DType, ...] | None = None) -> UPat:
        """Any node, bound to ``name``."""
        return UPat(name=name, dtype=dtype)

    @staticmethod
    def cvar(name: str) -> UPat:
        """Any constant, bound to ``name``."""
        return UPat(Ops.CONST, name=name)

    @staticmethod
    def const(value: Any, name: str | None = None) -> UPat:
        """The constant ``value`` (of any dtype; 0 matches 0.0 but not -0.0)."""
        return UPat(Ops.CONST, arg=value, name=name)

    def may_match(self, kind: Kind) -> bool:
        """Whether a node of this kind can match at all: what is looked up once and not at every node."""
        op, dtype, *children = kind
        if not self._fits(op, dtype):
            return False
        if self.src is None:
            return True
        if isinstance(self.src, UPat):
            return all(self.src._fits(*child) for child in children)
        if len(children) < len(self.src) or (len(children) > len(self.src) and not self.rest):
            return False
        orders = [self.src, self.src[::-1]] if isinstance(self.src, list) else [self.src]
        return any(all(p._fits(*child) for p, child in zip(order, children)) for order in orders)

    def _fits(self, op: Ops, dtype: DType) -> bool:
        return (self.ops is None or op in self.ops) and (self.dtype is None or dtype in self.dtype)


def _same_const(value: Any, want: Any) -> bool:
    if value.__class__ is float and value == 0 and want == 0:
        return str(value)[0] != "-"
    return bool(value == want)


def _matcher(p: UPat) -> Match:
    """Closes over the parts of a pattern once, so that a match is a few plain calls."""
    ops, name, dtype, arg = p.ops, p.name, p.dtype, p.arg
    sources = _sources_matcher(p)
    is_const = ops == frozenset((Ops.CONST,))

    def match(u: UOp, found: Bindings) -> bool:
        if ops is not None and u.op not in ops:
            return False
        if dtype is not None and u.dtype not in dtype:
            return False
        if arg is not None and not (_same_const(u.arg, arg) if is_const else u.arg == arg):
            return False
        if name is not None and found.setdefault(name, u) is not u:
            return False
        return sources is None or sources(u, found)

    return match


def _sources_matcher(p: UPat) -> Match | None:
    if p.src is None:
        return None
    if isinstance(p.src, UPat):
        each = p.src
        return lambda u, found: all(each.match(s, found) for s in u.src)
    subs, n, rest = tuple(s.match for s in p.src), len(p.src), p.rest
    if isinstance(p.src, tuple):

        def in_order(u: UOp, found: Bindings) -> bool:
            if len(u.src) != n and not (rest and len(u.src) > n):
                return False
            return all(m(s, found) for m, s in zip(subs, u.src, strict=False))

        return in_order
    first, second = subs

    def either_order(u: UOp, found: Bindings) -> bool:
        if len(u.src) != 2:
            return False
        a, b = u.src
        tried = dict(found)
        if first(a, tried) and second(b, tried):
            found.update(tried)
            return True
        return first(b, found) and second(a, found)

    return either_order


@dataclass(frozen=True, eq=False)
class Rule:
    """A named rewrite: where ``pattern`` matches, ``fn`` gives the new node, or None if it does not apply after all."""

    name: str
    doc: str
    pattern: UPat
    fn: Callable[..., UOp | None]
    takes: tuple[str, ...] = field(default=())
    alone: frozenset[Ops] | None = field(init=False)
    """The ops of a pattern that says nothing else: such a rule is called with the node."""

    def __post_init__(self) -> None:
        p = self.pattern
        plain = (p.src, p.dtype, p.arg) == (None, None, None) and self.takes == (p.name,)
        object.__setattr__(self, "alone", p.ops if plain else None)

    @property
    def where(self) -> tuple[str, int]:
        """File and line of the rule's function."""
        code = self.fn.__code__
        return code.co_filename, code.co_firstlineno

    def apply(self, u: UOp, ctx: Any = None) -> UOp | None:
        """The rewritten node, or None where the rule does not apply."""
        if self.alone is not None:
            new = self.fn(**{self.takes[0]: u}) if u.op in self.alone else None
            return None if new is u else new
        found: Bindings = {}
        if not self.pattern.match(u, found):
            return None
        new = self.fn(**{k: ctx if k == "ctx" else found[k] for k in self.takes})
        return None if new is u else new


def rule(pattern: UPat) -> Callable[[Callable[..., UOp | None]], Rule]:
    """Makes a :class:`Rule` of a function whose parameters are the pattern's names (and ``ctx``, the pass's context)."""

    def make(fn: Callable[..., UOp | None]) -> Rule:
        code = fn.__code__
        doc = (fn.__doc__ or "").strip().splitlines()[0]
        return Rule(fn.__name__.strip("_"), doc, pattern, fn, code.co_varnames[: code.co_argcount])

    return make


Kind = tuple[Any, ...]
"""A node's op and dtype, and a pair of both for each source."""


class PatternMatcher:
    """Rules in order; the first that applies wins. Adds with ``+``.

    Nodes of one kind can only match a few of the rules, most often none: these are found once for each kind.
    """

    __slots__ = ("_by_kind", "_by_op", "rules")

    def __init__(self, rules: Iterable[Rule]):
        self.rules: tuple[Rule, ...] = tuple(rules)
        self._by_op = {op: [r for r in self.rules if r.pattern.ops is None or op in r.pattern.ops] for op in Ops}
        self._by_kind: dict[Kind, list[Rule]] = {}

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher((*self.rules, *other.rules))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def rewrite(self, u: UOp, ctx: Any = None) -> tuple[Rule, UOp] | None:
        """The first rule that applies to ``u``, and what it gives."""
        if not self._by_op[u.op]:
            return None
        kind = (u.op, u.dtype, *[(s.op, s.dtype) for s in u.src])
        candidates = self._by_kind.get(kind)
        if candidates is None:
            candidates = self._candidates(kind)
        for r in candidates:
            if (new := r.apply(u, ctx)) is not None:
                return r, new
        return None

    def _candidates(self, kind: Kind) -> list[Rule]:
        """The rules that a node of this kind may match."""
        found = [r for r in self._by_op[kind[0]] if r.pattern.may_match(kind)]
        if len(kind) - 2 <= MOST_SOURCES:
            self._by_kind[kind] = found
        return found

    def without(self, *names: str) -> PatternMatcher:
        """The same rules but those named."""
        return PatternMatcher(r for r in self.rules if r.name not in names)
