"""`trace.check` has nothing to find in real programs: training steps with Adam, networks, functions, Variables."""

import pytest

from benchmarks.libs import Ours
from benchmarks.workloads import small
from tinysched import capture

NAMES = (
    "sdpa_causal", "mnist_train_adam", "resnet18", "gpt2_small_fn", "gpt_tiny_train_adam", "llama_block_sym", "argmax_topk",
    "interp_pool",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_there_is_nothing_to_find(name: str) -> None:
    lib = Ours()
    with lib.settings():
        found = capture(small(name, lib)).check()
    assert found, str(found)
