"""The Tensor front end: lazy, and made of few ops. Importing it binds the methods to the class.

Read in this order: storage (the one mutable thing), core, moves, movement, indexing, operands, elementwise, reduce,
creation, inplace; then what is made of these: functions, activations, nn_ops, einsum, sorting, padding, random; placement
and sharding; variables, tracing, call_gradient; last methods (which binds them), checks and hooks.
"""

from tinysched.tensor.core import Tensor
from tinysched.tensor.methods import bind

bind(Tensor)

__all__ = ["Tensor"]
