"""A client's rows of the features, and the maps that they pass: projection, lift, clipping.

Imports ``features`` and ``samples`` beside it.
"""
