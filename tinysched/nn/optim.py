"""Optimizers: from gradients to new parameters, as writes in place that run in one schedule.

In: parameters with ``grad`` filled by ``backward()``. Out: the same Tensors with new values.

>>> from tinysched import Tensor
>>> w = Tensor([1.0, 2.0])
>>> opt = SGD([w], lr=0.5)
>>> _ = (w * w).sum().backward()
>>> opt.step()
>>> w.tolist()
[0.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Sequence

from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError, GradientError
from tinysched.ir.lines import where as place
from tinysched.tensor import Tensor


class Optimizer:
    """What all optimizers share. ``lr`` is memory, so another rate needs no new schedule: ``opt.lr.assign([0.1])``."""

    def __init__(self, params: Sequence[Tensor], lr: float, device: str | None = None):
        if lr < 0:
            raise ArgumentError(f"a learning rate of {lr}", help="not negative")
        unique = list({id(p): p for p in params}.values())
        self.params = [p for p in unique if p.is_param and p.requires_grad is not False]
        self.buffers = [p for p in unique if not p.is_param]
        if not self.params:
            raise ArgumentError("an optimizer without parameters", help="give nn.state.get_parameters(model)")
        self.device = device or self.params[0].device
        self.lr = Tensor([lr], device=self.device, dtype=dtypes.float32)

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for p in self.params:
            p.grad = None

    def step(self) -> None:
        """Computes and writes the new parameters. Raises :class:`GradientError` for one without a gradient."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Writes the new parameters lazily; the Tensors that have to be realized."""
        missing = next((p for p in self.params if p.grad is None), None)
        if missing is not None:
            raise GradientError(
                f"a parameter of shape {missing.shape} has no gradient",
                where=place(missing.uop),
                help="call backward()",
            )
        kept = self._before()
        for i, p in enumerate(self.params):
            assert p.grad is not None
            p.assign(p.detach() - self._update(i, p, p.grad.cast(dtypes.float32)).cast(p.dtype))
        return [*kept, *self.params, *self.buffers]

    def _before(self) -> list[Tensor]:
        """What is done once per step; the Tensors that the optimizer itself keeps."""
        return []

    def _update(self, i: int, p: Tensor, g: Tensor) -> Tensor:
        """What is taken off parameter number ``i``."""
        raise NotImplementedError

    def _zeros(self) -> list[Tensor]:
        return [Tensor.zeros(p.shape, dtype=dtypes.float32, device=p.device) for p in self.params]


class SGD(Optimizer):
    """Gradient descent: ``p -= lr * g``, with a decaying sum of past gradients if there is a momentum."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        device: str | None = None,
    ):
        if momentum < 0 or weight_decay < 0:
            raise ArgumentError(f"momentum {momentum}, weight_decay {weight_decay}", help="not negative")
        super().__init__(params, lr, device)
        self.momentum, self.wd, self.nesterov = momentum, weight_decay, nesterov
        self.b = self._zeros() if momentum else []

    def _before(self) -> list[Tensor]:
        return self.b

    def _update(self, i: int, p: Tensor, g: Tensor) -> Tensor:
        if self.wd:
            g = g + p.detach() * self.wd
        if self.momentum:
            self.b[i].assign(self.b[i] * self.momentum + g)
            g = g + self.b[i] * self.momentum if self.nesterov else self.b[i]
        return g * self.lr


class AdamW(Optimizer):
    """Kingma and Ba's Adam with the weight decay of Loshchilov and Hutter: running means of ``g`` and ``g * g``,
    corrected for their start at 0."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        device: str | None = None,
    ):
        if weight_decay < 0:
            raise ArgumentError(f"weight_decay {weight_decay}", help="not negative")
        super().__init__(params, lr, device)
        self.b1, self.b2, self.eps, self.wd = b1, b2, eps, weight_decay
        self.b1_t, self.b2_t = (Tensor.ones((1,), dtype=dtypes.float32, device=self.device) for _ in range(2))
        self.m, self.v = self._zeros(), self._zeros()

    def _before(self) -> list[Tensor]:
        self.b1_t.assign(self.b1_t * self.b1)
        self.b2_t.assign(self.b2_t * self.b2)
        return [self.b1_t, self.b2_t, *self.m, *self.v]

    def _update(self, i: int, p: Tensor, g: Tensor) -> Tensor:
        m, v = self.m[i], self.v[i]
        m.assign(m * self.b1 + g * (1.0 - self.b1))
        v.assign(v * self.b2 + (g * g) * (1.0 - self.b2))
        step = (m / (1.0 - self.b1_t)) / ((v / (1.0 - self.b2_t)).sqrt() + self.eps)
        return (step + p.detach() * self.wd if self.wd else step) * self.lr


class Adam(AdamW):
    """AdamW without weight decay."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        device: str | None = None,
    ):
        super().__init__(params, lr, b1, b2, eps, 0.0, device)
