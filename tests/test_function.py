"""Functions: the same values inlined, precompiled and called as plain Python; scopes, writes, gradients, caches, errors."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.libs import Ours
from benchmarks.workloads import GPT, Kit
from tests.graphs import examples
from tinysched import Context, Ops, Tensor, UOp, Variable, capture, clear_caches, function, plan
from tinysched.errors import ArgumentError, DTypeError
from tinysched.ir.observe import watching
from tinysched.ir.spec import STAGE_SPECS, verify
from tinysched.schedule.pipeline import function_cache, schedule_cache

A = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
B = A[::-1].copy() + 1


@pytest.fixture(params=["numpy", "loops"])
def cpu(request):
    with Context(CPU=request.param):
        yield request.param


@pytest.fixture(params=[False, True], ids=["inlined", "precompiled"])
def kind(request):
    """Makes a function of either kind."""
    return lambda fn, **options: function(fn, precompile=request.param, **options)


def real(a) -> Tensor:
    return Tensor(a).realize()


def same(found, wanted) -> None:
    found = found.numpy() if isinstance(found, Tensor) else found
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def kernels(*tensors: Tensor) -> int:
    return len(plan(*tensors).linear.src)


# ** values **


def test_a_call_is_one_node(kind):
    x, y = real(A), real(B)
    called = kind(lambda x, y: (x * y).sum(1))(x, y)
    assert called.uop.op is Ops.GETTUPLE and called.uop.src[0].op is Ops.FUNCTION
    assert called.uop.src[0].src == (x.uop, y.uop)
    assert called.shape == (3,) and called.dtype is x.dtype and called.device == x.device


def test_any_arguments(kind, cpu):
    f = kind(lambda x, y: (x * y).sum(1))
    x, y = real(A), real(B)
    same(f(x, y), (A * B).sum(1))
    same(f(y=x, x=x), (A * A).sum(1))
    same(f(x + 1, y) * 2, ((A + 1) * B).sum(1) * 2)
    same(f(x, 3), (A * 3).sum(1))
    same(f(x, Tensor(3.0)), (A * 3).sum(1))
    same(f(x, Tensor.ones(3, 4)), A.sum(1))


def test_captured_tensors(kind, cpu):
    memory, lazy, number = real(B), real(B) * 2, Tensor(3.0)
    f = kind(lambda x: (x @ memory.T + lazy.sum() * number, Tensor.ones(2, 3) * number))
    product, constant = f(real(A) + 0)
    same(product, A @ B.T + (B * 2).sum() * 3)
    same(constant, np.full((2, 3), 3))


@pytest.mark.parametrize("form", [tuple, list, lambda ts: {"a": ts[0], "b": {"c": ts[1]}}])
def test_results_in_any_form(kind, form):
    found = kind(lambda x: form([x + 1, x * 2]))(real(A))
    assert type(found) is type(form([0, 0]))
    a, b = (found["a"], found["b"]["c"]) if isinstance(found, dict) else found
    same(a, A + 1)
    same(b, A * 2)


def test_what_comes_from_outside_is_returned_as_it_is(kind):
    x, y = real(A), real(B)
    a, b, c = kind(lambda x: (x, y, x + 0))(x)
    assert a is x and b is y
    same(c, A)


def test_dtypes_sizes_and_constants(kind, cpu):
    x = real(A.astype(np.float16))
    total, mask, ints, half = kind(lambda x: (x.sum(), x > 1, (x * 2).cast("int32"), x * 0.5))(x)
    same(total, A.astype(np.float16).sum())
    same(mask, A > 1)
    same(ints, (A * 2).astype(np.int32))
    same(half, (A * 0.5).astype(np.float16))
    empty, nothing, three = kind(lambda x: (x[:0] + 1, x[:0].sum(), Tensor(3) * 1))(x)
    same(empty, np.zeros((0, 4)))
    same(nothing, 0.0)
    same(three, 3)


VIEWS = {
    "row": (lambda x: x[1], lambda a: a[1]),
    "rows": (lambda x: x[1:3], lambda a: a[1:3]),
    "column": (lambda x: x[:, 1], lambda a: a[:, 1]),
    "transposed": (lambda x: x.T, lambda a: a.T),
    "every other": (lambda x: x[::2], lambda a: a[::2]),
    "flipped": (lambda x: x.flip(0), lambda a: a[::-1]),
    "detached": (lambda x: x.detach(), lambda a: a),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_memory_are_not_copied(kind, name, cpu):
    ours, numpys = VIEWS[name]
    called = kind(lambda a: (a * a).sum(-1))(ours(real(B)))
    assert kernels(called) == 1
    same(called, (numpys(B) ** 2).sum(-1))


def test_asking_costs_no_kernel_more(kind):
    x, w = real(A), real(B)

    def body(x):
        return (x * w).exp().sum(0).contiguous() + 1, (x + w).contiguous()

    assert kernels(*kind(body)(x)) == kernels(*body(x))
    f = kind(lambda x: (x + 1).contiguous())
    assert kernels(f(f(x))) == 2


def test_the_same_as_calling_the_body(kind, cpu):
    w = real(B)

    def body(x, y=None):
        h = (x * w).softmax(-1)
        return (h - h.mean(1, keepdim=True)) @ (w.T if y is None else y)

    f = kind(body)
    x = real(A)
    same(f(x), body(x).numpy())
    same(f(f(x) @ real(B), y=(w * 2).T), body(body(x) @ real(B), y=(w * 2).T).numpy())


# ** scopes **


def test_nested_functions_have_their_own_scopes(kind, cpu):
    c, d = real(B), real(A)

    def inner(x):
        return (x * c).sum(0), x + 1

    g = kind(inner)

    def outer(x, g):
        a, b = g(x)
        e, f = g(b)
        return a + e * d[0], f

    for found, wanted in zip(kind(lambda x: outer(x, g))(real(A)), outer(real(A), inner)):
        same(found, wanted.numpy())


def test_intermediates_of_every_call_are_planned():
    f = function(lambda x: (x.sum(1, keepdim=True) + x).exp().contiguous() + 1, precompile=True)
    x = real(A)
    for _ in range(4):
        x = f(x)
    p = plan(x.sum())
    inner = [c for c in p.linear.src if c.src[0].op is Ops.SINK]
    assert len(p.memory.placements) >= 8
    assert p.memory.arena_bytes < p.memory.unplanned_bytes
    assert all(c.src[0].op is Ops.SINK for c in p.linear.src) and len({c.src[0] for c in inner}) < len(inner)


@pytest.mark.parametrize("outer", [True, False])
def test_one_kind_in_the_other(outer, cpu):
    w = real(B)
    g = function(lambda x: (x * w).sum(1), precompile=not outer)
    f = function(lambda x: g(x).exp() + g(x + 1), precompile=outer)
    same(f(real(A)), np.exp((A * B).sum(1)) + ((A + 1) * B).sum(1))


# ** scheduled once **


def test_a_body_is_scheduled_once():
    clear_caches()
    f = function(lambda x, w: (x @ w).relu().contiguous(), precompile=True)
    x = real(np.eye(4, dtype=np.float32))
    for _ in range(6):
        x = f(x, real(B.T @ A))
    x.realize()
    assert len(function_cache) == 1 and len(schedule_cache) == 1
    f(f(real(np.eye(4, dtype=np.float32)), real(B.T @ A)), real(B.T @ A)).realize()
    assert len(function_cache) == 1 and len(schedule_cache) == 2
    clear_caches()
    assert not function_cache


def test_calls_on_other_tensors_hit_the_cache(kind):
    clear_caches()
    f = kind(lambda x, y: (x * y).sum(1) * Tensor(2.0))
    for _ in range(3):
        same(f(real(A), real(B)), (A * B).sum(1) * 2)
        assert len(schedule_cache) == 1


def test_bodies_differ_in_what_they_compute():
    x = real(A)
    f, g = (function(lambda x, k=k: x * k, precompile=True) for k in (2, 3))
    same(f(x), A * 2)
    same(g(x), A * 3)
    same(f(f(x)) + g(x), A * 7)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_gpt_both_ways_and_without(layers):
    found = {}
    for name in ("plain", "inlined", "precompiled"):
        model = GPT(Kit(Ours(), seed=3), layers, 12, 3, 5, 11)
        tokens = Tensor(np.array([[3, 1, 4, 1, 5]], np.int32)).realize()

        def wrap(block, name=name):
            return function(lambda x: block(x).contiguous(), precompile=name == "precompiled")

        logits = model(tokens, None if name == "plain" else wrap)
        found[name] = kernels(logits), logits.numpy()
    for name in ("inlined", "precompiled"):
        np.testing.assert_allclose(found[name][1], found["plain"][1], rtol=1e-4, atol=1e-5)
        assert found[name][0] == found["plain"][0]


def test_every_stage_is_legal(kind):
    class Verify:
        def on_stage_end(self, name: str, root: UOp) -> None:
            verify(root, STAGE_SPECS[name.split(": ")[-1]])

        def __getattr__(self, name: str):
            return lambda *args: None

    w = real(B)
    g = kind(lambda x: (x * w).sum(0))
    f = kind(lambda x: g(x).exp() + g(x[:, :2].pad(((0, 0), (0, 2)))))
    with watching(Verify()):
        plan(f(real(A) + 1).sum(), f(real(A)[::2].cat(real(B)[:1])))


def test_a_node_of_a_function_is_pickled(kind):
    called = kind(lambda x: (x * 2, x + 1))(real(A))[1].uop
    assert pickle.loads(pickle.dumps(called)) is called


def test_recursion(kind):
    f = kind(lambda x, n: x if n == 0 else f(x * 2, n - 1) + 1)
    same(f(real(A), 5), A * 32 + 5)


def test_a_thousand_calls(kind):
    w, x = real(A), real(A)
    f = kind(lambda x: (x * w + 1).contiguous())
    for _ in range(1000):
        x = f(x)
    assert kernels(x) == 1000


def test_a_capture_shows_the_body(kind):
    w = real(B)
    f = kind(lambda x: (x * w).exp().sum(1))
    trace = capture(f(f(real(A)).reshape(3, 1) + w).sum())
    assert len(trace.schedules[-1].kernels) == kernels(f(f(real(A)).reshape(3, 1) + w).sum())


# ** writes **


def test_writes_to_arguments_and_captured_tensors(kind, cpu):
    s, x = real(np.zeros((3, 4), np.float32)), real(A)

    @kind
    def f(x, i):
        s[i] = x[i] * 2
        x += 1
        return s.sum()

    first, second = f(x, 0), f(x, 1)
    wanted = np.zeros((3, 4))
    wanted[0] = A[0] * 2
    same(first, wanted.sum())
    wanted[1] = (A[1] + 1) * 2
    same(second, wanted.sum())
    same(s, wanted)
    same(x, A + 2)


def test_views_follow_what_a_function_writes(kind):
    x = real(A)
    row, column = x[1], x[:, 2]

    @kind
    def f(part):
        part.assign(part * 10)
        x[2] = 7.0

    f(row)
    wanted = A.copy()
    wanted[1] *= 10
    wanted[2] = 7
    same(x, wanted)
    same(row, wanted[1])
    same(column, wanted[:, 2])


def test_writes_to_a_constant_that_has_memory(kind, cpu):
    s = Tensor.zeros(3, 4).contiguous().realize()
    f = kind(lambda s, x: s.assign(s + x).sum() * 0, allow_implicit=False)
    for k in range(1, 4):
        f(s, real(A)).realize()
        same(s, A * k)
        assert s.uop.base.op is Ops.BUFFER


def test_older_values_are_kept(kind, cpu):
    s = real(A)
    old = s * 1
    added = kind(lambda x: s.assign(s + x) * 2)(real(B))
    s.realize()
    same(s, A + B)
    same(old, A)
    same(added, (A + B) * 2)


def test_only_the_last_of_covering_writes_is_made():
    s = real(A)

    @function
    def f(x):
        for k in range(3):
            s.assign(x + k)

    f(real(B))
    assert len(s.uop.base.src[1].src[1].src[0].arg.body.src) == 1
    same(s, B + 2)


def test_what_a_body_leaves_behind_keeps_its_value(kind):
    s, kept = real(A), []

    @kind
    def f(x):
        s.assign(s + x)
        kept.extend([s * 2, x * 3, s])
        return s.sum()

    total = f(real(B))
    same(kept[0], (A + B) * 2)
    same(kept[1], B * 3)
    same(kept[2], A + B)
    same(total, (A + B).sum())
    same(s, A + B)


def test_a_body_that_fails_has_written_what_it_wrote(kind):
    s = real(A)

    @kind
    def f():
        s.assign(s + 1)
        raise KeyError("no")

    with pytest.raises(KeyError):
        f()
    same(s, A + 1)


def test_a_call_does_all_that_it_does(kind):
    s, t = real(A), real(B)

    @kind
    def f(x):
        s.assign(s + x)
        t[0] = x[0]
        return x * 2

    called = f(real(B))
    more = s * 1
    called.realize()
    assert s.uop.base.op is Ops.BUFFER and t.uop.base.op is Ops.BUFFER
    same(called, B * 2)
    same(s, A + B)
    same(more, A + B)


def test_random_numbers_go_on(kind, cpu):
    Tensor.manual_seed(3)
    wanted = [Tensor.rand(4).numpy() for _ in range(3)]
    Tensor.manual_seed(3)
    f = kind(lambda: Tensor.rand(4))
    for a in wanted:
        same(f(), a)


def test_a_cache_at_a_variable_position(kind, cpu):
    p, cache, wanted = Variable("p", 0, 3), real(np.zeros((4, 3), np.float32)), np.zeros((4, 3), np.float32)

    @kind
    def step(x, at):
        cache[at : at + 1] = x
        return cache[: at + 1].sum(0)

    for i in range(4):
        wanted[i] = i + 1
        same(step(real(np.full((1, 3), i + 1, np.float32)), p.bind(i)), wanted[: i + 1].sum(0))
    pending = [step(real(np.full((1, 3), -i, np.float32)), p.bind(i)) for i in range(4)]
    for i in range(4):
        wanted[i] = -i
        same(pending[i], wanted[: i + 1].sum(0))
    same(cache, wanted)


def test_variables_are_arguments(kind, cpu):
    clear_caches()
    x, a, v = real(np.arange(24, dtype=np.float32).reshape(4, 6)), np.arange(24.0).reshape(4, 6), Variable("v", 1, 6)
    part = kind(lambda x, n: ((x[:, :n] * n).sum(1), x[:, :n] + 1))
    whole = kind(lambda x: (x.sum(1), x * 2))
    schedules = []
    for n in (2, 5):
        total, more = part(x, v.bind(n))
        assert more.shape == (x[:, : v.bind(n)] + 1).shape
        same(total, (a[:, :n] * n).sum(1))
        same(more, a[:, :n] + 1)
        for prefix, wanted in ((x[:, : v.bind(n)], a[:, :n]), (x[:, : v.bind(n)] + 1, a[:, :n] + 1)):
            total, double = whole(prefix)
            same(total, wanted.sum(1))
            same(double, wanted * 2)
        schedules.append(len(schedule_cache))
    assert schedules[0] == schedules[1]


def test_two_positions_in_one_body(kind):
    x, v = real(A), Variable("v", 1, 4)
    with pytest.raises(ArgumentError, match="v is bound to 2 and to 3 in one expression"):
        kind(lambda x: x[:, : v.bind(2)].sum() + x[:, : v.bind(3)].sum())(x)
    both = kind(lambda x: (x[:, : v.bind(2)].sum(), x[:, : v.bind(3)].sum()))
    for found, n in zip(both(x), (2, 3)):
        same(found, A[:, :n].sum())
    one = kind(lambda x, n: x[:, :n].sum())
    same(one(x, v.bind(2)) + one(x, v.bind(3)), A[:, :2].sum() + A[:, :3].sum())


# ** gradients **


def test_gradients_flow_through(kind, cpu):
    x, c, k = real(A / 10), real(B), Tensor(3.0)

    def body(x, y):
        return (x * c).exp2().sum(1) * k, y.tanh() @ c.T

    def loss(f):
        a, b = f(x, c * x)
        return (a * a).sum() + b.mean()

    for found, wanted in zip(loss(kind(body)).gradient(x, c, k), loss(body).gradient(x, c, k)):
        same(found, wanted.numpy())


def test_gradients_through_nested_functions(kind):
    x, c = real(A / 10), real(B / 10)

    def inner(x):
        return (x * c).exp2()

    g = kind(inner)
    f = kind(lambda x: g(x).sum(0) * g(x * 2).mean(0))
    plain = inner(x).sum(0) * inner(x * 2).mean(0)
    for found, wanted in zip(f(x).sum().gradient(x, c), plain.sum().gradient(x, c)):
        same(found, wanted.numpy())


def test_second_derivatives(kind):
    x = real(A)
    (first,) = kind(lambda x: (x**3).sum())(x).gradient(x)
    (second,) = first.sum().gradient(x)
    same(second, 6 * A)


def test_a_precompiled_functions_gradient_is_precompiled():
    w = real(B)
    f = function(lambda x: (x * w).sum(), precompile=True)
    (g,) = f(real(A)).gradient(w)
    backward = g.uop.src[0].arg
    assert backward.precompile and backward.name.endswith("<lambda> backward")
    same(g, A)


def test_backward_fills_grad(kind):
    x, w = real(A), real(B)
    kind(lambda x: (x * w).sum())(x).backward()
    same(w.grad, A)
    same(x.grad, B)


def test_a_training_step_as_one_function(kind, cpu):
    w, m, x, ref, momentum = real(A), real(np.zeros_like(A)), real(B), A.astype(np.float64), np.zeros((3, 4))

    @kind
    def step(x):
        loss = ((x * w) ** 2).sum()
        (g,) = loss.gradient(w)
        m.assign(m * 0.9 + g)
        w.assign(w - 0.01 * m)
        return loss

    losses = [step(x) for _ in range(3)]
    for loss in losses:
        same(loss, ((B * ref) ** 2).sum().astype(np.float32))
        momentum = momentum * 0.9 + 2 * B * B * ref
        ref = ref - 0.01 * momentum
    same(w, ref.astype(np.float32))
    same(m, momentum.astype(np.float32))


def test_a_call_leaves_whole_values_where_they_stay():
    w, x = real(A), real(B)
    step = function(lambda x: w.assign(w - x), precompile=True)
    step(x)
    assert kernels(w) == 1
    same(w, A - B)


# ** errors, forms of use **


def test_captured_tensors_can_be_refused(kind):
    w = real(B)

    class Model:
        def __init__(self) -> None:
            self.parts = {"w": [real(B)]}

        @function(allow_implicit=False)
        def __call__(self, x):
            """Doc."""
            return x * self.parts["w"][0]

    with pytest.raises(ArgumentError, match="reads 1 Tensors that are no arguments") as error:
        kind(lambda x: x + w, allow_implicit=False)(real(A))
    assert "test_function.py" in error.value.where and "allow_implicit" in error.value.help
    same(Model()(real(A)), A * B)
    assert Model.__call__.__doc__ == "Doc."
    same(kind(lambda x, y: x + y[0], allow_implicit=False)(w, [w]), B * 2)


@pytest.mark.parametrize("how", [Tensor.realize, Tensor.numpy, Tensor.tolist])
def test_nothing_is_computed_in_a_body(kind, how):
    with pytest.raises(ArgumentError, match="only traced"):
        kind(lambda x: how(x + 1))(real(A))
    same(kind(lambda x: x + float(real(B).numpy()[0, 0]))(real(A)), A + B[0, 0])


def test_other_results_are_refused(kind):
    with pytest.raises(DTypeError, match="returned a int"):
        kind(lambda x: 3)(real(A))
    x = real(A)
    with pytest.raises(DTypeError, match="returned a str"):
        kind(lambda: str(x.assign(x + 1)))()
    same(x, A)
    assert kind(lambda x: None)(real(A)) is None


def test_two_threads_trace_at_once(kind):
    w = real(B)
    f, found = kind(lambda x, k: (x * w).sum(1) + k), {}

    def work(k: int) -> None:
        for _ in range(20):
            found[k] = f(real(A), k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(3):
        same(found[k], (A * B).sum(1) + k)


# ** any body **

STEPS = ("assign", "add", "part", "read", "keep", "call", "write")


def run(steps, wrap) -> list[np.ndarray]:
    """A program of writes and reads, part of it in a function; all values that it made, in the end."""
    x, y = real(A.copy()), real(B.copy())
    seen: list[Tensor] = []

    def body(z):
        made = []
        for what, k in steps:
            target = (x, y)[k % 2]
            if what == "assign":
                target.assign(z * (k + 1))
            elif what == "add":
                target += x.sum() / 16
            elif what == "part":
                target[k % 3] = y[(k + 1) % 3] + 1
            elif what == "read":
                made.append((x * y + z).sum(k % 2))
            elif what == "keep":
                seen.append(target[1:] * 2)
            elif what == "call":
                made.append(wrap(lambda u, k=k: (u + x).max() + k)(target))
            else:
                made.append(wrap(lambda u, t=target: t[1:].assign(u[:-1] + t[:2]).sum(1) + u[0, 0])(z))
        return made

    f = wrap(body)
    seen += f(x * 2)
    seen += f(y)
    return [t.numpy() for t in (*seen, x, y)]


@examples(40)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=1, max_size=6))
def test_any_body_does_what_plain_python_does(steps):
    wanted = run(steps, lambda fn: fn)
    for precompile in (False, True):
        found = run(steps, lambda fn, p=precompile: function(fn, precompile=p))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
