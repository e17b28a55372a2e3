"""A client's samples as PyTorch tensors: images or features, training, validation and tests.

Imports ``images``, ``samples`` and ``features`` beside it.
"""
