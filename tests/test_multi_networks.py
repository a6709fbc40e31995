"""Networks on sharded Tensors: each operation, its gradient, steps of optimizers, random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sharded import AXES, Array, agree, calls, floats, moved, names, spread
from tinysched import Context, Tensor, nn
from tinysched.ir.sharding import axis_of

# ** matmul and networks **


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(AXES, AXES)))
def test_matmul_in_all_nine_combinations(a: int | None, b: int | None, n: int) -> None:
    arrays = [floats(8, 12), floats(12, 16, seed=1)]
    agree(lambda x, y: x @ y, arrays, n, (a, b))
    agree(lambda x, y: (x @ y).relu().sum().gradient(x, y), arrays, n, (a, b))
    x, y = spread(arrays[0], n, a), spread(arrays[1], n, b)
    local = (a in (None, 0) and b is None) or (a is None and b == 1)
    reduced = 8 * 16 * 4 * n * (n - 1)
    if local:
        assert calls(x @ y) == (n, 0)
    elif (a, b) in ((1, 0), (1, None), (None, 0)):  # each device has a part of the sum
        assert moved(x @ y) == reduced


NETWORKS: dict[str, tuple[Callable[..., Any], list[Array], list[tuple[int | None, ...]]]] = {
    "conv": (
        lambda x, w, b: x.conv2d(w, b, padding=1),
        [floats(4, 4, 8, 8), floats(8, 4, 3, 3), floats(8)],
        [(0, None, None), (None, 0, 0), (1, 1, None), (2, None, None)],
    ),
    "conv gradients": (
        lambda x, w: x.conv2d(w, padding=1).relu().sum().gradient(x, w),
        [floats(4, 4, 4, 4), floats(4, 4, 3, 3)],
        [(0, None), (None, 0), (1, 1)],
    ),
    "pooling": (lambda x: [x.avg_pool2d(), x.max_pool2d()], [floats(4, 4, 8, 8)], [(0,), (1,), (2,), (3,)]),
    "softmax": (lambda x: [x.softmax(-1), x.log_softmax(-1)], [floats(8, 12)], [(0,), (1,)]),
    "cross entropy": (
        lambda x, y: [x.sparse_categorical_crossentropy(y), x.cross_entropy(y)],
        [floats(8, 12), np.arange(8, dtype=np.int32)],
        [(0, 0), (1, None), (0, None), (None, None)],
    ),
    "embedding": (
        lambda w, i: w[i],
        [floats(16, 8), np.arange(32, dtype=np.int32).reshape(8, 4) % 16],
        [(None, 0), (0, None), (1, None), (None, 1)],
    ),
    "layernorm": (lambda x: x.layernorm(), [floats(8, 16)], [(0,), (1,)]),
    "batchnorm": (
        lambda x, g, b: x.batchnorm(g, b, x.mean((0, 2, 3)), (x.var((0, 2, 3)) + 1e-5).rsqrt()),
        [floats(4, 4, 4, 4), floats(4), floats(4)],
        [(0, None, None), (1, 0, 0)],
    ),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        [floats(4, 4, 8, 8), floats(4, 4, 8, 8, seed=1), floats(4, 4, 8, 8, seed=2)],
        [(0, 0, 0), (1, 1, 1), (2, None, None), (None, 2, 2)],
    ),
    "cumsum and sort": (
        lambda x: [x.cumsum(0), x.cumsum(1), *x.sort(1), x.topk(3, 0)[0], x.argmax()],
        [floats(8, 8)],
        [(0,), (1,)],
    ),
    "triangles": (lambda x: [x.triu(), x.tril(1)], [floats(8, 8)], [(0,), (1,)]),
    "loss": (
        lambda x, w, y: (x @ w).sparse_categorical_crossentropy(y).gradient(x, w),
        [floats(8, 12), floats(12, 16), np.arange(8, dtype=np.int32)],
        [(0, None, 0), (None, 1, None), (1, 0, None)],
    ),
}


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, n: int) -> None:
    fn, arrays, places = NETWORKS[name]
    for axes in places:
        agree(fn, arrays, n, axes)


def test_embedding_layers_and_modules() -> None:
    layer = nn.Embedding(16, 8)
    index = np.arange(8, dtype=np.int32)
    want = layer(Tensor(index)).numpy()
    layer.weight.shard_(names(2), 1).realize()
    assert np.array_equal(layer(spread(index, 2, None)).numpy(), want)


def test_constants_like_a_tensor_lie_as_it_does() -> None:
    for axis in AXES:
        x = spread(floats(4, 8), 2, axis)
        made = [x.zeros_like(), x.ones_like(), x.full_like(3), x.empty_like(), x.rand_like(), x.randn_like()]
        for t in [t.contiguous().realize() for t in made]:
            assert t.device == x.device and axis_of(t.uop) in (axis, None)
            assert calls(x + t)[1] == 0
        assert axis_of(made[0].uop) == axis
    assert Tensor(floats(2), device="NUMPY:1").zeros_like().contiguous().realize().device == "NUMPY:1"


def test_states_are_loaded_as_a_model_lies() -> None:
    layer = nn.Linear(8, 4)
    saved = {name: Tensor(t.numpy()) for name, t in nn.state.get_state_dict(layer).items()}
    layer.weight.shard_(names(2), 0)
    assert layer.bias is not None
    layer.bias.shard_(names(2))
    nn.state.load_state_dict(layer, saved)
    assert (axis_of(layer.weight.uop), layer.weight.device, layer.bias.device) == (0, names(2), names(2))
    assert layer.weight.numpy().tolist() == saved["weight"].numpy().tolist()


def test_other_dtypes() -> None:
    whole = np.arange(32, dtype=np.int32).reshape(4, 8) - 16
    agree(lambda x: [x // 3, x % 3, x.sum(), x.max(0), x.bitcast("float32").bitcast("int32")], [whole], 2, (0,))
    agree(lambda x: [x.any(), x.all(1), x.sum()], [whole > 0], 4, (1,))
    half = np.full((8, 64), 1.5, np.float16)
    total = spread(half, 8, 0).sum(0)
    assert total.dtype.name == "float16" and total.numpy().tolist() == [12.0] * 64


# ** gradients and steps **


def test_gradients_lie_where_their_tensors_do() -> None:
    w = Tensor(floats(8, 4)).shard(names(2), 0).realize()
    x = Tensor(floats(4, 8, seed=1)).shard(names(2), None).realize()
    (gradient,) = (x @ w).square().sum().gradient(w)
    assert axis_of(gradient.uop) == 0
    lazy = Tensor(floats(8, 4))
    far = lazy.shard(names(2), 0)
    (through,) = (x @ far).square().sum().gradient(lazy)
    assert through.device == "NUMPY"
    np.testing.assert_allclose(through.numpy(), gradient.numpy(), rtol=1e-5)
    for there in (lazy.to("NUMPY:3"), lazy.to(names(2)), far.to("NUMPY:1"), far.shard(names(2), 1)):
        (back,) = (there * 3).sum().gradient(lazy)
        assert back.device == "NUMPY" and back.tolist() == [[3.0] * 4] * 8


def test_optimizers_step_as_on_one_device() -> None:
    values, target = floats(4, 8), floats(4, 8, seed=1)

    def trained(place: Callable[[Tensor], Tensor], make: Callable[[list[Tensor]], nn.optim.Optimizer]) -> Array:
        w, y = place(Tensor(values, requires_grad=True)), place(Tensor(target))
        opt = make([w])
        for _ in range(3):
            opt.zero_grad()
            ((w - y) * (w - y)).sum().backward()
            opt.step()
        return w.numpy()

    makers: list[Callable[[list[Tensor]], nn.optim.Optimizer]] = [
        lambda ps: nn.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda ps: nn.optim.AdamW(ps, lr=0.1),
    ]
    for make in makers:
        want = trained(lambda t: t, make)
        for axis in AXES:
            got = trained(lambda t, axis=axis: t.shard_(names(2), axis).realize(), make)  # type: ignore[misc]
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_random_numbers_are_those_of_one_device() -> None:
    Tensor.manual_seed(7)
    want = [Tensor.rand(4, 6).numpy(), Tensor.rand(4, 6).numpy()]
    Tensor.manual_seed(7)
    like = spread(floats(4, 6), 2, 0)
    got = [Tensor.rand(4, 6, device=names(2)), Tensor.rand_like(like)]
    assert axis_of(got[1].uop) == 0
    assert [g.numpy().tolist() for g in got] == [w.tolist() for w in want]
    with Context(TRAINING=1):
        Tensor.manual_seed(7)
        dropped = Tensor(floats(4, 6)).dropout(0.5).numpy()
        Tensor.manual_seed(7)
        assert like.dropout(0.5).numpy().tolist() == dropped.tolist()
        assert moved(like.dropout(0.5)) < 64  # the key and the counter, no numbers
