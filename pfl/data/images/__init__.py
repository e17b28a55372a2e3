"""Images: how files become pixels, how all of them are stored, and how sites see them differently.

Imports ``runtime`` and ``artifacts``.
"""
