"""Networks trained in federated rounds: the rounds, what is private, SGD, resuming, testing.

Imports ``evaluation``, ``data`` and lower packages.
"""
