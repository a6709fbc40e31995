"""The command: runs measurements in processes of their own and prints them as they come.

Typical calls:
    python -m benchmarks                               all tables
    python -m benchmarks schedule --only 'gpt*' --reps 9
    python -m benchmarks growth micro --short --json result.json
    python -m benchmarks trace                         what capturing costs, against scheduling alone
    python -m benchmarks start                         what `import tinysched` costs over NumPy's own import
    python -m benchmarks viewer                        the explorer in Chromium: first picture, frames, steps
    python -m benchmarks gpu --json result.json        on a machine with a GPU: values, bandwidth, cuBLAS; 5 minutes
    python -m benchmarks --kernels softmax             both sides' kernels, a line each
    python -m benchmarks --gate                        what CI holds (a minute): kernels, arenas, growth
    python -m benchmarks --write-tables                the stored counts that tests and the gate compare with
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from benchmarks import gate, gpu, micro, report, start, viewer
from benchmarks.kernels import listing
from benchmarks.libs import SIDES, open_side
from benchmarks.report import Results
from benchmarks.workloads import GROW, WORKLOADS

SHORT: Final = (
    *("gelu", "softmax", "layernorm", "sdpa", "mlp_train_sgd", "adam_only", "mnist_fwd", "gpt_tiny"),
    *("embedding", "cumsum", "diamond", "movement"),
)


def measured(name: str, sides: Sequence[str], reps: int, timeout: float, table: str = "schedule") -> Results:
    """The figures of one measurement, made in a fresh process; what kills it is reported as an error."""
    request = json.dumps({"table": table, "name": name, "sides": list(sides), "reps": reps})
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "benchmarks.measure", request]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
        why = f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    except subprocess.TimeoutExpired:
        why = f"no answer within {timeout:.0f} s"
    return {side: {"error": why} for side in sides}


def chosen(names: Sequence[str], only: Sequence[str]) -> list[str]:
    return [name for name in names if not only or any(fnmatch(name, pattern) for pattern in only)]


class Run:
    """One call of the command: its options, and the tables it has filled so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.only, self.short = options, options.only, options.short
        self.tables: dict[str, dict[str, Results]] = {}

    def fill(self, table: str, names: Sequence[str], columns: Sequence[report.Column], reps: int) -> dict[str, Results]:
        """Measures one name after the other, prints a line for each, and returns their figures."""
        if names and table not in self.tables:
            print("", report.heading(table, columns), sep="\n")
            self.tables[table] = {}
        found = {}
        for name in names:
            found[name] = measured(name, self.options.sides, self.options.reps or reps, self.options.timeout, table)
            print(report.row(name, found[name], columns), flush=True)
        self.tables.get(table, {}).update(found)
        return found

    def schedule(self) -> None:
        names = chosen(SHORT if self.short and not self.only else list(WORKLOADS), self.only)
        if found := self.fill("schedule", names, report.SCHEDULE, 3 if self.short else 5):
            print(report.schedule_summary(found))

    def growth(self) -> None:
        for family in chosen(list(GROW), self.only):
            sizes = GROW[family][1]
            members = {n: f"{family}@{n}" for n in (sizes[: len(sizes) // 2 + 1] if self.short else sizes)}
            found = self.fill("growth", list(members.values()), report.GROWTH, 3)
            print(report.growth_summary(family, {n: found[member] for n, member in members.items()}))

    def micro(self) -> None:
        self.fill("micro", chosen(list(micro.MICRO), self.only), report.MICRO, 7)

    def trace(self) -> None:
        self.fill("trace", chosen(SHORT if self.short else list(WORKLOADS), self.only), report.TRACE, 5)


def machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "system": platform.platform(), "load": os.getloadavg()}


def write_peer_table(timeout: float) -> None:
    """Counts and memory of the installed peer: no times, so that the file changes only with the peer."""
    rows, versions = {}, set()
    for name in WORKLOADS:
        found = measured(name, ["peer"], 0, timeout)["peer"]
        if "error" in found:
            sys.exit(f"{name}: {found['error']}")
        versions.add(found["version"])
        rows[name] = {key: found[key] for key in ("uops", "kernels", "copies", "unique", "arena", "lower")}
        print(name, rows[name]["kernels"], flush=True)
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    gate.PEER_TABLE.write_text(f'{{\n  "peer": "{", ".join(versions)}",\n  "workloads": {{\n{lines}\n  }}\n}}\n')


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables = ("schedule", "growth", "micro", "trace")
    parser.add_argument(
        "tables", nargs="*", help=f"which tables ({', '.join(tables)}; default: all), or gpu, viewer, start alone"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="GLOB", help="only these workloads, families, micros")
    parser.add_argument("--reps", type=int, help="repetitions of each reading (default: 5, growth 3, micro 7)")
    parser.add_argument("--short", action="store_true", help="a few cheap workloads, small sizes: a minute or two")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="measure only these sides")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one workload (default: 600)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--gate", action="store_true", help="the checks of CI alone; exit status 1 where one fails")
    parser.add_argument("--kernels", metavar="NAME", help="list the kernels of a workload on each side, and stop")
    parser.add_argument("--write-tables", action="store_true", help="renew the stored counts of both sides, and stop")
    options = parser.parse_args(arguments)
    options.tables = options.tables or tables
    if unknown := set(options.tables) - {*tables, "gpu", "start", "viewer"}:
        parser.error(f"unknown table {', '.join(sorted(unknown))} (known: {', '.join(tables)})")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    if options.write_tables:
        write_peer_table(options.timeout)
        gate.write_table()
        return 0
    if options.gate:
        return gate.main()
    if options.kernels:
        for side in options.sides:
            print(side, *listing(options.kernels, open_side(side)), sep="\n")
        return 0
    if "gpu" in options.tables:
        return gpu.main(chosen(list(WORKLOADS), options.only), options.json)
    if "start" in options.tables:
        return start.main()
    if "viewer" in options.tables:
        return viewer.main(options.only)
    run = Run(options)
    for table in options.tables:
        getattr(run, table)()
    if not run.tables:
        sys.exit(f"nothing is called {' or '.join(options.only)} (--help lists the tables, workloads.py the names)")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "tables": run.tables}, indent=1))
    faults = report.faults(run.tables.get("schedule", {})) + report.trace_faults(run.tables.get("trace", {}))
    print(*faults, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
