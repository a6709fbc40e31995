"""Tests that look through a real browser. `conftest.py` here has the fixtures, `test_harness.py` shows their use."""
