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
# # 2 · Graphs are rewritten by rules
#
# **About 35 minutes.** You need Python. If "lazy" or "kernel" are new words, look at [notebook 1](01_lazy.ipynb) first.
#
# After this notebook you can read a rewrite rule, follow a graph through a pass step by step, and say what makes a rule
# *right*. At the end you write a rule that the engine runs, and the lab tries to break it.

# %%
import numpy as np

from tinysched import Ops, Tensor, UOp, capture, dtypes, nn
from tinysched.ir.pattern import PatternMatcher, UPat, rule
from tinysched.ir.rewrite import graph_rewrite
from tinysched.lab import check, picture, predict, reveal
from tinysched.widgets import GraphView, RewriteStepper

# %% [markdown]
# ## A graph is made of UOps
#
# Everything between your code and the kernels is one kind of object: `UOp`, an operation, a type, sources, and sometimes
# an argument. Here is a product of a number that varies and of the constant 1. `UOp.range(6, 0)` is a loop variable that
# counts from 0 to 5; the second number is its own, so it is called `r0`.

# %%
r = UOp.range(6, 0)
product = r * 1
product.op, product.src

# %% [markdown]
# A UOp never changes. Write the same thing twice and you get the very same object, so comparing graphs is comparing with
# `is`:

# %%
(r * 1) is product

# %% [markdown]
# ## A rule: before → after
#
# Multiplying by 1 does nothing. A **rule** says so: a *pattern* (what a node has to look like) and a function that gives
# the node that takes its place.
#
# - `UPat(Ops.MUL, src=[a, b])`: a product of two things, in either order (a tuple, `src=(a, b)`: in this order). `a` and `b`
#   are patterns themselves, so one pattern can describe several levels
# - `UPat.var("x")`: anything; call it `x`. `UPat.const(1)`: the constant 1. `UPat.cvar("c")`: any constant; call it `c`
# - the function gets what was named, by these names. Its docstring says what it does, in one line


# %%
@rule(UPat(Ops.MUL, src=[UPat.var("x"), UPat.const(1)]))
def times_one(x):
    """x * 1 -> x"""
    return x


# %% [markdown]
# `graph_rewrite` applies rules everywhere in a graph, until none applies any more.

# %%
graph_rewrite(product, PatternMatcher([times_one])) is r

# %% [markdown]
# **Predict:** the product of 1 is inside of another one now. What is left of `((r * 1) * 1) + r`? Count the nodes: the
# loop variable, its constant 6 below it, and whatever else there is.

# %%
twice = ((r * 1) * 1) + r
after = graph_rewrite(twice, PatternMatcher([times_one]))
print(len(twice.toposort()), "nodes before,", len(after.toposort()), "after")

# %% [markdown]
# These three, a line each: number, operation, type, shape, argument, and in brackets the numbers of its sources. (`index` is
# the type of loop variables, and `()` the shape of a single number.)

# %%
from tinysched.ir.text import graph_text

print(graph_text(after))

# %% [markdown]
# ## A pass is a set of rules
#
# Now a real program: a small network, with a softmax at the end. The scheduler's second pass is called **prepare**; it
# puts the graph into the form that the later passes like.


# %%
class MLP:
    def __init__(self):
        self.l1, self.l2 = nn.Linear(8, 6), nn.Linear(6, 3)

    def __call__(self, x):
        return self.l2(self.l1(x).relu()).softmax()


# %%
model, x = MLP(), Tensor.rand(5, 8)
Tensor.realize(x, *nn.state.get_parameters(model))
out = model(x)
trace = capture(out)

# %% [markdown]
# Here is the graph as it enters `prepare` (step 0). Data flows from top to bottom, small grey nodes are movement: reshape,
# expand, permute (notebook 4 is about them). The coloured areas are the kernels that it will become.

# %%
picture(trace, stage="prepare", step=0)

# %% [markdown]
# These are some of the rules of that pass. Each has a name and one line:

# %%
from tinysched.schedule.prepare import earliest_rewrites

for each in list(earliest_rewrites)[:6]:
    print(f"{each.name:22} {each.doc}")

# %% [markdown]
# **Predict:** which of them fires first? Look for its left-hand side in the picture, from the top: nodes are visited from
# the inputs down. (Write its name as text. `DETACH` is what softmax uses so that no gradient flows through its maximum.)

# %% tags=["blank"]
p = predict("first rule of prepare", ...)

# %% tags=["solution"]
p = predict("first rule of prepare", "drop_hints")

# %%
reveal(p, trace)

# %% [markdown]
# And step by step. Both views move together: click into the lower one, and press **→** for the next rewrite. In the graph,
# what is gone is a dashed ghost with a −, what is new has a +, and what reads something else now a ↝.

# %%
seen = GraphView(trace, stage="prepare", step=1)
seen

# %%
RewriteStepper(seen)

# %% [markdown]
# ## How often?
#
# The last rewrites that you stepped through are of a later pass, **simplify**, by the rule `remove_bufferize`: a value that
# was going to get memory does not get it after all. (Notebook 5 is about when. Here it is the exponential in the softmax,
# once for each of its two readers: the sum, and the division.)
#
# **Predict:** how often does it fire if there are two softmaxes, one after the other?

# %% tags=["blank"]
p = predict("times remove_bufferize fires", ...)

# %% tags=["solution"]
p = predict("times remove_bufferize fires", 2)

# %%
two = capture(out.softmax())
reveal(p, two)

# %% [markdown]
# Every step is recorded with the rule, the node before, and the node after. As a table:

# %%
from tinysched.views.text import rewrites

print(rewrites(two, two.schedules[0]))

# %% [markdown]
# ## A rule of yours in the engine
#
# A `Pipeline` is the list of passes, as data. `replace` gives another one, with a pass of your own: here `prepare`, and
# then `times_one`. The engine runs it like its own.

# %%
from tinysched.schedule.pipeline import PIPELINE

prepare = next(stage.fn for stage in PIPELINE.stages if stage.name == "prepare")
rules = PatternMatcher([times_one])
mine = PIPELINE.replace("prepare", lambda graph, ctx: graph_rewrite(prepare(graph, ctx), rules))

# %%
small = Tensor(np.arange(12).reshape(3, 4)).realize()
one_less = capture(small * 1 + 3, pipeline=mine)
print([one_less.rules[step.rule].name for step in one_less.schedules[0].stage("prepare").steps])

# %% [markdown]
# What the next pass gets from it. There is no `mul 1` any more:

# %%
picture(one_less, stage="rangeify", step=0)

# %% [markdown]
# ## What makes a rule right
#
# A rule has to keep **values**, of every input. That is harder than it looks. `x * 0 -> 0` is true for integers. For
# floats it is not:

# %%
bad = np.array([1.0, np.inf, np.nan], dtype=np.float32)
with np.errstate(invalid="ignore"):
    print(bad * 0)

# %% [markdown]
# A network that has gone wrong produces NaN (not a number), and a compiler that hides it does harm. So the engine's rule
# has to ask for integers. Does it? Look:

# %%
from tinysched.ir.symbolic.rules import symbolic

print([each.doc for each in symbolic if each.name == "mul_zero"])

# %% [markdown]
# **Predict** (no need to write it down): is `(x + c1) + c2 -> x + (c1 + c2)` right for floats? Try a large `c1`:

# %%
f = np.array([1, 2, 3], dtype=np.float32)
print((f + np.float32(16777216)) + np.float32(-16777216), "but x + 0 is", f)

# %% [markdown]
# float32 has 24 bits for a number. 16777217 needs 25, so it is rounded, and the 1 is gone for good. A rule that "improves"
# this changes the result.

# %% [markdown]
# Besides values, a good rule makes **progress**: the graph gets smaller or nearer to its final form. A rule that undoes
# itself never ends, and the engine says which one it was:


# %%
@rule(UPat(Ops.ADD, src=(UPat.var("a"), UPat.var("b"))))
def swap(a, b):
    """a + b -> b + a"""
    return b + a


# %%
from tinysched.errors import RewriteError

try:
    graph_rewrite(r + UOp.range(4, 1), PatternMatcher([swap]), name="my pass")
except RewriteError as error:
    print(error)

# %% [markdown]
# ## Build: two additions in a row
#
# The engine leaves `(x + 4) + 3` as it is: two additions for each element. Write the rule that makes it one:
# `(x + c1) + c2 -> x + (c1 + c2)`.
#
# It has to keep every value (floats too: return `None` where the rule does not apply), leave no such pair of integer
# additions, and change nothing the second time. Constants may stand on either side.
#
# The cell below has a pattern for one addition of a constant; you need one for two, the inner one in place of `y`. Useful:
# `c1.arg` is a constant's number, `x + 7` makes the node, `x.dtype in dtypes.ints` asks for whole numbers.


# %% tags=["blank"]
@rule(UPat(Ops.ADD, src=[UPat.var("y"), UPat.cvar("c2")]))
def join_additions(y, c2):
    """(x + c1) + c2 -> x + (c1 + c2)"""
    return ...


# %% tags=["solution"]
@rule(UPat(Ops.ADD, src=[UPat(Ops.ADD, src=[UPat.var("x"), UPat.cvar("c1")]), UPat.cvar("c2")]))
def join_additions(x, c1, c2):
    """(x + c1) + c2 -> x + (c1 + c2)"""
    return x + (c1.arg + c2.arg) if x.dtype in dtypes.ints else None


# %%
check(join_additions, exercise="2.1")

# %% [markdown]
# **Modify it.** What if the pattern is `src=(…)`, a tuple, instead of a list? Check again and read the smallest case that
# fails. And what if you leave out the question about the type?
#
# ## In short
#
# - A graph of UOps never changes; a pass makes a new one, by named rules.
# - A rule is a pattern and a function: `before -> after`, or `None` where it does not apply.
# - Right means: every value kept (NaN and rounding are values), and progress, so that rewriting ends.
# - Every step is recorded where it happens, which is why the Explorer can show it.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | patterns and rules | `UPat` in `tinysched/ir/pattern.py` | `UPat` in `tinygrad/uop/ops.py` |
# | applying them | `graph_rewrite` in `tinysched/ir/rewrite.py` | `graph_rewrite` in `tinygrad/uop/ops.py` |
# | this pass | `earliest_rewrites` in `tinysched/schedule/prepare.py` | `earliest_rewrites` in `tinygrad/schedule/rangeify.py` |
# | algebra | `symbolic` in `tinysched/ir/symbolic/rules.py` | `symbolic` in `tinygrad/uop/symbolic.py` |
#
# **Next:** [3 · Inputs, outputs, state](03_callify.ipynb).
