"""What DEBUG prints: a line per schedule at 1, a line per kernel and function at 2."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tinysched import Context, Tensor, clear_caches, function

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def x() -> Tensor:
    clear_caches()
    return Tensor(A).realize()


def run(x: Tensor) -> None:
    (x + 1).contiguous().square().contiguous().exp2().contiguous().sum().realize()


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_nothing_without_it(x, capsys):
    run(x)
    assert lines(capsys) == []


def test_a_line_per_schedule(x, capsys):
    with Context(DEBUG=1):
        run(x)
        run(x)
    memory, miss, hit = lines(capsys)
    assert re.fullmatch(r"memory reduced from \d+\.\d\d KB -> \d+\.\d\d KB, 3 -> 1 bufs", memory)
    form = (
        r"scheduled +(\d+) kernels in +\d+\.\d\d ms \| +(cache hit|CACHE MISS) ([0-9a-f]{8}) \| +\d+ uops alive \| (.+)"
    )
    first, second = (re.fullmatch(form, line) for line in (miss, hit))
    assert first and second
    assert (first[1], first[2]) == ("4", "CACHE MISS") and (second[1], second[2]) == ("4", "cache hit")
    assert first[3] == second[3]
    assert first[4] == second[4] == f"{__file__}:{run.__code__.co_firstlineno + 1}"


def test_a_schedule_of_one_kernel_is_not_worth_a_line(x, capsys):
    with Context(DEBUG=1):
        (x + 1).realize()
    assert lines(capsys) == []
    with Context(DEBUG=3):
        (x + 1).realize()
    assert lines(capsys)[0].startswith("scheduled     1 kernels")


def test_a_line_per_kernel(x, capsys):
    with Context(DEBUG=2):
        run(x)
    _, _, *kernels = lines(capsys)
    form = r" +(\d+) NUMPY +(\w+) +[\d,.]+ us +([\d,]+) B +[\d.]+ GB/s +([\d,]+) ops"
    found = [re.fullmatch(form, line) for line in kernels]
    assert [m and (m[1], m[2]) for m in found] == [("0", "E_3_4"), ("1", "E_3_4"), ("2", "E_3_4"), ("3", "r_3_4")]
    assert found[0] and (found[0][3], found[0][4]) == ("96", "12")  # 12 floats read and written, 12 sums


def test_functions_have_lines(x, capsys):
    f = function(lambda x: (x * x.sum(1, keepdim=True)).exp().contiguous(), precompile=True)
    with Context(DEBUG=2):
        f(f(x)).realize()
    called, again, body, *_ = lines(capsys)
    assert (
        re.fullmatch(r"function .*<lambda> in +\d+\.\d\d ms", called)
        and called.split(" in ")[0] == again.split(" in ")[0]
    )
    assert re.fullmatch(r"scheduled +2 kernels in +\d+\.\d\d ms \| body of .*<lambda>", body)


def test_without_the_cache_every_schedule_is_a_miss(x, capsys):
    with Context(DEBUG=1, SCACHE=0):
        run(x)
        run(x)
    assert sum("CACHE MISS" in line for line in lines(capsys)) == 2
