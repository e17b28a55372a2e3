"""The trained methods, a file each, and the registry that names them.

Imports the rounds of :mod:`pfl.training` and lower packages.
"""
