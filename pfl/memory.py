"""How the C library treats freed memory."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def keep_memory() -> None:
    """Have freed memory kept for the next arrays instead of given back to the system.

    By default glibc maps each large array anew, and the kernel zeroes it: a quarter or more of
    the time of a small network, or of a small Gram matrix. Other C libraries are left as they are.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
