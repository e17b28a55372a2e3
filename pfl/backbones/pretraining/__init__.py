"""A masked autoencoder [He et al., arXiv 2111.06377] trained on public images without labels.

Imports ``mae`` beside it, ``data`` and ``ridge``, whose path is the probe.
"""
