"""The command line: explore a program's schedules, report them, or open the start notebook.

    tinysched explore FILE[:FUNC]   writes the explorer as one HTML file
    tinysched report FILE[:FUNC]    prints kernels, traffic and why values are stored; fails a build that got worse
    tinysched explain FILE LINE     says why each value of a line was fused or stored
    tinysched lab                   opens JupyterLab on the start notebook

FUNC takes no arguments and returns Tensors; without it every schedule that FILE realizes is recorded.

>>> split("model.py:step"), split("model.py")
((PosixPath('model.py'), 'step'), (PosixPath('model.py'), None))
"""

from __future__ import annotations

import argparse
import builtins
import os
import runpy
import shutil
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinysched import __version__
from tinysched.errors import ArgumentError, TinyschedError
from tinysched.explain.report import report
from tinysched.trace import Trace, capture
from tinysched.views.text import summary

START = "00_start.ipynb"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status: 0, 1 for a report with problems, 2 for errors (a message on stderr)."""
    chosen = _parser().parse_args(arguments)
    try:
        status = int(chosen.command(chosen))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TinyschedError as error:
        print(f"tinysched: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tinysched", description="See how a tensor compiler schedules a program.")
    parser.add_argument("--version", action="version", version=f"tinysched {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    explore = commands.add_parser("explore", help="write the explorer as one HTML file")
    explore.add_argument("program", metavar="FILE[:FUNC]")
    explore.add_argument("-o", "--output", type=Path, help="the file to write (FILE.html beside you if not given)")
    explore.set_defaults(command=_explore)
    report = commands.add_parser("report", help="print kernels, traffic, and why values are stored")
    report.add_argument("program", metavar="FILE[:FUNC]")
    form = report.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    form.add_argument("--views", action="store_true", help="kernels, order and arena as text")
    report.add_argument("--max-kernels", type=int, metavar="N", help="fail if there are more")
    report.add_argument("--max-bytes", type=int, metavar="N", help="fail if more is moved")
    report.add_argument("--baseline", type=Path, metavar="OLD.json", help="fail if it got worse since (a --save file)")
    report.add_argument("--save", type=Path, metavar="NEW.json", help="write the trace, as a baseline for later")
    report.set_defaults(command=_report)
    explain = commands.add_parser("explain", help="say why the values of a line were fused or stored")
    explain.add_argument("program", metavar="FILE[:FUNC]")
    explain.add_argument("line", metavar="LINE", help="a line number, a name, `kernel 2` or `b3`")
    explain.add_argument("--flips", action="store_true", help="schedule again to see what would change each verdict")
    explain.set_defaults(command=_explain)
    lab = commands.add_parser("lab", help="open JupyterLab on the start notebook")
    lab.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="goes on to JupyterLab")
    lab.set_defaults(command=_lab)
    return parser


def split(program: str) -> tuple[Path, str | None]:
    """File and function of ``FILE[:FUNC]`` (a drive letter's colon is part of the file)."""
    file, colon, func = program.rpartition(":")
    if colon and func.isidentifier() and len(file) > 1:
        return Path(file), func
    return Path(program), None


def trace_of(program: str) -> Trace:
    """The schedules of a program. Raises :class:`ArgumentError` where there is no such file or function."""
    path, func = split(program)
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}", help="give the path of a Python file, FILE or FILE:FUNC")
    sys.path.insert(0, str(path.resolve().parent))
    if func is None:
        return _whole(path)
    with _told(path):
        names = runpy.run_path(str(path), run_name=path.stem)
    if not callable(names.get(func)):
        raise ArgumentError(
            f"{path} has no function {func}", help=f"there are: {', '.join(_functions(names, path)) or 'none'}"
        )
    call: Any = names[func]
    with _told(path):
        return capture(call, title=f"{path.name}: {func}")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What a program raises is told from its own lines on. (Errors of the library name the line themselves.)"""
    try:
        yield
    except TinyschedError:
        raise
    except SystemExit as end:
        raise ArgumentError(f"{path} ended with status {end.code}", help="see what it says by itself") from None
    except Exception as error:
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename != str(path):
            tb = tb.tb_next
        text = "".join(traceback.format_exception(type(error), error, tb)).rstrip()
        raise ArgumentError(
            f"{path} failed:\n{text}", help="FILE has to run by itself; FUNC takes no arguments and returns Tensors"
        ) from None


def _functions(names: dict[str, Any], path: Path) -> list[str]:
    """The functions that a file defines."""
    found = ((name, value) for name, value in names.items() if isinstance(value, types.FunctionType))
    return [name for name, f in found if f.__code__.co_filename == str(path) and not name.startswith("_")]


def _whole(path: Path) -> Trace:
    """The schedules of a file, which runs as `python FILE` would run it: as one function, so that its variables are seen."""
    main, before = types.ModuleType("__main__"), sys.modules["__main__"]
    main.__file__, main.__dict__["__builtins__"] = str(path), builtins
    sys.modules["__main__"] = main
    try:
        with _told(path):
            code = compile(path.read_bytes(), str(path), "exec")
            found = capture(_Script(types.FunctionType(code, vars(main))), title=path.name)
    finally:
        sys.modules["__main__"] = before
    if not found.schedules:
        functions = ", ".join(f"{path}:{name}" for name in _functions(vars(main), path)) or "none"
        raise ArgumentError(f"{path} computes nothing", help=f"name a function that returns Tensors: {functions}")
    return found


class _Script:
    """A file as a function, which may end with ``sys.exit(0)`` as scripts do."""

    def __init__(self, function: types.FunctionType):
        self.function, self.__code__ = function, function.__code__

    def __call__(self) -> None:
        try:
            self.function()
        except SystemExit as end:
            if end.code:
                raise


def _explore(chosen: argparse.Namespace) -> int:
    path, func = split(chosen.program)
    target = chosen.output or Path("-".join(filter(None, (path.stem, func))) + ".html")
    trace = trace_of(chosen.program)
    with _writing(target):
        written = trace.to_html(target)
    print(f"{written} ({written.stat().st_size:,} bytes): open it in a browser, it needs nothing else")
    return 0


def _report(chosen: argparse.Namespace) -> int:
    baseline = Trace.from_json(_read(chosen.baseline)) if chosen.baseline else None
    trace = trace_of(chosen.program)
    if chosen.save:
        with _writing(chosen.save):
            chosen.save.write_text(trace.to_json(), encoding="utf-8")
    found = report(trace, baseline=baseline, max_kernels=chosen.max_kernels, max_bytes=chosen.max_bytes)
    forms: dict[str, Callable[[], str]] = {
        "json": found.to_json,
        "markdown": found.to_markdown,
        "views": lambda: summary(trace),
    }
    print(next((form for name, form in forms.items() if getattr(chosen, name)), found.to_text)())
    for problem in found.problems:
        print(f"tinysched: {problem}", file=sys.stderr)
    return 1 if found.problems else 0


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be written: {error.strerror or error}", help="name a file in a folder that you may write to"
        ) from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} cannot be read: {error}", help="make one with --save") from None


def _explain(chosen: argparse.Namespace) -> int:
    trace = trace_of(chosen.program)
    path, _ = split(chosen.program)
    key = f"{path.name}:{chosen.line}" if chosen.line.isdecimal() else chosen.line
    known = [i for i in range(len(trace.schedules)) if _knows(trace, key, i)]
    if not known:
        trace.decisions.why(key)  # says what there is
    print("\n\n".join(str(trace.decisions.why(key, schedule=i, flips=chosen.flips)) for i in known))
    return 0


def _knows(trace: Trace, key: str, schedule: int) -> bool:
    try:
        trace.decisions.why(key, schedule=schedule)
    except ArgumentError:
        return False
    return True


def _lab(chosen: argparse.Namespace) -> int:
    if (
        shutil.which("jupyter", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
        is None
    ):
        raise ArgumentError("JupyterLab is not installed", help='`pip install "tinysched[jupyter]"`')
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command = [sys.executable, "-m", "jupyter", "lab", *as_root, *chosen.rest, str(start_notebook())]
    return subprocess.run(command).returncode


def start_notebook() -> Path:
    """The start notebook: the checkout's own, or a copy in the current folder. Raises :class:`ArgumentError` without one."""
    here = Path(__file__).resolve().parent
    for folder in (here.parent / "notebooks", here / "notebooks", Path.cwd() / "notebooks", Path.cwd()):
        if (folder / START).is_file():
            return folder / START
    raise ArgumentError(f"{START} was not found", help="run this in a checkout of tinysched, or beside the notebook")
