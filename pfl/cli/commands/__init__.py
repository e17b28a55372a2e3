"""One module for each command: its flags, and the function that it calls.

Imports the packages beside it.
"""
