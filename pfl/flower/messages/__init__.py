"""What goes over the wire, and the checks of what came.

Imports the library.
"""
