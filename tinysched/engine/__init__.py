"""The engine joins tensors, schedules and runs: plan, realize, commit.

Read in this order: plan (what would run), outcome (what a run's end means for Tensors), run, read.
"""

from tinysched.engine.hook import TensorEngine
from tinysched.engine.plan import Plan, plan
from tinysched.engine.run import realize, run_linear
from tinysched.tensor.hooks import register

register(TensorEngine())

__all__ = ["Plan", "plan", "realize", "run_linear"]
