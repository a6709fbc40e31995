"""The Tensor front end: lazy, and made of few ops. Importing it binds the methods to the class."""

from tinysched.tensor.core import Tensor
from tinysched.tensor.methods import bind

bind(Tensor)

__all__ = ["Tensor"]
