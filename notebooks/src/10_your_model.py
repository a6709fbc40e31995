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
# through the questions that one asks of a schedule: how many kernels, what is stored between them and why, and what would
# change that. There is an example to start with. **Put your own in place of the next three cells;** all that follows
# works as it is.
#
# What is needed: a **function without arguments that returns Tensors** (one, or a list with the most interesting one
# first). Operations are named as in PyTorch and tinygrad, so code from there often works with the import changed.

# %%
import numpy as np

from tinysched import Tensor, TinyschedError, capture, compare, explore, nn
from tinysched.lab import predict, reveal, score
from tinysched.views.text import kernels, stored

# %% [markdown]
# ## Your model
#
# The example: a gated layer as in Llama (`silu(x W1) * (x W3)`, then `W2`), after an RMS norm.


# %%
class Model:
    def __init__(self, width=32, hidden=96):
        self.norm = nn.RMSNorm(width)
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def __call__(self, x):
        h = self.norm(x)
        return x + self.w2(self.w1(h).silu() * self.w3(h))


# %% [markdown]
# Inputs and weights are put in memory first (`realize`), so that what you see is your model and not how its random numbers
# are made. Start small: a few thousand elements show the same decisions as millions, and every answer comes at once.

# %%
model = Model()
x = Tensor.randn(24, 32)
Tensor.realize(x, *nn.state.get_parameters(model))


def run_it():
    return model(x)


# %% [markdown]
# If you can, write down in NumPy what it computes: NumPy is the judge. If not, return `None`.


# %%
def in_numpy():
    w1, w2, w3 = (layer.weight.numpy() for layer in (model.w1, model.w2, model.w3))
    a = x.numpy()
    h = a / np.sqrt((a**2).mean(1, keepdims=True) + model.norm.eps) * model.norm.weight.numpy()
    gate = h @ w1.T
    return a + (gate / (1 + np.exp(-gate)) * (h @ w3.T)) @ w2.T


# %% [markdown]
# A **training step** works too: let `run_it` return `[loss, *optimizer.schedule_step()]`, as in notebook 9. Such a step
# writes, and each call is one step more. That is why `run_it` is called only twice below, and each time what it wants to write is then written.
#
# ## Guess first
#
# How many kernels will it be? Count what must be in memory: results of reductions that something larger reads, and what
# you return. (This is no exercise: put your guess in place of the 5, and be surprised.)

# %%
p = predict("my model: kernels", 5)

# %%
trace = capture(run_it, run=True, values=True, title="my model")
reveal(p, trace)

# %% [markdown]
# ## Where do the bytes go, and the time?
#
# A kernel with few `ops/byte` waits for memory. The first run is slower than later ones, and tiny kernels take as long as a
# call takes. (The explorer below takes a few seconds to draw a training step with 70 kernels.)

# %%
s = trace.schedules[-1]
print(kernels(s))

# %%
explore(trace, view="kernels")

# %% [markdown]
# ## What is stored in between, and why?
#
# The largest first, each with the reason and with the line of yours that asked for it. COST_REDUCE_READS_BUFFER: it is a
# reduction, and would be done again for every reader. COST_TOO_MANY_BUFFERS: fused, its reader would read more buffers
# than the limit. USER_FORCED: you asked for it, with `contiguous()`. STORE_READS_TARGET: it is written where it reads, so it
# has to be whole before it is written there.

# %%
print(stored(trace))

# %% [markdown]
# In full for the largest ones. With `flips=True` the engine schedules again with the decision turned: see the line that
# starts with `if`.

# %%
largest = sorted(s.memory.placements, key=lambda place: -place.bytes)[:2]
for place in largest:
    print(trace.decisions.why(s.buffers[place.buffer], flips=True), "\n")

# %% [markdown]
# ## Try it
#
# An override names a value: as the table calls it ("b2"), by a variable of yours, or by a line ("model.py:7"). Here the
# largest stored value is fused. Try others, and "realize" for one that is computed twice. What the engine may not change,
# it says.

# %%
tried = trace
for place in largest:
    try:
        tried = trace.with_overrides({f"b{place.buffer}": "fuse"})
        break
    except TinyschedError as error:
        print(error)
print(compare(trace, tried))

# %%
score(tried)

# %% [markdown]
# ## Is it right?
#
# Does every pass keep the values? And does NumPy agree? (In a training step rounding alone can decide a result: the gradient
# of a bias before a batch norm is 0 but for rounding, and Adam makes steps of any size from it. Such results are not held
# against a schedule.)

# %%
print(trace.check())

# %%
expected, results = in_numpy(), run_it()
results = [results] if isinstance(results, Tensor) else list(results)
Tensor.realize(*results)
print("nothing to compare with" if expected is None else np.allclose(results[0].numpy(), expected, atol=1e-4))

# %% [markdown]
# ## Keep it
#
# One file that steps in any browser:

# %%
trace.to_html("my_model.html")

# %% [markdown]
# And a line for your build, that fails when somebody makes fusion worse. Put your model and `run_it` into a file
# `my_model.py`, and the limits that hold today into the line:
#
# ```sh
# tinysched report my_model.py:run_it --max-kernels 3 --max-bytes 70000
# ```
#
# ## Where this lives
#
# | | here | in tinygrad |
# |---|---|---|
# | layers | `RMSNorm` in `tinysched/nn/__init__.py` | `RMSNorm` in `tinygrad/nn/__init__.py` |
# | the report | `report` in `tinysched/explain/report.py` | (nothing like it) |
# | what would change a decision | `flip` in `tinysched/explain/flips.py` | (nothing like it) |
#
# **Next:** [11 · Ten more exercises](11_more.ipynb), or back to [the start](00_start.ipynb).
