"""The numba backend: loops that are compiled, for the kernels that gain by it; the rest runs as NumPy programs.

In: a kernel's SINK. Out: what :mod:`tinysched.runtime.numpy` gives: the text, and the kernel bound to its memory. Each
step of a kernel (:mod:`steps`) is either lowered (:mod:`lowered`) or a NumPy program: products of matrices stay with
BLAS, gathers with ``take``. Compiled functions are kept on disk, in ``NUMBA_CACHE_DIR`` or the user's cache folder, by the
text that they were made from. They let go of the interpreter's lock, so that large ones run in parts on all cores.

Without numba installed everything here works too: every step is a NumPy program then, and the first kernel says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.runtime import lowered, numpy
from tinysched.runtime.cost import cost_of
from tinysched.runtime.forms import Unsupported
from tinysched.runtime.loops import Line, text_of
from tinysched.runtime.nest import arguments_of, stores_of
from tinysched.runtime.origins import Origins
from tinysched.runtime.steps import Steps, steps_of, with_stored_factors

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Run = Callable[[], None]
PARALLEL: Final = 1 << 23
"""Operations from which a kernel runs in parts."""
WORTH: Final = 1 << 14
"""Operations below which a kernel is not compiled."""
HOT: Final = 0.5
"""Seconds that ``CPU=auto`` lets a kernel take as a NumPy program before it is compiled (which takes about as long)."""


# ** is numba there? **


def is_there() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@cache
def is_available() -> bool:
    """Whether numba can be used; the first time it cannot, a warning says how to get it."""
    if is_there():
        return True
    warnings.warn(
        "CPU=numba: numba is not installed, so kernels run as NumPy programs (pip install 'tinysched[numba]')",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


# ** texts **


def program_text(sink: UOp, var_vals: Mapping[str, int] | None = None) -> str:
    """The kernel as it would run: lowered loops where a step is compiled, else NumPy."""
    return text_of(program_lines(sink, var_vals))


def program_lines(sink: UOp, var_vals: Mapping[str, int] | None = None) -> list[Line]:
    """The same line by line, each with the nodes of the kernel that it computes."""
    if not is_available():
        return numpy.program_lines(sink, var_vals)
    origins = Origins(sink)
    largest = {str(v.arg.name): v.arg.vmax for v in arguments_of(sink)[1]}
    kernel = numpy.with_values(sink, largest | dict(var_vals or {}), origins.note)
    lines: list[Line] = []
    for step in with_stored_factors(steps_of(kernel, note=origins.note)).sinks:
        lines += [Line("")] if lines else []
        lines += _lines(step) or numpy.program_lines(step)
    return origins.of_lines(lines)


def _lines(sink: UOp) -> list[Line] | None:
    """A step's lowered loops; None where it is left to NumPy."""
    if cost_of(sink).ops < WORTH:
        return None
    try:
        return lowered.program_lines(sink)
    except Unsupported:
        return None


def _text(sink: UOp) -> str | None:
    return None if (lines := _lines(sink)) is None else text_of(lines)


# ** compiling **


_CALLED: Final = (
    "add_lanes", "erf", "exp", "exp2", "log", "log2", "max_lanes", "maximum", "multiply_lanes", "sin", "tanh",
)  # fmt: skip
_HEAD: Final = f"""from numpy import bool_, empty, float32, float64, inf, nan, reciprocal, sqrt, trunc, uintp
from tinysched.runtime.numba import {", ".join(_CALLED)}, jit


@jit
"""


def __getattr__(name: str) -> Any:
    """``jit`` and the compiled functions that lowered texts import; numba itself is imported with the first of them."""
    if name in (*_CALLED, "jit", "jit_in_memory"):
        return helpers()[name]
    raise AttributeError(name)


@cache
def helpers() -> dict[str, Any]:
    """The functions that lowered texts call, compiled; importing numba takes a second."""
    from tinysched.runtime.compiled import HELPERS

    return HELPERS


@cache
def _version() -> bytes:
    """What compiled kernels depend on besides their texts: machine code that is kept has these functions inside."""
    return b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in ("fastmath", "compiled"))


@lru_cache(maxsize=512)
def compiled(text: str) -> Callable[..., None]:
    """The compiled function of a lowered text."""
    return Kept(text)


class Kept:
    """A compiled function that is kept on disk. Where that fails it is compiled for this process, and a warning says so.

    numba keeps machine code beside a file, so the text gets one; it reads and writes the code when the function is called
    first, before anything is computed.
    """

    def __init__(self, text: str):
        self.text, self.is_sure = text, False
        self.function: Callable[..., None] | None = None
        try:
            self.function = _on_disk(text)
        except (OSError, RuntimeError) as error:  # numba raises the latter where it cannot write
            self.do_without(error)

    def __call__(self, *args: Any) -> None:
        assert self.function is not None
        if self.is_sure:
            self.function(*args)
            return
        try:
            self.function(*args)
        except Exception as error:  # the files may be damaged in any way
            self.do_without(error)(*args)
        self.is_sure = True

    def do_without(self, error: Exception) -> Callable[..., None]:
        """Compiles in memory, and forgets the machine code, so that another process makes it again."""
        for path in machine_code(self.text, self.function):
            with contextlib.suppress(OSError):
                path.unlink()
        warn_once(str(cache_folder()), (error.strerror if isinstance(error, OSError) else None) or str(error))
        self.function = _function_in(_in_memory(self.text), self.text)
        return self.function


def _function_in(names: Mapping[str, Any], text: str) -> Callable[..., None]:
    function: Callable[..., None] = names[text[len("def ") : text.index("(")]]
    return function


def _in_memory(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec((_HEAD + text).replace("\n@jit\n", "\n@jit_in_memory\n").replace(", jit\n", ", jit_in_memory\n"), names)
    return names


def _name(text: str) -> str:
    return f"tinysched_kernel_{hashlib.sha256(_version() + (_HEAD + text).encode()).hexdigest()[:32]}"


def machine_code(text: str, function: Any) -> list[Path]:
    """The files in which numba keeps a function, in a folder of its choice."""
    folder = getattr(getattr(function, "stats", None), "cache_path", None)
    return list(Path(folder).glob(f"{_name(text)}.*.nb[ic]")) if folder else []


def _on_disk(text: str) -> Callable[..., None]:
    name = _name(text)
    path, whole = cache_folder() / f"{name}.py", (_HEAD + text + "\n").encode()
    if not path.exists() or path.read_bytes() != whole:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        part.write_bytes(whole)
        part.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return _function_in(vars(module), text)


@cache
def warn_once(folder: str, why: str) -> None:
    """Says that machine code is not found or kept, once for each folder and reason."""
    warnings.warn(
        f"compiled kernels cannot be read or kept in {folder} ({why}), so this process compiles its own; "
        "NUMBA_CACHE_DIR names another folder",
        RuntimeWarning,
        stacklevel=2,
    )


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given) if given else Path.home() / ".cache" / "tinysched" / "numba"


# ** the same bits **

_INEXACT: Final = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW})


@lru_cache(maxsize=4096)
def has_functions(sink: UOp) -> bool:
    """Whether a kernel calls functions, whose last bits differ between NumPy's and ours."""
    return any(u.op in _INEXACT for u in sink.toposort())


@lru_cache(maxsize=4096)
def compares_functions(sink: UOp) -> bool:
    """Whether a kernel asks if what it computes by functions equals something else.

    As the gradient of a maximum does: another kernel has computed that, and both have to get the same bits.
    """
    equal = [u for u in sink.toposort() if u.op in (Ops.CMPEQ, Ops.CMPNE) and u.src[0].dtype.kind == "f"]
    computed = [u for u in equal if u.src[0] is not u.src[1] and all(s.op is not Ops.CONST for s in u.src)]
    return any(v.op in _INEXACT for u in computed for v in u.toposort())


# ** running **


def bind(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Run:
    """A kernel on certain memory, compiled as far as it gains by it."""
    return bind_and_say(sink, arrays, var_vals)[0]


def bind_and_say(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> tuple[Run, str]:
    """The same, and as what it runs: "numba" where any of its steps is compiled, else "numpy"."""
    if not is_available() or len(stores_of(sink)) != 1:
        return numpy.bind(sink, arrays, var_vals), "numpy"
    kernel = numpy.with_values(sink, var_vals)
    steps, texts = _lowered(kernel)
    if not texts or _overlaps(kernel, arrays, int(stores_of(sink)[0][0].src[0].src[0].arg.slot)):
        return numpy.bind(sink, arrays, var_vals), "numpy"
    return _in_steps(sink, steps, texts, arrays, var_vals), "numba"


def is_lowered(sink: UOp, var_vals: Mapping[str, int]) -> bool:
    """Whether any step of a kernel would be compiled."""
    return len(stores_of(sink)) == 1 and bool(_lowered(numpy.with_values(sink, var_vals))[1])


def _lowered(kernel: UOp) -> tuple[Steps, list[str | None]]:
    """The steps of a kernel and the texts of those that are compiled; no texts where none is."""
    steps = with_stored_factors(steps_of(kernel))
    texts = [_text(s) for s in steps.sinks]
    return steps, [] if not any(texts) or (steps.finite and len(steps.sinks) == 1) else texts


def _in_steps(
    sink: UOp, steps: Steps, texts: list[str | None], arrays: Sequence[Any], var_vals: Mapping[str, int]
) -> Run:
    scratch = [np.empty(m.arg.size, m.dtype.np) for m in steps.memory]
    slots = 1 + max(int(u.arg.slot) for u in arguments_of(sink)[0])
    everything = [*arrays[:slots], *scratch]
    runs = [_step(s, text, everything) for s, text in zip(steps.sinks, texts)]
    checked = [arrays[int(p.arg.slot)] for p in steps.finite]
    careful = numpy.bind(sink, arrays, var_vals) if checked else None

    def run() -> None:
        if careful is not None and not all(np.isfinite(a).all() for a in checked):
            careful()
            return
        for step in runs:
            step()

    return runs[0] if len(runs) == 1 and careful is None else run


def _step(sink: UOp, text: str | None, arrays: Sequence[Any]) -> Run:
    if text is None:
        return numpy.bind(sink, arrays, {})
    slots = 1 + max(int(u.arg.slot) for u in arguments_of(sink)[0])
    function, size = compiled(text), int(stores_of(sink)[0][1][0].src[0].arg)
    given = arrays[:slots]
    if cost_of(sink).ops < PARALLEL or size < 2 * threads() or threads() == 1:
        return partial(function, *given, 0, size)
    ends = [size * i // threads() for i in range(threads() + 1)]

    def in_parts() -> None:
        parts = [pool().submit(function, *given, a, b) for a, b in itertools.pairwise(ends)]
        for part in parts:
            part.result()

    return in_parts


def threads() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool() -> ThreadPoolExecutor:
    """The threads that the parts of large kernels run on."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads(), thread_name_prefix="tinysched")


def _overlaps(kernel: UOp, arrays: Sequence[Any], out: int) -> bool:
    """Whether an input shares memory with the output in any way but being read where it is written."""
    place = stores_of(kernel)[0][0].src[0].src[1]
    loads = [u.src[0] for u in kernel.toposort() if u.op is Ops.LOAD]
    moved = any(i.src[1] is not place for i in loads if i.src[0].arg.slot == out)
    slots = {int(i.src[0].arg.slot) for i in loads} - {out}
    return moved or any(np.may_share_memory(arrays[out], arrays[i]) for i in slots)


# ** CPU=auto **


class Auto:
    """A kernel that starts as a NumPy program and is compiled once it has taken long enough."""

    def __init__(self, sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]):
        self.later: Run | None = partial(self.compile, sink, arrays, dict(var_vals))
        self.run, self.seconds = numpy.bind(sink, arrays, var_vals), 0.0
        self.lowering = "numpy"

    def compile(self, sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> None:
        self.run, self.lowering = bind_and_say(sink, arrays, var_vals)
        CHOICES[sink] = self.lowering

    def __call__(self) -> None:
        if self.later is None:
            self.run()
            return
        start = time.perf_counter()
        self.run()
        self.seconds += time.perf_counter() - start
        if self.seconds > HOT:
            later, self.later = self.later, None
            later()


CHOICES: Final[dict[UOp, str]] = {}
"""As what the kernels run that ``CPU=auto`` has found hot so far."""


def bind_auto(sink: UOp, arrays: Sequence[Any], var_vals: Mapping[str, int]) -> Run:
    """A kernel on certain memory: NumPy first, compiled when it is hot."""
    gains = is_there() and cost_of(sink, var_vals).ops >= WORTH
    return Auto(sink, arrays, var_vals) if gains else numpy.bind(sink, arrays, var_vals)


def auto_lines(sink: UOp) -> list[Line]:
    """The program that ``CPU=auto`` runs now."""
    return program_lines(sink) if CHOICES.get(sink) == "numba" else numpy.program_lines(sink)


def auto_text(sink: UOp) -> str:
    return text_of(auto_lines(sink))
