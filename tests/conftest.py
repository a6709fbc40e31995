"""What the tests need besides Python packages, and how a run says what it had to leave out.

A test marked `browser`, `dot` or `gpu` is skipped where that tool is missing, and the last lines of the run say so,
with the way to get it. With TINYSCHED_REQUIRE_ALL=1 (CI) nothing but what needs a GPU may be left out: any other skip
fails.
"""

import functools
import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass

import hypothesis
import pytest

from tests.browser.chromium import find_chromium
from tests.cuda import nvrtc
from tests.cuda.shim import COMPILER

REQUIRE_ALL = os.environ.get("TINYSCHED_REQUIRE_ALL") == "1"

# Shared machines make single examples slow; a failing one prints the line that replays it. CI repeats itself exactly.
hypothesis.settings.register_profile("tinysched", deadline=None, print_blob=True, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("tinysched")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts of tests/test_golden.py anew")


def has_gpu() -> bool:
    """CuPy imports without a GPU, and then raises from its first call: both count as no."""
    try:
        import cupy  # takes five seconds, so only for tests that ask

        return bool(cupy.is_available())
    except Exception:
        return False


@dataclass(frozen=True)
class Need:
    """Something outside of Python that tests with the marker of this name need."""

    what: str
    get: str
    found: Callable[[], bool]


NEEDS = {
    "browser": Need(
        "Chromium",
        "`apt-get install chromium`, or `.venv/bin/python -m playwright install chromium`",
        lambda: find_chromium() is not None,
    ),
    "dot": Need(
        "Graphviz's dot",
        "`apt-get install graphviz`, `brew install graphviz`, `winget install graphviz`",
        lambda: shutil.which("dot") is not None,
    ),
    "compiler": Need(
        "C++ compiler",
        "`apt-get install g++`, or the command line tools of Xcode",
        lambda: COMPILER is not None,
    ),
    "nvrtc": Need("NVRTC", '`.venv/bin/pip install -e ".[cuda-test]"`', lambda: nvrtc.library() is not None),
    "cupy": Need(
        "CuPy", '`.venv/bin/pip install -e ".[cuda-test]"`', lambda: importlib.util.find_spec("cupy") is not None
    ),
    "gpu": Need("CUDA GPU with CuPy", '`.venv/bin/pip install -e ".[cuda12]"` on a machine with a GPU', has_gpu),
}


@functools.cache
def missing(marker: str) -> str | None:
    """Why tests with this marker can't run here, or None."""
    need = NEEDS[marker]
    return None if need.found() else f"no {need.what}; to get it: {need.get}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips before any fixture starts a server or a browser."""
    for marker in NEEDS:
        if item.get_closest_marker(marker) and (why := missing(marker)):
            pytest.skip(why)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where all is required, a skip for whatever reason is a failure, unless it is for want of a GPU."""
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail") and not item.get_closest_marker("gpu"):
        report.outcome = "failed"
        report.longrepr = f"left out, and TINYSCHED_REQUIRE_ALL=1 allows no skip: {skip_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file that skips itself, as by `importorskip`."""
    report = yield
    if REQUIRE_ALL and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"left out, and TINYSCHED_REQUIRE_ALL=1 allows no skip: {skip_reason(report)}"
    return report


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The text given to skip(); pytest keeps it as (file, line, "Skipped: text")."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason that left tests out, so that a green run says what it did not look at."""
    left_out = Counter(skip_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if left_out:
        terminalreporter.section("left out")
    for reason, count in left_out.most_common():
        terminalreporter.line(f"{count} test{'s' * (count > 1)} left out: {reason}")
