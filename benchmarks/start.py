"""What ``import`` costs: CPU time over NumPy's own import, in processes of their own, in turns.

In: nothing. Out: milliseconds (user and system, median of ten), once with the bytecode that Python keeps (what everybody
sees but for the very first time) and once without, when Python compiles every file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from statistics import median
from typing import Final

REPETITIONS: Final = 10
PACKAGES: Final = {"ours": "tinysched", "peer": "tinygrad.tensor"}
CODE: Final = """
import sys, time, numpy
there, start = len(sys.modules), time.process_time()
import {}
print((time.process_time() - start) * 1e3, len(sys.modules) - there)
"""


def reading(package: str, environment: dict[str, str]) -> tuple[float, int]:
    """CPU milliseconds of one import, and the modules it loads."""
    command = [sys.executable, "-c", CODE.format(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    ms, modules = done.stdout.split()
    return float(ms), int(modules)


def main() -> int:
    """Prints the table; a side that is not installed is left out."""
    plain = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    sides = [side for side, package in PACKAGES.items() if find_spec(package.split(".")[0])]
    found: dict[str, list[tuple[float, ...]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as kept:
        places = (kept, os.devnull)
        for _ in range(REPETITIONS + 1):
            for side in sides:
                read = [reading(PACKAGES[side], plain | {"PYTHONPYCACHEPREFIX": place}) for place in places]
                found[side].append((*[ms for ms, _ in read], read[0][1]))
    print(f"{'import':10s} {'kept bytecode ms':>18s} {'none kept ms':>14s} {'modules':>8s}")
    for side, rows in found.items():
        with_kept, without, modules = map(median, zip(*rows[1:], strict=True))  # the first one fills the place
        print(f"{side:10s} {with_kept:18.0f} {without:14.0f} {modules:8.0f}")
    return 0
