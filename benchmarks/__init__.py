"""Ratios of speed and memory, each measured in one run of its script.

Studies of accuracy are in :mod:`experiments`.
"""
