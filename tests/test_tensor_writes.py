"""Writing in place: index writes, operators, views that follow and expressions that do not, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tinysched import Tensor
from tinysched.errors import DTypeError, IndexingError, ShapeError

SHAPE = (4, 5, 6)
KEYS = [
    1, -1, slice(1, 3), (slice(None), 2), (slice(None, None, 2), slice(None, None, -1)),
    (Ellipsis, slice(None, None, -2)),
    (slice(None), slice(3, 0, -2), slice(1, 6, 3)), (1, 2, 3), (None, 1, Ellipsis, None), Ellipsis, (slice(2, 2),),
    ([0, 2],), (slice(None), [3, 3, 0]), ([0, 2], slice(None), [1, 5]), (1, [1, 2], slice(0, 4, 3)),
    (slice(1, 3), np.array([[0, 1], [2, 4]])), (slice(None, None, -2), [4, -1]), ([],), ([1, 1, 1],),
]  # fmt: skip


def base() -> np.ndarray:
    return np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


def made(a: np.ndarray, kind: str) -> Tensor:
    """The same values in memory, as an expression, seen through a view of other memory, or constant."""
    if kind == "memory":
        return Tensor(a).realize()
    if kind == "view":
        return Tensor(np.pad(a, ((1, 1), (0, 0), (0, 0))).swapaxes(0, 2).copy()).transpose(0, 2)[1:-1]
    return Tensor(a) + 0


def as_tensors(key: object) -> object:
    parts = key if isinstance(key, tuple) else (key,)
    found = tuple(Tensor(p) if isinstance(p, np.ndarray) else p for p in parts)
    return found if isinstance(key, tuple) else found[0]


@pytest.mark.parametrize("kind", ["memory", "expression", "view"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index_writes(key, kind):
    a = base()
    x = made(a, kind)
    value = -1 - np.arange(a[key].size, dtype=np.float32).reshape(a[key].shape)
    a[key] = value
    x[as_tensors(key)] = value
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_scalar_written_twice_and_read_between(key):
    a = base()
    x = made(a, "memory")
    for v in (7, 8):
        a[key] = v
        x[as_tensors(key)] = v
        np.testing.assert_array_equal((x * 2).numpy(), a * 2)


@pytest.mark.parametrize("key", [1, (slice(None), 2), (slice(None, None, -2), slice(1, 4)), ([0, 2],)], ids=str)
def test_in_place_operators_on_parts(key):
    a = base()
    x = made(a, "memory")
    a[key] += 10
    x[key] += 10
    a[key] *= 2
    x[key] *= 2
    a[key] /= 4
    x[key] /= 4
    np.testing.assert_array_equal(x.numpy(), a)


def test_in_place_operator_on_a_part_is_one_write():
    x = made(base(), "memory")
    before = x.uop
    x[1] += 1
    assert x.uop.base.src[0] is before.base


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_all_in_place_operators(dtype):
    a, b = np.array([7, 9, 12, 5], dtype), np.array([2, 3, 5, 1], dtype)
    x, y = Tensor(a), Tensor(b)
    view = x[1:]
    for op in ("+=", "*=", "-=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>="):
        scope = {"x": x, "y": y, "a": a, "b": b}
        exec(f"x {op} y; a {op} b", scope)
        assert scope["x"] is x
        np.testing.assert_array_equal(x.numpy(), a, err_msg=op)
    np.testing.assert_array_equal(view.numpy(), a[1:])
    z = Tensor([[1.0, 2.0], [3.0, 4.0]])
    z **= 2
    z @= Tensor([[0.0, 1.0], [1.0, 0.0]])
    assert z.tolist() == [[4.0, 1.0], [16.0, 9.0]]


def test_a_bool_tensor_chooses():
    a = base()
    x, mask = made(a, "memory"), a > 50
    a[mask] = -1
    x[Tensor(mask)] = -1
    np.testing.assert_array_equal(x.numpy(), a)
    rows = np.array([True, False, True, False])
    a[rows] = 5
    x[Tensor(rows)] = 5
    np.testing.assert_array_equal(x.numpy(), a)


def test_values_are_cast_as_numpy_casts():
    a = np.zeros(3, np.int32)
    x = Tensor(a)
    a[0], x[0] = 2.9, 2.9
    a[1:], x[1:] = np.array([True, False]), Tensor([True, False])
    np.testing.assert_array_equal(x.numpy(), a)


def test_views_follow_and_expressions_do_not():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(a)
    views = [x.T, x[1:], x[::-1, ::2], x.reshape(2, 6), x.detach(), x.flatten()[1:9:3], x.squeeze()]
    arrays = [a.T, a[1:], a[::-1, ::2], a.reshape(2, 6), a, a.reshape(-1)[1:9:3], a]
    sums, snapshots = x + 0, [x.repeat(1, 2), x.pad((1, 1)), x[[0, 2]], x.contiguous(), x.clone(), x.half()]
    kept, copies = (
        a.copy(),
        [np.tile(a, (1, 2)), np.pad(a, ((0, 0), (1, 1))), a[[0, 2]], a.copy(), a.copy(), a.astype(np.float16)],
    )
    for i, value in enumerate((100, 200)):
        x[i, 1:3] = value
        a[i, 1:3] = value
        for view, array in zip(views, arrays, strict=True):
            np.testing.assert_array_equal(view.numpy(), array)
    for snapshot, copy in zip([sums, *snapshots], [kept, *copies], strict=True):
        np.testing.assert_array_equal(snapshot.numpy(), copy)


def test_writing_through_views_of_views():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = Tensor(a).realize()
    x.transpose(0, 2)[1:3, ::-1][0].assign(Tensor(-np.arange(6, dtype=np.float32).reshape(3, 2)))
    a.swapaxes(0, 2)[1:3, ::-1][0][:] = -np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(x.numpy(), a)
    x.detach().reshape(-1)[5:7] = 9
    a.reshape(-1)[5:7] = 9
    np.testing.assert_array_equal(x.numpy(), a)


def test_swap_reads_both_before_writing():
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    left, right = x[:2] + 0, x[2:] + 0
    x[:2], x[2:] = right, left
    assert x.tolist() == [3.0, 4.0, 1.0, 2.0]


def test_a_shift_onto_itself():
    a = np.arange(8, dtype=np.float32)
    x = Tensor(a).realize()
    x[1:] = x[:-1]
    a[1:] = a[:-1].copy()
    assert x.tolist() == a.tolist()
    x.assign(x.flip(0))
    assert x.tolist() == a[::-1].tolist()


def test_a_broadcast_gets_memory_of_its_own():
    x = Tensor([[1.0], [2.0]])
    wide = x.expand(2, 3)
    wide[0] = 5
    assert wide.tolist() == [[5.0] * 3, [2.0] * 3]
    assert x.tolist() == [[1.0], [2.0]]


def test_constants_are_written_lazily():
    x = Tensor.zeros(2, 3)
    x[1, ::2] = 4
    x += 1
    assert x.tolist() == [[1.0, 1.0, 1.0], [5.0, 1.0, 5.0]]
    y = Tensor.empty(3)
    y[:] = 2
    assert y.tolist() == [2.0] * 3


def test_replace_takes_the_present_value():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    assert x.replace(y) is x
    y += 1
    assert (x.tolist(), y.tolist()) == ([3.0, 4.0], [4.0, 5.0])


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda x: x.__setitem__(0, Tensor([1.0, 2.0])), ShapeError),
        (lambda x: x.__setitem__(9, 1), IndexingError),
        (lambda x: x.__setitem__([0, 9], 1), IndexingError),
        (lambda x: x.__setitem__((0, 0, 0), 1), IndexingError),
        (lambda x: x.__setitem__(Tensor([True]), 1), IndexingError),
        (lambda x: x.__setitem__(0, "a"), DTypeError),
        (lambda x: x.assign(Tensor([1.0, 2.0])), ShapeError),
        (lambda x: x.assign(Tensor(np.zeros((3, 4), np.float64))), DTypeError),
        (lambda x: x.int().__iadd__(1.5), DTypeError),
        (lambda x: x.replace(Tensor([1.0])), ShapeError),
    ],
)
def test_a_wrong_write_changes_nothing(write, error):
    x = Tensor(np.ones((3, 4), np.float32)).realize()
    with pytest.raises(error):
        write(x)
    assert x.tolist() == np.ones((3, 4)).tolist()


def test_writing_bits():
    a = np.array([1.0, 2.0, -3.0], np.float32)
    x = Tensor(a)
    bits = x.bitcast("int32")
    bits[1:] += 1
    a.view(np.int32)[1:] += 1
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(bits.numpy(), a.view(np.int32))
    x[0] = 7
    a[0] = 7
    np.testing.assert_array_equal(bits.numpy(), a.view(np.int32))
