"""What the documentation says exists, exists: names of both columns of the map, files to read, links, rules, reasons."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from scripts.reference import modules, passes, reasons
from scripts.reference.examples import EXAMPLES, WITHOUT
from scripts.reference.stages import STAGES, told_of_all
from tinysched.ir.decision import Reason
from tinysched.ir.observe import watching
from tinysched.ir.pattern import PatternMatcher
from tinysched.schedule.pipeline import PIPELINE

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


# ** the pages made from the code **


def tables() -> set[tuple[str, str]]:
    """Module and function of every rule of every table of the scheduler, found by looking through all modules."""
    found = set()
    for path in sorted((ROOT / "tinysched").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not name.startswith(("tinysched.ir.symbolic", "tinysched.schedule")):
            continue
        for thing in vars(importlib.import_module(name.removesuffix(".__init__"))).values():
            if isinstance(thing, PatternMatcher):
                found |= {(rule.fn.__module__, rule.fn.__name__) for rule in thing}
    return found


def test_every_rule_of_every_table_is_described_once() -> None:
    text = passes.page()
    described = re.findall(r"\{py:function\} (\w+)\(.*\)\n:module: ([\w.]+)\n\n`(.+)`", text)
    assert len(described) == len({name for name, _, _ in described})
    assert tables() <= {(module, name) for name, module, _ in described}
    assert all("->" in doc for _, module, doc in described if module.startswith("tinysched.schedule"))


def test_passes_stand_in_the_order_of_the_pipeline() -> None:
    names = re.findall(r"^## \d+ (.+)$", passes.page(), re.MULTILINE)
    assert [name for name in names if name not in ("callify", "resolve", "memory")] == [s.name for s in PIPELINE.stages]
    assert names[0] == "callify" and names[-1] == "memory"


class Watcher:
    """Notes which rules fire and which reasons are given, by the stage."""

    def __init__(self) -> None:
        self.stage, self.rules, self.reasons = "", set[tuple[str, str]](), set[tuple[str, Reason]]()

    def on_stage(self, name: str, doc: str, root: object) -> None:
        self.stage = name.split(": ")[-1]

    def on_rewrite(self, rule: object, before: object, after: object) -> None:
        self.rules.add((self.stage, rule.name))  # type: ignore[attr-defined]

    def on_decision(self, decision: object) -> None:
        if decision.stage == self.stage:  # type: ignore[attr-defined]
            self.reasons.add((self.stage, decision.reason))  # type: ignore[attr-defined]

    def on_stage_end(self, *event: object) -> None: ...
    def on_replace(self, *event: object) -> None: ...
    def on_index(self, *event: object) -> None: ...
    def on_event(self, *event: object) -> None: ...


def test_what_a_pass_is_seen_to_do_is_what_its_section_says() -> None:
    """The sections are found by following names; here the programs of the reasons are watched while they are planned."""
    from tinysched import Tensor, clear_caches, nn, plan

    clear_caches()
    with watching(watcher := Watcher()):  # type: ignore[arg-type]
        x, w = Tensor.rand(6, 4).realize(), Tensor.rand(4, 5).realize()
        plan((x @ w).softmax(), Tensor.arange(7).sum() + x.pad(((1, 1), (0, 2))).flip(0).sum())
        plan(nn.LayerNorm(4)(x), x[Tensor([1, 3, 2])], x.cumsum(0))
        plan((x.shard(("NUMPY", "NUMPY:1"), 0) @ w.shard(("NUMPY", "NUMPY:1"))).sum())
    assert len(watcher.rules) > 15
    for stage in STAGES:
        assert {rule for name, rule in watcher.rules if name == stage.name} <= {rule.name for rule in stage.made.rules}
        assert {reason for name, reason in watcher.reasons if name == stage.name} <= set(stage.reasons)


def test_every_reason_has_a_program_that_shows_it_and_a_sentence() -> None:
    assert EXAMPLES.keys() | WITHOUT.keys() == set(Reason)
    assert not EXAMPLES.keys() & WITHOUT.keys()
    for reason, told in told_of_all().items():
        assert told.said.endswith(f"({reason.name})."), told.said
        assert told.turned
    text = reasons.page()
    for reason in Reason:
        assert text.count(f"\n### {reason.name}\n") == 1, reason


def test_links_between_the_pages_lead_somewhere() -> None:
    """Anchors of reasons that the page of passes names are on the page of reasons."""
    anchors = set(re.findall(r"^\((reason-[a-z0-9-]+)\)=$", reasons.page(), re.MULTILINE))
    assert set(re.findall(r"\(#(reason-[a-z0-9-]+)\)", passes.page())) <= anchors


def test_every_module_has_its_place() -> None:
    text = "".join(modules.pages().values())
    named = re.findall(r"automodule:: ([\w.]+)", text)
    files = (path for path in (ROOT / "tinysched").rglob("*.py") if path.name != "__main__.py")
    expected = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in files}
    assert len(named) == len(set(named))
    assert set(named) == expected - {"tinysched"}


# ** pages written by hand **


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """Links, and names of files in code marks."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+\.\w+)(?:#[\w-]+)?\)", text)
    made = ("reference/", "traces.md")  # by scripts/make_site.py
    missing = [link for link in links if not link.startswith(made) and not (page.parent / link).exists()]
    assert not missing


def test_the_reading_order_names_each_file_once_and_the_heart_of_every_layer() -> None:
    files = re.findall(r"\]\(\.\./(tinysched/[\w/]+\.py)\)", (DOCS / "reading.md").read_text(encoding="utf-8"))
    assert len(files) == len(set(files)) > 30
    assert {file.split("/")[1] for file in files} >= {
        "ir",
        "tensor",
        "schedule",
        "runtime",
        "engine",
        "trace",
        "explain",
    }


def test_the_glossary_is_in_both_languages() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    blocks = re.findall(r"\{glossary\}\n(.*?)```", text, re.DOTALL)
    entries = [entry.splitlines() for block in blocks for entry in block.strip().split("\n\n")]
    assert len(entries) > 60
    chinese = re.compile(r"[\u4e00-\u9fff]")
    for term, zh, meaning, meaning_zh in entries:
        assert not chinese.search(term) and not chinese.search(meaning), term
        assert chinese.search(zh) and chinese.search(meaning_zh), term
    assert len({entry[0] for entry in entries}) == len(entries)


@pytest.mark.parametrize("page", [DOCS / "index.md", ROOT / "README.md"], ids=["index", "README"])
def test_the_first_program_that_a_newcomer_tries_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    program = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    exec(program, {"__name__": "newcomer"})
    assert (tmp_path / "attention.html").stat().st_size > 50_000


def test_the_page_for_teachers_has_every_notebook() -> None:
    text = (DOCS / "teacher.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)`", text, re.MULTILINE)
    stems = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert len(told) == len(stems)
    assert all(stem.startswith(name) for stem, name in zip(stems, told))


# ** examples **


@pytest.mark.parametrize("page", [p for p in PAGES if ">>> " in p.read_text()], ids=lambda p: p.name)
def test_examples_on_a_page_run(page: Path) -> None:
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert found.attempted and not found.failed
