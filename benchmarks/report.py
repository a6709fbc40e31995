"""The tables that the benchmarks print, and the figures they derive: ratios, growth exponents, a layer's share.

In: results by side as :mod:`benchmarks.measure` gives them. Out: text, a line per result, so that a long run can be
watched. Ratios read "how many times better than the peer": 8.0 is eight times faster, below 1 is slower.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Results = dict[str, dict[str, Any]]
"""Figures by side."""


@dataclass(frozen=True)
class Column:
    title: str
    width: int
    cell: Callable[[Results], str]


def number(value: Any) -> str:
    """Three figures, ``-`` for what is not known."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def ratio(results: Results, key: str) -> float | None:
    """The peer's figure over ours."""
    ours, peer = (results.get(side, {}).get(key) for side in ("ours", "peer"))
    return peer / ours if ours and peer else None


def times_untraced(results: Results, key: str) -> float | None:
    """How many times as long as an untraced schedule."""
    ours = results.get("ours", {})
    return ours[key] / ours["plan"] if key in ours else None


def tightness(figures: dict[str, Any]) -> float | None:
    """Arena over its lower bound; 1 where there is nothing to place."""
    if "arena" not in figures:
        return None
    return figures["arena"] / figures["lower"] if figures["lower"] else 1.0


def _of(side: str, key: str) -> Callable[[Results], str]:
    return lambda results: number(results.get(side, {}).get(key))


def _pair(title: str, key: str, width: int = 10) -> list[Column]:
    """Ours, the peer's and the ratio of one figure."""
    return [
        Column(title, width, _of("ours", key)),
        Column("peer", width, _of("peer", key)),
        Column("ratio", 7, lambda results: number(ratio(results, key))),
    ]


def spread(figures: dict[str, Any], key: str) -> float | None:
    """How far apart the middle half of the readings lies, in percent of their median."""
    readings = figures.get(f"{key}_all")
    if not readings:
        return None
    low, middle, high = statistics.quantiles(readings, n=4, method="inclusive")
    return 100 * (high - low) / middle


def _spreads(key: str) -> list[Column]:
    """The spread of ours and of the peer's."""
    sides = ("ours", "peer")
    return [Column("±%", 6, lambda r, side=side: number(spread(r.get(side, {}), key))) for side in sides]  # type: ignore[misc]


def _kernels() -> list[Column]:
    return [Column("kernels", 8, _of("ours", "kernels")), Column("peer", 5, _of("peer", "kernels"))]


SCHEDULE: Final = [
    *_kernels(),
    *_pair("cold ms", "cold"),
    *_spreads("cold"),
    *_pair("warm ms", "warm"),
    *_spreads("warm"),
    *_pair("first ms", "first"),
    *_pair("build ms", "build"),
    Column("arena/LB", 9, lambda results: number(tightness(results.get("ours", {})))),
    Column("peer", 6, lambda results: number(tightness(results.get("peer", {})))),
]
GROWTH: Final = [
    Column("UOps", 7, _of("ours", "uops")),
    Column("peer", 7, _of("peer", "uops")),
    *_kernels(),
    *_pair("cold ms", "cold"),
    *_spreads("cold"),
    *_pair("warm ms", "warm"),
]
MICRO: Final = _pair("us", "us")
TRACE: Final = [
    Column("plan ms", 10, _of("ours", "plan")),
    Column("capture", 10, _of("ours", "capture")),
    Column("times", 7, lambda results: number(times_untraced(results, "capture"))),
    Column("look", 10, _of("ours", "look")),
    Column("times", 7, lambda results: number(times_untraced(results, "look"))),
    Column("document", 10, _of("ours", "document")),
    Column("times", 7, lambda results: number(times_untraced(results, "document"))),
]
MOST_TIMES_UNTRACED: Final = 2.0
"""What tracing may cost."""


def heading(title: str, columns: Sequence[Column]) -> str:
    return f"{title:<24}" + "".join(f"{c.title:>{c.width}}" for c in columns)


def row(name: str, results: Results, columns: Sequence[Column]) -> str:
    """One line of figures, and one more for each side that failed."""
    line = f"{name:<24}" + "".join(f"{c.cell(results):>{c.width}}" for c in columns)
    failed = [f"    {side}: {found['error'].splitlines()[0]}" for side, found in results.items() if "error" in found]
    return "\n".join([line, *failed])


def faults(table: dict[str, Results]) -> list[str]:
    """What must not be: a side of ours that failed, more kernels than the peer, a cold schedule slower than the peer's."""
    found = []
    for name, results in table.items():
        ours, peer = results.get("ours", {}), results.get("peer", {})
        if "error" in ours:
            found.append(f"{name}: {ours['error'].splitlines()[0]}")
        if ours.get("kernels", 0) > peer.get("kernels", math.inf):
            found.append(f"{name}: {ours['kernels']} kernels, the peer needs {peer['kernels']}")
        if (faster := ratio(results, "cold")) is not None and faster < 1:
            found.append(f"{name}: cold schedule {1 / faster:.2f} times slower than the peer's")
    return found


def trace_faults(table: dict[str, Results], slack: float = 1.0) -> list[str]:
    """Workloads of ours that fail, or whose capture takes longer than it may."""
    found = [f"{name}: {r['ours']['error'].splitlines()[0]}" for name, r in table.items() if "error" in r["ours"]]
    for name, results in table.items():
        if (times := times_untraced(results, "capture") or 0) > MOST_TIMES_UNTRACED * slack:
            found.append(f"{name}: capturing takes {times:.2f} times as long as scheduling")
    return found


def schedule_summary(table: dict[str, Results]) -> str:
    """Geometric means of the ratios, and the worst workload of each."""
    lines = []
    for key in ("cold", "warm", "first", "build"):
        known = {name: r for name, results in table.items() if (r := ratio(results, key)) is not None}
        if known:
            worst = min(known, key=lambda name: known[name])
            mean = number(statistics.geometric_mean(known.values()))
            lines.append(f"{key}: geometric mean of the ratios {mean}, worst {number(known[worst])} ({worst})")
    for side in ("ours", "peer"):
        tight = {name: t for name, results in table.items() if (t := tightness(results.get(side, {}))) is not None}
        if tight:
            worst = max(tight, key=lambda name: tight[name])
            lines.append(f"arena over lower bound, {side}: worst {number(tight[worst])} ({worst})")
    return "\n".join(lines)


def exponent(points: Iterable[tuple[float, float]]) -> float | None:
    """The slope of a straight line through the points on log-log paper: 1 is linear growth."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    xs, ys = zip(*logs, strict=True)
    return float(statistics.linear_regression(xs, ys).slope)


def growth_summary(family: str, table: dict[int, Results]) -> str:
    """Growth exponents, and what one more unit (layer, op, output) costs in parts of the first member's unit.

    Exponents are in UOps, over the larger members, as small ones measure the constant; in n where calls hide the
    repetition, so that the graph hardly grows. The fastest reading of each is used, as noise only ever adds.
    """
    lines = []
    for side in ("ours", "peer"):
        known = {n: figures for n, results in sorted(table.items()) if "cold" in (figures := results.get(side, {}))}
        if len(known) < 2:
            continue
        best = {n: {key: fastest(figures, key) for key in ("build", "cold", "warm")} for n, figures in known.items()}
        upper = list(known)[len(known) // 3 :]
        unit = "uops" if (exponent((n, known[n]["uops"]) for n in upper) or 0) > 0.5 else "n"
        slopes = {key: exponent(((known[n] | {"n": n})[unit], best[n][key]) for n in upper) for key in best[upper[0]]}
        one, before, last = next(iter(known)), *list(known)[-2:]
        step = (best[last]["cold"] - best[before]["cold"]) / (last - before) / (best[one]["cold"] / one)
        exponents = ", ".join(f"{key} {number(slope)}" for key, slope in slopes.items())
        lines.append(f"  {family} {side}: exponents in {unit}: {exponents}; one more costs {number(step)} of the first")
    return "\n".join(lines)


def fastest(figures: dict[str, Any], key: str) -> float:
    return float(min(figures.get(f"{key}_all", [figures[key]])))
