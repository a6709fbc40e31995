"""Layers, optimizers and state dictionaries against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tinysched import Context, Tensor, nn
from tinysched.errors import ArgumentError, DTypeError, GradientError, ShapeError, TinyschedError
from tinysched.nn.optim import SGD, Adam, AdamW
from tinysched.nn.state import get_parameters, get_state_dict, load_state_dict

RNG = np.random.default_rng(11)


def F(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def close(found: Tensor, want: np.ndarray, tol: float = 2e-5) -> None:
    assert found.shape == want.shape
    np.testing.assert_allclose(found.numpy(), want, rtol=tol, atol=tol)


def normed(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + np.float32(eps))


# ---- layers


def test_linear():
    layer, x = nn.Linear(4, 5), F(2, 3, 4)
    assert np.abs(layer.weight.numpy()).max() <= 0.5
    close(layer(Tensor(x)), x @ layer.weight.numpy().T + layer.bias.numpy())
    assert nn.Linear(4, 5, bias=False).bias is None


@pytest.mark.parametrize(("padding", "shape"), [(0, (2, 5, 5, 7)), (1, (2, 5, 7, 9)), ("same", (2, 5, 7, 8))])
def test_conv2d(padding, shape):
    layer, x = nn.Conv2d(3, 5, (3, 2), padding=padding), Tensor(F(2, 3, 7, 8))
    assert layer(x).shape == shape
    pads = (0, 1, 1, 1) if padding == "same" else padding
    close(layer(x), x.conv2d(layer.weight, layer.bias, padding=pads).numpy())


def test_conv1d_and_transpose():
    x = Tensor(F(2, 4, 9))
    assert nn.Conv1d(4, 6, 3, stride=2, groups=2)(x).shape == (2, 6, 4)
    y = Tensor(F(2, 4, 5, 6))
    layer = nn.ConvTranspose2d(4, 3, (2, 3), stride=2, output_padding=1)
    assert layer.weight.shape == (4, 3, 2, 3)
    assert layer(y).shape == (2, 3, 11, 14)


def test_batchnorm_in_use_and_in_training():
    layer, x = nn.BatchNorm(3), F(4, 3, 5, 2)
    layer.weight.assign(F(3))
    layer.bias.assign(F(3))
    w, b = (t.numpy().reshape(1, 3, 1, 1) for t in (layer.weight, layer.bias))
    close(layer(Tensor(x)), x / np.sqrt(np.float32(1 + 1e-5)) * w + b)
    with Context(TRAINING=1):
        close(layer(Tensor(x)), normed(x, (0, 2, 3)) * w + b, 1e-4)
    n = x.size // 3
    close(layer.running_mean, 0.1 * x.mean((0, 2, 3)))
    close(layer.running_var, 0.9 + 0.1 * x.var((0, 2, 3)) * n / (n - 1))
    assert layer.num_batches_tracked.item() == 1
    assert [t is layer.weight or t is layer.bias for t in get_parameters(layer) if t.is_param] == [True, True]


def test_other_norms():
    x = F(2, 6, 5, 3)
    close(nn.LayerNorm(3)(Tensor(x)), normed(x, (3,)), 1e-4)
    close(nn.LayerNorm((5, 3), elementwise_affine=False)(Tensor(x)), normed(x, (2, 3)), 1e-4)
    close(nn.LayerNorm2d(6)(Tensor(x)), normed(x, (1,)), 1e-4)
    close(nn.InstanceNorm(6)(Tensor(x)), normed(x, (2, 3)), 1e-4)
    close(nn.GroupNorm(2, 6)(Tensor(x)), normed(x.reshape(2, 2, -1), (2,)).reshape(x.shape), 1e-4)
    rms = nn.RMSNorm(3)
    rms.weight.assign([1.0, 2.0, 3.0])
    close(rms(Tensor(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(1e-6)) * np.float32([1, 2, 3]), 1e-4)
    assert rms(Tensor(x).half()).dtype.name == "float32"  # the weight is
    with pytest.raises(ShapeError):
        nn.LayerNorm(4)(Tensor(x))


def test_embedding():
    layer, idx = nn.Embedding(7, 4), np.array([[0, 6], [3, 3]])
    close(layer(Tensor(idx)), layer.weight.numpy()[idx])
    with pytest.raises(DTypeError):
        layer(Tensor([0.5]))


def test_two_equal_layers_have_gradients_of_their_own():
    a, b = nn.LayerNorm(4), nn.LayerNorm(4)
    x = Tensor(F(3, 4))
    (b(a(x) * 2) * Tensor(F(3, 4))).sum().backward()
    assert a.weight.grad.tolist() != b.weight.grad.tolist()


# ---- optimizers


def trained(make, steps: int = 4) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The parameters after some steps, and the gradients seen (those of a loss that is linear in them)."""
    start, grads = [F(3, 4), F(5)], [[F(3, 4), F(5)] for _ in range(steps)]
    params = [Tensor(a) for a in start]
    opt = make(params)
    for row in grads:
        opt.zero_grad()
        sum((p * Tensor(g)).sum() for p, g in zip(params, row)).backward()
        opt.step()
    return [p.numpy() for p in params], [start, *grads]


def reference(start, grads, update) -> list[np.ndarray]:
    out = []
    for i, p in enumerate(start):
        state: dict = {}
        p = p.astype(np.float64)
        for t, row in enumerate(grads, 1):
            p = p - update(p, row[i].astype(np.float64), state, t)
        out.append(p)
    return out


def sgd(lr, momentum=0.0, wd=0.0, nesterov=False):
    def update(p, g, s, t):
        g = g + wd * p
        if momentum:
            s["b"] = momentum * s.get("b", 0) + g
            g = g + momentum * s["b"] if nesterov else s["b"]
        return lr * g

    return update


def adam(lr, b1=0.9, b2=0.999, eps=1e-8, wd=0.0):
    def update(p, g, s, t):
        s["m"], s["v"] = b1 * s.get("m", 0) + (1 - b1) * g, b2 * s.get("v", 0) + (1 - b2) * g * g
        return lr * (s["m"] / (1 - b1**t) / (np.sqrt(s["v"] / (1 - b2**t)) + eps) + wd * p)

    return update


@pytest.mark.parametrize(
    ("make", "update"),
    [
        (lambda ps: SGD(ps, 0.1), sgd(0.1)),
        (lambda ps: SGD(ps, 0.1, momentum=0.9), sgd(0.1, 0.9)),
        (lambda ps: SGD(ps, 0.1, momentum=0.9, weight_decay=0.2, nesterov=True), sgd(0.1, 0.9, 0.2, True)),
        (lambda ps: Adam(ps, 0.05), adam(0.05)),
        (lambda ps: AdamW(ps, 0.05, b1=0.8, b2=0.95, weight_decay=0.1), adam(0.05, 0.8, 0.95, wd=0.1)),
    ],
)
def test_steps(make, update):
    found, (start, *grads) = trained(make)
    for a, b in zip(found, reference(start, grads, update), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_learning_rate_is_memory():
    w = Tensor([1.0, 2.0])
    opt = SGD([w, w], lr=1.0)
    assert len(opt.params) == 1
    opt.lr.assign([0.5])
    (w * Tensor([2.0, 4.0])).sum().backward()
    opt.step()
    assert w.tolist() == [0.0, 0.0]


def test_a_training_loop_learns():
    Tensor.manual_seed(4)
    x, y = F(20, 3), None
    y = (x @ np.float32([1, -2, 3]) > 0).astype(np.int32)
    first, second = nn.Linear(3, 8), nn.Linear(8, 2)
    opt = Adam(get_parameters([first, second]), lr=0.05)
    losses = []
    for _ in range(25):
        loss = second(first(Tensor(x)).relu()).sparse_categorical_crossentropy(Tensor(y))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SGD([], 0.1),
        lambda: SGD([Tensor([1.0])], -1),
        lambda: SGD([Tensor([1.0])], momentum=-1),
        lambda: AdamW([Tensor([1.0])], weight_decay=-1),
        lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"),
        lambda: nn.Conv2d(3, 4, 3, padding="full"),
    ],
)
def test_wrong_arguments(wrong):
    with pytest.raises(ArgumentError):
        wrong()


def test_a_step_without_gradients_changes_nothing():
    w = Tensor([1.0])
    with pytest.raises(GradientError, match="no gradient"):
        SGD([w]).step()
    assert w.tolist() == [1.0]


# ---- state


class Net:
    def __init__(self) -> None:
        self.layers = [nn.Linear(2, 3), {"norm": nn.BatchNorm(3)}]
        self.name, self.scale = "net", Tensor(2.0)


def test_state_dict_names_everything():
    assert list(get_state_dict(Net())) == [
        "layers.0.weight", "layers.0.bias", "layers.1.norm.weight", "layers.1.norm.bias",
        "layers.1.norm.num_batches_tracked", "layers.1.norm.running_mean", "layers.1.norm.running_var", "scale",
    ]  # fmt: skip


def test_load_state_dict():
    a, b = Net(), Net()
    load_state_dict(b, get_state_dict(a))
    for x, y in zip(get_parameters(a), get_parameters(b), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    b.layers[0].weight += 1
    assert a.layers[0].weight.tolist() != b.layers[0].weight.tolist()
    load_state_dict(b, {"scale": Tensor([5.0])}, strict=False)
    assert b.scale.item() == 5.0


@pytest.mark.parametrize("values", [{}, {"weight": Tensor([1.0]), "bias": Tensor([1.0, 2.0, 3.0])}])
def test_a_wrong_state_dict_changes_nothing(values):
    layer = nn.Linear(2, 3)
    before = layer.weight.numpy()
    with pytest.raises(TinyschedError):
        load_state_dict(layer, values)
    np.testing.assert_array_equal(layer.weight.numpy(), before)
