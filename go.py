#!/usr/bin/env python3
"""The commands a fresh checkout needs, with nothing installed but Python 3.11 or later and Git.

    python3 go.py lab     makes the environment and opens JupyterLab on the start notebook
    python3 go.py test    makes the environment and runs all tests
    python3 go.py lint    makes the environment and runs ruff and mypy
    python3 go.py site    makes the environment and the site of docs and course, in build/site

What follows the command goes on to the tool (`go.py test -k softmax`, `go.py lab --no-browser`). The environment is
`.venv` in the checkout, or the folder that TINYSCHED_VENV names; delete it to start afresh. Standard library only, and
no syntax newer than Python 3.6, so that an old Python gets a sentence instead of a SyntaxError.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("TINYSCHED_VENV", str(ROOT / ".venv"))).resolve()
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
OLDEST = (3, 11)


def fail(message: str) -> None:
    """Stops with a sentence on stderr: a traceback would bury it."""
    sys.exit(f"go.py: {message}")


def call(*command: object) -> int:
    """Runs a program in the checkout, the environment's programs first on PATH, and returns its exit status.

    Ctrl-C reaches the program as well; what to do then is its decision (JupyterLab asks), so it is waited for.
    """
    env = dict(os.environ, PATH=str(BIN) + os.pathsep + os.environ.get("PATH", ""), VIRTUAL_ENV=str(VENV))
    process = subprocess.Popen([str(part) for part in command], cwd=str(ROOT), env=env)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def make_venv() -> None:
    """Creates the environment, and says what to install where Python came without the means to."""
    print(f"go.py: making {VENV}", flush=True)
    if call(sys.executable, "-m", "venv", "--clear", VENV):
        fail("could not make an environment (above is why). On Debian and Ubuntu: apt-get install python3-venv")


def install(extra: str) -> None:
    """Installs the package, editable, with one extra; a stamp saves the next call from doing it again.

    The stamp holds what the result depends on, and is written last, so that an interrupted install is done over.
    """
    recipe = (ROOT / "pyproject.toml").read_bytes() + str(ROOT).encode()
    wanted = hashlib.sha256(recipe).hexdigest()
    stamp = VENV / f"installed-{extra}"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        make_venv()
    print(f"go.py: installing tinysched[{extra}] (a minute or two)", flush=True)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if call(*pip, "--editable", f"{ROOT}[{extra}]"):
        fail("pip could not install everything (above is why); run the same command again once that is mended")
    stamp.write_text(wanted)


def lab(args: "list[str]") -> int:
    """Opens JupyterLab on the start notebook.

    As the default address and not as a file to open, so that the address it prints for those without a browser at hand
    leads there too. Root (a container) has to be allowed explicitly; the server listens on this machine only.
    """
    install("jupyter")
    start = "--LabApp.default_url=/lab/tree/notebooks/00_start.ipynb"
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return call(PYTHON, "-m", "jupyter", "lab", start, *as_root, *args)


def test(args: "list[str]") -> int:
    """Runs all tests on all cores; the browser's stay on one worker, which starts one JupyterLab for them all."""
    install("test,cuda-test" if os.environ.get("TINYSCHED_REQUIRE_ALL") == "1" else "test")
    return call(PYTHON, "-m", "pytest", "--numprocesses=auto", "--dist=loadgroup", *args)


def lint(args: "list[str]") -> int:
    """Runs every check of the text, and not only up to the first that complains."""
    install("test")
    checks = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"])
    statuses = [call(PYTHON, "-m", *check, *args) for check in checks]
    return int(any(statuses))


def site(args: "list[str]") -> int:
    """Makes the site: a folder of pages that open from disk, or from any web server."""
    install("docs")
    return call(PYTHON, "-m", "scripts.make_site", *args)


def main() -> int:
    """Picks the command."""
    commands = {"lab": lab, "test": test, "lint": lint, "site": site}
    if sys.version_info < OLDEST:
        fail(f"needs Python {OLDEST[0]}.{OLDEST[1]} or later, and this is {sys.version_info[0]}.{sys.version_info[1]}")
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        fail(f"say which: {', '.join(commands)}\n\n{__doc__}")
    return commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
