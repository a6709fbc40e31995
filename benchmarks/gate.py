"""What CI holds: no workload has more kernels or a larger arena than before, and work grows linearly.

In: nothing (``python -m benchmarks --gate``). Out: the figures, and exit status 1 where one is worse than it may be.

Nothing here depends on how busy the machine is, but for two checks that leave plenty of room. Growth is measured in
calls of functions, counted by Python's profiler, which are the same in every run; CPU time only has to stay well below
quadratic, and the ratios to the peer above half of what is aimed at.
"""

from __future__ import annotations

import cProfile
import gc
import json
import pstats
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.libs import Lib, counts, open_side
from benchmarks.measure import run_workload
from benchmarks.report import exponent, fastest, number, tightness
from benchmarks.workloads import WORKLOADS, build

TABLE: Final = Path(__file__).with_name("our_table.json")
PEER_TABLE: Final = Path(__file__).with_name("peer_table.json")
MOST_SLACK: Final = 1.04
"""The largest arena, in parts of its lower bound."""
MOST_CALLS: Final = 1.05
MOST_TIME: Final = 1.4
"""The largest exponents of growth: calls are exact, time is not."""
MOST_OF_FIRST: Final = 0.25
"""What one more layer may cost in parts of a whole one-layer model, in calls."""
LAYERS: Final = ("gpt", "train")
"""The families whose members are models of n equal layers."""
GROWTH: Final = {
    "gpt": (2, 4, 8, 16),
    "gptfn": (2, 4, 8),
    "train": (1, 2, 4),
    "chain": (1000, 3000, 10000),
    "rowsoftmax": (4, 8, 16, 32),
    "wide": (30, 100, 300),
    "flipdiamond": (4, 8, 16, 32),
    "assigns": (30, 100, 300),
}
FASTER: Final = {"mnist_fwd": 8, "resnet18": 8, "gpt_tiny": 5, "mlp_train_sgd": 5, "softmax": 3}
"""How many times faster than the peer a cold schedule is to be; half of it is what the gate asks for."""


def main() -> int:
    """Runs all checks; 1 where one fails."""
    lib = open_side("ours")
    faults = []
    for check in (sizes, growth, layers, ratios):
        with lib.settings():
            for fault in check(lib):
                print(f"  FAULT {fault}", flush=True)
                faults.append(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


# ** kernels and arenas **


def found_sizes(name: str, lib: Lib) -> dict[str, int]:
    """Kernels, copies, and bytes of the arena and of its lower bound."""
    found = counts(lib.linear(build(name, lib)))
    return {"kernels": found["kernels"], "copies": found["copies"], **lib.memory(partial(build, name, lib))}


def write_table() -> None:
    """Renews what :func:`sizes` compares with."""
    lib = open_side("ours")
    with lib.settings():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found_sizes(name, lib))}" for name in WORKLOADS)
    TABLE.write_text(f"{{\n{lines}\n}}\n")


def sizes(lib: Lib) -> Iterator[str]:
    """No workload needs more kernels, copies or bytes than the table says, nor more kernels than the peer."""
    table, peer = json.loads(TABLE.read_text()), json.loads(PEER_TABLE.read_text())["workloads"]
    worst = 1.0
    for name in WORKLOADS:
        found, most = found_sizes(name, lib), dict(table[name])
        most["kernels"] = min(most["kernels"], peer[name]["kernels"])
        worst = max(worst, tightness(found) or 1.0)
        yield from (f"{name}: {key} {found[key]}, was {most[key]}" for key in found if found[key] > most[key])
        if (tightness(found) or 1.0) > MOST_SLACK:
            yield f"{name}: the arena is {tightness(found):.3f} times its lower bound"
    print(f"{len(WORKLOADS)} workloads: arena over lower bound at most {worst:.3f}")


# ** growth **


def cold(name: str, lib: Lib) -> dict[str, Any]:
    """What a cold schedule takes: nodes of the graph, calls of functions, the fastest of three CPU times in ms."""
    seconds = []
    for _ in range(3):
        tensors = _fresh(name, lib)
        start = time.process_time()
        lib.linear(tensors)
        seconds.append(time.process_time() - start)
    profile, tensors = cProfile.Profile(), _fresh(name, lib)
    profile.runcall(lib.linear, tensors)
    gc.enable()
    stats: Any = pstats.Stats(profile)
    return {"uops": lib.graph_size(tensors), "calls": stats.total_calls, "ms": min(seconds) * 1e3}


def _fresh(name: str, lib: Lib) -> list[Any]:
    lib.forget()
    tensors = build(name, lib)
    gc.collect()
    gc.disable()
    return tensors


def growth(lib: Lib) -> Iterator[str]:
    """Work grows with the graph: exponents in its nodes (in n where calls of functions hide most of them)."""
    for family, members in GROWTH.items():
        found = {n: cold(f"{family}@{n}", lib) for n in members}
        unit = {n: n if family == "gptfn" else figures["uops"] for n, figures in found.items()}
        slopes = {key: exponent((unit[n], found[n][key]) for n in members) or 0.0 for key in ("calls", "ms")}
        print(
            f"{family:<12} {members}: exponent in calls {slopes['calls']:.3f}, in time {slopes['ms']:.2f}", flush=True
        )
        if slopes["calls"] > MOST_CALLS or slopes["ms"] > MOST_TIME:
            yield f"{family} grows by the power {slopes['calls']:.3f} in calls, {slopes['ms']:.2f} in time"


def layers(lib: Lib) -> Iterator[str]:
    """A layer that equals the one before costs a part of the first."""
    for family in LAYERS:
        one, two, three = (cold(f"{family}@{n}", lib)["calls"] for n in (1, 2, 3))
        part = (three - two) / one
        print(f"one more layer of {family}: {three - two} calls, {part:.2f} of the first model's {one}")
        if part > MOST_OF_FIRST:
            yield f"one more layer of {family} costs {part:.2f} of the first"


# ** against the peer **


def ratios(lib: Lib) -> Iterator[str]:
    """A cold schedule is at least half as much faster than the peer's as is aimed at."""
    for name, goal in FASTER.items():
        found = run_workload(name, ("ours", "peer"), 5)
        if errors := [side["error"] for side in found.values() if "error" in side]:
            yield f"{name}: {errors[0]}"
            continue
        ratio = fastest(found["peer"], "cold") / fastest(found["ours"], "cold")
        print(f"{name:<16} cold {number(ratio)} times faster than the peer (goal {goal})", flush=True)
        if ratio < goal / 2:
            yield f"{name}: only {number(ratio)} times faster than the peer, goal {goal}"
