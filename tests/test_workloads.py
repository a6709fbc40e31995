"""The benchmark workloads as tests: never a kernel more than the peer, and the peer's values on every CPU backend.

Counts are compared with the stored table (benchmarks/peer_table.json, renewed by ``python -m benchmarks
--write-tables``), which the installed peer must confirm on the cheap workloads. Values are computed by the peer's
own interpreter on the small variants, so no compiler is needed.
"""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks import gate, report
from benchmarks.kernel_rows import ROWS
from benchmarks.libs import Array, Ours, counts, open_side
from benchmarks.measure import Turns
from benchmarks.training import SameInputs, tensors_of_step
from benchmarks.workloads import SMALL, WORKLOADS, build, small

CHEAP = ("softmax", "layernorm", "sdpa", "mlp_train_sgd", "adam_only", "embedding", "cumsum", "diamond", "movement")
STORED = json.loads(gate.PEER_TABLE.read_text())

needs_peer = [
    pytest.mark.peer,
    pytest.mark.skipif(find_spec("tinygrad") is None, reason="no tinygrad; it comes with the extra `test`"),
]


def peer(device: str):
    from benchmarks.peer import Peer

    return Peer(device)


@functools.cache
def peer_values(name: str) -> list[Array]:
    lib = peer("PYTHON")
    with lib.settings():
        return lib.values(small(name, lib))


def test_the_table_and_the_small_variants_are_complete():
    assert list(STORED["workloads"]) == list(WORKLOADS) == list(SMALL)


@pytest.mark.parametrize("name", WORKLOADS)
def test_never_a_kernel_more_than_the_peer(name):
    lib, most = Ours(), STORED["workloads"][name]
    with lib.settings():
        found = counts(lib.linear(build(name, lib)))
    assert 0 < found["kernels"] <= most["kernels"]
    assert found["copies"] <= most["copies"]


class TestPeer:
    pytestmark = needs_peer

    @pytest.mark.parametrize("name", CHEAP)
    def test_the_stored_table_is_the_installed_peers(self, name):
        lib = peer("NULL")
        assert lib.version() == STORED["peer"]
        with lib.settings():
            tensors = build(name, lib)
            found = {"uops": lib.graph_size(tensors), **counts(lib.linear(tensors))}
            found |= lib.memory(lambda: build(name, lib))
        assert found == STORED["workloads"][name]

    @pytest.mark.parametrize("cpu", ["numpy", "loops"])
    @pytest.mark.parametrize("name", WORKLOADS)
    def test_values_are_the_peers(self, name, cpu):
        lib = Ours(cpu)
        with lib.settings():
            found = lib.values(small(name, lib))
        for ours, theirs in zip(found, peer_values(name), strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


# ---- what benchmarks.speed measures side by side is the same computation

SMALL_ROWS: dict[str, tuple[tuple[int, ...], ...]] = {
    "matmul": ((5, 6), (6, 7)),
    "matmul_sum": ((5, 6), (6, 7)),
    "attention": ((2, 5, 6),) * 3,
    "conv3x3": ((1, 3, 6, 7), (4, 3, 3, 3)),
    "gelu": ((5, 7),),
    "softmax": ((5, 7),),
    "layernorm": ((5, 7),),
    "rmsnorm": ((5, 7),),
    "row_sums": ((5, 7),),
    "big_sum": ((35,),),
    "gather": ((9, 7), (5,)),
    "adam": ((12,),) * 4,
    "transpose_add": ((6, 6),) * 2,
    "cumsum": ((5, 7),),
}


@pytest.mark.parametrize("name", ROWS)
def test_both_sides_of_a_speed_row_compute_the_same(name):
    rng, row = np.random.default_rng(0), ROWS[name]
    arrays = [rng.random(shape, np.float32) for shape in SMALL_ROWS[name]]
    if name == "gather":
        arrays[1] = np.array([3, 0, 8, 3, -1], np.int32)
    lib = Ours()
    ours = lib.values(row.tensors(*(lib.load(a) for a in arrays)))
    by_hand = row.by_hand(*arrays)
    want = [by_hand] if by_hand is not None else [arrays[0], *arrays[2:]]  # Adam writes in place
    for found, expected in zip(ours, want, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


def test_steps_that_are_built_again_go_on_with_the_same_inputs():
    kit = SameInputs(Ours())
    first, second = (tensors_of_step("mlp", kit)[1:] for _ in range(2))
    assert all(a is b for a, b in zip(first, second, strict=True))


# ---- the benchmarks' own arithmetic


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_exponent_of_a_known_growth(slope):
    assert report.exponent((n, 3 * n**slope) for n in (1, 4, 10, 100)) == pytest.approx(slope)


def test_no_exponent_without_growth():
    assert report.exponent([(5, 1.0), (5, 2.0)]) is None


def test_growth_summary_gives_exponents_and_the_price_of_one_more():
    table = {n: {"ours": {"uops": 10 * n, "build": 1.0 * n, "cold": 5.0 * n, "warm": 2.0 * n}} for n in (1, 2, 4, 8)}
    text = report.growth_summary("chain", table)
    assert text == "  chain ours: exponents in uops: build 1.00, cold 1.00, warm 1.00; one more costs 1.00 of the first"


def test_faults_name_every_kind():
    table = {
        "good": {"ours": {"kernels": 2, "cold": 1.0}, "peer": {"kernels": 3, "cold": 8.0}},
        "many": {"ours": {"kernels": 4, "cold": 1.0}, "peer": {"kernels": 3, "cold": 8.0}},
        "slow": {"ours": {"kernels": 3, "cold": 12.0}, "peer": {"kernels": 3, "cold": 8.0}},
        "broken": {"ours": {"error": "ValueError: no\nmore"}, "peer": {"kernels": 3, "cold": 8.0}},
        "lone": {"ours": {"kernels": 3, "cold": 8.0}},
    }
    assert report.faults(table) == [
        "many: 4 kernels, the peer needs 3",
        "slow: cold schedule 1.50 times slower than the peer's",
        "broken: ValueError: no",
    ]


def test_the_gate_names_what_got_worse(monkeypatch, tmp_path):
    better = {name: dict.fromkeys(("kernels", "copies", "arena", "lower"), 9**9) for name in gate.WORKLOADS}
    better["softmax"] = {"kernels": 2, "copies": 0, "arena": 0, "lower": 0}
    monkeypatch.setattr(gate, "TABLE", tmp_path / "table.json")
    gate.TABLE.write_text(json.dumps(better))
    monkeypatch.setattr(gate, "WORKLOADS", {"softmax": WORKLOADS["softmax"], "gelu": WORKLOADS["gelu"]})
    arena = gate.found_sizes("softmax", open_side("ours"))["arena"]
    assert list(gate.sizes(open_side("ours"))) == [
        "softmax: kernels 3, was 2",
        f"softmax: arena {arena}, was 0",
        f"softmax: lower {arena}, was 0",
    ]


def test_work_is_counted_the_same_each_time():
    lib = open_side("ours")
    first, second = (gate.cold("chain@50", lib) for _ in range(2))
    assert first["calls"] == second["calls"] > first["uops"] > 50


def test_a_side_that_fails_leaves_the_other_its_figures(monkeypatch):
    class Working(Ours):
        def __init__(self) -> None:
            self.cpu = "numpy"

        def settings(self):
            from contextlib import nullcontext

            return nullcontext()

    def opened(side):
        if side == "peer":
            raise ImportError("no such library")
        return Working()

    monkeypatch.setattr("benchmarks.measure.open_side", opened)
    turns, clock = Turns(["ours", "peer"]), iter([1.0, 5.0, 3.0])
    for _ in range(3):
        turns.take(lambda lib: {"cold": next(clock)})
    results = turns.results()
    assert results["ours"] == {"cold": 3.0, "cold_all": [1.0, 5.0, 3.0]}
    assert results["peer"]["error"] == "ImportError: no such library"
