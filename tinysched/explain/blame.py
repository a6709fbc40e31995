"""What :mod:`tinysched.explain.check` has found, in the words of who wrote the program: values and lines, kernels and memory.

In: a schedule made again, and nodes or kernels of it. Out: text.

>>> from tinysched import Tensor, capture
>>> from tinysched.trace.whatif import again
>>> made = again(capture((Tensor([1.0, 2.0]).realize() * 3).sum()))
>>> words = Words(made)
>>> words.node(made.body), words.kernel(0)
('sink', 'kernel 0 (r_2, <doctest tinysched.explain.blame[2]>:1)')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinysched.explain.arrays import Array, close
from tinysched.explain.effects import Ran, state_below
from tinysched.explain.speak import speaker
from tinysched.ir.lines import place
from tinysched.ir.ops import Ops
from tinysched.ir.text import expr
from tinysched.ir.uop import UOp
from tinysched.schedule.accesses import accesses
from tinysched.trace.whatif import Again


class Words:
    """Names what stands in a schedule that was made again (its last one, or number ``which``)."""

    def __init__(self, made: Again, which: int = -1):
        self.trace, self.ids = made.trace, made.recording.ids
        self.s = made.trace.schedules[which]

    def node(self, u: UOp) -> str:
        """A value as sentences name it, its shape, and the lines that made it."""
        if (i := self.ids.get(u)) is None:
            return repr(u)
        say, n = speaker(self.trace, self.s), self.s.nodes[i]
        below = say.follow.value_of(n.src[0]) if n.op == "INDEX" else i
        shape, lines = say.shape(i), say.place(i) or say.place(below)
        return say.name(i) + (f" ({shape})" if shape else "") + (f" of {lines}" if lines else "")

    def kernel(self, k: int) -> str:
        kernel = self.s.kernels[k]
        lines = [self.trace.lines[n] for n in kernel.lines]
        return f"kernel {k} ({', '.join([kernel.name, *(place(x.file, x.number) for x in lines[-1:])])})"

    def buffer(self, k: int, slot: int) -> str:
        b = self.s.kernels[k].buffers[slot]
        return self.s.buffers[b].name or f"b{b}"


def difference(now: Array, before: Array) -> str:
    """Where two arrays differ most, and how often; '' where they do not."""
    if close(before, now):
        return ""
    try:
        a, b = np.broadcast_arrays(now, before)
    except ValueError:
        return f"its shape is {now.shape} instead of {before.shape}"
    with np.errstate(all="ignore"):
        far = np.where(np.isnan(a) == np.isnan(b), np.abs(np.nan_to_num(a * 1.0) - np.nan_to_num(b * 1.0)), np.inf)
        many = int((far > 1e-6 * np.abs(np.nan_to_num(b * 1.0))).sum())
    at = np.unravel_index(int(far.argmax()), far.shape)
    where = f"at [{', '.join(str(int(i)) for i in at)}] " if far.ndim else ""
    return f"{where}it is {a[at]:.6g} instead of {b[at]:.6g}" + (
        f" ({many} of {far.size} differ)" if far.size > 1 else ""
    )


def kernel_of(words: Words, k: int, ran: Sequence[Ran], wanted: Ran, makers: Sequence[int | None]) -> str:
    """Why kernel ``k`` writes something else than it did: which of its inputs is not what it was, and who did that.

    ``makers``: of each argument the kernel that makes the state that it should read, None where none does or nobody knows.
    """
    call = ran[k].call
    reads = (1,) if call.src[0].op is Ops.COPY else sorted(accesses(call.src[0]).reads)
    wrong = [slot for slot in reads if not close(wanted.before[slot], ran[k].before[slot])]
    what = f"{words.kernel(k)} does not write what it did before this pass"
    if not wrong:
        over = [slot for slot in reads if slot and _overlap(call.src[1], call.src[1 + slot])]
        return what + "".join(f": {words.buffer(k, 0)} lies over {words.buffer(k, s)}, which it reads" for s in over)
    slot = wrong[0]
    name, maker = words.buffer(k, slot), makers[slot]
    if maker is not None and maker > k:
        return f"{what}: it reads {name} before {words.kernel(maker)} writes it, and nothing makes it wait (RAW)"
    writer = next((i for i in range(k - 1, -1, -1) if _overlap(ran[i].call.src[1], call.src[1 + slot])), None)
    if writer is None or writer == maker:
        return f"{what}: {name} holds something else"
    if _is_piece(call.src[1 + slot]):
        pieces = f"{_bytes(ran[writer].call.src[1])} and {_bytes(call.src[1 + slot])} of the arena"
        return f"{what}: {words.kernel(writer)} has written {words.buffer(writer, 0)} over {name}, which it reads: {pieces}"
    return f"{what}: it reads {name} after {words.kernel(writer)} has overwritten it, and nothing makes that wait (WAR)"


def _overlap(a: UOp, b: UOp) -> bool:
    """Whether two arguments share memory."""
    if state_below(a) is not state_below(b):
        return False
    (start, end), (other, last) = _span(a), _span(b)
    return start < last and other < end


def _span(argument: UOp) -> tuple[int, int]:
    """The first element of its memory (byte of an arena) that an argument shows, and the one after the last."""
    if argument.op in (Ops.BITCAST, Ops.RESHAPE):
        return _span(argument.src[0])
    if argument.op is not Ops.SHRINK:
        return 0, int(state_below(argument).size)
    (start, end), inner = argument.arg[0], argument.src[0]
    first, size = _span(inner)[0], argument.dtype.itemsize if inner.op is Ops.BITCAST else 1
    return first + start * size, first + end * size


def _is_piece(argument: UOp) -> bool:
    return any(u.op is Ops.BITCAST for u in argument.toposort())


def _bytes(argument: UOp) -> str:
    start, end = _span(argument)
    return f"bytes {start:,} to {end - 1:,}"


def indices_text(parts: Sequence[UOp]) -> str:
    """Index expressions as text."""
    return f"[{', '.join(map(expr, parts))}]"
