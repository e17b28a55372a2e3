"""The commands of ``pfl``: flags in, what :mod:`pfl.display` shows out."""
