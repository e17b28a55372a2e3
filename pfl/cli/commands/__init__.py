"""One module for each command: its flags, and the function that it calls.

Imports the packages beside it: inside the functions what takes seconds, as PyTorch and DVC do,
which ``--help``, completion and a wrong flag need not wait for.
"""
