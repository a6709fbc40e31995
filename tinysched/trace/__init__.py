"""Recording what a schedule did: :func:`capture` watches the engine, :class:`Trace` is what it saw, as frozen data.

Read in this order: document (what a trace is made of), trace (the whole), capture, recorder, build, nodes, follow,
provenance, kernels, memory, values; then whatif, targets and compare; last what files need: codec, args, check,
rebuild, and later, names and live.

In: Tensors, or a function that makes them. Out: a trace with a versioned JSON form (docs/trace-schema.md).

>>> from tinysched import Tensor, capture
>>> trace = capture((Tensor([1.0, 2.0]).realize() * 3).sum(), title="small")
>>> trace, Trace.from_json(trace.to_json()) == trace
(<Trace 'small': 1 schedule, 1 kernel>, True)
"""

from tinysched.trace.capture import capture
from tinysched.trace.compare import Comparison, compare
from tinysched.trace.trace import Trace

__all__ = ["Comparison", "Trace", "capture", "compare"]
