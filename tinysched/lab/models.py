"""Small but real models for notebooks and checks: what a class has heard of, in sizes that schedule in no time.

In: sizes. Out: Tensors that are realized (weights, inputs) and the lazy results.

>>> gpt2_blocks(1).shape
(12, 24)
"""

from __future__ import annotations

from tinysched import nn
from tinysched.tensor.core import Tensor


class Block:
    """A GPT-2 block: layer norm, causal attention, layer norm, a network of two layers; each adds to its input."""

    def __init__(self, width: int, heads: int):
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        x = x + self.out(self.attention(self.ln1(x)))
        return x + self.down(self.up(self.ln2(x)).gelu())

    def attention(self, x: Tensor) -> Tensor:
        """(tokens, width) to the same: every token looks at those before it."""
        tokens, width = x.shape
        split = self.qkv(x).reshape(tokens, 3, self.heads, width // self.heads)
        q, k, v = (split[:, i].permute(1, 0, 2) for i in range(3))
        return q.scaled_dot_product_attention(k, v, is_causal=True).permute(1, 0, 2).reshape(tokens, width)


def gpt2_blocks(count: int, tokens: int = 12, width: int = 24, heads: int = 2) -> Tensor:
    """Some blocks on random tokens: the lazy result, of shape (tokens, width)."""
    blocks = [Block(width, heads) for _ in range(count)]
    x = Tensor.randn(tokens, width)
    Tensor.realize(x, *(p for block in blocks for p in nn.state.get_parameters(block)))
    for block in blocks:
        x = block(x)
    return x
