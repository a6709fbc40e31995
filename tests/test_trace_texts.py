"""A kernel's texts in the trace: loops, and the CUDA C that a GPU would run, their lines linked to what the user wrote."""

import re
from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest

from tests.graphs import Program, examples, programs
from tests.test_trace import tensor_nodes
from tinysched import Context, Tensor, capture
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


def test_a_line_of_numpy_computes_what_the_rewrites_have_left_of_the_user_s_nodes() -> None:
    """A window computed once, a product by BLAS, a mask that a padded copy replaces, and blocks with arrays of their own."""
    x, w = Tensor.empty(2, 4, 16, 16), Tensor.empty(8, 4, 3, 3)
    s = capture(x.relu().conv2d(w, padding=1).exp2()).schedules[0]
    lines = lines_of(s, s.kernels[0], "program")
    found = dict(lines)
    assert found["    p3 = np.empty((2048,), np.float32)"] == found["    np.maximum(x0, 0.0, out=out0)"] == ["max"]
    product = ["mul", "sum ⟂5,6,7"]
    assert [names for line, names in lines if "zeros" in line or "matmul" in line or "m0 =" in line] == [product] * 3
    assert lines[-1] == ("    np.exp2(t0, out=out0)", ["exp2"])

    s = capture((Tensor.empty(2048, 2048).exp2() * 3 + Tensor.empty(2048)).contiguous()).schedules[0]
    found = dict(lines_of(s, s.kernels[0], "program"))
    assert found["    s0 = np.empty((32, 2048), np.float32)"] == ["exp2", "mul"], "an array that both use"
    assert found["        np.exp2(x1[b0:b0+32], out=s0)"] == ["exp2"]


def test_a_program_of_compiled_loops_is_linked_as_well() -> None:
    pytest.importorskip("numba")
    with Context(CPU="numba"):
        s = capture((Tensor.empty(64, 1000) * 2 + 1).exp().sum(1)).schedules[0]
    lines = lines_of(s, s.kernels[0], "program")
    [step] = [names for line, names in lines if line.lstrip().startswith("lanes0[lane] = ")]
    assert "add" in step and "sum ⟂1" in step and any("start, stop" in line for line, _ in lines)


@examples(40)
@hypothesis.given(programs())
def test_a_line_computes_what_its_kernel_computes(program: Program) -> None:
    graph, outputs = program.build()
    for s in capture([Tensor.from_uop(u) for u, _ in outputs]).schedules:
        asked = tensor_nodes(s)
        for k in s.kernels:
            links = k.links or {}
            assert all(i in asked and i in k.nodes for lines in links.values() for line in lines for i in line)
            loops, cuda, numpy = ({i for line in links.get(n, ()) for i in line} for n in ("loops", "cuda", "program"))
            assert loops == cuda == numpy, "all texts compute the same"
            assert not loops or not list(without_nodes(s, k)), "every line of an array program computes something"
    assert graph.keep


def without_nodes(s: Schedule, k: Kernel) -> Iterator[str]:
    """The lines of a NumPy program that are linked to nothing, but for those that only open a block."""
    for line, names in lines_of(s, k, "program") if k.program else ():
        if not names and not re.match(r" *(def .*|for .*|pass|else):?$|$", line):
            yield line


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
