"""Kernels built by hand whose sizes hit every tail, edge of a block and alignment of the CUDA C that they become.

In: nothing. Out: :data:`CASES`, by name: a kernel, its inputs, the values of its Variables. The limits are small, so
that every way of lowering occurs at sizes that literal Python loops can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tinysched.dtypes import DType, dtypes, to_dtype
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.symbolic import simplify_index
from tinysched.ir.symbolic.conditions import in_bounds
from tinysched.ir.uop import TRUE, ParamArg, UOp
from tinysched.runtime.cuda import Limits
from tinysched.runtime.merge import flat
from tinysched.runtime.nest import load

LIMITS = Limits(
    threads=64, blocks=50, warp_row=8, block_row=100, busy=512, least_part=16, product=1 << 10, tile=8, scratch=1 << 20
)
NO_PRODUCTS = Limits(threads=64, blocks=50, warp_row=8, block_row=100, busy=0, product=0, tile=8)


@dataclass
class Case:
    sink: UOp
    arrays: list[np.ndarray]
    """By slot; the output is the first."""
    values: dict[str, int] = field(default_factory=dict)
    limits: Limits = LIMITS


def loop(*sizes: int, first: int = 0, kind: AxisType = AxisType.LOOP) -> tuple[UOp, ...]:
    return tuple(UOp.range(n, first + i, kind) for i, n in enumerate(sizes))


def reduced(*sizes: int, first: int) -> tuple[UOp, ...]:
    return loop(*sizes, first=first, kind=AxisType.REDUCE)


class Maker:
    """Collects the arrays of a kernel; ``dtype`` overrides what NumPy knows (bfloat16)."""

    def __init__(self, seed: int = 0) -> None:
        self.rng, self.arrays = np.random.default_rng(seed), [np.zeros(0)]

    def floats(self, n: int, dtype: DType = dtypes.float32) -> tuple[UOp, np.ndarray]:
        return self.memory(self.rng.uniform(-2, 2, n).astype(dtype.np))

    def ints(self, n: int, low: int, high: int, dtype: DType = dtypes.int32) -> tuple[UOp, np.ndarray]:
        return self.memory(self.rng.integers(low, high, n).astype(dtype.np))

    def memory(self, array: np.ndarray) -> tuple[UOp, np.ndarray]:
        self.arrays.append(array)
        return UOp(Ops.PARAM, to_dtype(array.dtype), (), ParamArg(len(self.arrays) - 1, array.size, "CUPY")), array

    def case(
        self,
        size: int,
        value: UOp,
        index: UOp,
        loops: tuple[UOp, ...],
        limits: Limits = LIMITS,
        valid: UOp = TRUE,
        **v: int,
    ) -> Case:
        self.arrays[0] = np.full(size, 7, value.dtype.np)
        out = UOp(Ops.PARAM, value.dtype, (), ParamArg(0, size, "CUPY"))
        store = out.index(simplify_index(index).valid(valid)).store(value)
        return Case(UOp.sink(store.end(*loops) if loops else store), self.arrays, v, limits)


def at(memory: UOp, index: UOp, valid: UOp = TRUE) -> UOp:
    return load(memory.index(simplify_index(index).valid(valid)))


# ---- the cases

CASES: dict[str, Callable[[], Case]] = {}


def elementwise(n: int, dtype: DType = dtypes.float32, limits: Limits = LIMITS) -> Case:
    m, (r,) = Maker(), loop(n)
    x, _ = m.floats(n, dtype) if dtype.kind == "f" else m.ints(n, 0, 2 if dtype.kind == "b" else 100, dtype)
    y, _ = m.floats(n, dtype) if dtype.kind == "f" else m.ints(n, 0, 2 if dtype.kind == "b" else 100, dtype)
    return m.case(n, at(x, r) * at(y, r) + at(x, r), r, (r,), limits)


def rows(n: int, inner: tuple[int, ...], op: Ops = Ops.ADD, limits: Limits = LIMITS) -> Case:
    m, (r,) = Maker(), loop(n)
    R, size = reduced(*inner, first=1), prod(inner)
    x, _ = m.floats(n * size)
    b, _ = m.floats(n)
    value = (at(x, r * size + flat(R)) * 0.5).reduce(op, *R)
    return m.case(n, value + at(b, r), r, (r,), limits)


def typed_rows(dtype: DType, op: Ops, k: int) -> Case:
    m, (r,), (R,) = Maker(), loop(3), reduced(k, first=1)
    x, _ = m.floats(3 * k, dtype) if dtype.kind == "f" else m.ints(3 * k, 0, 2 if dtype.kind == "b" else 100, dtype)
    return m.case(3, at(x, r * k + R).reduce(op, R), r, (r,), NO_PRODUCTS)


def columns(n: int, k: int, limits: Limits = LIMITS) -> Case:
    m, (r,), R = Maker(), loop(n), reduced(k, first=1)
    x, _ = m.floats(n * k)
    return m.case(n, at(x, R[0] * n + r).reduce(Ops.ADD, *R), r, (r,), limits)


def softmax_row(n: int, k: int) -> Case:
    """Two reductions, one of which needs the other, and a value that only the last write reads."""
    m, (r,), (R, S) = Maker(), loop(n), reduced(k, k, first=1)
    x, _ = m.floats(n * k)
    b, _ = m.floats(n)
    largest = at(x, r * k + R).reduce(Ops.MAX, R)
    total = (at(x, r * k + S) - largest).alu(Ops.EXP2).reduce(Ops.ADD, S)
    return m.case(n, total * at(b, r).alu(Ops.SIN), r, (r,))


def transposed(a: int, b: int, batch: int = 1, dtype: DType = dtypes.float32) -> Case:
    m, loops = Maker(), loop(batch, a, b) if batch > 1 else loop(a, b)
    r, c = loops[-2:]
    i = loops[0] if batch > 1 else UOp.const(0)
    x, _ = m.floats(batch * a * b, dtype)
    y, _ = m.floats(batch * a * b, dtype)
    value = at(x, i * (a * b) + c * a + r) + at(y, i * (a * b) + r * b + c)
    return m.case(batch * a * b, value, i * (a * b) + r * b + c, loops)


def matmul(n: int, k: int, c: int, relu: bool, turned: bool, batch: int = 1) -> Case:
    m, (g, i, j), (R,) = Maker(), loop(batch, n, c), reduced(k, first=3)
    x, _ = m.floats(batch * n * k)
    y, _ = m.floats(k * c)
    b, _ = m.floats(c)
    left = at(x, g * (n * k) + (R * n + i if turned else i * k + R))
    if relu:
        left = left.alu(Ops.MAX, left.const_like(0.0))
    product = (left * at(y, R * c + j)).reduce(Ops.ADD, R)
    return m.case(batch * n * c, product + at(b, j) if relu else product, g * (n * c) + i * c + j, (g, i, j))


def padded(n: int) -> Case:
    m, (r,) = Maker(), loop(n + 3)
    x, _ = m.floats(n)
    return m.case(n + 3, at(x, r - 2, in_bounds(r - 2, 0, n)), r, (r,))


def embedding(vocab: int, d: int, n: int, high: int, dtype: DType = dtypes.int32) -> Case:
    m, (r, c) = Maker(), loop(n, d)
    table, _ = m.floats(vocab * d)
    tokens, _ = m.ints(n, 0, high, dtype)
    row = at(tokens, r).cast(dtypes.index)
    return m.case(n * d, at(table, row * d + c), r * d + c, (r, c))


def variable(n: int) -> Case:
    v = UOp.variable("n", 1, 40)
    m, r, (R,) = Maker(), UOp.range(v, 0), reduced(9, first=1)
    x, _ = m.floats(40 * 9)
    return m.case(40, at(x, r * 9 + R).reduce(Ops.ADD, R), r, (r,), n=n)


def converted(source: DType, target: DType) -> Case:
    m, (r,) = Maker(), loop(37)
    x, _ = m.floats(37, source) if source.kind == "f" else m.ints(37, 0, 2 if source.kind == "b" else 90, source)
    return m.case(37, at(x, r).cast(target), r, (r,))


def integers(op: Ops, dtype: DType) -> Case:
    m, (r,) = Maker(), loop(53)
    low = 0 if dtype.kind == "u" else -9
    x, _ = m.ints(53, low, 120, dtype)
    y, _ = m.ints(53, 0 if op in (Ops.SHL, Ops.SHR, Ops.POW) else low, 7, dtype)
    return m.case(53, at(x, r).alu(op, at(y, r)), r, (r,))


def maths(op: Ops, dtype: DType) -> Case:
    m, (r,) = Maker(), loop(19)
    x, array = m.floats(19, dtype)
    array[:] = np.abs(array) + dtype.np.type(0.1)
    array[3] = np.nan if op is Ops.MAX else array[3]
    args = (at(x, r).const_like(1.0),) if op in (Ops.MAX, Ops.POW) else ()
    return m.case(19, at(x, r).alu(op, *args), r, (r,))


def random_bits() -> Case:
    m, (r,) = Maker(), loop(21)
    x, _ = m.memory(np.arange(21, dtype=np.uint64) * np.uint64(0x1234567890ABCDEF))
    return m.case(21, at(x, r).alu(Ops.THREEFRY, at(x, r).const_like(0x0123456789ABCDEF)), r, (r,))


def masked_store() -> Case:
    m, (r,) = Maker(), loop(30)
    x, _ = m.floats(30)
    return m.case(30, at(x, r), r, (r,), valid=in_bounds(r, 3, 27))


def in_place(n: int) -> Case:
    m, (r,), (R,) = Maker(), loop(n), reduced(33, first=1)
    x, _ = m.floats(n * 33)
    case = m.case(n, at(x, r * 33 + R).reduce(Ops.ADD, R), r, (r,))
    old = load(case.sink.src[0].src[0].src[0])
    store = case.sink.src[0].src[0]
    new = store.replace(src=(store.src[0], (old + store.src[1]) * old.alu(Ops.SIN)))
    return Case(UOp.sink(new.end(r)), case.arrays)


def _all() -> None:
    add: Callable[[str, Callable[[], Case]], Any] = CASES.setdefault
    for n in (1, 3, 4, 5, 7, 8, 63, 64, 65, 255, 256, 257, 259, 1031):
        add(f"elementwise {n}", lambda n=n: elementwise(n))
    for d in (dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.float64):
        add(f"elementwise {d.name}", lambda d=d: elementwise(67, d))
    for n in (1, 2, 3, 33, 65):
        for k in ((1,), (7,), (8,), (31,), (32,), (33,), (99,), (101,), (129,), (3, 37), (300,)):
            add(f"rows {n}x{'x'.join(map(str, k))}", lambda n=n, k=k: rows(n, k))
    for k in ((9,), (127,), (5, 41)):
        add(f"one phase {k}", lambda k=k: rows(3, k, limits=NO_PRODUCTS))
        add(f"largest {k}", lambda k=k: rows(5, k, Ops.MAX))
        add(f"product {k}", lambda k=k: rows(5, k, Ops.MUL))
    for d in (dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.float64):
        for k in (40, 130):
            op = Ops.MAX if d is dtypes.float16 else Ops.ADD
            add(f"{op.name} of {k} {d.name}", lambda d=d, k=k, op=op: typed_rows(d, op, k))
    for n, k in ((1, 17), (7, 64), (33, 65), (65, 40), (600, 9)):
        add(f"columns {n}x{k}", lambda n=n, k=k: columns(n, k))
    for n, k in ((1, 7), (3, 40), (70, 33), (5, 133)):
        add(f"two reductions {n}x{k}", lambda n=n, k=k: softmax_row(n, k))
    for a, b in ((4, 4), (7, 9), (8, 8), (9, 17), (16, 23), (40, 5)):
        add(f"transposed {a}x{b}", lambda a=a, b=b: transposed(a, b))
    add("transposed batch", lambda: transposed(9, 10, 3))
    add("transposed half", lambda: transposed(9, 10, 1, dtypes.float16))
    for n, k, c in ((11, 12, 13), (16, 8, 32), (4, 70, 5)):
        add(f"matmul {n}x{k}x{c}", lambda n=n, k=k, c=c: matmul(n, k, c, False, False))
        add(f"matmul turned relu {n}x{k}x{c}", lambda n=n, k=k, c=c: matmul(n, k, c, True, True))
    add("matmul batch", lambda: matmul(6, 12, 7, True, False, 3))
    for n in (1, 5, 62, 70):
        add(f"padded {n}", lambda n=n: padded(n))
    add("embedding", lambda: embedding(9, 8, 13, 9))
    add("embedding int64", lambda: embedding(9, 5, 13, 9, dtypes.int64))
    for n in (1, 3, 40):
        add(f"variable {n}", lambda n=n: variable(n))
    for s in (dtypes.bool, dtypes.int8, dtypes.uint32, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.float64):
        for t in (dtypes.bool, dtypes.uint8, dtypes.int16, dtypes.uint64, dtypes.float16, dtypes.float32):
            add(f"{s.name} to {t.name}", lambda s=s, t=t: converted(s, t))
    for op in (
        Ops.SUB,
        Ops.MAX,
        Ops.CDIV,
        Ops.CMOD,
        Ops.FLOORDIV,
        Ops.FLOORMOD,
        Ops.POW,
        Ops.SHL,
        Ops.SHR,
        Ops.XOR,
        Ops.CMPLT,
    ):
        for d in (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64):
            add(f"{op.name} {d.name}", lambda op=op, d=d: integers(op, d))
    for op in (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIPROCAL, Ops.TRUNC, Ops.NEG, Ops.MAX, Ops.POW):
        for d in (dtypes.float16, dtypes.float32, dtypes.float64):
            add(f"{op.name} {d.name}", lambda op=op, d=d: maths(op, d))
    add("random bits", random_bits)
    full = {
        "elementwise": lambda: elementwise(1031),
        "warps": lambda: rows(9, (50,)),
        "blocks": lambda: rows(3, (1301,)),
        "phases": lambda: rows(1, (4099,)),
        "column phases": lambda: columns(5, 300),
        "tiles": lambda: transposed(33, 70),
        "two reductions": lambda: softmax_row(2, 1100),
        "product": lambda: matmul(40, 41, 42, True, True),
    }
    for name, make in full.items():
        add(f"as it is: {name}", lambda make=make: replace(make(), limits=Limits(product=1 << 16)))
    add("masked store", masked_store)
    for n in (3, 65):
        add(f"in place {n}", lambda n=n: in_place(n))


_all()
