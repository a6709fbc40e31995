"""The index explorer's data: what an element reads, as NumPy says; and the cases that the viewer's own evaluator must pass."""

import json
import random
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from tests.evaluate import moved
from tests.graphs import Program, Step, chains, examples, programs, random_chain
from tinysched import Tensor, Variable, capture
from tinysched.dtypes import dtypes
from tinysched.errors import TraceError
from tinysched.ir.uop import UOp
from tinysched.trace.document import Schedule
from tinysched.views.reads import Edge, Reads, at, data, read_below, reads, rows
from tinysched.views.text import reading

CASES = Path(__file__).parent / "golden" / "reads.json"


def chain(shape: tuple[int, ...], steps: list[Step]) -> tuple[Schedule, np.ndarray]:
    """The schedule of a movement chain, and where NumPy says each element comes from (0: padding, else 1 + position)."""
    array = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    memory = Tensor(np.zeros(shape, np.float32))
    u = memory.uop
    for op, arg in steps:
        u = UOp(op, u.dtype, (u,), arg)
        array = moved(array, op, arg)
    return capture(Tensor.from_uop(u + 1)).schedules[0], array


def followed(found: Reads, node: int, element: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The elements of memory that are read."""
    seen = read_below(found, node, element)
    leaves = [i for i in seen if i not in found.edges and found.shapes[i] != ()]
    return [e for i in leaves for e in seen[i].elements]


@hypothesis.given(chains())
@examples(150)
def test_every_element_of_a_chain_comes_from_where_numpy_says(case: tuple[tuple[int, ...], list[Step]]) -> None:
    s, array = chain(*case)
    found = reads(s)
    top = s.nodes[s.stages[0].root].src[0]
    for element in list(np.ndindex(array.shape))[:60]:
        want = [] if array[element] == 0 else [(int(array[element]) - 1,)]
        assert followed(found, top, element) == want


@hypothesis.given(programs())
@examples(25)
def test_what_is_read_lies_inside_of_each_value(program: Program) -> None:
    _graph, outputs = program.build()
    u, array = outputs[0]
    if not array.size:
        return
    s = capture(Tensor.from_uop(u)).schedules[0]
    found = reads(s)
    roots = [i for i in s.nodes[s.stages[0].root].src if i in found.shapes]
    if not roots or found.shapes[roots[0]] != array.shape:
        return
    element = tuple(n - 1 for n in array.shape)
    for i, seen in read_below(found, roots[0], element).items():
        assert all(0 <= v < n for e in seen.elements for v, n in zip(e, found.shapes[i], strict=True))
        assert seen.whole and len(seen.elements) <= np.prod(found.shapes[i], dtype=int)


def test_reductions_stacks_and_broadcasts() -> None:
    x, y = Tensor.ones(2, 3).contiguous().realize(), Tensor.ones(3).contiguous().realize()
    total = (x + y).sum(1)
    s = capture(Tensor.stack(total, total * 2), inputs={"x": x, "y": y, "total": total}).schedules[0]
    found = reads(s)
    top = s.nodes[s.stages[0].root].src[0]
    names = {n.name: i for i, n in enumerate(s.nodes) if n.name}
    seen = read_below(found, top, (1, 1))
    assert list(seen[names["total"]].elements) == [(1,)]
    assert list(seen[names["x"]].elements) == [(1, 0), (1, 1), (1, 2)]
    assert list(seen[names["y"]].elements) == [(0,), (1,), (2,)]


WRITES = {
    "whole": lambda t, v: t.assign(v.expand(4, 6)),
    "rows": lambda t, v: t.shrink(((1, 3), (0, 6))).assign(v.expand(2, 6)),
    "turned": lambda t, v: t.permute(1, 0).shrink(((2, 5), (1, 4))).assign(v.expand(3, 3)),
    "flat": lambda t, v: t.reshape(24).shrink(((5, 9),)).assign(v.expand(4)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_after_a_write_an_element_comes_from_the_value_or_from_before(name: str) -> None:
    """NumPy writes 1 where the write is, 0 elsewhere: an element with a 1 reads the value, one with a 0 the memory."""
    t = Tensor(np.zeros((4, 6), np.float32)).realize()
    v = Tensor(np.ones((1,), np.float32)).realize()
    judge = Tensor(np.zeros((4, 6), np.float32)).realize()
    WRITES[name](judge, v.reshape(1)[0:1].reshape(()) if name != "flat" else v.reshape(()))
    want = judge.numpy()
    WRITES[name](t, v.reshape(()))
    s = capture(t + 0.5, inputs={"v": v, "t": t}).schedules[0]
    found = reads(s)
    top = s.nodes[s.stages[0].root].src[0]
    flat_v = next(i for i, n in enumerate(s.nodes) if n.name == "v" and n.op == "BUFFER")
    for element in np.ndindex(4, 6):
        seen = read_below(found, top, element)
        memory = [i for i in seen if s.nodes[i].op == "BUFFER" and seen[i].elements]
        assert (flat_v in memory) == bool(want[element]) and len(memory) == 1, element


@pytest.mark.parametrize("axis", [0, 1, None])
def test_an_element_of_a_sharded_value_lies_where_it_lay_before(axis: int | None) -> None:
    x = Tensor(np.arange(24, dtype=np.float32).reshape(4, 6)).realize()
    s = capture(x.shard(("NUMPY", "NUMPY:1"), axis=axis) + 1, inputs={"x": x}).schedules[0]
    found = reads(s)
    top = s.nodes[s.stages[0].root].src[0]
    for element in np.ndindex(4, 6):
        assert followed(found, top, element) == [(element[0] * 6 + element[1],)]


def test_a_variable_has_its_value_and_many_elements_are_cut_with_a_word() -> None:
    x = Tensor.ones(8, 3000).contiguous().realize()
    start = Variable("start", 0, 7).bind(5)
    out = x.shrink(((start, start + 2), (0, 3000))).sum()
    s = capture(out, inputs={"x": x}).schedules[0]
    told = rows(s, s.nodes[s.stages[0].root].src[0], ())
    [(shape, _, elements)] = [row[1:] for row in told if row[1] == "8×3000"]
    assert shape and elements.startswith("[5, 0] [5, 1]") and elements.endswith("4,090 more (at least)")


def test_an_element_that_is_not_there() -> None:
    s = capture(Tensor.ones(2, 3).contiguous().realize() + 1).schedules[0]
    with pytest.raises(TraceError, match="no element"):
        read_below(reads(s), s.nodes[s.stages[0].root].src[0], (2, 0))


def test_the_text_twin() -> None:
    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
    out = x.T.pad(((1, 0), (0, 0))) + 1
    s = capture(out).schedules[0]
    assert reading(s, s.nodes[s.stages[0].root].src[0], (1, 1)).splitlines() == [
        "node         shape  read at                  elements",
        "out            4×2  picked                   [1, 1]",
        "pad            4×2  [i0, i1]                 [1, 1]",
        "permute 1,0    3×2  [i0 - 1 if i0 >= 1, i1]  [0, 1]",
        "reshape        2×3  [i1, i0]                 [1, 0]",
        "x                6  [i0*3 + i1]              [3]",
    ]


def cases() -> list[dict[str, object]]:
    """Chains, each with its edges and NumPy's answer for some elements, for the evaluator of the viewer."""
    rng, found = random.Random(20), []
    for _ in range(40):
        shape, steps = random_chain(rng)
        s, array = chain(shape, steps)
        top = s.nodes[s.stages[0].root].src[0]
        elements = rng.sample(list(np.ndindex(array.shape)), min(8, array.size))
        found.append(
            {
                "top": top,
                **data(s),
                "answers": [[e, [int(array[e]) - 1] if array[e] else []] for e in elements],
            }
        )
    return found


def test_the_cases_of_the_viewer_hold(request: pytest.FixtureRequest) -> None:
    """`reads.test.mjs` evaluates these in JavaScript; here the same is done in Python. (Another normal form of an index
    need not renew the file.)"""
    if request.config.getoption("--update-golden"):
        CASES.write_text(json.dumps(cases(), separators=(",", ":")).replace('},{"top"', '},\n{"top"') + "\n")
    for case in json.loads(CASES.read_text()):
        edges = {int(i): tuple(Edge(*e) for e in es) for i, es in case["edges"].items()}
        found = Reads(edges, {int(i): tuple(shape) for i, shape in case["shapes"].items()})
        for element, want in case["answers"]:
            assert [e[0] for e in followed(found, case["top"], tuple(element))] == want


def test_an_edge_without_an_index_reads_the_same_element() -> None:
    s = capture(Tensor.ones(2, 3).contiguous().realize().exp2()).schedules[0]
    found = reads(s)
    top = s.nodes[s.stages[0].root].src[0]
    assert dtypes.float32.name == s.nodes[top].dtype
    assert [at(e, (1, 2)) for e in found.edges[top]] == [[(1, 2)]]
