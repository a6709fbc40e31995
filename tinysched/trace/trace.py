"""The trace: a whole document, its JSON form, and what can be asked of it.

In: schedules, lines and rules (:mod:`tinysched.trace.document`), given or written down when somebody first looks; or JSON.
Out: :class:`Trace`, which users hold. What draws, explains or checks is registered by the layers above (:data:`VIEWS`).

>>> empty = Trace(title="nothing")
>>> Trace.from_json(empty.to_json()) == empty
True
>>> Trace.from_json('{"schema": 99}')
Traceback (most recent call last):
...
tinysched.errors.TraceError: this trace has schema 99, and 0 is what this version reads
...
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tinysched import __version__
from tinysched.errors import TraceError
from tinysched.trace import codec
from tinysched.trace.document import Flip, Line, Rule, Schedule
from tinysched.trace.later import Later, late

SCHEMA = 0


@dataclass(frozen=True)
class Trace(Later):
    """Everything that was recorded; see the module. Methods that draw are added by the layers above."""

    title: str
    schedules: tuple[Schedule, ...] = late(tuple)
    lines: tuple[Line, ...] = late(tuple)
    rules: tuple[Rule, ...] = late(tuple)
    schema: int = SCHEMA
    tinysched: str = __version__

    live: ClassVar[Any] = None
    """What this process knows of a trace that it made (:mod:`tinysched.trace.live`); None for a loaded one."""

    def changed(self, **fields: Any) -> Trace:
        """The same trace with some fields changed; what the process knows of it stays."""
        new = dataclasses.replace(self, **fields)
        object.__setattr__(new, "live", self.live)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled trace is its document."""
        return Trace.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        n, kernels = len(self.schedules), sum(len(s.kernels) for s in self.schedules)
        return f"<Trace {self.title!r}: {n} schedule{'s' * (n != 1)}, {kernels} kernel{'s' * (kernels != 1)}>"

    def to_json(self) -> str:
        """The document as JSON: the same trace gives the same bytes."""
        data = {"schema": SCHEMA, "tinysched": self.tinysched, **codec.encode(self)}
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str | bytes) -> Trace:
        """A trace from its JSON. Raises :class:`TraceError` for anything that is not a whole, consistent document."""
        from tinysched.trace.check import check

        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"this is no trace: {error}", help="the file is truncated or was not made by to_json"
            ) from None
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema is None:
            raise TraceError("this is no trace: it has no schema", help="to_json makes one, and `report --save FILE`")
        if schema != SCHEMA:
            raise TraceError(
                f"this trace has schema {schema!r:.40}, and {SCHEMA} is what this version reads",
                help="make the trace again, or read it with the version that made it",
            )
        trace: Trace = codec.decode(Trace, data)
        check(trace)
        return trace

    @functools.cached_property
    def flipped(self) -> dict[tuple[int, int, int], Flip]:
        """The decisions that were turned to see what would happen: remembered, no part of the document."""
        return {}

    @property
    def decisions(self) -> Any:
        """Why each value was fused or got a buffer: ``trace.decisions.why(x)``."""
        return view("decisions")(self)

    def with_overrides(self, overrides: Mapping[Any, str], schedule: int = -1) -> Trace:
        """What if: the same computation with other decisions (:mod:`tinysched.trace.whatif`)."""
        from tinysched.trace.whatif import with_overrides

        return with_overrides(self, overrides, schedule)

    def with_policies(self, policies: Any, schedule: int = -1) -> Trace:
        """What if: the same computation, scheduled with other :class:`~tinysched.schedule.policy.Policies`."""
        from tinysched.trace.whatif import Changes, again

        return again(self, Changes(policies=policies), schedule).trace

    def check(self, inputs: Mapping[Any, Any] | None = None, *, schedule: int = -1, pipeline: Any = None) -> Any:
        """Which pass, and in it which rewrite, changes a value: every graph is evaluated on the same inputs."""
        return view("check")(self, inputs, schedule=schedule, pipeline=pipeline)

    def to_networkx(self, stage: str | int = 0, step: int = 0, schedule: int = -1) -> Any:
        """The visible graph after ``step`` steps of a stage, as a ``networkx.DiGraph`` from sources to readers."""
        return view("to_networkx")(self, stage, step, schedule)

    def to_dot(self, stage: str | int = 0, step: int = 0, schedule: int = -1) -> Any:
        """The same as a ``graphviz.Source``; drawing it needs Graphviz, its text does not."""
        return view("to_dot")(self, stage, step, schedule)

    def to_svg(
        self, stage: str | int | None = None, step: int | None = None, schedule: int = -1, engine: str = "own"
    ) -> str:
        """A picture of the graph with its kernels, as SVG text. ``engine="dot"``: laid out by Graphviz, where there is one."""
        return view("to_svg")(self, stage, step, schedule, engine)  # type: ignore[no-any-return]

    def to_png(self, stage: str | int | None = None, step: int | None = None, schedule: int = -1) -> bytes:
        """The same picture as PNG bytes, for places that show no SVG."""
        return view("to_png")(self, stage, step, schedule)  # type: ignore[no-any-return]

    def to_svg_frames(
        self,
        stage: str | int = "rangeify",
        steps: Iterable[int] | None = None,
        *,
        folder: str | Path | None = None,
        schedule: int = -1,
    ) -> tuple[str, ...]:
        """A pass as pictures, one SVG text per step; with ``folder`` they are also written there."""
        return view("to_svg_frames")(self, stage, steps, folder=folder, schedule=schedule)  # type: ignore[no-any-return]

    def to_gif(
        self,
        path: str | Path,
        stage: str | int = "rangeify",
        steps: Iterable[int] | None = None,
        *,
        seconds: float = 1.2,
        schedule: int = -1,
    ) -> Path:
        """Writes a pass as an animated GIF, ``seconds`` per step, and returns its path."""
        return view("to_gif")(self, path, stage, steps, seconds=seconds, schedule=schedule)  # type: ignore[no-any-return]

    def to_text(self) -> str:
        """Kernels, order and memory as a table, for terminals and screen readers."""
        return view("to_text")(self)  # type: ignore[no-any-return]

    def to_html(self, path: str | Path) -> Path:
        """Writes the explorer as one file that steps from disk, without Python and without a network."""
        return view("to_html")(self, path)  # type: ignore[no-any-return]


VIEWS: dict[str, Callable[..., Any]] = {}
"""What can be drawn of a trace. The layer above fills this when it is imported: a trace does not know its views."""
MADE_BY = {"decisions": "tinysched.explain", "flips": "tinysched.explain", "check": "tinysched.explain"}
DRAWN_BY = "tinysched.views"
"""Who fills it, by name only."""


def view(name: str) -> Callable[..., Any]:
    """A registered view; loads the layer that has it on first use."""
    if name not in VIEWS:
        importlib.import_module(MADE_BY.get(name, DRAWN_BY))
    return VIEWS[name]
