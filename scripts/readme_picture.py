"""Makes the README's picture: the explorer, opened in Chromium at the step that decides why `scores` is stored.

In: nothing. Out: docs/images/explorer.png. Run it when the explorer's looks have changed: python scripts/readme_picture.py
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tinysched import Tensor, capture
from tinysched.explain import sentence

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "explorer.png"


def page_of_attention(folder: Path) -> str:
    """The standalone page of an attention block that has run, opened where `scores` gets its memory."""
    Tensor.manual_seed(1)
    q, k, v = (Tensor.randn(1, 4, 64, 32).realize() for _ in range(3))
    scores = q @ k.transpose(-2, -1) / 32**0.5
    out = scores.softmax(-1) @ v
    trace = capture(out, title="attention", run=True, values=True)
    stage = next(s for s in trace.schedules[0].stages if s.name == "rangeify")
    texts = [sentence(trace, trace.schedules[0], step) for step in stage.steps]
    step = 1 + next(i for i, text in enumerate(texts) if text.startswith("`scores` is stored"))
    node = getattr(stage.steps[step - 1], "node")  # noqa: B009 - only a decision has a node, and this is one
    return f"{trace.to_html(folder / 'attention.html').as_uri()}#pass=rangeify&step={step}&node={node}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 760}, device_scale_factor=1.5)
        page.goto(page_of_attention(Path(folder)))
        page.wait_for_timeout(1500)
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(PICTURE))
    print(f"{PICTURE.name}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
