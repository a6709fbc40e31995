"""Training steps, end to end: the workloads' MLP and MNIST networks by hand in NumPy and in torch, for ours and the peer.

In: a library. Out: a function that takes one step (forward, gradients, SGD), any number of times.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.libs import Lib
from benchmarks.workloads import WORKLOADS, Kit

LR: Final = 1e-5
"""So small that a thousand steps change no figure: no number overflows."""
DIMS: Final = (784, 512, 256, 10)
BATCH: Final = 64


class SameInputs(Kit):
    """A Kit whose inputs are drawn once: a step that is built again goes on with the parameters of the last one."""

    def __init__(self, lib: Lib) -> None:
        super().__init__(lib, seed=0)
        self.drawn: list[Any] = []
        self.at = 0

    def again(self) -> SameInputs:
        self.at = 0
        return self

    def _next(self, draw: Callable[..., Any], *shape: int, **more: int) -> Any:
        if self.at == len(self.drawn):
            self.drawn.append(draw(*shape, **more))
        self.at += 1
        return self.drawn[self.at - 1]

    def E(self, *shape: int) -> Any:
        return self._next(super().E, *shape)

    def P(self, *shape: int) -> Any:
        return self._next(super().P, *shape)

    def EI(self, *shape: int, hi: int) -> Any:
        return self._next(super().EI, *shape, hi=hi)


def tensors_of_step(name: str, kit: SameInputs) -> list[Any]:
    """The Tensors of one step of ``mlp`` or ``mnist``; the first is the loss."""
    return WORKLOADS[f"{name}_train_sgd"](kit.again(), lr=LR)


# ** by hand **


def mlp_by_hand() -> Callable[[], Any]:
    """Three layers with relu, cross entropy, backpropagation written out, SGD in place."""
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((i, o)) * 0.05).astype(np.float32) for i, o in itertools.pairwise(DIMS)]
    biases = [np.zeros(o, np.float32) for o in DIMS[1:]]
    x, labels = rng.standard_normal((BATCH, DIMS[0])).astype(np.float32), rng.integers(0, DIMS[-1], BATCH)
    lr = np.float32(LR)

    def step() -> Any:
        kept = [x]
        for i, (w, b) in enumerate(zip(weights, biases)):
            h = kept[-1] @ w + b
            kept.append(np.maximum(h, 0) if i + 1 < len(weights) else h)
        logits = kept.pop()
        e = np.exp(logits - logits.max(1, keepdims=True))
        share = e / e.sum(1, keepdims=True)
        loss = -np.log(share[np.arange(BATCH), labels]).mean()
        share[np.arange(BATCH), labels] -= 1
        g = share / np.float32(BATCH)
        for i in reversed(range(len(weights))):
            below = g @ weights[i].T * (kept[i] > 0) if i else None
            weights[i] -= lr * (kept[i].T @ g)
            biases[i] -= lr * g.sum(0)
            g = below
        return loss

    return step


# ** torch **


def in_torch(name: str) -> Callable[[], Any]:
    """The same networks of torch's own modules."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if name == "mlp":
        layers: list[Any] = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
        x = torch.randn(BATCH, 784)
    else:
        first = [nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2)]
        then = [nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2)]
        layers = [*first, *then, nn.Flatten(), nn.Linear(576, 10)]
        x = torch.randn(BATCH, 1, 28, 28)
    model, labels = nn.Sequential(*layers), torch.randint(0, 10, (BATCH,))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step
