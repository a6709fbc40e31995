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
# **About 40 minutes.** You need Python and NumPy.
#
# The engine cuts a computation into **kernels**: loops that read buffers (places in memory), compute, and write one buffer.
# A training step of a small network is more than twenty of them. Which may run first, which has to wait, and for what?
# After this notebook you can read the reasons, find the longest chain, and at the end you write the queue that puts
# kernels in order, and train with it.

# %%
import numpy as np

from tinysched import Tensor, capture, nn
from tinysched.lab import check, predict, reveal
from tinysched.views.text import kernels, order
from tinysched.widgets import OrderView

# %% [markdown]
# ## A network for small images
#
# 28 × 28 pixels in, ten classes out, sixteen images at once. The numbers are random: here they don't matter.
#
# `realize` computes what it is given and puts it in memory. So what we look at below is the network, and not how its
# weights were made.


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
Tensor.realize(images, labels, *weights)
print([w.shape for w in weights])

# %% [markdown]
# ## Forward
#
# **Predict:** how many kernels for the forward pass alone, up to the loss? There are two layers, and the loss takes a
# softmax: for each image the maximum over its ten numbers, a sum, and then a mean over all images.

# %% tags=["blank"]
p = predict("forward kernels", ...)

# %% tags=["solution"]
p = predict("forward kernels", 5)

# %%
forward = capture(lambda: model(images).sparse_categorical_crossentropy(labels), title="forward")
reveal(p, forward)

# %% [markdown]
# What each kernel reads and writes. Buffers without a name of yours are called `b0`, `b4` and so on.

# %%
print(kernels(forward.schedules[0]))

# %% [markdown]
# From that follows who waits for whom. RAW means *read after write*: a kernel reads what another has to write first.

# %%
print(order(forward.schedules[0]))

# %% [markdown]
# ## Forward and backward
#
# Now the gradient of the loss with respect to each of the four weights, too. (`w1`, `b1`, `w2` and `b2`, if you like: the
# biases count.)
#
# **Predict:** how many kernels now?

# %% tags=["blank"]
p = predict("forward and backward kernels", ...)

# %% tags=["solution"]
p = predict("forward and backward kernels", 10)


# %%
def gradients():
    for w in weights:
        w.grad = None
    loss = model(images).sparse_categorical_crossentropy(labels).backward()
    return [loss, *(w.grad for w in weights)]


backward = capture(gradients, title="forward and backward")
reveal(p, backward)

# %% [markdown]
# ## And a step of Adam
#
# Adam keeps two tensors for each weight: `m`, a running mean of its gradient, and `v`, one of the gradient's square. And it
# keeps two powers of its constants, `b1_t` and `b2_t`. A step reads all of them and writes them in place, and writes the
# four new weights.
#
# `schedule_step` gives all that a step writes, without computing it. We really take one step first, so that everything
# that Adam keeps is in memory.

# %%
adam = nn.optim.Adam(weights, lr=0.001)


def step():
    adam.zero_grad()
    loss = model(images).sparse_categorical_crossentropy(labels).backward()
    return [loss, *adam.schedule_step()]


print("loss before:", Tensor.realize(*step()).item())

# %% [markdown]
# **Predict:** how many kernels has a step?

# %% tags=["blank"]
p = predict("training step kernels", ...)

# %% tags=["solution"]
p = predict("training step kernels", 22)

# %%
training = capture(step, run=True, title="training step")
reveal(p, training)

# %% [markdown] tags=["after"]
# Why so many? A kernel writes one buffer, and much has to be written: for each of the four weights a gradient, `m`, `v`,
# and the weight itself, which makes 16, and `b1_t` and `b2_t`. The other eight are the forward and the backward pass.

# %% [markdown]
# (`run=True` takes this step. Without it its writes would still be pending, and the next capture would show two steps.)

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
# The graph of kernels, from top to bottom; an edge is a wait, and strong ones are the critical path. In the live widget
# click on a kernel to see what it waits for, and why. **‹ ›** step through the queue: who is ready, and who runs. (Here
# the critical path is the chain that took the most time, so it may be another than the one above.)

# %%
OrderView(training)

# %% [markdown]
# ## Write after read
#
# Reads have to wait for writes. But a write has to wait as well: for those who still read the *old* value. That is WAR,
# *write after read*. Here `total` wants the sum of `a` as it was before:

# %%
a = Tensor([1.0, 2.0, 3.0]).realize()
total = a.sum()
a.assign(Tensor([10.0, 20.0, 30.0]).realize() * 2)
print(order(capture((total, a)).schedules[0]))

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
# longest; another takes the one after which the fewest bytes are alive. Both orders are right. What differs is how much
# memory intermediates take, the **arena**.

# %%
from tinysched.schedule.policy import MemoryAware, Policies

aware = training.with_policies(Policies(order=MemoryAware()))
for name, trace in (("longest ready", training), ("fewest bytes", aware)):
    print(f"{name:14} arena {trace.schedules[0].memory.lanes[0].arena_bytes:,} bytes")

# %% [markdown]
# A little less, and no more than that: the gradient of the first layer alone takes 784 × 32 × 4 = 100,352 bytes, whatever
# the order. Notebook 8 is about the arena.
#
# ## Build: the ready queue
#
# `in_order(count, edges)`: there are kernels 0 to `count - 1`; `(before, after)` in `edges` means that one must run before
# the other. Return a list of all kernels, each after those it waits for. Kernel numbers say nothing about the order.
#
# The idea is Kahn's: count for each kernel how many it still waits for. One that waits for nobody is ready. Take a ready
# one, and those that waited for it wait for one less. The check tries random graphs and then runs real models in your
# order.


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
# It passes? Then train with it. These are the engine's passes, but for the order, which is yours:
#
# ```python
# from tinysched.lab.exercises.order import with_order
#
# for _ in range(10):
#     trace = capture(step, pipeline=with_order(in_order), run=True, title="my order")
# print("loss after ten steps:", model(images).sparse_categorical_crossentropy(labels).item())
# ```
#
# ## In short
#
# - RAW, read after write: a kernel that reads a buffer runs after the one that writes it. WAR, write after read: one that
#   overwrites runs after those that still read the old value.
# - What is compared is bytes, so a write to one part need not wait for a read of another.
# - Kahn's algorithm needs one counter per kernel. If kernels waited for one another in a cycle, some would be left over.
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
