"""A kernel's texts in the trace: loops, and the CUDA C that a GPU would run, their lines linked to what the user wrote."""

import hypothesis
import numpy as np

from tests.graphs import Program, examples, programs
from tests.test_trace import tensor_nodes
from tinysched import Tensor, capture
from tinysched.dtypes import dtypes
from tinysched.trace.document import Kernel, Schedule


def lines_of(s: Schedule, k: Kernel, which: str = "cuda") -> list[tuple[str, list[str]]]:
    """The lines of a kernel, and what they compute as people call it."""
    assert k.links is not None
    return [
        (line, [s.nodes[i].name or s.nodes[i].label for i in ids])
        for line, ids in zip(getattr(k, which).split("\n"), k.links[which], strict=True)
    ]


def test_lines_lead_to_the_user_s_nodes_and_lines() -> None:
    x, b = Tensor.empty(64, 100), Tensor.empty(100)
    y = (x * 2 + b).relu().softmax(-1)
    s = (trace := capture(y)).schedules[0]
    [first, total, last] = s.kernels
    found = dict(lines_of(s, first))
    assert found["        acc0 = across_warp<Max>(acc0);"] == ["max ⟂1"]
    [step] = [names for line, names in found.items() if "p1[r0 * 100 + R1] * 2.0f" in line]
    assert step == ["mul", "add", "max", "max ⟂1"]
    assert found["            p0[r0] = acc0;"] == ["max ⟂1"], "a write shows the value that it writes"
    assert ("        p0[r0] = acc0", ["max ⟂1"]) in lines_of(s, first, "loops")
    assert any("exp2f" in line and names == ["exp2", "sum ⟂1"] for line, names in lines_of(s, total))
    [i] = (last.links or {})["cuda"][-3]  # the line that writes, before two braces
    assert s.nodes[i].label == "mul" and trace.lines[s.nodes[i].lines[0]].code == "y = (x * 2 + b).relu().softmax(-1)"


@examples(40)
@hypothesis.given(programs())
def test_a_line_computes_what_its_kernel_computes(program: Program) -> None:
    graph, outputs = program.build()
    for s in capture([Tensor.from_uop(u) for u, _ in outputs]).schedules:
        asked = tensor_nodes(s)
        for k in s.kernels:
            links = k.links or {}
            assert all(i in asked and i in k.nodes for lines in links.values() for line in lines for i in line)
            loops, cuda = ({i for line in links.get(name, ()) for i in line} for name in ("loops", "cuda"))
            assert loops == cuda, "both texts compute the same"
    assert graph.keep


def test_equal_kernels_are_linked_each_to_its_own() -> None:
    x = Tensor(np.ones((8, 8), np.float32)).realize()
    a = (x.sum(1) * 2).contiguous()
    s = capture(a.sum() * 3 + (x * a.reshape(8, 1)).sum(1).contiguous().sum() * 3).schedules[0]
    links = [frozenset(i for line in (k.links or {})["cuda"] for i in line) for k in s.kernels]
    for (k, mine), other in ((z, o) for z in zip(s.kernels, links) for o in s.kernels if o is not z[0]):
        assert mine <= set(k.nodes)
        assert k.node != other.node or not mine & set(other.nodes)


def test_a_type_that_no_gpu_kernel_has_says_so() -> None:
    s = capture(Tensor.empty(4, dtype=dtypes.fp8e4m3).cast(dtypes.float32) + 1).schedules[0]
    assert s.kernels[0].cuda.startswith("// kernels on a GPU cannot compute with fp8e4m3")
