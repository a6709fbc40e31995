"""A Llama-like model with grouped heads, rotary positions and a KV cache at a Variable position, judged by NumPy.

Every token is decoded by one schedule: the position is a Variable, so that the schedule is made for the first token and
found in the cache for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinysched import Context, Tensor, Variable, clear_caches, function, plan
from tinysched.schedule import pipeline

LAYERS, DIM, HEADS, KV_HEADS, HIDDEN, VOCAB, CONTEXT = 2, 24, 6, 3, 20, 17, 64
HEAD = DIM // HEADS

Weights = dict[str, np.ndarray]


def random_weights(seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    shapes = {"embedding": (VOCAB, DIM), "last norm": (DIM,)}
    for i in range(LAYERS):
        shapes |= {f"{i} norm": (DIM,), f"{i} mlp norm": (DIM,), f"{i} q": (DIM, DIM), f"{i} o": (DIM, DIM)}
        shapes |= {f"{i} k": (KV_HEADS * HEAD, DIM), f"{i} v": (KV_HEADS * HEAD, DIM)}
        shapes |= {f"{i} gate": (HIDDEN, DIM), f"{i} up": (HIDDEN, DIM), f"{i} down": (DIM, HIDDEN)}
    return {name: (rng.standard_normal(shape) / 3).astype(np.float32) for name, shape in shapes.items()}


def rotations() -> np.ndarray:
    """Cosines, then sines, of the angles of each position."""
    angles = np.outer(np.arange(CONTEXT), 100.0 ** -np.linspace(0, 1, HEAD // 2, endpoint=False))
    return np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


class Llama:
    """The model in tinysched; it decodes token after token into its caches."""

    def __init__(self, weights: Weights) -> None:
        self.w = {name: Tensor(a).realize() for name, a in weights.items()}
        self.rotations = Tensor(rotations()).realize()
        self.caches = [Tensor.zeros(2, KV_HEADS, CONTEXT, HEAD).contiguous().realize() for _ in range(LAYERS)]

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.w[name]

    def heads(self, x: Tensor, name: str, count: int) -> Tensor:
        return (x @ self.w[name].T).reshape(1, count, HEAD).transpose(0, 1)

    def rotated(self, x: Tensor, position: Any) -> Tensor:
        cos, sin = self.rotations[position : position + 1].chunk(2, dim=-1)
        a, b = x.chunk(2, dim=-1)
        return (a * cos - b * sin).cat(b * cos + a * sin, dim=-1)

    def attention(self, x: Tensor, i: int, position: Any) -> Tensor:
        q, k = (self.rotated(self.heads(x, f"{i} {n}", h), position) for n, h in (("q", HEADS), ("k", KV_HEADS)))
        cache = self.caches[i]
        cache[:, :, position : position + 1, :].assign(Tensor.stack(k, self.heads(x, f"{i} v", KV_HEADS)))
        keys, values = cache[0, :, : position + 1], cache[1, :, : position + 1]
        found = q.unsqueeze(0).scaled_dot_product_attention(keys.unsqueeze(0), values.unsqueeze(0), enable_gqa=True)
        return found.squeeze(0).transpose(0, 1).reshape(1, DIM) @ self.w[f"{i} o"].T

    def __call__(self, token: Tensor, position: Any) -> Tensor:
        x = self.w["embedding"][token]
        for i in range(LAYERS):
            x = x + self.attention(self.norm(x, f"{i} norm"), i, position)
            z = self.norm(x, f"{i} mlp norm")
            gate, up = z @ self.w[f"{i} gate"].T, z @ self.w[f"{i} up"].T
            x = x + (gate.silu() * up) @ self.w[f"{i} down"].T
        return self.norm(x, "last norm") @ self.w["embedding"].T


class NumPyLlama:
    """The same model over all tokens so far, without a cache."""

    def __init__(self, weights: Weights) -> None:
        self.w = {name: a.astype(np.float64) for name, a in weights.items()}
        self.rotations = rotations().astype(np.float64)

    def norm(self, x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * self.w[name]

    def rotated(self, x):
        cos, sin = np.split(self.rotations[: x.shape[1]], 2, axis=1)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x, i):
        t = len(x)
        q, k, v = ((x @ self.w[f"{i} {n}"].T).reshape(t, -1, HEAD).swapaxes(0, 1) for n in "qkv")
        q, k = self.rotated(q), self.rotated(k)
        k, v = (np.repeat(a, HEADS // KV_HEADS, axis=0) for a in (k, v))
        scores = q @ k.swapaxes(1, 2) / np.sqrt(HEAD) + np.triu(np.full((t, t), -np.inf), 1)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return (shares @ v).swapaxes(0, 1).reshape(t, DIM) @ self.w[f"{i} o"].T

    def __call__(self, tokens):
        x = self.w["embedding"][tokens]
        for i in range(LAYERS):
            x = x + self.attention(self.norm(x, f"{i} norm"), i)
            z = self.norm(x, f"{i} mlp norm")
            gate, up = z @ self.w[f"{i} gate"].T, z @ self.w[f"{i} up"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.w[f"{i} down"].T
        return self.norm(x, "last norm") @ self.w["embedding"].T


@pytest.fixture
def misses(monkeypatch) -> list[Any]:
    """Every body that is scheduled because the cache does not have it."""
    clear_caches()
    found, schedule = [], pipeline.run_pipeline

    def noted(body, *args):
        found.append(body)
        return schedule(body, *args)

    monkeypatch.setattr(pipeline, "run_pipeline", noted)
    return found


def decode(count: int, step: Callable[..., Tensor], wanted: NumPyLlama, misses: list[Any]) -> None:
    """Compares the logits after each of some tokens, and checks that only the first was scheduled."""
    position = Variable("position", 0, CONTEXT - 1)
    tokens = np.random.default_rng(5).integers(0, VOCAB, count).astype(np.int32)
    misses.clear()
    for at in range(count):
        logits = step(Tensor(tokens[at : at + 1]).realize(), position.bind(at)).numpy()
        np.testing.assert_allclose(logits[0], wanted(tokens[: at + 1])[-1], rtol=1e-3, atol=1e-4)
    assert len(misses) == 1


def test_64_tokens_from_one_schedule(misses):
    weights = random_weights()
    decode(CONTEXT, Llama(weights), NumPyLlama(weights), misses)


def test_the_loops_decode_the_same(misses):
    weights = random_weights(1)
    with Context(CPU="loops"):
        decode(5, Llama(weights), NumPyLlama(weights), misses)


@pytest.mark.parametrize("precompile", [False, True])
def test_a_step_as_a_function(precompile, misses):
    weights = random_weights(2)
    step = function(Llama(weights), precompile=precompile)
    decode(12, step, NumPyLlama(weights), misses)


@pytest.mark.parametrize("precompile", [False, True])
def test_a_block_as_a_function(precompile, misses):
    """Attention and its cache are one function, called for each layer; the bodies of all layers are one."""
    weights, model = random_weights(3), Llama(random_weights(3))
    whole = model.attention
    model.attention = function(lambda x, i, position: whole(x, i, position), precompile=precompile)  # type: ignore[method-assign]
    decode(12, model, NumPyLlama(weights), misses)
    assert len(pipeline.function_cache) == precompile


def test_pending_tokens():
    """Several positions before anything is computed: all are written, each with a value of its own."""
    weights = random_weights(4)
    model, position, tokens = Llama(weights), Variable("position", 0, CONTEXT - 1), [3, 1, 4, 1]
    logits = [model(Tensor(np.array([t], np.int32)), position.bind(at)) for at, t in enumerate(tokens)]
    assert len(plan(*logits).var_vals) == len(tokens)
    Tensor.realize(*logits)
    wanted = NumPyLlama(weights)(np.array(tokens))
    for found, row in zip(logits, wanted, strict=True):
        np.testing.assert_allclose(found.numpy()[0], row, rtol=1e-3, atol=1e-4)
