"""Parts that are equal are done once, and nothing but the time shows it: who watches sees every part done."""

import pytest

from benchmarks.libs import open_side
from benchmarks.workloads import SMALL, build, small
from tinysched import Tensor, clear_caches, plan
from tinysched.dtypes import dtypes
from tinysched.ir.observe import watching
from tinysched.ir.once import Leaf, Once, Template, outline
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule import kernels
from tinysched.schedule.policy import Choice, Policies, Upstream


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


@pytest.mark.parametrize("name", SMALL)
def test_who_watches_gets_the_same_schedule(name):
    lib = open_side("ours")
    with lib.settings():
        tensors = small(name, lib)
        clear_caches()
        alone = signature(plan(*tensors).linear)
        with watching(Quiet()):
            assert signature(plan(*tensors).linear) == alone


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


# ** outlines **


def memory(slot, size=8):
    return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, size, "NUMPY"))


def look(u):
    return Leaf(u, (u.dtype, u.shape), u)


def loops(*numbers):
    return [UOp.range(8, n) for n in numbers]


def key(root):
    return outline(root, look).key


def test_what_differs_in_numbers_alone_is_equal():
    (r0, r1), (r5, r7) = loops(9000, 9001), loops(9005, 9007)  # no test before had these
    assert key(memory(0).index(r0 * 8 + r1) + memory(1).index(r1)) == key(
        memory(4).index(r5 * 8 + r7) + memory(2).index(r7)
    )


@pytest.mark.parametrize(
    "other",
    (
        lambda r, s: memory(0).index(r) + memory(0).index(s),  # one memory, not two
        lambda r, s: memory(0).index(r) + memory(1, 9).index(s),  # another size
        lambda r, s: memory(0).index(r) + memory(1).index(r),  # one loop
        lambda r, s: memory(0).index(s) + memory(1).index(r),  # the loops in another order
        lambda r, s: memory(0).index(r) * memory(1).index(s),  # another operation
        lambda r, s: memory(0).index(r + 1) + memory(1).index(s),  # another offset
        lambda r, s: memory(0).index(UOp.range(8, 0, AxisType.REDUCE)) + memory(1).index(s),  # another kind of loop
        lambda r, s: (memory(0).index(r) + memory(1).index(s)).cast(dtypes.float64),
    ),
)
def test_what_differs_in_more_is_not(other):
    r, s = loops(0, 1)
    assert key(other(r, s)) != key(memory(0).index(r) + memory(1).index(s))


def test_where_nothing_can_be_said_there_is_no_outline():
    (r,) = loops(0)
    assert outline(memory(0).index(r), lambda u: None) is None


def test_a_template_is_made_again_over_other_leaves_and_loops():
    (r, s), (t, v) = loops(0, 1), loops(3, 9)

    def part(a, b, i, j):
        return a.index(i * 8 + j) * 2.0 + b.index(j % 3)

    first = part(memory(0), memory(1), r, s)
    second = part(memory(6), memory(5), t, v)
    new = Template.of(first * first, outline(first, look)).over(outline(second, look))
    assert new is second * second


def test_a_result_with_loops_of_its_own_is_no_template():
    (r, s) = loops(0, 1)
    first = memory(0).index(r)
    assert Template.of(first * memory(0).index(s), outline(first, look)) is None


def test_once_calls_once_for_equal_parts():
    made = []
    once = Once(lambda u: made.append(u) or u * 2.0, look)
    parts = [memory(i).index(UOp.range(8, n)) + 1.0 for i, n in ((0, 0), (3, 4), (2, 9))]
    assert [once(p) for p in parts] == [p * 2.0 for p in parts]
    assert made == parts[:1] and once.like[parts[2] * 2.0] is parts[0] * 2.0
