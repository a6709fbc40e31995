"""What a step did, in a sentence: first the verdict, then the reason, then the numbers, the engine's term in brackets.

In: a trace, a schedule of it and a step. Out: plain text that a view shows as it is.

>>> from tinysched.trace.document import Decided, Node, Schedule, Trace
>>> node = Node("EXP2", "float32", "exp2", "alu", shape=(4, 5))
>>> step = Decided(0, "fused", "SINGLE_CONSUMER", {"consumers": ({"node": 0},)})
>>> sentence(Trace("t"), Schedule("s", (node,)), step)
'exp2 is fused: only exp2 reads it, so it is computed where it is needed (SINGLE_CONSUMER).'
"""

from tinysched.explain.sentences import sentence

__all__ = ["sentence"]
