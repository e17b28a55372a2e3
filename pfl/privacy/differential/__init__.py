"""Differential privacy of the sums: the Gaussian mechanism and what is released by it.

Imports ``fedhip`` and lower packages.
"""
