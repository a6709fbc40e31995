"""Explores something with an installed wheel, run from outside of the checkout and without any extra.

For CI: an editable install finds files that a wheel may lack, such as the viewer's scripts.
"""

import importlib.metadata
import sys
import tempfile
from pathlib import Path

import numpy as np

import tinysched
from tinysched import Tensor, capture, explore


def check_installation() -> None:
    """The package is the wheel's, whole, and says the version it was published as."""
    home = Path(tinysched.__file__).parent
    assert home.is_relative_to(sys.prefix), f"not the wheel's: {home}"
    assert tinysched.__version__ == importlib.metadata.version("tinysched")
    assert (home / "py.typed").exists()
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="tinysched")
    assert callable(command.load())


def check_exploring() -> None:
    """Softmax of a product: values, kernels, a widget with its script, a picture and a page that stands alone."""
    x, w = (Tensor(np.random.default_rng(seed).normal(size=(8, 8)).astype(np.float32)) for seed in (1, 2))
    out = (x @ w).softmax()
    trace = capture(out)
    assert trace.schedules[-1].kernels
    assert np.allclose(out.numpy().sum(axis=-1), 1, atol=1e-5)
    widget = explore(trace)
    assert len(str(widget._esm)) > 1000, "the viewer's script is missing"
    assert "<svg" in trace.to_svg()
    with tempfile.TemporaryDirectory() as folder:
        page = trace.to_html(Path(folder) / "page.html").read_text(encoding="utf-8")
    assert "<script" in page and "http://" not in page.replace("http://www.w3.org", "")
    print(f"try_wheel: {trace!r} explored with tinysched {tinysched.__version__}")


if __name__ == "__main__":
    check_installation()
    check_exploring()
