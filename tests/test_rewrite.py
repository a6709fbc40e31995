"""graph_rewrite: in which order rules see nodes, when it ends, and what an observer learns of it."""

from collections import Counter

import pytest
from hypothesis import given

from tests.graphs import examples, programs
from tinysched.dtypes import dtypes
from tinysched.errors import RewriteError
from tinysched.ir.observe import current_observer, watching
from tinysched.ir.ops import GroupOp, Ops
from tinysched.ir.pattern import PatternMatcher, Rule, UPat, rule
from tinysched.ir.rewrite import graph_rewrite, map_nodes, rebuild, substitute
from tinysched.ir.symbolic.rules import symbolic
from tinysched.ir.uop import ParamArg, UOp
from tinysched.schedule.prepare import earliest_rewrites

X, Y = (UOp(Ops.PARAM, dtypes.int32, (), ParamArg(i, 4, "NUMPY")) for i in range(2))


def const(value):
    return UOp.const(value, dtypes.int32)


def neg(u):
    return u.alu(Ops.NEG)


def rules(*functions):
    return PatternMatcher(functions)


# ** patterns **


@rule(UPat(Ops.ADD, src=[UPat.var("x"), UPat.const(0)]))
def add_zero(x):
    """x + 0 -> x"""
    return x


@rule(UPat(Ops.ADD, src=(UPat.var("x"), UPat.var("x"))))
def double(x):
    """x + x -> x * 2"""
    return x * 2


def matches(pattern, u):
    found = {}
    return found if pattern.match(u, found) else None


def test_patterns():
    assert matches(UPat(Ops.ADD, src=(UPat.var("a"), UPat.var("b"))), X + Y) == {"a": X, "b": Y}
    assert matches(UPat((Ops.ADD, Ops.MUL), name="u"), X * Y) == {"u": X * Y}
    assert matches(UPat(Ops.ADD, src=(UPat.var("a"), UPat.var("a"))), X + Y) is None
    assert (
        matches(UPat(Ops.ADD, src=UPat(Ops.PARAM)), X + Y) == {}
        and matches(UPat(Ops.ADD, src=UPat(Ops.PARAM)), X + 1) is None
    )
    assert matches(UPat.var("u", dtypes.int8), X) is None and matches(UPat.var("u", (dtypes.int8, X.dtype)), X)
    first = UPat(Ops.STACK, src=(UPat.var("a"),), rest=True)
    assert matches(first, UOp(Ops.STACK, X.dtype, (X, Y))) == {"a": X}
    assert matches(UPat(Ops.STACK, src=(UPat.var("a"),)), UOp(Ops.STACK, X.dtype, (X, Y))) is None
    assert matches(UPat(Ops.PERMUTE, arg=(1, 0)), X.reshape((2, 2)).permute((1, 0))) == {}


def test_either_order_binds_afresh_for_each():
    pattern = UPat(Ops.ADD, src=[UPat(Ops.MUL, src=(UPat.var("a"), UPat.var("b"))), UPat.var("a")])
    assert matches(pattern, X * Y + X) == matches(pattern, X + X * Y) == {"a": X, "b": Y}
    assert matches(pattern, Y + X * Y) is None, "a must be the same node"
    assert matches(UPat(Ops.ADD, src=[UPat(Ops.MUL, name="m"), UPat(Ops.NEG, name="n")]), neg(X) + X * Y) == {
        "m": X * Y,
        "n": neg(X),
    }


@pytest.mark.parametrize("value, wanted, same", [
    (0.0, 0, True), (-0.0, 0, False), (0.0, 0.0, True), (-0.0, -0.0, False), (1.0, 1, True), (True, 1, True),
    (float("nan"), float("nan"), False), (2, 1, False),
])  # fmt: skip
def test_constants_in_patterns(value, wanted, same):
    dtype = dtypes.from_py(value)
    assert (matches(UPat.const(wanted), UOp.const(value, dtype)) is not None) == same


def test_a_rule_has_a_name_a_docstring_and_a_place():
    assert (add_zero.name, add_zero.doc, add_zero.takes) == ("add_zero", "x + 0 -> x", ("x",))
    file, line = add_zero.where
    assert file == __file__ and line > 0
    assert add_zero.apply(X + 0) is X and add_zero.apply(const(0) + X) is X and add_zero.apply(X + 1) is None


def test_the_first_rule_that_applies_wins_and_tables_add():
    @rule(UPat(Ops.ADD, src=(UPat.var("x"), UPat.var("x"))))
    def other(x):
        """x + x -> 2 * x"""
        return 2 * x

    assert rules(double, other).rewrite(X + X) == (double, X * 2)
    assert (rules(other) + rules(double)).rewrite(X + X) == (other, 2 * X)
    assert (rules(other) + rules(double)).without("other").rewrite(X + X) == (double, X * 2)
    assert rules(double).rewrite(X + Y) is None and rules(double).rewrite(X * Y) is None
    assert [r.name for r in rules(double, other)] == ["double", "other"]


def test_a_rule_that_returns_the_node_itself_does_not_apply():
    @rule(UPat(Ops.ADD, name="u"))
    def same(u):
        """u -> u"""
        return u

    assert same.apply(X + Y) is None and graph_rewrite(X + Y, rules(same)) is X + Y


# ** order **


def seeing(seen, pattern):
    @rule(pattern)
    def note(u):
        """sees u"""
        seen.append(u)
        return None

    return rules(note)


def test_sources_first():
    seen = []
    root = (X + Y) * neg(X + Y)
    graph_rewrite(root, seeing(seen, UPat(GroupOp.ALU, name="u")))
    assert seen == [X + Y, neg(X + Y), root], "every node once, sources before their readers"


def test_bottom_up_sees_a_node_before_its_sources():
    seen = []
    root = (X + Y) * neg(X + Y)
    graph_rewrite(root, seeing(seen, UPat(GroupOp.ALU, name="u")), bottom_up=True)
    assert seen == [root, X + Y, neg(X + Y)]


@rule(UPat(Ops.NEG, src=(UPat(Ops.NEG, src=(UPat.var("x"),)),)))
def neg_neg(x):
    """--x -> x"""
    return x


@rule(UPat(Ops.NEG, src=(UPat(Ops.ADD, src=(UPat.var("x"), UPat.var("y"))),)))
def push_neg(x, y):
    """-(x + y) -> -x + -y"""
    return neg(x) + neg(y)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_what_a_rule_returns_is_rewritten_too(bottom_up):
    root = neg(neg(X + Y) + neg(X))
    assert graph_rewrite(root, rules(neg_neg, push_neg), bottom_up=bottom_up) is X + Y + X
    assert graph_rewrite((X + 0) + (const(0) + X), rules(add_zero, double), bottom_up=bottom_up) is X * 2


def test_sources_are_in_their_final_form_when_a_node_is_seen():
    @rule(UPat(Ops.MUL, src=(UPat(Ops.ADD, name="a"), UPat.var("y"))))
    def needs_a_sum(a, y):
        """(a + b) * y -> y"""
        return y

    root = (X + 0) * Y
    assert graph_rewrite(root, rules(add_zero, needs_a_sum)) is X * Y, "its source is no sum by then"
    assert graph_rewrite(root, rules(add_zero, needs_a_sum), bottom_up=True) is Y


def test_a_node_with_new_sources_is_seen_anew_bottom_up():
    assert graph_rewrite((X + 0) + X, rules(add_zero, double), bottom_up=True) is X * 2


def test_rules_get_the_context():
    @rule(UPat(Ops.CONST, name="c"))
    def count(ctx, c):
        """c -> how many constants came before"""
        ctx.append(c)
        return None

    seen = []
    graph_rewrite(X + 1 + 2, rules(count), seen)
    assert seen == [const(1), const(2)]


def test_nodes_that_nothing_changes_stay_the_same_objects():
    root = neg(X + Y) * (X * 2)
    assert graph_rewrite(root, rules(add_zero)) is root
    assert graph_rewrite(root + (X + 0), rules(add_zero)) is root + X


# ** end **


@rule(UPat(Ops.NEG, src=(UPat.var("x"),)))
def to_mul(x):
    """-x -> x * -1"""
    return x * -1


@rule(UPat(Ops.MUL, src=(UPat.var("x"), UPat.const(-1))))
def to_neg(x):
    """x * -1 -> -x"""
    return neg(x)


@rule(UPat(Ops.NEG, src=(UPat.var("x"),)))
def grow(x):
    """-x -> ---x"""
    return neg(neg(neg(x)))


@rule(UPat(Ops.NEG, src=(UPat(Ops.ADD, src=(UPat.var("x"), UPat.cvar("c"))),)))
def count_up(x, c):
    """-(x + c) -> (-(x + (c + 1))) * 2"""
    return neg(x + (c.arg + 1)) * 2


@pytest.mark.parametrize("bottom_up", [False, True])
@pytest.mark.parametrize("table, root", [
    (rules(to_mul, to_neg), neg(X)), (rules(grow), neg(X)), (rules(count_up), neg(X + 1)),
    (rules(to_mul, to_neg), (neg(X) + Y) * 2),
])  # fmt: skip
def test_rewrites_that_never_end_stop_with_the_name_of_the_rule(table, root, bottom_up):
    with pytest.raises(RewriteError) as error:
        graph_rewrite(root, table, name="the pass", bottom_up=bottom_up)
    text = str(error.value)
    assert "the pass" in text and any(f"rule {r.name} ({r.doc})" in text for r in table)
    assert "test_rewrite.py" in text and "help:" in text


@pytest.mark.parametrize("bottom_up", [False, True])
def test_a_deep_graph_is_no_endless_rewrite(bottom_up):
    """Thousands of nodes on one path, each rewritten: as many rewrites, none on top of the other."""
    root = X
    for _ in range(5000):
        root = neg(root)
    new = graph_rewrite(root, rules(to_mul), bottom_up=bottom_up)
    assert Counter(u.op for u in new.toposort()) == {Ops.MUL: 5000, Ops.CONST: 1, Ops.PARAM: 1}


def test_a_long_expansion_is_no_endless_rewrite():
    @rule(UPat(Ops.POW, src=(UPat.var("x"), UPat.cvar("n"))))
    def power(x, n):
        """x ** n -> x * x ** (n - 1)"""
        return x if n.arg == 1 else x * x.alu(Ops.POW, const(n.arg - 1))

    new = graph_rewrite(X.alu(Ops.POW, const(800)), rules(power))
    assert len(new.toposort()) == 800


# ** observers **


class Notes:
    """Keeps every rewriting and every rebuilding, in order."""

    def __init__(self):
        self.events = []

    def on_rewrite(self, rule, before, after):
        assert isinstance(rule, Rule)
        self.events.append((rule.name, before, after))

    def on_replace(self, before, after):
        self.events.append((None, before, after))

    def on_decision(self, decision): ...

    def on_index(self, *event): ...


def follow(events, u):
    """What a node became, by all events alone."""
    became = {before: after for _, before, after in events}
    assert len(became) == len(events), "a node is replaced once"
    for _ in range(len(events) + 1):
        if u not in became:
            return u
        u = became[u]
    raise AssertionError("the events go round in circles")


def replay(events, root):
    """The graph that the rewritings alone make of ``root``: each holds wherever its node turns up."""
    became = {before: after for name, before, after in events if name is not None}
    known = {}

    def final(u):
        if u not in known:
            v = became[u] if u in became else u.replace(src=tuple(map(final, u.src)))
            known[u] = u if v is u else final(v)
        return known[u]

    return final(root)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_the_events_replay_the_rewriting(bottom_up):
    root = neg(neg(X + Y) + neg(X + 0)) * neg(neg(neg(Y + (X + 0))))
    table, notes = rules(neg_neg, push_neg, add_zero, double), Notes()
    with watching(notes):
        new = graph_rewrite(root, table, bottom_up=bottom_up)
    assert new is graph_rewrite(root, table, bottom_up=bottom_up) and new is not root
    assert follow(notes.events, root) is new and replay(notes.events, root) is new


@examples(60)
@given(programs())
def test_the_events_of_a_pass_replay_it(program):
    sink = UOp.sink(*(u for u, _ in program.build()[1]))
    for table in (earliest_rewrites, symbolic):
        notes = Notes()
        with watching(notes):
            new = graph_rewrite(sink, table)
        assert follow(notes.events, sink) is new and replay(notes.events, sink) is new
        sink = new


def test_substitute_and_map_nodes_tell_what_they_rebuild():
    root, notes = neg(X + Y) * 2, Notes()
    with watching(notes):
        new = substitute(root, {X: Y})
        assert new is neg(Y + Y) * 2
        assert [e[1:] for e in notes.events] == [(X + Y, Y + Y), (neg(X + Y), neg(Y + Y)), (root, new)]
        notes.events.clear()
        assert map_nodes(root, lambda u: Y if u is X else None) is new
    assert [e[2] for e in notes.events] == [Y, Y + Y, neg(Y + Y), new]


def test_substitute_does_not_enter_what_it_puts_in():
    assert substitute(X + Y, {X: X + 1}) is X + 1 + Y and substitute(X + Y, {}) is X + Y
    assert substitute(neg(X), {X: Y, Y: X}) is neg(Y) and substitute(X + Y, {X: Y, Y: X}) is Y + X
    became = {X: Y}
    assert rebuild(neg(X) + X, became) is neg(Y) + Y and became[neg(X)] is neg(Y)


def test_nobody_watches_unless_asked():
    assert current_observer() is None
    with watching(Notes()) as nothing:
        assert nothing is None and current_observer() is not None
        with watching(None):
            assert current_observer() is None
    assert current_observer() is None


def test_an_observer_that_raises_leaves_no_trace():
    class Bad(Notes):
        def on_rewrite(self, rule, before, after):
            raise ValueError("bad observer")

    with pytest.raises(ValueError, match="bad observer"), watching(Bad()):
        graph_rewrite(X + 0, rules(add_zero))
    assert current_observer() is None and graph_rewrite(X + 0, rules(add_zero)) is X


def test_who_watches_is_looked_up_once_per_pass(monkeypatch):
    asked = []
    monkeypatch.setattr("tinysched.ir.rewrite.current_observer", lambda: asked.append(1))
    root = X
    for i in range(200):
        root = neg(neg(root)) + const(0) + const(i)
    graph_rewrite(root, rules(neg_neg, add_zero))
    assert len(asked) == 1
