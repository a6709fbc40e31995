"""What several widgets of one trace share: the trace, the way to run it, and the what-ifs.

In: a captured trace. Out: :class:`Session`, whose ``turn`` schedules again with decisions turned; widgets that joined it
are told. A decision is named in ``overrides`` by a Tensor's name, a line, or ``"node 12"``.

>>> from tinysched import Tensor, capture
>>> y = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize() * 2
>>> session = Session(Captured(capture(y.sum(), inputs={"y": y}), None))
>>> session.turn({"y": "realize"})
>>> session.compared.kernels
(1, 2)
"""

from __future__ import annotations

import re
import uuid
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from tinysched.errors import ArgumentError
from tinysched.explain.flips import flip, words
from tinysched.explain.speak import speaker
from tinysched.ir.lines import user_frame
from tinysched.tensor.core import Tensor
from tinysched.trace.capture import Captured, Traced, watch
from tinysched.trace.compare import Comparison, compare
from tinysched.trace.names import tensors_in, variables_of
from tinysched.trace.trace import Trace

_NODE = re.compile(r"node (\d+)(?: of schedule (\d+))?")


class Watcher(Protocol):
    """Who is told that the trace is another one now."""

    def changed(self) -> None: ...


class Session:
    """``base`` is what was captured, ``captured`` what is shown: the same, until a decision is turned."""

    def __init__(self, base: Captured, source: Traced | None = None):
        self.base = self.captured = base
        self.source = None if callable(source) and not isinstance(source, Tensor) else source
        self.named = _named_tensors() if self.source is not None else []
        self.overrides: dict[str, str] = {}
        self.compared: Comparison | None = None
        self.ran = False
        self.group = uuid.uuid4().hex[:12]
        self.watchers: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def trace(self) -> Trace:
        """What is shown now."""
        return self.captured.trace

    def run(self, values: Any = True) -> Trace:
        """Runs what is shown and commits its values."""
        self.ran = True
        return self.captured.run(values)

    # ** what if **

    def turn(self, overrides: Mapping[Any, str] | None) -> None:
        """Schedules again with exactly these decisions turned. Raises :class:`ArgumentError`, and changes nothing, where
        one cannot be."""
        wanted = {_text(key): what for key, what in (overrides or {}).items()}
        captured = self._turned(wanted) if wanted else self.base
        compared = compare(self.base.trace, captured.trace, run=False) if wanted else None
        self.captured, self.overrides, self.compared = captured, wanted, compared
        for watcher in list(self.watchers):
            watcher.changed()

    def _turned(self, wanted: Mapping[str, str]) -> Captured:
        by_schedule: dict[int, dict[Any, str]] = {}
        for key, what in wanted.items():
            which, name = _key(key, len(self.base.trace.schedules))
            by_schedule.setdefault(which, {})[name] = what
        if self.source is not None and not self.ran:  # Tensors that are lazy still: the new plan can be run
            inputs = {name: tensor for name, ref in self.named if (tensor := ref()) is not None}
            overrides = {k: v for part in by_schedule.values() for k, v in part.items()}
            return watch(self.source, inputs, self.base.trace.title, {"overrides": overrides})
        trace = self.base.trace
        for which, overrides in by_schedule.items():
            trace = trace.with_overrides(overrides, which)
        return Captured(trace, None)

    def try_it(self, node: int, what: str, schedule: int = -1) -> None:
        """Turns one decision more: the value that ``node`` shows is stored ("realize") or fused ("fuse")."""
        trace = self.trace
        s = trace.schedules[schedule]
        value = speaker(trace, s).follow.shows(node) if 0 <= node < len(s.nodes) else None
        if value is None:
            raise ArgumentError("this node is no value of the program", help="choose a value of the tensor graph")
        last = schedule % len(trace.schedules) == len(trace.schedules) - 1
        key = f"node {value}" + ("" if last else f" of schedule {schedule}")
        self.turn({**self.overrides, key: what})

    def undo(self, which: str | None = "") -> None:
        """Takes back one what-if: the last (""), the one with this key, or all (None)."""
        key = next(reversed(self.overrides), "") if which == "" else which
        self.turn({} if which is None else {k: v for k, v in self.overrides.items() if k != key})

    def measure(self) -> Comparison | None:
        """Runs both schedules on the same random inputs: times, and whether they leave the same values."""
        if self.overrides:
            self.compared = compare(self.base.trace, self.trace, run=True)
        return self.compared

    def flip(self, schedule: int, stage: int, step: int) -> str:
        """What one decision turned would give, as a sentence."""
        d = self.trace.schedules[schedule].stages[stage].steps[step]
        return words(flip(self.trace, schedule, (stage, step, d)), d)  # type: ignore[arg-type]

    def comparison(self) -> dict[str, Any] | None:
        """The comparison as the viewer takes it."""
        if self.compared is None:
            return None
        notes = [text for s in self.trace.schedules for text in s.choices.notes]
        return {**asdict(self.compared), "overrides": self.overrides, "names": self._names(), "notes": notes}

    def _names(self) -> dict[str, str]:
        """What people call the values that were turned."""
        trace, found = self.base.trace, {}
        for key in self.overrides:
            which, name = _key(key, len(trace.schedules))
            found[key] = speaker(trace, trace.schedules[which]).name(name) if isinstance(name, int) else str(name)
        return found


def _text(key: Any) -> str:
    return f"node {key}" if isinstance(key, int) else str(key)


def _key(key: str, schedules: int) -> tuple[int, Any]:
    """The schedule and the node (or name, or line) that a key of ``overrides`` means."""
    match = _NODE.fullmatch(key)
    if match is None:
        return schedules - 1, key
    which = schedules - 1 if match[2] is None else int(match[2])
    if which >= schedules:
        raise ArgumentError(f"there is no schedule {which}", help=f"this trace has {schedules}")
    return which, int(match[1])


def _named_tensors() -> list[tuple[str, weakref.ref[Tensor]]]:
    """What the user's variables call their Tensors, for when a callback, far from them, captures again."""
    frame = user_frame()
    scopes: Iterable[Any] = (variables_of(frame), frame.f_globals) if frame is not None else ()
    return [(name, weakref.ref(tensor)) for scope in scopes for name, tensor in tensors_in(scope)]


_SESSIONS: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()


def session_of(trace: Trace) -> Session:
    """The session of a trace: widgets that are given the same trace share one, and move together."""
    known = _SESSIONS.get(id(trace))
    if known is None or known.base.trace is not trace:
        known = _SESSIONS[id(trace)] = Session(Captured(trace, None))
    return known
