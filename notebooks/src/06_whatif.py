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
# # 6 · Recompute or store
#
# **About 40 minutes.** You need Python and NumPy. Notebook 5 is about how the engine decides by itself; here you decide.
#
# The engine cuts a computation into **kernels**: loops that read values from memory, compute, and write one result back.
# A value with two readers can be stored in memory once and read twice, or computed twice and never stored. After this
# notebook you can say what each costs, turn single decisions and have the engine schedule again, and at the end you write
# a search that finds the best choice.

# %%
import numpy as np

from tinysched import Tensor, capture, compare, explore
from tinysched.lab import check, picture, predict, reveal, score


def random(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).random(shape, dtype=np.float32)).realize()


# %% [markdown]
# ## A shared `exp`
#
# `e` has 40 × 50 elements and two readers: a sum down the columns, and a sum across the rows. They go through `e` in
# different orders, so one loop cannot serve both.
#
# The picture is read from top to bottom. Boxes with a thick floor are in memory, rounded ones are computed on the way, and
# each coloured area is a kernel, with its number.

# %%
x = random(40, 50)
e = x.exp()
down, across = e.sum(0), e.sum(1)
trace = capture((down, across))
picture(trace)

# %% [markdown]
# `e` has the numbers of both kernels: each computes it for itself. That is what the engine chose, since computing `e` reads
# only `x`, which is as large as `e` would be. (`exp(x)` is computed as `exp2(1.4427 · x)`, so it is two operations.)
#
# ## What if it were stored?
#
# `with_overrides` schedules the same program again, with one decision turned. "realize" stores a value, that is, gives it
# a **buffer** (a place in memory); "fuse" computes it in each of its readers, whatever that costs.

# %%
stored = trace.with_overrides({"e": "realize"})
picture(stored)

# %% [markdown]
# Count what that costs. `x` has 2,000 floats of 4 bytes, the sums have 50 and 40.
#
# - fused: both kernels read `x`, and write their sum.
# - stored: one kernel reads `x` and writes `e`; two kernels read `e`, and write their sum.
#
# **Predict:** how many bytes does *fusing* save? (That is, bytes moved when stored, less bytes moved when fused.)

# %% tags=["blank"]
p = predict("fusing e: bytes saved", ...)

# %% tags=["solution"]
p = predict("fusing e: bytes saved", 4 * 8000 - 2 * 8000)

# %%
reveal(p, stored, trace)

# %% [markdown]
# It is not for free: each of the 2,000 `exp` is computed twice, and each is two operations, a multiplication and a power
# of 2.
#
# **Predict:** how many operations does fusing add?

# %% tags=["blank"]
p = predict("fusing e: operations added", ...)

# %% tags=["solution"]
p = predict("fusing e: operations added", 2 * 2000)

# %%
reveal(p, stored, trace)

# %% [markdown]
# `compare` puts both side by side, and really runs both on the same random inputs, for the time and to see that the values
# are the same. *Time at best* is what moving these bytes and doing these operations takes on your machine, when nothing
# else does. With tensors as small as these, starting a kernel takes longer than that, so the measured times say little.

# %%
print(compare(trace, stored))

# %% [markdown]
# The same by hand: click on `e` in the explorer, read on the right why it was fused, and press **try it: store**. Below
# the graph you see what that changes; ↶ takes it back.

# %%
shown = explore((down, across), height=600)
shown

# %% [markdown]
# A cell can do it as well: change `shown.overrides`, and the explorer above follows.

# %%
shown.overrides = {"e": "realize"}
print(len(shown.trace.schedules[0].kernels), "kernels")

# %% [markdown]
# ## Attention: the large middle
#
# In attention each token asks every other one how much it matters. `scores` is the product of all queries `q` with all keys
# `k`: with `n` tokens it has `n × n` elements. Softmax reads it twice, once for the maximum of each row and once for `exp`.
# Let's take 64 tokens, and very small ones: 4 numbers each.

# %%
q, k, v = (random(64, 4, seed=n) for n in range(3))
scores = q @ k.T
out = scores.softmax() @ v
attention = capture(out)
print(attention.decisions.why(scores))

# %% [markdown]
# The line that counts begins with *so*: `scores` is a sum over 4 numbers that are read from memory. Fused, every reader does
# this sum again.
#
# **Predict:** does fusing `scores` save bytes here? How many? (`scores` has 64 × 64 × 4 = 16,384 bytes. The inputs have
# 1,024 each. Positive means that fusing moves less.)

# %% tags=["blank"]
p = predict("fusing scores: bytes saved", ...)

# %% tags=["solution"]
p = predict("fusing scores: bytes saved", 16384)

# %%
fused = attention.with_overrides({"scores": "fuse"})
reveal(p, attention, fused)

# %%
print(compare(attention, fused))

# %% [markdown] tags=["after"]
# Look at the last lines: *what* is stored has changed, too. With `scores` gone, another value became worth a buffer: `exp2`,
# the power in the middle of softmax, which was computed on the way before. So decisions depend on one another, and that is
# what makes it hard to choose well.

# %% [markdown]
# ## Larger tokens
#
# The same with 64 numbers for each token: now `q`, `k` and `v` are as large as `scores`, 16,384 bytes each.
#
# **Predict:** bytes saved by fusing now? Getting the sign right is a good start.

# %% tags=["blank"]
p = predict("fusing scores with 64 numbers: bytes saved", ...)

# %% tags=["solution"]
p = predict("fusing scores with 64 numbers: bytes saved", -16384)

# %%
q, k, v = (random(64, 64, seed=n) for n in range(3))
scores = q @ k.T
large = capture(scores.softmax() @ v)
large_fused = large.with_overrides({"scores": "fuse"})
reveal(p, large, large_fused)

# %% [markdown] tags=["after"]
# The best choice depends on sizes. FlashAttention is a cleverer way out: it never stores `scores`, and computes each
# element once. That takes a loop that carries two running values, which is outside of what this scheduler does.

# %% [markdown]
# ## A price
#
# What is better, fewer bytes or fewer operations? That depends on the machine. If it does 10 operations in the time it
# moves a byte, an operation costs as much as 0.1 bytes. With such a price a schedule has *one* number: `Price(0.1)` is a
# function that takes a trace and returns its bytes moved, plus 0.1 for each operation.

# %%
from tinysched.lab.exercises.cuts import Price

for price in (0.01, 0.1, 1.0):
    cost = Price(price)
    print(f"{price:5}  store: {cost(large):12,.0f}   fuse: {cost(large_fused):12,.0f}")

# %% [markdown]
# When operations are cheap, it is better to store `scores`; when they are dear, to fuse it. That sounds the wrong way
# round! But remember what happened above: with `scores` fused, `exp2` is stored. With `scores` stored it is not, and the
# product with `v` computes it again for each of its 64 columns.
#
# ## Build: the cheapest set of cuts
#
# `choose(trace, names, cost)` gets a trace, the names of the values that there is a choice about, and a function that gives
# the cost of a trace. Return the overrides (a dict from names to "fuse" or "realize"; names that you leave out are decided
# by the engine) for which `cost(trace.with_overrides(overrides))` is smallest.
#
# There are never more than two names, so it can be done by trying. But think about which combinations there are. (The check
# schedules some hundred times; it takes a few seconds.)


# %% tags=["blank"]
def choose(trace, names, cost):
    return ...


# %% tags=["solution"]
from itertools import product


def choose(trace, names, cost):
    every = product(("", "fuse", "realize"), repeat=len(names))
    overrides = [{name: what for name, what in zip(names, choice) if what} for choice in every]
    return min(overrides, key=lambda o: cost(trace.with_overrides(o)))


# %%
check(choose, exercise="6.1")

# %% [markdown]
# ## A number to beat
#
# The small attention block again. Softmax is written out here, so that its parts have names. `score` shows your schedule
# beside the engine's own (the *reference*), and the best of this session.
#
# With `scores` fused it moves 56,320 bytes. Can you find overrides that move less than 10,000? What do they cost instead?

# %%
q, k, v = (random(64, 4, seed=n) for n in range(3))
scores = q @ k.T
e = (scores - scores.max(1, keepdim=True)).exp()
probs = e / e.sum(1, keepdim=True)
small = capture(probs @ v)

# %%
score(small.with_overrides({"scores": "fuse"}))

# %% [markdown]
# ## In short
#
# - Storing costs a write, and a read by each reader. Recomputing costs the operations, and the reads of its inputs, once
#   for each further reader.
# - `trace.with_overrides` turns decisions and really schedules again; `compare` runs both.
# - Decisions are not independent: the best for one value depends on the others.
# - With a price for operations there is a best schedule. A search finds it for small graphs; rules of thumb are for large
#   ones.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | overrides | `with_overrides` in `tinysched/trace/whatif.py` | (nothing like it) |
# | comparing | `compare` in `tinysched/trace/compare.py` | (nothing like it) |
# | the cost that is looked at | `cost_of` in `tinysched/schedule/simplify.py` | `remove_bufferize` in `tinygrad/schedule/rangeify.py` |
# | counting bytes and operations | `Kernel` in `tinysched/trace/document.py` | `GlobalCounters` in `tinygrad/helpers.py` |
#
# **Next:** [7 · Kernels in order](07_order.ipynb).
