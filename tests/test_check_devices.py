"""`trace.check` on several devices: sound rules keep every value, and every broken one is found at its rewrite."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sharded import names, spread
from tests.test_check import patch, plus_one, rule_fn, swap, traced  # noqa: F401 (a fixture)
from tinysched import Context, Tensor, capture, clear_caches
from tinysched.errors import ArgumentError
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import parts_of, replicate, unshard
from tinysched.ir.uop import UOp
from tinysched.schedule import multi
from tinysched.trace import Trace


def data(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def rows(*shape: int, n: int = 2) -> Tensor:
    return spread(data(*shape), n, 0)


def written_slice() -> Tensor:
    x = rows(8, 4)
    x[2:6].assign(x[2:6] * 2)
    return x


def ring() -> Trace:
    with Context(RING=2):
        return capture((rows(8, 6, n=4) * 2).sum(0))


def other_devices() -> Trace:
    with Context(ALL2ALL=2):
        return capture((rows(8, 6, n=4) * 2).sum(0))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "elementwise_multi": lambda: rows(4, 6) * 2 + 1,
    "reduce_multi": lambda: (rows(4, 6) * 2).sum(1),
    "lower_allreduce": lambda: (rows(4, 6) * 2).sum(0),
    "move_whole": lambda: spread(data(4, 6), 2, None).permute(1, 0) * 2,
    "expand_multi": lambda: rows(4, 6).reshape(1, 4, 6).expand(3, 4, 6) * 2,
    "permute_multi": lambda: rows(4, 6).permute(1, 0) * 2,
    "reshape_multi": lambda: rows(4, 6).reshape(4, 2, 3) * 2,
    "shrink_multi": lambda: rows(8, 6)[2:6] * 2,
    "pad_multi": lambda: rows(4, 6).pad(((2, 2), (0, 0))) * 2,
    "flip_multi": lambda: rows(4, 6).flip(0) * 2,
    "copy_multi": lambda: rows(4, 6).to("NUMPY") * 2,
    "store_multi": lambda: rows(4, 6) * 3,
    "unshard_nothing": lambda: rows(4, 6)[:, 3:3].pad(((0, 0), (1, 2))) + 1,
    "after_multi": written_slice,
    "ring": ring,
    "all to all": other_devices,
    "matmul": lambda: rows(4, 6) @ spread(data(6, 8), 2, None),
    "cut inside": lambda: spread(data(4, 6), 2, 1) @ rows(6, 8),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sound_passes_keep_the_values_of_all_devices(name: str) -> None:
    found = traced(PROGRAMS[name]).check()
    assert found.ok and found.stages[0] == "callify", str(found)


def first_part_wrong(result: UOp, **_: Any) -> UOp:
    """One device computes something else."""
    first, *others = parts_of(result)
    parts = [first + 1 if first.dtype.kind == "f" else first, *others]
    return replicate(parts) if result.op is Ops.MSTACK else unshard(parts, result.arg, result.tag)


def first_write_lost(result: UOp, **_: Any) -> UOp:
    return result.src[1] if result.op is Ops.MSTACK else result


def other_state(result: UOp, **_: Any) -> UOp:
    """The last part is not written."""
    *parts, last = parts_of(result)
    return unshard([*parts, last.substitute({u: u.src[0] for u in last.toposort() if u.op is Ops.AFTER})], result.arg)


BROKEN = dict.fromkeys(
    ("elementwise_multi", "expand_multi", "flip_multi", "lower_allreduce", "move_whole", "pad_multi", "permute_multi",
     "reduce_multi", "reshape_multi", "shrink_multi"),
    first_part_wrong,
) | {"copy_multi": plus_one, "store_multi": first_write_lost, "after_multi": other_state}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_found_where_it_is(rule: str, patch: pytest.MonkeyPatch) -> None:  # noqa: F811
    clear_caches()
    rule_fn(multi.multi_pm, rule, BROKEN[rule])(patch)
    found = traced(PROGRAMS[rule]).check()
    assert (found.stage, found.rule) == ("prepare", rule), str(found)


def test_a_value_that_callify_stores_wrongly_on_two_devices(patch: pytest.MonkeyPatch) -> None:  # noqa: F811
    from tinysched.schedule import callify

    clear_caches()
    swap(callify, "_rebuilt", lambda f: lambda s, u: f(s, u) + 1 if u.op is Ops.EXP2 else f(s, u))(patch)
    found = capture(rows(4, 6).exp2()).check()
    assert found.stage == "callify" and not found.ok


def test_inputs_on_several_devices_are_given_whole() -> None:
    clear_caches()
    x, w = rows(4, 6), spread(data(6, 8), 2, None)
    trace = capture(x @ w, inputs={"x": x, "w": w})
    assert trace.check({"x": x, "w": data(6, 8)}).ok
    with pytest.raises(ArgumentError, match=r"x has shape \(4, 6\), not \(2, 2\)"):
        trace.check({"x": np.zeros((2, 2), np.float32)})
    assert names(2) == x.device
