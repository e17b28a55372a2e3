"""``pfl sweep``: several values of parameters, drawn and tabled.

Imports the library and DVC by its command.
"""
