"""A real JupyterLab for tests: starts a server on a folder of its own, opens a notebook in it and runs its cells."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page

from tests.browser import keeper

PATIENCE = 120  # seconds; a busy machine needs tens of them to start a server, a browser page and a kernel
URLS = {"lab": "lab/tree", "notebook": "notebooks"}

# Idle shows before a kernel exists, and Run All is then lost without a word: so wait for the kernel's own answer.
# Awaiting the command itself can hang for good; so can the rest when no kernel comes, and evaluate() has no time limit.
RUN_ALL = """async patience => {
  const panel = window.jupyterapp.shell.currentWidget;
  const ready = async () => {
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
  };
  const late = new Promise((_, no) => setTimeout(() => no(new Error('no kernel answered')), patience * 1000));
  await Promise.race([ready(), late]);
  void window.jupyterapp.commands.execute('notebook:run-all-cells');
}"""

# Done when a cell failed (those after it never run), or when each has its number and the kernel rests.
FINISHED = """() => {
  const panel = window.jupyterapp.shell.currentWidget;
  const cells = panel.content.widgets.map(w => w.model).filter(m => m.type === 'code' && m.sharedModel.source.trim());
  const failed = cells.some(m => m.outputs.toJSON().some(o => o.output_type === 'error'));
  const numbered = cells.every(m => m.executionCount !== null);
  return failed || (numbered && panel.sessionContext.session.kernel.status === 'idle');
}"""

OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .map(w => w.model).filter(m => m.type === 'code').flatMap(m => m.outputs.toJSON())"""


@dataclass(frozen=True)
class Server:
    """A running Jupyter server and the folder it serves."""

    url: str
    token: str
    root: Path

    def place(self, source: Path | list[str]) -> str:
        """Puts a copy of a notebook (or of a list of cells) under the root, without outputs, and returns its name.

        Without outputs, since stored ones would be taken for what this run shows; with a kernel named, since
        JupyterLab asks for one otherwise and waits.
        """
        if isinstance(source, Path):
            book, stem = nbformat.read(source, as_version=4), source.stem
        else:
            book, stem = new_notebook(cells=[new_code_cell(cell) for cell in source]), "cells"
        for cell in book.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        name = f"{stem}-{secrets.token_hex(4)}.ipynb"
        nbformat.write(book, self.root / name)
        return name

    def address(self, name: str, app: str = "lab") -> str:
        """Where a browser opens the notebook, in JupyterLab ("lab") or in Notebook 7 ("notebook")."""
        reset = "&reset" if app == "lab" else ""
        return f"{self.url}/{URLS[app]}/{name}?token={self.token}{reset}"


@contextmanager
def serve(home: Path) -> Iterator[Server]:
    """Runs a Jupyter server whose every file lies under `home`, and ends it with its kernels."""
    root = home / "root"
    root.mkdir(parents=True)
    port = free_port()
    server = Server(f"http://127.0.0.1:{port}", secrets.token_hex(16), root)
    log = home / "server.log"
    command = [sys.executable, keeper.__file__, *_command(port, server)]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, env=_environment(home), stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
        )
    with process:  # leaving closes the keeper's stdin, on which it ends the server, and waits for it
        _wait_until_up(server, process, log)
        yield server


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Waits until somebody answers there, whatever it is."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"nobody answers at {url}")


def _command(port: int, server: Server) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"),
        *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={server.token}", f"--ServerApp.root_dir={server.root}"),
    ]


def _environment(home: Path) -> dict[str, str]:
    """The user's own settings and running servers neither reach the test nor are touched by it."""
    settings = home / "settings"
    news = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text(json.dumps({"fetchNews": "false"}))
    folders = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": settings,
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython",
    }
    return os.environ | {name: str(folder) for name, folder in folders.items()}


def _wait_until_up(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/api/status?token={server.token}", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-4000:]}")


def open_and_run(page: Page, server: Server, source: Path | list[str], *, app: str = "lab", run: bool = True) -> None:
    """Opens a notebook, runs all its cells and waits for the last; a cell that raises fails with its traceback."""
    page.goto(server.address(server.place(source), app), wait_until="domcontentloaded")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=PATIENCE * 1000)
    page.wait_for_function("() => !!window.jupyterapp?.shell?.currentWidget?.sessionContext", timeout=PATIENCE * 1000)
    if not run:
        return
    page.evaluate(RUN_ALL, PATIENCE)
    page.wait_for_function(FINISHED, timeout=PATIENCE * 1000)
    failed = [output for output in page.evaluate(OUTPUTS) if output["output_type"] == "error"]
    assert not failed, "\n".join(failed[0]["traceback"])
