"""``pfl predict`` and ``pfl export``: a client's model in use.

Imports the library.
"""
