"""What heads and models achieve on each client's samples and on everybody's, and how it is told.

Imports ``fedhip``, ``data`` and lower packages.
"""
