"""The graph for other tools: as a networkx graph and as DOT.

In: a trace, a stage (by name or number), a step. Out: the visible graph. Labels are data: DOT's are escaped.

>>> from tinysched.trace.document import Node, Schedule, Stage
>>> from tinysched.trace.trace import Trace
>>> x, y = Node("PARAM", "float32", "<p>", "memory", shape=(4,)), Node("EXP2", "float32", "exp2", "alu", (0,), (4,))
>>> t = Trace("t", (Schedule("s", (x, y), (Stage("tensor graph", 1, 1),)),))
>>> list(to_networkx(t).edges)
[(0, 1)]
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from typing import Any

import networkx as nx

from tinysched.errors import TraceError
from tinysched.trace.document import Schedule, Stage
from tinysched.trace.trace import Trace
from tinysched.views.picture import COLOURS, draw

SECONDS = 3.0
"""That Graphviz has for a picture: on graphs with long edges it may never end."""


def find(trace: Trace, stage: str | int, schedule: int) -> tuple[Schedule, Stage]:
    """The schedule and stage that are meant."""
    if not -len(trace.schedules) <= schedule < len(trace.schedules):
        raise TraceError(f"there is no schedule {schedule}", help=f"this trace has {len(trace.schedules)}")
    found = trace.schedules[schedule]
    return found, found.stage(stage)


def to_networkx(trace: Trace, stage: str | int = 0, step: int = 0, schedule: int = -1) -> Any:
    """A DiGraph from sources to readers; nodes carry ``node`` (the id), ``label``, ``sub``, ``kind`` and ``kernels``."""
    s, where = find(trace, stage, schedule)
    picture = draw(s, where)
    shown, edges = picture.at(step)
    graph = nx.DiGraph(name=f"{s.title}, {where.name}")
    for slot, c in sorted(shown.items()):
        node = s.nodes[c.node]
        graph.add_node(slot, node=c.node, label=c.title, sub=c.sub, kind=node.kind, kernels=picture.hulls[slot])
    graph.add_edges_from(picture.edges[e] for e in sorted(edges))
    return graph


def to_dot(trace: Trace, stage: str | int = 0, step: int = 0, schedule: int = -1) -> Any:
    """A ``graphviz.Source``."""
    import graphviz

    graph = to_networkx(trace, stage, step, schedule)
    lines = [
        "digraph {",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=11]',
    ]
    for slot, data in graph.nodes(data=True):
        label = "\n".join(t for t in (data["label"], data["sub"]) if t)
        colour = COLOURS[data["kernels"][0] % 8] if data["kernels"] else "#60666d"
        lines.append(f"  n{slot} [label={_quoted(label)}, color={_quoted(colour)}]")
    lines += [f"  n{a} -> n{b}" for a, b in graph.edges]
    return graphviz.Source("\n".join([*lines, "}", ""]))


def dot_svg(source: str) -> str | None:
    """DOT drawn by Graphviz as SVG text; None where there is none, or where it takes too long (that is normal: the caller
    draws it itself)."""
    command = shutil.which("dot") or shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
    if command is None:
        return None
    try:
        done = subprocess.run(
            [command, "-Tsvg"], input=source.encode(), capture_output=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode()


def _quoted(text: str) -> str:
    """A DOT string: backslashes, quotes and line breaks stay what they are."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\r", " ").replace("\n", "\\n") + '"'
