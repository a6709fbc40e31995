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
# # 11 · Ten more exercises
#
# **Ten minutes each.** Exercise 4.5 needs what is in notebook 4, and so on; do them in any order. The check of each shows the
# smallest case that fails, and what would have been right.

# %%
from tinysched import Ops
from tinysched.ir.pattern import UPat, rule
from tinysched.lab import check

# %% [markdown]
# ## 1.2 A cut that costs little
#
# Return `(x * 2 + 1).sum(0) * 3`, computed by exactly two kernels that move as few bytes as two kernels can.


# %% tags=["blank"]
def cheap_cut(x):
    return ...


# %% tags=["solution"]
def cheap_cut(x):
    return (x * 2 + 1).sum(0).contiguous() * 3


# %%
check(cheap_cut, exercise="1.2")

# %% [markdown]
# ## 2.2 Two maxima in a row
#
# A rule: `max(max(x, c1), c2)` is one maximum with one constant, for every type of number. The op is `Ops.MAX`, and
# `x.maximum(7)` makes the node.


# %% tags=["blank"]
@rule(UPat(Ops.MAX, src=[UPat.var("y"), UPat.cvar("c2")]))
def join_maxima(y, c2):
    """max(max(x, c1), c2) -> max(x, the larger)"""
    return ...


# %% tags=["solution"]
@rule(UPat(Ops.MAX, src=[UPat(Ops.MAX, src=[UPat.var("x"), UPat.cvar("c1")]), UPat.cvar("c2")]))
def join_maxima(x, c1, c2):
    """max(max(x, c1), c2) -> max(x, the larger)"""
    return x.maximum(max(c1.arg, c2.arg))


# %%
check(join_maxima, exercise="2.2")

# %% [markdown]
# ## 3.2 A swap in place
#
# `a` and `b` have the same shape. Each gets the other's values, in its own memory: a view of `a` that was taken before sees
# what `b` had. Return `(a, b)`.


# %% tags=["blank"]
def swap(a, b):
    return ...


# %% tags=["solution"]
def swap(a, b):
    old = a.clone()
    a.assign(b)
    b.assign(old)
    return a, b


# %%
check(swap, exercise="3.2")

# %% [markdown]
# ## 4.4 The index rule of FLIP
#
# `turned[i]` says whether axis `i` runs backwards; `shape` is the shape of the source.


# %% tags=["blank"]
def flip(indices, turned, shape):
    return ...


# %% tags=["solution"]
def flip(indices, turned, shape):
    return tuple((n - 1) - i if t else i for i, t, n in zip(indices, turned, shape))


# %%
check(flip, exercise="4.4")

# %% [markdown]
# ## 4.5 The index rule of RESHAPE
#
# The result has shape `new_shape`, the source has `shape`. Flatten the indices of the result to one number; then take it
# apart again by `//` and `%`.


# %% tags=["blank"]
def reshape(indices, new_shape, shape):
    return ...


# %% tags=["solution"]
def reshape(indices, new_shape, shape):
    flat, found = 0, []
    for i, n in zip(indices, new_shape):
        flat = flat * n + i
    for n in reversed(shape):
        found.append(flat % n)
        flat = flat // n
    return tuple(reversed(found))


# %%
check(reshape, exercise="4.5")

# %% [markdown]
# ## 5.2 When a sum is split
#
# How many kernels does the engine need to add up `n` numbers to one? Two, if it is worth it (a threshold: notebook 5) and
# if it is possible: the numbers are cut into 8 to 256 pieces of the same size.


# %% tags=["blank"]
def kernels(n):
    return ...


# %% tags=["solution"]
def kernels(n):
    possible = any(n % pieces == 0 for pieces in range(8, 257))
    return 2 if n >= 32768 and possible else 1


# %%
check(kernels, exercise="5.2")

# %% [markdown]
# ## 6.2 A model of bytes
#
# `x` has `n` × `m` floats of 4 bytes, `e = x.exp()`, and `e.sum(0)` and `e.sum(1)` are asked for. Return two numbers: the
# bytes moved if `e` is fused into both sums, and if it is stored.


# %% tags=["blank"]
def moved(n, m):
    return ...


# %% tags=["solution"]
def moved(n, m):
    whole, sums = 4 * n * m, 4 * (n + m)
    return 2 * whole + sums, 4 * whole + sums


# %%
check(moved, exercise="6.2")

# %% [markdown]
# ## 7.2 The critical path
#
# How many kernels has the longest chain of which each waits for the one before? `edges` are pairs, `(before, after)`.


# %% tags=["blank"]
def longest(count, edges):
    return ...


# %% tags=["solution"]
def longest(count, edges):
    chain = [1] * count
    for _ in range(count):  # after k rounds all chains of k kernels are right
        for before, after in edges:
            chain[after] = max(chain[after], chain[before] + 1)
    return max(chain)


# %%
check(longest, exercise="7.2")

# %% [markdown]
# ## 8.2 The lower bound
#
# The most bytes (`room`) that are alive at one kernel. `first` and `last` are both included.


# %% tags=["blank"]
def bound(lifetimes):
    return ...


# %% tags=["solution"]
def bound(lifetimes):
    def alive(kernel):
        return sum(life.room for life in lifetimes if life.first <= kernel <= life.last)

    return max(alive(life.first) for life in lifetimes)


# %%
check(bound, exercise="8.2")

# %% [markdown]
# ## 9.3 The smallest case that fails
#
# `steps` is a list of numbers, and `fails(steps)` says whether a program of these steps fails. Return the steps that are
# needed for that, and no others, in their order. (This is what the lab does before it shows you a failing case.)


# %% tags=["blank"]
def smallest(steps, fails):
    return ...


# %% tags=["solution"]
def smallest(steps, fails):
    for step in list(steps):
        without = [s for s in steps if s != step]
        if fails(without):
            steps = without
    return steps


# %%
check(smallest, exercise="9.3")

# %% [markdown]
# ## Where this lives
#
# Every exercise is a generator of random cases and a judge, and there is nothing else to it: `Exercise` in
# `tinysched/lab/exercise.py`. How to add one of your own is on the page for teachers (`docs/teacher.md`). In tinygrad the
# rules that you wrote are `apply_movement_op` in `tinygrad/schedule/indexing.py` and `split_reduceop` in
# `tinygrad/schedule/rangeify.py`.
