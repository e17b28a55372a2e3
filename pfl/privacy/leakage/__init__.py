"""Attacks on uploads as the server could run them, their score, and the report.

Imports ``data``, ``ridge`` and lower packages.
"""
