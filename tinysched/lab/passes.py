"""Pipelines that are put together: a pass followed by rules of somebody's own, and the first passes of one before another's.

In: the engine's passes, and rules. Out: :class:`~tinysched.schedule.pipeline.Pipeline` values for ``capture`` and ``plan``.

>>> [a is b for a, b in zip(mixed(followed("prepare", PatternMatcher([])), 1).stages, PIPELINE.stages)][:3]
[False, True, True]
"""

from __future__ import annotations

from tinysched.ir.pattern import PatternMatcher
from tinysched.ir.rewrite import graph_rewrite
from tinysched.ir.uop import UOp
from tinysched.schedule.pipeline import PIPELINE, PassContext, Pipeline


def followed(stage: str, rules: PatternMatcher) -> Pipeline:
    """The engine's passes, with rules of somebody's own applied right after one of them."""
    plain = next(s.fn for s in PIPELINE.stages if s.name == stage)

    def both(sink: UOp, ctx: PassContext) -> UOp:
        return graph_rewrite(plain(sink, ctx), rules, ctx, name=stage)

    return PIPELINE.replace(stage, both)


def mixed(pipeline: Pipeline, count: int) -> Pipeline:
    """The first ``count`` passes of ``pipeline``, and the engine's own after them."""
    return Pipeline((*pipeline.stages[:count], *PIPELINE.stages[count:]))
