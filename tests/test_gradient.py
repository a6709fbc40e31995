"""Gradients against finite differences, and what they mean for leaves, writes and older values."""

from __future__ import annotations

import numpy as np
import pytest

from tinysched import Ops, Tensor
from tinysched.errors import DTypeError, GradientError, ShapeError
from tinysched.ir.lines import lines_of
from tinysched.tensor.gradient_rules import RULES

RNG = np.random.default_rng(3)


def D(*shape: int) -> np.ndarray:
    """Doubles between 0.2 and 0.9 in size, of both signs: away from the edges of functions."""
    return RNG.uniform(0.2, 0.9, shape) * RNG.choice([-1, 1], shape)


def P(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 0.9, shape)


A, B, POS = D(2, 3, 4), D(3, 1), P(2, 3, 4)
MASK = Tensor(np.arange(12).reshape(3, 4) % 3 == 0)
PLACES = Tensor(np.array([2, 0, 2, 1]))

# a function of Tensors, the inputs whose gradients are compared
CASES = {
    "add": (lambda x, y: x + y, A, B),
    "sub": (lambda x, y: x - y, A, B),
    "mul": (lambda x, y: x * y, A, B),
    "div": (lambda x, y: x / y, A, B),
    "square of itself": (lambda x: x * x * x, A),
    "neg": (lambda x: -x, A),
    "float mod": (lambda x, y: x % y, A * 5, B),
    "pow": (lambda x, y: x**y, POS, B),
    "pow 3": (lambda x: x**3, A),
    "pow -1.5": (lambda x: x**-1.5, POS),
    "pow base": (lambda x: 1.7**x, A),
    "exp": (lambda x: x.exp(), A),
    "log": (lambda x: x.log(), POS),
    "sin": (lambda x: x.sin(), A),
    "cos": (lambda x: x.cos(), A),
    "tan": (lambda x: x.tan(), A),
    "sqrt": (lambda x: x.sqrt(), POS),
    "rsqrt": (lambda x: x.rsqrt(), POS),
    "abs": (lambda x: x.abs(), A),
    "maximum": (lambda x, y: x.maximum(y), A, B),
    "minimum": (lambda x, y: x.minimum(y), A, B),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), A),
    "where": (lambda x, y: MASK.where(x, y), A, B),
    "where of itself": (lambda x: (x > 0).where(x * x, x * 3), A),
    "relu": (lambda x: x.relu(), A),
    "sigmoid": (lambda x: x.sigmoid(), A),
    "tanh": (lambda x: x.tanh(), A),
    "gelu": (lambda x: x.gelu(), A),
    "silu": (lambda x: x.silu(), A),
    "softplus": (lambda x: x.softplus(), A),
    "elu": (lambda x: x.elu(), A),
    "cast": (lambda x: x.cast("float64") * 2, A),
    "reshape permute": (lambda x: x.reshape(6, 4).permute(1, 0).sin(), A),
    "expand": (lambda x: x.expand(5, 3, 4) * D5, B),
    "shrink pad": (lambda x: x[:, 1:].pad((1, 2)).exp(), A),
    "flip strides": (lambda x: x[..., ::-2].sin(), A),
    "stack": (lambda x, y: x.stack(y, dim=1).sin(), D(2, 3), D(2, 3)),
    "cat": (lambda x, y: x.cat(y, dim=1).sin(), D(2, 3), D(2, 1)),
    "repeat roll": (lambda x: x.repeat(2, 3).roll(2, 1) * D43, D(2, 3)),
    "pad value": (lambda x: x.pad((1, 1), value=3.0).sin(), A),
    "pad reflect": (lambda x: x.pad((2, 1), mode="reflect").sin(), A),
    "diagonal": (lambda x: x.diagonal().sin(), D(3, 4)),
    "gather": (lambda x: x[PLACES].sin(), D(3, 4)),
    "gather along": (lambda x: x.gather(0, PLACES.reshape(1, 4)), D(3, 4)),
    "scatter": (lambda x, y: x.scatter(0, PLACES.reshape(1, 4), y).sin(), D(3, 4), D(1, 4)),
    "masked_fill": (lambda x: x.masked_fill(MASK, 0.0).sin(), A),
    "sum": (lambda x: x.sum(1).sin(), A),
    "mean": (lambda x: x.mean((0, 2), keepdim=True).sin(), A),
    "prod": (lambda x: x.prod(1), A),
    "max": (lambda x: x.max(1).sin(), A),
    "min": (lambda x: x.min().sin(), A),
    "var": (lambda x: x.var(1), A),
    "std": (lambda x: x.std(), A),
    "cumsum": (lambda x: x.cumsum(1).sin(), A),
    "cumprod": (lambda x: x.cumprod(1), A),
    "cummax": (lambda x: x.cummax(2)[0].sin(), A),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), A),
    "sort": (lambda x: x.sort(-1)[0] * Tensor(np.arange(4.0)), A),
    "topk": (lambda x: x.topk(2)[0].sin(), A),
    "softmax": (lambda x: x.softmax().sin(), A),
    "log_softmax": (lambda x: x.log_softmax(1).sin(), A),
    "logsumexp": (lambda x: x.logsumexp(1).sin(), A),
    "normalize": (lambda x: x.normalize().sin(), A),
    "matmul": (lambda x, y: (x @ y).sin(), A, D(4, 5)),
    "einsum": (lambda x, y: Tensor.einsum("bij,jk->ibk", x, y).sin(), A, D(4, 5)),
    "linear": (lambda x, w, b: x.linear(w, b).sin(), A, D(4, 5), D(5)),
    "conv2d": (lambda x, w: x.conv2d(w, stride=2, padding=1).sin(), D(1, 2, 5, 4), D(3, 2, 3, 2)),
    "conv_transpose2d": (lambda x, w: x.conv_transpose2d(w, stride=2).sin(), D(1, 2, 3, 2), D(2, 3, 2, 3)),
    "max_pool2d": (lambda x: x.max_pool2d().sin(), D(1, 2, 5, 4)),
    "avg_pool2d": (lambda x: x.avg_pool2d((2, 3), stride=1).sin(), D(1, 2, 5, 4)),
    "interpolate": (lambda x: x.interpolate((7,)).sin(), A),
    "layernorm": (lambda x: x.layernorm().sin(), A),
    "batchnorm": (lambda x, w, b: x.batchnorm(w, b, x.mean((0, 2)), x.var((0, 2)).rsqrt()).sin(), A, D(3), D(3)),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), D(2, 3, 4), D(2, 3, 4), D(2, 3, 5),
    ),
    "cross_entropy": (lambda x: x.cross_entropy(PLACES[:2]), A[:, :, 0]),
    "sparse_categorical_crossentropy": (
        lambda x: x.sparse_categorical_crossentropy(PLACES, label_smoothing=0.1), D(4, 3),
    ),
    "contiguous": (lambda x: x.contiguous().contiguous_backward().sin(), A),
    "lerp": (lambda x, y: x.lerp(y, 0.3), A, B),
    "logaddexp": (lambda x, y: x.logaddexp(y), A, B),
}  # fmt: skip
D5, D43 = Tensor(D(5, 3, 4)), Tensor(D(4, 9))


@pytest.mark.parametrize("name", CASES)
def test_finite_differences(name):
    fn, *inputs = CASES[name]
    weights = Tensor(P(*fn(*map(Tensor, inputs)).shape))

    def loss(*xs: Tensor) -> Tensor:
        return (fn(*xs) * weights).sum()

    tensors = [Tensor(a) for a in inputs]
    grads = loss(*tensors).gradient(*tensors)
    for i, (g, a) in enumerate(zip(grads, inputs, strict=True)):
        assert (g.shape, g.dtype.name) == (a.shape, "float64")
        few = RNG.permutation(a.size)[:4]  # some elements each: a wrong rule is wrong everywhere
        want = numeric_at(loss, inputs, i, few)
        np.testing.assert_allclose(g.numpy().reshape(-1)[few], want, rtol=1e-4, atol=1e-6, err_msg=f"input {i}")


def numeric_at(loss, inputs: list[np.ndarray], which: int, places: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences at some elements of one input."""
    found = []
    for place in places:
        ends = []
        for sign in (step, -step):
            changed = [a.copy() for a in inputs]
            changed[which].reshape(-1)[place] += sign
            ends.append(loss(*(Tensor(a) for a in changed)).item())
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


def test_every_rule_says_what_it_does():
    for op, rule in RULES.items():
        assert "->" in rule.__doc__, op


# ---- edges


def grad(loss: Tensor, x: Tensor) -> list:
    return loss.gradient(x)[0].tolist()


def test_edges_of_functions():
    x = Tensor([-1.0, 0.0, 2.0])
    assert grad(x.relu().sum(), x) == [0.0, 0.0, 1.0]
    assert grad(x.abs().sum(), x) == [-1.0, 0.0, 1.0]
    assert grad(x.sign().sum() + x.floor().sum() + x.round().sum(), x) == [0.0, 0.0, 0.0]
    assert grad((x**2).sum(), x) == [-2.0, 0.0, 4.0]
    assert grad((x**0).sum(), x) == [0.0, 0.0, 0.0]
    y = Tensor([1.0, 3.0, 3.0])
    assert grad(y.max(), y) == [0.0, 0.5, 0.5]
    assert grad(y.maximum(Tensor([1.0, 5.0, 2.0])).sum(), y) == [0.5, 0.0, 1.0]


@pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0]])
def test_product_with_zeros(values):
    x = Tensor(values)
    want = [np.prod(values[:i] + values[i + 1 :]) for i in range(3)]
    assert grad(x.prod(), x) == pytest.approx(want)


def test_half_gradients_are_summed_in_float32():
    x = Tensor(np.ones((1, 1), np.float16))
    g = (x.expand(4096, 1) * Tensor(np.full((4096, 1), 0.1, np.float16))).sum().gradient(x)[0]
    assert g.dtype.name == "float16"
    assert g.item() == pytest.approx(409.6, rel=1e-3)


def test_a_given_gradient_and_an_independent_target():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0])
    gx, gy = (x * 3).gradient(x, y, gradient=Tensor([10.0, 100.0]))
    assert (gx.tolist(), gy.tolist()) == ([30.0, 300.0], [0.0])


def test_detach_stops_and_views_pass():
    x = Tensor([1.0, 2.0, 3.0])
    assert grad((x.detach() * x).sum(), x) == [1.0, 2.0, 3.0]
    assert grad((x[1:] * x[:-1]).sum(), x) == [2.0, 4.0, 2.0]


def test_a_view_is_a_leaf_too():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    t = x.T
    assert grad((t * t).sum(), t) == [[2.0, 6.0], [4.0, 8.0]]


def test_the_gradient_of_a_gradient():
    x = Tensor([1.0, 2.0])
    (g,) = (x * x * x).sum().gradient(x)
    assert grad(g.sum(), x) == [6.0, 12.0]


def test_a_deep_chain():
    x = Tensor([0.5])
    y = x
    for _ in range(3000):
        y = y * 1.0001
    g = y.sum().gradient(x)[0]
    assert g.shape == (1,)


def test_gradient_nodes_carry_the_forward_line():
    x = Tensor([1.0, 2.0])
    y = x.exp2()  # this line
    (g,) = y.sum().gradient(x)
    marked = [line for u in g.uop.toposort() for line in lines_of(u) if line.gradient]
    assert any("this line" in line.code for line in marked)


# ---- leaves


def test_two_equal_constants_are_two_leaves():
    a, b = Tensor.ones(3), Tensor.ones(3)
    ga, gb = (a * b * b).sum().gradient(a, b)
    assert (ga.tolist(), gb.tolist()) == ([1.0] * 3, [2.0] * 3)
    x, y = Tensor(3.0), Tensor(3.0)
    assert [g.item() for g in (x * y * y).gradient(x, y)] == [9.0, 18.0]


def test_two_tensors_of_one_expression_cannot_be_told_apart():
    x = Tensor([1.0, 2.0])
    a, b = x + 1, x + 1
    with pytest.raises(GradientError, match="told apart"):
        (a * b).sum().gradient(a, b)
    assert [g.tolist() for g in (a * a).sum().gradient(a, a)] == [[4.0, 6.0]] * 2


# ---- writes


@pytest.mark.parametrize("realized", [True, False])
def test_through_a_write_into_a_part(realized):
    x, v = Tensor([1.0, 2.0, 3.0, 4.0]), Tensor([5.0, 6.0])
    y = x.clone().realize() if realized else x + 0
    y[1:3] = v * 2
    loss = (y * y).sum()
    found = [g.tolist() for g in loss.gradient(v, y, x)]
    assert found == [[40.0, 48.0], [2.0, 20.0, 24.0, 8.0], [2.0, 0.0, 0.0, 8.0]]


@pytest.mark.parametrize("kind", ["memory", "computed", "lazy", "written", "shards", "view"])
def test_a_copy_that_is_written_leaves_the_rest_to_what_it_was_copied_from(kind):
    a = np.arange(1.0, 9.0).reshape(2, 4)
    x = {
        "memory": lambda: Tensor(a),
        "computed": lambda: (Tensor(a) * 1).realize(),
        "lazy": lambda: Tensor(a) * 1,
        "written": lambda: _written(Tensor(a)),
        "shards": lambda: Tensor(a).shard(("NUMPY", "NUMPY:1"), 1).realize(),
        "view": lambda: Tensor(np.pad(a, 1)).realize()[1:3, 1:-1],
    }[kind]()
    y = x.clone()
    y[0] = 3.0
    z = y.clone()
    z[:, 1] = z[:, 1] * x[:, 2]
    # z is [[3, 3 * x02, 3, 3], [x10, x11 * x12, x12, x13]]
    # both before the first is computed: that computes y, which is a leaf from then on
    losses = z.sum(), (z + x * 2).sum() + (y * 10).sum()
    found = [g.tolist() for g in [loss.gradient(x)[0] for loss in losses]]
    assert found[0] == [[0.0, 0.0, 3.0, 0.0], [1.0, 7.0, 7.0, 1.0]]
    assert found[1] == [[2.0, 2.0, 5.0, 2.0], [13.0, 19.0, 19.0, 13.0]]


def _written(x):
    """The same values in memory that has been written since it was made."""
    y = x.clone().realize()
    y[1, 1:3] = Tensor(np.array([6.0, 7.0]))
    return y


@pytest.mark.parametrize("compute", [Tensor.realize, Tensor.item, Tensor.numpy, Tensor.tolist])
def test_a_loss_that_is_memory_has_no_silent_zeros(compute):
    x = Tensor([1.0, 2.0]).realize()
    loss = (x * x).sum()
    compute(loss)
    with pytest.raises(GradientError, match="first, then realize"):
        loss.gradient(x)
    with pytest.raises(GradientError, match="first, then realize"):
        loss.backward()
    assert x.grad is None and grad((loss * x).sum(), x) == [5.0, 5.0]


def test_through_a_whole_write_and_a_view():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    v = Tensor([[5.0, 6.0], [7.0, 8.0]])
    x.T.assign(v)
    assert grad((x * Tensor([[1.0, 10.0], [100.0, 1000.0]])).sum(), v) == [[1.0, 100.0], [10.0, 1000.0]]


@pytest.mark.parametrize("realized", [True, False])
def test_older_values_are_refused(realized):
    x = Tensor([1.0, 2.0]).realize() if realized else Tensor([1.0, 2.0]) * 3
    loss = (x * x).sum()
    x += 1
    with pytest.raises(GradientError, match="older values"):
        loss.gradient(x)
    assert grad((x * x).sum(), x) == (x * 2).tolist()


# ---- backward


def test_backward_fills_and_adds():
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    frozen = Tensor([5.0, 6.0], requires_grad=False)
    loss = (x * w * frozen).sum()
    assert loss.backward() is loss
    assert (x.grad.tolist(), w.grad.tolist(), frozen.grad) == ([15.0, 24.0], [5.0, 12.0], None)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [17.0, 26.0]


def test_backward_of_a_drawn_parameter():
    Tensor.manual_seed(1)
    w = Tensor.uniform(3, low=-1, high=1)
    (w * w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.numpy())


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda x: x.gradient(x), ShapeError),
        (lambda x: x.sum().gradient(x.int()), DTypeError),
        (lambda x: x.int().sum().gradient(x), DTypeError),
        (lambda x: x.sum().gradient(3), DTypeError),
        (lambda x: x.gradient(x, gradient=Tensor([1.0])), ShapeError),
        (lambda x: (x * 2).backward(), ShapeError),
    ],
)
def test_wrong_uses(wrong, error):
    with pytest.raises(error):
        wrong(Tensor([1.0, 2.0]))


def test_an_op_without_a_rule_is_named(monkeypatch):
    monkeypatch.delitem(RULES, Ops.SIN)
    x = Tensor([1.0])
    with pytest.raises(GradientError, match="SIN"):
        x.sin().sum().gradient(x)
