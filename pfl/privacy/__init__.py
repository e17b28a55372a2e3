"""What uploads give away, and what helps: attacks, masked sums, noise.

Imports ``data``, ``fedhip`` and lower packages.
"""
