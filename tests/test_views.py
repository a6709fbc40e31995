"""Views: a picture stays put and agrees with the graph at every step; nothing overlaps; labels are data."""

import base64
import json
import random
import time
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hypothesis
import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.graphs import Program, examples, programs
from tinysched import Tensor, capture
from tinysched.errors import ArgumentError, TraceError
from tinysched.trace import Trace
from tinysched.trace.document import Node, Rewrite, Schedule, Stage
from tinysched.views import text
from tinysched.views.document import document, packed
from tinysched.views.layout import FARTHEST, Layout, layout
from tinysched.views.page import html
from tinysched.views.picture import draw
from tinysched.views.steps import HIDDEN, is_stub, replay
from tinysched.views.svg import data_uri

HOSTILE = [
    "<script>alert(1)</script>", "</script><script>x", "]]>", '"quotes" & \'more\'', "back\\slash", "two\nlines", "a:b;c|d{e}",
    "emoji 🧮 漢字", "<!--", "${x} {0} %s", "x" * 500, "\u202eright to left", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def attention() -> Trace:
    q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
    return capture((q @ k.transpose(-2, -1)).softmax(-1) @ v, title="attention")


# ** layout **


def graphs() -> st.SearchStrategy[tuple[list[tuple[float, float]], list[tuple[int, int]]]]:
    """Sizes, and edges from lower to higher numbers, some of them long, some from hubs."""

    def make(seed: int, n: int) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
        rng = random.Random(seed)
        sizes = [(rng.choice([40.0, 80.0, 150.0]), rng.choice([22.0, 40.0])) for _ in range(n)]
        edges = {(rng.randrange(max(0, b - 6), b), b) for b in range(1, n) for _ in range(rng.randint(0, 2))}
        edges |= {(rng.randrange(b), b) for b in range(1, n) if rng.random() < 0.2}
        return sizes, sorted(edges)

    return st.builds(make, st.integers(0, 10**6), st.integers(1, 40))


def overlaps(found: Layout) -> list[tuple[int, int]]:
    boxes = [(p.x - p.width / 2, p.y - p.height / 2, p.x + p.width / 2, p.y + p.height / 2) for p in found.places]
    return [
        (i, j)
        for i, a in enumerate(boxes)
        for j, b in enumerate(boxes[:i])
        if a[0] < b[2] - 0.5 and b[0] < a[2] - 0.5 and a[1] < b[3] - 0.5 and b[1] < a[3] - 0.5
    ]


def through_nodes(found: Layout, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(edge, node) pairs where a straight part of a route (a bend) cuts through a node that is not its end."""
    cut = []
    for e, (route, ends) in enumerate(zip(found.routes, edges, strict=True)):
        for (x0, y0), (x1, y1) in zip(route or (), (route or ())[1:], strict=False):
            if x0 != x1:
                continue
            for i, p in enumerate(found.places):
                inside = (
                    abs(x0 - p.x) < p.width / 2
                    and max(min(y0, y1), p.y - p.height / 2) < min(max(y0, y1), p.y + p.height / 2) - 0.5
                )
                if inside and i not in ends:
                    cut.append((e, i))
    return cut


@examples(150)
@hypothesis.given(graphs())
def test_a_layout_overlaps_nowhere(graph: tuple[list[tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    found = layout(tuple(sizes), tuple(edges))
    assert not overlaps(found)
    assert not through_nodes(found, edges)
    layout.cache_clear()
    assert found == layout(tuple(sizes), tuple(edges)), "the same graph has the same layout"
    for (a, b), route in zip(edges, found.routes, strict=True):
        above, below = found.places[a], found.places[b]
        assert above.y + above.height / 2 < below.y - below.height / 2, "sources are above their readers"
        if route is not None:
            assert route[0] == pytest.approx((above.x, above.y + above.height / 2), abs=0.2)
            assert route[-1] == pytest.approx((below.x, below.y - below.height / 2), abs=0.2)
    assert all(p.x - p.width / 2 + 0.1 >= 0 and p.x + p.width / 2 <= found.width + 0.1 for p in found.places)


def test_a_chain_is_a_straight_line() -> None:
    found = layout(((40.0, 20.0), (90.0, 20.0), (60.0, 40.0), (120.0, 20.0)), ((0, 1), (1, 2), (2, 3)))
    assert len({p.x for p in found.places}) == 1


def test_long_edges_are_not_drawn() -> None:
    n = FARTHEST + 3
    found = layout(((40.0, 20.0),) * n, (*((i, i + 1) for i in range(n - 1)), (0, n - 1)))
    assert found.routes[-1] is None and None not in found.routes[:-1]


def test_circles_and_loops_end() -> None:
    found = layout(((40.0, 20.0),) * 4, ((0, 1), (1, 2), (2, 0), (3, 3)))
    assert not overlaps(found)


def test_a_deep_and_a_wide_graph_are_quick() -> None:
    start = time.process_time()
    layout(((40.0, 20.0),) * 5000, tuple((i, i + 1) for i in range(4999)))
    layout(((40.0, 20.0),) * 2000, tuple((0, i) for i in range(1, 2000)))
    rng = random.Random(0)
    edges = sorted({(rng.randrange(max(0, b - 8), b), b) for b in range(1, 5000) for _ in range(2)})
    layout(((80.0, 40.0),) * 5000, tuple(edges))
    assert time.process_time() - start < 20, "seconds; one of them on a quiet machine"


# ** steps **


def visible(s: Schedule, root: int) -> set[int]:
    """The nodes below ``root`` that a picture shows."""
    found, stack, seen = set(), [root], set()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        node = s.nodes[n]
        inner = node.op == "CALL" and s.nodes[node.src[0]].label not in ("sink", "")
        stack.extend(node.src[1:] if inner else node.src)
        if not is_stub(node) and node.op not in HIDDEN:
            found.add(n)
    return found


def check_steps(s: Schedule) -> None:
    """Every stage starts with the graph it started from and ends with the one it ended in, whatever steps told."""
    for stage in s.stages:
        if s.nodes[stage.end].op == "LINEAR":
            continue
        graph = replay(s, stage)
        start, _ = graph.at(0)
        assert {node for _, node, _ in start.values()} == visible(s, stage.root)
        shown, edges = graph.at(len(graph.steps))
        assert {node for _, node, _ in shown.values()} == visible(s, stage.end)
        for e in edges:
            assert set(graph.edges[e]) <= shown.keys()
        end = {node: slot for slot, node, _ in shown.values()}
        for slot, node, _ in shown.values():
            want = {end[m] for m in s.nodes[node].src if m in end}
            assert {graph.edges[e][0] for e in edges if graph.edges[e][1] == slot} == want
        check_ids(graph.steps, len(graph.edges))


def check_ids(steps: tuple[object, ...], edges: int) -> None:
    for step in steps:
        assert not set(step.on) & set(step.off)  # type: ignore[attr-defined]
        assert all(0 <= e < edges for e in (*step.on, *step.off))  # type: ignore[attr-defined]


@examples(60)
@hypothesis.given(programs())
def test_steps_lead_from_the_start_to_the_end(program: Program) -> None:
    graph, outputs = program.build()
    for s in capture([Tensor.from_uop(u) for u, _ in outputs]).schedules:
        check_steps(s)
        for stage in s.stages:
            picture = draw(s, stage)
            assert not overlaps(picture.layout)
            for i in range(0, len(picture.steps) + 1, 5):
                shown, edges = picture.at(i)
                assert all(set(picture.edges[e]) <= shown.keys() for e in edges)
    assert graph.keep


def test_a_step_moves_nothing(attention: Trace) -> None:
    """Places belong to slots, not to steps; a node that is rebuilt or rewritten in place keeps its slot."""
    s = attention.schedules[0]
    rangeify = s.stage("rangeify")
    picture = draw(s, rangeify)
    before, _ = picture.at(0)
    after, _ = picture.at(len(picture.steps))
    stays = {slot for slot in before if slot in after and s.nodes[before[slot].node].op == s.nodes[after[slot].node].op}
    kinds = {s.nodes[before[slot].node].op for slot in stays}
    assert {"MUL", "EXP2", "REDUCE"} <= kinds


def test_a_rewrite_that_wraps_a_node_keeps_the_node() -> None:
    """x -> f(x): what is inside of the new node is the old one, not the new one again."""
    x, y = Node("PARAM", "float32", "x", "memory"), Node("SIN", "float32", "sin", "alu", (0,))
    z, top = Node("EXP2", "float32", "exp2", "alu", (1,)), Node("NEG", "float32", "neg", "alu", (1,))
    new_top = Node("NEG", "float32", "neg", "alu", (2,))
    s = Schedule("s", (x, y, z, top, new_top))
    graph = replay(s, Stage("wrap", 3, 4, steps=(Rewrite(0, 1, 2),), replaced=((3, 4, 1),)))
    assert len(graph.steps) == 1, "the step told everything"
    shown, edges = graph.at(1)
    assert {node for _, node, _ in shown.values()} == {0, 1, 2, 4}
    assert len(edges) == 3


def test_kernels_are_the_picture_of_the_last_stages(attention: Trace) -> None:
    s = attention.schedules[0]
    picture = draw(s, s.stages[-1])
    assert [c.title for c in picture.start] == [f"{k} {kernel.name}" for k, kernel in enumerate(s.kernels)]
    assert set(picture.edges) == {(e.before, e.after) for e in s.order}


def test_hulls_and_kernel_table_agree(attention: Trace) -> None:
    s = attention.schedules[0]
    graph = attention.to_networkx("tensor graph")
    for _, data in graph.nodes(data=True):
        assert data["kernels"] == tuple(k for k, kernel in enumerate(s.kernels) if data["node"] in kernel.nodes)


# ** other tools **


def test_networkx_is_the_visible_graph(attention: Trace) -> None:
    s = attention.schedules[0]
    for name in ("tensor graph", "rangeify", "simplify"):
        graph = attention.to_networkx(name)
        assert nx.is_directed_acyclic_graph(graph)
        assert {d["node"] for _, d in graph.nodes(data=True)} == visible(s, s.stage(name).root)
    with pytest.raises(TraceError, match="there is no stage 'nowhere'"):
        attention.to_networkx("nowhere")
    with pytest.raises(TraceError, match="there is no schedule 7"):
        attention.to_networkx(schedule=7)


def test_dot_text_needs_no_dot(attention: Trace) -> None:
    source = attention.to_dot("tensor graph").source
    assert source.count(" -> ") == attention.to_networkx("tensor graph").number_of_edges()


def named(name: str) -> Trace:
    """A trace whose every text is ``name``."""
    x = Node("PARAM", "float32", name, "memory", shape=(4,), name=name or None, arg=name)
    y = Node("EXP2", "float32", name, "alu", (0,), (4,))
    return Trace(name, (Schedule(name, (x, y), (Stage("tensor graph", 1, 1, doc=name),)),))


@pytest.mark.parametrize("name", HOSTILE)
def test_labels_are_data(name: str) -> None:
    trace = named(name)
    assert Trace.from_json(trace.to_json()) == trace
    root = ET.fromstring(trace.to_svg())
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    page = html(trace)
    shell = page.split('<script id="ts-document"')[0]
    assert "alert(1)" not in shell.replace("&lt;script&gt;alert(1)&lt;/script&gt;", "")
    assert page.count("</script>") == 2 and "<!--" not in page
    assert text.summary(trace)
    for line in trace.to_dot().source.splitlines()[2:4]:
        label = line.split("label=")[1].rsplit(", color", 1)[0]
        assert label.startswith('"') and label.endswith('"') and not unescaped_quote(label[1:-1])


def unescaped_quote(label: str) -> bool:
    i = 0
    while i < len(label):
        if label[i] == "\\":
            i += 2
        elif label[i] == '"':
            return True
        else:
            i += 1
    return False


def test_the_page_holds_its_document(attention: Trace) -> None:
    page = html(attention)
    data = page.split('<script id="ts-document" type="text/plain">')[1].split("</script>")[0]
    held = json.loads(zlib.decompress(base64.b64decode(data)))
    held["pictures"] = [[json.loads(p) for p in of] for of in held["pictures"]]
    assert held.pop("lengths") == [[len(p["steps"]) for p in of] for of in held["pictures"]]
    assert held == json.loads(json.dumps(document(attention)))
    assert packed(attention) == packed(Trace.from_json(attention.to_json())), "the same bytes for the same trace"
    assert "http://" not in page.replace("http://www.w3.org/", "") and "https://" not in page


def test_a_picture_can_be_an_image(attention: Trace) -> None:
    svg = attention.to_svg()
    root = ET.fromstring(svg)
    assert root.get("viewBox") and not any(e.get("id") for e in root.iter())
    assert data_uri(svg).startswith("data:image/svg+xml;base64,")


# ** text **


def test_a_kernel_that_updates_in_place_reads_what_it_writes() -> None:
    x, y = (Tensor(np.ones((2, 3), dtype=np.float32)).realize() for _ in range(2))
    x.assign(x + y)
    y.assign(Tensor(np.zeros((2, 3), dtype=np.float32)).realize())
    s = capture((x, y), inputs={"x": x, "y": y}).schedules[0]
    assert text.kernels(s).splitlines()[1].split()[2:5] == ["x,", "y", "x"]


def test_what_is_stored_says_why_and_whose_line_that_was(attention: Trace) -> None:
    s = attention.schedules[0]
    rows = text.stored(attention).splitlines()[1:]
    assert len(rows) == len(s.memory.placements)
    sizes = [next(b.bytes for b in s.buffers if text.size(b.bytes) in row) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert all("COST_REDUCE_READS_BUFFER" in row and ": return capture((q @ k" in row for row in rows)
    x = Tensor(np.ones((2, 4), dtype=np.float32)).realize()
    x[:, :3] = x[:, 1:] * 2
    assert "STORE_READS_TARGET" in text.stored(capture(x))
    assert "nothing is stored" in text.stored(capture(Tensor([1.0]).realize() * 2))


def test_the_text_of_each_view(attention: Trace) -> None:
    s = attention.schedules[0]
    assert len(text.kernels(s).splitlines()) == len(s.kernels) + 1
    assert len(text.order(s).splitlines()) == len(s.order)
    assert "kernel 1 waits for kernel 0: it reads b0, which kernel 0 writes (RAW)" in text.order(s)
    drawn = text.graph(s, s.stages[0])
    assert len(drawn.splitlines()) == len(attention.to_networkx(0)) + 1
    art = text.arena(s, 0)
    assert len({line.split("|")[1] for line in art.splitlines()[1:13]}) > 1
    assert str(len(s.kernels)) in attention.to_text().splitlines()[0]


@pytest.mark.parametrize("make", [lambda t: t, lambda t: replace(t, schedules=())])
def test_text_of_anything(attention: Trace, make: Callable[[Trace], Trace]) -> None:
    assert text.summary(make(attention))


def test_several_devices_have_lanes_and_say_what_moves_between_them():
    names = ("NUMPY", "NUMPY:1")
    x = Tensor(np.ones((8, 6), np.float32)).shard(names, 1).realize()
    w = Tensor(np.ones((6, 4), np.float32)).shard(names, 0).realize()
    text = capture(x @ w).to_text()
    assert "NUMPY:1, copies" in text
    assert "between devices: NUMPY to NUMPY:1: 128 B, NUMPY:1 to NUMPY: 128 B" in text
    assert "lane" not in capture(Tensor([1.0]).realize() + 1).to_text()


# ** Graphviz **


def small() -> Trace:
    x = Tensor.rand(4, 5).realize()
    return capture((x + 1).sum(1), title="small")


@pytest.mark.dot
def test_graphviz_draws_where_it_is_asked_to() -> None:
    assert "Generated by graphviz" in small().to_svg("tensor graph", engine="dot")


@pytest.mark.parametrize(
    "program", [None, "#!/bin/sh\nexit 1\n", "#!/bin/sh\nsleep 30\n"], ids=["none", "fails", "hangs"]
)
def test_without_a_graphviz_that_works_it_is_drawn_all_the_same(
    program: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program is not None:
        (tmp_path / "dot").write_text(program)
        (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if program else str(tmp_path))
    monkeypatch.setattr("tinysched.views.static.sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("tinysched.views.static.SECONDS", 0.2)
    trace = small()
    assert trace.to_svg("tensor graph", engine="dot") == trace.to_svg("tensor graph")
    assert "digraph" in trace.to_dot().source


def test_an_engine_that_there_is_not() -> None:
    with pytest.raises(ArgumentError, match="no engine"):
        small().to_svg(engine="neato")


def test_five_thousand_nodes_in_a_row_are_drawn_and_exported() -> None:
    nodes = [Node("PARAM", "float32", "p0", "memory", shape=(4,))]
    nodes += [Node("SIN", "float32", "sin", "alu", (i,), (4,)) for i in range(5_000)]
    stage = Stage("long", 5_000, 5_000)
    trace = Trace("long", (Schedule("long", tuple(nodes), (stage,)),))
    assert trace.to_svg("long").count("<rect") > 5_000
    assert trace.to_png("long").startswith(b"\x89PNG")
    assert trace.to_dot("long").source.count("->") == 5_000
