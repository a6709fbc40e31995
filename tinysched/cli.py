"""The command line: explore a program's schedules, report them, or open the start notebook.

    tinysched explore FILE[:FUNC]   writes the explorer as one HTML file
    tinysched report FILE[:FUNC]    prints kernels, order and memory
    tinysched lab                   opens JupyterLab on the start notebook

FUNC takes no arguments and returns Tensors; without it every schedule that FILE realizes is recorded.

>>> split("model.py:step"), split("model.py")
((PosixPath('model.py'), 'step'), (PosixPath('model.py'), None))
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinysched.errors import ArgumentError, TinyschedError
from tinysched.trace import Trace, capture
from tinysched.views.text import summary

START = "00_start.ipynb"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status; errors of the library are one message on stderr."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.command(chosen))
    except TinyschedError as error:
        print(f"tinysched: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tinysched", description="See how a tensor compiler schedules a program.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    explore = commands.add_parser("explore", help="write the explorer as one HTML file")
    explore.add_argument("program", metavar="FILE[:FUNC]")
    explore.add_argument("-o", "--output", type=Path, help="the file to write (FILE.html beside you if not given)")
    explore.set_defaults(command=_explore)
    report = commands.add_parser("report", help="print kernels, order and memory")
    report.add_argument("program", metavar="FILE[:FUNC]")
    report.add_argument("--json", action="store_true", help="the whole trace as JSON")
    report.set_defaults(command=_report)
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

        def whole() -> None:
            runpy.run_path(str(path), run_name="__main__")

        return capture(whole, title=path.name)
    names = runpy.run_path(str(path), run_name=path.stem)
    if not callable(names.get(func)):
        functions = ", ".join(n for n, v in names.items() if callable(v) and not n.startswith("_")) or "none"
        raise ArgumentError(f"{path} has no function {func}", help=f"there are: {functions}")
    call: Any = names[func]
    return capture(call, title=f"{path.name}: {func}")


def _explore(chosen: argparse.Namespace) -> int:
    path, func = split(chosen.program)
    target = chosen.output or Path("-".join(filter(None, (path.stem, func))) + ".html")
    written = trace_of(chosen.program).to_html(target)
    print(f"{written} ({written.stat().st_size:,} bytes): open it in a browser, it needs nothing else")
    return 0


def _report(chosen: argparse.Namespace) -> int:
    trace = trace_of(chosen.program)
    print(trace.to_json() if chosen.json else summary(trace))
    return 0


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
