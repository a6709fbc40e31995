"""Measures one workload on the asked sides, in a process of its own.

In: ``python -m benchmarks.measure '{"table": ..., "name": ..., "sides": [...], "reps": ...}'``. Out: one line of JSON.

Times are CPU time of the process (the machine may be busy, and scheduling is single-threaded) with the garbage
collector off in the timed region; the sides take turns within each repetition, so that a slow minute hits both. A
process per workload makes "first" mean first, and keeps a crash or a leak of one from the others.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import Any, TypeVar

from benchmarks.libs import Lib, counts, open_side
from benchmarks.micro import MICRO
from benchmarks.workloads import build

R = TypeVar("R")
Reading = dict[str, Any]


def timed(run: Callable[[], R]) -> tuple[R, float]:
    """What ``run`` returns, and its CPU milliseconds with the garbage collector off."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        result = run()
        return result, (time.process_time() - start) * 1e3
    finally:
        gc.enable()


class Turns:
    """Sides that take turns. One that fails says why in ``errors`` and is left out from then on."""

    def __init__(self, sides: Iterable[str]) -> None:
        self.libs: dict[str, Lib] = {}
        self.errors: dict[str, Reading] = {}
        self.readings: dict[str, defaultdict[str, list[Any]]] = {}
        self._backwards = False
        for side in sides:
            self.readings[side] = defaultdict(list)
            self._guarded(side, lambda side: self.libs.__setitem__(side, open_side(side)))

    def take(self, reading: Callable[[Lib], Reading]) -> None:
        """One reading of every side that still works; who goes first changes each time."""
        for side in list(self.libs)[:: -1 if self._backwards else 1]:
            self._guarded(side, partial(self._read, reading))
        self._backwards = not self._backwards

    def _read(self, reading: Callable[[Lib], Reading], side: str) -> None:
        with self.libs[side].settings():
            for key, value in reading(self.libs[side]).items():
                self.readings[side][key].append(value)

    def _guarded(self, side: str, run: Callable[[str], None]) -> None:
        try:
            run(side)
        except Exception as error:  # whatever one side raises, the other side's figures are still wanted
            self.libs.pop(side, None)
            self.errors[side] = {"error": f"{type(error).__name__}: {error}"[:300], "traceback": traceback.format_exc()}

    def results(self) -> dict[str, Reading]:
        """The figures of each side, and its error if it failed."""
        return {side: summary(found) | self.errors.get(side, {}) for side, found in self.readings.items()}


def summary(found: dict[str, list[Any]]) -> Reading:
    """What was read once, the median of what was read more often, and all readings of that beside it."""
    several = {key: values for key, values in found.items() if len(values) > 1}
    figures = {key: median(values) if key in several else values[0] for key, values in found.items()}
    return figures | {f"{key}_all": values for key, values in several.items()}


def first(name: str, lib: Lib) -> Reading:
    """Counts, and the time of the first schedule in this process."""
    tensors = build(name, lib)
    size = lib.graph_size(tensors)
    linear, ms = timed(partial(lib.linear, tensors))
    return {"version": lib.version(), "uops": size, **counts(linear), "first": ms}


def cold(name: str, lib: Lib) -> Reading:
    """Building and scheduling with every cache empty."""
    lib.forget()
    tensors, building = timed(partial(build, name, lib))
    return {"build": building, "cold": timed(partial(lib.linear, tensors))[1]}


def warm(name: str, lib: Lib) -> Reading:
    """Scheduling a fresh graph of a structure that was scheduled before."""
    return {"warm": timed(partial(lib.linear, build(name, lib)))[1]}


def memory(name: str, lib: Lib) -> Reading:
    return lib.memory(partial(build, name, lib))


def traced(name: str, lib: Lib) -> Reading:
    """A cold schedule, one that is captured, a capture that is looked at, and one written down as a whole (ours only)."""
    from tinysched import capture

    ways = {
        "plan": lib.linear,
        "capture": capture,
        "look": lambda tensors: capture(tensors).schedules,
        "document": lambda tensors: capture(tensors).to_json(),
    }
    found = {}
    for way, run in ways.items():
        lib.forget()
        found[way] = timed(partial(run, build(name, lib)))[1]
    return found


def micro(name: str, lib: Lib) -> Reading:
    run, operations = MICRO[name](lib)
    return {"us": timed(run)[1] * 1e3 / operations}


def run_workload(name: str, sides: Iterable[str], reps: int) -> dict[str, Reading]:
    """All figures of a workload (or of a growth family's member) by side."""
    turns = Turns(sides)
    turns.take(partial(first, name))
    for _ in range(reps):
        turns.take(partial(cold, name))
        turns.take(partial(warm, name))
    turns.take(partial(memory, name))
    return turns.results()


def run_micro(name: str, sides: Iterable[str], reps: int) -> dict[str, Reading]:
    """Microseconds per operation of one micro benchmark by side."""
    turns = Turns(sides)
    for _ in range(reps):
        turns.take(partial(micro, name))
    return turns.results()


def run_traced(name: str, sides: Iterable[str], reps: int) -> dict[str, Reading]:
    """What tracing a workload costs."""
    turns = Turns(["ours"])
    for _ in range(reps):
        turns.take(partial(traced, name))
    return turns.results()


RUNS = {"micro": run_micro, "trace": run_traced}


def main(request: str) -> None:
    asked = json.loads(request)
    run = RUNS.get(asked["table"], run_workload)
    print(json.dumps(run(asked["name"], asked["sides"], asked["reps"])))


if __name__ == "__main__":
    main(sys.argv[1])
