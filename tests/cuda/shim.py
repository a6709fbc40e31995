"""CUDA C on the CPU: programs go through a C++ compiler behind ``shim.h`` and run with every access looked at.

In: programs of :mod:`tinysched.runtime.cuda`. Out: functions that run them on NumPy arrays; a race, an access out of
bounds, a misaligned vector or a barrier that not all threads reach raises :class:`Fault`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tinysched.dtypes import DType, dtypes
from tinysched.runtime.cuda import Launch, Program
from tinysched.runtime.products import Matrix, Product

HERE = Path(__file__).parent
BUILT = Path(tempfile.gettempdir()) / f"tinysched-shim-{os.getuid() if hasattr(os, 'getuid') else 0}"
COMPILER = shutil.which("g++") or shutil.which("clang++")
_SIGNATURE = re.compile(r'extern "C" __global__ void __launch_bounds__\(\d+, \d+\) (\w+)\((.*?)\) \{')
_POINTER = re.compile(r"(const )?([a-z_0-9 ]+?)\* (p\d+)")
VECTORS = """
template <int N, class T> vec<std::remove_const_t<T>, N> load(Place<T> p) {
    p.check(N);
    vec<std::remove_const_t<T>, N> v;
    for (int k = 0; k < N; k++) v.at[k] = p.memory[p.i + k];
    return v;
}
template <class T, int N> void store(Place<T> p, vec<T, N> v) {
    p.check(N);
    for (int k = 0; k < N; k++) p.memory[p.i + k] = v.at[k];
}
"""


class Fault(Exception):
    """What the shim found wrong with a kernel."""


def translated(source: str, number: int) -> str:
    """A program as C++ in a namespace of its own, and a function with plain arguments for each kernel."""
    glue = []

    def pointer(m: re.Match[str]) -> str:
        return f"Global<{m[1] or ''}{m[2].strip()}> {m[3]}"

    def signature(m: re.Match[str]) -> str:
        name, params = m.groups()
        glue.append(_glue(name, params, number))
        return f"void {name}({_POINTER.sub(pointer, params)}) {{"

    text = _SIGNATURE.sub(signature, source)
    text = re.sub(r"__shared__ (\w[\w ]*) (\w+)\[(\d+)\]\[(\d+)\];", r'static Shared2<\1, \3, \4> \2("\2");', text)
    text = re.sub(r"__shared__ (\w[\w ]*) (\w+)\[(\d+)\];", r'static Shared1<\1, \3> \2("\2");', text)
    text = re.sub(r"(?m)^(template <class T, int N> struct alignas.*)$", lambda m: m[1] + VECTORS, text)
    return f"namespace k{number} {{\n{text}\n}}\n" + "\n".join(glue)


def _glue(name: str, params: str, number: int) -> str:
    lines, args, pointers, numbers = [], [], 0, 0
    for param in params.split(", "):
        if m := _POINTER.fullmatch(param):
            kind = m[2].strip()
            kind = f"k{number}::{kind}" if kind in ("half", "bfloat16") else kind
            lines.append(f"    std::vector<Mark> m{pointers};")
            view = f"Global<{m[1] or ''}{kind}>"
            args.append(f'{view}(data[{pointers}], sizes[{pointers}], &m{pointers}, "{m[3]}")')
            pointers += 1
        elif param.startswith("int* "):
            args.append("fault")
        else:
            args.append(f"numbers[{numbers}]")
            numbers += 1
    head = f"EXPORTED const char* k{number}_{name}(void** data, long* sizes, long* numbers, int* fault, int b, int t, int c)"
    call = f"    return launch([&] {{ k{number}::{name}({', '.join(args)}); }}, b, t, c);"
    return "\n".join([f"{head} {{", *lines, call, "}"])


class Library:
    """Programs compiled together; the compiled file is kept by its content."""

    def __init__(self, programs: Sequence[Program | str]):
        sources = [p if isinstance(p, str) else p.source for p in programs]
        text = '#include "shim.h"\n' + "\n".join(translated(s, i) for i, s in enumerate(sources))
        shim = (HERE / "shim.h").read_text()
        BUILT.mkdir(exist_ok=True)
        content = "".join((shim, *FLAGS, text)).encode()
        path = BUILT / f"{hashlib.sha256(content).hexdigest()[:24]}.so"
        if not path.exists():
            _compile(text, path)
        self.library = ctypes.CDLL(str(path))
        self.sources = sources

    def run(
        self, number: int, program: Program, arrays: Sequence[np.ndarray], values: Mapping[str, int], blocks: int = 0
    ) -> None:
        """Runs one program on flat arrays by slot; ``blocks`` limits the grids."""
        memory = dict(enumerate(arrays))
        for s in program.scratch:  # what nobody wrote is easily told from a value
            raw = np.full(s.size * s.dtype.itemsize + 16, 0xF5, np.uint8)
            start = -raw.ctypes.data % 16
            memory[s.slot] = raw[start : start + s.size * s.dtype.itemsize].view(_np(s.dtype))
        for step in program.steps:
            if isinstance(step, Product):
                left, right, out = (_matrix(memory[m.slot], m) for m in (step.left, step.right, step.out))
                product = np.matmul(as_floats(left, step.left.dtype), as_floats(right, step.right.dtype))
                out[...] = as_stored(product, step.out.dtype)
            else:
                self.launch(number, step, memory, values, blocks)

    def launch(
        self, number: int, step: Launch, memory: Mapping[int, np.ndarray], values: Mapping[str, int], blocks: int
    ) -> None:
        function = getattr(self.library, f"k{number}_{step.name}")
        function.restype = ctypes.c_char_p
        used = [memory[s] for s in step.slots]
        data = (ctypes.c_void_p * len(used))(*[a.ctypes.data for a in used])
        sizes = (ctypes.c_long * len(used))(*[a.size for a in used])
        numbers = (ctypes.c_long * max(1, len(step.variables)))(*[values[v] for v in step.variables])
        fault = ctypes.c_int(0)
        together = int(bool(re.search(r"__syncthreads|across_", self.sources[number])))
        grid = min(step.blocks, blocks) if blocks else step.blocks
        said = function(data, sizes, numbers, ctypes.byref(fault), grid, step.threads, together).decode()
        if said:
            raise Fault(f"{step.name}: {said}")
        if fault.value:
            raise IndexError(f"{step.name}: an index is outside of its buffer")


def as_floats(array: np.ndarray, dtype: DType) -> np.ndarray:
    """What is in memory, as numbers."""
    return ((array.astype(np.uint32) << 16).view(np.float32) if dtype is dtypes.bfloat16 else array).astype(np.float64)


def as_stored(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers as they are in memory, rounded to the nearest."""
    if dtype is not dtypes.bfloat16:
        return array.astype(dtype.np)
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _np(dtype) -> np.dtype:
    return dtype.np if dtype.np_name else np.dtype(np.uint16)


def _matrix(array: np.ndarray, m: Matrix) -> np.ndarray:
    strides = tuple(s * array.itemsize for s in m.strides)
    return as_strided(array[m.offset :], m.shape, strides)


# hidden, or libraries with equal kernels would share what is static in them
FLAGS = ("-std=c++17", "-O0", "-w", "-fPIC", "-fwrapv", "-fvisibility=hidden")


def _compile(text: str, path: Path) -> None:
    """Compiles to a file that appears whole, whoever else does the same at the same time."""
    with tempfile.TemporaryDirectory(dir=BUILT) as folder:
        source, built = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        source.write_text(text)
        _call_compiler("-shared", f"-I{_header()}", "-o", str(built), str(source))
        os.replace(built, path)


def _header() -> Path:
    """A folder with the shim, compiled beforehand: it is most of the work."""
    text = (HERE / "shim.h").read_text()
    place = BUILT / f"header-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            made = Path(folder) / "header"
            made.mkdir()
            (made / "shim.h").write_text(text)
            _call_compiler("-x", "c++-header", "-o", str(made / "shim.h.gch"), str(made / "shim.h"))
            with contextlib.suppress(OSError):  # somebody else was faster
                made.rename(place)
    return place


def _call_compiler(*arguments: str) -> None:
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr[:4000])
