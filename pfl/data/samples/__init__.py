"""Samples: labels, splits and groups, who holds which of them, and the group that takes no part.

Imports ``artifacts``.
"""
