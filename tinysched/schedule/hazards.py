"""Which kernels must run before which, and why: the states of memory and who makes, uses and overwrites them.

In: a SINK of ``AFTER(state, CALL...)`` nodes. A *state* is a BUFFER or PARAM (memory as it came) or an AFTER (memory as
kernels left it); a CALL's arguments are states, maybe under movement ops. Out: :class:`Hazards`, the kernels (numbered
as the graph is walked) and edges between them, each with its kind and its buffer.

- RAW (read after write): who uses a state runs after the kernels that made it, and after all that they waited for.
- WAR (write after read): who reads a state runs before kernels that overwrite what it reads.
- WAW (write after write): of kernels that make one state together, the later named runs later if both write a byte.

Bytes decide on the last two: where what two kernels touch cannot meet, there is no edge. An AFTER may name other AFTERs
too: its own kernels (or, if it has none, its users) wait for theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Literal

from tinysched.errors import ScheduleError
from tinysched.ir.lines import where
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.text import expr
from tinysched.ir.uop import UOp
from tinysched.schedule.accesses import Accesses, Span, accesses, overlap, written_slots
from tinysched.tensor.storage import replace_base

Kind = Literal["RAW", "WAR", "WAW"]


@dataclass(slots=True, eq=False)
class State:
    """Memory as the kernels ``makers`` left it, or as it came, where there is no ``parent``."""

    memory: UOp
    parent: State | None = None
    makers: tuple[int, ...] = ()
    users: list[int] = field(default_factory=list)
    children: list[State] = field(default_factory=list)

    def child(self, makers: tuple[int, ...]) -> State:
        """The state that these kernels make of this one."""
        for known in self.children:
            if known.makers == makers:
                return known
        self.children.append(State(self.memory, self, makers))
        return self.children[-1]

    def beside(self) -> tuple[set[int], list[State]]:
        """The kernels that had a part in this state; the states that branch off from its past."""
        history, branches, state = set(self.makers), [], self
        while state.parent is not None:
            branches += [s for s in state.parent.children if s is not state]
            state = state.parent
            history.update(state.makers)
        return history, branches


def state_below(u: UOp) -> UOp | None:
    """The BUFFER, PARAM or AFTER whose memory a kernel's argument shows; None for a Variable."""
    view = u
    while u.op in GroupOp.Movement or u.op in (Ops.BITCAST, Ops.CAST):
        u = u.src[0]
    if u.op not in (Ops.BUFFER, Ops.PARAM, Ops.AFTER):
        raise ScheduleError(
            f"a kernel's argument must be memory, not {u.op.name}", where=where(view), help="store the value first"
        )
    return None if u.is_variable else u


class Hazards:
    """The kernels below a SINK and why which must run before which."""

    def __init__(self, sink: UOp):
        self.calls: list[UOp] = []
        self.buffers: list[tuple[UOp, ...]] = []
        """Of each kernel: the intermediates (BUFFERs) that it uses."""
        self.edges: dict[tuple[int, int, Kind, UOp], None] = {}
        """(before, after, kind, buffer), in the order in which they were found."""
        self._numbers: dict[UOp, int] = {}
        self._arguments: list[list[UOp | None]] = []  # of each kernel: the nodes of the states it uses
        self._initial: dict[object, State] = {}
        self._states: dict[UOp, State] = {}
        self._roots: dict[UOp, UOp] = {}  # of each node: the BUFFER or PARAM below it
        self._waits: dict[UOp, dict[int, UOp]] = {}  # of each node: kernels its users wait for, and the buffer
        self._accesses: dict[UOp, Accesses] = {}
        self._written: dict[UOp, list[int]] = {}
        self._spans: dict[tuple[int, UOp], list[Span]] = {}
        # every kernel hangs below an AFTER; kernels' bodies are not entered
        for u in sink.toposort(lambda u: u is sink or u.op is not Ops.SINK):
            if u.op is Ops.AFTER:
                self._add_after(u)
        self._add_unnamed_states()
        self._order_writers_and_readers()

    def on_plain_buffers(self, kernel: int) -> UOp:
        """The CALL with memory in place of states."""
        call = self.calls[kernel]
        found = zip(call.src[1:], self._arguments[kernel], strict=True)
        if call.src[0].op is Ops.FUNCTION:  # its kernels see the views that it is passed
            plain = [a if node is None else replace_base(a, self._roots[node]) for a, node in found]
        else:
            plain = [a if node is None else self._roots[node] for a, node in found]
        return call.over((call.src[0], *plain))

    # ** states, and read after write **

    def _state(self, node: UOp) -> State:
        """The state a node names. AFTERs are known by now; memory as it came is met here for the first time."""
        if node not in self._states:
            # two PARAMs of one slot are the same memory
            same = node.arg.slot if node.op is Ops.PARAM else node
            self._states[node] = self._initial.setdefault(same, State(node))
            self._roots[node], self._waits[node] = node, {}
        return self._states[node]

    def _add_after(self, after: UOp) -> None:
        before = state_below(after.src[0])
        if before is None:
            raise ScheduleError("a Variable cannot be written", where=where(after), help="write a BUFFER or a PARAM")
        parent = self._state(before)
        calls = [s for s in after.src[1:] if s.op is Ops.CALL]
        kernels = [self._kernel(call) for call in calls]
        makers = tuple(k for k in dict.fromkeys(kernels) if k not in parent.makers)
        waits = dict(self._waits[before])
        for s in after.src[1:]:
            if s.op is not Ops.CALL and (other := state_below(s)) is not None:
                self._state(other)
                waits.update(self._waits[other])
        for k in makers:
            self._wait(k, waits)
        self._states[after] = parent.child(makers) if makers else parent
        self._roots[after] = self._roots[before]
        self._waits[after] = dict.fromkeys(makers, parent.memory) or waits

    def _kernel(self, call: UOp) -> int:
        """The number of a kernel; a new one waits for the makers of the states it uses."""
        if call in self._numbers:
            return self._numbers[call]
        k = self._numbers[call] = len(self.calls)
        self.calls.append(call)
        nodes = [state_below(a) for a in call.src[1:]]
        self._arguments.append(nodes)
        for node in dict.fromkeys(nodes):
            if node is not None:
                self._state(node).users.append(k)
                self._wait(k, self._waits[node])
        memories = dict.fromkeys(self._states[node].memory for node in nodes if node is not None)
        self.buffers.append(tuple(m for m in memories if m.op is Ops.BUFFER))
        return k

    def _wait(self, kernel: int, waits: dict[int, UOp]) -> None:
        for other, buffer in waits.items():
            if other != kernel:
                self.edges[other, kernel, "RAW", buffer] = None

    def _add_unnamed_states(self) -> None:
        """A kernel may write an argument that nobody reads afterwards: readers of what was there still come before."""
        made = {(k, s.memory) for s in self._states.values() for k in s.makers}
        for k, call in enumerate(self.calls):
            body = call.src[0]
            if body not in self._written:
                self._written[body] = written_slots(body)
            for slot in self._written[body]:
                node = self._arguments[k][slot]
                if node is not None and (k, self._states[node].memory) not in made:
                    self._states[node].child((k,))

    # ** write after read, write after write **

    def _order_writers_and_readers(self) -> None:
        states = [s for first in self._initial.values() for s in _descendants(first)]
        forked = {s.memory for s in states if len(s.children) > 1}
        for state in states:
            for a, b in combinations(state.makers, 2):
                if self._meet(self._writes(a, state.memory), self._writes(b, state.memory)):
                    self.edges[a, b, "WAW", state.memory] = None
            self._refuse_rivals(state)
            for reader in dict.fromkeys(state.users):
                history, later = state.beside() if state.memory in forked else (set(), [])
                self._order_reader(reader, state, history, [*state.children, *later])

    def _order_reader(self, reader: int, state: State, history: set[int], later: list[State]) -> None:
        """``reader`` runs before the first kernels that overwrite what it reads of ``state``; others follow those."""
        reads: list[Span] | None = None  # looked for only where somebody overwrites the state
        while later:
            step = later.pop()
            done = reader in step.makers  # what follows its own write follows it
            for writer in step.makers:
                if writer == reader or writer in history:
                    continue
                reads = self._reads(reader, state) if reads is None else reads
                if self._meet(reads, self._writes(writer, state.memory)):
                    self.edges[reader, writer, "WAR", state.memory] = None
                    done = True
            if not done:
                later.extend(step.children)

    def _refuse_rivals(self, state: State) -> None:
        """Two states made of one may not write the same bytes: nothing would say which is the last."""
        for one, two in combinations(state.children, 2):
            for a, b in product(one.makers, two.makers):
                if a in two.makers or b in one.makers:
                    continue
                if self._meet(self._writes(a, state.memory), self._writes(b, state.memory)):
                    raise ScheduleError(
                        f"two kernels overwrite {expr(state.memory)}, and nothing says which comes last",
                        where=f"{where(self.calls[a])}; {where(self.calls[b])}",
                        help="let the second write the state that the first leaves: AFTER(AFTER(b, first), second)",
                    )

    # ** bytes **

    def _reads(self, kernel: int, state: State) -> list[Span]:
        found = self._touched(kernel).reads.items()
        return [span for slot, span in found if self._argument(kernel, slot) is state]

    def _writes(self, kernel: int, memory: UOp) -> list[Span]:
        spans = self._spans.get((kernel, memory))
        if spans is None:
            found = ((span, self._argument(kernel, slot)) for slot, span in self._touched(kernel).writes.items())
            spans = [span for span, state in found if state is not None and state.memory is memory]
            self._spans[kernel, memory] = spans
        return spans

    def _argument(self, kernel: int, slot: int) -> State | None:
        node = self._arguments[kernel][slot]
        return None if node is None else self._states[node]

    def _touched(self, kernel: int) -> Accesses:
        body = self.calls[kernel].src[0]
        if body not in self._accesses:
            self._accesses[body] = accesses(body)
        return self._accesses[body]

    @staticmethod
    def _meet(a: list[Span], b: list[Span]) -> bool:
        return any(overlap(x, y) for x in a for y in b)


def _descendants(first: State) -> list[State]:
    """A state and all that were made of it, parents first."""
    found = [first]
    for state in found:  # the list grows while it is walked
        found.extend(state.children)
    return found
