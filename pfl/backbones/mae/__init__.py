"""The encoder of a masked autoencoder, and the file that it is kept in.

Imports ``artifacts``.
"""
