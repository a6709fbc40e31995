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
# # 9 · Run it, and find the bug
#
# **About 45 minutes.** You need Python and NumPy. It helps to have seen a few of the other notebooks: here everything comes
# together.
#
# The engine turns a computation into a graph, rewrites it in a few **passes**, and cuts it into **kernels**: loops that
# read memory, compute, and write one result. You run whole models and look at times and values, on NumPy and (where there
# is one) on a GPU. Then the engine is broken on purpose, and you find out where. At the end you write the two searches that
# find such bugs by themselves.

# %%
import numpy as np

from tinysched import Context, Tensor, TinyschedError, capture, explore, nn
from tinysched.ir.pattern import PatternMatcher
from tinysched.lab import check, predict, reveal
from tinysched.lab.models import gpt2_blocks

# %% [markdown]
# ## A GPT-2 block
#
# **Predict:** how many kernels has one block? It has two layer norms, attention, two more products of matrices, and a GELU
# between them.

# %% tags=["blank"]
p = predict("GPT-2 block kernels", ...)

# %% tags=["solution"]
p = predict("GPT-2 block kernels", 12)

# %%
block = gpt2_blocks(1, tokens=24, width=32)
trace = capture(block)
reveal(p, trace)

# %% [markdown]
# **Predict** (on paper): which of them takes longest? Think of the operations, and of the bytes.
#
# Here is the whole Explorer, after a run. The tabs below the graph have a table of the **kernels** with their times, the
# **values** that were computed, and in **bytes** how far each kernel is from what the machine can do. `run()` is what the
# button ▷ does. (Making the programs that run takes some seconds.)
#
# In the table of values `b6` has 552 infinities. That is no fault: they are the scores that the causal mask took away.

# %%
block = gpt2_blocks(1, tokens=24, width=32)
shown = explore(block, view="values", height=640)
shown.run()
shown

# %% [markdown]
# The kernels as text. `time` is what each took.

# %%
from tinysched.views.text import kernels

print(kernels(shown.trace.schedules[-1]))

# %% [markdown]
# Times don't follow the operations here. These tensors are tiny: most of the time goes into calling NumPy at all, so a
# kernel of many small calls (a softmax) takes longer than one large product of matrices. With `tokens=256, width=128` the
# products win.
#
# ## The program that ran
#
# Each kernel has two texts. The loops say what is computed, and are for reading:

# %%
product = next(k for k in trace.schedules[0].kernels if k.ops > 100_000)
print(product.loops)

# %% [markdown]
# And this is what NumPy ran. Loops became views of memory (`reshape`, `view`) and calls that work on whole arrays; the sum of
# products became `matmul`.

# %%
print(product.program)

# %% [markdown]
# ## On a GPU
#
# The same on a GPU, if there is one and CuPy is installed: a kernel then becomes a CUDA program. Where they are not, the
# engine says so in a sentence, and all else in this notebook works without.

# %%
x = Tensor(np.random.default_rng(0).random((64, 64), dtype=np.float32)).realize()
try:
    there = (x.to("CUPY") @ x.to("CUPY")).softmax()
    print("largest difference:", np.abs(there.numpy() - (x @ x).softmax().numpy()).max())
except TinyschedError as error:
    print(error)

# %% [markdown]
# ## A training step of a convolutional network
#
# Convolution, batch norm, pool, one linear layer, and Adam: everything that the scheduler can do, in one schedule.


# %%
class Net:
    def __init__(self):
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.BatchNorm(4), nn.Linear(144, 10)

    def __call__(self, x):
        return self.out(self.norm(self.conv(x)).relu().max_pool2d().flatten(1))


# %%
net, images, labels = Net(), Tensor.rand(4, 1, 14, 14), Tensor.randint(4, high=10)
weights = nn.state.get_parameters(net)
Tensor.realize(images, labels, *weights)
print([w.shape for w in weights])

# %% [markdown]
# A step is written down in `step`: it returns the loss and all that Adam writes, not computed yet. We take one, so that
# everything that Adam keeps is in memory.

# %%
adam = nn.optim.Adam(weights, lr=0.01)


def step():
    with Context(TRAINING=1):
        adam.zero_grad()
        loss = net(images).sparse_categorical_crossentropy(labels).backward()
        return [loss, *adam.schedule_step()]


print("loss:", Tensor.realize(*step()).item())

# %% [markdown]
# **Predict:** how many kernels has a step? (For comparison: a step of a small MLP, without convolution and batch norm, has 26.)

# %% tags=["blank"]
p = predict("conv net step kernels", ...)

# %% tags=["solution"]
p = predict("conv net step kernels", 40)

# %%
training = capture(step, run=True, title="conv net step")
reveal(p, training)

# %% [markdown]
# (`run=True` takes the step. Without it the writes of this step would still be pending, and the next capture would show
# both.)
#
# Does it learn? Ten steps. All have the same graph, so it is scheduled once, and the other nine are found in a cache.

# %%
[round(Tensor.realize(*step()).item(), 3) for _ in range(10)]

# %% [markdown]
# ## Is the engine right?
#
# `trace.check()` evaluates the graph after each pass on the same random inputs, in plain NumPy. If a pass changes a value,
# it says which, and within it which rule.

# %%
print(trace.check())

# %% [markdown]
# Now somebody has "improved" the engine. `mystery(0)` has the same passes as the real one, with a bug in one of them.

# %%
from tinysched.lab.bugs import mystery

broken = mystery(0)
print([stage.name for stage in broken.stages])

# %% [markdown]
# Here is a softmax of the same numbers, by the right engine and by the broken one:

# %%
numbers = np.random.default_rng(1).random((6, 9), dtype=np.float32)
good, bad = (Tensor(numbers).realize().softmax() for _ in range(2))
capture(bad, pipeline=broken, run=True)
print("rows should sum to 1, and do:", bad.numpy().sum(1).round(3))
print("largest difference:", np.abs(good.numpy() - bad.numpy()).max())

# %% [markdown]
# The rows still sum to 1: a bug that a quick look does not find.
#
# **Predict:** which pass is it in? One of prepare, rangeify, simplify, limit buffers, add buffers, split kernels, order.
# (Write it down.) Then ask:

# %%
soft = capture(Tensor(numbers).realize().softmax())
print(soft.check(pipeline=broken))

# %% [markdown]
# The pass, the rule, the step, and what the rule claims: `exp2(x * c) -> exp2(x)`. It forgot the factor, and softmax with
# base 2 instead of e is still a softmax.
#
# The repair: the same passes without that rule. Here the whole pass goes back to what it was.

# %%
from tinysched.schedule.pipeline import PIPELINE

simplify = next(stage for stage in PIPELINE.stages if stage.name == "simplify")
repaired = broken.replace("simplify", simplify.fn)
print(soft.check(pipeline=repaired))

# %% [markdown]
# There are two more, `mystery(1)` and `mystery(2)`. Their bugs don't show in a softmax: the bad rules never fire there.
# Find both with another program, such as the GPT-2 block above (`trace`). And `mystery(3)` shows in neither; you need a
# program of your own for that.

# %%
print(soft.check(pipeline=mystery(1)))

# %% [markdown]
# ## Build: the first bad pass
#
# `check` looks after every pass. If looking is expensive (a large model, a real GPU), you want to look seldom. There are
# `count` passes. `good(k)` schedules and runs with the first `k` passes of the broken engine and the right ones after
# them, and says whether the values are right. `good(0)` would be true, and `good(count)` false: no need to ask.
#
# Return the number (from 1) of the first bad pass. You may call `good` at most `ceil(log2(count))` times: of 8 passes that
# is 3 times. (As in guessing a number: ask about the middle.)


# %% tags=["blank"]
def first_bad(count, good):
    return ...


# %% tags=["solution"]
def first_bad(count, good):
    low, high = 0, count  # good(low) is true, good(high) is false
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            low = middle
        else:
            high = middle
    return high


# %%
check(first_bad, exercise="9.1")

# %% [markdown]
# ## Build: the rule, and the repair
#
# Now there is a set of rules (a `PatternMatcher`), and one of them is wrong. `right(rules)` runs a program in the engine with
# these rules, and says whether NumPy agrees. Return the rules without the wrong one: `rules.without(name)`. You can loop
# over `rules`; each rule has a `.name`, and `PatternMatcher([r])` is a set with one rule. (The check takes a few seconds:
# the engine runs for each question.)


# %% tags=["blank"]
def repair(rules, right):
    return ...


# %% tags=["solution"]
def repair(rules, right):
    bad = next(each.name for each in rules if not right(PatternMatcher([each])))
    return rules.without(bad)


# %%
check(repair, exercise="9.2")

# %% [markdown]
# ## In short
#
# - The Explorer after a run has times and values; `capture(..., run=True, values=True)` has the same as data.
# - A schedule is run by a *runtime*: reference loops, NumPy, compiled loops, CUDA. All of them must agree.
# - A bug in a compiler hides where values look plausible. Compare with something independent, on random inputs.
# - Passes are functions from graph to graph: so one can evaluate between them, and bisect.
#
# **Where this lives**
#
# | | here | in tinygrad |
# |---|---|---|
# | running a schedule | `run_linear` in `tinysched/engine/run.py` | `run_linear` in `tinygrad/engine/realize.py` |
# | the judge | `Meaning` in `tinysched/explain/evaluate.py` | (compares with NumPy in its tests) |
# | which pass, which rule | `check` in `tinysched/explain/check.py` | (nothing like it) |
# | a GPU | `library` in `tinysched/runtime/cupy.py` | `tinygrad/runtime/ops_cuda.py` |
#
# **Next:** [10 · A model of your own](10_your_model.ipynb).
