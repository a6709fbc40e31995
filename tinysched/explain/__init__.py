"""Why each value was fused or got a buffer, in sentences with evidence; and what would change it.

Read in this order: sentences (a step), decisions (the chain of one value), flips (what would change it), speak (names),
check, over evaluate, effects and arrays (which pass changed a value).

In: a trace, a schedule of it and a step. Out: plain text that a view shows as it is.

>>> from tinysched.trace.document import Decided, Node, Schedule
>>> from tinysched.trace.trace import Trace
>>> node = Node("EXP2", "float32", "exp2", "alu", shape=(4, 5))
>>> step = Decided(0, "fused", "SINGLE_CONSUMER", {"consumers": ({"node": 0},), "indices": (("r0", "r1"),)})
>>> sentence(Trace("t"), Schedule("s", (node,)), step)
'exp2 is fused: only exp2 reads it, at [r0, r1], so it is computed where it is needed (SINGLE_CONSUMER).'
"""

from tinysched.explain.check import Checked, check
from tinysched.explain.decisions import Decisions, where_gone
from tinysched.explain.flips import boundaries
from tinysched.explain.sentences import sentence
from tinysched.trace.trace import VIEWS

VIEWS.update(decisions=Decisions, flips=boundaries, check=check)

__all__ = ["Checked", "Decisions", "check", "sentence", "where_gone"]
