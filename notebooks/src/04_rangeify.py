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
# # 4 · Movement is index arithmetic
#
# **About 40 minutes.** You need Python and NumPy. Notebook 1 explains "lazy" and "kernel" if you want to look them up.
#
# `transpose`, `reshape`, `pad`, slicing: none of them moves anything. After this notebook you can say what they do instead,
# find the element that any element of a result comes from, and read the index arithmetic in a kernel. At the end you write
# three of the rules yourself, and the engine runs on them.

# %%
import numpy as np

from tinysched import Tensor, capture
from tinysched.lab import check, predict, reveal
from tinysched.widgets import IndexExplorer, RangesView

# %% [markdown]
# ## One loop variable per axis
#
# A kernel loops over the elements of its *result*: a loop variable for each axis, `r0`, `r1`, … Then it asks: which element
# of the source do I need for this one? Take a transpose and add 1.

# %%
x = Tensor(np.arange(15).reshape(3, 5)).realize()
y = x.T + 1
trace = capture(y)

# %% [markdown]
# `y` has 5 rows and 3 columns.
#
# **Predict:** which element of `x` is read for `y[4, 1]`? (Write it as a tuple, `(row, column)`.)

# %% tags=["blank"]
p = predict("x read for y[4, 1]", ...)

# %% tags=["solution"]
p = predict("x read for y[4, 1]", (1, 4))

# %%
reveal(p, trace)

# %% [markdown]
# The numbers in `x` are their own positions in memory, so `x.T` is a picture of where each element of `y` comes from:

# %%
print(x.numpy(), "\n")
print((x.T + 0).numpy())

# %% [markdown]
# The kernel does the same for all of them. Memory is flat, so `x[i, j]` is `p1[i*5 + j]`. Look at what is between the
# brackets:

# %%
print(trace.schedules[0].kernels[0].loops)

# %% [markdown]
# No transpose anywhere: only `r1*5 + r0` instead of `r0*5 + r1`. The movement op became arithmetic on the loop variables
# of whoever reads it. This pass is called **rangeify** (in tinygrad a loop variable is a RANGE).

# %% [markdown]
# ## The table
#
# Each of the six movement ops does one thing to the tuple of indices:
#
# | op | what becomes of the indices of the result |
# |---|---|
# | SHRINK (slicing) | adds the offset |
# | PERMUTE (transpose) | puts them into another order |
# | FLIP | size − 1 − index |
# | EXPAND (broadcast) | drops the leading ones |
# | PAD | index − offset, with the condition that it is inside |
# | RESHAPE | one flat index, taken apart again by // and % |
#
# The engine has a function that does exactly this, and you can call it. It takes the op, the shape of its source, its
# argument, and the indices of its result; it returns the indices of the source. Permute, as above:

# %%
from tinysched import Ops, UOp
from tinysched.ir.symbolic.movement import apply_movement_op
from tinysched.ir.text import expr

r0, r1 = UOp.range(5, 0), UOp.range(3, 1)
[expr(i) for i in apply_movement_op(Ops.PERMUTE, (3, 5), (1, 0), (r0, r1))]

# %% [markdown]
# Shrink: the last five of six rows. Row 0 of the result is row 1 of the source.

# %%
[expr(i) for i in apply_movement_op(Ops.SHRINK, (6, 3), ((1, 6), (0, 3)), (r0, r1))]

# %% [markdown]
# Flip, along the first axis. (The engine writes 4 − r0 as `r0*-1 + 4`.)

# %%
[expr(i) for i in apply_movement_op(Ops.FLIP, (5, 3), (True, False), (r0, r1))]

# %% [markdown]
# Reshape is the interesting one. A `(5, 3)` result over a `(15,)` source is one flat index; over a `(3, 5)` source the
# flat index is taken apart again, by 5:

# %%
[expr(i) for i in apply_movement_op(Ops.RESHAPE, (3, 5), (5, 3), (r0, r1))]

# %% [markdown]
# Pad: two rows of zeros in front. The index comes with a **condition** (after `if`), and where it does not hold the value
# is 0, and nothing is read.

# %%
[expr(i) for i in apply_movement_op(Ops.PAD, (3, 3), ((2, 0), (0, 0)), (r0, r1))]

# %% [markdown]
# ## A chain of movements
#
# From the last to the first, each takes the indices and hands them on. They flow *against* the data. Here are four
# movements in a row, between a product and a sum. (`x` is 3 × 5; padded above and below it is 5 × 5.)

# %%
z = (x * 10).pad(((1, 1), (0, 0))).T.reshape(25)[3:20] + 1
chain = capture(z)

# %% [markdown]
# **Predict:** which element of `x` is read for `z[0]`? Go backwards: `z[0]` is flat element 3; in the `(5, 5)` transpose
# that is row 0, column 3; and so on.

# %% tags=["blank"]
p = predict("x read for z[0]", ...)

# %% tags=["solution"]
p = predict("x read for z[0]", (2, 0))

# %%
reveal(p, chain)

# %% [markdown]
# **Predict:** and for `z[1]`? (If there is none, write `"nothing"`.)

# %% tags=["blank"]
p = predict("x read for z[1]", ...)

# %% tags=["solution"]
p = predict("x read for z[1]", "nothing")

# %%
reveal(p, chain)

# %% [markdown]
# All four movements, as the kernel sees them. The padding became a condition, the transpose and the reshape became // and %:

# %%
print(chain.schedules[0].kernels[0].loops)

# %% [markdown]
# The index explorer shows what an element reads on every level: write `1` in place of `0` after **z [**, or click on a cell
# of any grid. Click on one of `x`, and you see the other way round: who reads it. Crossed cells are padding.

# %%
IndexExplorer(chain)

# %% [markdown]
# And the walk that gave each value its indices, readers first. Press **next node →**: the index that a node is *wanted at*
# is what the node before made of its own.

# %%
RangesView(chain)

# %% [markdown]
# ## A convolution and a pool
#
# The same arithmetic makes windows. A 3 × 3 convolution of an image, then the maximum of every 2 × 2 block:

# %%
image = Tensor(np.arange(36).reshape(1, 1, 6, 6).astype(np.float32)).realize()
weight = Tensor(np.ones((1, 1, 3, 3), dtype=np.float32)).realize()
pooled = image.conv2d(weight).max_pool2d()
conv = capture(pooled)

# %% [markdown]
# **Predict:** the first (top left) of the elements of `image` that are read for `pooled[0, 0, 1, 1]`, as a tuple of four.
# The pool makes 2 × 2 out of the convolution's 4 × 4.

# %% tags=["blank"]
p = predict("image read for pooled[0, 0, 1, 1]", ...)

# %% tags=["solution"]
p = predict("image read for pooled[0, 0, 1, 1]", (0, 0, 2, 2))

# %%
reveal(p, conv)

# %% [markdown] tags=["after"]
# Sixteen of them: a 4 × 4 patch, where the windows of the four convolution results overlap. Write `1` in both of the last
# two places of **pooled** to see them. (The shapes have more axes than you wrote: the window is an axis of its own.)

# %%
IndexExplorer(conv)

# %% [markdown]
# In the loops of the convolution you see the window as a sum of two loop variables: one that goes over results, one (in
# capitals) that is summed over.

# %%
print(conv.schedules[0].kernels[0].loops)

# %% [markdown]
# ## Why this matters
#
# A movement op costs no kernel and no memory. And when two readers want the same value at *the same* indices, they can
# share a loop. When they want it at *different* ones, they cannot: that is where a schedule is cut (notebook 5).
#
# A trap: padding followed by something that does not keep zero. After `pad` and then `+ 1` the padding is 1, not 0:

# %%
print((x.pad(((0, 1), (0, 0))) + 1).numpy())

# %% [markdown]
# ## Build: three index rules
#
# You get the indices of the result (one per axis) and the op's argument, and return the indices of the source, a tuple.
# Indices are like the `r0` and `r1` above: `+`, `-`, `*` and comparisons of them make new ones. The check puts your rule
# into the engine in place of its own, and runs random programs. Where one fails you see the loops that came of your rule.
#
# **PERMUTE.** Axis `i` of the result is axis `order[i]` of the source.


# %% tags=["blank"]
def permute(indices, order):
    return ...


# %% tags=["solution"]
def permute(indices, order):
    return tuple(indices[order.index(axis)] for axis in range(len(order)))


# %%
check(permute, exercise="4.1")

# %% [markdown]
# **SHRINK.** `bounds` has `(start, end)` for each axis.


# %% tags=["blank"]
def shrink(indices, bounds):
    return ...


# %% tags=["solution"]
def shrink(indices, bounds):
    return tuple(i + start for i, (start, end) in zip(indices, bounds))


# %%
check(shrink, exercise="4.2")

# %% [markdown]
# **PAD.** `widths` has `(before, after)` for each axis, `shape` is the shape of the *source*. `i.valid(condition)` is the
# index `i` with a condition; `a >= b`, `a < b` make conditions, `&` joins them (in Python each side needs parentheses:
# `(a >= b) & (a < c)`).


# %% tags=["blank"]
def pad(indices, widths, shape):
    return ...


# %% tags=["solution"]
def pad(indices, widths, shape):
    def one(i, before, size):
        return (i - before).valid((i >= before) & (i < before + size))

    return tuple(one(i, before, size) for i, (before, after), size in zip(indices, widths, shape))


# %%
check(pad, exercise="4.3")

# %% [markdown]
# The check uses a whole "rangeify" of 30 lines, in which your rules sit: `tiny_rangeify` in
# `tinysched/lab/exercises/indices.py`. It is worth reading: it is the idea of the real one.
#
# ## In short
#
# - Give every axis of the result a loop variable. Movement ops are arithmetic on these.
# - Indices flow against the data, from the reader to the source.
# - PAD is an index with a condition; where it fails, the value is 0.
# - RESHAPE is flatten and split, by // and %, and then simplified.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | the six rules | `apply_movement_op` in `tinysched/ir/symbolic/movement.py` | `apply_movement_op` in `tinygrad/schedule/indexing.py` |
# | the walk | `run_rangeify` in `tinysched/schedule/indexing.py` | `run_rangeify` in `tinygrad/schedule/indexing.py` |
# | // and % | `divmod_` in `tinysched/ir/symbolic/affine.py` | `div_and_mod_symbolic` in `tinygrad/uop/divandmod.py` |
#
# **Next:** [5 · Fusion](05_fusion.ipynb).
