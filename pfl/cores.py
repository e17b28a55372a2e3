"""How many cores this process may use."""

import os


def cores() -> int:
    """Cores that this process may run on: its affinity mask where there is one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
