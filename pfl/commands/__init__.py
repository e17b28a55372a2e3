"""The commands of ``pfl``, a file for those that belong together."""
