"""The ``pfl`` command: look at results, check, use, forget, sweep.

Imports every package of the library, not the adapter to Flower.
"""
