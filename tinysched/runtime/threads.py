"""How many threads BLAS uses: one for small products, which threads only slow down when cores are shared.

Works where ``threadpoolctl`` is installed (extra ``blas``); without it BLAS decides for itself, or the environment does
(``OPENBLAS_NUM_THREADS=1``).

>>> with one_blas_thread():
...     pass
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

SMALL_PRODUCT: Final = 1 << 18
"""Operations up to which BLAS starts no threads by itself."""
LARGE_PRODUCT: Final = 1 << 30
"""Operations from which a kernel's products gain from threads: a few hundredths of a second on one core."""


@cache
def _pools() -> Any:
    """The BLAS libraries in this process, or nothing."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    pools = ThreadpoolController().select(user_api="blas")
    return pools if any(p["num_threads"] > 1 for p in pools.info()) else None


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """BLAS keeps to the calling thread within the block."""
    pools = _pools() if wanted else None
    if pools is None:
        yield
        return
    with pools.limit(limits=1):
        yield


@contextmanager
def all_blas_threads() -> Iterator[None]:
    """BLAS uses as many threads as it was started with, also within :func:`one_blas_thread`."""
    pools = _pools()
    if pools is None:
        yield
        return
    with pools.limit(limits=max(p["num_threads"] for p in pools.info())):
        yield
