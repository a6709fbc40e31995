"""How a kernel should run, in words: what ``.contiguous(arg=...)`` asks for, BEAM tries and a run reports.

- ``lowering=numpy`` or ``lowering=numba``: as a NumPy program or as compiled loops;
- ``block=8192``: elements of the largest array within a block of a NumPy program (0: no blocks);
- ``order=1,0``: the loops in another order, by position: here the inner one outside.

In: words. Out: :class:`Options`, or an :class:`ArgumentError`.

>>> Options.of(("block=8192", "order=1,0"))
Options(lowering=None, block=8192, order=(1, 0))
>>> Options.of(("unroll=4",))
Traceback (most recent call last):
    ...
tinysched.errors.ArgumentError: 'unroll=4' is no option of a kernel
  help: lowering=numpy, lowering=numba, block=N, order=1,0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tinysched.errors import ArgumentError

Opts = tuple[str, ...]
LOWERINGS: Final = ("numpy", "numba")


class Options(NamedTuple):
    """The words, read. None: left open."""

    lowering: str | None = None
    block: int | None = None
    order: tuple[int, ...] | None = None

    @staticmethod
    def of(words: Iterable[str]) -> Options:
        """Raises :class:`ArgumentError` for a word that is no option."""
        found = Options()
        for word in (words,) if isinstance(words, str) else words:
            name, _, value = str(word).partition("=")
            numbers = value.split(",")
            if name == "lowering" and value in LOWERINGS:
                found = found._replace(lowering=value)
            elif name == "block" and value.isdecimal():
                found = found._replace(block=int(value))
            elif name == "order" and sorted(numbers) == sorted(map(str, range(len(numbers)))):
                found = found._replace(order=tuple(map(int, numbers)))
            else:
                raise ArgumentError(
                    f"{word!r} is no option of a kernel", help="lowering=numpy, lowering=numba, block=N, order=1,0"
                )
        return found
