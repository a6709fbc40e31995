"""The Tensor front end: lazy, and made of few ops."""

from tinysched.tensor.core import Tensor

__all__ = ["Tensor"]
