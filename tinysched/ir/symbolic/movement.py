"""The definition of the movement ops: what each does to the tuple of indices that flows against the edges.

In: a movement op, its source's shape, its argument, and one index per axis of its *output*.
Out: one index per axis of its *source*. No tensor op moves anything: only this arithmetic does.

>>> from tinysched.ir.text import expr
>>> r0, r1 = UOp.range(6, 0), UOp.range(4, 1)
>>> [expr(i) for i in apply_movement_op(Ops.RESHAPE, (8, 3), (6, 4), (r0, r1))]
['(r0*4 + r1)//3', '(r0*4 + r1)%3']
>>> [expr(i) for i in apply_movement_op(Ops.FLIP, (6, 4), (True, False), (r0, r1))]
['r0*-1 + 5', 'r1']
>>> [expr(i) for i in apply_movement_op(Ops.PAD, (4, 4), ((1, 1), (0, 0)), (r0, r1))]
['r0 - 1 if r0 >= 1 & r0 < 5', 'r1']
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tinysched.ir.derive import prod
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.symbolic.affine import Affine, add, affine_of, constant, divmod_, scale, sum_of, to_uop
from tinysched.ir.symbolic.conditions import conjunction, in_bounds, less
from tinysched.ir.uop import TRUE, Shape, UOp, as_uop

Indices = tuple[UOp, ...]
ZERO = UOp.const(0)


def apply_movement_op(op: Ops, in_shape: Shape, arg: Any, rngs: Indices) -> Indices:
    """Indices into the source of a movement op, given indices into its output. Conditions travel with the index."""
    if op is Ops.PERMUTE:
        return tuple(rngs[arg.index(i)] for i in range(len(arg)))
    if op is Ops.EXPAND:
        return rngs[len(arg) :]
    if op is Ops.SHRINK:
        return tuple(r if _is(start, 0) else _plus(r, start) for r, (start, _) in zip(rngs, arg, strict=True))
    if op is Ops.FLIP:
        return tuple(_mirror(r, n) if f else r for r, n, f in zip(rngs, in_shape, arg, strict=True))
    if op is Ops.PAD:
        return tuple(r if w == (0, 0) else _padded(r, n, w[0]) for r, n, w in zip(rngs, in_shape, arg, strict=True))
    assert op is Ops.RESHAPE, f"{op} is no movement op"
    return _reshape(in_shape, arg, rngs)


def _is(size: Any, n: int) -> bool:
    return isinstance(size, int) and size == n


def _plus(r: UOp, offset: Any) -> UOp:
    idx = to_uop(add(affine_of(r.get_idx()), affine_of(as_uop(offset))))
    return idx.valid(r.get_valid())


def _mirror(r: UOp, n: Any) -> UOp:
    last = add(affine_of(as_uop(n)), constant(-1))
    idx = to_uop(add(last, scale(affine_of(r.get_idx()), -1)))
    return idx.valid(r.get_valid())


def _padded(r: UOp, n: Any, before: Any) -> UOp:
    idx = r.get_idx()
    if isinstance(n, int) and isinstance(before, int):
        inside = in_bounds(idx, before, before + n)
    else:
        start = as_uop(before)
        offset = add(affine_of(idx), scale(affine_of(start), -1))
        past_end = add(offset, scale(affine_of(as_uop(n)), -1))
        inside = conjunction((less(to_uop(scale(offset, -1)), 1), less(to_uop(past_end), 0)))
    moved = _plus(idx, -before if isinstance(before, int) else to_uop(scale(affine_of(before), -1)))
    return moved.valid(conjunction((r.get_valid(), inside)))


def _reshape(in_shape: Shape, out_shape: Shape, rngs: Indices) -> Indices:
    """Axes that keep their size keep their index; the others are flattened and split, group by group."""
    result = [ZERO] * len(in_shape)
    groups, ones = _groups_without_ones(in_shape, out_shape)
    for ins, outs in groups:
        if len(ins) == len(outs) == 1:
            result[ins[0]] = rngs[outs[0]]
            continue
        kept = [rngs[i] for i in outs]
        flat = _flatten([(r, out_shape[i]) for r, i in zip(kept, outs)])
        for i, digit in zip(ins, _split(flat, [in_shape[i] for i in ins], [r.get_valid() for r in kept])):
            result[i] = digit
    # an axis of size 1 has no index of its own below, but it may stand in the padding
    loose = [v for i in ones if (v := rngs[i].get_valid()) is not TRUE]
    if loose and result:
        first = result[0]
        result[0] = first.get_idx().valid(conjunction((first.get_valid(), *loose)))
    return tuple(result)


@lru_cache(maxsize=1024)
def _groups_without_ones(a: Shape, b: Shape) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
    """The groups as axes of both shapes, and the axes of ``b`` of one element, which are in none of them."""
    groups = [
        ([i for i in range(*ins.indices(len(a))) if not _is(a[i], 1)],
         [j for j in range(*outs.indices(len(b))) if not _is(b[j], 1)])
        for ins, outs in _groups(a, b)
    ]  # fmt: skip
    return [(ins, outs) for ins, outs in groups if ins or outs], [j for j, n in enumerate(b) if _is(n, 1)]


def forget() -> None:
    """Empties the memo of this module."""
    _groups_without_ones.cache_clear()


def _groups(a: Shape, b: Shape) -> list[tuple[slice, slice]]:
    """The shortest stretches of axes of ``a`` and ``b`` that hold the same number of elements."""
    if any(not isinstance(n, int) for n in (*a, *b)):
        return _symbolic_groups(a, b)
    out, i, j = [], 0, 0
    while i < len(a) or j < len(b):
        i0, j0 = i, j
        pa = pb = 1
        if i < len(a):
            pa, i = a[i], i + 1
        if j < len(b):
            pb, j = b[j], j + 1
        while pa != pb:
            if pa < pb and i < len(a):
                pa, i = pa * a[i], i + 1
            elif pb < pa and j < len(b):
                pb, j = pb * b[j], j + 1
            else:
                break
        out.append((slice(i0, i), slice(j0, j)))
    return out


def _symbolic_groups(a: Shape, b: Shape) -> list[tuple[slice, slice]]:
    """Equal axes at the front and at the back stay; what is between is one group."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    m = 0
    while m < min(len(a), len(b)) - n and a[-1 - m] == b[-1 - m]:
        m += 1
    front = [(slice(i, i + 1), slice(i, i + 1)) for i in range(n)]
    back = [(slice(len(a) - k, len(a) - k + 1), slice(len(b) - k, len(b) - k + 1)) for k in range(m, 0, -1)]
    return [*front, (slice(n, len(a) - m), slice(n, len(b) - m)), *back]


def _flatten(axes: list[tuple[UOp, Any]]) -> Affine:
    """The one index that row-major order gives to indices of the given sizes."""
    parts: list[Affine] = []
    stride: Any = 1
    for r, n in reversed(axes):
        idx = r.get_idx()
        parts.append(scale(affine_of(idx), stride) if isinstance(stride, int) else affine_of(idx * stride))
        stride = n * stride
    return sum_of(parts)


def _split(flat: Affine, sizes: list[Any], valids: list[UOp]) -> list[UOp]:
    """The digits of a flat index in the mixed radix ``sizes``; each carries all conditions of the axes it came from."""
    valid = conjunction(valids) if any(v is not TRUE for v in valids) else TRUE
    digits: list[UOp] = []
    for i in range(len(sizes) - 1, -1, -1):
        n = sizes[i]
        if i == 0:
            digit = flat
        elif _is(n, 0):  # nothing has no position; any will do
            digit = constant(0)
        elif isinstance(n, int):
            flat, digit = divmod_(flat, n)
        else:
            whole = to_uop(flat)
            flat, digit = affine_of(whole // n), affine_of(whole % n)
        digits.append(to_uop(digit).valid(valid))
    return digits[::-1]


def flat_index(shape: Shape, rngs: Indices) -> UOp:
    """The row-major flat index of one index per axis, with all their conditions."""
    size = prod(shape)
    return _reshape((size,), shape, rngs)[0] if shape else ZERO


def stretch_of(view: UOp) -> int | None:
    """The first element of movement ops that show one stretch of their base in order; None if they don't."""
    chain: list[UOp] = []
    base = view
    while base.op in GroupOp.Movement:
        chain.append(base)
        base = base.src[0]
    if not chain or not all(isinstance(n, int) for n in view.shape):
        return None if chain else 0
    size = prod(view.shape)
    flat = UOp.range(size, 0)
    through = chain if view.ndim == 1 else [view.reshape((size,)), *chain]
    index = flat_index(base.shape, index_through(through, (flat,)))
    form = affine_of(index.get_idx())
    in_order = form.terms == ((flat, 1),) if size > 1 else not form.terms
    return form.const if in_order and not index.is_gated else None


def index_through(chain: list[UOp], rngs: Indices) -> Indices:
    """Indices into the source of the last of ``chain`` (movement ops, outermost first)."""
    for m in chain:
        rngs = apply_movement_op(m.op, m.src[0].shape, m.arg, rngs)
    return rngs
