"""``pfl inspect``: what any file is, what made it, and what is in it.

Imports the library.
"""
