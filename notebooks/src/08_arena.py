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
# # 8 · Packing the arena
#
# **About 40 minutes.** You need Python. Notebook 7 is about the order of kernels, which is given here.
#
# A **kernel** is a loop that reads buffers (places in memory), computes, and writes one buffer. Between kernels lie values
# that only other kernels read. Each needs memory, but only for a while, so one piece of memory, the **arena**, can serve
# many of them. After this notebook you can read an arena as a picture of memory over time, say what the least possible
# size is, and at the end you write a packer that beats a common one on GPT-2 blocks.

# %%
import numpy as np

from tinysched import Tensor, capture
from tinysched.lab import check, predict, reveal
from tinysched.lab.models import gpt2_blocks
from tinysched.widgets import ArenaView

# %% [markdown]
# ## A chain
#
# Five values in a row; `contiguous` makes each a kernel of its own. The first four are **intermediates**: nobody outside
# sees them.

# %%
x = Tensor(np.ones((16, 16), dtype=np.float32)).realize()
y = ((((x + 1).contiguous() * 2).contiguous() + 3).contiguous() * 4).contiguous() + 5
chain = capture(y)

# %% [markdown]
# Each intermediate has 16 × 16 × 4 = 1,024 bytes. It is alive from the kernel that writes it to the last one that reads it.
#
# **Predict:** how many bytes do they need together, if memory is used again as soon as it is free?

# %% tags=["blank"]
p = predict("a chain of five: arena bytes", ...)

# %% tags=["solution"]
p = predict("a chain of five: arena bytes", 2048)

# %%
reveal(p, chain)

# %% [markdown] tags=["after"]
# Two are alive at once: the one that is read and the one that is written. So two places are enough, and they take turns.

# %% [markdown]
# Here is the arena as a picture. Time goes to the right, a column for each kernel; memory goes up, a row for every 256
# bytes. Every letter is a buffer.

# %%
from tinysched.lab.exercises.arena import drawn, lifetimes_of

places = [p.offset_bytes for p in chain.schedules[0].memory.placements]
print(drawn(lifetimes_of(chain), places))

# %% [markdown]
# Every placement has its reason. The engine calls these buffers `b0`, `b2`, `b3` and `b4` (`b1` is the input `x`), so the c
# of the picture is `b3`. Look at the line *placed*: "reuses b0, dead after kernel 1" means that here `b0` was, and nobody
# reads it any more.

# %%
print(chain.decisions.why("b3"))

# %% [markdown]
# ## The least possible
#
# At each kernel, add up what is alive. The largest sum is the **lower bound**: no arena can be smaller, however clever the
# packer. Often it can be reached, but not always: buffers have different sizes and cannot be moved once they lie somewhere.
#
# ## GPT-2
#
# Four blocks of a small GPT-2: layer norms, causal attention, a network of two layers. Twelve tokens, 24 numbers for each.

# %%
blocks = gpt2_blocks(4)
gpt = capture(blocks, title="GPT-2 × 4")
print(len(gpt.schedules[0].kernels), "kernels,", len(gpt.schedules[0].memory.placements), "intermediates")

# %% [markdown]
# Without reuse, all intermediates together take 58 kB.
#
# **Predict:** how many bytes has the arena, with reuse? The largest intermediate is the hidden layer of the network, with
# 12 × 96 floats.

# %% tags=["blank"]
p = predict("GPT-2 × 4: arena bytes", ...)

# %% tags=["solution"]
p = predict("GPT-2 × 4: arena bytes", 10000)

# %%
reveal(p, gpt)

# %% [markdown]
# And for one block instead of four?
#
# **Predict:** think of what of the first block is still alive in the second.

# %% tags=["blank"]
p = predict("GPT-2 × 1: arena bytes", ...)

# %% tags=["solution"]
p = predict("GPT-2 × 1: arena bytes", 7936)

# %%
one = capture(gpt2_blocks(1), title="GPT-2 × 1")
reveal(p, one)

# %% [markdown]
# A little less: 1,280 bytes. Of a block only its result is still alive in the next (12 × 24 floats, rounded up to a multiple
# of 256 bytes). In the first block that place is not needed, since what it reads is an argument and no intermediate.

# %% [markdown]
# The arena of one block. The tall one on the left, c, are queries, keys and values (12 × 72); the tall one on the right, k,
# is the hidden layer.

# %%
print(drawn(lifetimes_of(one), [p.offset_bytes for p in one.schedules[0].memory.placements]))

# %% [markdown]
# The same as a widget, with the engine's names. Click on a buffer: in the table are its kernels, and why it lies there.
# Below you see how two packers would have done it.

# %%
ArenaView(one)

# %% [markdown]
# ## Packers
#
# A packer gets a list of *lifetimes* and returns an offset for each. A lifetime has the `first` and the `last` kernel that
# uses the buffer (both included), and `room`: its bytes, rounded up to a multiple of 256. All offsets are multiples of 256.

# %%
from tinysched.lab.exercises.arena import FirstFit
from tinysched.schedule.planners import Greedy, NoPlan, Tlsf, arena_bytes, lower_bound

lifetimes = lifetimes_of(gpt)
lifetimes[:3], lifetimes[0].room

# %% [markdown]
# `first fit` is explained below. `tlsf` is the one that tinygrad uses: it goes through time and behaves like `malloc` and
# `free`. `greedy` looks at the whole schedule. The engine tries both of these and keeps the smaller arena.

# %%
for planner in (NoPlan(), FirstFit(), Tlsf(), Greedy()):
    print(f"{planner.name:10} {arena_bytes(lifetimes, planner.place(lifetimes)):7,} bytes")
print(f"{'bound':10} {lower_bound(lifetimes):7,} bytes")

# %% [markdown]
# ## Why first fit is not best
#
# **First fit** takes the buffers in order of first use, and puts each at the lowest place that is free for all of its
# life. Here are three buffers:

# %%
from tinysched.schedule.planners import Lifetime

three = [Lifetime(first=0, last=1, nbytes=256), Lifetime(0, 3, 256), Lifetime(2, 3, 512)]
print(drawn(three, FirstFit().place(three)))

# %% [markdown]
# When `c` comes, `a` is dead, but its place is too small, and `b` is in the way above it. The lower bound is 768 bytes,
# and this takes 1,024. **Predict** (on paper): which offsets take 768?

# %%
print(lower_bound(three), "bytes are enough:")
print(drawn(three, Greedy().place(three)))

# %% [markdown]
# ## Build: beat first fit
#
# Write `place(lifetimes)`: it returns a list of offsets, one for each lifetime and in their order. Each lifetime has `first`,
# `last` (both included) and `room`. Two that are alive at the same kernel must not overlap; offsets are multiples of 256,
# from 0.
#
# To pass: no arena larger than first fit's on any case, and a smaller one on the three buffers above, on another four
# buffers, and on the GPT-2 blocks. `arena_bytes(lifetimes, offsets)` tells you how large an arena is.
#
# A plan that works: place the buffers one after the other, each at the lowest free place, but in *another* order. Which?
# And if no single order is best everywhere, try several and keep the best. This is given: the lowest offset at which a
# buffer meets nobody that lies there already (`placed` is a list of pairs, lifetime and offset).


# %%
def lowest_free(life, placed):
    offset = 0
    for other, start in sorted(placed, key=lambda pair: pair[1]):
        alive_together = life.first <= other.last and other.first <= life.last
        if alive_together and start < offset + life.room:
            offset = max(offset, start + other.room)
    return offset


# %% tags=["blank"]
def place(lifetimes):
    return ...


# %% tags=["solution"]
def in_this_order(lifetimes, key):
    offsets, placed = [0] * len(lifetimes), []
    for i in sorted(range(len(lifetimes)), key=lambda i: key(lifetimes[i])):
        offsets[i] = lowest_free(lifetimes[i], placed)
        placed.append((lifetimes[i], offsets[i]))
    return offsets


def place(lifetimes):
    orders = (lambda life: life.first, lambda life: -life.room, lambda life: life.first - life.last)
    tries = [in_this_order(lifetimes, key) for key in orders]
    return min(tries, key=lambda offsets: arena_bytes(lifetimes, offsets))


# %%
check(place, exercise="8.1")

# %% [markdown]
# ## A number to beat
#
# The lower bound of the four blocks is 7,936 bytes. How far is your packer from it? The engine takes any object with a
# `name` and a `place` as its packer:
#
# ```python
# from tinysched.lab.exercises.arena import Packer
# from tinysched.schedule.policy import Policies
#
# mine = gpt.with_policies(Policies(memory=Packer(place)))
# print(mine.schedules[0].memory.lanes[0].arena_bytes, "bytes")
# ```
#
# ## In short
#
# - A buffer lives from its first to its last use; what is dead leaves its place to others.
# - The lower bound is the most that is alive at once. Sizes that differ make it hard to reach.
# - Packing is done before anything runs, for the whole schedule, so it may be as clever as it likes; `malloc` at run time
#   may not.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | lifetimes and the rewrite | `memory_plan_rewrite` in `tinysched/schedule/memory.py` | `memory_plan_rewrite` in `tinygrad/schedule/memory.py` |
# | packers | `Greedy` in `tinysched/schedule/planners.py` | `TLSFAllocator` in `tinygrad/runtime/support/memory.py` |
# | the lower bound | `lower_bound` in `tinysched/schedule/planners.py` | (not computed) |
#
# **Next:** [9 · Run it, and find the bug](09_debug.ipynb).
