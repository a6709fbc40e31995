"""Sums of products by index letters, as NumPy's einsum: aligned by permute and reshape, multiplied, summed.

In: a formula such as ``"ij,jk->ik"`` and a Tensor for each part. Out: one Tensor.

>>> from tinysched import Tensor
>>> Tensor.einsum("bij,kj->bik", Tensor.empty(2, 3, 4), Tensor.empty(5, 4)).shape
(2, 3, 5)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from string import ascii_letters
from typing import Any

from tinysched.dtypes import DTypeLike
from tinysched.errors import ArgumentError, ShapeError
from tinysched.ir.lines import where as place
from tinysched.tensor.core import Tensor


def einsum(formula: str, *operands: Any, dtype: DTypeLike | None = None) -> Tensor:
    """The sum over all letters that the output does not name (without ``->`` it names those that occur once, sorted).

    A letter twice in one operand takes its diagonal; ``...`` stands for axes that broadcast. ``dtype``: to accumulate
    in. Raises :class:`ArgumentError` or :class:`ShapeError` where formula and shapes do not fit.
    """
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    xs: list[Tensor] = list(given)
    inputs, output = _parse(formula.replace(" ", ""), xs)
    pairs = [_diagonals(letters, x) for letters, x in zip(inputs, xs)]
    sizes = _sizes(formula, pairs)
    if len(set(output)) != len(output) or any(c not in sizes for c in output):
        raise ArgumentError(f"einsum {formula!r}: the output {output!r}", help="letters of the inputs, each once")
    letters = sorted(sizes)
    aligned = [_aligned(names, x, letters, sizes) for names, x in pairs]
    product: Tensor = reduce(lambda a, b: a * b, aligned)
    total = product.sum(tuple(i for i, c in enumerate(letters) if c not in output), dtype=dtype)
    left = [c for c in letters if c in output]
    return total.permute(*(left.index(c) for c in output))


def _parse(formula: str, xs: Sequence[Tensor]) -> tuple[list[str], str]:
    """The letters of each operand and of the output, with letters in the place of ``...``."""
    left, arrow, output = formula.partition("->")
    inputs = left.split(",")
    if wrong := {c for names in (*inputs, output) for c in names.replace("...", "", 1) if c not in ascii_letters}:
        raise ArgumentError(
            f"einsum {formula!r}: {', '.join(map(repr, sorted(wrong)))}", help="letters, and ... once for each operand"
        )
    if len(inputs) != len(xs):
        raise ArgumentError(f"einsum {formula!r} with {len(xs)} operands", help=f"it names {len(inputs)}")
    dots = [x.ndim - len(names.replace("...", "")) if "..." in names else 0 for names, x in zip(inputs, xs)]
    if any(d < 0 or (not d and "..." not in names and len(names) != x.ndim) for d, names, x in zip(dots, inputs, xs)):
        raise ShapeError(
            f"einsum {formula!r} of shapes {[x.shape for x in xs]}",
            where=place(xs[0].uop),
            help="one letter for each axis, or ... for those that have none",
        )
    spare = [c for c in ascii_letters if c not in formula][: max(dots)]
    inputs = [names.replace("...", "".join(spare[len(spare) - d :])) for names, d in zip(inputs, dots)]
    if arrow:
        return inputs, output.replace("...", "".join(spare))
    every = "".join(inputs)
    return inputs, "".join(spare) + "".join(sorted(c for c in every if every.count(c) == 1 and c not in spare))


def _diagonals(letters: str, x: Tensor) -> tuple[str, Tensor]:
    """An operand that names each letter once."""
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            a = letters.index(c)
            b = letters.index(c, a + 1)
            if x.shape[a] != x.shape[b]:
                raise ShapeError(
                    f"einsum: {c!r} is {x.shape[a]} and {x.shape[b]}",
                    where=place(x.uop),
                    help="a letter that stands twice takes a diagonal of equal axes",
                )
            x = x.diagonal(0, a, b)
            letters = letters[:a] + letters[a + 1 : b] + letters[b + 1 :] + c
    return letters, x


def _sizes(formula: str, pairs: Sequence[tuple[str, Tensor]]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for letters, x in pairs:
        for c, s in zip(letters, x.shape):
            if sizes.setdefault(c, s) == 1:
                sizes[c] = s
            elif s not in (1, sizes[c]):
                raise ShapeError(
                    f"einsum {formula!r}: {c!r} is {sizes[c]} and {s}",
                    where=place(x.uop),
                    help="a letter has one size, or 1",
                )
    return sizes


def _aligned(names: str, x: Tensor, letters: list[str], sizes: dict[str, Any]) -> Tensor:
    """An operand with an axis for every letter, of size 1 where it does not name it."""
    ordered = x.permute(*(names.index(c) for c in sorted(names)))
    shape = dict(zip(sorted(names), ordered.shape))
    return ordered.reshape(tuple(shape.get(c, 1) for c in letters))
