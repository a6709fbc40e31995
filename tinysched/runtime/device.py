"""Memory: which devices there are, and the buffers on them.

In: BUFFER nodes, and views of them (RESHAPE, SHRINK, BITCAST). Out: :class:`Buffer`, flat memory that is allocated when
it is first needed and freed when nobody holds it.

>>> Device.canonicalize("numpy:0"), Device.canonicalize("NUMPY:1")
('NUMPY', 'NUMPY:1')
>>> from tinysched.dtypes import dtypes
>>> arena = Buffer("NUMPY", 64, dtypes.int8)
>>> arena.is_allocated
False
>>> part = arena.view(16, 4, dtypes.float32)
>>> part.copyin(np.array([1, 2, 3, 4], np.float32))
>>> np.shares_memory(part.array, arena.array), arena.nbytes, part.copyout().tolist()
(True, 64, [1.0, 2.0, 3.0, 4.0])
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import numpy as np

from tinysched.dtypes import DType
from tinysched.errors import ArgumentError, DeviceError, RunError, SpecError
from tinysched.ir.ops import Ops
from tinysched.ir.uop import UOp
from tinysched.settings import Setting

Array = np.ndarray[Any, np.dtype[Any]]

MOST_DEVICES: Final = 256
"""NUMPY devices are virtual; more of them than this is a slip."""


class DeviceMemory:
    """How much memory of one device is allocated now, and the most it ever was."""

    def __init__(self, name: str):
        self.name = name
        self.allocated = self.peak = 0  # bytes
        self._lock = threading.RLock()  # a finalizer may run while this thread allocates

    def allocate(self, size: int, dtype: DType) -> Array:
        """A new flat array, counted until the last view of it is gone. Its values are arbitrary."""
        try:
            array = self.new_array(size, dtype)
        except MemoryError:
            raise RunError(
                f"no memory for {size * dtype.itemsize:,} bytes on {self.name}, where {self.allocated:,} are in use",
                help="realize smaller pieces, or drop Tensors that you no longer need",
            ) from None
        with self._lock:
            self.allocated += array.nbytes
            self.peak = max(self.peak, self.allocated)
        weakref.finalize(array, self._free, array.nbytes).atexit = False
        return array

    def new_array(self, size: int, dtype: DType) -> Array:
        return np.empty(size, dtype.np)

    def element_type(self, dtype: DType) -> np.dtype[Any]:
        """What arrays of this device hold."""
        return dtype.np

    def put(self, array: Array, values: Array) -> None:
        """Values of the host into memory."""
        array[...] = values

    def get(self, array: Array) -> Array:
        """A copy of memory on the host."""
        return array.copy()

    def _free(self, nbytes: int) -> None:
        with self._lock:
            self.allocated -= nbytes

    def reset_peak(self) -> None:
        with self._lock:
            self.peak = self.allocated


class _Devices:
    """The devices, by canonical name."""

    def __init__(self) -> None:
        self._memory: dict[str, DeviceMemory] = {}

    def canonicalize(self, name: str | None) -> str:
        """The one name of a device (``NUMPY`` for ``numpy:0``), the default's for None.

        Raises :class:`DeviceError` for devices that don't exist.
        """
        if name is None:
            return self.DEFAULT
        kind, _, number = str(name).upper().partition(":")
        if kind == "CUPY" and (number or "0").isdecimal():
            _gpus().usable(int(number or 0))
            return f"{kind}:{int(number)}" if int(number or 0) else kind
        if kind != "NUMPY" or not (number or "0").isdecimal() or int(number or 0) >= MOST_DEVICES:
            raise DeviceError(f"there is no device {name!r}", help=_KNOWN)
        return f"{kind}:{int(number)}" if number and int(number) else kind

    def __getitem__(self, name: str) -> DeviceMemory:
        name = self.canonicalize(name)
        if name not in self._memory:
            self._memory.setdefault(name, (_gpus().CupyMemory if name.startswith("CUPY") else DeviceMemory)(name))
        return self._memory[name]

    @property
    def DEFAULT(self) -> str:
        """Where Tensors are made unless they say otherwise: ``Context(DEVICE=...)``, an assignment, the environment."""
        return DEVICE.word

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:
        DEVICE.set(name)


def _gpus() -> Any:
    """The run time for GPUs, loaded when one is named."""
    from tinysched.runtime import cupy

    return cupy


_KNOWN: Final = f"devices: NUMPY, and NUMPY:1 to NUMPY:{MOST_DEVICES - 1} (virtual, on the same host); CUPY with a GPU"
Device: Final = _Devices()


class _DeviceSetting(Setting):
    """The default device as a setting; its choices are the devices that exist."""

    def check(self, value: int | str) -> int | str:
        return Device.canonicalize(str(value))


# the device is part of every graph, so the default one need not be part of a cache key
DEVICE: Final = _DeviceSetting("DEVICE", "NUMPY", "where Tensors are made unless they say otherwise", steers=False)


class Buffer:
    """``size`` elements of ``dtype`` on ``device``: memory of its own, or a view of another Buffer's."""

    __slots__ = ("__weakref__", "_array", "base", "device", "dtype", "offset", "size")

    def __init__(self, device: str, size: int, dtype: DType, *, base: Buffer | None = None, offset: int = 0):
        self.device, self.size, self.dtype = Device.canonicalize(device), size, dtype
        self.base, self.offset = base, offset  # offset in bytes from the base's start
        self._array: Array | None = None

    def __repr__(self) -> str:
        where = f" at byte {self.offset} of {self.base!r}" if self.base is not None else ""
        return f"<Buffer {self.size} {self.dtype.name} on {self.device}{where}>"

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_allocated(self) -> bool:
        return (self if self.base is None else self.base)._array is not None

    def allocate(self) -> Buffer:
        """Makes sure that there is memory; returns this Buffer."""
        if self._array is not None:
            return self
        if self.base is None:
            self._array = Device[self.device].allocate(self.size, self.dtype)
        else:
            raw = self.base.array.view(np.uint8)
            self._array = raw[self.offset : self.offset + self.nbytes].view(
                Device[self.device].element_type(self.dtype)
            )
        return self

    @property
    def array(self) -> Array:
        """The memory as a flat array, allocated if it isn't yet. Writing into it writes the Buffer."""
        if self._array is None:
            self.allocate()
        return self._array  # type: ignore[return-value]  # allocate() has set it

    def view(self, offset: int, size: int, dtype: DType) -> Buffer:
        """``size`` elements of ``dtype`` that start ``offset`` bytes into this Buffer and share its memory."""
        if offset < 0 or offset + size * dtype.itemsize > self.nbytes:
            raise ArgumentError(
                f"a view of {size} {dtype.name} at byte {offset} does not fit into {self!r}",
                help=f"the buffer has {self.nbytes} bytes",
            )
        base = self if self.base is None else self.base
        return Buffer(self.device, size, dtype, base=base, offset=self.offset + offset)

    def copyin(self, values: Array) -> None:
        """Fills the memory with ``values`` (as many, of the same dtype, of any shape)."""
        if values.size != self.size or values.dtype != self.dtype.np:
            raise ArgumentError(
                f"{values.size} values of {values.dtype} do not fill {self!r}",
                help="the number and the dtype must be those of the buffer",
            )
        Device[self.device].put(self.array, values.reshape(-1))

    def copyout(self) -> Array:
        """A copy of the values. Raises :class:`RunError` where nothing was ever stored."""
        if not self.is_allocated:
            raise RunError(f"{self!r} has no values yet", help="realize the Tensor first")
        return Device[self.device].get(self.array)

    @property
    def on_host(self) -> Array:
        """The values as the host can read them: the memory itself where it is the host's, else a copy."""
        return self.array if self.device.startswith("NUMPY") else self.copyout()


_ATTACHING = threading.Lock()


def buffer_of(u: UOp) -> Buffer:
    """The memory of a BUFFER node (made on demand, not yet allocated), or of a RESHAPE, SHRINK or BITCAST of one."""
    chain: list[UOp] = []
    while u.op is not Ops.BUFFER:
        if u.op not in (Ops.RESHAPE, Ops.SHRINK, Ops.BITCAST):
            raise SpecError(f"{u.op} is no memory", help="a kernel's arguments are BUFFERs, or views of them")
        chain.append(u)
        u = u.src[0]
    with _ATTACHING:
        if u.buffer is None:
            u.attach(Buffer(u.arg.device, u.arg.size, u.dtype))
    memory: Buffer = u.buffer
    if not chain:
        return memory
    offset = sum(_offset(v) for v in chain)
    return memory.view(offset, int(chain[0].size), chain[0].dtype)


def _offset(u: UOp) -> int:
    """How many bytes after its source a view starts; the view has to be one piece of its source."""
    if u.op is not Ops.SHRINK:
        return 0
    shape, bounds = u.src[0].shape, u.arg
    if not all(isinstance(n, int) for a_b in bounds for n in a_b):
        raise SpecError("the place of a view depends on a Variable", help="index it inside of the kernel")
    start, stride, cut = 0, 1, False
    for size, (a, b) in reversed(list(zip(shape, bounds, strict=True))):
        if cut and b - a != 1:  # an inner axis is cut, so rows of this one do not touch
            raise SpecError(f"{u} is not one piece of memory", help="only a contiguous part can be a kernel's argument")
        cut = cut or b - a != size
        start += a * stride
        stride *= size
    return start * u.dtype.itemsize
