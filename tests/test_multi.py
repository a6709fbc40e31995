"""Sharded Tensors: how they lie, what is computed where, and what an operation moves between devices."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tests.sharded import AXES, Told, agree, calls, floats, moved, names, ramp, spread
from tinysched import GlobalCounters, Tensor, Variable, plan
from tinysched.errors import ArgumentError, DeviceError, ShapeError
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.pattern import Rule
from tinysched.ir.sharding import axis_of, parts_of
from tinysched.ir.uop import UOp
from tinysched.schedule.copies import pm_copies
from tinysched.schedule.multi import multi_pm

# ** how a sharded value lies **


def test_each_device_has_its_part_in_one_buffer() -> None:
    x = spread(ramp(4, 6), 2, 1)
    assert (x.device, x.uop.op, x.uop.arg, x.shape) == (names(2), Ops.UNSHARD, 1, (4, 6))
    assert [(p.device, p.shape, p.base.op) for p in parts_of(x.uop)] == [
        ("NUMPY", (4, 3), Ops.BUFFER),
        ("NUMPY:1", (4, 3), Ops.BUFFER),
    ]
    assert [memory.nbytes for memory in x.uop.realized] == [48, 48]
    assert "realized" in repr(x)


def test_a_replicated_value_is_whole_on_each_device() -> None:
    x = spread(ramp(3), 2, None)
    assert (x.uop.op, x.device, x.shape) == (Ops.MSTACK, names(2), (3,))
    assert [memory.size for memory in x.uop.realized] == [3, 3]
    assert x.tolist() == [0, 1, 2]


def test_sharding_is_lazy_and_copies_only_what_a_device_gets() -> None:
    x = Tensor(ramp(8, 6))
    rows, columns = x.shard(names(4), 0), x.shard(names(2), 1)
    assert rows.uop.realized is None
    assert (calls(rows), moved(rows)) == ((1, 3), 3 * 2 * 6 * 4)  # rows lie in one piece; the first stays where it is
    assert (calls(columns), moved(columns)) == ((2, 1), 8 * 3 * 4)  # columns are gathered first
    assert (calls(x.shard(names(3))), moved(x.shard(names(3)))) == ((1, 2), 2 * 8 * 6 * 4)


def test_what_cannot_be_sharded() -> None:
    with pytest.raises(ShapeError, match="axis 0 of shape \\(3,\\) does not divide into 2 equal shards"):
        Tensor(ramp(3)).shard(names(2), 0)
    with pytest.raises(DeviceError, match="no device 'TPU'"):
        Tensor(ramp(4)).shard(("NUMPY", "TPU"), 0)
    with pytest.raises(ArgumentError, match="shard over"):
        Tensor(ramp(4)).shard("NUMPY")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="axis 2"):
        Tensor(ramp(4)).shard(names(2), 2)


def test_one_device_is_no_sharding() -> None:
    x = Tensor(ramp(4)).shard(("NUMPY:1",), 0)
    assert x.device == "NUMPY:1" and x.tolist() == [0, 1, 2, 3]


def test_a_device_may_be_named_twice() -> None:
    x = Tensor(ramp(6)).shard(("NUMPY", "NUMPY"), 0).realize()
    assert x.sum().item() == 15 and (x + x).tolist() == [0, 2, 4, 6, 8, 10]
    y = Tensor(ramp(6)).shard(("NUMPY", "NUMPY:1", "NUMPY"), 0).realize()
    assert y.sum().item() == 15 and (y * 2).tolist() == [0, 2, 4, 6, 8, 10]


def test_shard_in_place_keeps_what_a_tensor_is() -> None:
    w = Tensor(ramp(4, 2), requires_grad=True)
    w.grad = Tensor(ramp(4, 2))
    assert w.shard_(names(2), 0) is w
    assert w.device == names(2) and w.requires_grad is True and w.grad is not None and w.grad.device == names(2)
    assert w.tolist() == ramp(4, 2).tolist()
    other = Tensor(ramp(4, 2)).shard_like(w)
    assert (
        axis_of(other.uop) == 0 and other.device == w.device and Tensor(ramp(2)).shard_like(other[0]).device == w.device
    )


@pytest.mark.parametrize("device", ["NUMPY", "NUMPY:1", "NUMPY:5"])
@pytest.mark.parametrize("axis", AXES)
def test_to_one_device_gathers(axis: int | None, device: str) -> None:
    x = spread(ramp(4, 6), 2, axis)
    y = x.to(device)
    here = axis is not None and device in x.device
    want = 4 * 6 * 4 // 2 if here else 0 if axis is None and device in x.device else 4 * 6 * 4
    assert (y.device, moved(y)) == (device, want)
    assert y.numpy().tolist() == ramp(4, 6).tolist()


def test_copies_land_where_they_belong() -> None:
    """Rows are copied straight into the result: nothing is left for a kernel to do."""
    assert calls(spread(ramp(8, 2), 4, 0).to("NUMPY:7")) == (0, 4)
    assert calls(spread(ramp(8, 2), 4, 0).to("NUMPY")) == (1, 3)
    assert calls(spread(ramp(8, 4), 4, 1).to("NUMPY:7")) == (1, 4)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(AXES, AXES)))
def test_sharding_anew_moves_what_a_device_lacks(old: int | None, new: int | None) -> None:
    x, size = spread(ramp(8, 4), 4, old), 8 * 4 * 4
    y = x.shard(names(4), new)
    want = 0 if old in (None, new) else size * 3 if new is None else size * 3 // 4
    assert moved(y) == want and axis_of(y.uop) == new
    assert y.numpy().tolist() == ramp(8, 4).tolist()


def test_to_the_devices_where_it_is_is_nothing() -> None:
    x = spread(ramp(4), 2, 0)
    assert x.to(names(2)).uop is x.uop and x.shard(names(2), 0).uop is x.uop
    y = Tensor(ramp(4)).to(("NUMPY:1", "NUMPY:2"))
    assert y.device == ("NUMPY:1", "NUMPY:2") and y.tolist() == [0, 1, 2, 3] and axis_of(y.uop) is None


# ** elementwise **


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(AXES, AXES)))
def test_elementwise_in_any_combination(a: int | None, b: int | None, n: int) -> None:
    agree(lambda x, y: [x + y, x * 2 - y, (x < y).where(x, y)], [floats(4, 8), floats(4, 8, seed=1)], n, (a, b))
    x, y = spread(ramp(4, 8), n, a), spread(ramp(4, 8), n, b)
    assert moved(x + y) == (4 * 8 * 4 * (n - 1) // n if {a, b} == {0, 1} else 0)
    assert calls(x + y)[0] == n


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((8,), 0), ((1, 8), 1), ((4, 1), 0), ((4, 1), None), ((1,), None), ((2, 4, 8), 1), ((2, 4, 8), 0)],
)
def test_broadcasts(shape: tuple[int, ...], axis: int | None) -> None:
    for own in AXES:
        agree(lambda x, y: [x + y, y * x], [floats(4, 8), floats(*shape, seed=1)], 2, (own, axis))


def test_the_larger_operand_stays() -> None:
    large, small = spread(ramp(8, 8), 2, 1), spread(ramp(8, 1), 2, 0)
    assert axis_of((large + small).uop) == 1 and moved(large + small) == 2 * 4 * 4
    left, right = spread(ramp(8, 8), 2, 0), spread(ramp(8, 8), 2, 1)
    assert axis_of((left + right).uop) == axis_of((right + left).uop) == 0


def test_constants_and_counted_values_are_everywhere() -> None:
    x = spread(ramp(8), 4, 0)
    y = x * 3 + Tensor.arange(8) + Tensor.ones(8)
    assert moved(y) == 0 and y.tolist() == [4 * i + 1 for i in range(8)]
    matrix = spread(ramp(4, 4), 2, 0)
    assert (matrix + Tensor.ones(4, 4).tril()).tolist() == (ramp(4, 4) + np.tril(np.ones((4, 4)))).tolist()
    mask = Tensor.ones(4, 4).tril().contiguous()  # stored, by each device for itself
    assert moved(matrix * mask + mask) == 0
    assert (matrix * mask).tolist() == np.tril(ramp(4, 4)).tolist()


def test_operands_on_different_devices_are_an_error() -> None:
    x, y = spread(ramp(4), 2, 0), Tensor(ramp(4)).realize()
    for bad in (lambda: x + y, lambda: y.to("NUMPY:1") * y, lambda: Tensor.stack(y, y.to("NUMPY:2"))):
        with pytest.raises(DeviceError, match="values on NUMPY") as error:
            bad().realize()
        assert "test_multi.py" in str(error.value) and ".to(device)" in str(error.value)
    with pytest.raises(DeviceError, match="write of values on NUMPY \\+ NUMPY:1 and on NUMPY"):
        spread(ramp(4), 2, 0).assign(y).realize()
    assert (x + y.shard(names(2))).tolist() == [0, 2, 4, 6]


# ** reductions **


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("axis", AXES)
def test_reductions_over_and_beside_the_sharded_axis(axis: int | None, n: int) -> None:
    def reduced(x: Tensor) -> list[Tensor]:
        over = [(fn, a) for fn in ("sum", "max", "prod", "mean", "var", "argmax", "logsumexp") for a in (None, 0, 1)]
        return [getattr(x, fn)(a) for fn, a in over if (fn, a) != ("logsumexp", None)]

    agree(reduced, [floats(4, 8)], n, (axis,))


def test_a_sum_over_the_sharded_axis_is_the_same_on_each_device() -> None:
    x = spread(floats(4, 8), 4, 0)
    total = x.sum(0).realize()
    assert total.uop.op is Ops.MSTACK
    values = [memory.copyout().tobytes() for memory in total.uop.realized]
    assert len(set(values)) == 1
    assert (x + 1).sum().item() == pytest.approx(float((floats(4, 8) + 1).sum()), rel=1e-5)  # 1 is not added per device


def test_a_sum_beside_the_sharded_axis_moves_nothing() -> None:
    x = spread(ramp(4, 8), 4, 0)
    assert (calls(x.sum(1)), moved(x.sum(1)), axis_of(x.sum(1).uop)) == ((4, 0), 0, 0)


def test_partial_sums_are_computed_once() -> None:
    with watching(Told()):  # a fresh schedule
        x = spread(ramp(8, 4), 2, 0)
        GlobalCounters.reset()
        x.sum().realize()
    assert GlobalCounters.global_ops == 8 * 4 + 2  # each element is added once, each device adds two partial sums


# ** movement **


def test_every_movement_op_on_a_sharded_axis() -> None:
    def shapes(x: Tensor) -> list[Tensor]:
        return [
            x.permute(1, 0), x.T.contiguous(), x.reshape(4, 2, 6), x.reshape(8, 3, 2), x.reshape(48), x.expand(3, 8, 6),
            x.flip(0), x.flip(1), x.flip((0, 1)), x.pad(((1, 3), (0, 0))), x.pad(((0, 0), (2, 1))), x.pad(((8, 8), (1, 1))),
            x[1:3], x[:, 2:5], x[3:], x[:1], x[2], x[:, 5], x[::2], x[:, ::-2], x.roll(1, 0), x.repeat(2, 3),
            x.cat(x + 1, dim=0), x.cat(x + 1, x[:, :3], dim=1), Tensor.stack(x, x + 1), x.unsqueeze(1).expand(8, 2, 6),
            x.repeat_interleave(2, 0), x.unflatten(0, (4, 2)), x.squeeze(), x.gather(0, Tensor([[7, 0]], device=x.device)),
        ]  # fmt: skip

    for n in (2, 4):
        agree(lambda x: [y + 1 for y in shapes(x)], [ramp(8, 6)], n, (0,))
        agree(lambda x: [y + 1 for y in shapes(x.T)], [ramp(6, 8)], n, (1,))
        agree(shapes, [ramp(8, 6)], n, (0,))


@pytest.mark.parametrize(
    ("move", "bytes_"),
    [
        (lambda x: x.flip(1) + 1, 0),
        (lambda x: x.permute(1, 0) + 1, 0),
        (lambda x: x.pad(((0, 0), (1, 2))) + 1, 0),
        (lambda x: x[:, 1:3] * 2, 0),
        (lambda x: x.reshape(2, 4, 4) + 1, 0),
        (lambda x: x.expand(3, 8, 4) + 1, 0),
        (lambda x: x.flip(0) + 1, 128),  # each device gets the other's rows
        (lambda x: x[0:4].sum(1), 8),  # reduced where the rows lie, then cut in two
        (lambda x: x[0:4] * 2, 32),  # both devices have a part of what is computed
        (lambda x: x[0:3] * 2, 48),  # three rows cannot be cut in two: one device computes, both get the result
        (lambda x: x[2:6] + x[2:6], 0),  # half of each shard stays where it is
        (lambda x: x[0:2] + x[4:6], 2 * 16),  # one row of each operand goes to the other device
    ],
)
def test_what_a_movement_op_moves(move: Callable[[Tensor], Tensor], bytes_: int) -> None:
    x = spread(ramp(8, 4), 2, 0)
    y = move(x)
    assert moved(y) == bytes_
    assert y.numpy().tolist() == move(Tensor(ramp(8, 4))).numpy().tolist()


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_shards_of_no_elements(axis: int | None, computed: bool) -> None:
    a = np.zeros((3, 6, 0), np.float32)
    x = Tensor(a).shard(names(3), axis)
    x = x * 2 if computed else x
    for widths in (((0, 0), (0, 0), (1, 2)), ((1, 1), (2, 2), (1, 2)), ((1, 0), (0, 0), (0, 1))):
        y = x.pad(widths, value=1)
        assert np.array_equal(y.numpy(), np.pad(a, widths, constant_values=1))
        beside = Tensor.ones(*y.shape).shard(names(3), None)
        assert np.array_equal((y + beside).numpy(), np.full(y.shape, 2))
    assert x.reshape(6, 0, 3).permute(1, 2, 0).flip(0).numpy().shape == (0, 3, 6)
    assert np.array_equal(x.sum(2).numpy(), np.zeros((3, 6))) and x.sum(1).numpy().shape == (3, 0)
    assert np.array_equal((x @ Tensor.ones(0, 4).shard(names(3), None)).numpy(), np.zeros((3, 6, 4)))
    assert x.cat(x, dim=1).realize().numpy().shape == (3, 12, 0)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_writes_and_picks_of_shards_that_touch_nothing_or_are_bools(axis: int | None) -> None:
    a = ramp(4, 2)
    x = spread(a, 2, axis)
    x[4:] += 1.0
    x[:, 2:2] = 7.0
    assert np.array_equal(x.numpy(), a)
    few = Tensor(np.array([[1, 0], [3, 1]], np.int32), device=names(2))
    for b in (a > 2, a.astype(np.int8), a.astype(np.float16)):  # what is picked is summed in a type of its own
        assert np.array_equal(spread(b, 2, axis).gather(0, few).numpy(), np.take_along_axis(b, few.numpy(), 0))
        assert np.array_equal(spread(b, 2, axis).gather(0, few[:, :1]).numpy(), b[[1, 3], :1])


def test_a_reshape_that_would_move_items_names_the_shard_and_the_line() -> None:
    x = spread(ramp(6, 4), 2, 1)
    for y in (x.reshape(24) + 1, (x.reshape(24) * 2).sum(), x.reshape(24).to("NUMPY")):
        with pytest.raises(ShapeError, match="would move items between the shards of axis 1") as error:
            y.realize()
        assert "test_multi.py" in str(error.value) and "x.reshape(24)" in str(error.value)
        assert ".shard(('NUMPY', 'NUMPY:1'), None)" in str(error.value)
    assert (x.shard(names(2), None).reshape(24) + 1).tolist() == list(range(1, 25))
    assert x.reshape(24).tolist() == list(range(24))  # read by the host, no device has to move anything


def test_heads_stay_on_their_devices_through_reshapes() -> None:
    x = spread(ramp(2, 3, 8), 4, 2)
    y = x.reshape(2, 3, 4, 2).transpose(1, 2) * 2
    assert (axis_of(y.uop), moved(y)) == (1, 0)
    back = y.transpose(1, 2).reshape(2, 3, 8)
    assert axis_of(back.uop) == 2 and back.tolist() == (ramp(2, 3, 8) * 2).tolist()


# ** the rules **


def test_every_rule_has_a_use() -> None:
    used: set[str] = set()

    class Used(Told):
        def on_rewrite(self, rule: Rule, before: UOp, after: UOp) -> None:
            used.add(rule.name)

    x, y = spread(ramp(4, 8), 2, 0), spread(ramp(8, 4), 2, 1)
    far = Tensor(ramp(4, 8)).realize()
    size = Variable("size", 1, 4).bind(2)
    programs: list[Callable[[], Tensor]] = [
        lambda: (x.sum(0).reshape(2, 4) + 1).to("NUMPY"),
        lambda: x.pad(((1, 1), (0, 0)))[1:5].flip(0).T.reshape(8, 2, 2).expand(3, 8, 2, 2) + 1,
        lambda: (x + y.T).shard(x.device, 1),
        lambda: x.to("NUMPY:2").shard(x.device) * far.to("NUMPY").shard(x.device, 1),
        lambda: (x * 1.5).square().sum().gradient(x)[0],
        lambda: (far + 1).to("NUMPY:1"),
        lambda: far[:size].to("NUMPY:1"),
        lambda: (far.shard(x.device, 0) * 2).sum().gradient(far)[0],
        lambda: x[:, 4:4].pad(((2, 2), (0, 1))) + 1,
    ]
    with watching(Used()):
        for program in programs:
            plan(program())
        x[1:3] = -1.0
        plan(x)
    assert {r.name for r in (*multi_pm, *pm_copies)} <= used
    assert all("->" in r.doc for r in (*multi_pm, *pm_copies))
