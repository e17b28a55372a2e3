"""Files that are whole, checked and equal in bytes when equal in content.

HDF5 artifacts, tensors, tables and figures, and what each was made from. Imports ``runtime``.
"""
