"""New Tensors: memory without values, constants, counted values.

In: shapes, values, dtypes. Out: Tensors. Only ``empty`` has memory; the others are constants under an EXPAND, or sums
of them (``arange`` is a running sum of a constant, which the scheduler turns back into the loop variable).

>>> from tinysched import Tensor
>>> Tensor.arange(2, 9, 3).shape, Tensor.eye(2, 3).shape, Tensor.full((2,), 7).dtype
((3,), (2, 3), dtypes.int32)
"""

from __future__ import annotations

from typing import Any

from tinysched.dtypes import DType, DTypeLike, Scalar, dtypes, strong_dtype, to_dtype
from tinysched.errors import ArgumentError, DTypeError, ShapeError
from tinysched.ir.derive import max_shape, plain, prod
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import replicate, spread_like
from tinysched.ir.uop import Shape, Sint, UOp
from tinysched.tensor.checks import new_shape
from tinysched.tensor.core import Tensor, leaf
from tinysched.tensor.hooks import engine
from tinysched.tensor.moves import Moves, ceil_div
from tinysched.tensor.storage import Storage

Device = str | tuple[str, ...] | None


def empty(
    *shape: Any, device: Device = None, dtype: DTypeLike | None = None, requires_grad: bool | None = None
) -> Tensor:
    """Memory whose values may be anything, of the largest shape where a Variable is part of it."""
    sizes = new_shape(shape)
    wanted = dtypes.default_float if dtype is None else to_dtype(dtype)
    most = max_shape(sizes)
    where_to = engine().canonical_device(device)
    names = (where_to,) if isinstance(where_to, str) else where_to
    buffers = [UOp.new_buffer(name, prod(most), wanted).reshape(most) for name in names]
    memory = buffers[0] if len(buffers) == 1 else replicate(buffers)
    made = Tensor.from_uop(memory.shrink(tuple((0, s) for s in sizes)))
    made.requires_grad = requires_grad
    return made


def empty_like(x: Tensor, device: Device = None, dtype: DTypeLike | None = None) -> Tensor:
    """Memory of the shape, dtype and device of ``x``."""
    return empty(x.shape, device=device or x.device, dtype=dtype or strong_dtype(x.dtype))


def full(
    shape: Any,
    fill_value: Any,
    *,
    device: Device = None,
    dtype: DTypeLike | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A constant everywhere: no memory until something is written. ``dtype`` defaults to that of the value."""
    sizes = new_shape((shape,))
    value = fill_value.uop if isinstance(fill_value, Tensor) else Tensor(fill_value).uop
    wanted = strong_dtype(value.dtype) if dtype is None else to_dtype(dtype)
    u = leaf(value.arg, wanted) if value.op is Ops.CONST else value.cast(wanted)
    made = Tensor.from_uop(_on(u.expand_leading(sizes), device))
    made.requires_grad = requires_grad
    return made


def _on(u: UOp, device: Device) -> UOp:
    """A constant on a device that is not the default: it must be carried there."""
    if device is None or engine().canonical_device(device) == engine().canonical_device(None):
        return u
    return UOp(Ops.COPY, u.dtype, (u,), engine().canonical_device(device))


def zeros(*shape: Any, **kwargs: Any) -> Tensor:
    """Zeros, of the default float type unless ``dtype`` is given."""
    return full(new_shape(shape), 0.0, **kwargs)


def ones(*shape: Any, **kwargs: Any) -> Tensor:
    """Ones, of the default float type unless ``dtype`` is given."""
    return full(new_shape(shape), 1.0, **kwargs)


def full_like(x: Tensor, fill_value: Scalar, *, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """A constant of the shape of ``x``, of its dtype and on its devices unless others are given."""
    device = kwargs.pop("device", x.uop.device)
    made = full(x.shape, fill_value, dtype=strong_dtype(x.dtype) if dtype is None else dtype, device=device, **kwargs)
    if isinstance(device, tuple) and device == x.uop.device:
        made._set_storage(Storage(spread_like(made.uop, x.uop)), ())
    return made


def zeros_like(x: Tensor, **kwargs: Any) -> Tensor:
    """Zeros of the shape and dtype of ``x``."""
    return full_like(x, 0, **kwargs)


def ones_like(x: Tensor, **kwargs: Any) -> Tensor:
    """Ones of the shape and dtype of ``x``."""
    return full_like(x, 1, **kwargs)


def const_like(x: Tensor, value: Scalar, dtype: DType | None = None) -> Tensor:
    """A constant of the shape of ``x``, weak if ``x`` is."""
    return constant(x.shape, value, x.dtype if dtype is None else dtype)


def constant(shape: Shape, value: Scalar, dtype: DType) -> Tensor:
    """A constant of a known shape and dtype, unchecked."""
    return Tensor.from_uop(UOp.const(value, dtype).expand_leading(shape))


def arange(
    start: Scalar,
    stop: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """``start``, ``start + step``, ... below ``stop`` (one argument: from 0 below it).

    Raises :class:`ArgumentError` for a step of 0 or values that ``dtype`` cannot hold.
    """
    if stop is None:
        start, stop = 0, start
    if not step:
        raise ArgumentError("arange with a step of 0", help="give a positive or a negative step")
    if isinstance(start, UOp) or isinstance(stop, UOp):
        return _open_arange(start, stop, step, dtype)
    wanted = _range_dtype(start, stop, step) if dtype is None else to_dtype(dtype)
    low, high = (start, stop - step) if step > 0 else (stop - step, start)
    if low < wanted.min or high > wanted.max:
        raise ArgumentError(f"arange({start}, {stop}, {step}) does not fit {wanted.name}", help="give a larger dtype")
    length = ceil_div(stop - start, step) if isinstance(stop - start, int) else int(-((start - stop) // step))
    made = _counted(max(length, 0), start, step, wanted)
    made.requires_grad = requires_grad
    return made


def _open_arange(start: Sint, stop: Sint, step: Scalar, dtype: DTypeLike | None) -> Tensor:
    """The same with a Variable in its bounds: of the longest that it allows, the first elements."""
    if not isinstance(step, int) or step < 1:
        raise ArgumentError(f"arange({start}, {stop}, {step})", help="with a Variable the step is a positive int")
    length = plain(ceil_div(stop - start, step))
    longest = arange(max(length if isinstance(length, int) else length.vmax, 0), dtype=dtype)
    made: Tensor = longest.shrink_to(length) * step + start
    return made


def _range_dtype(*values: Scalar) -> DType:
    if any(isinstance(v, float) for v in values):
        return dtypes.default_float
    fits = all(dtypes.default_int.min <= v <= dtypes.default_int.max for v in values)
    return dtypes.default_int if fits else dtypes.int64


def _counted(length: int, start: Scalar, step: Scalar, dtype: DType) -> Tensor:
    """``start + i * step``: the running sum of a constant. Floats count in whole numbers, which add up exactly."""
    if length == 0:
        return constant((0,), 0, dtype)
    if any(isinstance(v, float) for v in (start, step)):
        number = count_up(constant((length,), 1, dtypes.default_int)) - 1
        return (number.cast(dtypes.default_float) * step + start).cast(dtype)
    kind = dtype if dtypes.is_int(dtype) else dtypes.int64 if dtype is dtypes.float64 else dtypes.default_int
    return (count_up(constant((length,), step, kind)) + (start - step)).cast(dtype)


def count_up(x: Tensor) -> Tensor:
    """The running sum of a 1-d Tensor in its own dtype: each element's window is all elements up to it."""
    n = x.shape[0]
    windows = x.seen_through(Moves((n,)).pad(((n - 1, 0),)).pool((n,), (1,), (1,)).steps)
    return Tensor.from_uop(windows.uop.rop(Ops.ADD, (1,)) if n > 1 else windows.uop.reshape((n,)))


def linspace(start: Scalar, stop: Scalar, steps: int, *, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """``steps`` values from ``start`` to ``stop``, both included, at equal distances."""
    wanted = dtypes.default_float if dtype is None else to_dtype(dtype)
    if steps < 0 or wanted is dtypes.bool:
        raise ArgumentError(f"linspace of {steps} {wanted.name}s", help="steps >= 0, and any dtype but bool")
    if steps == 1:
        return full((1,), start, dtype=wanted, **kwargs)
    kind = dtypes.float64 if wanted is dtypes.float64 else dtypes.default_float
    return (arange(steps, dtype=kind) * ((stop - start) / max(steps - 1, 1)) + start).cast(wanted)


def eye(n: int, m: int | None = None, *, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """A matrix with ones on its diagonal; ``m`` columns (default ``n``)."""
    if n < 0 or (m is not None and m < 0):
        raise ShapeError(f"eye({n}, {m})", help="sizes are not negative")
    same = arange(n).unsqueeze(-1).eq(arange(n if m is None else m))
    return same.cast(dtypes.default_float if dtype is None else to_dtype(dtype))


def tri(rows: int, columns: int, diagonal: int = 0) -> Tensor:
    """Where ``row + diagonal <= column`` (a bool matrix)."""
    return arange(rows).unsqueeze(-1) + diagonal <= arange(columns)


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangles of the matrices of the last two axes, zeros below."""
    rows, columns = _matrix(x)
    return tri(rows, columns, diagonal).where(x, const_like(x, 0))


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangles of the matrices of the last two axes, zeros above."""
    rows, columns = _matrix(x)
    return tri(rows, columns, diagonal + 1).where(const_like(x, 0), x)


def _matrix(x: Tensor) -> Shape:
    if x.ndim < 2:
        raise ShapeError(f"triangle of shape {x.shape}", help="at least two axes are needed")
    return x.shape[-2:]


def from_scalar_list(values: list[int], dtype: DType) -> Tensor:
    """A short 1-d Tensor of constants that live in the graph: no memory, no copy."""
    if not values:
        return constant((0,), 0, dtype)
    return Tensor.from_uop(UOp(Ops.STACK, dtype, tuple(UOp.const(v, dtype) for v in values)))


def check_float(dtype: DType, what: str) -> DType:
    """``dtype`` if it is a float type of known width, else :class:`DTypeError`."""
    if not dtypes.is_float(dtype) or dtype in dtypes.weaks:
        raise DTypeError(f"{what} makes floats, not {dtype.name}", help="give float16, float32 or float64")
    return dtype
