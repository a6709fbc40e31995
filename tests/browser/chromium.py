"""Finds a Chromium and starts it so that it sees this machine and nothing else."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every test run asks whether there is a browser; few go on to use Playwright
    from playwright.sync_api import Browser, Page, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
ELSEWHERE = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
FLAGS = (
    "--no-sandbox",  # root and most containers have no user namespaces; only our own pages are opened
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
ASK_PLAYWRIGHT = """
from playwright.sync_api import sync_playwright
with sync_playwright() as p: print(p.chromium.executable_path)
"""


@functools.cache
def find_chromium() -> str | None:
    """The browser that TINYSCHED_CHROMIUM names, one that is installed, or the one Playwright downloaded."""
    candidates = [os.environ.get("TINYSCHED_CHROMIUM"), *map(shutil.which, NAMES), *ELSEWHERE]
    found = next((path for path in candidates if path and Path(path).exists()), None)
    if found:
        return found
    # Asked in another process, since Playwright's sync API can't be entered twice in one thread.
    asked = subprocess.run([sys.executable, "-c", ASK_PLAYWRIGHT], capture_output=True, text=True)
    path = asked.stdout.strip()
    return path if path and Path(path).exists() else None


def launch(playwright: Playwright) -> Browser:
    """Starts Chromium without a window, deaf to the outside."""
    return playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))


class Watch:
    """Notes what a page says on its console and whatever it asks of a place that is not its own."""

    def __init__(self, page: Page, own: str) -> None:
        """`own` is the start of the only addresses that the page may ask for, besides data: and blob:."""
        self.page, self.own = page, own
        self.outside: list[str] = []
        self.errors: list[str] = []
        self.console: list[str] = []
        page.on("request", lambda request: self._asked(request.url))
        page.on("websocket", lambda socket: self._asked(socket.url.replace("ws", "http", 1)))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.own, "data:", "blob:", "about:")):
            self.outside.append(url)
