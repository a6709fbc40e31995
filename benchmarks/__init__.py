"""Benchmarks: our scheduler and the peer's (tinygrad 0.14.0), side by side on the same workloads.

``python -m benchmarks --help`` says how to run them.
"""
