"""Flower's processes and keys on one machine, for trying out and for tests.

Imports nothing of the library but errors.
"""
