"""Programs on several devices against one device and against the peer: the same values, never more kernels or bytes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from benchmarks.devices import Moved, block, mlp_step, moved, training
from benchmarks.libs import Lib, Ours

OPTIMIZERS = [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {})]


def peer() -> Lib:
    from benchmarks.peer import Peer

    return Peer("NULL")


def mlp_counts(lib: Lib, n: int, optimizer: str, options: dict[str, Any]) -> list[Moved]:
    """What each of two steps runs: in the second the optimizer's own state is memory."""
    with lib.settings(), training(lib):
        step = mlp_step(lib, n, optimizer, **options)
        found = []
        for _ in range(2):
            made = step()
            found.append(moved(lib.linear(made)))
            lib.module.Tensor.realize(*made)
        return found


def block_counts(lib: Lib, n: int, gradients: bool) -> Moved:
    with lib.settings():
        return moved(lib.linear(block(lib, n, gradients)))


# ** the values of one device **


@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_a_data_parallel_mlp_learns_what_one_device_learns(optimizer: str, options: dict[str, Any]) -> None:
    lib, learned = Ours(), []
    for n in (1, 2, 4):
        with lib.settings(), training(lib):
            step = mlp_step(lib, n, optimizer, **options)
            learned.append([value for _ in range(3) for value in lib.values(step())])
    for other in learned[1:]:
        for got, want in zip(other, learned[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_tensor_parallel_block_computes_what_one_device_computes(gradients: bool) -> None:
    lib = Ours()
    with lib.settings():
        one, two, four = (lib.values(block(lib, n, gradients)) for n in (1, 2, 4))
    for got in (two, four):
        for a, b in zip(got, one, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


# ** counts **


@pytest.mark.skipif(find_spec("tinygrad") is None, reason="no tinygrad; it comes with the extra `test`")
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_a_data_parallel_step_is_never_more_than_the_peers(n: int, optimizer: str, options: dict[str, Any]) -> None:
    for ours, theirs in zip(mlp_counts(Ours(), n, optimizer, options), mlp_counts(peer(), n, optimizer, options)):
        assert all(a <= b for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.mark.skipif(find_spec("tinygrad") is None, reason="no tinygrad; it comes with the extra `test`")
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_tensor_parallel_block_is_never_more_than_the_peers(n: int, gradients: bool) -> None:
    ours, theirs = block_counts(Ours(), n, gradients), block_counts(peer(), n, gradients)
    assert all(a <= b for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.mark.parametrize("n", [2, 4])
def test_what_a_data_parallel_step_moves_is_its_gradients(n: int) -> None:
    """Naively, each device sends each gradient (and the loss) to every other one; no activation crosses."""
    parameters = 16 * 12 + 16 + 8 * 16 + 8
    first, second = mlp_counts(Ours(), n, "SGD", {})
    assert first == second
    assert second.copies == n * (n - 1) * 5
    assert second.bytes == n * (n - 1) * 4 * (parameters + 1)


@pytest.mark.parametrize("n", [2, 4])
def test_a_tensor_parallel_block_moves_two_activations(n: int) -> None:
    """One allreduce after the attention, one after the MLP: each of the size of the activations."""
    found = block_counts(Ours(), n, gradients=False)
    assert (found.copies, found.bytes) == (2 * n * (n - 1), 2 * n * (n - 1) * 2 * 8 * 16 * 4)
