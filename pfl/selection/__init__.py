"""Closed-form choice of every ridge parameter: leave-one-out at a client, GCV from sums alone."""
