"""Files that appear under their final names only when they are whole.

They are written to ``<name>.part``, synced to disk, then renamed. A failure removes the part and
leaves the previous file alone. The folder is synced too, where the file system can do that.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How a file system says that it syncs no folders (CIFS, vboxsf, some FUSE), or not this user's.
NO_SYNC = frozenset({errno.EINVAL, errno.ENOSYS, errno.EBADF, errno.ENOTSUP, errno.EACCES})


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield ``<path>.part`` to write to; on success sync it and rename it to ``path``.

    On any failure the part is deleted and an existing ``path`` is untouched.
    """
    with replacing_all(path) as (part,):
        yield part


@contextmanager
def replacing_all(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """As :func:`replacing`, for files that change together: all are whole before one is renamed."""
    parts = tuple(path.with_name(path.name + ".part") for path in paths)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():  # Found out now, not after another file was renamed.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        yield parts
        for part in parts:
            _sync(part)
        for part, path in zip(parts, paths, strict=True):
            part.replace(path)
    except BaseException:
        for part in parts:
            part.unlink(missing_ok=True)
        raise
    for folder in {path.parent: None for path in paths}:
        try:
            _sync(folder)
        except OSError as error:
            if error.errno not in NO_SYNC:
                raise


def _sync(path: Path) -> None:
    """Have a file's content, or a folder's list of names, written to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
