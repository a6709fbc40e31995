"""Random numbers: the same for a seed on every run time and in upstream, independent of when draws are realized."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tinysched import Context, GlobalCounters, Tensor, plan


def draws() -> list[Tensor]:
    Tensor.manual_seed(42)
    return [
        Tensor.rand(5),
        Tensor.randn(3),
        Tensor.randint(4, low=2, high=9),
        Tensor.rand(2, 3, dtype="float16"),
        Tensor.rand(2, dtype="float64"),
        Tensor.kaiming_uniform(3, 4),
        Tensor.randperm(6),
    ]


UPSTREAM = [0.38104248046875, 0.009775400161743164, 0.1128007173538208, 0.1176995038986206, 0.505361795425415]
"""tinygrad 0.14.0: Tensor.manual_seed(42); Tensor.rand(5).tolist()"""


def test_the_stream_is_upstreams():
    assert draws()[0].tolist() == UPSTREAM


@pytest.mark.parametrize("cpu", ["numpy", "loops"])
def test_the_same_on_every_run_time(cpu):
    want = [t.numpy() for t in draws()]
    with Context(CPU=cpu):
        for found, expected in zip(draws(), want, strict=True):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_realized_in_any_order_and_together():
    want = [t.numpy() for t in draws()]
    for order in (range(7), reversed(range(7)), (3, 0, 5, 1, 6, 2, 4)):
        again = draws()
        for i in order:
            again[i].realize()
        for a, b in zip(again, want, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    together = draws()
    Tensor.realize(*together)
    for a, b in zip(together, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_a_draw_is_drawn_once():
    x = Tensor.rand(4)
    assert x.tolist() == x.tolist()
    y = Tensor.rand(4)
    assert (y - y).tolist() == [0.0] * 4
    assert x.tolist() != y.tolist()


def test_another_seed_and_the_rest_of_the_stream():
    Tensor.manual_seed(1)
    a, b = Tensor.rand(6).tolist(), Tensor.rand(6).tolist()
    Tensor.manual_seed(2)
    assert Tensor.rand(6).tolist() not in (a, b)
    Tensor.manual_seed(1)
    assert (Tensor.rand(6).tolist(), Tensor.rand(6).tolist()) == (a, b)


def test_odd_and_empty_sizes():
    assert Tensor.rand(0, 3).shape == (0, 3)
    assert Tensor.rand().shape == ()
    assert len(set(Tensor.rand(1001).tolist())) > 990


@pytest.mark.parametrize(
    ("draw", "mean", "std"),
    [
        (lambda: Tensor.rand(40, 50), 0.5, 12**-0.5),
        (lambda: Tensor.randn(40, 50), 0, 1),
        (lambda: Tensor.normal(2000, mean=3.0, std=2.0), 3, 2),
        (lambda: Tensor.uniform(2000, low=-1.0, high=3.0), 1, 4 * 12**-0.5),
        (lambda: Tensor.randint(2000, low=-3, high=3), -0.5, (35 / 12) ** 0.5),
        (lambda: Tensor.scaled_uniform(50, 40), 0, 2000**-0.5 * 3**-0.5),
        (lambda: Tensor.glorot_uniform(50, 40), 0, (6 / 90) ** 0.5 * 3**-0.5),
        (lambda: Tensor.kaiming_normal(50, 40), 0, (2 / 1.0001 / 40) ** 0.5),
        (lambda: Tensor.empty(30, 30).rand_like(), 0.5, 12**-0.5),
        (lambda: Tensor.empty(30, 30).randn_like(), 0, 1),
    ],
)
def test_distributions(draw, mean, std):
    Tensor.manual_seed(5)
    a = draw().numpy().astype(np.float64)
    assert abs(a.mean() - mean) < 5 * std / a.size**0.5
    assert a.std() == pytest.approx(std, rel=0.1)


def test_ranges_are_half_open():
    a = Tensor.randint(3000, low=2, high=5).numpy()
    assert set(a.tolist()) == {2, 3, 4}
    b = Tensor.rand(3000).numpy()
    assert b.min() >= 0
    assert b.max() < 1


def test_permutation_and_multinomial():
    assert sorted(Tensor.randperm(17).tolist()) == list(range(17))
    drawn = Tensor([0.0, 1.0, 3.0, 0.0]).multinomial(400, replacement=True).numpy()
    assert set(drawn.tolist()) == {1, 2}
    assert 0.6 < (drawn == 2).mean() < 0.9
    rows = Tensor([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]]).multinomial(3).numpy()
    assert np.sort(rows, 1).tolist() == [[0, 1, 2]] * 2


def test_dropout():
    x = Tensor.ones(50, 40)
    assert x.dropout(0.5).uop is x.uop
    with Context(TRAINING=1):
        a = x.dropout(0.25).numpy()
        assert x.dropout(1.0).numpy().sum() == 0
        assert x.dropout(0.0).uop is x.uop
    assert set(np.unique(a)) == {0.0, np.float32(1 / 0.75)}
    assert 0.2 < (a == 0).mean() < 0.3


def test_the_same_program_hits_the_cache():
    def step() -> Tensor:
        with Context(TRAINING=1):
            return (Tensor.rand(8, 9).dropout(0.5) + Tensor.randn(9)).realize()

    Tensor.manual_seed(3)
    values = [step().numpy(), step().numpy()]
    before = GlobalCounters.kernel_count
    step()
    per_step = GlobalCounters.kernel_count - before
    values.append(step().numpy())
    assert GlobalCounters.kernel_count - before == 2 * per_step
    assert len({v.tobytes() for v in values}) == len(values)


def kernels(count: int) -> int:
    Tensor.manual_seed(1)
    return len(plan(*(Tensor.rand(4, 5) for _ in range(count))).linear.src)


def test_lazily_drawn_parameters_take_few_kernels():
    assert kernels(20) <= 59  # upstream's


def test_planning_many_draws_grows_linearly():
    kernels(10)  # warm
    times = []
    for count in (30, 120):
        best = float("inf")
        for _ in range(3):
            Tensor.manual_seed(1)
            tensors = [Tensor.rand(4, 5) for _ in range(count)]
            start = time.process_time()
            with Context(SCACHE=0):
                plan(*tensors)
            best = min(best, time.process_time() - start)
        times.append(best)
    assert times[1] < 8 * times[0]
