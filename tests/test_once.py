"""Parts that are equal are done once, and nothing but the time shows it: who watches sees every part done."""

import pytest

from benchmarks.libs import open_side
from benchmarks.workloads import SMALL, build, small
from tinysched import Tensor, clear_caches, plan
from tinysched.dtypes import dtypes
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.template import Template
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule import kernels
from tinysched.schedule.indexing import run_rangeify
from tinysched.schedule.once import Once
from tinysched.schedule.parts import outline
from tinysched.schedule.policy import AllLegal, Choice, Eager, Policies, Upstream


class Quiet:
    """An observer that is told everything and does nothing."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def signature(linear):
    """Kernels and how their buffers are connected, whatever the numbers of real buffers."""
    numbers = {}

    def buffer(u):
        place = u.src[0].arg if u.src else None
        while u.src:
            u = u.src[0]
        return numbers.setdefault(u, len(numbers)), place

    return [(call.src[0].key, tuple(buffer(a) for a in call.src[1:])) for call in linear.src]


GROWN = ("gpt@3", "train@2", "rowsoftmax@5", "flipdiamond@5", "assigns@4")
SOME = (
    *(
        "softmax",
        "layernorm",
        "batchnorm_train",
        "sdpa_causal",
        "mlp_train_adam",
        "adam_only",
        "mnist_fwd",
        "interp_pool",
    ),
    *("argmax_topk", "cumsum2d", "movement", "llama_block_sym", "rowsoftmax@5", "flipdiamond@5", "assigns@4"),
)


@pytest.mark.parametrize(
    ("name", "fusion"),
    [*((n, Upstream()) for n in (*SMALL, *GROWN)), *((n, p) for n in SOME for p in (Eager(), AllLegal()))],
    ids=str,
)
def test_who_watches_gets_the_same_schedule(name, fusion):
    lib, policies = open_side("ours"), Policies(fusion=fusion)
    with lib.settings():
        tensors = small(name, lib) if name in SMALL else build(name, lib)
        clear_caches()
        alone = signature(plan(*tensors, policies=policies).linear)
        with watching(Quiet()):
            assert signature(plan(*tensors, policies=policies).linear) == alone


@pytest.mark.parametrize(("family", "few", "many"), (("gpt", 2, 4), ("rowsoftmax", 8, 16), ("train", 2, 4)))
def test_more_layers_need_no_more_kernels_made(family, few, many, monkeypatch):
    made, split_store = [], kernels.split_store
    monkeypatch.setattr(kernels, "split_store", lambda *args: (made.append(args), split_store(*args))[1])
    lib, counts = open_side("ours"), []
    for n in (few, many):
        made.clear()
        clear_caches()
        linear = lib.linear(build(f"{family}@{n}", lib))
        counts.append((len(made), len(linear.src)))
    (made_few, kernels_few), (made_many, kernels_many) = counts
    assert made_many <= made_few + 2 < kernels_few < kernels_many - 10


class Asked(Upstream):
    """A policy that goes by which buffer it is asked about."""

    structural = False
    seen = []

    def keep(self, stage, cost):
        self.seen.append(stage)
        return Choice(True)


def test_a_policy_that_looks_at_more_is_asked_about_every_buffer():
    Asked.seen.clear()
    xs = [Tensor.empty(4, 5).realize() for _ in range(3)]
    plan(*[x.softmax(-1) for x in xs], policies=Policies(fusion=Asked()))
    assert len(set(Asked.seen)) % 3 == 0 and len(set(Asked.seen)) >= 6


# ** parts **


def memory(slot, shape=(8, 8)):
    size = shape[0] * shape[1]
    return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, size, "NUMPY")).reshape(shape)


def write(value, slot=100):
    to = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 64, "NUMPY"))
    return to.after(to.reshape((8, 8)).store(value))


def swapped(value):
    return value.permute((1, 0))


def keys(*values):
    writes = [write(value, 100 + i) for i, value in enumerate(values)]
    ranges = run_rangeify(UOp.sink(*writes))
    return [outline(w.src[1], ranges, lambda u: None).key for w in writes]


def test_what_differs_in_memory_and_in_the_numbers_of_loops_is_equal():
    one, other = keys(memory(0) + swapped(memory(1)), memory(4) + swapped(memory(2)))
    assert one == other


@pytest.mark.parametrize(
    "other",
    (
        swapped(memory(0)) + memory(1),  # the axes in another order
        memory(0) * swapped(memory(1)),  # another operation
        memory(0) + swapped(memory(1, (9, 8)).shrink(((0, 8), (0, 8)))),  # another size
        memory(0) + swapped(memory(1, (9, 8)).shrink(((1, 9), (0, 8)))),  # another offset
        swapped(memory(1)) + memory(0),  # another order of the sources
        (memory(0) + swapped(memory(1))).rop(Ops.MAX, (0,)).expand_leading((8,)),
        (memory(0) + swapped(memory(1))).cast(dtypes.float64).cast(dtypes.float32),
    ),
)
def test_what_differs_in_more_is_not(other):
    one, another = keys(memory(0) + swapped(memory(1)), other)
    assert one != another


def made(*values):
    """The CALLs that write some values, and how many kinds of parts there were."""
    once = Once(UOp.sink(*[write(value, 100 + i) for i, value in enumerate(values)]), Upstream())
    return [after.src[1] for after in once.run().src], len(once.kinds)


def test_equal_writes_are_one_program():
    (one, other), kinds = made(memory(0) + swapped(memory(1)), memory(4) + swapped(memory(2)))
    assert one.src[0] is other.src[0] and kinds == 1
    assert [u.arg.slot for u in other.src[1:]] == [101, 4, 2]


def test_one_memory_is_not_two():
    (one, other), kinds = made(memory(0) + swapped(memory(1)), memory(2) + swapped(memory(2)))
    assert kinds == 2 and len(one.src) == len(other.src) + 1


def test_a_value_that_is_computed_again_is_part_of_its_reader():
    def chain(a, b):  # the sum is read at two orders of the loops: a buffer for it, which nobody needs
        total = memory(a) + memory(b)
        return total + swapped(total)

    (one, other, less), kinds = made(chain(0, 1), chain(2, 3), chain(4, 4))
    assert one.src[0] is other.src[0] and less.src[0] is not one.src[0]
    assert kinds == 4  # two of sums, two of writes


def test_what_stays_gets_memory_of_its_own():
    def normal(a):
        return memory(a) * memory(a).rop(Ops.ADD, (1,)).reshape((8, 1))

    (one, other), kinds = made(normal(0), normal(1))
    buffers = [call.src[3].src[0] for call in (one, other)]
    assert one.src[0] is other.src[0] and kinds == 2
    assert len(set(buffers)) == 2 and all(b.op is Ops.BUFFER for b in buffers)
    assert len({call.src[3].src[1].src[0] for call in (one, other)}) == 1


def test_a_write_of_what_is_there_is_nothing():
    there = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(100, 64, "NUMPY"))
    (left,) = Once(UOp.sink(write(there.reshape((8, 8)))), Upstream()).run().src
    assert left is there


# ** templates **


def test_a_template_is_made_again_over_other_nodes():
    (r, s), (t, v) = ([UOp.range(8, n) for n in numbers] for numbers in ((0, 1), (3, 9)))
    a, b, c, d = (UOp(Ops.PARAM, dtypes.float32, (), ParamArg(i, 64, "NUMPY")) for i in range(4))

    def value(a, b, i, j):
        return a.index(i * 8 + j) * 2.0 + b.index(j % 3)

    assert Template.of(value(a, b, r, s), (a, b, r, s)).over((c, d, t, v)) is value(c, d, t, v)


def test_what_has_other_loops_too_is_no_template():
    r, s = UOp.range(8, 0), UOp.range(8, 1)
    a = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 8, "NUMPY"))
    assert Template.of(a.index(r) * a.index(s), (a, r)) is None
