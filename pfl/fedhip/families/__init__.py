"""The families of heads that a client chooses from: one module each, and the table of them all.

Each has its head, its leave-one-out residuals and its normal equations. Imports ``ridge`` and the
modules of ``fedhip`` beside it.
"""
