"""The viewer as a page opened from disk: it steps, links, searches, scales, and takes labels as data."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, Page, expect

from tinysched import Tensor, capture
from tinysched.trace import Trace
from tinysched.trace.document import Buffer, Kernel, Line, Node, Rewrite, Rule, Schedule, Stage

Open = Callable[..., Page]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def attention() -> Trace:
    q, k, v = (Tensor.rand(1, 2, 6, 4).realize() for _ in range(3))
    scores = q @ k.transpose(-2, -1)
    return capture(scores.softmax(-1) @ v, title="attention", run=True, values=True)


@pytest.fixture(scope="module")
def softmax() -> Trace:
    x = Tensor.rand(4, 5).realize()
    return capture(x.softmax(-1), title="softmax")


def show(open_page: Open, trace: Trace, folder: Path, **context: object) -> Page:
    page = open_page(trace.to_html(folder / "page.html"), **context)
    expect(page.locator(".ts-bar")).to_be_visible()
    return page


def shown(page: Page) -> Locator:
    """The nodes that are there (ghosts of removed ones aside)."""
    return page.locator(".ts-canvas .ts-node:not(.ts-ghost)")


def test_it_steps_through_every_pass(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    """To the end by the right arrow alone; at the start of each pass the nodes are those that Python says."""
    page = show(open_page, attention, tmp_path)
    s = attention.schedules[0]
    for stage in s.stages:
        expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text(stage.name)
        assert shown(page).count() == len(attention.to_networkx(stage.name))
        n = page.evaluate("document.querySelector('.ts-where').textContent")
        steps = int(n.split("/")[1]) if "/" in n else 0
        assert steps >= len(stage.steps)
        page.keyboard.press("ArrowDown") if steps > 30 else [
            page.keyboard.press("ArrowRight") for _ in range(steps + 1)
        ]
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("memory")


def test_a_step_moves_nothing_and_marks_what_it_did(open_page: Open, softmax: Trace, tmp_path: Path) -> None:
    page = show(open_page, softmax, tmp_path)
    page.evaluate("location.hash = '#pass=simplify&step=0'")
    places = (
        "[...document.querySelectorAll('.ts-canvas .ts-node')].map(n => [n.dataset.slot, n.getAttribute('transform')])"
    )
    before = dict(page.evaluate(places))
    s = softmax.schedules[0]
    steps = s.stage("simplify").steps
    removes = next(i for i, step in enumerate(steps) if isinstance(step, Rewrite) and s.nodes[step.after].op != "CONST")
    for _ in range(removes + 1):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".ts-where")).to_have_text(f"step {removes + 1}/{len(steps)}")
    after = dict(page.evaluate(places))
    assert {slot: after[slot] for slot in before} == before
    assert page.locator(".ts-canvas .ts-node.ts-added").count() > 0
    assert page.locator(".ts-canvas .ts-ghost.ts-removed").count() > 0
    glyphs = {g for g in page.locator(".ts-canvas .ts-glyph").all_text_contents() if g}
    assert {"+", "−"} <= glyphs, "a sign besides the colour"
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".ts-where")).to_have_text(f"step {removes}/{len(steps)}")


def test_buttons_do_what_keys_do(open_page: Open, softmax: Trace, tmp_path: Path) -> None:
    page = show(open_page, softmax, tmp_path)
    page.locator(".ts-passnext").click()
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("callify")
    page.locator(".ts-next").click()
    expect(page.locator(".ts-where")).to_contain_text("step 1/")
    page.locator(".ts-back").click()
    page.locator(".ts-passback").click()
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("tensor graph")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("a step back")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_sentence_is_told_and_the_step_list_follows(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    sentence = page.locator(".ts-sentence[aria-live]")
    expect(sentence).to_contain_text("What was asked for")
    page.get_by_role("button", name="rangeify").click()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    current = page.locator(".ts-row.ts-current")
    expect(current).to_contain_text("12")
    assert current.get_attribute("title") == sentence.text_content()


@pytest.mark.parametrize(("which", "has"), [("cuda", "__global__"), ("program", "np.")])
def test_a_line_of_a_program_leads_to_what_it_computes(
    open_page: Open, attention: Trace, tmp_path: Path, which: str, has: str
) -> None:
    page = show(open_page, attention, tmp_path)
    s = attention.schedules[0]
    page.get_by_role("tab", name="kernels").click()
    page.locator(".ts-table tbody tr").nth(1).click()
    expect(page.locator(f".ts-{which}")).to_contain_text(has)
    expect(page.locator(".ts-lit")).to_have_count(0)
    links = (s.kernels[1].links or {})[which]
    line = next(i for i, ids in enumerate(links) if ids)
    page.locator(f".ts-{which} .ts-linked").first.click()
    expect(page.locator(".ts-inspector h3").last).to_contain_text(s.nodes[links[line][-1]].label)
    lit = page.locator(f".ts-{which} .ts-lit")
    expect(lit.first).to_have_text(getattr(s.kernels[1], which).split("\n")[line] + "\n")
    expect(lit).to_have_count(sum(links[line][-1] in ids for ids in links))
    expect(page.locator(".ts-loops .ts-lit").first).to_be_visible()  # the other texts' lines are lit as well


def test_one_selection_in_every_view(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    """A kernel chosen in the table is chosen in the graph, the order and the inspector, and the other way round."""
    page = show(open_page, attention, tmp_path)
    s = attention.schedules[0]
    page.get_by_role("tab", name="kernels").click()
    page.locator(".ts-table tbody tr").nth(1).click()
    expect(page.locator(".ts-hull.ts-chosen")).to_have_attribute("data-kernel", "1")
    expect(page.locator(".ts-inspector")).to_contain_text(s.kernels[1].name)
    expect(page.locator(".ts-loops")).to_contain_text("for r0 in range")
    expect(page.locator(".ts-program")).to_contain_text("def ")
    page.get_by_role("tab", name="order").click()
    expect(page.locator(".ts-orderdag .ts-chosen")).to_contain_text(s.kernels[1].name)
    expect(page.get_by_role("tabpanel")).to_contain_text("which kernel 0 writes")
    page.get_by_role("tab", name="arena").click()
    page.locator(".ts-block").first.click()
    expect(page.locator(".ts-inspector")).to_contain_text("byte 0")
    page.locator(".ts-badge").first.click()
    expect(page.locator(".ts-inspector h3").last).to_contain_text(s.kernels[0].name)
    page.keyboard.press("Escape")
    expect(page.locator(".ts-hull.ts-chosen")).to_have_count(0)


def test_times_and_values_of_a_recorded_run(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    page.get_by_role("tab", name="values").click()
    expect(page.locator(".ts-value")).to_have_count(len(attention.schedules[0].kernels))
    expect(page.locator(".ts-heat").first).to_be_visible()
    page.get_by_role("tab", name="kernels").click()
    expect(page.locator(".ts-table tbody tr").first).to_contain_text("s")
    expect(page.locator(".ts-run")).to_be_disabled()
    assert "needs Python" in (page.locator(".ts-run").get_attribute("title") or "")


def test_a_node_is_followed_to_its_kernel_and_line(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    node = next(i for i, n in enumerate(attention.schedules[0].nodes) if n.name == "scores")
    page.evaluate(f"location.hash = '#pass=rangeify&step=3&node={node}'")
    inspector = page.locator(".ts-inspector")
    expect(inspector).to_contain_text("scores")
    expect(inspector.locator(".ts-chip").first).to_contain_text("0 ")
    expect(inspector.locator(".ts-line").first).to_contain_text("q @ k")
    expect(page.locator(".ts-canvas .ts-node.ts-chosen").first).to_be_visible()
    assert "node=" in page.evaluate("location.hash")


def test_search_finds_and_goes(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    page.keyboard.press("/")
    page.keyboard.type("exp2")
    expect(page.locator(".ts-hit").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".ts-inspector h3").last).to_have_text("exp2")
    page.keyboard.press("n")
    page.keyboard.press("/")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".ts-pass.ts-current .ts-passname")).to_have_text("tensor graph")


def test_it_says_how_much_it_shows(open_page: Open, softmax: Trace, tmp_path: Path) -> None:
    page = show(open_page, softmax, tmp_path)
    n = len(softmax.to_networkx(0))
    expect(page.locator(".ts-count")).to_have_text(f"showing {n} of {n} nodes")
    shown(page).first.click()
    page.get_by_role("button", name="only what is near the selection").click()
    expect(page.locator(".ts-count")).not_to_have_text(f"showing {n} of {n} nodes")


def test_kernels_are_boxes_that_open(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    """A closed box stands for its ops and carries their marks; an open one shows them inside of it."""
    page = show(open_page, attention, tmp_path)
    n = len(attention.to_networkx(0))
    page.get_by_role("button", name="kernels as boxes").click()
    expect(page.locator(".ts-count")).to_have_text(f"showing 4 kernels as boxes and 0 of {n} nodes")
    expect(shown(page)).to_have_count(4)
    page.get_by_role("button", name="open kernel 1").click()
    expect(page.locator(".ts-openbox")).to_have_count(1)
    box = page.locator(".ts-openbox").bounding_box()
    assert box is not None
    inner = page.locator(".ts-canvas .ts-node:not(.ts-kernel):not(.ts-ghost)")
    assert inner.count() >= 2
    for place in (inner.nth(i).bounding_box() for i in range(inner.count())):
        assert place is not None and box["y"] <= place["y"] and place["y"] + place["height"] <= box["y"] + box["height"]
    page.locator(".ts-badge[data-kernel='2']").click()
    page.keyboard.press("o")
    expect(page.locator(".ts-openbox")).to_have_count(2)
    page.keyboard.press("o")
    page.get_by_role("button", name="close kernel 1").click()
    expect(page.locator(".ts-openbox")).to_have_count(0)
    page.locator(".ts-canvas .ts-kernel").nth(3).dblclick()
    expect(page.locator(".ts-openbox")).to_have_count(1)
    page.locator(".ts-next").click()
    page.locator(".ts-next").click()
    expect(page.locator(".ts-openbox")).to_have_count(1)


def test_a_large_graph_opens_as_kernels(open_page: Open, tmp_path: Path) -> None:
    x = Tensor.rand(8, 8).realize()
    for _ in range(30):
        x = (x @ x.relu()).contiguous()
    page = show(open_page, capture(x, title="large"), tmp_path)
    expect(page.locator(".ts-count")).to_contain_text("showing 30 kernels as boxes and 0 of")
    page.get_by_role("button", name="kernels as boxes").click()
    expect(page.locator(".ts-count")).not_to_contain_text("boxes")


def test_colour_can_mean_other_things(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    fills = "new Set([...document.querySelectorAll('.ts-canvas .ts-body')].map(b => getComputedStyle(b).fill)).size"
    plain = page.evaluate(fills)
    for name, word in (("kind", "reduce"), ("decision", "stored"), ("bytes", "B"), ("time", "s")):
        page.get_by_label("colour by").select_option(name)
        expect(page.locator(".ts-samples")).to_contain_text(word)
        assert page.evaluate(fills) > plain, name
    page.get_by_label("colour by").select_option("kernel")
    expect(page.locator(".ts-samples")).to_be_empty()


def test_a_selection_has_counterparts_or_says_why_not(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    """Op, loop, kernel, slot, memory, arena block and line, each a link; what has none says why."""
    page = show(open_page, attention, tmp_path)
    s = attention.schedules[0]
    inspector = page.locator(".ts-inspector")
    stored = next(i for i, n in enumerate(s.nodes) if n.name == "scores")
    page.evaluate(f"location.hash = '#pass=rangeify&step=3&node={stored}'")
    expect(inspector.locator(".ts-verdict").last).to_have_text("kept")
    expect(inspector.locator(".ts-counterparts")).to_contain_text("1 of 4")
    expect(inspector.locator(".ts-counterparts")).to_contain_text("byte 0")
    inspector.locator(".ts-buffername").first.click()
    expect(inspector.locator("h3").last).to_contain_text("scores intermediate")
    expect(inspector).to_contain_text("Placed ")
    view = next(i for i, n in enumerate(s.nodes) if n.op == "RESHAPE")
    page.evaluate(f"location.hash = '#pass=rangeify&step=3&node={view}'")
    expect(inspector.locator(".ts-none").first).to_contain_text("no kernel computes it")
    page.evaluate("location.hash = '#pass=rangeify&step=2'")
    inspector.locator(".ts-loopname").first.click()
    expect(inspector.locator("h3").last).to_contain_text("loop")
    expect(inspector).to_contain_text("turns")
    assert page.locator(".ts-canvas .ts-node.ts-chosen").count() > 0
    page.locator(".ts-inspector").get_by_role("tab", name="what").click()
    expect(inspector.locator("dl").last).to_contain_text("nodes inside")


def test_lines_lead_to_kernels_and_back(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    page.get_by_role("tab", name="kernels").click()
    page.locator(".ts-table tbody tr").nth(1).click()
    page.locator(".ts-inspector").get_by_role("tab", name="source").click()
    chosen = page.locator(".ts-sourceline.ts-chosen")
    expect(chosen).to_have_count(1)
    expect(chosen).to_contain_text("softmax")
    expect(chosen.locator(".ts-gutter")).to_contain_text("1")
    page.locator(".ts-sourceline", has_text="q @ k").click()
    expect(page.locator(".ts-table tr.ts-chosen")).to_have_count(1)
    assert "line=" in page.evaluate("location.hash")


def test_what_needs_python_says_so(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    node = next(i for i, n in enumerate(attention.schedules[0].nodes) if n.name == "scores")
    page.evaluate(f"location.hash = '#pass=rangeify&step=3&node={node}'")
    for button in page.locator(".ts-python").all():
        expect(button).to_be_disabled()
        assert "needs Python" in (button.get_attribute("title") or "")
    page.locator(".ts-whatif").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("needs Python")
    expect(page.locator(".ts-undo")).to_be_hidden()


def test_a_page_says_which_decisions_had_been_turned(open_page: Open, softmax: Trace, tmp_path: Path) -> None:
    """What a what-if made is saved as it is: the page says so, though it has nothing to compare it with."""
    stored = next(b for b, buffer in enumerate(softmax.schedules[0].buffers) if buffer.role == "intermediate")
    page = show(open_page, softmax.with_overrides({f"b{stored}": "fuse"}), tmp_path)
    expect(page.locator(".ts-whatif")).to_have_text("what if: 1")
    page.locator(".ts-whatif").click()
    expect(page.locator(".ts-turned")).to_contain_text("is fused")


def test_the_order_view_shows_a_kernels_own_waits(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    page.locator(".ts-tab[data-panel=order]").click()
    rows = page.get_by_role("table", name="why kernels wait for one another").locator("tbody tr")
    every = attention.schedules[0].order
    expect(rows).to_have_count(len(every))
    page.locator(".ts-orderdag .ts-node").nth(1).click()
    expect(rows).to_have_count(sum(1 in (e.before, e.after) for e in every))
    page.get_by_role("button", name="show all").click()
    expect(rows).to_have_count(len(every))


def test_a_kernel_is_stepped_turn_by_turn(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    """The accumulator grows, the line is marked, what is written appears; values are those of the recorded run."""
    page = show(open_page, attention, tmp_path)
    page.get_by_role("tab", name="kernels").click()
    page.locator(".ts-table tbody tr").nth(1).click()
    stepper = page.locator(".ts-stepper")
    expect(stepper).to_contain_text("Inputs as in the recorded run")
    stepper.get_by_role("button", name="next store").click()
    expect(stepper).to_contain_text("writes")
    expect(page.locator(".ts-loops .ts-now")).to_contain_text("p0[")
    expect(stepper.locator(".ts-vars").last).to_contain_text("acc0 =")
    value = attention.schedules[0].run.values[str(attention.schedules[0].kernels[1].buffers[0])]  # type: ignore[union-attr, index]
    first = float(stepper.locator(".ts-cell").first.inner_text())
    assert abs(first - value.sample[0][0]) < 1e-3
    stepper.get_by_role("button", name="to the end").click()
    expect(stepper).to_contain_text("done")
    assert "·" not in stepper.locator(".ts-cells").inner_text()
    stepper.get_by_role("button", name="restart").click()
    stepper.get_by_role("button", name="step", exact=True).click()
    expect(stepper).to_contain_text("1 statement.")


def test_the_ready_queue_the_critical_path_and_the_planners(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    page = show(open_page, attention, tmp_path)
    page.get_by_role("tab", name="order").click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("critical path: 0123")
    panel.get_by_role("button", name="a slot on").click()
    expect(panel.locator(".ts-queue")).to_contain_text("slot 2 of 4: ready 1 → runs 1")
    expect(panel.locator(".ts-orderdag .ts-ran")).to_have_count(1)
    expect(panel.locator(".ts-orderdag .ts-ready")).to_have_count(1)
    for _ in range(3):
        panel.get_by_role("button", name="a slot on").click()
    expect(panel.locator(".ts-queue")).to_contain_text("all 4 kernels ran")
    page.get_by_role("tab", name="arena").click()
    expect(panel.locator(".ts-planners figure")).to_have_count(3)
    expect(panel.locator(".ts-planners")).to_contain_text("no reuse")
    expect(panel.locator(".ts-planners .ts-runs")).to_have_count(1)
    panel.locator(".ts-planner rect:not(.ts-frame)").first.click()
    expect(page.locator(".ts-inspector")).to_contain_text("Placed")


def export(page: Page, what: str, folder: Path) -> Path:
    """Takes one file along."""
    page.get_by_role("button", name="export").click()
    with page.expect_download() as download:
        page.locator(".ts-menu .ts-hit", has_text=what).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_what_is_seen_can_be_taken_along(open_page: Open, attention: Trace, tmp_path: Path) -> None:
    """SVG and PNG of the graph as it stands, the trace, and a page that opens and steps."""
    page = show(open_page, attention, tmp_path)
    page.get_by_role("button", name="rangeify").click()
    drawn = export(page, "SVG", tmp_path)
    assert drawn.name == "attention-rangeify.svg"
    root = ElementTree.parse(drawn).getroot()
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "scores" in texts and root.get("viewBox")
    assert not re.search("var\\(|https?://(?!www.w3.org)", drawn.read_text())
    picture = export(page, "PNG", tmp_path).read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    assert Trace.from_json(export(page, "JSON", tmp_path).read_text()) == attention
    (tmp_path / "again").mkdir()
    again = open_page(export(page, "HTML", tmp_path / "again"))
    expect(again.locator(".ts-bar")).to_be_visible()
    again.locator(".ts-passnext").click()
    expect(again.locator(".ts-pass.ts-current .ts-passname")).to_have_text("callify")


LABELS = {
    "markup": HOSTILE,
    "quotes": '"it\'s" `q` &amp; </script></style><!-- {{x}} ${y}',
    "backslashes": "a\\\\b \\n \\u0041 \\l C:\\temp\\",
    "colons": "a:b::c #pass=x&node=1;",
    "newlines": "two\nlines\r\nand\ttab",
    "emoji": "🧮👩‍🔬 ⟂ ∑ שלום مرحبا 你好",
    "long": "x" * 500,
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_labels_are_text(open_page: Open, tmp_path: Path, label: str) -> None:
    """Names, lines, rules, kernels and titles that are markup are shown as such; a dialog or an error fails the page."""
    x = Node("PARAM", "float32", label, "memory", shape=(4,), name=label, arg=label, lines=(0,))
    y, z = Node("EXP2", "float32", label, "alu", (0,), (4,)), Node("SIN", "float32", label, "alu", (0,), (4,))
    stage = Stage(label, 1, 2, doc=label, steps=(Rewrite(0, 1, 2),))
    kernel = Kernel(label, 2, label, buffers=(0,), writes=(0,), loops=label, program=label, nodes=(1, 2), lines=(0,))
    schedule = Schedule(label, (x, y, z), (stage,), (kernel,), (Buffer(16, 4, "float32", label, "output", label, 2),))
    trace = Trace(label, (schedule,), (Line(label, 1, label),), (Rule(label, label, label, 1),))
    page = show(open_page, trace, tmp_path)
    dialogs: list[str] = []
    page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
    for tab in page.locator(".ts-drawer .ts-tab").all():
        tab.click()
    for tab in ("why", "what", "kernel", "source"):
        page.evaluate("location.hash = '#pass=&step=0&node=0'")
        page.locator(".ts-inspector").get_by_role("tab", name=tab).click()
    flat = " ".join(label.split())
    assert " ".join(page.locator(".ts-sourceline code").inner_text().split()) == flat
    page.locator(".ts-drawer .ts-tab", has_text="kernels").click()
    page.keyboard.press("ArrowRight")
    shown(page).first.click()
    page.keyboard.press("/")
    page.locator(".ts-search").fill(flat[:8])
    expect(page.locator(".ts-hit").first).to_contain_text(flat[:8])
    assert " ".join(page.title().split()) == flat
    assert not dialogs
    assert page.locator("img, .ts script").count() == 0


def test_two_thousand_nodes_are_drawn_and_stepped(open_page: Open, tmp_path: Path) -> None:
    n = 2_000
    nodes = [Node("PARAM", "float32", "p0", "memory", shape=(4,))]
    nodes += [Node("SIN", "float32", "sin", "alu", tuple({i, max(0, i - 3)}), (4,)) for i in range(n)]
    stage = Stage("large", n, n)
    page = show(open_page, Trace("large", (Schedule("large", tuple(nodes), (stage, stage)),)), tmp_path)
    expect(page.locator("canvas")).to_be_visible()
    expect(page.locator(".ts-count")).to_have_text("showing 2,001 of 2,001 nodes")
    ink = """() => { const c = document.querySelector('canvas');
      return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v, i) => i % 4 === 3 && v > 0); }"""
    page.wait_for_function(ink)
    page.get_by_role("button", name="fit the whole graph").click()
    page.wait_for_function(ink)
    spent = page.evaluate(TEN_STEPS)
    assert spent < 1_000, "milliseconds a step, on a busy machine without a GPU"
    page.get_by_role("tab", name="nodes").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("showing 2,000 of 2,001")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 1400])
def test_it_fits_its_room(open_page: Open, attention: Trace, tmp_path: Path, scheme: str, width: int) -> None:
    """Nothing sticks out at the sides, text can be told from paper, every button has a name."""
    page = show(open_page, attention, tmp_path, color_scheme=scheme, viewport={"width": width, "height": 800})
    page.get_by_role("tab", name="kernels").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator(".ts-canvas").bounding_box()
    assert box is not None and box["width"] > width * 0.55 and box["height"] > 120
    assert page.evaluate(CONTRAST) > 7
    unnamed = page.evaluate(UNNAMED)
    assert unnamed == 0


UNNAMED = """[...document.querySelectorAll('.ts button')]
  .filter(b => !(b.getAttribute('aria-label') || b.textContent.trim())).length"""
TEN_STEPS = """async () => {
  const el = document.querySelector('.ts'), start = performance.now();
  for (let i = 0; i < 10; i++) {
    el.dispatchEvent(new KeyboardEvent('keydown', {key: i % 2 ? 'ArrowUp' : 'ArrowDown', bubbles: true}));
    await new Promise(requestAnimationFrame);
  }
  return (performance.now() - start) / 10;
}"""
CONTRAST = """() => {
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.querySelector('.ts'));
  const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


def test_nothing_moves_for_who_wants_no_motion(open_page: Open, softmax: Trace, tmp_path: Path) -> None:
    page = show(open_page, softmax, tmp_path, reduced_motion="reduce")
    durations = page.evaluate(
        "[...document.querySelectorAll('.ts *')].map(e => getComputedStyle(e).transitionDuration)"
    )
    assert set(durations) == {"0s"}


def test_an_empty_trace_says_so(open_page: Open, tmp_path: Path) -> None:
    page = open_page(Trace("nothing").to_html(tmp_path / "page.html"))
    expect(page.locator(".ts")).to_contain_text("Nothing was scheduled")


def test_a_spoilt_page_says_so(open_page: Open, softmax: Trace, tmp_path: Path) -> None:
    path = softmax.to_html(tmp_path / "page.html")
    head, data = path.read_text().split('<script id="ts-document" type="text/plain">', 1)
    path.write_text(head + '<script id="ts-document" type="text/plain">AAAA' + data[400:])
    page = open_page(path)
    expect(page.get_by_role("alert")).to_contain_text("cannot be shown")
