"""Which head a client takes, by closed-form leave-one-out on its own samples.

Imports ``ridge`` and the equations of :mod:`pfl.fedhip`.
"""
