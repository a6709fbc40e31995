"""Checks that the Tensor functions share: axes, shapes given as one tuple or many ints, and what they say when wrong.

In: what the user gave. Out: the normal form (axes from 0, plain tuples), or a :class:`TinyschedError` that names it.

>>> axis_of(-1, 3), axes_of(None, 2), sizes_of((2, 3)), sizes_of(((2, 3),))
(2, (0, 1), (2, 3), (2, 3))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, Final

from tinysched.errors import ArgumentError, DTypeError, ShapeError
from tinysched.ir.uop import Shape, UOp

Axes = int | Sequence[int] | None


def axis_of(axis: int, ndim: int) -> int:
    """``axis`` counted from 0. Raises :class:`ShapeError` where there is no such axis."""
    try:
        found = index(axis)
    except TypeError:
        raise DTypeError(f"an axis is an int, not {axis!r}") from None
    most = max(ndim, 1)  # a 0-d Tensor takes axis 0 and -1
    if not -most <= found < most:
        raise ShapeError(f"axis {axis} of a {ndim}-d Tensor", help=f"axes are {-most} to {most - 1}")
    return found + ndim if found < 0 and ndim else max(found, 0)


def axes_of(axes: Axes, ndim: int) -> tuple[int, ...]:
    """Axes counted from 0; None means all. Raises :class:`ShapeError` for an axis named twice."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, int):
        found: tuple[int, ...] = (axis_of(axes, ndim),)
    else:
        found = tuple(axis_of(a, ndim) for a in axes)
        if len(set(found)) != len(found):
            raise ShapeError(f"axes {tuple(axes)} name one twice")
    return found if ndim else ()


def sizes_of(args: Iterable[Any]) -> Shape:
    """A shape given as ``f(2, 3)`` or ``f((2, 3))``. Raises :class:`DTypeError` for what is no size."""
    args = tuple(args)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    return tuple(a if isinstance(a, (UOp, int)) and a.__class__ is not bool else _size(a) for a in args)


def _size(a: Any) -> int:
    try:
        return index(a)
    except TypeError:
        raise DTypeError(f"a size is an int, not {a!r}") from None


def new_shape(args: Iterable[Any]) -> Shape:
    """The shape of a new Tensor: no negative sizes."""
    shape = sizes_of(args)
    if any(isinstance(s, int) and s < 0 for s in shape):
        raise ShapeError(f"a shape of negative sizes: {shape}")
    return shape


def many(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One int for every axis, or one each. Raises :class:`ArgumentError` for the wrong number."""
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) != count:
        raise ArgumentError(f"{len(values)} values {values} for {count} axes")
    return values


# ** names from elsewhere **

_CALLED_HERE: Final = {
    "astype": "cast(dtype)", "type": "cast(dtype)", "copy": "clone()", "cpu": 'to("NUMPY")', "cuda": 'to("CUPY")',
    "dim": "ndim", "requires_grad_": "requires_grad = True", "ravel": "flatten()", "swapaxes": "transpose(i, j)",
    "concat": "cat", "concatenate": "cat", "mm": "@", "bmm": "@", "take": "x[index]", "index_select": "x[index]",
    "add_": "+=", "sub_": "-=", "mul_": "*=", "div_": "/=", "copy_": "assign(value)", "fill_": "x[...] = value",
    "zero_": "x[...] = 0", "view_as": "view(y.shape)", "expand_as": "expand(y.shape)", "itemsize": "element_size()",
}  # fmt: skip
"""What NumPy and PyTorch call otherwise."""


def missing(x: Any, name: str) -> Any:
    """Raises AttributeError for a name that a Tensor does not have; says what it is called here, if it is known."""
    help = f"\n  help: here it is {_CALLED_HERE[name]}" if name in _CALLED_HERE else ""
    raise AttributeError(f"a Tensor has no attribute {name!r}{help}", name=name, obj=x)
