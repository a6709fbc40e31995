"""Each value's way through the passes, as numbers that the viewer looks up: whose value a node shows, what was decided
about it, where it went, and what is known of turning a decision.

In: a trace and a schedule of it. Out: JSON values.

>>> from tinysched import Tensor, capture, clear_caches
>>> clear_caches()
>>> trace = capture((Tensor([1.0, 2.0]).realize() * 3).sum())
>>> found = ways(trace, trace.schedules[0])
>>> found["turns"], sorted(found["forced"])
({'R0': '2'}, ['CACHE_MISS', 'FORCED_OUTPUT', 'FORCED_STORE'])
"""

from __future__ import annotations

from typing import Any

from tinysched.explain import where_gone
from tinysched.explain.flips import FORCED, decisions_of, words
from tinysched.explain.speak import speaker
from tinysched.trace.document import Flip, Schedule
from tinysched.trace.trace import Trace


def ways(trace: Trace, s: Schedule) -> dict[str, Any]:
    """``shows``: per node the user's node whose value it shows (-1: none). ``about``: per user's node (stage, step) pairs.
    ``gone``: where values went that no kernel computes. ``forced``, ``flips``: what would turn a decision. ``turns``: the
    trip count of each loop of the walk."""
    say = speaker(trace, s)
    follow = say.follow
    shows = [-1 if n.expr is not None or (o := follow.shows(i)) is None else o for i, n in enumerate(s.nodes)]
    users = [i for i, o in enumerate(shows) if i == o]
    about = {i: [[k, n] for k, n, _ in steps] for i in users if (steps := follow.steps(i))}
    decided = {(k, n): d for k, n, d in decisions_of(s)}
    reasons = sorted({d.reason for d in decided.values()} & FORCED.keys())
    return {
        "shows": shows,
        "about": about,
        "gone": where_gone(trace, s),
        "forced": {r: words(Flip(0, 0, "", refused=FORCED[r])) for r in reasons},
        "flips": [[f.stage, f.step, words(f, decided.get((f.stage, f.step)))] for f in s.flips],
        "turns": say.loops,
    }
