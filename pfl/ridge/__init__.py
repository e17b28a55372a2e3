"""Ridge regression in closed form: solving, paths of ridges, and their choice without test data.

Pure mathematics on arrays: generalized cross-validation and leave-one-out. Imports ``runtime``.
"""
