"""NVRTC without a GPU and without a driver: CUDA C to PTX through the library of the wheel ``nvidia-cuda-nvrtc``.

In: the text of a program. Out: PTX, or what its kernels take of a GPU; raises ValueError with the compiler's own lines for
a bad one, and for one that it only warns of.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from pathlib import Path
from typing import Any, Final, NamedTuple


@functools.cache
def library() -> Any:
    """The compiler, or None where its wheel is not installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(f) for f in (spec.submodule_search_locations or ())] if spec else []
    found = sorted(p for f in folders for p in f.glob("*/lib/libnvrtc.so.*") if "alt" not in p.name)
    return ctypes.CDLL(str(found[0])) if found else None


OPTIONS: Final = ("--std=c++17", "-ftz=true", "--device-as-default-execution-space")
"""Ours, and those that CuPy adds."""


class Resources(NamedTuple):
    """What a thread of a kernel takes: registers, and the bytes that did not fit into them; bytes of a block."""

    registers: int
    spilled: int
    shared: int


def to_ptx(source: str, arch: str = "compute_80") -> str:
    """What NVRTC makes of a program."""
    return compiled(source, arch, "PTX")[0]


def resources(source: str, arch: str = "sm_80") -> dict[str, Resources]:
    """What the kernels of a program take on a GPU, as the assembler tells."""
    log = compiled(source, arch, "CUBIN", "--ptxas-options=-v")[1]
    found = {}
    for part in log.split("Compiling entry function ")[1:]:
        numbers = [
            re.search(f, part) for f in (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem")
        ]
        found[part.split("'")[1]] = Resources(*(int(m[1]) if m else 0 for m in numbers))
    return found


def compiled(source: str, arch: str, kind: str, *extra: str) -> tuple[str, str]:
    """PTX (nothing, for a CUBIN), and what the compiler says."""
    lib, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    options = [o.encode() for o in (f"--gpu-architecture={arch}", *OPTIONS, *extra)]
    failed = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))

    def text(get_size: Any, get: Any) -> str:
        get_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        return buffer.value.decode()

    log = text(lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog)
    ptx = text(lib.nvrtcGetPTXSize, lib.nvrtcGetPTX) if kind == "PTX" and not failed else ""
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    if failed or "warning" in log:
        raise ValueError(log)
    return ptx, log
