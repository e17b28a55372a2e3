"""Locks between processes, which end with the process that holds them, however it ends."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pfl.errors import InputError


@contextmanager
def only_writer(folders: Iterable[Path]) -> Iterator[None]:
    """Be the only process that writes to these folders; they are made where they are missing.

    A lock is on the folder itself and leaves nothing behind. It passes to forked workers and is
    free again when the last of them has ended.

    Raises:
        InputError: another process holds one of them.
    """
    with ExitStack() as held:
        for folder in sorted(set(folders)):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"Another stage is at work in this checkout and writes to {folder}/ (perhaps "
                    "left behind by a stopped `dvc repro`): wait until it ends, or stop it, then "
                    "run again."
                ) from error
            except OSError:  # This file system has no such locks.
                continue
        yield
