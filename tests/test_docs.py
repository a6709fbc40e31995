"""What the documentation says exists, exists: names of both columns of the map, files to read, links, rules, reasons."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def look_up(dotted: str) -> object:
    """The object of a dotted name: the longest part of it that is a module, then attributes."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


# ** the map to upstream **

ROWS = re.findall(
    r"^\| `(tinysched\.[\w.]+)` \| `(tinygrad\.[\w.]+)` \|", (DOCS / "upstream.md").read_text(), re.MULTILINE
)


@pytest.mark.peer
def test_every_name_of_the_map_is_there_on_both_sides() -> None:
    missing = []
    for name in (name for row in ROWS for name in row):
        try:
            look_up(name)
        except (AttributeError, ModuleNotFoundError):
            missing.append(name)
    assert not missing
    assert len(ROWS) > 50
    assert len({ours for ours, _ in ROWS}) == len(ROWS), "each of ours once"
