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
# # 1 · Lazy: nothing runs yet
#
# **About 30 minutes.** You need Python and a little NumPy, nothing else.
#
# After this notebook you can say what a *lazy* Tensor is, what a *kernel* is, and how many of them an expression needs. At
# the end you cut a program into exactly two kernels, and the lab checks it.
#
# How it goes, here and in the other notebooks: **predict** (write down a guess), **reveal** (see what the engine says and
# why), look, change something, and in the end **build** something yourself. A wrong guess costs nothing. It is the
# quickest way to learn, so do write one down each time: put it in place of the dots, and run the cell (Shift + Enter).
#
# The results that you see below are from an earlier run. Those that would tell you an answer are folded until you run their
# cell. (Your editor shows them all the same? Clear all outputs first; in JupyterLab that is *Edit → Clear Outputs of All
# Cells*.)

# %%
import numpy as np

from tinysched import GlobalCounters, Tensor, capture, compare, explore
from tinysched.lab import check, picture, predict, reveal

# %% [markdown]
# ## A Tensor that holds numbers
#
# `Tensor(array)` says which numbers you mean. `realize()` puts them into memory now. A Tensor that has its numbers in
# memory is called **realized**.

# %%
a = Tensor(np.arange(12).reshape(3, 4)).realize()
a

# %% [markdown]
# ## A Tensor that holds a plan
#
# Now add to it. The result has a shape and a type, but look at the last word.

# %%
b = a + 4 + 3
b

# %% [markdown]
# Not realized: **nothing has been computed**. `b` knows *how* it would be computed. That is what lazy means: an operation
# on Tensors writes down what you want, and nothing more.
#
# The engine counts every kernel that it runs. Let's see whether writing an expression runs any.

# %%
GlobalCounters.reset()
c = (a + 4 + 3) * 2 - 1
GlobalCounters.kernel_count

# %% [markdown]
# ## What `b` is: a graph
#
# A picture of what you wrote. Data flows from top to bottom: `a` lies in memory (a box with a floor), the two additions are
# computed, and each says with which constant and in which shape. (Memory is flat: 12 numbers in a row. The small `reshape`
# is how they become 3 rows of 4.)

# %%
picture(b, plain=True)

# %% [markdown]
# The graph is made of plain objects. Each node has an operation (`op`) and sources (`src`: what it reads). Walk up from `b`:

# %%
print(b.uop.op, "←", b.uop.src[0].op, "←", b.uop.src[0].src[0].op)

# %% [markdown]
# ## Kernels
#
# When numbers are needed, the engine turns the graph into **kernels**. A kernel is one loop over the elements of its
# result: it reads from memory, computes, and writes to memory. Everything else about a kernel follows from that.
#
# `b` has two additions. The plain way would be one loop for `a + 4`, which writes its result to memory, and a second loop
# that reads it back and adds 3.
#
# **Predict:** how many kernels does the engine need for `b`?

# %% tags=["blank"]
p = predict("a + 4 + 3 kernels", ...)
p

# %% tags=["solution"]
p = predict("a + 4 + 3 kernels", 2)
p

# %%
trace = capture(b)
reveal(p, trace)

# %% [markdown] tags=["after"]
# One. In the loop that adds 4, the number is at hand, so 3 can be added at once. The value `a + 4` never gets memory:
# it is **fused** into the kernel of its reader. (The reason above is about `b`: it is what was asked for, so it must be
# written, and a write is where a kernel ends. No other value is written.)

# %% [markdown]
# In the Explorer a kernel is a coloured area with a number. Every node remembers which line of *your* code made it: click on
# one, and press **source** on the right. (`a + 4` stands in two of your cells. The engine saw that they are the same and
# made one node, which has both lines.)

# %%
explore(b, height=420)

# %% [markdown]
# This is the loop, as the engine writes it for readers. `p0` is the memory that it writes, `p1` the memory that it reads. Its
# name says what it is: `E` for elementwise (`r` for one that reduces: a sum, a maximum), then the sizes of its loops.

# %%
print(trace.schedules[0].kernels[0].loops)

# %% [markdown]
# `capture` gave us a **trace**: everything that the scheduler did, as data. You can ask it why `a + 4` got no memory. (`r0`
# and `r1` are the loops. *line* says where you wrote it, *so* is the decision and its reason, *now* what came of it.)

# %%
trace.decisions.why(a + 4)

# %% [markdown]
# ## What fusing saves
#
# A number in a register costs nearly nothing. A number in memory has to be written and read. Count the **bytes moved**:
# `a` has 12 numbers of 8 bytes each (NumPy's default integers), so it is 96 bytes large.
#
# **Predict:** how many bytes does the one kernel of `b` move, reads and writes together?

# %% tags=["blank"]
p = predict("a + 4 + 3 bytes moved", ...)

# %% tags=["solution"]
p = predict("a + 4 + 3 bytes moved", 96 + 96)

# %%
reveal(p, trace)

# %% [markdown]
# ## Asking for memory: `contiguous()`
#
# `x.contiguous()` says: give this value memory of its own, whatever you think of it. Put it between the two additions.
#
# **Predict:** how many kernels now?

# %% tags=["blank"]
p = predict("with contiguous in the middle: kernels", ...)

# %% tags=["solution"]
p = predict("with contiguous in the middle: kernels", 2)

# %%
cut = (a + 4).contiguous() + 3
reveal(p, capture(cut))

# %% [markdown] tags=["after"]
# The reason has a name, `USER_FORCED`: you asked for it. Two coloured areas now, and a value with a floor between them:

# %%
picture(cut)

# %% [markdown]
# Side by side: more kernels, more bytes, and the very same numbers. (*Arena* is memory for values in the middle, which
# notebook 8 is about. *Time at best* is how long this machine's memory takes for the bytes; for so small a Tensor starting
# a kernel takes far longer.)

# %%
print(compare(trace, capture(cut)))

# %% [markdown]
# ## And at the end?
#
# **Predict:** how many kernels has `(a + 4 + 3).contiguous()`? Think about what happens to a result anyway.

# %% tags=["blank"]
p = predict("contiguous at the end: kernels", ...)

# %% tags=["solution"]
p = predict("contiguous at the end: kernels", 1)

# %%
reveal(p, capture((a + 4 + 3).contiguous()))

# %% [markdown] tags=["after"]
# What you ask for is stored anyway, so `contiguous()` asks for nothing new. The same at the beginning: `a` lies in memory
# already, and `a.contiguous()` is `a`.

# %%
capture(a.contiguous() + 4 + 3)

# %% [markdown]
# ## Now run it
#
# `numpy()` needs numbers, so it runs the kernels. This is the first time that `b` is computed.

# %%
GlobalCounters.reset()
print(b.numpy())
GlobalCounters.kernel_count

# %% [markdown]
# Ask again. The numbers are in memory now, so nothing runs.

# %%
b.numpy()
GlobalCounters.kernel_count

# %% [markdown]
# ## Build: a cut for exactly two kernels
#
# Write a function that returns `(a + 4) * 3 - a` such that the engine needs **exactly two** kernels. It has to work for
# every shape. (There is more than one good answer.) `check` tries it on Tensors of many shapes; where it does not pass, it
# shows you the smallest one, the kernels, and the graph.


# %% tags=["blank"]
def two_kernels(a):
    return ...


# %% tags=["solution"]
def two_kernels(a):
    return ((a + 4) * 3).contiguous() - a


# %%
check(two_kernels, exercise="1.1")

# %% [markdown]
# ## Where is a cut cheap?
#
# Two kernels either way, but not the same traffic. Here is a sum over the rows of a larger `x`, cut before the sum, and
# cut after it.

# %%
x = Tensor(np.arange(300).reshape(20, 15)).realize()
before = capture((x * 2).contiguous().sum(0) + 1)
after = capture((x * 2).sum(0).contiguous() + 1)

# %% [markdown]
# **Predict:** how many bytes does the second one save? (`x` has 2,400 bytes, a sum over its rows has 15 numbers of 8
# bytes.) Take the reads and the writes of both kernels.

# %% tags=["blank"]
p = predict("cut after the sum: bytes saved", ...)

# %% tags=["solution"]
p = predict("cut after the sum: bytes saved", 2 * 2400 - 2 * 120)

# %%
reveal(p, before, after)

# %% [markdown]
# A cut costs what it stores, twice: written once, read once. So a cut is cheap where little flows. The scheduler looks for
# such places by itself, and notebooks 5 and 6 are about how.

# %% [markdown]
# ## In short
#
# - A lazy Tensor is a graph: operations and their sources. Writing one runs nothing.
# - A kernel is one loop nest that reads memory, computes, and writes memory.
# - A value that one loop can compute on the way needs no memory: it is fused. `contiguous()` forces memory.
# - Fusing saves bytes moved, and for cheap operations bytes are what takes time.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | Tensors | `Tensor` in `tinysched/tensor/core.py` | `Tensor` in `tinygrad/tensor.py` |
# | the graph | `UOp` in `tinysched/ir/uop.py` | `UOp` in `tinygrad/uop/ops.py` |
# | the cut that you placed | `pm_generate_realize_map` in `tinysched/schedule/indexing.py` | `pm_generate_realize_map` in `tinygrad/schedule/indexing.py` |
#
# **Next:** [2 · Graphs are rewritten by rules](02_rewrite.ipynb).
