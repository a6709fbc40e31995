"""The arrows of the design point one way, and `import tinysched` stays light.

A module may import from its own layer and from lower ones. Imports inside functions and under TYPE_CHECKING count: they
are arrows too. Only the package's own `__init__.py` stands above all layers, as the table of public names.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tinysched"
ROOT = "tinysched"

# From the lowest up. A new top-level module has to be given its place here.
LAYERS = (
    ("errors", "dtypes", "settings"),
    ("ir",),
    ("tensor", "gradient", "nn"),
    ("schedule",),
    ("runtime",),
    ("engine",),
    ("trace",),
    ("explain",),
    ("views", "viewer"),
    ("widgets", "lab", "cli", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
HEAVY = ("ipywidgets", "anywidget", "cupy", "numba")


def module_name(path: Path) -> str:
    """The dotted name that a file of the package is imported by."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(source: str, module: str, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of whatever a module imports, wherever in it; `from a import b` gives `a.b`."""
    home = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + 1] if node.level else []
            prefix = ".".join(base + ([node.module] if node.module else []))
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and (name := named_by_string(node)):
            yield node.lineno, name


def named_by_string(node: ast.Call) -> str | None:
    """What `import_module("name")` imports; a relative name counts from the package given second, here the root."""
    if ast.unparse(node.func).split(".")[-1] not in ("import_module", "__import__"):
        return None
    name = str(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else ""
    return ROOT + name if name.startswith(".") else name


def upward(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module imports from above its layer, as sentences."""
    own = module.split(".")[1]
    wrong = []
    for line, name in imports(source, module, is_package):
        parts = name.split(".")
        if parts[0] != ROOT or name == f"{ROOT}.__version__":  # a constant, there before anything is imported
            continue
        # A name that is no module comes out of the package's __init__, which may reach anywhere.
        target = parts[1] if len(parts) > 1 and parts[1] in RANK else None
        if target is None or RANK[target] > RANK[own]:
            wrong.append(f"{module}:{line} imports {name}, which lies above {own}")
    return wrong


def reach(start: str) -> set[str]:
    """The package's modules that come along, at whatever remove, when one is imported (its parent packages aside)."""
    seen, todo = set(), [start]
    while todo:
        module = todo.pop()
        if module in seen or module not in FILES:
            continue
        seen.add(module)
        for _, name in imports(FILES[module].read_text(), module, FILES[module].name == "__init__.py"):
            todo.append(name if name in FILES else name.rpartition(".")[0])
    return seen


def test_every_module_has_a_layer() -> None:
    tops = {module.split(".")[1] for module in FILES if module != ROOT}
    assert {"ir", "schedule"} <= tops
    assert not tops - RANK.keys(), "give it a place in LAYERS"


@pytest.mark.parametrize("module", [module for module in FILES if module != ROOT])
def test_imports_point_down(module: str) -> None:
    path = FILES[module]
    wrong = upward(path.read_text(), module, path.name == "__init__.py")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import tinysched.engine",
        "from tinysched.schedule import order",
        "from tinysched import schedule",
        "from tinysched import Tensor",
        "import tinysched",
        "from ..schedule.order import order",
        "from .. import trace",
        "def late():\n    from tinysched.tensor import Tensor",
        "if TYPE_CHECKING:\n    from tinysched.tensor import Tensor",
        "importlib.import_module('tinysched.engine')",
        "import_module('.engine', 'tinysched')",
    ],
)
def test_an_import_from_above_is_found(source: str) -> None:
    assert upward(source, "tinysched.ir.uop")


@pytest.mark.parametrize(
    "source",
    ["import numpy", "from tinysched.errors import TinyschedError", "from .ops import Ops", "from ..dtypes import f32"],
)
def test_an_import_from_below_is_not(source: str) -> None:
    assert not upward(source, "tinysched.ir.uop")


def test_a_package_imports_relative_to_itself() -> None:
    assert list(imports("from .uop import UOp", "tinysched.ir", is_package=True)) == [(1, "tinysched.ir.uop.UOp")]


def test_the_reference_loops_are_independent() -> None:
    """They judge the other runtimes: what those rest on must not come along, nor the schedule's own arithmetic."""
    loops = "tinysched.runtime.loops"
    nest = {"tinysched.runtime.nest", "tinysched.runtime.repeats"}
    allowed = {loops, "tinysched.runtime", "tinysched.runtime.device", *nest}
    assert loops in FILES
    assert {name for name in reach(loops) if name.startswith(("tinysched.runtime", "tinysched.schedule"))} <= allowed


LATER = (
    *HEAVY, "networkx", "graphviz", "hashlib", "pathlib", "inspect", "tinysched.runtime.linear", "tinysched.runtime.numpy",
    "tinysched.runtime.numba", "tinysched.runtime.loops", "tinysched.trace", "tinysched.explain", "tinysched.views",
    "tinysched.lab", "tinysched.widgets", "tinysched.nn", "tinysched.cli",
)  # fmt: skip
"""What neither an import of the package nor a plan needs."""

PROGRAMS = {
    "import": "",
    "plan": "tinysched.plan((tinysched.Tensor.empty(3, 4).realize() + 1).softmax())",
    "plan again": "for _ in range(2): tinysched.plan((tinysched.Tensor.empty(3, 4).realize() @ tinysched.Tensor.empty(4, 5)))",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_not_needed_is_not_loaded(program: str) -> None:
    """A script that only plans pays for no run time, and one that only computes neither for widgets nor for a GPU."""
    code = (
        f"import sys, numpy; there = set(sys.modules); import tinysched; {PROGRAMS[program]}\n"
        f"print(sorted(set({LATER}) & set(sys.modules) - there))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code.replace("; for", "\nfor")],
        capture_output=True, text=True, check=True, cwd=PACKAGE.parent,
    )  # fmt: skip
    assert answer.stdout.strip() == "[]"


def test_a_run_loads_the_run_time() -> None:
    """The names above are names of modules: each that is ours is found."""
    assert {name for name in LATER if name.startswith(ROOT)} <= FILES.keys()
