"""Studies of accuracy: each script makes a table or a figure of `docs/` from finished runs.

Ratios of speed and memory are measured in :mod:`benchmarks`.
"""
