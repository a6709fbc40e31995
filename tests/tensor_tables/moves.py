"""Creation, movement, indexing, scattering."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.tensor_tables.table import INF, NAN, A, B, F, I, X, line

i32, f32 = np.int32, np.float32


def creation() -> None:
    line("zeros", lambda x: type(x).zeros(2, 3), X, np_=lambda x: np.zeros((2, 3), f32))
    line("ones of a tuple", lambda x: type(x).ones((2, 3), dtype="int32"), X, np_=lambda x: np.ones((2, 3), i32))
    line("full int", lambda x: type(x).full((2, 3), 7), X, np_=lambda x: np.full((2, 3), 7, i32))
    line("full bool", lambda x: type(x).full((2,), True), X, np_=lambda x: np.full(2, True))
    line("full 0-d", lambda x: type(x).full((), 2.5), X, np_=lambda x: f32(2.5))
    line("zeros_like", lambda x: x.zeros_like(), I(2, 3), np_=np.zeros_like)
    line("ones_like", lambda x: x.ones_like(), A, np_=np.ones_like)
    line("full_like", lambda x: x.full_like(2.7), I(2, 3), np_=lambda x: np.full_like(x, 2))
    line("arange", lambda x: type(x).arange(7), X, np_=lambda x: np.arange(7, dtype=i32))
    line("arange start stop step", lambda x: type(x).arange(3, 20, 4), X, np_=lambda x: np.arange(3, 20, 4, dtype=i32))
    line("arange down", lambda x: type(x).arange(5, -4, -3), X, np_=lambda x: np.arange(5, -4, -3, dtype=i32))
    line("arange floats", lambda x: type(x).arange(0.5, 3.0, 0.7), X, np_=lambda x: np.arange(0.5, 3, 0.7).astype(f32))
    line("arange empty", lambda x: type(x).arange(5, 2), X, np_=lambda x: np.arange(5, 2, dtype=i32))
    line("arange float dtype", lambda x: type(x).arange(5, dtype="float32"), X, np_=lambda x: np.arange(5, dtype=f32))
    line("arange large", lambda x: type(x).arange(3000)[-1], X, np_=lambda x: i32(2999))
    line("arange int64", lambda x: type(x).arange(2**33, 2**33 + 3), X, np_=lambda x: np.arange(2**33, 2**33 + 3))
    line("linspace", lambda x: type(x).linspace(-1, 2, 7), X, np_=lambda x: np.linspace(-1, 2, 7, dtype=f32))
    line("linspace of one", lambda x: type(x).linspace(3, 9, 1), X, np_=lambda x: f32([3]))
    line("eye", lambda x: type(x).eye(3), X, np_=lambda x: np.eye(3, dtype=f32))
    line("eye wide", lambda x: type(x).eye(2, 4), X, np_=lambda x: np.eye(2, 4, dtype=f32))
    line("triu", lambda x: x.triu(1), A, np_=lambda x: np.triu(x, 1))
    line("triu bool", lambda x: x.triu(), B(3, 4), np_=np.triu)
    line("tril bool", lambda x: x.tril(), B(3, 4), np_=np.tril)
    line("tril", lambda x: x.tril(-1), A, np_=lambda x: np.tril(x, -1))
    line("tril inf", lambda x: x.tril(), np.full((3, 4), INF, f32), np_=np.tril)
    for dtype in ("int8", "uint8", "int64", "float16", "float64", "bool"):
        line(
            f"cast {dtype}",
            lambda x, d=dtype: x.cast(d),
            f32([-2.7, -0.4, 0, 0.6, 3.9][2:]),
            np_=lambda x, d=dtype: x.astype(d),
        )
    line("cast negative float to int", lambda x: x.int(), f32([-2.7, -0.4]), np_=lambda x: x.astype(i32))
    line("cast int to bool", lambda x: x.bool(), I(9), np_=lambda x: x.astype(bool))
    line("half long short", lambda x: x.half().long().short(), I(5), np_=lambda x: x.astype(np.int16))
    line("bitcast", lambda x: x.bitcast("int32"), A, np_=lambda x: x.view(i32))
    line("bitcast smaller", lambda x: x.bitcast("uint8"), F(2, 3), np_=lambda x: x.view(np.uint8))
    line("bitcast larger", lambda x: x.bitcast("int64"), F(2, 4), np_=lambda x: x.view(np.int64))


def movement() -> None:
    line("reshape -1", lambda x: x.reshape(4, -1), A, np_=lambda x: x.reshape(4, -1))
    line("reshape None", lambda x: x.reshape(None, -1), A, np_=lambda x: x.reshape(2, -1))
    line("view tuple", lambda x: x.view((6, 4)), A, np_=lambda x: x.reshape(6, 4))
    line("flatten middle", lambda x: x.flatten(1, 2), A, np_=lambda x: x.reshape(2, 12))
    line("flatten 0-d", lambda x: x.flatten(), F(), np_=lambda x: x.reshape(1))
    line("unflatten", lambda x: x.unflatten(2, (2, -1)), A, np_=lambda x: x.reshape(2, 3, 2, 2))
    line("squeeze", lambda x: x.squeeze(), F(1, 3, 1, 4), np_=np.squeeze)
    line("squeeze one", lambda x: x.squeeze(2), F(1, 3, 1, 4), np_=lambda x: x.squeeze(2))
    line("squeeze none", lambda x: x.squeeze(1), F(1, 3, 1), np_=lambda x: x)
    line("unsqueeze end", lambda x: x.unsqueeze(-1), A, np_=lambda x: x[..., None])
    line("unsqueeze middle", lambda x: x.unsqueeze(1), A, np_=lambda x: x[:, None])
    line("permute", lambda x: x.permute(2, 0, 1), A, np_=lambda x: x.transpose(2, 0, 1))
    line("permute tuple negative", lambda x: x.permute((-1, 0, 1)), A, np_=lambda x: x.transpose(2, 0, 1))
    line("transpose", lambda x: x.transpose(), F(3, 4), np_=lambda x: x.T)
    line("transpose axes", lambda x: x.transpose(0, -1), A, np_=lambda x: x.swapaxes(0, 2))
    line("T", lambda x: x.T, F(3, 4), np_=lambda x: x.T)
    line("flip", lambda x: x.flip((0, -1)), A, np_=lambda x: np.flip(x, (0, 2)))
    line("flip one", lambda x: x.flip(1), A, np_=lambda x: np.flip(x, 1))
    line("shrink", lambda x: x.shrink(((0, 1), None, (1, 3))), A, np_=lambda x: x[:1, :, 1:3])
    line("shrink_to", lambda x: x.shrink_to(None, 2, 3), A, np_=lambda x: x[:, :2, :3])
    line("pad", lambda x: x.pad(((1, 0), None, (2, 3))), A, np_=lambda x: np.pad(x, ((1, 0), (0, 0), (2, 3))))
    line("pad flat", lambda x: x.pad((1, 2, 3, 0)), A, np_=lambda x: np.pad(x, ((0, 0), (3, 0), (1, 2))))
    line(
        "pad value",
        lambda x: x.pad((1, 2), value=-INF),
        A,
        np_=lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=-INF),
    )
    line(
        "pad negative",
        lambda x: x.pad((-1, 2), value=5),
        A,
        np_=lambda x: np.pad(x[..., 1:], ((0, 0), (0, 0), (0, 2)), constant_values=5),
    )
    for mode, name in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        line(
            f"pad {mode}",
            lambda x, m=mode: x.pad((2, 1, 1, 2), mode=m),
            A,
            np_=lambda x, n=name: np.pad(x, ((0, 0), (1, 2), (2, 1)), mode=n),
        )
    line("pad then exp", lambda x: x.pad((1, 1)).exp(), A, np_=lambda x: np.exp(np.pad(x, ((0, 0), (0, 0), (1, 1)))))
    line("exp then pad", lambda x: x.exp().pad((1, 1)), A, np_=lambda x: np.pad(np.exp(x), ((0, 0), (0, 0), (1, 1))))
    line("pad_to", lambda x: x.pad_to(3, None, 6), A, np_=lambda x: np.pad(x, ((0, 1), (0, 0), (0, 2))))
    line("expand", lambda x: x.expand(5, 3, 4), F(3, 1), np_=lambda x: np.broadcast_to(x, (5, 3, 4)))
    line("expand -1", lambda x: x.expand(-1, 6), F(3, 1), np_=lambda x: np.broadcast_to(x, (3, 6)))
    line("expand 0-d", lambda x: x.expand(2, 3), F(), np_=lambda x: np.broadcast_to(x, (2, 3)))
    line("repeat", lambda x: x.repeat(2, 1, 3), F(3, 4), np_=lambda x: np.tile(x, (2, 1, 3)))
    line("repeat_interleave", lambda x: x.repeat_interleave(2, 1), A, np_=lambda x: x.repeat(2, 1))
    line("repeat_interleave flat", lambda x: x.repeat_interleave(3), F(2, 3), np_=lambda x: x.repeat(3))
    line("roll", lambda x: x.roll(2, 1), A, np_=lambda x: np.roll(x, 2, 1))
    line("roll two", lambda x: x.roll((-1, 5), (0, 2)), A, np_=lambda x: np.roll(x, (-1, 5), (0, 2)))
    line("roll flat", lambda x: x.roll(5), A, np_=lambda x: np.roll(x, 5))
    line("split", lambda x: x.split(2, 1)[1], F(2, 5), np_=lambda x: x[:, 2:4])
    line("split last", lambda x: x.split(2, 1)[-1], F(2, 5), np_=lambda x: x[:, 4:])
    line("split sizes", lambda x: x.split([1, 4], 1)[1], F(2, 5), np_=lambda x: x[:, 1:])
    line("chunk", lambda x: x.chunk(3, 1)[2], F(2, 8), np_=lambda x: x[:, 6:])
    line("stack", lambda x, y: x.stack(y, dim=1), F(3, 4), F(3, 4), np_=lambda x, y: np.stack([x, y], 1))
    line("stack promotes", lambda x, y: x.stack(y), I(3), F(3), np_=lambda x, y: np.stack([x, y]).astype(f32))
    line(
        "stack last", lambda x, y: type(x).stack(x, y, dim=-1), F(3, 4), F(3, 4), np_=lambda x, y: np.stack([x, y], -1)
    )
    line("cat", lambda x, y: x.cat(y, dim=1), F(3, 4), F(3, 4), np_=lambda x, y: np.concatenate([x, y], 1))
    line("cat unequal", lambda x, y, z: x.cat(y, z, dim=0), F(3, 4), F(1, 4), F(2, 4), np_=lambda *a: np.concatenate(a))
    line("cat unequal inf", lambda x, y: x.cat(y), f32([INF, NAN]), f32([1]), np_=lambda *a: np.concatenate(a))
    line("cat bools", lambda x, y: x.cat(y), B(3), B(2), np_=lambda *a: np.concatenate(a))
    line("cat with nothing", lambda x, y: x.cat(y), F(3, 4), F(0, 4), np_=lambda *a: np.concatenate(a))
    line("meshgrid", lambda x, y: x.meshgrid(y)[1], F(3), F(4), np_=lambda x, y: np.meshgrid(x, y, indexing="ij")[1])
    line("meshgrid xy", lambda x, y: x.meshgrid(y, indexing="xy")[0], F(3), F(4), np_=lambda x, y: np.meshgrid(x, y)[0])
    line("diag", lambda x: x.diag(), F(4), np_=np.diag)
    line("diagonal", lambda x: x.diagonal(), F(3, 5), np_=np.diagonal)
    line("diagonal offset", lambda x: x.diagonal(-1, 1, 2), A, np_=lambda x: np.diagonal(x, -1, 1, 2))
    line("diagonal outside", lambda x: x.diagonal(9), F(3, 5), np_=lambda x: np.diagonal(x, 9), peer="an error there")
    line("unfold", lambda x: x.unfold(0, 3, 2), F(8), np_=lambda x: np.stack([x[i : i + 3] for i in (0, 2, 4)]))
    line(
        "unfold axis",
        lambda x: x.unfold(1, 2, 1),
        A,
        np_=lambda x: np.stack([x[:, i : i + 2] for i in (0, 1)], 1).swapaxes(2, 3),
    )
    line(
        "chain",
        lambda x: x.permute(1, 2, 0).reshape(4, 6).flip(0)[:, ::2].T.reshape(-1),
        A,
        np_=lambda x: np.flip(x.transpose(1, 2, 0).reshape(4, 6), 0)[:, ::2].T.reshape(-1),
    )
    line("contiguous", lambda x: x.T.contiguous() + 1, F(3, 4), np_=lambda x: x.T + 1)
    line("detach clone", lambda x: x.detach().clone() * 2, A, np_=lambda x: x * 2)


def indexing() -> None:
    keys: list[Any] = [
        1,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(-2, 0, -2),
        slice(5, 2),
        slice(1, 99),
        (0, 1),
        (slice(None), 2),
        (Ellipsis, -1),
        (Ellipsis, slice(None, None, 3), None),
        (None, 1, None),
        (slice(3, None, -2), slice(1, None), 0),
        (1, 2, 3),
        Ellipsis,
        (slice(None), slice(None), slice(1, 5, 2)),
        (slice(1, 1), 2),
    ]
    x = F(4, 5, 6)
    for key in keys:
        line(f"x[{key}]", lambda x, k=key: x[k], x)
    for key in ([0, 2], [-1, 1, 1], [[0, 1], [2, 3]]):
        line(f"list x[{key}]", lambda x, k=key: x[(k,)], x)
        line(f"list x[:, {key}]", lambda x, k=key: x[:, k], x)
    line("two lists", lambda x: x[[0, 2, 3], [1, 4, 0]], x)
    line("two lists apart", lambda x: x[[0, 2, 3], :, [1, 5, 0]], x)
    line("two lists apart, later", lambda x: x[:, [0, 2], None, [1, 5]], x)
    line("lists broadcast", lambda x: x[[[0], [2]], [1, 4, 0]], x)
    line("three lists", lambda x: x[[0, 1], [2, 3], [4, 5]], x)
    line("list and int", lambda x: x[1, [0, 2]], x)
    line("list, slice, int", lambda x: x[[0, 2], 1:3, 2], x, np_=lambda x: x[[0, 2], 1:3][:, :, 2])
    line("Tensor", lambda x, i: x[i], x, I(3, 2, lo=0, hi=4))
    line("Tensor negative", lambda x, i: x[:, i], x, I(3, lo=-5, hi=5))
    line("two Tensors", lambda x, i, j: x[:, i, j], x, I(3, lo=-5, hi=5), I(2, 3, lo=-6, hi=6))
    for dtype in (np.int8, np.uint8, np.int16):
        low = 0 if dtype is np.uint8 else -120
        line(f"Tensor of {dtype.__name__}, long axis", lambda x, i: x[i], F(300), I(9, lo=low, hi=120, dtype=dtype))
        line(f"two Tensors of {dtype.__name__}, long axes", lambda x, i, j: x[i, j], F(150, 120),
             I(9, lo=low, hi=120, dtype=dtype), I(9, lo=low, hi=120, dtype=dtype))  # fmt: skip
        line(f"gather by {dtype.__name__}, long axis", lambda x, i: x.gather(0, i), F(300, 2),
             I(5, 2, lo=0, hi=120, dtype=dtype), np_=lambda x, i: np.take_along_axis(x, i.astype(int), 0))  # fmt: skip
    line("two Tensors, bools", lambda x, i, j: x[i, j], B(4, 5), I(3, lo=-4, hi=4), I(3, lo=-5, hi=5),
         peer="whole numbers there")  # fmt: skip
    line("0-d Tensor", lambda x, i: x[i], x, np.int32(2))
    line("Tensor of uint8", lambda x, i: x[i], x, I(3, lo=0, hi=4, dtype=np.uint8))
    line("empty list", lambda x: x[[]], x, np_=lambda x: x[:0], peer="an error there")
    line("bools", lambda x: x[[True, False, True, False]], x, peer="bool lists")
    line("embedding", lambda w, i: w[i], F(10, 3), I(2, 4, lo=0, hi=10))
    line(
        "gather",
        lambda x, i: x.gather(1, i),
        F(3, 5),
        I(3, 4, lo=0, hi=5),
        np_=lambda x, i: np.take_along_axis(x, i, 1),
    )
    line(
        "gather fewer rows",
        lambda x, i: x.gather(0, i),
        F(3, 5),
        I(4, 2, lo=0, hi=3),
        np_=lambda x, i: np.take_along_axis(x[:, :2], i, 0),
    )
    line("one_hot", lambda x: x.one_hot(5), I(2, 3, lo=0, hi=5), np_=lambda x: np.eye(5, dtype=i32)[x])
    line(
        "one_hot outside",
        lambda x: x.one_hot(3),
        np.array([-1, 1, 7]),
        np_=lambda x: i32([[0, 0, 0], [0, 1, 0], [0, 0, 0]]),
    )
    line("rows", lambda x: sum(list(x)), x)


def scattering() -> None:
    def scattered(x: Any, i: Any, src: Any) -> Any:
        x = x.copy()
        for r, c in product(*map(range, i.shape)):
            x[r, i[r, c]] = src[r, c]
        return x

    def added(x: Any, i: Any, src: Any) -> Any:
        x = x.copy()
        np.add.at(x, (np.arange(i.shape[0])[:, None], i), np.broadcast_to(src, i.shape))
        return x

    x, i, s = F(3, 5), I(3, 4, lo=0, hi=5), F(3, 4)
    line("scatter", lambda x, i, s: x.scatter(1, i, s), x, i, s, np_=scattered)
    for shape in ((0, 3), (2, 0)):
        nothing = (F(2, 3), np.zeros(shape, i32), F(*shape))
        line(f"scatter nothing {shape}", lambda x, i, s: x.scatter(0, i, s), *nothing, np_=lambda x, i, s: x,
             peer="an error there")  # fmt: skip
        for name in ("sum", "prod", "mean", "amax", "amin"):
            line(f"scatter_reduce {name} nothing {shape}", lambda x, i, s, n=name: x.scatter_reduce(0, i, s, n),
                 *nothing, np_=lambda x, i, s: x, peer="an error there")  # fmt: skip
    line("scatter scalar", lambda x, i: x.scatter(1, i, 9), x, i, np_=lambda x, i: scattered(x, i, np.full(i.shape, 9)))
    line("scatter add", lambda x, i: x.scatter(1, i, 0.5, reduce="add"), x, i, np_=lambda x, i: added(x, i, f32(0.5)))
    line("scatter_reduce sum", lambda x, i, s: x.scatter_reduce(1, i, s, "sum"), x, i, s, np_=added)
    ufuncs = {"amax": np.maximum, "amin": np.minimum, "prod": np.multiply}
    for name, fn in ufuncs.items():

        def reduced(x: Any, i: Any, s: Any, fn: Any = fn) -> Any:
            x = x.copy()
            fn.at(x, (np.arange(3)[:, None], i), s)
            return x

        line(f"scatter_reduce {name}", lambda x, i, s, n=name: x.scatter_reduce(1, i, s, n), x, i, s, np_=reduced)
    line(
        "scatter_reduce mean",
        lambda x, i, s: x.scatter_reduce(1, i, s, "mean"),
        x,
        i,
        s,
        np_=lambda x, i, s: added(x, i, s) / added(np.ones_like(x), i, f32(1)),
    )
    line(
        "scatter_reduce without self",
        lambda x, i, s: x.scatter_reduce(1, i, s, "sum", include_self=False),
        x,
        i,
        s,
        np_=lambda x, i, s: np.where(added(np.zeros_like(x), i, f32(1)) > 0, added(np.zeros_like(x), i, s), x),
    )
    line(
        "masked_select size",
        lambda x, m: x.masked_select(m, size=9, fill_value=-1),
        F(3, 4),
        np.arange(12).reshape(3, 4) % 3 == 0,
        np_=lambda x, m: np.concatenate([x[m], np.full(5, -1, f32)]),
    )
    line(
        "masked_select",
        lambda x, m: x.masked_select(m),
        F(3, 4),
        np.arange(12).reshape(3, 4) % 3 == 0,
        np_=lambda x, m: x[m],
        peer="needs values",
    )
    line(
        "nonzero",
        lambda x: x.nonzero(),
        I(3, 4, lo=0, hi=2),
        np_=lambda x: np.argwhere(x).astype(i32),
        peer="needs values",
    )


for group in (
    creation,
    movement,
    indexing,
    scattering,
):
    group()
