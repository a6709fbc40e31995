"""Right and wrong answers to the ten more exercises of notebook 11."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.answers import Answers, added, by_rounds, whole
from tinysched import Ops, Tensor
from tinysched.ir.pattern import UPat
from tinysched.lab.exercises.arena import FirstFit
from tinysched.schedule.planners import Lifetime, arena_bytes


def swapped(*writes: str) -> Callable[..., Any]:
    """Statements on the Tensors a and b; both are returned."""

    def answer(a: Tensor, b: Tensor) -> Any:
        exec("\n".join(writes), {"a": a, "b": b})
        return a, b

    return answer


MAX_PAIR = UPat(Ops.MAX, src=[UPat(Ops.MAX, src=[UPat.var("x"), UPat.cvar("c1")]), UPat.cvar("c2")])
MAX_IN_ORDER = UPat(Ops.MAX, src=(UPat(Ops.MAX, src=(UPat.cvar("c1"), UPat.var("x"))), UPat.cvar("c2")))


def split_index(indices: Any, new_shape: Any, shape: Any, flat_by: Any = None) -> tuple[Any, ...]:
    """Flatten by the sizes of the result, then take apart by those of the source."""
    flat: Any = 0
    for i, n in zip(indices, flat_by or new_shape):
        flat = flat * n + i
    found = []
    for n in reversed(shape):
        found.append(flat % n)
        flat = flat // n
    return tuple(reversed(found))


def can_split(n: int) -> bool:
    return any(n % pieces == 0 for pieces in range(8, 257))


def chain(count: int, edges: list[tuple[int, int]], longest: Callable[..., int] = max) -> int:
    """The longest chain, over an order in which nobody comes before those it waits for."""
    length: dict[int, int] = {}
    for k in by_rounds(count, edges):
        length[k] = 1 + longest([length[a] for a, b in edges if b == k], default=0)
    return max(length.values())


def most_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """As if buffers took no more than their bytes."""
    kernels = range(max(life.last for life in lifetimes) + 1)
    return max(sum(life.nbytes for life in lifetimes if life.first <= k <= life.last) for k in kernels)


def most_alive(lifetimes: Sequence[Lifetime], until: int = 1) -> int:
    kernels = range(max(life.last for life in lifetimes) + 1)
    return max(sum(life.room for life in lifetimes if life.first <= k < life.last + until) for k in kernels)


def left_out(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    for step in list(steps):
        without = [s for s in steps if s != step]
        steps = without if fails(without) else steps
    return steps


def halved(steps: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """Halves only: what is needed may lie in both."""
    while len(steps) > 1:
        half = next((h for h in (steps[: len(steps) // 2], steps[len(steps) // 2 :]) if fails(h)), None)
        if half is None:
            return steps
        steps = half
    return steps


RIGHT: dict[str, Answers] = {
    "1.2": {"after the sum": lambda x: (x * 2 + 1).sum(0).contiguous() * 3},
    "2.2": {"the larger": added(MAX_PAIR, lambda x, c1, c2: x.maximum(max(c1.arg, c2.arg)))},
    "3.2": {
        "kept": swapped("old = a.clone()", "a.assign(b)", "b.assign(old)"),
        "kept as an expression": swapped("old = b + 0", "b.assign(a)", "a.assign(old)"),
    },
    "4.4": {
        "mirrored": lambda indices, turned, shape: tuple(
            i * -1 + (n - 1) if t else i for i, t, n in zip(indices, turned, shape)
        )
    },
    "4.5": {"flat and apart": split_index},
    "5.2": {"worth it and possible": lambda n: 2 if n >= 32768 and can_split(n) else 1},
    "6.2": {"added up": lambda n, m: (8 * n * m + 4 * (n + m), 16 * n * m + 4 * (n + m))},
    "7.2": {"by rounds": chain},
    "8.2": {"kernel by kernel": most_alive},
    "9.3": {"one left out at a time": left_out},
}
WRONG: dict[str, Answers] = {
    "1.2": {
        "before the sum": lambda x: (x * 2 + 1).contiguous().sum(0) * 3,
        "after the product": lambda x: ((x * 2).contiguous() + 1).sum(0) * 3,
        "no cut": lambda x: (x * 2 + 1).sum(0) * 3,
        "a cut at the end": lambda x: ((x * 2 + 1).sum(0) * 3).contiguous(),
        "another axis": lambda x: (x * 2 + 1).sum(-1).contiguous() * 3,
    },
    "2.2": {
        "the smaller": added(MAX_PAIR, lambda x, c1, c2: x.maximum(min(c1.arg, c2.arg))),
        "the second": added(MAX_PAIR, lambda x, c1, c2: x.maximum(c2.arg)),
        "integers only": added(MAX_PAIR, lambda x, c1, c2: x.maximum(max(c1.arg, c2.arg)) if whole(x) else None),
        "the constant": added(MAX_PAIR, lambda x, c1, c2: x.const_like(max(c1.arg, c2.arg))),
        "one order only": added(MAX_IN_ORDER, lambda x, c1, c2: x.maximum(max(c1.arg, c2.arg))),
    },
    "3.2": {
        "lost": swapped("a.assign(b)", "b.assign(a)"),
        "lost, the other way": swapped("b.assign(a)", "a.assign(b)"),
        "a view is no copy": swapped("old = a[:]", "a.assign(b)", "b.assign(old)"),
        "names only": lambda a, b: (b, a),
        "nothing": lambda a, b: (a, b),
    },
    "4.4": {
        "one too far": lambda indices, turned, shape: tuple(
            i * -1 + n if t else i for i, t, n in zip(indices, turned, shape)
        ),
        "all of them": lambda indices, turned, shape: tuple(i * -1 + (n - 1) for i, n in zip(indices, shape)),
        "none": lambda indices, turned, shape: indices,
        "the order of axes": lambda indices, turned, shape: tuple(reversed(indices)),
    },
    "4.5": {
        "the sizes of the source": lambda indices, new, shape: split_index(indices, new, shape, flat_by=shape),
        "no carry": lambda indices, new, shape: tuple(i % n for i, n in zip(indices, shape)) + indices[len(shape) :],
        "first axis first": lambda indices, new, shape: tuple(reversed(split_index(indices, new, shape[::-1]))),
        "not at all": lambda indices, new, shape: indices[: len(shape)],
    },
    "5.2": {
        "never": lambda n: 1,
        "the threshold only": lambda n: 2 if n >= 32768 else 1,
        "from 32,769 on": lambda n: 2 if n > 32768 and can_split(n) else 1,
        "even numbers": lambda n: 2 if n >= 32768 and n % 2 == 0 else 1,
        "pieces from 2 on": lambda n: 2 if n >= 32768 and any(n % k == 0 for k in range(2, 257)) else 1,
    },
    "6.2": {
        "x read once": lambda n, m: (4 * n * m + 4 * (n + m), 16 * n * m + 4 * (n + m)),
        "no sums": lambda n, m: (8 * n * m, 16 * n * m),
        "e read once": lambda n, m: (8 * n * m + 4 * (n + m), 12 * n * m + 4 * (n + m)),
        "elements": lambda n, m: (2 * n * m + n + m, 4 * n * m + n + m),
        "the other way round": lambda n, m: (16 * n * m + 4 * (n + m), 8 * n * m + 4 * (n + m)),
    },
    "7.2": {
        "all": lambda count, edges: count,
        "edges": lambda count, edges: len(edges) + 1,
        "waits": lambda count, edges: 1 + max((sum(b == k for _, b in edges) for k in range(count)), default=0),
        "the shortest": lambda count, edges: chain(count, edges, min),
        "edges of the chain": lambda count, edges: chain(count, edges) - 1,
    },
    "8.2": {
        "bytes that are not rounded up": most_bytes,
        "the largest": lambda lifetimes: max(life.room for life in lifetimes),
        "all": lambda lifetimes: sum(life.room for life in lifetimes),
        "dead a kernel too early": lambda lifetimes: most_alive(lifetimes, until=0),
        "at the start": lambda lifetimes: sum(life.room for life in lifetimes if life.first == 0),
        "first fit's arena": lambda lifetimes: arena_bytes(lifetimes, FirstFit().place(lifetimes)),
    },
    "9.3": {
        "all": lambda steps, fails: steps,
        "none": lambda steps, fails: [],
        "halves": halved,
        "alone": lambda steps, fails: [s for s in steps if fails([s])],
        "backwards": lambda steps, fails: left_out(steps, fails)[::-1],
        "the shortest start": lambda steps, fails: next(steps[:n] for n in range(len(steps) + 1) if fails(steps[:n])),
    },
}
