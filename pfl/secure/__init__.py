"""Sums of uploads of which the server learns the total alone; see ``docs/secure-sum.md``."""
