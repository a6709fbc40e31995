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
# # 7 · Kernels in order
#
# **About 40 minutes.** You need Python and NumPy. Notebook 1 explains "kernel".
#
# A training step of a small network is more than twenty kernels. Which may run first, which has to wait, and for what?
# After this notebook you can read the reasons, find the longest chain, and at the end you write the queue that puts
# kernels in order, and train with it.

# %%
import numpy as np

from tinysched import Tensor, capture, nn
from tinysched.lab import check, predict, reveal
from tinysched.views.text import order
from tinysched.widgets import OrderView

# %% [markdown]
# ## A network for small images
#
# 28 × 28 pixels in, ten classes out, sixteen images at once.


# %%
class MLP:
    def __init__(self):
        self.l1, self.l2 = nn.Linear(784, 32), nn.Linear(32, 10)

    def __call__(self, x):
        return self.l2(self.l1(x).relu())


# %%
model = MLP()
images, labels = Tensor.rand(16, 784), Tensor.randint(16, high=10)
weights = nn.state.get_parameters(model)
adam = nn.optim.Adam(weights, lr=0.001)
Tensor.realize(images, labels, *weights, *adam.m, *adam.v, adam.b1_t, adam.b2_t, adam.lr)

# %% [markdown]
# ## Forward
#
# **Predict:** how many kernels for the forward pass alone, up to the loss? Two layers, and a softmax inside of the loss.

# %% tags=["blank"]
p = predict("forward kernels", ...)

# %% tags=["solution"]
p = predict("forward kernels", 5)

# %%
forward = capture(lambda: model(images).sparse_categorical_crossentropy(labels), title="forward")
reveal(p, forward)

# %% [markdown]
# Why each waits, as sentences. RAW means *read after write*: a kernel reads what another has to write first.

# %%
print(order(forward.schedules[0]))

# %% [markdown]
# ## Forward and backward
#
# The gradient of each weight, too.
#
# **Predict:** how many kernels now?

# %% tags=["blank"]
p = predict("forward and backward kernels", ...)

# %% tags=["solution"]
p = predict("forward and backward kernels", 10)


# %%
def gradients():
    adam.zero_grad()
    loss = model(images).sparse_categorical_crossentropy(labels).backward()
    return [loss, *(w.grad for w in weights)]


backward = capture(gradients, title="forward and backward")
reveal(p, backward)

# %% [markdown]
# ## And a step of Adam
#
# Adam keeps two numbers for each weight (`m` and `v`) and two powers of its constants. All of them are read and written
# in place, and there are four weights.
#
# **Predict:** how many kernels?

# %% tags=["blank"]
p = predict("training step kernels", ...)

# %% tags=["solution"]
p = predict("training step kernels", 22)


# %%
def step():
    adam.zero_grad()
    loss = model(images).sparse_categorical_crossentropy(labels).backward()
    return [loss, *adam.schedule_step()]


training = capture(step, title="training step")
reveal(p, training)

# %% [markdown] tags=["after"]
# Why so many? Each state has memory of its own, and a kernel writes one buffer. For each of the four weights there are a
# gradient, `m`, `v`, and the weight itself.

# %% [markdown]
# ## Who can start?
#
# A kernel that waits for nobody can run first.
#
# **Predict:** how many kernels of the training step can start at once?

# %% tags=["blank"]
p = predict("training step: kernels that can start", ...)

# %% tags=["solution"]
p = predict("training step: kernels that can start", 1)

# %%
reveal(p, training)

# %% [markdown] tags=["after"]
# Those that surprise are Adam's powers: `b1_t` and `b2_t` are multiplied by a constant, whatever the network says.

# %% [markdown]
# ## The longest chain
#
# With as many workers as you like, the step still takes as long as its longest chain of kernels that wait for one another:
# the **critical path**.
#
# **Predict:** how many kernels has it?

# %% tags=["blank"]
p = predict("training step: kernels in a row", ...)

# %% tags=["solution"]
p = predict("training step: kernels in a row", 12)

# %%
reveal(p, training)

# %% [markdown]
# The graph of kernels, each with a number; an edge is a wait. In the live widget it is a table, in which each wait has its
# reason: click on a kernel.

# %%
OrderView(training)

# %% [markdown]
# ## Write after read
#
# Reads have to wait for writes. But a write has to wait as well: for those who still read the *old* value. That is WAR.
# A swap has nothing else:

# %%
a, b = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([10.0, 20.0, 30.0]).realize()
old = a + 0
a.assign(b)
b.assign(old)
swap = capture((a, b))
print(order(swap.schedules[0]))

# %% [markdown]
# What counts is *bytes*. Here one kernel reads the first half of `x`, and another writes the second half:

# %%
x = Tensor(np.zeros(8, dtype=np.float32)).realize()
first = x[:4] + 1
x[4:] = Tensor(np.ones(4, dtype=np.float32)).realize() * 3
print("waits:", order(capture((first, x)).schedules[0]) or "none")

# %% [markdown]
# Nobody waits. **Predict** (on paper): what if the first kernel reads `x[:5]`?

# %%
x = Tensor(np.zeros(8, dtype=np.float32)).realize()
first = x[:5] + 1
x[4:] = Tensor(np.ones(4, dtype=np.float32)).realize() * 3
print("waits:", order(capture((first, x)).schedules[0]) or "none")

# %% [markdown]
# ## Different orders
#
# Of the kernels that could run next, an **order policy** takes one. The default takes the one that has been ready for
# longest; another takes the one after which the fewest bytes are alive.

# %%
from tinysched.schedule.policy import MemoryAware, Policies

aware = capture(step, policies=Policies(order=MemoryAware()), title="memory aware")
for trace in (training, aware):
    lane = trace.schedules[0].memory.lanes[0]
    print(f"{trace.title:14} arena {lane.arena_bytes:,} bytes, lower bound {lane.lower_bound_bytes:,}")

# %% [markdown]
# A surprise: the policy that looks at memory needs more of it here. It looks one kernel ahead, and a choice that is good
# now can be bad later. A queue is no plan.
#
# ## Build: the ready queue
#
# `in_order(count, edges)`: there are kernels 0 to `count - 1`; `(before, after)` in `edges` means that one must run before
# the other. Return a list of all kernels, each after those it waits for. Kernel numbers say nothing about the order.
#
# The idea is Kahn's: count for each kernel how many it still waits for. Who waits for nobody is ready. Take a ready one,
# and whoever waited for it waits for one less. The check tries random graphs and then runs real models in your order.


# %% tags=["blank"]
def in_order(count, edges):
    return ...


# %% tags=["solution"]
def in_order(count, edges):
    waits = [sum(after == k for _, after in edges) for k in range(count)]
    order = [k for k in range(count) if waits[k] == 0]
    for kernel in order:  # the list grows while we walk it: it is the queue
        for before, after in edges:
            if before == kernel:
                waits[after] -= 1
                if waits[after] == 0:
                    order.append(after)
    return order


# %%
check(in_order, exercise="7.1")

# %% [markdown]
# ## In short
#
# - RAW: who reads runs after who writes. WAR: who overwrites runs after who still reads.
# - What is compared is bytes, so writes to different parts don't wait.
# - Kahn's algorithm needs one counter per kernel, and finds circles by itself: somebody is left over.
# - The longest chain says how much there is to gain from running kernels at the same time.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | the queue | `create_schedule` in `tinysched/schedule/order.py` | `create_schedule` in `tinygrad/schedule/__init__.py` |
# | who waits for whom | `Hazards` in `tinysched/schedule/hazards.py` | `create_schedule` in `tinygrad/schedule/__init__.py` |
# | which is next | `MemoryAware` in `tinysched/schedule/policy.py` | (always the oldest) |
# | Adam | `Adam` in `tinysched/nn/optim.py` | `Adam` in `tinygrad/nn/optim.py` |
#
# **Next:** [8 · Packing the arena](08_arena.ipynb).
