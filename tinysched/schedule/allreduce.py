"""Allreduce: every device gets the total of what all devices have, in one of three ways.

In: ``ALLREDUCE(MSTACK(x0, x1, ...), op)``, where each device has a value of its own. Out: ``MSTACK(total, total, ...)``,
made of COPYs and of ordinary operations, so that each step is a kernel or a copy that can be looked at.

- **naive**: every device gets every value and adds them up. One step, but each device receives ``n - 1`` values.
- **ring**: the values are cut into ``n`` chunks. Each chunk goes once around, and every device adds its own part; then
  the totals go around. Each device sends ``2 (n - 1) / n`` of a value, in ``2 (n - 1)`` steps.
- **all-to-all**: device i gets chunk i of every value, adds them up, and sends the total to all others. As few bytes as
  the ring's, in two steps, but every device must reach every other one.

>>> ways(2, 1_000_000), ways(4, 1_000_000), ways(4, 1000)
('naive', 'ring', 'naive')
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise

from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.derive import prod
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import UPat, rule
from tinysched.ir.sharding import Devices, copy_to, cut, joined, replicate
from tinysched.ir.uop import UOp
from tinysched.settings import ALL2ALL, RING, RING_ALLREDUCE_THRESHOLD

Chunk = tuple[int, int]


def ways(devices: int, elements: int) -> str:
    """Which of the three: the settings RING and ALL2ALL mean 0 never, 1 above the threshold, 2 always."""
    large = devices > 2 and elements > RING_ALLREDUCE_THRESHOLD.value
    if ALL2ALL.value >= 2 or (ALL2ALL.value == 1 and large):
        return "all-to-all"
    return "ring" if RING.value >= 2 or (RING.value == 1 and large) else "naive"


@rule(UPat(Ops.ALLREDUCE, src=(UPat(Ops.MSTACK, name="values"),), name="x"))
def lower_allreduce(x: UOp, values: UOp) -> UOp:
    """ALLREDUCE(MSTACK(x0, x1, ...)) -> MSTACK(total, total, ...)"""
    op, devices = x.arg
    parts, shape = values.src, x.shape
    concrete = all(isinstance(n, int) for n in shape)
    way = ways(len(parts), prod(shape)) if concrete else "naive"
    facts = (("way", way), ("devices", devices), ("elements", x.size), ("threshold", RING_ALLREDUCE_THRESHOLD.value))
    decide(x, "prepare", Verdict.SHARDED, _REASONS[way], Values(facts))
    if way == "naive":
        return replicate(naive(op, parts, devices))
    flat = [p.contiguous().reshape((prod(shape),)) for p in parts]
    chunks = chunks_of(prod(shape), len(parts))
    totals = [(ring if way == "ring" else all_to_all)(op, flat, devices, i, chunk) for i, chunk in enumerate(chunks)]
    return replicate(joined(each, 0).reshape(shape) for each in zip(*totals, strict=True))


_REASONS = {"naive": Reason.ALLREDUCE_NAIVE, "ring": Reason.ALLREDUCE_RING, "all-to-all": Reason.ALLREDUCE_ALL2ALL}


def _total(op: Ops, values: Sequence[UOp]) -> UOp:
    return reduce(lambda a, b: a.alu(op, b), values)


def _on(u: UOp, device: str) -> UOp:
    return u if u.device == device else copy_to(u, device)


def naive(op: Ops, parts: Sequence[UOp], devices: Devices) -> list[UOp]:
    """Every value on every device; the same order everywhere, so that all get the same bits."""
    return [_total(op, [_on(p, d) for p in parts]) for d in devices]


def chunks_of(elements: int, n: int) -> list[Chunk]:
    """``n`` stretches of about equal length (in steps of up to 32 elements, if they divide); none is empty."""
    step = next(s for s in (32, 16, 8, 4, 2, 1) if elements % s == 0)
    each, more = divmod(elements // step, n)
    sizes = [(each + (i < more)) * step for i in range(n)]
    return [(a, b) for a, b in pairwise(accumulate(sizes, initial=0)) if a < b]


def ring(op: Ops, flat: Sequence[UOp], devices: Devices, i: int, chunk: Chunk) -> list[UOp]:
    """Chunk ``i``: starts on device i, is added to by each next one, and goes around once more as the total."""
    n = len(devices)
    total = cut(flat[i], 0, *chunk)
    for d in [(i + step) % n for step in range(1, n)]:
        total = copy_to(total, devices[d]).alu(op, cut(flat[d], 0, *chunk))
    on = {(i - 1) % n: total}
    for d in [(i + step) % n for step in range(n - 1)]:
        on[d] = total = copy_to(total, devices[d])
    return [on[d] for d in range(n)]


def all_to_all(op: Ops, flat: Sequence[UOp], devices: Devices, i: int, chunk: Chunk) -> list[UOp]:
    """Chunk ``i``: device i gets it from all, adds up, and gives the total to all."""
    total = _total(op, [_on(cut(x, 0, *chunk), devices[i]) for x in flat])
    return [_on(total, d) for d in devices]
