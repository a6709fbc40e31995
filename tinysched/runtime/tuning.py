"""Which program of several a kernel runs as: what ``.contiguous(arg=...)`` asks for, or what ``BEAM`` has measured.

In: a kernel's SINK and its memory. Out: an option per choice, as words: ``block=8192`` (elements of the largest array
within a block; 0: no blocks), ``lowering=numpy`` or ``lowering=numba``. ``BEAM=n`` times the first n of
:data:`VARIANTS` on scratch copies, each kernel once, and keeps the fastest; each try is an event in the trace.

>>> options(("block=8192", "lowering=numpy"))
{'block': '8192', 'lowering': 'numpy'}
>>> options(("unroll=4",))
Traceback (most recent call last):
    ...
tinysched.errors.ArgumentError: 'unroll=4' is no option of a kernel
  help: block=N, lowering=numpy, lowering=numba
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np

from tinysched.errors import ArgumentError
from tinysched.ir.observe import current_observer
from tinysched.ir.uop import UOp
from tinysched.runtime import numba, numpy
from tinysched.runtime.nest import arguments_of, kernel_name, stores_of
from tinysched.settings import BEAM, CPU

Opts = tuple[str, ...]
Run = Callable[[], None]

VARIANTS: Final[tuple[Opts, ...]] = (
    ("lowering=numpy",), ("lowering=numba",), ("lowering=numpy", "block=8192"), ("lowering=numpy", "block=131072"),
    ("lowering=numpy", "block=0"), ("lowering=numpy", "block=16384"), ("lowering=numpy", "block=65536"),
)  # fmt: skip
REPEATS: Final = 3

_BEST: Final[dict[tuple[Any, ...], Opts]] = {}
"""The fastest variant by kernel, Variables' values and BEAM."""
MOST_KEPT: Final = 4096


def options(words: Iterable[str]) -> dict[str, str]:
    """Options by name; raises :class:`ArgumentError` for those that don't exist."""
    found = {}
    for word in words:
        name, _, value = str(word).partition("=")
        known = value.isdecimal() if name == "block" else name == "lowering" and value in ("numpy", "numba")
        if not known:
            raise ArgumentError(f"{word!r} is no option of a kernel", help="block=N, lowering=numpy, lowering=numba")
        found[name] = value
    return found


def wanted(sink: UOp) -> Opts | None:
    """The options that a kernel's graph asks for; None if it leaves them open."""
    words = getattr(sink.arg, "opts_to_apply", None)
    return None if words is None else tuple(map(str, words))


def applied_opts(sink: UOp, var_vals: Mapping[str, int] | None = None) -> Opts:
    """The options that a kernel runs with now: those asked for, or the fastest of its BEAM; none if neither."""
    asked = wanted(sink)
    return asked if asked is not None else _BEST.get(_key(sink, var_vals or {}), ())


def _key(sink: UOp, var_vals: Mapping[str, int]) -> tuple[Any, ...]:
    names = {str(v.arg.name) for v in arguments_of(sink)[1]}
    return sink, tuple(sorted((k, v) for k, v in var_vals.items() if k in names)), BEAM.value


def bind(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Run | None:
    """A kernel on certain memory with the options it asks for or that are the fastest; None if the setting CPU decides."""
    asked = wanted(sink)
    if CPU.word == "loops" or (asked is None and not BEAM.value):
        return None
    opts = asked if asked is not None else _fastest(sink, arrays, var_vals)
    return bind_with(opts, sink, arrays, var_vals)


def bind_with(opts: Opts, sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Run:
    """A kernel on certain memory, as the options say."""
    chosen = options(opts)
    if chosen.get("lowering", CPU.word) in ("numba", "auto") and "block" not in chosen:
        return numba.bind(sink, arrays, var_vals)
    block = int(chosen["block"]) if "block" in chosen else None
    return numpy.bind(sink, arrays, var_vals, block)


def _fastest(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Opts:
    key = _key(sink, var_vals)
    if (known := _BEST.get(key)) is not None:
        return known
    scratch = scratch_of(sink, arrays)
    tries = [v for v in VARIANTS if v != ("lowering=numba",) or numba.is_there()][: max(1, BEAM.value)]
    runs = {opts: bind_with(opts, sink, scratch, var_vals) for opts in tries}
    times: dict[Opts, list[float]] = {opts: [] for opts in tries}
    for repeat in range(1 + REPEATS):  # the first compiles, and warms the caches
        for opts, run in runs.items():
            start = time.perf_counter()
            run()
            times[opts] += [time.perf_counter() - start] if repeat else []
    seconds = {opts: median(t) for opts, t in times.items()}
    best = min(seconds, key=lambda opts: seconds[opts])
    if (watcher := current_observer()) is not None:
        for opts in tries:
            data = {"name": kernel_name(sink), "opts": opts, "seconds": seconds[opts], "is_best": opts is best}
            watcher.on_event("beam", data)
    if len(_BEST) >= MOST_KEPT:
        _BEST.clear()
    _BEST[key] = best
    return best


def scratch_of(sink: UOp, arrays: Sequence[Any]) -> list[Any]:
    """A kernel's memory with a copy of what it writes, so that trying it changes nothing."""
    writes = {int(store.src[0].src[0].arg.slot) for store, _ in stores_of(sink)}
    return [np.array(a) if i in writes else a for i, a in enumerate(arrays)]


def clear() -> None:
    """Forgets what was measured."""
    _BEST.clear()
