"""Jobs in a process of their own: what kills it, or hangs, costs one row, and the next job runs in a new process.

In: a function that makes the jobs, by name, in that process, and how long all of them may take. Out: for each name its
result, or the sentence why there is none, as they come.
"""

from __future__ import annotations

import multiprocessing as mp
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

Job = Callable[[], Any]


class Jobs(NamedTuple):
    """What to do, and whether a process in which something failed is still good for the next job."""

    by_name: Mapping[str, Job]
    usable: Callable[[], bool]


class Done(NamedTuple):
    name: str
    result: Any = None
    error: str = ""
    trace: str = ""
    """Where the error was raised."""


NO_TIME: Final = "left out: no time"


def here(jobs: Jobs, names: Sequence[str]) -> Iterator[Done]:
    """The jobs one after the other in this process, until one leaves it unusable."""
    for name in names:
        try:
            yield Done(name, jobs.by_name[name]())
        except Exception as e:
            first = (str(e).strip().splitlines() or ["no message"])[0]
            yield Done(name, None, f"{type(e).__name__}: {first}", "".join(traceback.format_exception(e)))
            if not jobs.usable():
                return


def supervised(make: Callable[[], Jobs], names: Sequence[str], seconds: float, most: float) -> Iterator[Done]:
    """The same in other processes, within some seconds for all, and at most so many for one; ``make`` can be pickled."""
    ends, left = time.monotonic() + seconds, list(names)
    while left:
        if time.monotonic() >= ends:
            yield from (Done(name, error=NO_TIME) for name in left)
            return
        for done in _in_one_process(make, tuple(left), ends, most):
            left.remove(done.name)
            yield done


def _in_one_process(make: Callable[[], Jobs], names: Sequence[str], ends: float, most: float) -> Iterator[Done]:
    """As many jobs as a process does; one that it does not survive is the last."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(make, names, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        for name in names:
            wait = min(most, ends - time.monotonic())
            if not ours.poll(max(0.0, wait)):
                yield Done(name, error=f"no answer within {most:.0f} s" if wait == most else NO_TIME)
                return
            try:
                done: Done = ours.recv()
            except EOFError:
                process.join(5)
                if process.exitcode != 0:
                    yield Done(name, error=f"its process ended with status {process.exitcode}")
                return
            yield done
    finally:
        process.kill()
        process.join()


def _work(make: Callable[[], Jobs], names: Sequence[str], pipe: Connection) -> None:
    for done in here(make(), names):
        pipe.send(done)
