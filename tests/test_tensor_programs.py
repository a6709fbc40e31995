"""Random programs over the Tensor API, with NumPy as the judge: any dtype, axes of no elements, indices of every kind."""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.graphs import broadcasts, examples
from tinysched import Context, Tensor, plan, run_linear
from tinysched.schedule.policy import AllLegal, Eager, MemoryAware, Policies

Array = np.ndarray[Any, Any]
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = ("bool", *INTS, "float32", "float64")
POLICIES = (Policies(), Policies(Eager()), Policies(AllLegal()), Policies(order=MemoryAware()))
MOST, LARGEST = 300, 1e4


@dataclass
class Program:
    """Values, each as a Tensor and as an array, and the lines that made them."""

    rng: random.Random
    values: list[tuple[Tensor, Array]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, line: str, x: Tensor, a: Any) -> None:
        """Notes a value, unless it is too large (in either sense) to be compared exactly."""
        a = np.asarray(a)
        small = a.size <= MOST and a.ndim <= 5
        if small and (not a.size or np.all(np.abs(a.astype(np.float64)) <= LARGEST) or a.dtype.kind != "f"):
            self.lines.append(f"x{len(self.values)} = {line}  # {a.shape} {a.dtype}")
            assert x.shape == a.shape and x.dtype.np == a.dtype, f"{self}\n{x}"
            self.values.append((x, a))

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def pick(self) -> tuple[str, Tensor, Array]:
        i = self.rng.randrange(len(self.values))
        return f"x{i}", *self.values[i]

    def like(self, a: Array) -> tuple[str, Tensor, Array]:
        """A value that broadcasts with ``a``, as its dtype."""
        i = self.rng.choice([i for i, (_, b) in enumerate(self.values) if broadcasts(a.shape, b.shape)])
        y, b = self.values[i]
        if not fits(b, a.dtype):
            return "1", Tensor(np.ones((), a.dtype)), np.ones((), a.dtype)
        return f"x{i}.cast('{a.dtype}')", y.cast(str(a.dtype)), b.astype(a.dtype)

    # ** statements **

    def leaf(self) -> None:
        shape = tuple(self.rng.choice([0, 1, 2, 3, 4, 5]) for _ in range(self.rng.randint(0, 3)))
        dtype = self.rng.choice(DTYPES)
        low = 0 if dtype in ("bool", *INTS[1::2]) else -3
        a = np.random.RandomState(self.rng.randint(0, 10**6)).randint(low, 4, shape).astype(dtype)
        a = np.asarray(a)
        if self.rng.random() < 0.2:
            self.add(f"full({shape}, 2, {dtype})", Tensor.full(shape, 2, dtype=dtype), np.full(shape, 2, dtype))
        else:
            self.add(f"Tensor({a.tolist()}, {dtype} {shape})", Tensor(a), a)

    def cast(self) -> None:
        n, x, a = self.pick()
        dtype = self.rng.choice(DTYPES)
        if fits(a, np.dtype(dtype)):
            self.add(f"{n}.cast({dtype})", x.cast(dtype), a.astype(dtype))

    def bits(self) -> None:
        n, x, a = self.pick()
        dtype = self.rng.choice(INTS)
        if a.dtype.kind in "iu" and a.ndim and a.shape[-1] * a.itemsize % np.dtype(dtype).itemsize == 0 and a.size:
            self.add(f"{n}.bitcast({dtype})", x.bitcast(dtype), np.ascontiguousarray(a).view(dtype))

    def unary(self) -> None:
        n, x, a = self.pick()
        if a.dtype.kind == "f":
            kind = self.rng.choice(["neg", "exp", "floor", "isnan", "sigmoid"])
            c, b = x.clamp(-3, 3), np.clip(a, -3, 3)
            ours = {"neg": lambda: -c, "exp": c.exp, "floor": c.floor, "isnan": c.isnan, "sigmoid": c.sigmoid}[kind]()
            theirs = {"neg": np.negative, "exp": np.exp, "floor": np.floor, "isnan": np.isnan,
                      "sigmoid": lambda v: 1 / (1 + np.exp(-v))}[kind](b)  # fmt: skip
            self.add(f"{kind}({n})", ours, theirs if kind == "isnan" else theirs.astype(a.dtype))
        else:
            self.add(f"~{n}", ~x, ~a)

    def binary(self) -> None:
        n, x, a = self.pick()
        m, y, b = self.like(a)
        kind = self.rng.choice(["+", "*", "max", "min", "<", "==", "//", "%", "&", "where"])
        whole = a.dtype.kind in "iu"
        if kind in ("//", "%") and whole:
            one = np.where(b == 0, 1, b).astype(a.dtype)
            theirs = np.where(b == 0, 0, a // one if kind == "//" else a % one).astype(a.dtype)
            self.add(f"{n} {kind} {m}", x // y if kind == "//" else x % y, theirs)
        elif kind == "&" and a.dtype.kind != "f":
            self.add(f"{n} & {m}", x & y, a & b)
        elif kind == "where":
            self.add(f"where({n} < {m}, {n}, {m})", (x < y).where(x, y), np.where(a < b, a, b))
        elif kind in ("+", "*", "max", "min", "<", "=="):
            ours = {"+": lambda: x + y, "*": lambda: x * y, "max": lambda: x.maximum(y), "min": lambda: x.minimum(y),
                    "<": lambda: x < y, "==": lambda: x == y}[kind]()  # fmt: skip
            theirs = {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum, "<": np.less,
                      "==": np.equal}[kind](a, b)  # fmt: skip
            self.add(f"{n} {kind} {m}", ours, theirs)

    def reduce(self) -> None:
        n, x, a = self.pick()
        axes = tuple(i for i in range(a.ndim) if self.rng.random() < 0.5)
        kind = self.rng.choice(["sum", "max", "min", "any", "all", "cumsum", "cummax", "sort"])
        count = math.prod(a.shape[i] for i in axes)
        if kind == "sum" and axes:
            total = {"b": "int32", "i": "int64" if a.itemsize == 8 else "int32", "f": str(a.dtype)}
            total["u"] = "uint64" if a.itemsize == 8 else "uint32"
            self.add(f"{n}.sum({axes})", x.sum(axes), a.sum(axes, dtype=total[a.dtype.kind]))
        elif kind in ("max", "min") and count and axes:
            self.add(f"{n}.{kind}({axes})", getattr(x, kind)(axes), getattr(a, kind)(axes))
        elif kind in ("any", "all") and axes:
            self.add(
                f"{n}.{kind}({axes}, keepdim)", getattr(x, kind)(axes, True), getattr(a, kind)(axes, keepdims=True)
            )
        elif kind == "cumsum" and a.ndim and a.dtype in (np.int32, np.float64):
            self.add(f"{n}.cumsum(-1)", x.cumsum(-1), a.cumsum(-1, dtype=a.dtype))
        elif kind == "cummax" and a.ndim:
            self.add(f"{n}.cummax(0)", x.cummax(0)[0], np.maximum.accumulate(a, 0))
        elif kind == "sort" and a.ndim:
            self.add(f"{n}.sort(0)", x.sort(0)[0], np.sort(a, 0))

    def moved(self) -> None:
        n, x, a = self.pick()
        rng, some = self.rng, [(self.rng.randint(0, 2), self.rng.randint(0, 1)) for _ in a.shape]
        kind = rng.choice(["permute", "flip", "pad", "reshape", "expand", "repeat", "roll", "cat", "stack", "triu"])
        if kind == "permute":
            order = rng.sample(range(a.ndim), a.ndim)
            self.add(f"{n}.permute({order})", x.permute(*order), a.transpose(order))
        elif kind == "flip":
            self.add(f"{n}.flip", x.flip(tuple(range(a.ndim))), np.flip(a))
        elif kind == "pad" and a.ndim:
            self.add(f"{n}.pad({some})", x.pad(some), np.pad(a, some))
        elif kind == "reshape":
            shape = rng.choice([(-1,), (*a.shape[::-1], 1), (a.size, 1)]) if a.size else (0, *a.shape[:1], 3)
            self.add(f"{n}.reshape({shape})", x.reshape(shape), a.reshape(shape))
        elif kind == "expand":
            self.add(f"{n}.expand(2, ...)", x.expand(2, *a.shape), np.broadcast_to(a, (2, *a.shape)))
        elif kind == "repeat":
            times = [rng.randint(0, 2) for _ in a.shape]
            self.add(f"{n}.repeat({times})", x.repeat(*times) if times else x, np.tile(a, times))
        elif kind == "roll" and a.ndim:
            self.add(f"{n}.roll(-2, 0)", x.roll(-2, 0), np.roll(a, -2, 0))
        elif kind in ("cat", "stack") and a.ndim:
            axis = rng.randrange(a.ndim)
            ours = x.cat(x, dim=axis) if kind == "cat" else x.stack(x, dim=axis)
            self.add(f"{n}.{kind}({n}, {axis})", ours, (np.concatenate if kind == "cat" else np.stack)([a, a], axis))
        elif kind == "triu" and a.ndim >= 2:
            self.add(f"{n}.triu()", x.triu(), np.triu(a))

    def index(self, a: Array) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The same index for both: slices with any step, ints, new axes; or slices and Tensors."""
        ours: list[Any] = []
        theirs: list[Any] = []
        tensors, size = self.rng.random() < 0.5, self.rng.randint(1, 3)
        for n in a.shape:
            kind = self.rng.random()
            if kind < 0.5 or not n:
                bound = [self.rng.choice([None, self.rng.randint(-n - 1, n + 1)]) for _ in range(2)]
                entry = slice(*bound, self.rng.choice([None, 1, 2, 3, -1, -2]))
                ours.append(entry)
                theirs.append(entry)
            elif tensors:
                places = np.random.RandomState(self.rng.randint(0, 10**6)).randint(-n, n, (size,))
                ours.append(Tensor(places.astype(self.rng.choice(["int32", "int64", "int8"]))))
                theirs.append(places)
            else:
                at = self.rng.randrange(-n, n)
                ours.append(at)
                theirs.append(at)
        if not tensors and self.rng.random() < 0.3:
            ours.insert(0, None)
            theirs.insert(0, None)
        return tuple(ours), tuple(theirs)

    def taken(self) -> None:
        n, x, a = self.pick()
        if a.ndim:
            ours, theirs = self.index(a)
            self.add(f"{n}[{theirs}]", x[ours], a[theirs])

    def written(self) -> None:
        """A copy, lazy or not, that is written through a view of it; and what was computed of it before."""
        n, x, a = self.pick()
        if not a.ndim:
            return
        y, b = self.rng.choice([x.clone, x.contiguous])(), a.copy()
        if self.rng.random() < 0.5:
            y.realize()
        before, same = ~y if a.dtype.kind != "f" else -y, ~b if a.dtype.kind != "f" else -b
        ours, theirs = self.index(b)
        value = np.asarray(b[theirs])
        value = np.random.RandomState(value.size).randint(0, 4, value.shape).astype(a.dtype)
        if self.rng.random() < 0.5:
            y[ours], b[theirs] = Tensor(value), value
        else:
            y[ours], b[theirs] = 1, 1
        self.add(f"{n}, written at {theirs}", y, b)
        self.add(f"of {n} before", before, same)

    def picked(self) -> None:
        n, x, a = self.pick()
        mask = np.random.RandomState(self.rng.randint(0, 10**6)).rand(*a.shape) < 0.5
        if a.ndim and 0 < a.size <= 40:
            self.add(f"{n}.masked_select({mask.tolist()})", x.masked_select(Tensor(mask)), a[mask])

    def realized(self) -> None:
        n, x, _ = self.pick()
        self.lines.append(f"{n}.realize()")
        x.realize()

    def check(self) -> None:
        for i, (x, a) in enumerate(self.values):
            found = x.numpy()
            tol = 1e-4 if a.dtype == np.float32 else 1e-9
            assert found.shape == a.shape and found.dtype == a.dtype
            assert np.allclose(found, a, rtol=tol, atol=tol, equal_nan=True), f"{self}\nx{i} is {found.tolist()}"


def fits(a: Array, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy says what casting comes to: a float that a whole number type cannot hold may be anything."""
    if a.dtype.kind != "f" or dtype.kind in "bf" or not a.size:
        return True
    return bool(np.all(np.isfinite(a)) and np.abs(a).max() <= 100 and (dtype.kind == "i" or a.min() > -1))


STATEMENTS = ("leaf", "cast", "bits", "unary", "binary", "binary", "reduce", "reduce", "moved", "moved", "moved", "taken",
              "taken", "written", "picked", "realized")  # fmt: skip


@examples(80)
@given(
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from(STATEMENTS), max_size=12),
    st.sampled_from(POLICIES),
    st.sampled_from(["numpy", "numpy", "loops"]),
)
def test_every_value_is_numpys(rng: random.Random, statements: list[str], policies: Policies, cpu: str) -> None:
    program = Program(rng)
    program.leaf()
    program.leaf()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in statements:
            getattr(program, name)()
        asked = [x for x, _ in rng.sample(program.values, min(3, len(program.values)))]
        with Context(
            CPU="numpy" if policies.fusion == AllLegal() else cpu
        ):  # fused that far, literal loops take minutes
            run_linear(plan(*asked, policies=policies))
            program.check()
