"""Writing in place: the operators ``+=`` and so on, and replacing a value.

In: a Tensor and another operand. Out: the same Tensor, whose Storage has a new value; views of it follow.

>>> from tinysched import Tensor
>>> x = Tensor([1.0, 2.0])
>>> first = x[:1]
>>> x *= 3
>>> first.tolist()
[3.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinysched.errors import DTypeError, ShapeError
from tinysched.ir.lines import where as place
from tinysched.tensor import elementwise, nn_ops
from tinysched.tensor.core import Tensor
from tinysched.tensor.storage import Storage

Operator = Callable[[Tensor, Any], Tensor]


def in_place(operator: Operator, sign: str) -> Operator:
    """The operator that writes its result into its left operand (cast to its dtype where that loses no kind).

    Raises :class:`DTypeError` where floats would be written into whole numbers, as NumPy does.
    """

    def write(x: Tensor, y: Any) -> Tensor:
        new = operator(x, y)
        if new.dtype is not x.dtype:
            if "biuf".index(_kind(new)) > "biuf".index(_kind(x)):
                raise DTypeError(
                    f"{x.dtype.name} {sign} gives {new.dtype.name}",
                    where=place(x.uop),
                    help="cast one of the two first",
                )
            new = new.cast(x.dtype)
        return x.assign(new)

    return write


def _kind(x: Tensor) -> str:
    return x.dtype.kind.replace("u", "i")


iadd = in_place(elementwise.add, "+=")
isub = in_place(elementwise.sub, "-=")
imul = in_place(elementwise.mul, "*=")
itruediv = in_place(elementwise.div, "/=")
ifloordiv = in_place(elementwise.floordiv, "//=")
imod = in_place(elementwise.mod, "%=")
ipow = in_place(elementwise.pow, "**=")
iand = in_place(elementwise.bitwise_and, "&=")
ior = in_place(elementwise.bitwise_or, "|=")
ixor = in_place(elementwise.bitwise_xor, "^=")
ilshift = in_place(elementwise.lshift, "<<=")
irshift = in_place(elementwise.rshift, ">>=")
imatmul = in_place(nn_ops.dot, "@=")


def replace(x: Tensor, y: Tensor) -> Tensor:
    """Gives ``x`` a Storage of its own with the present value of ``y``, of whatever dtype and device."""
    if x.shape != y.shape:
        raise ShapeError(f"replace {x.shape} by {y.shape}", where=place(x.uop), help="shapes must be equal")
    x._set_storage(Storage(y.uop), ())
    return x
