# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · A model of your own
#
# **As long as you like.** Bring something that you want to see: a layer, a loss, a whole training step. This notebook goes
# through the questions that one asks of a schedule. There is an example to start with; put your own in its place.
#
# What is needed: a **function without arguments that returns Tensors**. Inputs and weights should be in memory before
# (`realize`), so that what you see is your model and not how its random numbers are made. Operations are named as in
# PyTorch and tinygrad, so code from there often works with the import changed.

# %%
import numpy as np

from tinysched import Tensor, capture, compare, explore, nn
from tinysched.lab import predict, reveal, score
from tinysched.views.text import kernels

# %% [markdown]
# ## Your model
#
# The example: a gated layer as in Llama (`silu(x W1) * (x W3)`, then `W2`), after an RMS norm. **Replace it.**


# %%
class Model:
    def __init__(self, width=32, hidden=96):
        self.norm = nn.RMSNorm(width)
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def __call__(self, x):
        h = self.norm(x)
        return x + self.w2(self.w1(h).silu() * self.w3(h))


# %%
model = Model()
x = Tensor.randn(24, 32)
Tensor.realize(x, *nn.state.get_parameters(model))


def run_it():
    return model(x)


# %% [markdown]
# ## Guess first
#
# How many kernels will it be? Count what must be in memory: results of reductions that something larger reads, and what
# you return. (This is no exercise. Guess, and be surprised.)

# %%
p = predict("my model: kernels", 5)

# %%
trace = capture(run_it, title="my model")
reveal(p, trace)

# %% [markdown]
# ## The table
#
# Where do the bytes go, and where the operations? `ops/byte` is low for kernels that are waiting for memory.

# %%
print(kernels(trace.schedules[-1]))

# %%
explore(run_it, view="kernels")

# %% [markdown]
# ## Which stored values are large, why are they stored, and what would change that?
#
# The three largest intermediates. With `flips=True` the engine schedules again with the decision turned: see the lines
# that start with `if`.

# %%
s = trace.schedules[-1]
inside = [b for b in range(len(s.buffers)) if s.buffers[b].role == "intermediate"]
for b in sorted(inside, key=lambda b: -s.buffers[b].bytes)[:3]:
    print(trace.decisions.why(f"b{b}", flips=True), "\n")

# %% [markdown]
# ## Try it
#
# Take a value, by name or by line, and look at the whole. An override names a value: a variable of yours, or a
# line of your code as "file.py:7".

# %%
h = model.norm(x)
out = x + model.w2(model.w1(h).silu() * model.w3(h))
named = capture(out, inputs={"h": h})
stored = named.with_overrides({"h": "realize"})
print(compare(named, stored))

# %%
score(stored)

# %% [markdown]
# ## Does every pass keep the values?

# %%
print(trace.check())

# %% [markdown]
# ## Run it: times and values

# %%
timed = capture(run_it, title="my model", run=True, values=True)
print(kernels(timed.schedules[-1]))

# %% [markdown]
# Is it right? NumPy is the judge; write down what your model computes.

# %%
w1, w2, w3 = (layer.weight.numpy() for layer in (model.w1, model.w2, model.w3))
a = x.numpy()
normed = a / np.sqrt((a**2).mean(1, keepdims=True) + model.norm.eps) * model.norm.weight.numpy()
gate = normed @ w1.T
expected = a + (gate / (1 + np.exp(-gate)) * (normed @ w3.T)) @ w2.T
np.allclose(run_it().numpy(), expected, atol=1e-4)

# %% [markdown]
# ## Keep it
#
# One file that steps in any browser, and a line for your build that fails when somebody makes fusion worse:
#
# ```sh
# tinysched report my_model.py:run_it --max-kernels 5 --max-bytes 100000
# ```

# %%
trace.to_html("my_model.html")

# %% [markdown]
# ## Where this lives
#
# | | here | in tinygrad |
# |---|---|---|
# | layers | `RMSNorm` in `tinysched/nn/__init__.py` | `RMSNorm` in `tinygrad/nn/__init__.py` |
# | the report | `report` in `tinysched/explain/report.py` | (nothing like it) |
# | what would change a decision | `flip` in `tinysched/explain/flips.py` | (nothing like it) |
#
# **Next:** [11 · Ten more exercises](11_more.ipynb), or back to [the start](00_start.ipynb).
