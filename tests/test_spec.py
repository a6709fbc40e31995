"""Specifications: real graphs are legal after every pass, and each kind of wrong node is named with its user line."""

import numpy as np
import pytest
from hypothesis import given

from tests.graphs import examples, programs
from tinysched import Tensor
from tinysched.dtypes import dtypes
from tinysched.errors import SpecError, TinyschedError
from tinysched.ir.lines import mark
from tinysched.ir.observe import watching
from tinysched.ir.ops import AxisType, Ops
from tinysched.ir.spec import SPECS, STAGE_SPECS, verify
from tinysched.ir.uop import INVALID, BufferArg, ParamArg, UOp
from tinysched.schedule.kernels import KernelInfo
from tinysched.schedule.pipeline import PIPELINE
from tinysched.schedule.rangeify import BufferizeOpts
from tinysched.settings import Context


def param(slot, size, dtype=dtypes.float32):
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size, "NUMPY"))


def node(op, *src, dtype=dtypes.float32, arg=None):
    return UOp(op, dtype, src, arg)


P, Q, INTS = param(0, 6), param(1, 6), param(2, 6, dtypes.int32)
X = P.reshape((2, 3))
R, S = UOp.range(6, 0), UOp.range(2, 1, AxisType.REDUCE)
T = UOp.range(6, 2)
ONE = UOp.const(1.0, dtypes.float32)
READ = P.index(R)
WRITE = Q.index(R).store(READ)
STAGE = node(Ops.STAGE, READ, R, arg=BufferizeOpts("NUMPY"))
BUFFER = node(Ops.BUFFER, arg=BufferArg(7, 6, "NUMPY"))
KERNEL = UOp.sink(Q.index(R).store(node(Ops.LOAD, READ)).end(R), arg=KernelInfo("E_6"))

ILLEGAL = {
    "tensor": {
        "a loop": R, "an index": READ, "a stage": STAGE, "operands of two dtypes": node(Ops.ADD, P, INTS),
        "a comparison that is no bool": node(Ops.CMPLT, P, Q), "a condition that is no bool": node(Ops.WHERE, P, P, Q),
        "a unary of two": node(Ops.NEG, P, Q), "a binary of one": node(Ops.ADD, P),
        "a unary of another dtype": node(Ops.SQRT, INTS), "a reshape to another size": node(Ops.RESHAPE, X, arg=(4,)),
        "a permute that drops an axis": node(Ops.PERMUTE, X, arg=(0, 0)), "an expand of nothing": node(Ops.EXPAND, X, arg=()),
        "a flip of another rank": node(Ops.FLIP, X, arg=(True,)),
        "a reduce of an op that does not reduce": node(Ops.REDUCE, X, arg=(Ops.SUB, 1)),
        "a reduce of more axes than there are": node(Ops.REDUCE, P, arg=(Ops.ADD, 2)),
        "a reduce of no axes": node(Ops.REDUCE, X, arg=(Ops.ADD, 0)), "a stack of two shapes": node(Ops.STACK, P, X),
        "a copy to nowhere": node(Ops.COPY, P), "a write into a value": (P + Q).store(Q),
        "a write of another dtype": P.store(INTS), "a write that would broadcast its target": P.shrink(((0, 1),)).store(Q),
        "a state of a value": node(Ops.AFTER, P + Q, P.store(Q)),
        "a variable without values": node(Ops.PARAM, dtype=dtypes.index, arg=ParamArg(-1, name="v", vmin=3, vmax=2)),
        "a constant with sources": node(Ops.CONST, P, arg=1.0), "a linear": node(Ops.LINEAR),
    },
    "call": {"a buffer": BUFFER, "a loop": R},
    "rangeified": {
        "a movement op": X.permute((1, 0)), "a reduce over axes": node(Ops.REDUCE, READ, arg=(Ops.ADD, 1)),
        "a reduce over no loop": node(Ops.REDUCE, READ, ONE, arg=(Ops.ADD, 0)), "a store of a whole": P.store(Q),
        "an end of no store": READ.end(R), "a store of another dtype": INTS.index(R).store(READ),
        "an index of a value": node(Ops.INDEX, ONE, R), "two indices of memory": node(Ops.INDEX, P, R, S),
        "an index that is no index": node(Ops.INDEX, P, ONE), "a stage over a value": node(Ops.STAGE, READ, ONE + ONE),
        "too few indices of a stage": node(Ops.INDEX, STAGE),
        "a stage read in the loop that it closes": node(Ops.INDEX, STAGE, R),
        "a hint without options": node(Ops.CONTIGUOUS, READ),
        "a stack": node(Ops.STACK, READ, READ), "a load": node(Ops.LOAD, READ),
    },
    "buffered": {"a stage": STAGE, "an index of a stage": node(Ops.INDEX, STAGE, R)},
    "kernel": {"a buffer": BUFFER, "a state": P.after(WRITE), "a load of a value": node(Ops.LOAD, ONE)},
    "kernels": {"a write": WRITE, "an end": WRITE.end(R), "a value": ONE + ONE, "a call of a value": ONE.call(P)},
    "linear": {"a state": P.after(KERNEL.call(Q, P)), "a store": WRITE, "a piece of a value": node(Ops.SHRINK, ONE, arg=())},
}  # fmt: skip
CASES = [(stage, what) for stage, kinds in ILLEGAL.items() for what in kinds]


@pytest.mark.parametrize("stage, what", CASES, ids=[f"{stage}: {what}" for stage, what in CASES])
def test_an_illegal_node_is_named(stage, what):
    wrong = ILLEGAL[stage][what]
    with pytest.raises(SpecError) as error:
        verify(UOp.sink(wrong), stage)
    text = str(error.value)
    assert f"is not legal in the stage {stage}" in text and SPECS[stage][1] in text
    assert wrong.op.name in text or any(u.op.name in text for u in wrong.toposort())
    assert isinstance(error.value, TinyschedError) and isinstance(error.value, ValueError)


LEGAL = {
    "tensor": UOp.sink(BUFFER.after(BUFFER.reshape((2, 3)).flip((True, False)).store(X.rop(Ops.ADD, (0,)) + 1.0))),
    "call": UOp.sink(Q.after(Q.store((P * Q).contiguous()))),
    "rangeified": UOp.sink(Q.after(Q.index(T).store(STAGE.index(T)).end(T))),
    "buffered": UOp.sink(Q.after(Q.index(R).store(P.index(R.valid(R < 3)).reduce(Ops.ADD, S)).end(R))),
    "kernel": KERNEL,
    "kernels": UOp.sink(Q.after(KERNEL.call(Q, P))),
    "linear": node(Ops.LINEAR, KERNEL.call(BUFFER, BUFFER.shrink(((0, 3),)).bitcast(dtypes.int32)), dtype=dtypes.void),
}  # fmt: skip


@pytest.mark.parametrize("stage", LEGAL)
def test_a_legal_graph_passes(stage):
    verify(LEGAL[stage], stage)


def test_there_is_a_case_for_every_stage():
    assert set(LEGAL) == set(ILLEGAL) == set(SPECS)
    assert {s.name for s in PIPELINE.stages} <= set(STAGE_SPECS) and set(STAGE_SPECS.values()) <= set(SPECS)


def test_the_first_illegal_node_is_the_one_that_is_named():
    with pytest.raises(SpecError, match="RANGE is not legal"):
        verify(UOp.sink(P.index(R) + 1.0), "tensor")


def test_an_illegal_node_is_named_with_the_line_that_made_it():
    wrong = mark(node(Ops.ADD, P, INTS))
    with pytest.raises(SpecError) as error:
        verify(UOp.sink(wrong + wrong), "tensor")
    assert "ADD of shape (6,), made at test_spec.py:" in str(error.value)
    assert "wrong = mark(node(Ops.ADD, P, INTS))" in str(error.value)


def test_kernels_inside_are_verified_too():
    bad = UOp.sink(Q.index(R).store(BUFFER.index(R)).end(R), arg=KernelInfo("E_6"))
    for stage, graph in (("kernels", UOp.sink(Q.after(bad.call(Q)))), ("linear", node(Ops.LINEAR, bad.call(Q)))):
        with pytest.raises(SpecError, match="BUFFER is not legal in the stage kernel"):
            verify(graph, stage)


def test_an_invalid_index_is_legal_where_indices_are():
    verify(UOp.sink(P.index(UOp.const(INVALID))), "rangeified")


# ** real graphs **


class Verifier:
    """Verifies each graph that a stage ends with."""

    def __init__(self):
        self.seen = set()

    def on_stage_end(self, name, root):
        self.seen.add(name)
        verify(root, STAGE_SPECS[name])

    def on_stage(self, *event): ...

    on_rewrite = on_replace = on_index = on_decision = on_event = on_stage


@examples(80)
@given(programs())
def test_random_graphs_are_legal_after_every_pass(program):
    graph, outputs = program.build()
    verifier = Verifier()
    for u, _ in outputs:
        verify(UOp.sink(u), "tensor")
    with watching(verifier), Context(SCACHE=0):
        Tensor.realize(*(Tensor.from_uop(u) for u, _ in outputs))
    assert graph.keep
    assert not verifier.seen or {"callify", "memory", *(s.name for s in PIPELINE.stages)} <= verifier.seen


def values(*shape):
    return Tensor(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def training_step():
    x, w = values(3, 4), values(4, 2)
    loss = (x @ w).relu().sum()
    (grad,) = loss.gradient(w)
    return [loss, w.assign(w - 0.5 * grad)]


def writes():
    x = values(4, 4)
    old = x + 1
    x[1:3] = x[0:2] * 2
    x.assign(x.permute(1, 0) + x)
    return [old, x]


def views():
    x = values(4, 6)
    y = x[1:3]
    y += 1
    return [x.contiguous(), y[0].contiguous() * 2]


REAL = {
    "softmax": lambda: [values(4, 5).softmax(-1)],
    "attention": lambda: [values(2, 4, 3).scaled_dot_product_attention(values(2, 4, 3), values(2, 4, 3))],
    "convolution": lambda: [values(1, 2, 6, 6).conv2d(values(3, 2, 3, 3)).relu().max_pool2d()],
    "layernorm": lambda: [values(3, 8).layernorm()],
    "gather": lambda: [values(5, 2)[Tensor([3, 0, 4])]],
    "cat and pad": lambda: [values(2, 3).cat(values(4, 3)).exp().pad(((1, 0), (0, 2)))],
    "arange": lambda: [Tensor.arange(20) * 2],
    "integers": lambda: [Tensor([1, 2, 3], dtype="int8").sum(), Tensor([True, False]).any()],
    "sort": lambda: [values(6).sort()[0]],
    "split": lambda: [Tensor.empty(65536).realize().sum()],
    "empty": lambda: [values(2, 0, 3).sum(1)],
    "dtypes": lambda: [values(4).half().cast("int32").bitcast("float32")],
    "training step": training_step, "writes": writes, "views": views,
}  # fmt: skip


@pytest.mark.parametrize("pcontig", [0, 1])
@pytest.mark.parametrize("name", REAL)
def test_real_graphs_are_legal_after_every_pass(name, pcontig):
    verifier = Verifier()
    with watching(verifier), Context(SCACHE=0, PCONTIG=pcontig):
        for t in REAL[name]():
            t.realize()
