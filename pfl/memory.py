"""How much memory this machine has."""

import os


def memory() -> int | None:
    """Bytes of memory in all, other programs' share too; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
