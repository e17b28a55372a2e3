"""Where images come from: named data sets, folders, arrays, ratings, public images.

Imports ``images`` and ``samples`` beside it.
"""
