"""Bad input: an error that says what, where and how to mend it, and nothing is changed."""

from __future__ import annotations

import numpy as np
import pytest

from tinysched import Tensor, UOp, Variable
from tinysched.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    ShapeError,
    TinyschedError,
)

X = Tensor.empty(2, 3, 4)
Y = Tensor.empty(2, 5)
N = Tensor.empty(3, dtype="int32")

CASES = [
    # shapes and axes
    (lambda: X.reshape(5, 5), ShapeError),
    (lambda: X.reshape(-1, -1), ShapeError),
    (lambda: X.reshape(7, -1), ShapeError),
    (lambda: X.reshape(2.5, 4), DTypeError),
    (lambda: X.permute(0, 1), ShapeError),
    (lambda: X.permute(0, 1, 1), ShapeError),
    (lambda: X.transpose(0, 3), ShapeError),
    (lambda: X.flip(0, 0), ShapeError),
    (lambda: X.expand(2, 6, 4), ShapeError),
    (lambda: X.expand(3, 4), ShapeError),
    (lambda: X.shrink(((0, 1), (0, 9), (0, 1))), ShapeError),
    (lambda: X.shrink(((0, 1),)), ShapeError),
    (lambda: X.pad((1, 2, 3)), ShapeError),
    (lambda: X.pad(((1, 1),)), ShapeError),
    (lambda: X.pad((1, 1), mode="wrong"), ArgumentError),
    (lambda: X.pad((4, 0), mode="reflect"), ArgumentError),
    (lambda: X.pad((5, 0), mode="circular"), ArgumentError),
    (lambda: X.split(0), ArgumentError),
    (lambda: X.split([1, 2]), ShapeError),
    (lambda: X.chunk(0), ArgumentError),
    (lambda: X.repeat(2), ShapeError),
    (lambda: X.stack(Y), ShapeError),
    (lambda: X.cat(Y), ShapeError),
    (lambda: X.cat(Tensor.empty(2, 3, 5), dim=1), ShapeError),
    (lambda: Tensor(1.0).cat(Tensor(2.0)), ShapeError),
    (lambda: Tensor.cat(*[]), TypeError),
    (lambda: Tensor.stack([]), ArgumentError),
    (lambda: X.unfold(1, 9, 1), ShapeError),
    (lambda: X.unfold(1, 2, 0), ArgumentError),
    (lambda: X.diag(), ShapeError),
    (lambda: X.diagonal(0, 1, 1), ShapeError),
    (lambda: X.meshgrid(N, indexing="no"), ArgumentError),
    (lambda: X.squeeze(3), ShapeError),
    (lambda: X.unsqueeze(5), ShapeError),
    (lambda: N.triu(), ShapeError),
    # operands
    (lambda: X + Y, ShapeError),
    (lambda: N.where(X, Y), ShapeError),
    (lambda: X + "a", DTypeError),
    (lambda: X + None, DTypeError),
    (lambda: X & X, DTypeError),
    (lambda: X << 1, DTypeError),
    (lambda: ~X, DTypeError),
    (lambda: N**-1, DTypeError),
    (lambda: X.div(2, rounding_mode="up"), ArgumentError),
    (lambda: X.clamp(), ArgumentError),
    (lambda: X.gelu("no"), ArgumentError),
    (lambda: X.cast("float31"), DTypeError),
    (lambda: Tensor(1).bitcast("float32"), DTypeError),
    (lambda: Tensor.empty(3, dtype="uint8").bitcast("int32"), ShapeError),
    (lambda: X @ Y, ShapeError),
    (lambda: X @ 2, DTypeError),
    (lambda: X @ Tensor(1.0), ShapeError),
    (lambda: bool(X), ArgumentError),
    (lambda: float(X), ShapeError),
    (lambda: int(X), ShapeError),
    (lambda: X.realize(3), DTypeError),
    (lambda: Tensor.einsum("i.k->i", X), ArgumentError),
    (lambda: Tensor.einsum("1jk", X), ArgumentError),
    (lambda: Tensor.einsum("......", X), ArgumentError),
    (lambda: Tensor.einsum("ij->k->i", Y), ArgumentError),
    (lambda: Tensor.einsum("ij", X), ShapeError),
    (lambda: Tensor.einsum("ij,ij", Y, X[0]), ShapeError),
    (lambda: X.flatten(1, 0), ShapeError),
    (lambda: X.pad(1), ShapeError),
    (lambda: Variable("n", 5, 1), ArgumentError),
    (lambda: N.sum().backward(), DTypeError),
    # reductions
    (lambda: X.sum(3), ShapeError),
    (lambda: X.sum((0, 0)), ShapeError),
    (lambda: X.sum((0, -3)), ShapeError),
    (lambda: X.sum("a"), DTypeError),
    (lambda: Tensor.empty(3, 0).max(), ShapeError),
    (lambda: Tensor.empty(3, 0).min(1), ShapeError),
    (lambda: Tensor.empty(0).argmax(), ShapeError),
    (lambda: Tensor.empty(3, 0).argmin(1), ShapeError),
    (lambda: X.topk(5, 1), ArgumentError),
    (lambda: X.topk(2, sorted_=False), ArgumentError),
    (lambda: len(Tensor(1.0)), ShapeError),
    (lambda: X.item(), ShapeError),
    # indexing
    (lambda: X[2], IndexingError),
    (lambda: X[0, 0, 0, 0], IndexingError),
    (lambda: X[..., ...], IndexingError),
    (lambda: X[1.5], IndexingError),
    (lambda: X["a"], IndexingError),
    (lambda: X[::0], IndexingError),
    (lambda: X["a":], IndexingError),
    (lambda: X[True], IndexingError),
    (lambda: X[[0, 2]], IndexingError),
    (lambda: X[[0.5]], IndexingError),
    (lambda: X[[True, False, True]], IndexingError),
    (lambda: X[Tensor([True, False])], IndexingError),
    (lambda: X[Tensor([0.5])], IndexingError),
    (lambda: X[[0, 1], [0, 1, 2]], IndexingError),
    (lambda: iter(Tensor(1.0)), IndexingError),
    (lambda: X.gather(0, N), IndexingError),
    (lambda: X.gather(0, X), IndexingError),
    (lambda: Y.gather(1, Tensor.empty(9, 1, dtype="int32")), IndexingError),
    (lambda: X.one_hot(3), IndexingError),
    (lambda: N.one_hot(-1), IndexingError),
    (lambda: Y.scatter(1, Tensor.empty(2, 9, dtype="int32"), Y), ShapeError),
    (lambda: Y.scatter(1, Tensor.empty(2, 5, dtype="int32"), Y.int()), DTypeError),
    (lambda: Y.scatter(1, Tensor.empty(2, 5, dtype="int32"), 1, reduce="no"), ArgumentError),
    (lambda: Y.scatter_reduce(1, Tensor.empty(2, 5, dtype="int32"), Y, "no"), ArgumentError),
    (lambda: X.masked_select(X), DTypeError),
    # creation
    (lambda: Tensor([[1, 2], [3]]), ShapeError),
    (lambda: Tensor("abc"), DTypeError),
    (lambda: Tensor(["a"]), DTypeError),
    (lambda: Tensor(object()), DTypeError),
    (lambda: Tensor(2**70), DTypeError),
    (lambda: Tensor(np.array(["a"])), DTypeError),
    (lambda: Tensor(np.array([1j])), DTypeError),
    (lambda: Tensor(UOp.sink()), DTypeError),
    (lambda: Tensor.empty(-1), ShapeError),
    (lambda: Tensor.zeros(2.5), DTypeError),
    (lambda: Tensor.full((2,), "a"), DTypeError),
    (lambda: Tensor.arange(0, 5, 0), ArgumentError),
    (lambda: Tensor.arange(300, dtype="uint8"), ArgumentError),
    (lambda: Tensor.linspace(0, 1, -1), ArgumentError),
    (lambda: Tensor.eye(-2), ShapeError),
    (lambda: Tensor.empty(2, device="NOWHERE"), TinyschedError),
    (lambda: X.to("NOWHERE"), TinyschedError),
    # random numbers
    (lambda: Tensor.rand(2, dtype="int32"), DTypeError),
    (lambda: Tensor.randn(2, dtype="int8"), DTypeError),
    (lambda: Tensor.rand(-2), ShapeError),
    (lambda: Tensor.randint(2, low=3, high=3), ArgumentError),
    (lambda: Tensor.randint(2, low=0.5), DTypeError),
    (lambda: Tensor.randint(2, dtype="float32"), DTypeError),
    (lambda: Tensor.uniform(2, low=3, high=2), ArgumentError),
    (lambda: Tensor.normal(2, std=-1), ArgumentError),
    (lambda: X.dropout(2), ArgumentError),
    (lambda: X.multinomial(), ArgumentError),
    # networks
    (lambda: X.conv2d(Tensor.empty(4, 2, 1)), ShapeError),
    (lambda: X.conv2d(Tensor.empty(4, 3, 5)), ShapeError),
    (lambda: X.conv2d(Tensor.empty(4, 3, 1, 1)), ShapeError),
    (lambda: Tensor.empty(1, 3, 8, 8).conv2d(Tensor.empty(4, 3, 3, 3), padding=(1, 1, 1)), ArgumentError),
    (lambda: Tensor.empty(1, 3, 8, 8).conv2d(Tensor.empty(4, 3, 3, 3), stride=(1, 1, 1)), ArgumentError),
    (lambda: X.max_pool2d((9, 9)), ShapeError),
    (lambda: N.avg_pool2d(), ShapeError),
    (lambda: X.interpolate((2,), mode="cubic"), ArgumentError),
    (lambda: X.interpolate((2, 2, 2, 2)), ShapeError),
    (lambda: X.scaled_dot_product_attention(X, X, X, is_causal=True), ArgumentError),
    (lambda: Y.cross_entropy(N), ShapeError),
    (lambda: Y.cross_entropy(N[:2], "no"), ArgumentError),
    (lambda: Y.cross_entropy(N[:2], label_smoothing=2), ArgumentError),
    (lambda: Tensor.einsum("ij,jk->ik", X, Y), ShapeError),
    (lambda: Tensor.einsum("ij", Y, Y), ArgumentError),
    (lambda: Tensor.einsum("ij->ik", Y), ArgumentError),
    (lambda: Tensor.einsum("ij,jk", Y, Y), ShapeError),
]


@pytest.mark.parametrize(("wrong", "error"), CASES)
def test_it_is_refused(wrong, error):
    with pytest.raises(error) as caught:
        wrong()
    assert str(caught.value)


def test_an_error_names_the_line_and_the_remedy():
    bad = Tensor.empty(2, 3)
    with pytest.raises(ShapeError) as caught:
        bad.reshape(5)
    assert str(caught.value).splitlines() == [
        "cannot reshape (2, 3) to (5,)",
        "  where: RESHAPE of shape (2, 3), made at test_tensor_errors.py:"
        f"{caught.traceback[0].lineno - 1}: bad = Tensor.empty(2, 3)",
        "  help: 6 elements against 5",
    ]


def test_python_finds_its_own_kind_of_error():
    with pytest.raises(ValueError, match="broadcast"):
        X + Y
    with pytest.raises(IndexError):
        X[2]
    with pytest.raises(TypeError):
        X & X


def test_a_name_from_elsewhere_says_what_it_is_called_here():
    for name, here in {"astype": "cast", "cuda": "CUPY", "add_": r"\+=", "copy": "clone"}.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'\n  help: here it is .*{here}"):
            getattr(X, name)
    assert not hasattr(X, "nonsense") and getattr(X, "__array_interface__", None) is None
