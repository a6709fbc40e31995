# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Five minutes: from a lazy Tensor to kernels that run
#
# A tensor compiler answers three questions: **which values are worth a buffer, in what order do the kernels run, where
# in memory does everything lie?** `tinysched` answers them in the open. Here is one attention block, with nothing
# computed yet.

# %%
from tinysched import Tensor, capture, explore, nn

q, k, v = (Tensor.randn(1, 4, 64, 32).realize() for _ in range(3))

# %%
scores = q @ k.transpose(-2, -1) / 32**0.5
out = scores.softmax(-1) @ v
out

# %% [markdown]
# `out` is **lazy**: a graph, no numbers. `explore` schedules it (decides how it will be computed) and shows every step of
# how. It computes nothing either.
#
# - the list on the left are the scheduler's ten **passes**, and below it the steps of the one that is chosen
# - **← →** a step back or on, **↑ ↓** a pass (click into the graph first; the buttons at the top do the same, **?** tells
#   all keys and signs)
# - a coloured area with a number is a **kernel**: what it holds is computed in one loop nest
# - a box with a floor is **stored** in memory, a pill is **fused**: computed where it is read

# %%
explore(out)

# %% [markdown]
# ## Why is `scores` stored?
#
# Two values read it (the maximum and the difference inside of the softmax), and they loop over it differently. The explorer
# opens at any place you name: here at the step of the pass **rangeify** that decides about `scores`, with the table of
# kernels below. (`r` and a number is a loop, `R` one that a sum or a maximum goes over.)

# %%
explore(out, stage="rangeify", node="scores", view="kernels")

# %% [markdown]
# The same sentences can be had as text. `capture` gives a **trace**: everything that the scheduler did, as data.

# %%
trace = capture(out)
trace.decisions.why(scores)

# %% [markdown]
# ## What if it were fused?
#
# In the explorer above, **try it: fuse** is on the right, under *why*. Press it, and the scheduler really runs again: both
# schedules stand side by side, **measure both** runs them and compares their values, and the bent arrow beside **what if:
# 1** takes it back. The same from a cell:

# %%
explore(out, overrides={"scores": "fuse"}, view="compare")

# %%
from tinysched import compare

fused = trace.with_overrides({"scores": "fuse"})
print(compare(trace, fused, run=False))

# %% [markdown]
# ## A part of it, where the text needs it
#
# Views of one trace move together: click on a node in the graph, and *why* below it speaks about that. (Their `stage`,
# `step`, `selection` and `overrides` are traits: `jslink` a slider to them, or drive them with `interact`.)

# %%
from tinysched.widgets import GraphView, WhyView

seen = GraphView(trace, selection={"kind": "kernel", "id": 2})
seen

# %%
WhyView(seen)

# %% [markdown]
# ## Run it
#
# The **run** button of the explorer does this: times of each kernel, and the values of every intermediate. (Only once: after
# it `out` has its numbers, and there is nothing left to schedule.)

# %%
running = explore(out, view="values")
running.run()
running

# %% [markdown]
# Is it right? NumPy is the judge.

# %%
import numpy as np

a = q.numpy() @ k.numpy().swapaxes(-2, -1) / 32**0.5
a = np.exp(a - a.max(-1, keepdims=True))
expected = (a / a.sum(-1, keepdims=True)) @ v.numpy()
np.allclose(out.numpy(), expected, atol=1e-5)

# %% [markdown]
# ## A training step
#
# A function can be explored as well: the forward pass, the gradients and the writes of the new weights are one schedule.
# Look at **order** (which kernel waits for which, and why) and **arena** (who lies where in memory, and after whom).


# %%
class MLP:
    def __init__(self):
        self.l1, self.l2 = nn.Linear(64, 32), nn.Linear(32, 10)

    def __call__(self, x):
        return self.l2(self.l1(x).relu())


# %%
model = MLP()
optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.1)
x, y = Tensor.randn(16, 64), Tensor.randint(16, high=10)
Tensor.realize(x, y, optimizer.lr, *optimizer.params)


# %%
def step():
    optimizer.zero_grad()
    loss = model(x).sparse_categorical_crossentropy(y).backward()
    return loss, *optimizer.schedule_step()


# %%
explore(step, view="arena")

# %% [markdown]
# ## Take it with you
#
# One file, no server, no network: it steps in any browser. (So does this notebook, reopened without a kernel; and the
# explorer exports the graph as SVG or PNG, the trace as JSON, itself as HTML.)

# %%
trace.to_html("attention.html")

# %% [markdown]
# **Next:** [the course](01_lazy.ipynb), nine notebooks in which you predict, reveal, and build.
