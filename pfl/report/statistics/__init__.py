"""Whether a difference between methods is one, or luck: intervals, tests, ranks, what is in bold.

Functions of counts, and a figure. Imports ``artifacts``, and of ``evaluation`` its words alone.
"""
