"""Lists the kernels of a workload on both sides: where two counts differ, this shows which kernels.

In: a library and a workload's name. Out: one line of text per call of the LINEAR.
"""

from __future__ import annotations

from typing import Any

from benchmarks.libs import Lib
from benchmarks.workloads import build


def describe(call: Any) -> str:
    """Loops (R: reduced), sizes of the arguments, and the kernel's own size."""
    nodes = call.src[0].toposort()
    loops = [f"{n.src[0].arg}{'R' if n.arg[1].name == 'REDUCE' else ''}" for n in nodes if n.op.name == "RANGE"]
    reduces = sum(n.op.name == "REDUCE" for n in nodes)
    sizes = [getattr(s, "shape", ()) for s in call.src[1:]]
    return f"{call.src[0].op.name:<5} loops [{' '.join(loops)}] reduces {reduces} nodes {len(nodes)} arguments {sizes}"


def listing(name: str, lib: Lib) -> list[str]:
    with lib.settings():
        return [f"{i:>4} {describe(call)}" for i, call in enumerate(lib.linear(build(name, lib)).src)]
