"""``pfl verify``: whether every artifact is right, computed anew.

Imports the library.
"""
