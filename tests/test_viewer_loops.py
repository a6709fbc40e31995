"""The loops of kernels, stepped in the viewer: whatever Python's loops print, it computes to the same numbers."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinysched import Tensor, dtypes, plan
from tinysched.ir.ops import Ops
from tinysched.runtime.loops import compile_kernel, program_text

SCRIPT = Path(__file__).parent.parent / "scripts" / "viewer" / "run_loops.mjs"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node, for tests only")


def floats(*shape: int) -> Tensor:
    return Tensor(np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)).realize()


def ints(*shape: int) -> Tensor:
    return Tensor(np.arange(-5, int(np.prod(shape)) - 5, dtype=np.int32).reshape(shape)).realize()


PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "softmax": lambda: floats(3, 5).softmax(-1),
    "attention": lambda: (floats(2, 4, 3) @ floats(2, 3, 4)).softmax(-1) @ floats(2, 4, 5),
    "layernorm": lambda: floats(4, 6).layernorm(),
    "pad and pool": lambda: floats(1, 1, 5, 7).pad(((0, 0), (0, 0), (1, 1), (2, 1))).max_pool2d(2),
    "conv": lambda: floats(1, 2, 5, 4).conv2d(floats(3, 2, 2, 3)),
    "gather": lambda: floats(6, 3)[Tensor([5, 0, 2]).realize()],
    "int arithmetic": lambda: (ints(3, 5) * 7 - 3) // 4 + ints(3, 5) % 3 + (ints(3, 5) & 6),
    "int overflow": lambda: ints(2, 3) * 1_000_000_007 + 12345,
    "bools": lambda: ((ints(4, 3) < 2) & (floats(4, 3) != 0)).where(floats(4, 3), -1.5),
    "casts": lambda: (floats(3, 4) * 3.7).cast(dtypes.int8).cast(dtypes.float32) / 3,
    "bitcast": lambda: floats(7).bitcast(dtypes.int32) + 1,
    "argmax, one hot": lambda: floats(3, 4).argmax(-1).one_hot(5),
    "cumsum": lambda: floats(3, 9).cumsum(1),
    "gelu, sin, log": lambda: floats(4, 3).gelu() + floats(4, 3).sin() + (floats(4, 3).abs() + 1).log(),
    "flip and cat": lambda: Tensor.cat(floats(2, 3).flip(0), floats(4, 3), dim=0) * 2,
}


def kernels(out: Tensor) -> list[dict[str, Any]]:
    """Each kernel's loops, made-up memory, and what Python's loops leave in it."""
    rng = np.random.default_rng(3)
    found = []
    for call in plan(out).linear.src:
        sink = call.src[0]
        params = [u for u in sink.toposort() if u.op is Ops.PARAM and not u.is_variable]
        params.sort(key=lambda u: u.arg.slot)
        arrays = []
        for u in params:
            kind = u.dtype.np
            made: Any = rng.integers(0, 3, u.arg.size) if kind.kind in "iub" else rng.normal(size=u.arg.size)
            arrays.append(made.astype(kind))
        memory = {f"p{u.arg.slot}": {"data": a.tolist(), "t": u.dtype.name} for u, a in zip(params, arrays)}
        compile_kernel(sink)(arrays, {})
        found.append({"code": program_text(sink), "memory": memory, "variables": {}, "after": arrays})
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_viewer_computes_what_python_computes(name: str) -> None:
    made = kernels(PROGRAMS[name]())
    given = json.dumps([{k: v for k, v in kernel.items() if k != "after"} for kernel in made])
    done = subprocess.run(["node", str(SCRIPT)], input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for kernel, got in zip(made, json.loads(done.stdout), strict=True):
        assert got["steps"] > 0
        for slot, array in enumerate(kernel["after"]):
            ours = np.array([{"NaN": np.nan}.get(x) or float(x) for x in got["memory"][f"p{slot}"]])
            np.testing.assert_allclose(ours, array.astype(np.float64), rtol=2e-6, atol=2e-6)
