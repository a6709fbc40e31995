"""What follows from a node: its shape, device, open ranges, bounds and content key.

In: a node whose sources already carry the same property. Out: the property. :func:`fill` calls these sources first and
without recursion, so that a chain of 100,000 nodes is no deeper than a chain of two.

>>> from tinysched.ir.uop import UOp
>>> r = UOp.range(4, 0)
>>> (r * 3 + 1).bounds
(1, 10)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from tinysched.dtypes import DType, dtypes
from tinysched.errors import ShapeError, SpecError
from tinysched.ir.ops import GroupOp, Ops

if TYPE_CHECKING:
    from tinysched.ir.uop import UOp


def fill(root: UOp, slot: str, rule: Callable[[UOp], Any]) -> Any:
    """Computes ``slot`` of ``root`` and of everything below that lacks it, sources first, and returns it."""
    try:  # nearly always the sources have theirs already
        value = rule(root)
    except AttributeError:
        pass
    else:
        setattr(root, slot, value)
        return value
    stack = [(root, iter(root.src))]
    while stack:
        u, below = stack[-1]
        for s in below:
            if not hasattr(s, slot):
                stack.append((s, iter(s.src)))
                break
        else:
            setattr(u, slot, rule(u))
            stack.pop()
    return getattr(root, slot)


def fill_where_asked(root: UOp, slot: str, rule: Callable[[UOp], Any]) -> Any:
    """The same, but only of the sources that the rule looks at."""
    stack = [root]
    while stack:
        u = stack[-1]
        try:
            setattr(u, slot, rule(u))
        except AttributeError as missing:
            assert missing.name == slot
            stack.append(missing.obj)  # type: ignore[arg-type]
        else:
            stack.pop()
    return getattr(root, slot)


def inherit(new: UOp, old: UOp) -> None:
    """Where only sources changed, into others of the same shapes, the shape stays what it was."""
    if old.op not in _LIKE_SOURCES:
        return
    try:
        shape = old._shape
        for a, b in zip(new.src, old.src):
            if a is not b and a._shape != b._shape:
                return
    except AttributeError:  # not known yet
        return
    new._shape = shape


_LIKE_SOURCES = GroupOp.Elementwise | GroupOp.Movement | GroupOp.Passthrough | {Ops.REDUCE, Ops.STORE, Ops.AFTER}


def prod(sizes: Iterable[Any]) -> Any:
    result = 1
    for s in sizes:
        result = s * result
    return result


def max_shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """``shape`` with every Variable at its largest."""
    return tuple(s if isinstance(s, int) else s.vmax for s in shape)


def arg_uops(arg: Any) -> Iterator[UOp]:
    """The nodes inside an argument: shapes and widths may hold Variables."""
    if isinstance(arg, tuple):
        for a in arg:
            yield from arg_uops(a)
    elif hasattr(arg, "src") and hasattr(arg, "op"):
        yield arg


@lru_cache(maxsize=4096)
def has_nodes(arg: Any) -> bool:
    """Whether there is a node inside an argument."""
    return any(True for _ in arg_uops(arg))


def map_arg(arg: Any, became: Callable[[UOp], Any]) -> Any:
    """An argument with every node inside replaced."""
    if isinstance(arg, tuple):
        return tuple([map_arg(a, became) for a in arg])
    return became(arg) if hasattr(arg, "src") and hasattr(arg, "op") else arg


# ** shape **

_WITHOUT_SHAPE = frozenset({Ops.SINK, Ops.CALL, Ops.LINEAR, Ops.END, Ops.NOOP, Ops.TUPLE, Ops.FUNCTION})
_SCALARS = frozenset({Ops.CONST, Ops.RANGE, Ops.LOAD, Ops.BIND})


def no_shape(u: UOp) -> NoReturn:
    raise SpecError(f"{u.op} has no shape", help="only values have shapes; look at its sources")


def broadcast(shapes: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """NumPy's broadcast of shapes, aligned at the last axis. Raises :class:`ShapeError` where sizes differ."""
    first = shapes[0]
    for s in shapes:
        if s and s != first:
            if first:
                break
            first = s  # what stands before it has shape ()
    else:
        return first
    ndim = max(map(len, shapes))
    out = []
    for sizes in zip(*(((1,) * (ndim - len(s)) + s) for s in shapes), strict=True):
        wide = {s for s in sizes if not (isinstance(s, int) and s == 1)}
        if len(wide) > 1:
            raise ShapeError(
                f"shapes {' and '.join(map(str, shapes))} do not broadcast",
                help="sizes must be equal or 1, counted from the last axis",
            )
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def shape(u: UOp) -> Any:
    op, src, arg = u.op, u.src, u.arg
    if op in _SCALARS:
        return ()
    if op in GroupOp.Broadcastable:
        return broadcast([s._shape for s in src if s._shape is not None]) if src[0]._shape is not None else None
    if op in GroupOp.Movement:
        return moved_shape(op, src[0]._shape, arg)
    if op is Ops.BUFFER:
        return (arg.size,)
    if op is Ops.PARAM:
        return () if arg.name is not None else (arg.size,) if arg.shape is None else arg.shape
    if op is Ops.REDUCE:
        return src[0]._shape if arg[1] == 0 else src[0]._shape[arg[1] :]
    if op is Ops.STACK:
        return (len(src), *src[0]._shape)
    if op is Ops.INDEX:
        return src[0]._shape[len(src) - 1 :]
    if op is Ops.STAGE:
        return tuple(r.src[0].arg if r.op is Ops.RANGE and r.src[0].op is Ops.CONST else _extent(r) for r in src[1:])
    if op is Ops.BITCAST:
        return _bitcast(src[0], u.dtype)
    return _shape_of_boundary(u)


def _shape_of_boundary(u: UOp) -> Any:
    op, src, arg = u.op, u.src, u.arg
    if op in _WITHOUT_SHAPE:
        return None
    if op is Ops.UNSHARD:
        parts = src[0].src  # those of an MSTACK, one after another
        return tuple(sum(p._shape[i] for p in parts) if i == arg else s for i, s in enumerate(src[0]._shape))
    if op is Ops.GETTUPLE:
        return src[0].arg.shape_of(arg, src[0].src) if src[0].op is Ops.FUNCTION else src[0].src[arg]._shape
    return src[0]._shape if src else None


def _extent(r: UOp) -> Any:
    return 1 if r.op is Ops.CONST else r.src[0]


def _bitcast(x: UOp, dtype: DType) -> Any:
    if x.dtype.itemsize == dtype.itemsize or not x._shape:
        return x._shape
    *lead, last = x._shape
    return (*lead, last * x.dtype.itemsize // dtype.itemsize)


def moved_shape(op: Ops, s: tuple[Any, ...], arg: Any) -> tuple[Any, ...]:
    """The shape that a movement op gives to a source of shape ``s``."""
    if op is Ops.RESHAPE:
        return arg  # type: ignore[no-any-return]
    if op is Ops.PERMUTE:
        return tuple(s[i] for i in arg)
    if op is Ops.EXPAND:
        return (*arg, *s)
    if op is Ops.PAD:
        return tuple(_plus(n, a, b) for n, (a, b) in zip(s, arg, strict=True))
    if op is Ops.SHRINK:
        return tuple(_minus(b, a) for a, b in arg)
    return s


def _plus(n: Any, *more: Any) -> Any:
    for m in more:
        n = n + m if not (isinstance(m, int) and m == 0) else n
    return plain(n)


def _minus(b: Any, a: Any) -> Any:
    return plain(b if isinstance(a, int) and a == 0 else b - a)


def plain(size: Any) -> Any:
    """An int where the index arithmetic of ``size`` comes to one number, else its normal form."""
    if isinstance(size, int):
        return size
    from tinysched.ir.symbolic import simplify_index

    size = simplify_index(size)
    return size.arg if size.op is Ops.CONST else size


def bound_value(size: Any) -> int | None:
    """The number that a size is with the values of its bound Variables; None where one has no value."""
    if isinstance(size, int):
        return size
    value = plain(size.substitute({b: b.src[1] for b in size.toposort() if b.op is Ops.BIND}))
    return value if isinstance(value, int) else None


# ** device, ranges **


def device(u: UOp) -> Any:
    if u.op in (Ops.BUFFER, Ops.PARAM):
        return u.arg.device
    if u.op is Ops.COPY:
        return u.arg
    if u.op is Ops.MSELECT:
        return u.src[0]._device[u.arg]
    if u.op is Ops.MSTACK:
        return tuple(s._device for s in u.src)
    if u.op is Ops.ALLREDUCE:
        return u.arg[1]
    if u.op is Ops.GETTUPLE and u.src[0].op is Ops.FUNCTION:
        own = u.src[0].arg.body.src[u.arg].device
        return u.src[0]._device if own is None else own
    if u.op is Ops.STAGE and u.arg is not None and u.arg.device is not None:
        return u.arg.device
    if u.op in (Ops.AFTER, Ops.INDEX, Ops.REDUCE):
        return u.src[0]._device
    for s in u.src:
        if s._device is not None:
            return s._device
    return None


_CLOSES = frozenset({Ops.REDUCE, Ops.END, Ops.STAGE})
_NONE: frozenset[Any] = frozenset()


def ranges(u: UOp) -> frozenset[UOp]:
    if u.op is Ops.RANGE:
        return frozenset((u,)) | u.src[0]._ranges
    if u.op in (Ops.AFTER, Ops.CALL):
        return u.src[0]._ranges if u.op is Ops.AFTER else _NONE
    found = _NONE
    for s in u.src:
        new = s._ranges
        if new is not found and not new <= found:
            found = found | new if found else new
    if u.op in _CLOSES and found:
        found = found - {r for s in u.src[1:] for r in s._ranges}
    return found


# ** bounds **


def bounds(u: UOp) -> tuple[Any, Any]:
    op, src = u.op, u.src
    if op is Ops.CONST:
        return _const_bounds(u)
    if op is Ops.RANGE:
        return (0, max(src[0]._bounds[1] - 1, 0))
    if u.is_variable:
        return (u.arg.vmin, u.arg.vmax)
    if op is Ops.BIND:  # a schedule holds for every value the Variable may have
        return src[0]._bounds
    if op is Ops.CAST and u.dtype.kind in "iu" and src[0].dtype.kind in "iub":
        a, b = src[0]._bounds
        return (int(a), int(b)) if u.dtype.min <= a and b <= u.dtype.max else (u.dtype.min, u.dtype.max)
    rule = _BOUNDS.get(op) if (u.dtype.kind in "iu" or u.dtype is dtypes.bool) else None
    found = rule(*(s._bounds for s in src)) if rule is not None else None
    if u.dtype is dtypes.index:  # has no width, so that nothing wraps around
        return found if found is not None else (-(1 << 62), 1 << 62)
    if found is None or found[0] < u.dtype.min or found[1] > u.dtype.max:
        return (u.dtype.min, u.dtype.max)
    return found


def _const_bounds(u: UOp) -> tuple[Any, Any]:
    if not isinstance(u.arg, (bool, int, float)):
        return (0, 0)
    return (-math.inf, math.inf) if u.arg != u.arg else (u.arg, u.arg)


_Pair = tuple[Any, Any]


def _mul(a: _Pair, b: _Pair) -> _Pair | None:
    ends = [x * y for x in a for y in b if not (isinstance(x, float) or isinstance(y, float))]
    return (min(ends), max(ends)) if len(ends) == 4 else None


def _floordiv(a: _Pair, b: _Pair) -> _Pair | None:
    return (a[0] // b[0], a[1] // b[0]) if b[0] == b[1] and b[0] > 0 else None


def _floormod(a: _Pair, b: _Pair) -> _Pair | None:
    if b[0] != b[1] or b[0] <= 0:
        return None
    d = b[0]
    return (a[0] % d, a[1] % d) if a[0] // d == a[1] // d else (0, d - 1)


def _and(a: _Pair, b: _Pair) -> _Pair | None:
    return (a[0] and b[0], a[1] and b[1]) if _are_bools(a, b) else None


def _or(a: _Pair, b: _Pair) -> _Pair | None:
    return (a[0] or b[0], a[1] or b[1]) if _are_bools(a, b) else None


def _are_bools(*pairs: _Pair) -> bool:
    """Whether AND and OR are those of truth values: of integers they work on bits (1 | 4 is 5)."""
    return all(isinstance(end, bool) for pair in pairs for end in pair)


def _less(a: _Pair, b: _Pair) -> _Pair:
    return (a[1] < b[0], a[0] < b[1])


def _equal(a: _Pair, b: _Pair) -> _Pair:
    return (a[0] == a[1] == b[0] == b[1], a[0] <= b[1] and b[0] <= a[1])


_BOUNDS: dict[Ops, Callable[..., _Pair | None]] = {
    Ops.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Ops.SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Ops.MUL: _mul,
    Ops.NEG: lambda a: (-a[1], -a[0]),
    Ops.MAX: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.CMPLT: _less,
    Ops.CMPEQ: _equal,
    Ops.CMPNE: lambda a, b: (not _equal(a, b)[1], not _equal(a, b)[0]),
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.WHERE: lambda c, a, b: a if c[0] else b if not c[1] else (min(a[0], b[0]), max(a[1], b[1])),
    Ops.STAGE: lambda a, *_: a,
    Ops.REDUCE: lambda a, *_: None,
}


# ** content key **


def key(u: UOp) -> bytes:
    from hashlib import blake2b  # which loads OpenSSL: only for those who ask for keys

    h = blake2b(digest_size=16)
    h.update(f"{u.op.name}|{u.dtype.name}|{_stable(u.arg)}|{_stable(u.tag)}|{len(u.src)}".encode())
    for s in u.src:
        h.update(s._key)
    return h.digest()


def _stable(arg: Any) -> str:
    if arg.__class__ is float:
        return arg.hex()
    if isinstance(arg, tuple):
        return "(" + ",".join(map(_stable, arg)) + ")"
    return "@" + arg.key.hex() if hasattr(arg, "src") and hasattr(arg, "key") else repr(arg)
