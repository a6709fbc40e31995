"""The pages about the modules, a page for each package, in the order in which the code is to be read.

In: the files of the package. Out: reStructuredText for Sphinx's autodoc, by the name of the page. Packages stand in the
order of the layers; modules in that which their package's docstring names (``Read in this order: ...``).

>>> pages()["schedule"].splitlines()[0]
'tinysched.schedule'
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import tinysched

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tinysched"
LAYERS = ("errors", "dtypes", "settings", "ir", "tensor", "gradient", "nn", "schedule", "runtime", "engine", "trace")
"""From the lowest up; what is not named here stands above, by name."""
ALONE = "basics"
"""The page of the modules that are no package."""

_INDEX = """\
The modules, layer by layer
===========================

Each layer imports only from those above it in this list; within a page, modules stand in the order in which they are to
be read. ``[source]`` leads to the code.

.. toctree::
   :maxdepth: 1

"""
_PUBLIC = """\
# What you import

The names of `tinysched` itself. All else is reached through the module that it lives in.

| name | what it is |
|---|---|\
"""


def pages() -> dict[str, str]:
    """The text of each page."""
    texts = {ALONE: _page("The basics", [f for f in _ordered(PACKAGE.glob("*.py")) if not f.stem.startswith("_")])}
    for folder in _ordered(path.parent for path in PACKAGE.glob("*/__init__.py")):
        files = sorted(folder.rglob("*.py"), key=lambda f: _reading_order(folder, f))
        texts[folder.name] = _page(f"tinysched.{folder.name}", files)
    return texts | {"index": _INDEX + "".join(f"   {name}\n" for name in texts)}


def public() -> str:
    """The page of the names that ``import tinysched`` gives, each with its first line and where it is described."""
    rows = [f"| `{name}` | {_link(getattr(tinysched, name))} |" for name in sorted(tinysched.__all__, key=str.lower)]
    return "\n".join([_PUBLIC, *rows, ""])


def _link(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return f"{{py:mod}}`{thing.__name__}`: {_first_line(thing)}"
    home = thing if hasattr(thing, "__qualname__") else type(thing)
    where = f"{home.__module__}.{home.__qualname__}"
    kind = "class" if isinstance(home, type) else "func"
    here = f"{{py:{kind}}}`{where}`"
    if home.__module__ == "tinysched":  # described here
        here = f"`{where}`"
    elif home.__qualname__.startswith("_"):
        here = f"of {{py:mod}}`{home.__module__}`"
    return f"{here}: {_first_line(home)}"


def _first_line(thing: Any) -> str:
    """The first sentence of a docstring, with Sphinx's marks for names as plain code."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`").replace("|", "\\|")


def _ordered(paths: Iterable[Path]) -> list[Path]:
    """Files or folders in the order of the layers."""
    rank = {name: i for i, name in enumerate(LAYERS)}
    return sorted(paths, key=lambda path: (rank.get(path.stem, len(rank)), path.stem))


def _reading_order(folder: Path, file: Path) -> tuple[int, str]:
    """Where a module stands in what the package's docstring says, else after all that are named."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    told = re.search(r"Read in this order: (.*?)(?:\n\n|\Z)", text, re.DOTALL)
    words = re.findall(r"[a-z_]+", told[1]) if told else []
    part = file.relative_to(folder).parts[0].removesuffix(".py")
    place = -1 if part == "__init__" else words.index(part) if part in words else len(words)
    return place, "" if file.stem == "__init__" else str(file)


def _page(title: str, files: list[Path]) -> str:
    parts = [f"{title}\n{'=' * len(title)}\n"]
    for file in files:
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name != title:
            parts.append(f"{name}\n{'-' * len(name)}\n")
        bases = "   :show-inheritance:\n" if name == "tinysched.errors" else ""
        parts.append(f".. automodule:: {name}\n   :members:\n{bases}")
    return "\n".join(parts)
