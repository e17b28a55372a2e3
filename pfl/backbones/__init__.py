"""Frozen networks from images to features: which there are, how they run, how one is pretrained.

Imports ``data`` and lower packages.
"""
