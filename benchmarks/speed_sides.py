"""Who is measured: NumPy by hand, our backends, the peer compiled by a C compiler, torch.

In: a row's inputs, or the name of a training step. Out: a function that runs it once, ready for any number of times (the
peer's and ours are scheduled and compiled before), and CPU milliseconds until its first result.
"""

from __future__ import annotations

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final

from benchmarks.kernel_rows import Row
from benchmarks.libs import Lib, Ours
from benchmarks.training import SameInputs, in_torch, mlp_by_hand, tensors_of_step

Run = Callable[[], Any]


class Side(ABC):
    """One column."""

    name: str

    @abstractmethod
    def kernel(self, row: Row, arrays: Sequence[Any]) -> Run: ...

    @abstractmethod
    def step(self, name: str) -> Run | None:
        """A training step; None where this side has none."""


class ByHand(Side):
    name = "by hand"

    def kernel(self, row: Row, arrays: Sequence[Any]) -> Run:
        own = [a.copy() for a in arrays]
        return lambda: row.by_hand(*own)

    def step(self, name: str) -> Run | None:
        return mlp_by_hand() if name == "mlp" else None


class Torch(Side):
    name = "torch"

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.torch = torch

    def kernel(self, row: Row, arrays: Sequence[Any]) -> Run:
        own = [self.torch.from_numpy(a.copy()) for a in arrays]

        def run() -> Any:
            with self.torch.no_grad():
                return row.in_torch(self.torch, *own)

        return run

    def step(self, name: str) -> Run | None:
        return in_torch(name)


class Mine(Side):
    """Ours: a plan that was made once, run again and again."""

    def __init__(self, cpu: str) -> None:
        self.name, self.lib = cpu, Ours(cpu)

    def kernel(self, row: Row, arrays: Sequence[Any]) -> Run:
        return self._run(row.tensors(*(self.lib.load(a) for a in arrays)))

    def step(self, name: str) -> Run | None:
        return self._run(tensors_of_step(name, SameInputs(self.lib)))

    def _run(self, outs: list[Any]) -> Run:
        from tinysched.runtime.linear import execute

        linear = self.lib.linear(outs)

        def run() -> None:
            with self.lib.settings():
                execute(linear)

        return run


class Peers(Side):
    """tinygrad on its CPU device: captured by its JIT, compiled by clang."""

    name = "peer"

    def __init__(self) -> None:
        os.environ.setdefault("DEV", "CPU")
        from benchmarks.peer import Peer

        self.lib: Lib = Peer("CPU")

    def kernel(self, row: Row, arrays: Sequence[Any]) -> Run:
        with self.lib.settings():
            own = [self.lib.load(a) for a in arrays]
        return self._jit(lambda: row.tensors(*own))

    def step(self, name: str) -> Run | None:
        kit = SameInputs(self.lib)
        return self._jit(lambda: tensors_of_step(name, kit))

    def _jit(self, outs: Callable[[], list[Any]]) -> Run:
        def traced() -> Any:
            made = outs()
            self.lib.module.Tensor.realize(*made)
            return made

        jitted = self.lib.module.TinyJit(traced)

        def run() -> None:
            with self.lib.settings():
                jitted()

        return run


SIDES: Final[dict[str, Callable[[], Side]]] = {
    "by hand": ByHand,
    "numpy": lambda: Mine("numpy"),
    "numba": lambda: Mine("numba"),
    "peer": Peers,
    "torch": Torch,
}
_NEEDS: Final = {"numba": ["numba"], "peer": ["tinygrad"], "torch": ["torch"]}


def missing(name: str) -> str | None:
    """What a side needs that is not there."""
    modules = [m for m in _NEEDS.get(name, []) if find_spec(m) is None]
    if name == "peer" and shutil.which("clang") is None:
        modules.append("clang")
    return ", ".join(modules) or None


def cpu_ms(run: Run) -> float:
    """CPU milliseconds of a call."""
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3
