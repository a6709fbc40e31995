"""Arithmetic, comparison, choice, powers, functions and activations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from tests.tensor_tables.table import A1, INF, SPECIAL, A, B, F, I, P, V, f32, line


def elementwise() -> None:
    both = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y}
    for sign, fn in both.items():
        line(f"float {sign} float", fn, A, A1)
        line(f"float {sign} 0-d", fn, A, np.float32(2.5))
        line(
            f"int {sign} int",
            fn,
            I(3, 4),
            I(4, lo=1),
            np_=lambda x, y, fn=fn: fn(x, y).astype(np.int32 if fn(x, y).dtype.kind == "i" else np.float32),
        )
    line("half + half", lambda x, y: x + y, F(5, dtype=np.float16), F(5, dtype=np.float16))
    line("half + float", lambda x, y: x + y, F(5, dtype=np.float16), F(5), tol=1e-3)
    line("uint8 + int8", lambda x, y: x + y, I(5, lo=0, dtype=np.uint8), I(5, dtype=np.int8))
    line("int8 wraps", lambda x: x * 100, I(6, dtype=np.int8))
    line("uint8 wraps below 0", lambda x: x - 7, I(6, lo=0, dtype=np.uint8))
    line("int32 wraps", lambda x: x * x, I(6, lo=50000, hi=70000))
    line("bool + bool is or", lambda x, y: x + y, B(6), B(6))
    line("bool * bool is and", lambda x, y: x * y, B(6), B(6))
    line("bool + 1", lambda x: x + 1, B(6), np_=lambda x: x.astype(np.int32) + 1)
    line("scalar - float", lambda x: 2 - x, A)
    line("scalar / float", lambda x: 2 / x, A)
    line("float / scalar", lambda x: x / 3, A)
    line("float / 0", lambda x: x / 0, SPECIAL, np_=lambda x: x * np.float32(INF))
    line("int / positive", lambda x, y: x / y, I(6), I(6, lo=1), np_=lambda x, y: (x / y).astype(np.float32))
    line("int // int", lambda x, y: x // y, I(40, lo=-20, hi=20), np.concatenate([I(20, lo=1), I(20, lo=-5, hi=0)]))
    line("int // 0 is 0", lambda x: x // 0, I(6), np_=lambda x: x * 0)
    line("int % 0 is 0", lambda x: x % 0, I(6), np_=lambda x: x * 0)
    line("int % int", lambda x, y: x % y, I(40, lo=-20, hi=20), np.concatenate([I(20, lo=1), I(20, lo=-5, hi=0)]))
    line("scalar // int", lambda x: 17 // x, I(6, lo=1))
    line("scalar % int", lambda x: 17 % x, I(6, lo=1))
    line("float // float", lambda x, y: x // y, F(30) * 9, F(30))
    line("float // is exact", lambda x: x // x, np.arange(1, 200, dtype=np.float32))
    line("float % float", lambda x, y: x % y, F(30) * 9, F(30), tol=1e-4)
    line("fmod", lambda x, y: x.fmod(y), I(20, lo=-20, hi=20), I(20, lo=1), np_=np.fmod)
    line("fmod float", lambda x, y: x.fmod(y), F(20) * 9, F(20), np_=np.fmod, tol=1e-4)
    line(
        "div trunc",
        lambda x, y: x.div(y, rounding_mode="trunc"),
        I(20, lo=-20, hi=20),
        I(20, lo=1),
        np_=lambda x, y: np.trunc(x / y).astype(np.int32),
    )
    line("div floor", lambda x, y: x.div(y, rounding_mode="floor"), F(20), F(20), np_=np.floor_divide)
    line("-x", lambda x: -x, A)
    line("-bool", lambda x: -x, B(5), np_=np.logical_not)
    line("-uint8", lambda x: -x, I(5, lo=0, dtype=np.uint8))
    line("abs", lambda x: x.abs(), SPECIAL, np_=np.abs)
    line("abs int8", lambda x: x.abs(), I(9, lo=-128, hi=128, dtype=np.int8), np_=np.abs)
    for name in ("lt", "gt", "le", "ge", "eq", "ne"):
        op = {
            "lt": np.less,
            "gt": np.greater,
            "le": np.less_equal,
            "ge": np.greater_equal,
            "eq": np.equal,
            "ne": np.not_equal,
        }[name]
        line(f"{name} with NaN", lambda x, y, n=name: getattr(operator, n)(x, y), SPECIAL, SPECIAL[::-1].copy(), np_=op)
        line(f"{name} int", lambda x, y, n=name: getattr(operator, n)(x, y), I(9), I(9), np_=op)
        line(f"{name} scalar", lambda x, n=name: getattr(operator, n)(x, 1), I(9), np_=lambda x, op=op: op(x, 1))
    line("== !=", lambda x, y: (x == y) | (x != y), I(9), I(9))
    line("and or xor", lambda x, y: (x & y) | (x ^ y), I(9), I(9))
    line("bool and scalar", lambda x: x & True, B(9))
    line("~ int", lambda x: ~x, I(9))
    line("~ uint8", lambda x: ~x, I(9, lo=0, dtype=np.uint8))
    line("~ bool", lambda x: ~x, B(9))
    line("<<", lambda x: x << 3, I(9, lo=0))
    line(">> negative", lambda x: x >> 2, I(9, lo=-99, hi=99))
    line("scalar << int", lambda x: 3 << x, I(9, lo=0), np_=lambda x: np.int32(3) << x, peer="weak there")
    line("logical_not", lambda x: x.logical_not(), I(9), np_=np.logical_not)
    line("where", lambda c, x, y: c.where(x, y), B(3, 4), A, V, np_=np.where)
    line("where scalars", lambda c: c.where(1.5, 2), B(9), np_=lambda c: np.where(c, np.float32(1.5), np.float32(2)))
    line("where scalar left", lambda c, x: c.where(0, x), B(9), F(9), np_=lambda c, x: np.where(c, np.float32(0), x))
    line(
        "where promotes",
        lambda c, x, y: c.where(x, y),
        B(9),
        I(9),
        F(9),
        np_=lambda c, x, y: np.where(c, x, y).astype(np.float32),
    )
    line(
        "masked_fill",
        lambda x, c: x.masked_fill(c, -INF),
        A,
        B(3, 4),
        np_=lambda x, c: np.where(c, np.float32(-INF), x),
    )
    line("maximum NaN", lambda x, y: x.maximum(y), SPECIAL, SPECIAL[::-1].copy(), np_=np.maximum)
    line("minimum NaN", lambda x, y: x.minimum(y), SPECIAL, SPECIAL[::-1].copy(), np_=np.minimum)
    line(
        "minimum int8",
        lambda x, y: x.minimum(y),
        I(9, lo=-128, hi=127, dtype=np.int8),
        I(9, dtype=np.int8),
        np_=np.minimum,
    )
    line(
        "minimum uint8",
        lambda x, y: x.minimum(y),
        I(9, lo=0, hi=255, dtype=np.uint8),
        I(9, lo=0, dtype=np.uint8),
        np_=np.minimum,
    )
    line("maximum scalar", lambda x: x.maximum(1), I(9), np_=lambda x: np.maximum(x, 1))
    line("clamp", lambda x: x.clamp(-1, 1), SPECIAL, np_=lambda x: np.clip(x, -1, 1))
    line("clip one side", lambda x: x.clip(min_=0), I(9), np_=lambda x: np.clip(x, 0, None))
    line("lerp", lambda x, y: x.lerp(y, 0.25), A, A1, np_=lambda x, y: x + (y - x) * np.float32(0.25))
    line(
        "copysign",
        lambda x, y: x.copysign(y),
        SPECIAL,
        SPECIAL[::-1][1:].repeat(2)[:14].copy(),
        np_=np.copysign,
        peer="NaN",
    )
    line("logaddexp", lambda x, y: x.logaddexp(y), A, A1, np_=np.logaddexp)
    line("logaddexp inf", lambda x: x.logaddexp(x), f32(-INF, INF, 0), np_=lambda x: np.logaddexp(x, x))
    line(
        "isclose",
        lambda x, y: x.isclose(y, equal_nan=True),
        SPECIAL,
        SPECIAL * np.float32(1.000001),
        np_=lambda x, y: np.isclose(x, y, equal_nan=True),
    )
    line("allclose", lambda x: x.allclose(x + 1e-9), A, np_=lambda x: np.allclose(x, x))


def powers() -> None:
    line("x**2", lambda x: x**2, SPECIAL)
    line("x**3", lambda x: x**3, A)
    line("x**8", lambda x: x**8, A, tol=1e-4)
    line("x**0 of NaN", lambda x: x**0, SPECIAL, np_=np.ones_like)
    line("x**-1", lambda x: x**-1, A)
    line("x**-2", lambda x: x**-2.0, A)
    line("x**0.5", lambda x: x**0.5, P(9))
    line("x**-0.5", lambda x: x**-0.5, P(9))
    line("x**1.7", lambda x: x**1.7, P(9))
    line("x**y", lambda x, y: x**y, P(9), F(9))
    line("negative ** whole float", lambda x: x**3.0, -P(9))
    line("2**x", lambda x: 2**x, F(9), np_=np.exp2)
    line("2.0**int", lambda x: 2.0**x, I(9), np_=lambda x: np.exp2(x).astype(np.float32))
    line("3**x", lambda x: 3**x, F(9), np_=lambda x: np.float32(3) ** x)
    line("int**3", lambda x: x**3, I(9))
    line("int**2.0", lambda x: x**2.0, I(9), np_=lambda x: (x**2).astype(np.float32))
    line("square", lambda x: x.square(), A, np_=np.square)
    line("reciprocal", lambda x: x.reciprocal(), SPECIAL, np_=lambda x: 1 / x)


def functions() -> None:
    for name in ("exp", "exp2", "log2", "log", "sqrt", "sin", "cos", "tan", "log10"):
        line(name, lambda x, n=name: getattr(x, n)(), P(3, 4) * 3, np_=getattr(np, name), tol=1e-5)
        line(
            f"{name} of ints",
            lambda x, n=name: getattr(x, n)(),
            I(9, lo=1),
            np_=lambda x, n=name: getattr(np, n)(x).astype(np.float32),
            tol=1e-4,
        )
        line(
            f"{name} of halves",
            lambda x, n=name: getattr(x, n)(),
            P(9).astype(np.float16),
            np_=getattr(np, name),
            tol=5e-3,
        )
    for name in ("exp", "exp2", "log2", "log", "sqrt"):
        line(f"{name} special", lambda x, n=name: getattr(x, n)(), SPECIAL, np_=getattr(np, name))
    line("rsqrt", lambda x: x.rsqrt(), P(9), np_=lambda x: 1 / np.sqrt(x))
    for name in ("trunc", "floor", "ceil", "round", "sign"):
        line(name, lambda x, n=name: getattr(x, n)(), SPECIAL, np_=getattr(np, name))
        line(
            f"{name} of ints",
            lambda x, n=name: getattr(x, n)(),
            I(9),
            np_=getattr(np, name),
            peer="round gives floats there" if name == "round" else True,
        )
    line("round near a half", lambda x: x.round(), f32(0.49999997, 8388609, -0.49999997, 5.5, 6.5, -7.5), np_=np.round)
    for name in ("isnan", "isinf", "isfinite"):
        line(name, lambda x, n=name: getattr(x, n)(), SPECIAL, np_=getattr(np, name))
    line("isinf of one sign", lambda x: x.isinf(detect_negative=False), SPECIAL, np_=np.isposinf)
    for name in ("sinh", "cosh", "tanh", "asinh"):
        fn = {"asinh": np.arcsinh}.get(name) or getattr(np, name)
        line(name, lambda x, n=name: getattr(x, n)(), F(3, 4) * 2, np_=fn, tol=2e-5)
    line("asinh of large negatives", lambda x: x.asinh(), f32(-5000, -1e-3, 5000), np_=np.arcsinh, tol=2e-4)
    line("acosh", lambda x: x.acosh(), P(9) + 1, np_=np.arccosh, tol=1e-4)
    for name, fn in (("atanh", np.arctanh), ("asin", np.arcsin), ("acos", np.arccos), ("atan", np.arctan)):
        line(name, lambda x, n=name: getattr(x, n)(), P(9) * 2 - 1, np_=fn, tol=2e-5)
    line("erf", lambda x: x.erf(), F(3, 4), np_=lambda x: np.vectorize(math.erf)(x).astype(np.float32), tol=1e-5)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def activations() -> None:
    x, tol = F(3, 4) * 2, 3e-5
    table: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.clip(x, 0, 6),
        "leaky_relu": lambda x: np.where(x < 0, x * np.float32(0.01), x),
        "sigmoid": sigmoid,
        "logsigmoid": lambda x: np.log(sigmoid(x)),
        "quick_gelu": lambda x: x * sigmoid(x * np.float32(1.702)),
        "silu": lambda x: x * sigmoid(x),
        "swish": lambda x: x * sigmoid(x),
        "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
        "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "selu": lambda x: np.float32(1.0507) * np.where(x > 0, x, np.float32(1.67326) * np.expm1(x)),
        "softplus": lambda x: np.log1p(np.exp(x)),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / np.float32(6),
        "hardsigmoid": lambda x: np.clip(x / np.float32(6) + np.float32(0.5), 0, 1),
        "hardtanh": lambda x: np.clip(x, -1, 1),
    }
    for name, fn in table.items():
        line(name, lambda x, n=name: getattr(x, n)(), x, np_=fn, tol=tol)
    line("relu keeps NaN and ints", lambda x: x.relu(), SPECIAL, np_=lambda x: np.maximum(x, 0))
    line("relu of ints", lambda x: x.relu(), I(9), np_=lambda x: np.maximum(x, 0))
    c = np.float32(math.sqrt(2 / math.pi))
    line(
        "gelu",
        lambda x: x.gelu(),
        x,
        np_=lambda x: np.float32(0.5) * x * (1 + np.tanh(c * (x + np.float32(0.044715) * x**3))),
        tol=tol,
    )
    line(
        "gelu exact",
        lambda x: x.gelu("none"),
        x,
        np_=lambda x: (x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2).astype(np.float32),
        tol=tol,
    )
    line("softplus beta", lambda x: x.softplus(3.0), x, np_=lambda x: np.log1p(np.exp(3 * x)) / np.float32(3), tol=tol)


for group in (
    elementwise,
    powers,
    functions,
    activations,
):
    group()
