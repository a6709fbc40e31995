"""Copies between devices: where they read and write, and the kernels that turn out to be nothing else.

In: a graph with COPY nodes, before loops are given out (:func:`place_copies`); and a LINEAR (:func:`pm_copy_from_store`),
where each kernel that only moves bytes from one device to another becomes ``CALL(COPY(PARAM1), destination, source)``.
Out: the same values. Any other kernel with buffers on two devices is an error.

>>> from tinysched.dtypes import dtypes
>>> p, q = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 8)) for slot in (0, 1))
>>> a, b = (UOp.new_buffer(device, 8, dtypes.float32) for device in ("NUMPY:1", "NUMPY"))
>>> r = UOp.range(4, 0)
>>> kernel = UOp.sink(p.index(r).store(UOp(Ops.LOAD, q.dtype, (q.index(r + 4),))).end(r))
>>> call = copy_kernel_to_copy(kernel.call(a, b))
>>> [u.op.name for u in call.src], call.src[2].arg
(['COPY', 'SHRINK', 'SHRINK'], ((4, 8),))
"""

from __future__ import annotations

from collections import Counter

from tinysched.dtypes import strong_dtype
from tinysched.errors import ScheduleError
from tinysched.ir.decision import Reason, Values, Verdict, decide
from tinysched.ir.derive import max_shape, plain, prod
from tinysched.ir.lines import lines_of
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite, map_nodes
from tinysched.ir.symbolic.affine import affine_of
from tinysched.ir.symbolic.movement import stretch_of
from tinysched.ir.text import expr
from tinysched.ir.uop import ParamArg, UOp, as_uop

_STORED = frozenset({Ops.BUFFER, Ops.PARAM, Ops.AFTER, Ops.CONTIGUOUS, Ops.COPY})
"""Nodes that are memory, or will be."""


# ** before rangeify **


def is_one_piece(u: UOp) -> bool:
    """Whether a value lies in memory in one piece and in order, so that it can be copied without being computed."""
    base = u.base
    return base.op in _STORED and not base.is_variable and (u is base or stretch_of(u) is not None)


@rule(UPat(Ops.COPY, src=(UPat.var("s"),), name="x"))
def copy_largest(x: UOp, s: UOp) -> UOp | None:
    """COPY(s, some of whose sizes are Variables) -> SHRINK(COPY(PAD(s to the largest sizes)))"""
    most = max_shape(s.shape)
    if most == s.shape or s.device is None:
        return None
    padded = s.pad(tuple((0, plain(as_uop(m) - n)) for m, n in zip(most, s.shape, strict=True)))
    return x.replace(src=(padded.reshape(most),)).shrink(tuple((0, n) for n in s.shape))


@rule(UPat(Ops.COPY, src=(UPat.var("s"),), name="x"))
def copy_contiguous(x: UOp, s: UOp) -> UOp | None:
    """COPY(a computed, reordered or cut value) -> COPY(CONTIGUOUS(it)), in the type that memory has"""
    if s.device is None or is_one_piece(s):
        return None
    stored = strong_dtype(s.dtype)
    if stored is s.dtype:
        return x.replace(src=(s.contiguous(),))
    return UOp(Ops.COPY, stored, (s.cast(stored).contiguous(),), x.arg, x.tag).cast(x.dtype)


pm_copies = PatternMatcher([copy_largest, copy_contiguous])


def place_copies(sink: UOp) -> UOp:
    """Sources of copies lie in memory in one piece; a copy that is only stored goes straight to where it is stored.

    A computed value that is copied is in memory, so all its readers read it there.
    """
    sink = graph_rewrite(sink, pm_copies, name="copies")
    copied = [u.src[0] for u in sink.toposort() if u.op is Ops.COPY and u.src[0].op is Ops.CONTIGUOUS]
    computed = {u.src[0] for u in copied if u.src[0].op not in GroupOp.Movement}
    sink = _stored_once(sink, computed) if computed else sink
    readers = Counter(s for u in sink.toposort() for s in u.src if s.op is Ops.COPY)

    def straight(u: UOp) -> UOp | None:
        if u.op is not Ops.STORE or u.src[1].op is not Ops.COPY:
            return None
        target, copy = u.src
        if readers[copy] != 1 or copy.src[0].device is None or not is_one_piece(target):
            return None
        return target.store(copy.src[0])

    return map_nodes(sink, straight) if readers else sink


def _stored_once(sink: UOp, computed: set[UOp]) -> UOp:
    """The graph in which every reader of these values reads a CONTIGUOUS of them."""
    became: dict[UOp, UOp] = {}
    watcher = current_observer()
    for u in sink.toposort():
        src = tuple([became[s] for s in u.src])
        new = u if src == u.src else UOp(u.op, u.dtype, src, u.arg, u.tag)
        if u in computed:
            new = new.contiguous()
        elif u.op is Ops.CONTIGUOUS and u.src[0] in computed:
            new = src[0]
        became[u] = new
        if watcher is not None and new is not u:
            watcher.on_replace(u, new)
    return became[sink]


# ** after the order is known **


def pm_copy_from_store(linear: UOp) -> UOp:
    """LINEAR(CALL(kernel that only moves bytes, on d, on e)) -> LINEAR(CALL(COPY(PARAM1), on d, on e))"""
    calls = tuple([copy_kernel_to_copy(call) for call in linear.src])
    return linear if calls == linear.src else linear.replace(src=calls)


def copy_kernel_to_copy(call: UOp) -> UOp:
    """A kernel over two devices as a COPY. Raises :class:`ScheduleError` where it does more than move bytes."""
    devices = list(dict.fromkeys(b.device for b in call.src[1:] if b.device is not None))
    if len(devices) < 2 or call.src[0].op is not Ops.SINK:
        return call
    moved = _moved_bytes(call)
    if moved is None:
        raise _two_devices(call, devices)
    to, start, size = moved
    destination, source = call.src[1:]
    body = UOp(Ops.COPY, source.dtype, (UOp(Ops.PARAM, source.dtype, (), ParamArg(1, size)),), destination.device)
    new = body.call(_piece(destination, to, size), _piece(source, start, size))
    if (watcher := current_observer()) is not None:
        watcher.on_replace(call, new)
        facts = (("from", source.device), ("to", destination.device), ("bytes", size * source.dtype.itemsize))
        decide(new, "order", Verdict.COPIED, Reason.ONLY_MOVES_BYTES, Values(facts))
    return new


def _moved_bytes(call: UOp) -> tuple[int, int, int] | None:
    """First element written, first element read, and how many; None if the kernel does anything else."""
    body = call.src[0]
    store = body.src[0].src[0] if body.src[0].op is Ops.END else body.src[0]
    if len(call.src) != 3 or len(body.src) != 1 or store.src[1].op is not Ops.LOAD:
        return None
    to, start = (_stretch(index.src[1]) for index in (store.src[0], store.src[1].src[0]))
    if to is None or start is None or to[1:] != start[1:]:
        return None
    loops = body.src[0].src[1:] if body.src[0].op is Ops.END else ()
    size = prod(r.vmax + 1 for r in loops)
    return (to[0], start[0], size) if size == to[2] else None


def _stretch(index: UOp) -> tuple[int, tuple[UOp, ...], int] | None:
    """Start, loops and length of an index that runs over one stretch of memory in order."""
    if index.is_gated:
        return None
    form, length = affine_of(index), 1
    for loop, stride in reversed(form.terms):
        if loop.op is not Ops.RANGE or loop.src[0].op is not Ops.CONST or stride != length:
            return None
        length *= loop.vmax + 1
    return form.const, tuple(loop for loop, _ in form.terms), length


def _piece(buffer: UOp, start: int, size: int) -> UOp:
    return buffer if (start, size) == (0, buffer.size) else buffer.shrink(((start, start + size),))


def _two_devices(call: UOp, devices: list[str]) -> ScheduleError:
    name = getattr(call.src[0].arg, "name", "")
    lines = [str(line) for u in call.toposort() for line in lines_of(u)]
    buffers = [f"{expr(b)} on {b.device}" for b in call.src[1:] if b.device is not None]
    return ScheduleError(
        f"kernel {name} would compute with buffers on {' and '.join(devices)}",
        where="; ".join([f"it writes {buffers[0]} and reads {', '.join(buffers[1:])}", *dict.fromkeys(lines)]),
        help="only copies go from one device to another: bring the operands together with .to(device) or .shard()",
    )


# ** what crosses between devices **


def bytes_between(linear: UOp) -> dict[tuple[str, str], int]:
    """The bytes that the COPY calls of a LINEAR move, by (from, to)."""
    found: Counter[tuple[str, str]] = Counter()
    for call in linear.src:
        if call.src[0].op is Ops.COPY:
            destination, source = call.src[1:]
            found[source.device, destination.device] += destination.nbytes()
    return dict(found)
