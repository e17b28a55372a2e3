"""Measurements: each script prints ratios measured in one run."""
