"""CD2-pFed [arXiv 2204.03880]: channels divided into private and shared, cyclic distillation.

Imports the rounds of :mod:`pfl.training` and lower packages.
"""
