"""The viewer's bundle is what its sources say, and fetches nothing."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tinysched import viewer
from tinysched.views.panels import PANELS

ROOT = Path(viewer.__file__).parent
TOOLS = Path(__file__).parent.parent / "scripts" / "viewer"


def stamp(ending: str) -> str:
    """What `build.mjs` writes into the first line of a bundle: a hash of the sources."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "src").glob(f"*{ending}"), key=lambda p: p.name):
        found.update(f"{path.name}\n".encode())
        found.update(path.read_text(encoding="utf-8").replace("\r\n", "\n").encode())
    return f"/* tinysched viewer, sources {found.hexdigest()} */"


@pytest.mark.parametrize(("bundle", "ending"), [(viewer.SCRIPT, ".js"), (viewer.STYLE, ".css")])
def test_the_bundle_is_in_step_with_its_sources(bundle: Path, ending: str) -> None:
    """Where Node and the bundler are installed, the bundle is made again and must be the same, byte for byte."""
    text = bundle.read_text(encoding="utf-8")
    assert text.splitlines()[0] == stamp(ending), "run `npm install && npm run build` in scripts/viewer"
    if (TOOLS / "node_modules" / "esbuild").exists() and shutil.which("node"):
        before = {path: path.read_bytes() for path in (viewer.SCRIPT, viewer.STYLE)}
        subprocess.run(["node", "build.mjs"], cwd=TOOLS, check=True)
        assert {path: path.read_bytes() for path in before} == before


def test_the_bundle_fetches_nothing_and_parses_no_markup() -> None:
    addresses = set(re.findall(r"https?://[^\"'` )]+", viewer.script() + viewer.style()))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    for path in (ROOT / "src").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
            "XMLHttpRequest",
        ):
            assert word not in text, f"{path.name}: {word}"


def test_the_bundle_is_one_module_that_can_stand_in_a_page() -> None:
    script = viewer.script()
    assert re.search(r"export\s*\{[^}]*\bas default\b[^}]*\}", script)
    assert not re.search(r"^\s*import\b", script, re.MULTILINE)
    assert "</script" not in script and "<!--" not in script
    assert len(script) < 150_000


def test_the_views_are_listed_alike_in_python_and_in_the_viewer() -> None:
    listed = re.findall(r'\{ id: "(\w+)"', (ROOT / "src" / "panels.js").read_text(encoding="utf-8"))
    assert listed == [panel.id for panel in PANELS]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node, for tests only")
def test_the_viewers_own_tests() -> None:
    done = subprocess.run(["node", "--test"], cwd=TOOLS, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
