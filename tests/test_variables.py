"""Variables: bound numbers in shapes, offsets and values; one schedule for all values; NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graphs import examples
from tinysched import Context, GlobalCounters, Tensor, UOp, Variable, clear_caches, dtypes, plan, run_linear
from tinysched.errors import ArgumentError, IndexingError, ShapeError
from tinysched.schedule.pipeline import schedule_cache

N = Variable("n", 0, 8)  # a length
P = Variable("p", 0, 7)  # a position


@pytest.fixture(params=["numpy", "loops"], autouse=True)
def cpu(request):
    with Context(CPU=request.param):
        yield request.param


def grid() -> np.ndarray:
    return np.arange(16, dtype=np.float32).reshape(2, 8)


def real(a) -> Tensor:
    return Tensor(a).realize()


def same(found, wanted) -> None:
    found = found.numpy() if isinstance(found, Tensor) else found
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ** in shapes, offsets and values **

PREFIX = {
    "plus": (lambda x: x + 1, lambda a: a + 1),
    "sum": (lambda x: (x * 2).sum(), lambda a: (a * 2).sum()),
    "row sums": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "column sums": (lambda x: x.sum(0), lambda a: a.sum(0)),
    "flip": (lambda x: x.flip(1).contiguous(), lambda a: a[:, ::-1]),
    "transpose": (lambda x: x.T.contiguous(), lambda a: a.T),
    "merge axes": (lambda x: x.reshape(-1) + 1, lambda a: a.reshape(-1) + 1),
    "outer product": (lambda x: x.T @ x, lambda a: a.T @ a),
    "inner product": (lambda x: x @ x.T, lambda a: a @ a.T),
    "kept in memory": (lambda x: (x + 1).contiguous().exp().sum(), lambda a: np.exp(a + 1).sum()),
    "cat of itself": (lambda x: x.cat(x, dim=0), lambda a: np.concatenate([a, a])),
    "cat with more": (lambda x: x.cat(real(grid()), dim=1), lambda a: np.concatenate([a, grid()], 1)),
}
NOT_EMPTY = {
    "max": (lambda x: x.max(1), lambda a: a.max(1)),
    "mean": (lambda x: x.mean(), lambda a: a.mean()),
    "softmax": (lambda x: x.softmax(-1), softmax),
}


@pytest.mark.parametrize("n", [0, 1, 5, 8])
@pytest.mark.parametrize("name", PREFIX)
def test_a_prefix(name, n):
    ours, numpys = PREFIX[name]
    same(ours(real(grid())[:, : N.bind(n)]), numpys(grid()[:, :n]))


@pytest.mark.parametrize("n", [1, 5, 8])
@pytest.mark.parametrize("name", NOT_EMPTY)
def test_a_prefix_that_is_not_empty(name, n):
    ours, numpys = NOT_EMPTY[name]
    same(ours(real(grid())[:, : N.bind(n)]), numpys(grid()[:, :n]))


@pytest.mark.parametrize("n", [0, 3, 8])
def test_padded_back_to_the_full_size(n):
    bound = N.bind(n)
    padded = real(grid() / 8)[:, :bound].pad(((0, 0), (0, 8 - bound)))
    same(padded.exp(), np.exp(np.pad(grid()[:, :n] / 8, ((0, 0), (0, 8 - n)))))


@pytest.mark.parametrize("p", [0, 3, 7])
def test_a_position(p):
    x, a = real(grid()), grid()
    same(x[:, P.bind(p)], a[:, p])
    same(x[:, P.bind(p) :].sum(1), a[:, p:].sum(1))
    same(x[:, P.bind(p) : P.bind(p) + 1] * 2, a[:, p : p + 1] * 2)


@pytest.mark.parametrize("n", [0, 3, 8])
def test_as_a_value(n):
    x = real(grid())
    same(x + Tensor(N.bind(n)), grid() + n)
    same(x * N.bind(n), grid() * n)
    same((x[:, : N.bind(n)] * Tensor(N.bind(n)).cast(dtypes.float32)).sum(), (grid()[:, :n] * n).sum())


@pytest.mark.parametrize("n", [0, 3, 8])
def test_counted_up_to_a_variable(n):
    same(Tensor.arange(N.bind(n)), np.arange(n))
    same(Tensor.arange(2, N.bind(n) + 2), np.arange(2, n + 2))
    same(Tensor.ones(3, N.bind(n)), np.ones((3, n)))


@pytest.mark.parametrize("n", [3, 8])
def test_picked_rows_of_a_prefix(n):
    a, pick = np.arange(24, dtype=np.float32).reshape(8, 3), np.array([0, 2, 1], np.int32)
    same(real(a)[: N.bind(n)][real(pick)], a[:n][pick])
    same(real(a)[real(pick) + N.bind(n - 3)], a[pick + n - 3])


@pytest.mark.parametrize("n", [1, 4, 8])
def test_attention_to_a_prefix(n):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 4, 1, 6)).astype(np.float32), rng.standard_normal((1, 2, 8, 6)).astype(np.float32)
    prefix = real(k)[:, :, : N.bind(n)]
    repeated = np.repeat(k[:, :, :n], 2, axis=1)
    wanted = softmax(q @ repeated.swapaxes(-1, -2) / np.sqrt(6)) @ repeated
    same(real(q).scaled_dot_product_attention(prefix, prefix, enable_gqa=True), wanted)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_gradient_of_a_prefix(n):
    x, wanted = real(grid()), np.zeros((2, 8), np.float32)
    wanted[:, :n] = 2 * grid()[:, :n]
    same((x[:, : N.bind(n)] ** 2).sum().gradient(x)[0], wanted)


def test_a_variable_that_can_only_be_one_number():
    one, x, a = Variable("one", 1, 1).bind(1), real(grid()), grid()
    same(x[:, :one] + 1, a[:, :1] + 1)
    same(x[:, :one].sum(), a[:, :1].sum())
    x[:, :one] = 3.0
    a[:, :1] = 3
    same(x, a)


def test_equal_sizes_are_one_size():
    x, p = Tensor.empty(2, 8), P.bind(2)
    assert x[:, p : p + 1].shape == (2, 1)
    assert x[:, :p].shape == (x[:, : p + 1][:, 1:] + 0).shape
    assert x[:, :p].reshape(-1).reshape(2, -1).shape == x[:, :p].shape


def test_memory_is_of_the_largest_size():
    kept = (real(grid())[:, : N.bind(3)] + 1).realize()
    assert kept.uop.base.arg.size == 16
    same(kept, grid()[:, :3] + 1)


# ** one schedule for all values **


def test_another_value_hits_the_cache():
    clear_caches()
    x = real(grid())
    for n in (3, 7, 8):
        same(x[:, : N.bind(n)].sum(), grid()[:, :n].sum())
        assert len(schedule_cache) == 1


def test_values_travel_beside_the_kernels():
    y = real(grid())[:, : N.bind(3)].sum()
    linear, var_vals = Tensor.linear_with_vars(y)
    assert var_vals == {"n": 3} == dict(plan(y).var_vals)
    with pytest.raises(ArgumentError, match="'n' has no value"):
        run_linear(linear)
    with pytest.raises(ArgumentError, match="'n' is 9"):
        run_linear(linear, {"n": 9})
    run_linear(linear, {"n": 5})
    same(y, grid()[:, :5].sum())


def test_a_variable_that_no_kernel_uses_has_no_value():
    assert dict(plan(real(grid())[:, P.bind(3) : P.bind(3) + 1].shape[1] * real(grid())).var_vals) == {}


def test_work_is_that_of_the_value():
    def ops(n: int) -> int:
        y = real(grid())[:, : N.bind(n)].sum()
        GlobalCounters.reset()
        y.realize()
        return GlobalCounters.global_ops

    assert ops(8) == 4 * ops(2)


def test_a_value_outside_of_the_bounds():
    with pytest.raises(ArgumentError, match="n cannot be 9"):
        N.bind(9)
    with pytest.raises(ArgumentError, match="no Variable"):
        UOp.const(3).bind(3)
    with pytest.raises(IndexingError, match="a step of 1"):
        Tensor.empty(8)[: N.bind(3) : 2]


def test_outside_of_the_tensor():
    x = Tensor.empty(2, 8)
    for index in (slice(P.bind(6), P.bind(6) + 3), slice(P.bind(5), P.bind(4)), Variable("q", 0, 20).bind(8)):
        with pytest.raises(IndexingError, match="of an axis of 8") as error:
            x[:, index]
        assert "test_variables.py" in error.value.where
    with pytest.raises(ShapeError, match="shrink to"):
        x.shrink(((0, 2), (P.bind(6), P.bind(6) + 3)))
    with pytest.raises(ShapeError, match="6 elements against 9"):
        x[:, : N.bind(3)].reshape(3, N.bind(3))
    assert x[:, : N.bind(3)].reshape(3, 2).shape == (3, 2)


# ** two values **


def test_two_values_in_one_expression():
    x = real(grid())
    with pytest.raises(ArgumentError, match="n is bound to 3 and to 4 in one expression") as error:
        (x[:, : N.bind(3)].sum() + x[:, : N.bind(4)].sum()).realize()
    assert "test_variables.py" in error.value.where
    with pytest.raises(ArgumentError, match="in one expression"):
        (Tensor(N.bind(3)) + Tensor(N.bind(4)) + x).realize()


def test_two_values_in_two_expressions():
    x = real(grid())
    y, z = x[:, : N.bind(3)].sum(), x[:, : N.bind(5)].sum()
    Tensor.realize(y, z)
    same(y, grid()[:, :3].sum())
    same(z, grid()[:, :5].sum())


# ** writes **


def test_pending_writes_at_two_positions():
    x, a = real(np.zeros((2, 8), np.float32)), np.zeros((2, 8), np.float32)
    for p in (2, 4, 2, 6):
        x[:, P.bind(p) : P.bind(p) + 1] = float(p)
        a[:, p] = p
    same(x, a)
    x[:, P.bind(3) :] = 1.0
    x[:, P.bind(5) :] = 2.0
    a[:, 3:], a[:, 5:] = 1, 2
    same(x, a)


def test_writes_into_a_value_that_is_not_computed_yet():
    x, a = Tensor.zeros(2, 8), np.zeros((2, 8), np.float32)
    for p in (3, 5, 1):
        x[:, P.bind(p)] = Tensor(P.bind(p)).cast(dtypes.float32)
        a[:, p] = p
    same(x, a)


def test_reads_between_writes():
    x = real(np.zeros((2, 8), np.float32))
    x[:, P.bind(2)] = 5.0
    first = x[:, : P.bind(2) + 1].sum()
    x[:, P.bind(3)] = 6.0
    second = x[:, : P.bind(3) + 1].sum()
    Tensor.realize(first, second)
    same(first, 10.0)
    same(second, 22.0)


def test_a_write_that_reads_its_neighbour():
    x, a = real(grid()), grid()
    for p in (1, 2, 3):
        x[:, P.bind(p)] = x[:, P.bind(p) - 1] + 1
        a[:, p] = a[:, p - 1] + 1
    same(x, a)
    x[:, : N.bind(3)] = x[:, 1 : N.bind(3) + 1] * 2
    a[:, :3] = a[:, 1:4] * 2
    same(x, a)


def test_a_part_written_while_the_old_value_is_held():
    x = real(grid())
    old = x + 1
    x[:, : N.bind(3)] = 5.0
    x.realize()
    wanted = grid()
    wanted[:, :3] = 5
    same(x, wanted)
    same(old, grid() + 1)


def test_a_part_at_a_position_is_a_view():
    x, a = real(grid()), grid()
    part = x[:, P.bind(2) : P.bind(2) + 3]
    assert part.is_view
    part.assign(part * 10)
    a[:, 2:5] *= 10
    same(x, a)
    part[0].assign(Tensor([1.0, 2.0, 3.0]))
    a[0, 2:5] = 1, 2, 3
    same(x, a)
    x[:, 4] = 0.0
    a[:, 4] = 0
    same(part, a[:, 2:5])


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(["write", "read", "add", "realize"]), st.integers(0, 7)), max_size=8))
def test_any_writes_and_reads(steps):
    x, a, reads = real(grid()), grid(), []
    for kind, p in steps:
        at = P.bind(p)
        if kind == "write":
            x[:, at:] = x[:, at : at + 1] * 2
            a[:, p:] = a[:, p : p + 1] * 2
        elif kind == "add":
            x[:, : at + 1] += Tensor(at)
            a[:, : p + 1] += p
        elif kind == "read":
            reads.append((x[:, at:].sum(1), a[:, p:].sum(1)))
        else:
            x.realize()
    for found, wanted in reads:
        same(found, wanted)
    same(x, a)
