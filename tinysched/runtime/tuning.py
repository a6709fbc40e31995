"""Which program of several a kernel runs as: what ``.contiguous(arg=...)`` asks for, or what ``BEAM`` has measured.

In: a kernel's SINK and its memory. Out: :class:`Bound`: the kernel ready to run, and the options it runs with, as words
(:mod:`tinysched.ir.options`). ``BEAM=n`` times the first n of :func:`variants` on scratch copies, each distinct kernel
once, and keeps the fastest; the tries are part of what a run reports.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> out, x = (UOp(Ops.PARAM, dtypes.int32, (), ParamArg(i, 6, "NUMPY")) for i in (0, 1))
>>> r0, r1 = UOp.range(2, 0), UOp.range(3, 1)
>>> copy = UOp.sink(out.index(r0 * 3 + r1).store(load(x.index(r0 * 3 + r1))).end(r0, r1))
>>> variants(copy, {})[:3]
[('lowering=numpy',), ('lowering=numpy', 'order=1,0'), ('lowering=numpy', 'block=8192')]
>>> print(numpy.program_text(reordered(copy, (1, 0))))
def kernel(p0, p1):
    out0 = view(p0, 0, (3, 2), (1, 3))
    x0 = view(p1, 0, (3, 2), (1, 3))  # r0*3 + r1
    out0[...] = x0
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from tinysched.errors import ArgumentError
from tinysched.ir.observe import current_observer
from tinysched.ir.ops import Ops
from tinysched.ir.options import Options, Opts
from tinysched.ir.uop import UOp
from tinysched.runtime import numba, numpy
from tinysched.runtime.loops import Line, text_of
from tinysched.runtime.nest import arguments_of, kernel_name, static_nodes, stores_of
from tinysched.settings import BEAM, CPU

Run = Callable[[], None]
BLOCKS: Final = (8192, 131072, 0, 16384, 65536)
REPEATS: Final = 3


class Bound(NamedTuple):
    """A kernel on certain memory, ready to run."""

    run: Run
    opts: Callable[[], Opts]
    """The options it runs with: of ``CPU=auto``, those of now."""


class Try(NamedTuple):
    """A variant that BEAM has measured."""

    opts: Opts
    seconds: float


_TRIED: Final[dict[tuple[Any, ...], tuple[Try, ...]]] = {}
"""What was measured, by kernel, Variables' values and BEAM."""
MOST_KEPT: Final = 4096


# ** what is asked for, what was applied **


def wanted(sink: UOp) -> Opts | None:
    """The options that a kernel's graph asks for; None if it leaves them open."""
    words = getattr(sink.arg, "opts_to_apply", None)
    return None if words is None else tuple(map(str, words))


def tries_of(sink: UOp, var_vals: Mapping[str, int] | None = None) -> tuple[Try, ...]:
    """What BEAM has measured of a kernel."""
    return _TRIED.get(_key(sink, var_vals or {}), ())


def opts_of(sink: UOp) -> Opts | None:
    """The options that a kernel without values for its Variables would run with now; None if CPU decides alone."""
    asked, tries = wanted(sink), tries_of(sink) if BEAM.value else ()
    return asked if asked is not None or not tries else min(tries, key=lambda t: t.seconds).opts


def program_text(sink: UOp, opts: Opts) -> str:
    """The program of a kernel that runs with options."""
    return text_of(program_lines(sink, opts))


def program_lines(sink: UOp, opts: Opts) -> list[Line]:
    """The same line by line, each with the nodes of the kernel that it computes."""
    chosen = Options.of(opts)
    if chosen.order is not None:
        sink = reordered(sink, chosen.order)
    if _is_compiled(chosen):
        return numba.program_lines(sink)
    return numpy.program_lines(sink, None, chosen.block)


def applied(sink: UOp, opts: Opts, beam: int) -> UOp:
    """A kernel that says which options it ran with, and how many variants were tried for it."""
    if not opts or sink.op is not Ops.SINK or not hasattr(sink.arg, "applied_opts"):
        return sink
    return sink.replace(arg=replace(sink.arg, applied_opts=opts, opts_to_apply=None, beam=beam))


def _key(sink: UOp, var_vals: Mapping[str, int]) -> tuple[Any, ...]:
    names = {str(v.arg.name) for v in arguments_of(sink)[1]}
    return sink, tuple(sorted((k, v) for k, v in var_vals.items() if k in names)), BEAM.value


# ** binding **


def bind(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Bound | None:
    """A kernel with the options it asks for, or that are the fastest; None if the setting CPU decides alone."""
    asked = wanted(sink)
    if CPU.word == "loops" or (asked is None and not BEAM.value):
        return None
    opts = asked if asked is not None else _fastest(sink, arrays, var_vals)
    run = bind_with(opts, sink, arrays, var_vals)
    return Bound(run, lambda: opts)


def bind_with(opts: Opts, sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Run:
    """A kernel on certain memory, as the options say. Raises :class:`ArgumentError` for an order of other loops."""
    chosen = Options.of(opts)
    if chosen.order is not None:
        sink = reordered(sink, chosen.order)
    if _is_compiled(chosen):
        return numba.bind(sink, arrays, var_vals)
    return numpy.bind(sink, arrays, var_vals, chosen.block)


def _is_compiled(chosen: Options) -> bool:
    """Whether options ask for compiled loops; blocks are something that only NumPy programs have."""
    return (chosen.lowering or CPU.word) in ("numba", "auto") and chosen.block is None


def reordered(sink: UOp, order: tuple[int, ...]) -> UOp:
    """The kernel with its loops in another order. Raises :class:`ArgumentError` unless it has so many."""
    stores = stores_of(sink)
    ranges = stores[0][1]
    if len(stores) != 1 or len(ranges) != len(order) or not _is_free(sink):
        loops = f"{len(ranges)} loops" if len(stores) == 1 else "several writes"
        loops = loops if _is_free(sink) or len(stores) != 1 else "a write at computed places"
        raise ArgumentError(
            f"order={','.join(map(str, order))} does not fit the kernel {kernel_name(sink)}, which has {loops}",
            help="an order names each loop once, by position",
        )
    return sink.replace(src=(stores[0][0].end(*(ranges[i] for i in order)),))


def _is_free(sink: UOp) -> bool:
    """Whether it is the same in whatever order its elements are written: each once."""
    return all(s.src[0].src[1].get_idx() in static_nodes(sink.toposort()) for s, _ in stores_of(sink))


# ** BEAM **


def variants(sink: UOp, var_vals: Mapping[str, int]) -> list[Opts]:
    """What BEAM tries, in this order: both lowerings, each with its loops in other orders, and blocks of other sizes."""
    lowerings = ["lowering=numpy"]
    if numba.is_there() and numba.is_lowered(sink, var_vals):
        lowerings.append("lowering=numba")
    n = len(stores_of(sink)[0][1])
    forward = tuple(range(n))
    orders = [forward[::-1], (*forward[:-2], *forward[:-3:-1])] if n > 1 and len(stores_of(sink)) == 1 else []
    orders = list(dict.fromkeys(orders)) if _is_free(sink) else []
    found: list[Opts] = [(word,) for word in lowerings]
    found += [(word, f"order={','.join(map(str, order))}") for order in orders for word in reversed(lowerings)]
    return found + [("lowering=numpy", f"block={size}") for size in BLOCKS]


def _fastest(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Opts:
    key = _key(sink, var_vals)
    if key not in _TRIED:
        if len(_TRIED) >= MOST_KEPT:
            _TRIED.clear()
        _TRIED[key] = _measured(sink, arrays, var_vals)
        _tell(sink, _TRIED[key])
    return min(_TRIED[key], key=lambda t: t.seconds).opts


def _measured(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> tuple[Try, ...]:
    """The medians of the variants, which take turns on scratch copies."""
    scratch = scratch_of(sink, arrays)
    tries = variants(sink, var_vals)[: BEAM.value]
    runs = {opts: bind_with(opts, sink, scratch, var_vals) for opts in tries}
    times: dict[Opts, list[float]] = {opts: [] for opts in tries}
    with np.errstate(all="ignore"):
        for repeat in range(1 + REPEATS):  # the first compiles, and warms the caches
            for opts, run in runs.items():
                start = time.perf_counter()
                run()
                times[opts] += [time.perf_counter() - start] if repeat else []
    return tuple(Try(opts, sorted(t)[len(t) // 2]) for opts, t in times.items())


def _tell(sink: UOp, tries: tuple[Try, ...]) -> None:
    watcher = current_observer()
    best = min(tries, key=lambda t: t.seconds)
    for t in tries if watcher is not None else ():
        data = {"name": kernel_name(sink), "opts": t.opts, "seconds": t.seconds, "is_best": t is best}
        watcher.on_event("beam", data)  # type: ignore[union-attr]


def scratch_of(sink: UOp, arrays: Sequence[Any]) -> list[Any]:
    """A kernel's memory with a copy of what it writes, so that trying it changes nothing."""
    writes = {int(store.src[0].src[0].arg.slot) for store, _ in stores_of(sink)}
    return [np.array(a) if i in writes else a for i, a in enumerate(arrays)]


def clear() -> None:
    """Forgets what was measured."""
    _TRIED.clear()
