"""Runs the README's lab command without a browser of its own, and looks whether the start notebook is served.

For CI: the environment that `go.py lab` makes is not the one that the tests run in.
"""

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = "notebooks/00_start.ipynb"
PATIENCE = 600  # seconds, with everything to be installed first


def ask(url: str, tries: int = 60) -> int:
    """The status of the answer. The address is printed a moment before anybody listens there, so a refusal may pass."""
    for _ in range(tries):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"nobody listens at {url}")


def main() -> int:
    """Waits for the address that JupyterLab prints, and asks there for the notebook."""
    token = secrets.token_hex(16)
    command = [sys.executable, str(ROOT / "go.py"), "lab", "--no-browser", f"--IdentityProvider.token={token}"]
    lab = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    alarm = threading.Timer(PATIENCE, os.killpg, (lab.pid, signal.SIGKILL))
    alarm.start()
    try:
        assert lab.stdout is not None
        for line in lab.stdout:
            print(line, end="")
            if found := re.search(rf"(http://127\.0\.0\.1:\d+)/lab/tree/{NOTEBOOK}\?token=", line):
                status = ask(f"{found[1]}/api/contents/{NOTEBOOK}?content=0&token={token}")
                print(f"try_lab: {status} for {NOTEBOOK}")
                return 0
        print(f"try_lab: JupyterLab never said that it serves {NOTEBOOK}")
        return 1
    finally:
        alarm.cancel()
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait()


if __name__ == "__main__":
    sys.exit(main())
