"""tinysched: see, teach and debug how a tensor compiler decides what to fuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinysched.dtypes import dtypes
from tinysched.engine import Plan, plan, run_linear
from tinysched.errors import TinyschedError
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.uop import UOp
from tinysched.runtime.counters import GlobalCounters
from tinysched.runtime.device import Device
from tinysched.settings import Context
from tinysched.tensor import Tensor

if TYPE_CHECKING:
    from tinysched.runtime.profile import profile as profile
    from tinysched.tensor.tracing import function as function
    from tinysched.trace.capture import capture as capture
    from tinysched.widgets import explore as explore

__version__ = "0.1.0"

_LAZY = {
    "capture": "tinysched.trace",
    "explore": "tinysched.widgets",
    "compare": "tinysched.trace",
    "nn": "tinysched.nn",
    "profile": "tinysched.runtime.profile",
    "function": "tinysched.tensor.tracing",
}


def clear_caches() -> None:
    """Empties the schedule cache and every memo."""
    from tinysched.engine.recall import clear_caches as clear_recipes
    from tinysched.runtime.linear import clear_caches as clear_programs
    from tinysched.schedule.pipeline import clear_caches as clear_schedules

    clear_recipes()
    clear_schedules()
    clear_programs()


def Variable(name: str, vmin: int, vmax: int) -> UOp:
    """A whole number that is known only at run time, between ``vmin`` and ``vmax`` (inclusive)."""
    return UOp.variable(name, vmin, vmax)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tinysched' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    return module if name == "nn" else getattr(module, name)


__all__ = [
    "Context", "Device", "GlobalCounters", "GroupOp", "Ops", "Plan", "Tensor", "TinyschedError", "UOp", "Variable",
    "capture", "clear_caches", "compare", "dtypes", "explore", "function", "nn", "plan", "profile", "run_linear",
]  # fmt: skip
