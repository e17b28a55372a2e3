"""How samples are dealt to clients: Dirichlet, pathological, quantity, natural, IID.

Imports ``samples`` beside it.
"""
