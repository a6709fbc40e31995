"""The peer's side (tinygrad 0.14.0), and all knowledge of its insides.

Its module paths may move between releases, so the version is checked when the side is opened.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from benchmarks.libs import Lib

VERSION: Final = "0.14.0"
BLOCK: Final = 256  # the peer's planner rounds sizes up to this many bytes


class Peer(Lib):
    """tinygrad on a device: NULL schedules and never runs, PYTHON interprets kernels and needs no compiler."""

    def __init__(self, device: str = "NULL") -> None:
        if (found := version("tinygrad")) != VERSION:
            logging.getLogger(__name__).warning("tinygrad %s is installed, the peer is %s", found, VERSION)
        self.module, self.device = import_module("tinygrad"), device
        self.schedule: Any = import_module("tinygrad.schedule")
        self.indexing = import_module("tinygrad.schedule.indexing")
        self.divandmod = import_module("tinygrad.uop.divandmod")
        self.Ops = import_module("tinygrad.uop.ops").Ops

    def version(self) -> str:
        return f"tinygrad {version('tinygrad')}"

    def settings(self) -> AbstractContextManager[Any]:
        return self.module.Context(DEV=self.device, DEBUG=0)  # type: ignore[no-any-return]

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return self.module.Tensor.empty(*shape, dtype=getattr(self.module.dtypes, dtype))

    def forget(self) -> None:
        """Compiled rewrite patterns stay: they are paid once per process and show in the first schedule."""
        self.schedule.schedule_cache.clear()
        self.indexing.apply_movement_op.cache_clear()
        self.indexing._apply_reshape.cache_clear()
        self.divandmod.fold_divmod_general.cache_clear()

    def memory(self, build: Callable[[], list[Any]]) -> dict[str, int]:
        """The planner keeps no account, so this watches the LINEAR it gets and the one it returns."""
        found = {"arena": 0, "lower": 0}
        original = self.schedule.memory_plan_rewrite

        def watched(linear: Any, held: Any = None) -> Any:
            planned = original(linear, held)
            found["arena"] += _arena(linear, planned)
            found["lower"] += _lower_bound(linear, held or set())
            return planned

        self.schedule.memory_plan_rewrite = watched
        try:
            self.linear(build())
        finally:
            self.schedule.memory_plan_rewrite = original
        return found

    def add_nodes(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        make, add = self.module.UOp, self.Ops.ADD
        return [make(add, src=pair) for pair in pairs]

    def reshape(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], ranges: tuple[Any, ...]) -> Any:
        return self.indexing.apply_movement_op(self.Ops.RESHAPE, in_shape, out_shape, ranges)


def _buffers(call: Any) -> list[Any]:
    """The BUFFERs a call reads or writes, bound Variables left out."""
    nodes = [node for src in call.src[1:] for node in src.toposort()]
    return [node for node in dict.fromkeys(nodes) if node.op.name == "BUFFER" and not node.is_variable]


def _arena(linear: Any, planned: Any) -> int:
    """Bytes of the buffers that only the planned LINEAR has."""
    before = {buffer for call in linear.src for buffer in _buffers(call)}
    after = {buffer for call in planned.src for buffer in _buffers(call)}
    return sum(buffer.nbytes() for buffer in after - before)


def _lower_bound(linear: Any, held: set[Any]) -> int:
    """The most bytes of intermediates alive at once, in the peer's own order and block size."""
    first: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for i, call in enumerate(linear.src):
        for buffer in _buffers(call):
            if buffer not in held:
                first.setdefault(buffer, i)
                last[buffer] = i
    growth: Counter[int] = Counter()
    for buffer in first:
        size = -(-buffer.nbytes() // BLOCK) * BLOCK
        growth[first[buffer]] += size
        growth[last[buffer] + 1] -= size
    live = peak = 0
    for _, change in sorted(growth.items()):
        live += change
        peak = max(peak, live)
    return peak
