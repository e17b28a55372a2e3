"""What the server asks, adds up and reports.

Imports ``messages`` and ``client`` beside it and the library.
"""
