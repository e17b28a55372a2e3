"""``pfl compare``: what changed between two revisions.

Imports the library and Git or DVC by their commands.
"""
