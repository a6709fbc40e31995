"""Makes the site: documentation, the course with explorers that step, and the reference, as files that need no server.

    python -m scripts.make_site [FOLDER]      into build/site, or FOLDER

In: docs, notebooks and the package. Out: a folder of HTML that opens from disk and asks for nothing outside. Everything is
copied to a folder beside it first, where the reference pages are made from the code, so that the checkout stays as it is.
Notebooks are shown with the outputs they are stored with; among these are explorers that step without a kernel. A warning of
Sphinx is an error.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scripts import gallery
from scripts.reference import modules, passes, reasons

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


WIDGET = "application/vnd.jupyter.widget-view+json"


def for_reading(path: Path) -> None:
    """A notebook as it is shown where there is no kernel.

    Without the widgets, which the pages stored beside them stand for. A refusal to go on before there is a guess is a
    sentence, and is shown as one: it has no traceback to highlight.
    """
    book = json.loads(path.read_text(encoding="utf-8"))
    for cell in book["cells"]:
        outputs = [output for output in cell.get("outputs", []) if WIDGET not in output.get("data", {})]
        for output in outputs:
            if output["output_type"] == "error" and output["ename"] == "NotYet":
                text = "\n".join(output.pop("traceback")) + "\n"
                del output["ename"], output["evalue"]
                output.update(output_type="stream", name="stdout", text=text)
        if "outputs" in cell:
            cell["outputs"] = outputs
    path.write_text(json.dumps(book), encoding="utf-8")


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
    for path in (source / "notebooks").rglob("*.ipynb"):
        for_reading(path)
    step("pages, the longest part: some two minutes")
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html"]
    status = subprocess.run([*sphinx, "-c", source / "docs", source, target]).returncode
    shutil.rmtree(target / ".doctrees", ignore_errors=True)
    step(f"done: {target / 'index.html'}" if not status else "failed")
    return status


def main(arguments: list[str]) -> int:
    return build(Path(arguments[0]).resolve() if arguments else ROOT / "build" / "site")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
