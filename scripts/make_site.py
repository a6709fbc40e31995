"""Makes the site: documentation, the course with its explorers alive, and the reference, as files that need no server.

    python -m scripts.make_site [FOLDER]      into build/site, or FOLDER

In: docs, notebooks and the package. Out: a folder of HTML that opens from disk and asks for nothing outside. Everything is
copied to a folder beside it first, where the reference pages are made from the code and the notebooks are run, so that the
checkout stays as it is. A warning of Sphinx is an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from scripts import gallery
from scripts.reference import modules, passes, reasons
from scripts.run_notebooks import run_all

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("docs", "notebooks", "tinysched", "CHANGELOG.md")
INDEX = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">\n'


def copy_sources(source: Path) -> None:
    """What the site shows, in the layout of the checkout."""
    for name in COPIED:
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy(origin, source / name)


def write_reference(folder: Path) -> None:
    """The pages that are made from the code."""
    texts = {"public.md": modules.public(), "passes.md": passes.page(), "reasons.md": reasons.page()}
    texts |= {f"modules/{name}.rst": text for name, text in modules.pages().items()}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def build(target: Path) -> int:
    """Makes the site in ``target``, which is emptied first; returns Sphinx's exit status."""
    source = target.with_name(target.name + "-source")
    for folder in (source, target):
        shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()

    def step(what: str) -> None:
        print(f"make_site: {what} ({time.monotonic() - started:.0f} s so far)", flush=True)

    step("sources")
    copy_sources(source)
    extra = source / "extra"
    extra.mkdir()
    (extra / "index.html").write_text(INDEX, encoding="utf-8")
    step("reference")
    write_reference(source / "docs" / "reference")
    traces = gallery.page(extra / "docs" / "traces", "traces")
    (source / "docs" / "traces.md").write_text(traces, encoding="utf-8")
    step("notebooks")
    run_all(source / "notebooks", extra / "notebooks")
    step("pages")
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html"]
    status = subprocess.run([*sphinx, "-c", source / "docs", source, target]).returncode
    shutil.rmtree(target / ".doctrees", ignore_errors=True)
    step(f"done: {target / 'index.html'}" if not status else "failed")
    return status


def main(arguments: list[str]) -> int:
    return build(Path(arguments[0]).resolve() if arguments else ROOT / "build" / "site")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
