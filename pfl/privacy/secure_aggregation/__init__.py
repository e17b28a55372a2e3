"""Masked uploads [Bonawitz et al., CCS 2017; Bell et al., CCS 2020]: the server sees sums alone.

Imports ``fedhip`` for the vectors that are summed.
"""
