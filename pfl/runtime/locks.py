"""Locks between processes, which end with the process that holds them, however it ends.

Some network and FUSE file systems have no locks. There work goes on without one: nothing then
keeps two stages from writing at once, but files are still replaced whole.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pfl.errors import InputError

# How a file system says that it has no locks, 524 being Linux's own ENOTSUPP (Lustre); EBADF and
# EINVAL, that it has none of folders (NFS: a lock needs what is open for writing).
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, 524, errno.EBADF, errno.EINVAL})


def try_lock(descriptor: int, path: Path, shared: bool = False) -> bool:
    """Lock an open file or folder, at once; False where another process holds its lock.

    True also where the file system has no locks. With ``shared``, as readers have it, only writers
    are in the way. The lock passes to forked workers and is free again when the last has ended.

    Raises:
        OSError: the lock fails for any other reason; it names ``path``.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise OSError(error.errno, error.strerror, str(path)) from error
    return True


@contextmanager
def only_writer(folders: Iterable[Path], shared: bool = False) -> Iterator[None]:
    """Be the only process that writes to these folders; they are made where they are missing.

    A lock is on the folder itself and leaves nothing behind. With ``shared``, other writers of this
    kind, whose files have other names, are not in the way.

    Raises:
        InputError: another process holds one of them.
    """
    with ExitStack() as opened:
        for folder in sorted(set(folders)):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, descriptor)
            if not try_lock(descriptor, folder, shared):
                raise InputError(
                    f"Another stage is at work in this checkout and writes to {folder}/ (perhaps "
                    "left behind by a stopped `dvc repro`): wait until it ends, or stop it, then "
                    "run again."
                )
        yield
