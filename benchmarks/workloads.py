"""The 36 workloads and the growth families, written once for every library that has this Tensor API.

A workload is a function of a :class:`Kit` (one library, and where its inputs come from) that builds a tensor graph and
returns the Tensors to schedule. Its default sizes are those of the benchmarks; ``SMALL`` holds sizes for value tests,
small enough for literal Python loops, with different axes wherever the graph allows it, so that a swapped axis shows.

In: a :class:`benchmarks.libs.Lib`. Out: Tensors of that library, not realized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from benchmarks.libs import Lib

Tensor = Any
"""A Tensor of either library."""


class Kit:
    """What a workload may use: a library's names, and inputs.

    Without a seed inputs are memory without values (scheduling needs no more); with one they are random numbers, the
    same for every library, because each call draws from the same generator in the same order.
    """

    def __init__(self, lib: Lib, seed: int | None = None) -> None:
        self.lib, self.module = lib, lib.module
        self.rng = None if seed is None else np.random.default_rng(seed)

    def E(self, *shape: int) -> Tensor:
        """Floats around 0: weights and activations."""
        if self.rng is None:
            return self.lib.empty(shape, "float32")
        return self.lib.load((self.rng.standard_normal(shape) * 0.5).astype(np.float32))

    def P(self, *shape: int) -> Tensor:
        """Floats between 0.1 and 0.9: what must stay under a root or a logarithm (variances, powers of the betas)."""
        if self.rng is None:
            return self.lib.empty(shape, "float32")
        return self.lib.load(self.rng.uniform(0.1, 0.9, shape).astype(np.float32))

    def EI(self, *shape: int, hi: int) -> Tensor:
        """Whole numbers from 0 below ``hi``: token numbers and class labels."""
        if self.rng is None:
            return self.lib.empty(shape, "int32")
        return self.lib.load(self.rng.integers(0, hi, shape).astype(np.int32))


Workload = Callable[..., list[Tensor]]

# ---- model pieces


class Lin:
    def __init__(self, k: Kit, i: int, o: int) -> None:
        self.w, self.b = k.E(o, i), k.E(o)

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.w.transpose(), self.b)

    def params(self) -> list[Tensor]:
        return [self.w, self.b]


class LN:
    def __init__(self, k: Kit, d: int) -> None:
        self.w, self.b = k.E(d), k.E(d)

    def __call__(self, x: Tensor) -> Tensor:
        return x.layernorm(eps=1e-5) * self.w + self.b

    def params(self) -> list[Tensor]:
        return [self.w, self.b]


class BN:
    """Batch norm with its running statistics written in place, as training does."""

    def __init__(self, k: Kit, c: int) -> None:
        self.w, self.b, self.mean, self.var = k.E(c), k.E(c), k.E(c), k.P(c)

    def infer(self, x: Tensor) -> Tensor:
        return x.batchnorm(self.w, self.b, self.mean, (self.var + 1e-5).rsqrt())

    def train(self, x: Tensor) -> Tensor:
        m = x.mean(axis=(0, 2, 3))
        v = (x - m.reshape(1, -1, 1, 1)).square().mean(axis=(0, 2, 3))
        n = x.numel() / x.shape[1]
        self.mean.assign(0.9 * self.mean + 0.1 * m.detach())
        self.var.assign(0.9 * self.var + 0.1 * (n / (n - 1)) * v.detach())
        return x.batchnorm(self.w, self.b, m, (v + 1e-5).rsqrt())

    def params(self) -> list[Tensor]:
        return [self.w, self.b]

    def buffers(self) -> list[Tensor]:
        return [self.mean, self.var]


def rms(x: Tensor, w: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w


def sgd(k: Kit, loss: Tensor, params: Sequence[Tensor], lr: float = 0.01) -> list[Tensor]:
    for p, g in zip(params, loss.gradient(*params), strict=True):
        p.assign(p.detach() - lr * g)
    return [loss, *params]


def adam(k: Kit, loss: Tensor, params: Sequence[Tensor], lr: float = 1e-3) -> list[Tensor]:
    b1, b2, eps = 0.9, 0.999, 1e-8
    b1t, b2t = k.P(1), k.P(1)
    b1t.assign(b1t * b1)
    b2t.assign(b2t * b2)
    ms, vs = [k.E(*p.shape) for p in params], [k.P(*p.shape) for p in params]
    for p, g, m, v in zip(params, loss.gradient(*params), ms, vs, strict=True):
        m.assign(b1 * m + (1 - b1) * g)
        v.assign(b2 * v + (1 - b2) * (g * g))
        p.assign(p.detach() - lr * (m / (1 - b1t)) / ((v / (1 - b2t)).sqrt() + eps))
    return [loss, b1t, b2t, *params, *ms, *vs]


# ---- single graphs


def ew_chain(k: Kit, n: int = 16, shape: tuple[int, ...] = (1024, 1024)) -> list[Tensor]:
    x, y, z = k.E(*shape), k.E(*shape), k.E(*shape)
    for _ in range(n // 2):
        x = x * y + z
    return [x]


def gelu(k: Kit, shape: tuple[int, ...] = (4096, 4096)) -> list[Tensor]:
    return [k.E(*shape).gelu()]


def matmul_sum(k: Kit, n: int = 512, inner: int = 512, m: int = 512) -> list[Tensor]:
    return [(k.E(n, inner) @ k.E(inner, m)).sum() + k.E(1)]


def softmax(k: Kit, shape: tuple[int, ...] = (4096, 4096)) -> list[Tensor]:
    return [k.E(*shape).softmax(-1)]


def logsumexp(k: Kit, shape: tuple[int, ...] = (4096, 4096)) -> list[Tensor]:
    return [k.E(*shape).logsumexp(-1)]


def layernorm(k: Kit, rows: int = 4096, d: int = 1024) -> list[Tensor]:
    return [LN(k, d)(k.E(rows, d))]


def rmsnorm(k: Kit, rows: int = 4096, d: int = 1024) -> list[Tensor]:
    return [rms(k.E(rows, d), k.E(d))]


def var_std(k: Kit, shape: tuple[int, ...] = (1024, 1024)) -> list[Tensor]:
    x = k.E(*shape)
    return [x.var(1), x.std(1)]


def batchnorm_train(k: Kit, shape: tuple[int, ...] = (32, 64, 28, 28)) -> list[Tensor]:
    bn = BN(k, shape[1])
    return [bn.train(k.E(*shape)), *bn.buffers()]


def sdpa(k: Kit, shape: tuple[int, ...] = (1, 8, 512, 64), causal: bool = False) -> list[Tensor]:
    q, key, value = k.E(*shape), k.E(*shape), k.E(*shape)
    return [q.scaled_dot_product_attention(key, value, is_causal=causal)]


def sdpa_causal(k: Kit, shape: tuple[int, ...] = (1, 8, 512, 64)) -> list[Tensor]:
    return sdpa(k, shape, causal=True)


def embedding(k: Kit, vocab: int = 1000, d: int = 64, n: int = 256) -> list[Tensor]:
    return [k.E(vocab, d)[k.EI(n, hi=vocab)]]


def one_hot(k: Kit, vocab: int = 1000, d: int = 64, n: int = 256) -> list[Tensor]:
    return [k.EI(n, hi=vocab).one_hot(vocab).float() @ k.E(vocab, d)]


def cumsum(k: Kit, n: int = 4096) -> list[Tensor]:
    return [k.E(n).cumsum(0)]


def cumsum2d(k: Kit, shape: tuple[int, ...] = (256, 1024)) -> list[Tensor]:
    return [k.E(*shape).cumsum(1)]


def bigsum(k: Kit, n: int = 2**22) -> list[Tensor]:
    return [k.E(n).sum()]


def diamond(k: Kit, n: int = 512) -> list[Tensor]:
    """Values with several consumers that do not agree on their ranges."""
    x, w = k.E(n, n), k.E(n, n)
    a = (x * w).exp()
    p = a / a.sum(1, keepdim=True)
    q = a - a.max(0, keepdim=True)
    return [(p * q).sum(), p + q.transpose(), a.contiguous() * 2]


def movement(k: Kit, a: int = 64, b: int = 64, c: int = 64) -> list[Tensor]:
    """Every movement op, composed, read through two different views at the end."""
    x = k.E(a, b, c)
    y = x.pad(((1, 1), (2, 2), (0, 0))).flip(1).shrink(((0, a), (1, b + 1), (0, c)))[::2, ::2, ::-1]
    flat = y.shape[0] * y.shape[1]
    y = y.permute(2, 0, 1).reshape(c, flat).pad(((0, 0), (3, 5))).shrink(((1, c - 1), (2, flat + 2)))
    return [y.flip((0, 1)) + 1, y.transpose() * 2]


def interp_pool(
    k: Kit,
    shape: tuple[int, ...] = (2, 16, 32, 32),
    linear: tuple[int, int] = (64, 64),
    nearest: tuple[int, int] = (48, 48),
) -> list[Tensor]:
    x = k.E(*shape)
    pools = [x.avg_pool2d((3, 3), stride=2), x.max_pool2d((2, 2))]
    return [x.interpolate(linear, mode="linear"), *pools, x.interpolate(nearest, mode="nearest")]


def argmax_topk(k: Kit, rows: int = 64, n: int = 256, top: int = 8) -> list[Tensor]:
    x = k.E(rows, n)
    return [x.argmax(1), x.topk(top)[0]]


# ---- networks


class MLP:
    def __init__(self, k: Kit, dims: Sequence[int]) -> None:
        self.layers = [Lin(k, i, o) for i, o in pairwise(dims)]

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)

    def params(self) -> list[Tensor]:
        return [p for layer in self.layers for p in layer.params()]


def mlp_fwd(k: Kit, batch: int = 64, dims: Sequence[int] = (784, 512, 256, 10)) -> list[Tensor]:
    return [MLP(k, dims)(k.E(batch, dims[0]))]


def mlp_train(k: Kit, batch: int = 64, dims: Sequence[int] = (784, 512, 256, 10), step: Workload = sgd) -> list[Tensor]:
    m = MLP(k, dims)
    return step(k, m(k.E(batch, dims[0])).sparse_categorical_crossentropy(k.EI(batch, hi=dims[-1])), m.params())


def mlp_train_sgd(k: Kit, lr: float = 0.01, **sizes: Any) -> list[Tensor]:
    return mlp_train(k, **sizes, step=partial(sgd, lr=lr))


def mlp_train_adam(k: Kit, **sizes: Any) -> list[Tensor]:
    return mlp_train(k, **sizes, step=adam)


ADAM_SHAPES: Final = ((512, 784), (512,), (256, 512), (256,), (10, 256), (10,), (1000, 1000), (1000,))


def adam_only(k: Kit, shapes: Sequence[tuple[int, ...]] = ADAM_SHAPES) -> list[Tensor]:
    """The optimizer step alone, with given gradients."""
    b1t, b2t, outs = k.P(1), k.P(1), []
    for s in shapes:
        p, g, m, v = k.E(*s), k.E(*s), k.E(*s), k.P(*s)
        m.assign(0.9 * m + 0.1 * g)
        v.assign(0.999 * v + 0.001 * g * g)
        p.assign(p.detach() - 1e-3 * (m / (1 - b1t)) / ((v / (1 - b2t)).sqrt() + 1e-8))
        outs += [p, m, v]
    return outs


class Mnist:
    """Two pairs of convolutions of sizes ``kernels``, each pair followed by batch norm and max pooling."""

    def __init__(self, k: Kit, hw: Sequence[int], ch: Sequence[int], kernels: Sequence[int]) -> None:
        (a, b, c, d), (k1, k2) = ch, kernels
        self.conv = [k.E(a, 1, k1, k1), k.E(b, a, k1, k1), k.E(c, b, k2, k2), k.E(d, c, k2, k2)]
        self.bias = [k.E(n) for n in ch]
        self.bn1, self.bn2 = BN(k, b), BN(k, d)
        h, w = (((s - 2 * (k1 - 1)) // 2 - 2 * (k2 - 1)) // 2 for s in hw)
        self.fc = Lin(k, d * h * w, 10)

    def __call__(self, x: Tensor, train: bool = False) -> Tensor:
        bn1, bn2 = (self.bn1.train, self.bn2.train) if train else (self.bn1.infer, self.bn2.infer)
        x = x.conv2d(self.conv[0], self.bias[0]).relu().conv2d(self.conv[1], self.bias[1]).relu()
        x = bn1(x).max_pool2d()
        x = x.conv2d(self.conv[2], self.bias[2]).relu().conv2d(self.conv[3], self.bias[3]).relu()
        return self.fc(bn2(x).max_pool2d().flatten(1))

    def params(self) -> list[Tensor]:
        return [*self.conv, *self.bias, *self.bn1.params(), *self.bn2.params(), *self.fc.params()]


def mnist(
    k: Kit,
    batch: int = 64,
    hw: Sequence[int] = (28, 28),
    ch: Sequence[int] = (32, 32, 64, 64),
    kernels: Sequence[int] = (5, 3),
    step: Workload | None = None,
) -> list[Tensor]:
    m = Mnist(k, hw, ch, kernels)
    out = m(k.E(batch, 1, *hw), train=step is not None)
    if step is None:
        return [out]
    loss = out.sparse_categorical_crossentropy(k.EI(batch, hi=10))
    return [*step(k, loss, m.params()), *m.bn1.buffers(), *m.bn2.buffers()]


def mnist_fwd(k: Kit, **sizes: Any) -> list[Tensor]:
    return mnist(k, **sizes)


def mnist_train_sgd(k: Kit, lr: float = 0.01, **sizes: Any) -> list[Tensor]:
    return mnist(k, **sizes, step=partial(sgd, lr=lr))


def mnist_train_adam(k: Kit, **sizes: Any) -> list[Tensor]:
    return mnist(k, **sizes, step=adam)


class ResBlock:
    def __init__(self, k: Kit, i: int, o: int, stride: int) -> None:
        self.c1, self.b1, self.c2, self.b2, self.stride = k.E(o, i, 3, 3), BN(k, o), k.E(o, o, 3, 3), BN(k, o), stride
        self.down = (k.E(o, i, 1, 1), BN(k, o)) if stride != 1 or i != o else None

    def __call__(self, x: Tensor) -> Tensor:
        y = self.b1.infer(x.conv2d(self.c1, stride=self.stride, padding=1)).relu()
        y = self.b2.infer(y.conv2d(self.c2, padding=1))
        if self.down is not None:
            x = self.down[1].infer(x.conv2d(self.down[0], stride=self.stride))
        return (y + x).relu()


def resnet18(
    k: Kit,
    hw: Sequence[int] = (224, 224),
    widths: Sequence[int] = (64, 128, 256, 512),
    classes: int = 1000,
) -> list[Tensor]:
    ch = widths[0]
    x = BN(k, ch).infer(k.E(1, 3, *hw).conv2d(k.E(ch, 3, 7, 7), stride=2, padding=3)).relu()
    x = x.pad([1, 1, 1, 1]).max_pool2d((3, 3), 2)
    for stage, o in enumerate(widths):
        x = ResBlock(k, o, o, 1)(ResBlock(k, ch, o, 2 if stage else 1)(x))
        ch = o
    return [Lin(k, ch, classes)(x.mean((2, 3)))]


class GPTBlock:
    def __init__(self, k: Kit, d: int, heads: int) -> None:
        self.heads, self.ln1, self.ln2 = heads, LN(k, d), LN(k, d)
        self.qkv, self.proj, self.up, self.down = Lin(k, d, 3 * d), Lin(k, d, d), Lin(k, d, 4 * d), Lin(k, 4 * d, d)

    def __call__(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        split = (b, t, self.heads, d // self.heads)
        q, key, value = [y.reshape(*split).transpose(1, 2) for y in self.qkv(self.ln1(x)).chunk(3, dim=-1)]
        a = q.scaled_dot_product_attention(key, value, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(a)
        return x + self.down(self.up(self.ln2(x)).gelu())

    def params(self) -> list[Tensor]:
        parts = (self.ln1, self.ln2, self.qkv, self.proj, self.up, self.down)
        return [p for part in parts for p in part.params()]


class GPT:
    def __init__(self, k: Kit, layers: int, d: int, heads: int, seq: int, vocab: int) -> None:
        self.tokens, self.positions = k.E(vocab, d), k.E(seq, d)
        self.blocks, self.last = [GPTBlock(k, d, heads) for _ in range(layers)], LN(k, d)

    def __call__(self, idx: Tensor, wrap: Callable[[GPTBlock], Callable[[Tensor], Tensor]] | None = None) -> Tensor:
        x = self.tokens[idx] + self.positions
        for block in self.blocks:
            x = (wrap(block) if wrap else block)(x)
        return self.last(x) @ self.tokens.transpose()

    def params(self) -> list[Tensor]:
        blocks = [p for block in self.blocks for p in block.params()]
        return [self.tokens, self.positions, *blocks, *self.last.params()]


def gpt(
    k: Kit,
    layers: int = 2,
    d: int = 128,
    heads: int = 4,
    seq: int = 128,
    vocab: int = 1000,
    functions: bool = False,
) -> list[Tensor]:
    """A GPT's logits; with ``functions`` each block is a precompiled function, scheduled as a call of its own."""

    def wrap(block: GPTBlock) -> Callable[[Tensor], Tensor]:
        mark: Any = k.module.function(precompile=True, allow_implicit=True)
        return mark(lambda x: block(x).contiguous())  # type: ignore[no-any-return]

    model = GPT(k, layers, d, heads, seq, vocab)
    return [model(k.EI(1, seq, hi=vocab), wrap if functions else None)]


GPT2: Final[dict[str, Any]] = {"layers": 12, "d": 768, "heads": 12, "seq": 128, "vocab": 50257}


def gpt_tiny(k: Kit, **sizes: Any) -> list[Tensor]:
    return gpt(k, **sizes)


def gpt2_small(k: Kit, **sizes: Any) -> list[Tensor]:
    return gpt(k, **GPT2 | sizes)


def gpt2_small_fn(k: Kit, **sizes: Any) -> list[Tensor]:
    return gpt(k, **GPT2 | sizes, functions=True)


def gpt_train(
    k: Kit,
    layers: int = 2,
    d: int = 128,
    heads: int = 4,
    seq: int = 128,
    vocab: int = 1000,
    step: Workload = sgd,
) -> list[Tensor]:
    model = GPT(k, layers, d, heads, seq, vocab)
    logits = model(k.EI(1, seq, hi=vocab)).reshape(-1, vocab)
    return step(k, logits.sparse_categorical_crossentropy(k.EI(seq, hi=vocab)), model.params())


def gpt_tiny_train_sgd(k: Kit, lr: float = 0.01, **sizes: Any) -> list[Tensor]:
    return gpt_train(k, **sizes, step=partial(sgd, lr=lr))


def gpt_tiny_train_adam(k: Kit, **sizes: Any) -> list[Tensor]:
    return gpt_train(k, **sizes, step=adam)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return (a * cos - b * sin).cat(b * cos + a * sin, dim=-1)


def llama_block(
    k: Kit,
    sp: Any = 64,
    t: int = 1,
    d: int = 512,
    heads: int = 8,
    kv_heads: int = 4,
    ctx: int = 128,
    hidden: int = 1376,
) -> list[Tensor]:
    """A block with grouped heads and rotary positions that writes ``t`` tokens into its KV cache at position ``sp``."""
    hd = d // heads
    x, cache, freqs = k.E(1, t, d), k.E(2, 1, kv_heads, ctx, hd), k.E(ctx, hd)
    wq, wk, wv, wo = k.E(d, d), k.E(kv_heads * hd, d), k.E(kv_heads * hd, d), k.E(d, d)
    y = rms(x, k.E(d))
    q = (y @ wq.transpose()).reshape(1, t, heads, hd).transpose(1, 2)
    key = (y @ wk.transpose()).reshape(1, t, kv_heads, hd).transpose(1, 2)
    value = (y @ wv.transpose()).reshape(1, t, kv_heads, hd).transpose(1, 2)
    cos, sin = freqs[sp : sp + t].reshape(1, 1, t, hd).chunk(2, dim=-1)
    q, key = rope(q, cos, sin), rope(key, cos, sin)
    cache[:, :, :, sp : sp + t, :].assign(k.module.Tensor.stack(key, value))
    keys, values = cache[0, :, :, 0 : sp + t, :], cache[1, :, :, 0 : sp + t, :]
    a = q.scaled_dot_product_attention(keys, values, enable_gqa=True).transpose(1, 2).reshape(1, t, d)
    x = x + a @ wo.transpose()
    z = rms(x, k.E(d))
    gate, up, down = k.E(hidden, d), k.E(hidden, d), k.E(d, hidden)
    return [x + ((z @ gate.transpose()).silu() * (z @ up.transpose())) @ down.transpose()]


def llama_block_prefill(k: Kit, t: int = 64, **sizes: int) -> list[Tensor]:
    return llama_block(k, sp=0, t=t, **sizes)


def llama_block_sym(k: Kit, sp: int = 64, ctx: int = 128, **sizes: int) -> list[Tensor]:
    """The same with the position as a bound Variable, so that one schedule serves every token."""
    return llama_block(k, sp=k.module.Variable("sp", 0, ctx - 1).bind(sp), ctx=ctx, **sizes)


WORKLOADS: Final[dict[str, Workload]] = {
    f.__name__: f
    for f in (
        *(ew_chain, gelu, matmul_sum, softmax, logsumexp, layernorm, rmsnorm, var_std, batchnorm_train, sdpa),
        *(sdpa_causal, mlp_fwd, mlp_train_sgd, mlp_train_adam, adam_only, mnist_fwd, mnist_train_sgd),
        *(mnist_train_adam, resnet18, gpt_tiny, gpt2_small, gpt2_small_fn, gpt_tiny_train_sgd, gpt_tiny_train_adam),
        *(llama_block, llama_block_prefill, llama_block_sym, embedding, one_hot, cumsum, cumsum2d, bigsum, diamond),
        *(movement, interp_pool, argmax_topk),
    )
}

_STEEP: Final = {"lr": 1.0}  # the new parameters then show the gradient in all its digits
_MLP: Final[dict[str, Any]] = {"batch": 4, "dims": (7, 6, 5, 3)}
_MNIST: Final[dict[str, Any]] = {"batch": 3, "hw": (12, 14), "ch": (2, 3, 4, 5), "kernels": (3, 2)}
_GPT: Final[dict[str, Any]] = {"layers": 2, "d": 12, "heads": 3, "seq": 5, "vocab": 11}
_LLAMA: Final = {"d": 24, "heads": 6, "kv_heads": 3, "ctx": 7, "hidden": 10}

SMALL: Final[dict[str, dict[str, Any]]] = {
    "ew_chain": {"n": 6, "shape": (3, 5)},
    "gelu": {"shape": (4, 7)},
    "matmul_sum": {"n": 3, "inner": 5, "m": 4},
    "softmax": {"shape": (5, 7)},
    "logsumexp": {"shape": (5, 7)},
    "layernorm": {"rows": 4, "d": 6},
    "rmsnorm": {"rows": 4, "d": 6},
    "var_std": {"shape": (3, 5)},
    "batchnorm_train": {"shape": (2, 3, 4, 5)},
    "sdpa": {"shape": (2, 3, 5, 4)},
    "sdpa_causal": {"shape": (2, 3, 5, 4)},
    "mlp_fwd": _MLP,
    "mlp_train_sgd": _MLP | _STEEP,
    "mlp_train_adam": _MLP,
    "adam_only": {"shapes": ((3, 4), (5,), (2, 1, 6))},
    "mnist_fwd": _MNIST,
    "mnist_train_sgd": _MNIST | _STEEP,
    "mnist_train_adam": _MNIST,
    "resnet18": {"hw": (17, 21), "widths": (4, 5, 6, 7), "classes": 9},
    "gpt_tiny": _GPT,
    "gpt2_small": _GPT | {"layers": 3},
    "gpt2_small_fn": _GPT | {"layers": 3},
    "gpt_tiny_train_sgd": _GPT | _STEEP,
    "gpt_tiny_train_adam": _GPT,
    "llama_block": _LLAMA | {"sp": 4},
    "llama_block_prefill": _LLAMA | {"t": 5},
    "llama_block_sym": _LLAMA | {"sp": 4},
    "embedding": {"vocab": 7, "d": 5, "n": 3},
    "one_hot": {"vocab": 7, "d": 5, "n": 3},
    "cumsum": {"n": 600},  # longer than 512, so that it is summed in two levels
    "cumsum2d": {"shape": (3, 7)},
    "bigsum": {"n": 2**16},  # over 32768 to 1, so that the reduction is split
    "diamond": {"n": 5},
    "movement": {"a": 5, "b": 6, "c": 7},
    "interp_pool": {"shape": (2, 3, 6, 7), "linear": (9, 11), "nearest": (8, 10)},
    "argmax_topk": {"rows": 3, "n": 7, "top": 2},
}

# ---- growth families: one number says how large


def chain(k: Kit, n: int) -> list[Tensor]:
    x, y, z = k.E(64, 64), k.E(64, 64), k.E(64, 64)
    for i in range(n):
        x = x * y if i % 2 == 0 else x + z
    return [x]


def wide(k: Kit, n: int) -> list[Tensor]:
    """Many outputs of one shared input."""
    x = k.E(64, 64)
    return [(x * k.E(64, 64)).sum(1) for _ in range(n)]


def flipdiamond(k: Kit, n: int) -> list[Tensor]:
    """Each value is read by two consumers that disagree."""
    x = k.E(64, 64)
    for _ in range(n):
        x = x + x.transpose().exp()
    return [x]


def rowsoftmax(k: Kit, n: int) -> list[Tensor]:
    """Layers of reduce and broadcast."""
    x = k.E(64, 64)
    for _ in range(n):
        x = x.softmax(-1)
    return [x]


def assigns(k: Kit, n: int) -> list[Tensor]:
    """Pending writes to one buffer, each reading what the last one left."""
    x = k.E(64, 64)
    for _ in range(n):
        x.assign(x + 1)
    return [x]


def gpt_layers(k: Kit, n: int) -> list[Tensor]:
    return gpt(k, layers=n, seq=64)


def gptfn_layers(k: Kit, n: int) -> list[Tensor]:
    return gpt(k, layers=n, seq=64, functions=True)


def train_layers(k: Kit, n: int) -> list[Tensor]:
    return gpt_train(k, layers=n, seq=64)


GROW: Final[dict[str, tuple[Workload, tuple[int, ...]]]] = {
    "gpt": (gpt_layers, (1, 2, 4, 8, 16, 32)),
    "gptfn": (gptfn_layers, (1, 2, 4, 8, 16, 32)),
    "train": (train_layers, (1, 2, 4, 8)),
    "chain": (chain, (10, 100, 300, 1000, 3000, 10000)),
    "rowsoftmax": (rowsoftmax, (1, 2, 4, 8, 16, 32)),
    "wide": (wide, (10, 100, 1000)),
    "flipdiamond": (flipdiamond, (1, 2, 4, 8, 16, 32)),
    "assigns": (assigns, (10, 30, 100, 300)),
}

# ---- what benchmarks and tests call


def build(name: str, lib: Lib) -> list[Tensor]:
    """The Tensors of a workload, or of a growth family's member written ``family@n``."""
    family, _, n = name.partition("@")
    return GROW[family][0](Kit(lib), int(n)) if n else WORKLOADS[name](Kit(lib))


def small(name: str, lib: Lib, seed: int = 0) -> list[Tensor]:
    """The Tensors of a workload's small variant over seeded random inputs."""
    return WORKLOADS[name](Kit(lib, seed), **SMALL[name])
