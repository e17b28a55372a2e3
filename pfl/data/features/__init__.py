"""Features of a frozen backbone, by sample, in fixed point.

Imports ``artifacts``.
"""
