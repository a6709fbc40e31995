"""NVRTC without a GPU and without a driver: CUDA C to PTX through the library of the wheel ``nvidia-cuda-nvrtc``.

In: the text of a program. Out: PTX; raises ValueError with the compiler's own lines for a bad one.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path
from typing import Any


@functools.cache
def library() -> Any:
    """The compiler, or None where its wheel is not installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(f) for f in (spec.submodule_search_locations or ())] if spec else []
    found = sorted(p for f in folders for p in f.glob("*/lib/libnvrtc.so.*") if "alt" not in p.name)
    return ctypes.CDLL(str(found[0])) if found else None


def to_ptx(source: str, arch: str = "compute_80") -> str:
    """What NVRTC makes of a program."""
    lib, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    failed = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))

    def text(get_size: Any, get: Any) -> str:
        get_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        return buffer.value.decode()

    log = text(lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog)
    ptx = "" if failed else text(lib.nvrtcGetPTXSize, lib.nvrtcGetPTX)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise ValueError(log)
    return ptx
