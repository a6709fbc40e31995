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
# # 3 · Inputs, outputs, state, and the cache
#
# **About 35 minutes.** You need Python and NumPy. Notebook 1 explains "lazy" and "kernel" if you want to look them up.
#
# A training step runs a million times, and scheduling it takes far longer than running it. After this notebook you can
# say how the engine gets away with scheduling it once, what it must know about writes for that, and in which order writes
# that overlap have to be made. At the end you repair some that are in the wrong order.

# %%
import numpy as np

from tinysched import Tensor, capture, clear_caches
from tinysched.lab import check, picture, predict, reveal
from tinysched.widgets import OrderView

clear_caches()

# %% [markdown]
# ## A step of gradient descent
#
# Weights `w`, a gradient `g`, and a learning rate. `assign` writes new values into the memory of `w`. Like everything
# else it is lazy.

# %%
w = Tensor(np.ones((4, 5), dtype=np.float32)).realize()
g = Tensor(np.full((4, 5), 2.0, dtype=np.float32)).realize()
w.assign(w - 0.1 * g)

# %% [markdown]
# ## From "a graph" to "a function call"
#
# The first thing that the scheduler does is called **callify**. It turns your graph into a *function*, a body with
# parameters, and the *arguments* that it is called with. Every buffer in your graph becomes an argument; in the body
# there is a `PARAM` in its place.
#
# **Predict:** how many arguments does this update have? (Constants are no arguments, and a buffer that is read *and*
# written is still one buffer.)

# %% tags=["blank"]
p = predict("SGD arguments", ...)

# %% tags=["solution"]
p = predict("SGD arguments", 2)

# %%
trace = capture(w)
reveal(p, trace)

# %% [markdown]
# Before and after. The write is a node like any other: `store` puts the new value into the memory of `w`, and `after` is
# `w` as the write leaves it. In the first picture `w` and `g` are your buffers. In the second they are parameters, `p0` and
# `p1`: the names are still shown, since they help people, but the body would be the same with any others.

# %%
picture(trace, stage="tensor graph")

# %%
picture(trace, stage="prepare", step=0)

# %% [markdown]
# An argument is an **input** (only read), an **output** (only written), or **state**: read and written, as the weights are
# here. The kernel shows it: `p0` is read and written. (A difference is written as a sum: `a - b` is `a + b * -1`.)

# %%
print(trace.schedules[0].kernels[0].loops)

# %% [markdown]
# ## Why go to that trouble? The cache
#
# The body has no buffers in it. So the same step on *other* buffers has the same body, and what was scheduled for one is
# right for the other. Let's run the step, and write the next one down.

# %%
w.realize()
w.assign(w - 0.1 * g)

# %% [markdown]
# **Predict:** is this second step in the cache, `"hit"` or `"miss"`?

# %% tags=["blank"]
p = predict("second step: cache", ...)

# %% tags=["solution"]
p = predict("second step: cache", "hit")

# %%
reveal(p, capture(w))

# %% [markdown]
# Now the same step for weights and a gradient that it has never seen, of the same shape.
#
# **Predict:** hit or miss?

# %% tags=["blank"]
p = predict("other buffers: cache", ...)

# %% tags=["solution"]
p = predict("other buffers: cache", "hit")

# %%
w2, g2 = (Tensor(np.zeros((4, 5), dtype=np.float32)).realize() for _ in range(2))
w2.assign(w2 - 0.1 * g2)
reveal(p, capture(w2))

# %% [markdown]
# And another learning rate? The `0.1` is a constant in the graph.
#
# **Predict:** hit or miss with 0.2?

# %% tags=["blank"]
p = predict("learning rate 0.2: cache", ...)

# %% tags=["solution"]
p = predict("learning rate 0.2: cache", "hit")

# %%
clear_caches()
capture(w)  # so that the step with 0.1 is in the cache, and no other, each time you run this cell
w3 = Tensor(np.zeros((4, 5), dtype=np.float32)).realize()
w3.assign(w3 - 0.2 * g2)
reveal(p, capture(w3))

# %% [markdown] tags=["after"]
# A miss: the constant is part of the program, and another program needs another schedule. If you change the learning rate
# at every step, put it into a Tensor: then it is an argument. (Our optimizers do, and so do tinygrad's.) The first step is
# a miss, as a first step has to be:

# %%
clear_caches()
rate = Tensor([0.3]).realize()
w4 = Tensor(np.zeros((4, 5), dtype=np.float32)).realize()
w4.assign(w4 - rate * g2)
print(capture(w4).schedules[0].cache.outcome)
w4.realize()

# %% [markdown]
# And the next one, with another rate:

# %%
rate.assign(Tensor([0.05])).realize()
w4.assign(w4 - rate * g2)
print(capture(w4).schedules[0].cache.outcome)

# %% [markdown]
# What else is part of the key: shapes, types, settings, policies, and **how arguments alias** (whether two of them are the
# same memory). That last one is what the rest is about.
#
# ## Views and values
#
# The model is NumPy's. **A slice is a view**: it shows the memory of its Tensor and follows it. **An expression is a
# snapshot**: it means the values at the time when it was written down.

# %%
x = Tensor(np.arange(5)).realize()
view, snapshot = x[-1:], x[-1:] + 0
x[-1:] = 99
print("view", view.numpy(), " snapshot", snapshot.numpy())

# %% [markdown]
# **Predict** (on paper): what does this print? Each line is a write, and they happen in this order.

# %%
x = Tensor(np.arange(5)).realize()
x[1:] = x[:-1]
x[:1] = x[-1:]
x.numpy()

# %% [markdown]
# The first write is right, though what it reads and what it writes overlap: `[0, 0, 1, 2, 3]`. (A loop that goes from left
# to right and writes as it reads would have made all zeros. The engine sees the overlap and keeps what is still needed.)
#
# But then the last element is no longer 4. It was overwritten *by the program*, and no engine can know that you wanted
# the old one. Look at what it decided about the first write:

# %%
x = Tensor(np.arange(5)).realize()
x[1:] = x[:-1]
x[:1] = x[-1:]
shifted = capture(x)
print(*(told.text for told in shifted.decisions.all() if told.reason == "STORE_READS_TARGET"))

# %% [markdown]
# So there are three kernels: one keeps what is still needed in memory of its own (`b0`), one writes it to `x`, and one makes
# the second write. Why they wait for one another: RAW is *read after write*, WAR *write after read*. (The critical path and
# the ready queue, in the second view, are for notebook 7.)

# %%
from tinysched.views.text import order

print(order(shifted.schedules[0]))

# %%
OrderView(shifted, height=300)

# %% [markdown]
# ## Build: the right order
#
# `turn(x, k)` is to turn the elements of `x` by `k` places, *in the memory of `x`*, so that every view of it sees the
# change: `[0, 1, 2, 3, 4]` by 2 becomes `[3, 4, 0, 1, 2]`. Here is the broken version; repair it. Return `x`. (Useful:
# `x[a:b].clone()` is a snapshot of a part.)
#
# ```python
# def turn(x, k):
#     x[k:] = x[:-k]
#     x[:k] = x[-k:]
#     return x
# ```


# %% tags=["blank"]
def turn(x, k):
    return ...


# %% tags=["solution"]
def turn(x, k):
    last = x[-k:].clone()
    x[k:] = x[:-k]
    x[:k] = last
    return x


# %%
check(turn, exercise="3.1")

# %% [markdown]
# If it fails, the report shows the smallest case that does. Ask yourself for each name in your function: is it a view,
# which follows `x`, or a value, which stays?
#
# ## In short
#
# - callify turns a graph over buffers into a body over PARAMs and a list of arguments.
# - A body without buffers can be scheduled once and used for every call: constants and shapes are part of it, buffers and
#   Variables are not.
# - Writes are part of the graph, as `after(state, store(...))`. A view follows its memory, an expression is a snapshot.
# - The engine keeps reads and writes in an order in which every read sees the state that it means. It does not guess
#   which state *you* meant.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | graph to call | `transform_to_call` in `tinysched/schedule/callify.py` | `transform_to_call` in `tinygrad/tensor.py` |
# | the cache | `schedule_cache` in `tinysched/schedule/pipeline.py` | `schedule_cache` in `tinygrad/schedule/__init__.py` |
# | overlapping writes | `fix_store_hazard` in `tinysched/schedule/simplify.py` | `fix_store_hazard` in `tinygrad/schedule/rangeify.py` |
# | the order | `create_schedule` in `tinysched/schedule/order.py` | `create_schedule` in `tinygrad/schedule/__init__.py` |
#
# **Next:** [4 · Movement is index arithmetic](04_rangeify.ipynb).
