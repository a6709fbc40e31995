"""Runs a command for as long as the process that started this one lives and holds this one's stdin open.

A test run that is killed can't stop its Jupyter server any more, and the server would live on with its kernels. Its end
of a pipe closes with it, however it dies, and that is what is waited for here.
"""

import os
import signal
import subprocess
import sys
import threading


def end(process: "subprocess.Popen[bytes]") -> None:
    """Asks the command and its children to stop, and makes them."""
    if os.name == "nt":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True)
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=15)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def main() -> int:
    """The command runs in a session of its own: one signal reaches its children too, and Ctrl-C does not."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def wait_for_the_end() -> None:
        sys.stdin.read()
        end(process)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
