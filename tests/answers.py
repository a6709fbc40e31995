"""Right and wrong answers to the exercises of notebooks 1 to 9: those that people give."""

from collections.abc import Callable, Sequence
from typing import Any

from tinysched import Ops, Tensor, UOp, dtypes
from tinysched.ir.pattern import PatternMatcher, Rule, UPat
from tinysched.lab.exercises.arena import FirstFit, together
from tinysched.lab.exercises.cuts import Price, best
from tinysched.schedule.planners import Greedy, Lifetime, NoPlan, Smallest, arena_bytes

Answers = dict[str, Any]

Answers = dict[str, Any]
PAIR = UPat(Ops.ADD, src=[UPat(Ops.ADD, src=[UPat.var("x"), UPat.cvar("c1")]), UPat.cvar("c2")])
IN_ORDER = UPat(Ops.ADD, src=(UPat(Ops.ADD, src=(UPat.var("x"), UPat.cvar("c1"))), UPat.cvar("c2")))
ANY_SUM = UPat(Ops.ADD, src=[UPat.var("x"), UPat.cvar("c1")])


def added(pattern: UPat, what: Callable[..., Any]) -> Rule:
    """A rule for two additions in a row."""
    takes = what.__code__.co_varnames[: what.__code__.co_argcount]
    return Rule("wrong", "(x + c1) + c2 -> something", pattern, what, takes)


def whole(x: UOp) -> bool:
    return x.dtype in dtypes.ints


def turn(*writes: str) -> Callable[..., Any]:
    """Statements on x (a Tensor) and k; then x is returned."""

    def answer(x: Tensor, k: int) -> Any:
        exec("\n".join(writes), {"x": x, "k": k, "n": x.shape[0], "Tensor": Tensor})
        return x

    return answer


def cost_of(trace: Any, cost: Callable[..., float], overrides: dict[str, str]) -> float:
    return cost(trace.with_overrides(overrides))


def one_by_one(trace: Any, names: Sequence[str], cost: Callable[..., float]) -> dict[str, str]:
    """The best for each name, given those before: not the best of all."""
    chosen: dict[str, str] = {}
    for name in names:
        tries = [chosen, {**chosen, name: "fuse"}, {**chosen, name: "realize"}]
        chosen = min(tries, key=lambda o: cost_of(trace, cost, o))
    return chosen


def one_at_most(trace: Any, names: Sequence[str], cost: Callable[..., float]) -> dict[str, str]:
    """The best single override: misses where two values have to be turned together."""
    tries: list[dict[str, str]] = [{}, *({name: what} for name in names for what in ("fuse", "realize"))]
    return min(tries, key=lambda o: cost_of(trace, cost, o))


def fewest_bytes(trace: Any, names: Sequence[str], cost: Callable[..., float]) -> dict[str, str]:
    """The best choice if operations were free."""
    return best(trace, names, Price(0.0))[1]


def in_waves(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Ready as soon as *one* of those it waits for has run."""
    order = [k for k in range(count) if k not in {after for _, after in edges}]
    for k in order:
        order += [b for a, b in edges if a == k and b not in order]
    return order


def by_number_of_waits(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Those that wait for the fewest first."""
    return sorted(range(count), key=lambda k: sum(after == k for _, after in edges))


def depth_first(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Followers right behind the kernel they wait for."""
    order: list[int] = []

    def visit(k: int) -> None:
        if k not in order:
            order.append(k)
            for before, after in edges:
                if before == k:
                    visit(after)

    for k in range(count):
        if not any(after == k for _, after in edges):
            visit(k)
    return order


def packed(key: Callable[[Lifetime], Any], overlapping: Callable[[Lifetime, Lifetime], bool] = together) -> Any:
    """One after the other, in the order of ``key``, each at the lowest place free of those it is alive with."""

    def place(lifetimes: Sequence[Lifetime]) -> list[int]:
        offsets, done = [0] * len(lifetimes), list[int]()
        for i in sorted(range(len(lifetimes)), key=lambda i: key(lifetimes[i])):
            offset = 0
            for j in sorted((j for j in done if overlapping(lifetimes[i], lifetimes[j])), key=lambda j: offsets[j]):
                if offset + lifetimes[i].room <= offsets[j]:
                    break
                offset = max(offset, offsets[j] + lifetimes[j].room)
            offsets[i] = offset
            done.append(i)
        return offsets

    return place


def halving(count: int, good: Callable[[int], bool], off: int = 0, start: int = 0) -> int:
    """Bisection, with the mistakes that are easy to make."""
    low, high = start, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return high + off


def each_pass(count: int, good: Callable[[int], bool]) -> int:
    return next(k for k in range(1, count + 1) if not good(k))


WRONG: dict[str, Answers] = {
    "1.1": {
        "no cut": lambda a: (a + 4) * 3 - a,
        "two cuts": lambda a: ((a + 4).contiguous() * 3).contiguous() - a,
        "a cut at the start": lambda a: (a.contiguous() + 4) * 3 - a,
        "a cut at the end": lambda a: ((a + 4) * 3 - a).contiguous(),
        "two kernels of another program": lambda a: ((a + 4) * 3).contiguous() - 4,
        "right for one axis only": lambda a: ((a + 4) * 3).contiguous() - a if a.ndim == 1 else (a + 4) * 3 - a,
        "run too early": lambda a: ((a + 4) * 3 - a).realize(),
        "copied from NumPy": lambda a: Tensor((a.numpy() + 4) * 3 - a.numpy()),
    },
    "2.1": {
        "floats too": added(PAIR, lambda x, c1, c2: x + (c1.arg + c2.arg)),
        "one order only": added(IN_ORDER, lambda x, c1, c2: x + (c1.arg + c2.arg) if whole(x) else None),
        "the product": added(PAIR, lambda x, c1, c2: x + c1.arg * c2.arg if whole(x) else None),
        "the second is forgotten": added(PAIR, lambda x, c1, c2: x + c1.arg if whole(x) else None),
        "never": added(PAIR, lambda x: None),
        "without end": added(ANY_SUM, lambda x, c1: (x + 1) + (c1.arg - 1) if whole(x) else None),
        "larger than before": added(PAIR, lambda x, c1, c2: (x + (c1.arg + c2.arg)) * 1 if whole(x) else None),
        "multiplications": added(
            UPat(Ops.ADD, src=[UPat(Ops.MUL, src=[UPat.var("x"), UPat.cvar("c1")]), UPat.cvar("c2")]),
            lambda x, c1, c2: x + (c1.arg + c2.arg) if whole(x) else None,
        ),
        "no rule at all": lambda x: x,
    },
    "3.1": {
        "the last are overwritten first": turn("x[k:] = x[:-k]", "x[:k] = x[-k:]"),
        "the first are overwritten first": turn("x[:k] = x[-k:]", "x[k:] = x[:-k]"),
        "a view is no copy": turn("last = x[-k:]", "x[k:] = x[:-k]", "x[:k] = last"),
        "the other way round": turn("first = x[:k].clone()", "x[:-k] = x[k:]", "x[-k:] = first"),
        "by one only": turn("last = x[-1:].clone()", "x[1:] = x[:-1]", "x[:1] = last"),
        "another Tensor": lambda x, k: Tensor.cat(x[-k:], x[:-k]),
        "nothing": lambda x, k: x,
    },
    "4.1": {
        "forwards": lambda indices, order: tuple(indices[i] for i in order),
        "not at all": lambda indices, order: indices,
        "reversed": lambda indices, order: tuple(reversed(indices)),
        "sorted": lambda indices, order: tuple(indices[i] for i in sorted(order)),
    },
    "4.2": {
        "minus": lambda indices, bounds: tuple(i - start for i, (start, _) in zip(indices, bounds)),
        "not at all": lambda indices, bounds: indices,
        "from the end": lambda indices, bounds: tuple(i + end - 1 for i, (_, end) in zip(indices, bounds)),
        "the first axis only": lambda indices, bounds: (indices[0] + bounds[0][0], *indices[1:]),
        "its length": lambda indices, bounds: tuple(i + (end - start) for i, (start, end) in zip(indices, bounds)),
    },
    "4.3": {
        "no condition": lambda indices, widths, shape: tuple(i - a for i, (a, _) in zip(indices, widths)),
        "no end": lambda indices, widths, shape: tuple((i - a).valid(i >= a) for i, (a, _) in zip(indices, widths)),
        "no start": lambda indices, widths, shape: tuple(
            (i - a).valid(i < a + n) for i, (a, _), n in zip(indices, widths, shape)
        ),
        "plus": lambda indices, widths, shape: tuple(
            (i + a).valid((i >= a) & (i < a + n)) for i, (a, _), n in zip(indices, widths, shape)
        ),
        "one too far": lambda indices, widths, shape: tuple(
            (i - a).valid((i >= a) & (i <= a + n)) for i, (a, _), n in zip(indices, widths, shape)
        ),
        "a repeated edge": lambda indices, widths, shape: tuple(
            (i - a).maximum(0).minimum(n - 1) for i, (a, _), n in zip(indices, widths, shape)
        ),
    },
    "5.1": {
        "keep everything": lambda stage, cost: True,
        "keep nothing": lambda stage, cost: False,
        "the default": lambda stage, cost: len(cost.buffers) > 3 or bool(cost.reduces),
        "reductions only": lambda stage, cost: bool(cost.reduces),
        "bytes only": lambda stage, cost: sum(b.size for b in cost.buffers) > 2 * stage.size,
        "a larger limit": lambda stage, cost: len(cost.buffers) > 8 or bool(cost.reduces),
    },
    "6.1": {
        "no choice": lambda trace, names, cost: {},
        "fuse all": lambda trace, names, cost: dict.fromkeys(names, "fuse"),
        "store all": lambda trace, names, cost: dict.fromkeys(names, "realize"),
        "one by one": one_by_one,
        "bytes only": fewest_bytes,
        "one name at most": one_at_most,
        "the first name": lambda trace, names, cost: {names[0]: "realize"},
    },
    "7.1": {
        "as numbered": lambda count, edges: list(range(count)),
        "backwards": lambda count, edges: list(range(count))[::-1],
        "in waves": in_waves,
        "by number of waits": by_number_of_waits,
        "depth first": depth_first,
        "those with edges only": lambda count, edges: list(dict.fromkeys(k for e in edges for k in e)),
    },
    "8.1": {
        "lowest last offset": lambda lifetimes: min(
            (packed(key)(lifetimes) for key in (lambda life: -life.room, lambda life: life.first)), key=max
        ),
        "all at 0": lambda lifetimes: [0 for _ in lifetimes],
        "first fit": packed(lambda life: life.first),
        "largest first": packed(lambda life: -life.room),
        "smallest first": packed(lambda life: life.room),
        "side by side": lambda lifetimes: NoPlan().place(lifetimes),
        "dead a kernel too early": packed(lambda life: -life.room, lambda a, b: a.first < b.last and b.first < a.last),
        "unaligned": lambda lifetimes: [offset + 1 for offset in Greedy().place(lifetimes)],
        "one too few": lambda lifetimes: Greedy().place(lifetimes)[:-1],
    },
    "9.1": {
        "one after the other": each_pass,
        "the last good one": lambda count, good: halving(count, good, off=-1),
        "from 1": lambda count, good: halving(count, good, start=1),
        "the middle": lambda count, good: count // 2 + 1,
        "the last": lambda count, good: count,
        "asked twice": lambda count, good: halving(count, lambda k: good(k) and good(k)),
    },
    "9.2": {
        "all stay": lambda rules, right: rules,
        "none stays": lambda rules, right: PatternMatcher([]),
        "the last goes": lambda rules, right: rules.without(list(rules)[-1].name),
        "the first goes": lambda rules, right: rules.without(next(iter(rules)).name),
        "a right one goes": lambda rules, right: rules.without(*(r.name for r in rules if right(PatternMatcher([r])))),
    },
}


def least(lifetimes: Sequence[Lifetime]) -> list[int]:
    """The best of several orders."""
    keys = (lambda life: life.first, lambda life: -life.room, lambda life: life.first - life.last)
    return min((packed(key)(lifetimes) for key in keys), key=lambda offsets: arena_bytes(lifetimes, offsets))


def whole_turn(x: Tensor, k: int) -> Tensor:
    return x.assign(Tensor.cat(x[-k:], x[:-k]))


def by_rounds(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Kahn's algorithm without counters."""
    order: list[int] = []
    while len(order) < count:
        order.append(next(k for k in range(count) if k not in order and all(a in order for a, b in edges if b == k)))
    return order


RIGHT: dict[str, Answers] = {
    "1.1": {
        "after the product": lambda a: ((a + 4) * 3).contiguous() - a,
        "after the sum": lambda a: (a + 4).contiguous() * 3 - a,
        "written another way": lambda a: (a * 3 + 12).contiguous() - a,
    },
    "2.1": {
        "of integers": added(PAIR, lambda x, c1, c2: x + (c1.arg + c2.arg) if whole(x) else None),
        "with const_like": added(PAIR, lambda x, c1, c2: x + x.const_like(c1.arg + c2.arg) if whole(x) else None),
    },
    "3.1": {
        "the last are kept": turn("last = x[-k:].clone()", "x[k:] = x[:-k]", "x[:k] = last"),
        "an expression keeps them": turn("last = x[-k:] + 0", "x[k:] = x[:-k]", "x[:k] = last"),
        "one write": whole_turn,
    },
    "4.1": {
        "by position": lambda indices, order: tuple(indices[order.index(i)] for i in range(len(order))),
        "sorted": lambda indices, order: tuple(i for _, i in sorted(zip(order, indices), key=lambda pair: pair[0])),
    },
    "4.2": {"plus": lambda indices, bounds: [i + start for i, (start, _) in zip(indices, bounds)]},
    "4.3": {
        "inside": lambda indices, widths, shape: tuple(
            (i - a).valid((i >= a) & (i < a + n)) for i, (a, _), n in zip(indices, widths, shape)
        )
    },
    "5.1": {
        "bytes and reductions": lambda stage, cost: (
            bool(cost.reduces) or sum(b.size for b in cost.buffers) > 2 * stage.size
        )
    },
    "6.1": {"all tried": lambda trace, names, cost: best(trace, names, cost)[1]},
    "7.1": {"by rounds": by_rounds},
    "8.1": {
        "several orders": least,
        "the engine's": lambda lifetimes: Smallest((Greedy(), FirstFit())).place(lifetimes),
    },
    "9.1": {"halving": halving},
    "9.2": {
        "one at a time": lambda rules, right: rules.without(*(r.name for r in rules if not right(PatternMatcher([r])))),
        "all but one": lambda rules, right: next(
            left for left in (rules.without(r.name) for r in rules) if right(left)
        ),
    },
}
