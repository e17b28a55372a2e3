"""Methods that know how often a client has each class, and use its own model on its own samples.

Imports the rounds of :mod:`pfl.training`, what methods have in common, and lower packages.
"""
