"""Index arithmetic in one normal form: a sum of ``coefficient * atom`` and a constant.

In: index expressions (RANGE, + , * and // and % by constants). Out: :class:`Affine`, and from it *the* UOp of that
form: two expressions that flatten and split the same way become the same node, so "do the consumers agree?" is ``is``.

An atom is a RANGE, a Variable, a loaded value, or a digit ``x // a``, ``x % m``, ``(x // a) % m`` that stays as it is.
The rules that take ``//`` and ``%`` apart are the table :data:`DIGIT_RULES`; recombining digits is :func:`add`.

>>> from tinysched.ir.uop import UOp
>>> r0, r1 = UOp.range(6, 0), UOp.range(4, 1)
>>> flat = r0 * 4 + r1
>>> simplify_index(flat // 4) is r0, simplify_index(flat % 4) is r1
(True, True)
>>> simplify_index((r0 // 3) * 3 + r0 % 3) is r0
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Final, NamedTuple

from tinysched.dtypes import dtypes
from tinysched.ir.observe import current_observer, watching
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp

Term = tuple[UOp, int]


class Affine(NamedTuple):
    """``sum(coefficient * atom) + const``; terms by falling coefficient, then by range number."""

    terms: tuple[Term, ...]
    const: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value, from the bounds of the atoms."""
        return _bounds(self.terms, self.const)


def _bounds(terms: Any, const: int) -> tuple[int, int]:
    low = high = const
    for atom, c in terms:
        a, b = atom.bounds
        if c > 0:
            low, high = low + c * a, high + c * b
        else:
            low, high = low + c * b, high + c * a
    return low, high


def _order(term: Term) -> tuple[Any, ...]:
    atom, c = term
    return (-abs(c), *_rank(atom))


def _rank(atom: UOp) -> tuple[Any, ...]:
    """Where an atom stands: loops by number, then digits by what they are digits of (so that loops with other numbers in
    the same order give the same sum), then what is known at run time only."""
    if atom.op is Ops.RANGE:
        return (0, atom.arg[0])
    if _by_constant(atom, Ops.FLOORDIV) or _by_constant(atom, Ops.FLOORMOD):
        return (1, atom.op, atom.src[1].arg, form_rank(affine_of(atom.src[0])))
    return (2, atom.key)


def form_rank(a: Affine) -> tuple[Any, ...]:
    """An order of normal forms that goes by the order of the loops."""
    return (*[(_rank(u), c) for u, c in a.terms], ((3,), a.const))


def make(terms: dict[UOp, int], const: int) -> Affine:
    """The normal form of a sum: no zero coefficients, canonical order."""
    left = [t for t in terms.items() if t[1]]
    if len(left) > 1:
        left.sort(key=_order)
    return Affine(tuple(left), const)


def constant(value: int) -> Affine:
    return Affine((), value)


def atom(u: UOp) -> Affine:
    return Affine(((u, 1),), 0)


# ** to and from nodes **


_ARITHMETIC = frozenset({Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD})


def affine_of(u: UOp) -> Affine:
    """The normal form of an index node (cached on the node)."""
    try:
        known: Affine | None = u._affine
    except AttributeError:
        if current_observer() is None:
            known = _fill(u)
        else:
            with watching(None):  # what is remembered is not done: telling it only the first time would be chance
                known = _fill(u)
    return atom(u) if known is None else known


def _fill(root: UOp) -> Affine | None:
    """The normal form; None for an atom, since a node that holds itself would not be freed with its last reader."""
    stack = [root]
    while stack:
        u = stack[-1]
        missing = [s for s in u.src if not hasattr(s, "_affine")] if _is_arithmetic(u) else []
        if missing:
            stack.extend(missing)
            continue
        form = _affine_of(u)
        u._affine = None if form == atom(u) else form
        stack.pop()
    return None if form == atom(root) else form


def _is_arithmetic(u: UOp) -> bool:
    return u.op in _ARITHMETIC and u.dtype is dtypes.index


def _by_constant(u: UOp, op: Ops) -> bool:
    """Whether ``u`` is ``x // d`` or ``x % d`` for a number d > 0 (d may be a Variable, too)."""
    return u.op is op and u.src[1].op is Ops.CONST and u.src[1].arg > 0


def _affine_of(u: UOp) -> Affine:
    if u.op is Ops.CONST and isinstance(u.arg, int):
        return constant(u.arg)
    if _is_arithmetic(u):
        x, y = (affine_of(s) for s in u.src)
        if u.op is Ops.ADD:
            return add(x, y)
        if u.op is Ops.MUL and not (x.terms and y.terms):
            return scale(x, y.const) if not y.terms else scale(y, x.const)
        if u.op in (Ops.FLOORDIV, Ops.FLOORMOD) and not y.terms and y.const > 0:
            return divmod_(x, y.const)[u.op is Ops.FLOORMOD]
    if u.op is Ops.RANGE and u.src[0].op is Ops.CONST and u.src[0].arg <= 1:
        return constant(0)
    return atom(u)


def to_uop(a: Affine) -> UOp:
    """The node of a normal form: terms in order, the constant last."""
    total: UOp | None = None
    settled = all(u.op is Ops.RANGE or u._settled for u, _ in a.terms)
    for u, c in a.terms:
        term = u if c == 1 else u * c
        total = term if total is None else total + term
        if settled and total.op is not Ops.RANGE:
            total._settled = True
    if total is None:
        return UOp.const(a.const)
    if a.const != 0:
        total = total + a.const
        if settled:
            total._settled = True
    if total is not a.terms[0][0]:
        total._affine = a
    return total


def is_settled(u: UOp) -> bool:
    """Whether this is index arithmetic over loops alone that was made in normal form: no rule has anything to do there."""
    return u._settled


def remap(u: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """A settled index or condition with its loops replaced, in normal form again."""
    if u.op is Ops.RANGE:
        return mapping.get(u, u)
    return to_uop(_remapped(affine_of(u), mapping))


def _remapped(a: Affine, mapping: Mapping[UOp, UOp]) -> Affine:
    parts = [scale(_remapped_atom(u, mapping), c) for u, c in a.terms]
    return sum_of([*parts, constant(a.const)]) if len(parts) > 1 else add(parts[0], constant(a.const))


def _remapped_atom(u: UOp, mapping: Mapping[UOp, UOp]) -> Affine:
    if u.op is Ops.RANGE:
        return affine_of(mapping.get(u, u))
    inner = _remapped(affine_of(u.src[0]), mapping)  # a digit of a digit of ...: as deep as the radix has places
    return divmod_(inner, u.src[1].arg)[u.op is Ops.FLOORMOD]


def simplify_index(u: UOp) -> UOp:
    """The node of ``u``'s normal form; equal index expressions give the same node."""
    if u.op is Ops.RANGE or u.op is Ops.CONST:
        return u if u.op is Ops.CONST else to_uop(affine_of(u))
    return to_uop(affine_of(u))


# ** sums **


def scale(a: Affine, by: int) -> Affine:
    if by == 1:
        return a
    return Affine(tuple((u, c * by) for u, c in a.terms), a.const * by) if by else constant(0)


def add(a: Affine, b: Affine) -> Affine:
    """The sum. Digits that belong together become the number they are digits of: ``x // m * m + x % m -> x``."""
    if not a.terms:
        return Affine(b.terms, b.const + a.const)
    if not b.terms:
        return Affine(a.terms, b.const + a.const)
    terms = dict(a.terms)
    for u, c in b.terms:
        terms[u] = terms.get(u, 0) + c
    return _recombine(terms, a.const + b.const)


def sum_of(parts: list[Affine]) -> Affine:
    """The sum of many normal forms."""
    terms: dict[UOp, int] = {}
    const = 0
    for p in parts:
        const += p.const
        for u, c in p.terms:
            terms[u] = terms.get(u, 0) + c
    return _recombine(terms, const)


def _recombine(terms: dict[UOp, int], const: int) -> Affine:
    while True:
        for u, c in terms.items():
            if c and _by_constant(u, Ops.FLOORMOD) and (found := _partner(terms, u, c)) is not None:
                whole, used = found
                del terms[u]
                for v, n in used:
                    terms[v] = terms[v] - n
                for v, n in whole.terms:
                    terms[v] = terms.get(v, 0) + c * n
                const += c * whole.const
                break
        else:
            return make(terms, const)


def _partner(terms: dict[UOp, int], mod: UOp, c: int) -> tuple[Affine, list[Term]] | None:
    """For ``c * (x % m)``: the number that it is the lowest digit of, and the terms that are the other digits of it.

    They are ``c*m * (x // m)``; or, where that number is cut off itself, ``c*m * (w % k)``.
    """
    x, m = affine_of(mod.src[0]), mod.src[1].arg
    quotient = divmod_(x, m)[0]
    want = [(u, n * c * m) for u, n in quotient.terms]
    if want and all(terms.get(u, 0) == n for u, n in want):
        return Affine(x.terms, x.const - quotient.const * m), want
    for u, n in terms.items():
        if n == c * m and _by_constant(u, Ops.FLOORMOD):
            y = add(scale(affine_of(u.src[0]), m), atom(mod))
            if all(v is not mod for v, _ in y.terms):  # the digit has joined those of w
                return divmod_(y, m * u.src[1].arg)[1], [(u, n)]
    return None


# ** quotient and remainder: the mixed-radix rules **

QuotRem = tuple[Affine, Affine]


@dataclass(frozen=True)
class DigitRule:
    """One rule of the table: takes ``x`` and ``d`` to ``(x // d, x % d)``, or None where it does not apply."""

    name: str
    doc: str
    fn: Callable[[Affine, int], QuotRem | None]


def divmod_(x: Affine, d: int) -> QuotRem:
    """Normal forms of ``x // d`` and ``x % d`` for a constant ``d > 0`` (floor division)."""
    if d == 1:
        return x, constant(0)
    for rule in DIGIT_RULES:
        if (found := rule.fn(x, d)) is not None:
            if (watcher := current_observer()) is not None:
                watcher.on_index(rule.name, rule.doc, x, d, found)
            return found
    return _opaque(x, d)


_FAR: Final = 1 << 31
"""No loop starts so far below 0."""


def _split_multiple(x: Affine, d: int) -> QuotRem | None:
    """(d*q + r) // d -> q + r//d;  (d*q + r) % d -> r % d"""
    rest = tuple(t for t in x.terms if t[1] % d)
    low, _ = _bounds(rest, x.const)
    start = low if low > -_FAR else x.const  # of a loaded number nothing is known but its dtype
    const = x.const - d * (start // d)  # the remainder's smallest value is brought into [0, d)
    if len(rest) == len(x.terms) and const == x.const:
        return None
    quotient = Affine(tuple((u, c // d) for u, c in x.terms if c % d == 0), (x.const - const) // d)
    q, r = divmod_(Affine(rest, const), d)
    return add(quotient, q), r


def _fits(x: Affine, d: int) -> QuotRem | None:
    """k*d <= x < (k+1)*d:  x // d -> k;  x % d -> x - k*d"""
    low, high = x.bounds
    if low // d != high // d:
        return None
    k = low // d
    return constant(k), Affine(x.terms, x.const - k * d)


def _whole_turns(x: Affine, d: int) -> QuotRem | None:
    """(q*d + c)*u + y, k*d <= c*u + y < (k+1)*d:  x // d -> q*u + k;  x % d -> c*u + y - k*d"""
    turns = [(u, int(c / d)) for u, c in x.terms]
    if not any(q for _, q in turns):
        return None
    rest = Affine(tuple((u, c - q * d) for (u, c), (_, q) in zip(x.terms, turns)), x.const)
    found = _fits(rest, d)
    if found is None:
        return None
    return make(dict(turns), found[0].const), make(dict(found[1].terms), found[1].const)


def _mirror(x: Affine, d: int) -> QuotRem | None:
    """-y // d -> -((y + d-1) // d);  -y % d -> d-1 - (y + d-1) % d,  so that the first coefficient is positive"""
    if not x.terms or x.terms[0][1] > 0:
        return None
    q, r = divmod_(add(scale(x, -1), constant(d - 1)), d)
    return scale(q, -1), add(constant(d - 1), scale(r, -1))


def _common_factor(x: Affine, d: int) -> QuotRem | None:
    """(g*h + l) // (g*e) -> h // e;  (g*h + l) % (g*e) -> g * (h % e) + l,  for 0 <= l < g"""
    g = d
    for i, (_, c) in enumerate(x.terms):
        g = gcd(g, c)
        if g == 1:
            return None
        rest = x.terms[i + 1 :]
        low, high = _bounds(rest, 0)
        const = x.const - g * ((low + x.const) // g)
        if high + const < g:
            h = make({u: c // g for u, c in x.terms[: i + 1]}, (x.const - const) // g)
            q, r = divmod_(h, d // g)
            return q, add(scale(r, g), Affine(rest, const))
    return None


def _digit_of_remainder(x: Affine, d: int) -> QuotRem | None:
    """(c*(y % m) + l) // d -> (c*y + l) // d % (c*m/d);  (c*(y % m) + l) % d -> (c*y + l) % d,  0 <= l < c, d | c*m"""
    if not x.terms or not _by_constant(x.terms[0][0], Ops.FLOORMOD):
        return None
    (u, c), rest = x.terms[0], Affine(x.terms[1:], x.const)
    low, high = rest.bounds
    if c * u.src[1].arg % d or low < 0 or high >= c:
        return None
    q, r = divmod_(add(scale(affine_of(u.src[0]), c), rest), d)
    return divmod_(q, c * u.src[1].arg // d)[1], r


def _digit_of_quotient(x: Affine, d: int) -> QuotRem | None:
    """(z + y // a) // d -> (a*z + y) // (a*d);  (z + y // a) % d stays a digit,  for z and y without a common loop"""
    quotients = [u for u, c in x.terms if c == 1 and _by_constant(u, Ops.FLOORDIV)]
    if len(quotients) != 1:
        return None
    u = quotients[0]
    y, a = affine_of(u.src[0]), u.src[1].arg
    z = Affine(tuple(t for t in x.terms if t[0] is not u), x.const)
    if not all(v.ranges.isdisjoint(u.ranges) for v, _ in z.terms):
        return None
    return divmod_(add(scale(z, a), y), a * d)[0], atom(to_uop(x) % d)


DIGIT_RULES: tuple[DigitRule, ...] = tuple(
    DigitRule(fn.__name__.strip("_"), str(fn.__doc__), fn)
    for fn in (_split_multiple, _fits, _whole_turns, _mirror, _common_factor, _digit_of_remainder, _digit_of_quotient)
)


def _opaque(x: Affine, d: int) -> QuotRem:
    u, n = to_uop(x), UOp.const(d)
    digits = u.alu(Ops.FLOORDIV, n), u.alu(Ops.FLOORMOD, n)
    if u.op is Ops.RANGE or u._settled:
        for digit in digits:
            digit._settled = True
    return atom(digits[0]), atom(digits[1])
