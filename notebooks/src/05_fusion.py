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
# # 5 · Fusion: what must be in memory
#
# **About 45 minutes.** You need Python and NumPy. Notebook 1 explains "kernel", notebook 4 where index expressions come
# from; neither is needed to start.
#
# How many kernels does a softmax need, and why not one? Why do 32,768 numbers add up in another way than 32,767? After
# this notebook you can read the reasons, and at the end you write the policy that decides, and beat the default.

# %%
import numpy as np

from tinysched import Context, Tensor, capture, compare
from tinysched.lab import check, picture, predict, reveal, score
from tinysched.widgets import GraphView, WhyView

x = Tensor(np.random.default_rng(0).random((30, 40), dtype=np.float32)).realize()

# %% [markdown]
# ## One reader: fused for free
#
# Where one value reads another, and nobody else does, one loop can do both.

# %%
y = x.exp() * 2 + 1
trace = capture(y)
trace.decisions.why(x.exp())

# %% [markdown]
# `SINGLE_CONSUMER` is the name of the reason. Each decision has one, with evidence, and a sentence made of both. (`r0` and
# `r1` are loops. The engine computes `exp` as `exp2`, a power of 2, of a multiple.)

# %% [markdown]
# ## Two readers that loop alike
#
# The sum and the maximum of each row. Both go over the same rows, and over the columns in the same way.
#
# **Predict:** how many kernels has `x.sum(1) + x.max(1)`?

# %% tags=["blank"]
p = predict("sum(1) + max(1): kernels", ...)

# %% tags=["solution"]
p = predict("sum(1) + max(1): kernels", 3)

# %%
both = x.sum(1) + x.max(1)
reveal(p, capture(both))

# %% [markdown] tags=["after"]
# One loop over the rows, and inside of it first a loop for the sum and then one for the maximum (in capitals: loops that a
# reduction goes over). Both need the same row at the same time, so they can share the outer loop:

# %%
print(capture(both).schedules[0].kernels[0].loops)

# %% [markdown]
# ## Two readers that loop differently
#
# Now `square` is read by a sum over rows and by a sum over columns, and we ask for both.
#
# **Predict:** how many kernels?

# %% tags=["blank"]
p = predict("sum(0) and sum(1): kernels", ...)

# %% tags=["solution"]
p = predict("sum(0) and sum(1): kernels", 3)

# %%
square = x * x
rows, columns = square.sum(0), square.sum(1)
sums = capture((rows, columns))
reveal(p, sums)

# %% [markdown] tags=["after"]
# What happened to `square`? First the pass `rangeify` found that its readers disagree, so it was to be stored. Then the pass
# `simplify` looked at the price: it reads only one buffer, so each reader may as well compute it again.

# %%
sums.decisions.why(square)

# %% [markdown]
# So there are two questions, one after the other:
#
# 1. **Can** one loop serve all readers? (Their index expressions are compared, axis by axis.)
# 2. If not: is it **worth** a buffer, or is it cheaper to compute it in each reader? By default it is stored if computing
#    it reads more than 3 buffers, or if a reduction inside of it reads a buffer.
#
# ## Softmax
#
# `softmax(x)` is `e / e.sum(1)` with `e = exp(x - x.max(1))`.
#
# **Predict:** how many kernels?

# %% tags=["blank"]
p = predict("softmax kernels", ...)

# %% tags=["solution"]
p = predict("softmax kernels", 3)

# %%
soft = x.softmax()
reveal(p, capture(soft))

# %% [markdown] tags=["after"]
# The maximum of a row must be known before the first `exp` of that row: a loop over the row has to end before another one
# starts. That is true for the sum as well.

# %% [markdown]
# Here is the graph, and below it what was decided about the node that you click on. The two move together: try `max`, `exp2`
# and one of the small grey ones.

# %%
seen = GraphView(capture(soft), stage="tensor graph")
seen

# %%
WhyView(seen)

# %% [markdown]
# ## Layer norm and RMS norm
#
# LayerNorm needs the mean of a row, then the variance (which needs the mean), then the result. RMSNorm leaves out the mean:
# `x / sqrt(mean(x²))`.
#
# **Predict** the kernels of both.

# %% tags=["blank"]
p, q = predict("LayerNorm kernels", ...), predict("RMSNorm kernels", ...)

# %% tags=["solution"]
p, q = predict("LayerNorm kernels", 3), predict("RMSNorm kernels", 2)

# %%
t = Tensor(np.random.default_rng(1).random((20, 50), dtype=np.float32)).realize()
reveal(p, capture(t.layernorm()))

# %%
reveal(q, capture(t * (t.square().mean(1, keepdim=True) + 1e-5).rsqrt()))

# %% [markdown]
# ## A large sum
#
# One loop that adds up many numbers to one cannot be shared by many workers. So a reduction whose input is at least
# 32,768 times as large as its output is split in two.
#
# **Predict:** kernels for 32,767 numbers, and for 32,768.

# %% tags=["blank"]
p, q = predict("32767 kernels", ...), predict("32768 kernels", ...)

# %% tags=["solution"]
p, q = predict("32767 kernels", 1), predict("32768 kernels", 2)

# %%
reveal(p, capture(Tensor.rand(32767).realize().sum()))

# %%
reveal(q, capture(Tensor.rand(32768).realize().sum()))

# %% [markdown]
# The number is a setting. With another one, 1,200 are many:

# %%
with Context(REDUCEOP_SPLIT_THRESHOLD=1000):
    print(len(capture(x.sum()).schedules[0].kernels), "kernels")

# %% [markdown]
# ## Policies
#
# Question 2 above, *is it worth a buffer?*, is asked of a **policy**, and you can bring your own. Three that exist: the
# default (`Upstream`), `Eager` (keep every buffer), `AllLegal` (remove every buffer that may be removed).

# %%
from tinysched.schedule.policy import AllLegal, Eager, Policies

scores = (x @ x.T).softmax()
score(capture(scores))

# %%
score(capture(scores, policies=Policies(fusion=Eager())))

# %%
score(capture(scores, policies=Policies(fusion=AllLegal())))

# %% [markdown]
# Fusing everything moves few bytes, but look at the operations: the product of matrices is computed again for each element
# that reads it. Storing everything does the fewest operations and moves the most. A policy is a compromise.
#
# ## Where the default is not good
#
# An outer product: four small vectors make a large matrix, and two sums read it.

# %%
a, b = (Tensor(np.random.default_rng(n).random((200, 1), dtype=np.float32)).realize() for n in (1, 2))
c, d = (Tensor(np.random.default_rng(n).random((1, 300), dtype=np.float32)).realize() for n in (3, 4))
outer = a * c + b * d
two = capture((outer.sum(0), outer.sum(1)))
two.decisions.why(outer, flips=True)

# %% [markdown]
# Four buffers, more than 3, so `outer` is stored: 240 kB, to save reading 4 kB again. The last line but one, *if*, says what
# fusing it would give (because of `flips=True` the engine really tried). Let's do so too, and compare:

# %%
fused = two.with_overrides({"outer": "fuse"})
print(compare(two, fused))

# %% [markdown]
# A seventieth of the bytes. Is it faster? *Time at best* is what memory needs for the bytes. *Time measured* is on this
# machine, where 240 kB fit into the processor's cache, and reading from there is nearly free: so small, the operations that
# are done twice may cost more than the bytes that are saved. Notebook 6 weighs the one against the other.

# %%
picture(fused)

# %% [markdown]
# ## Build: a policy that moves fewer bytes
#
# Write `should_keep(stage, cost)`: true if the buffer should stay.
#
# - `stage.size`: how many elements the buffer would hold
# - `cost.buffers`: the buffers that are read if the value is computed where it is needed (a tuple); each has a `size` of its
#   own, also in elements
# - `cost.reduces`: the reductions that would be done again (a tuple, empty if there are none)
#
# The default is, in short, `len(cost.buffers) > 3 or bool(cost.reduces)`: it counts the buffers, however large they are.
#
# On every program of the check: never more kernels than the default, never more bytes, at most twice the operations, the
# same values. And on the outer products, fewer bytes.


# %% tags=["blank"]
def should_keep(stage, cost):
    return ...


# %% tags=["solution"]
def should_keep(stage, cost):
    reading_again = sum(buffer.size for buffer in cost.buffers)
    return bool(cost.reduces) or reading_again > 2 * stage.size


# %%
check(should_keep, exercise="5.1")

# %% [markdown]
# Your policy is a value like any other. This is all it takes to use it in the engine:
#
# ```python
# from dataclasses import dataclass
#
# @dataclass(frozen=True)
# class Mine:
#     def keep(self, stage, cost):
#         return should_keep(stage, cost)
#
# score(capture(scores, policies=Policies(fusion=Mine())))
# ```
#
# ## In short
#
# - One reader: fused. Several readers at the same indices: fused. At different indices: a candidate for memory.
# - A loop that has to end before another starts (a reduction that is broadcast again) ends a kernel.
# - A candidate stays only if computing it again costs more. That is a policy, and no law of nature.
# - Every decision has a reason and evidence; `why` makes sentences of them, and flips say what would change.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | do readers agree? | `run_rangeify` in `tinysched/schedule/indexing.py` | `run_rangeify` in `tinygrad/schedule/indexing.py` |
# | is it worth a buffer? | `remove_bufferize` in `tinysched/schedule/simplify.py` | `remove_bufferize` in `tinygrad/schedule/rangeify.py` |
# | policies | `Upstream` in `tinysched/schedule/policy.py` | (fixed numbers in `tinygrad/schedule/rangeify.py`) |
# | large sums | `split_reduceop` in `tinysched/schedule/prepare.py` | `split_reduceop` in `tinygrad/schedule/rangeify.py` |
#
# **Next:** [6 · Recompute or store](06_whatif.ipynb).
