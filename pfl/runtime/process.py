"""What a process that computes asks of its system: to keep freed memory, to end with its parent."""

import ctypes
import os
import signal
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
PR_SET_PDEATHSIG = 1  # of Linux's prctl


def keep_memory() -> None:
    """Have freed memory kept for the next arrays instead of given back to the system.

    By default glibc maps each large array anew, and the kernel zeroes it: a quarter or more of
    the time of a small network, or of a small Gram matrix. Other C libraries are left as they are.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def end_with_parent(parent: int) -> None:
    """Have this worker killed when process ``parent``, its parent, ends, however that happens.

    A worker left behind would keep computing, and keep the lock of the scratch folder.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the request was made.
        os._exit(1)
