"""All methods side by side, and the page that shows everything.

Imports ``evaluation`` (its words alone) and ``artifacts``.
"""
