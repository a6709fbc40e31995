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
# You run whole models and look at times and values, on NumPy and (where there is one) on a GPU. Then the engine is broken
# on purpose, and you find out where. At the end you write the two searches that find such bugs by themselves.

# %%
import numpy as np

from tinysched import Context, Tensor, TinyschedError, capture, explore, nn
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
# **Predict:** which of them takes longest? Think of the operations, and of the bytes.
#
# Here is the whole Explorer, after a run: times in the table **kernels**, values in **values**, and how far each kernel is
# from what the machine can do in **bytes**. `run()` is what the button ▷ does.

# %%
shown = explore(block, view="values", height=640)
shown.run()
shown

# %% [markdown]
# The same as text. `time` is what each kernel took.

# %%
from tinysched.views.text import kernels

print(kernels(shown.trace.schedules[-1]))

# %% [markdown]
# ## The program that ran
#
# Loops are for reading. What NumPy ran is this: loops became strided views and calls that work on whole arrays.

# %%
product = next(k for k in trace.schedules[0].kernels if k.ops > 100_000)
print(product.loops)

# %%
print(product.program)

# %% [markdown]
# ## On a GPU
#
# The same schedule, as CUDA, where CuPy and a GPU are there. Where they are not, the engine says so in a sentence.

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
adam = nn.optim.Adam(weights, lr=0.01)
Tensor.realize(images, labels, *weights, *adam.m, *adam.v, adam.b1_t, adam.b2_t, adam.lr)


# %%
def step():
    with Context(TRAINING=1):
        adam.zero_grad()
        loss = net(images).sparse_categorical_crossentropy(labels).backward()
        return [loss, *adam.schedule_step()]


# %% [markdown]
# **Predict:** how many kernels?

# %% tags=["blank"]
p = predict("conv net step kernels", ...)

# %% tags=["solution"]
p = predict("conv net step kernels", 40)

# %%
training = capture(step, title="conv net step")
reveal(p, training)

# %% [markdown]
# Does it learn? Ten steps. (Each is planned afresh here, but scheduled only once: the cache.)

# %%
losses = []
for _ in range(10):
    loss, *state = step()
    Tensor.realize(loss, *state)
    losses.append(round(float(loss.item()), 3))
losses

# %% [markdown]
# ## Is the engine right?
#
# `trace.check()` evaluates the graph after each pass on the same random inputs, in plain NumPy. If a pass changes a value,
# it says which, and within it which rule.

# %%
print(trace.check())

# %% [markdown]
# Now somebody has "improved" the engine. `mystery(0)` is a list of passes like the real one, with a bug somewhere.

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
# There are more: `mystery(1)`, `mystery(2)`. They need a program in which their rule has something to do; a GPT-2 block
# will do. Find both.

# %%
# print(trace.check(pipeline=mystery(1)))

# %% [markdown]
# ## Build: the first bad pass
#
# `check` looks after every pass. If looking is expensive (a large model, a real GPU), you want to look seldom. There are
# `count` passes. `good(k)` schedules and runs with the first `k` passes of the broken engine and the right ones after
# them, and says whether the values are right. `good(0)` is true; `good(count)` is false.
#
# Return the number (from 1) of the first bad pass. You may call `good` at most `ceil(log2(count))` times.


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
# these rules, and says whether NumPy agrees. Return the rules without the wrong one: `rules.without(name)`. A rule has a
# `.name`, `list(rules)` gives them all, and `PatternMatcher([r])` makes a set of one.


# %% tags=["blank"]
def repair(rules, right):
    return ...


# %% tags=["solution"]
from tinysched.ir.pattern import PatternMatcher


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
