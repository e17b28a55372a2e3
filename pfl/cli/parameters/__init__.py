"""`pfl check`: what is wrong in ``params.yaml``, by section and key, before anything runs.

Imports the stages, whose flags say what each key may be, methods' settings, and lower packages.
"""
