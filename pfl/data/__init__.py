"""From a data set to what a client holds: sources, images, samples, partitions, features, tensors.

Imports ``runtime`` and ``artifacts``.
"""
