"""Whether probabilities hold: their likelihood, their calibration, and the figure of both.

Imports ``artifacts``, and nothing of ``evaluation``.
"""
