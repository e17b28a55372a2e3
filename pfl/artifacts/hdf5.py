"""HDF5 artifacts that are complete, checked and equal in bytes when equal in content.

- Whole or not there at all: they are written by :mod:`pfl.artifacts.files`.
- Same content, same bytes: earliest file format, no times, no compression, rows in order.
- HDF5's own structures have no checksum in this format, and the library may hang on damaged ones,
  so a file is only given to it after the hash in its first line was checked
  (:mod:`pfl.artifacts.hashing`).
- Every dataset has HDF5's Fletcher-32 checksum too: it names the dataset in which a byte changed,
  and protects readers that do not know the first line.
"""

import importlib.metadata
import io
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import pfl
from pfl.artifacts.files import replacing
from pfl.artifacts.hashing import (
    SCHEMA_VERSION,
    USER_BLOCK,
    content_sha256,
    corrupt,
    recorded_sha256,
)
from pfl.artifacts.untrusted import foreign
from pfl.errors import InputError
from pfl.runtime.locks import NO_LOCKS, try_lock

CHUNK_ROWS = 256
CHUNK_BYTES = 1 << 20

STRUCTURE, CHANGED = "its structure is damaged", "it was changed after it was written"
Attribute = str | int | float


@contextmanager
def create(
    path: Path,
    schema: str,
    attributes: Mapping[str, Attribute],
    packages: Sequence[str] = ("numpy",),
) -> Iterator[h5py.File]:
    """Create the artifact ``path``; it exists once the block has ended without an exception.

    ``attributes`` are the parameters and facts that make the content; ``packages`` are the
    distributions whose version can change it, recorded as ``version-<name>``.
    """
    with replacing(path) as part, _Stream(part, "w+b") as stream:
        try:
            with h5py.File(stream, "w", libver="earliest", userblock_size=USER_BLOCK) as file:
                for name, value in attributes.items():
                    file.attrs[name] = value
                for package in packages:
                    file.attrs[f"version-{package}"] = importlib.metadata.version(package)
                yield file
                file.flush()
        except (OSError, RuntimeError):
            if stream.error is None:
                raise  # else HDF5 stumbled over what could not be written
        line = f"pfl artifact {schema}/{SCHEMA_VERSION} sha256 {content_sha256(stream)}\n"
        stream.seek(0)
        stream.write(line.encode().ljust(USER_BLOCK, b"\0"))
        if stream.error is not None:
            raise OSError(stream.error.errno, stream.error.strerror, str(path)) from stream.error


class _Stream(io.FileIO):
    """A file for HDF5 that keeps its first failure for :func:`create` to raise at the end.

    HDF5 tries again, while it closes a file, what it could not write, and shows each failure to
    the user. So nothing is raised here, and nothing more is written: the file is thrown away.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of ``data``, until the first failure."""
        rest = memoryview(data)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(data)


def put(file: h5py.Group, name: str, values: np.ndarray) -> None:
    """Store a whole array as a checksummed dataset."""
    reserve(file, name, values.shape, values.dtype)[...] = values


def reserve(
    file: h5py.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype | type | str,
    empty: int | float | None = None,
) -> h5py.Dataset:
    """Make an empty dataset to be filled by rows in ascending order.

    What is not filled reads as ``empty``, else as 0.

    Chunks are ``CHUNK_ROWS`` rows, fewer when a row is large, split when one row exceeds
    ``CHUNK_BYTES``. A dataset without elements has nothing to check and is stored plain.
    """
    dtype = np.dtype(dtype)
    if math.prod(shape) == 0:
        return file.create_dataset(name, shape, dtype, track_times=False)
    options = {"chunks": _chunks(shape, dtype), "fletcher32": True, "track_times": False}
    return file.create_dataset(name, shape, dtype, fillvalue=empty, **options)


def _chunks(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    if len(shape) == 1:
        # Equal parts: HDF5 stores the last chunk whole, however little of it is used.
        parts = -(-shape[0] * dtype.itemsize // CHUNK_BYTES)
        return (-(-shape[0] // parts),)
    row = math.prod(shape[1:]) * dtype.itemsize
    rows = max(1, min(shape[0], CHUNK_ROWS, CHUNK_BYTES // row))
    return (rows, *shape[1:])


def put_text(file: h5py.Group, name: str, values: Sequence[str]) -> None:
    """Store strings as fixed-length UTF-8, which a checksum covers and no pickle touches."""
    encoded = [value.encode() for value in values]
    width = max((len(value) for value in encoded), default=1)
    put(file, name, np.array(encoded, dtype=f"S{max(width, 1)}"))


@contextmanager
def reading(path: Path, schema: str) -> Iterator[h5py.File]:
    """Open the artifact ``path`` for reading after checking that every byte is as written.

    Raises:
        InputError: the file is missing, no artifact, of another schema, was changed, or holds what
            no artifact does (:mod:`pfl.artifacts.untrusted`).
    """
    check(path, schema)
    with open_checked(path) as file:
        what = foreign(file)
        if what:
            raise InputError(
                f"{path} was not made by this pipeline: {what}. Take the file that its stage wrote."
            )
        yield file


def open_checked(path: Path) -> h5py.File:
    """Open for reading a file whose bytes were compared before.

    HDF5 locks it against whoever writes; on a file system without locks it is read without.

    Raises:
        InputError: another program has it open for writing, or HDF5 cannot read it.
        OSError: the system fails; the error names the file.
    """
    try:
        return h5py.File(path, "r")
    except BlockingIOError as error:
        raise _busy(path) from error
    except (OSError, RuntimeError) as error:
        if getattr(error, "errno", None) in NO_LOCKS:
            return h5py.File(path, "r", locking=False)
        raise _failure(error, path, STRUCTURE) from error


def _busy(path: Path) -> InputError:
    return InputError(
        f"{path} is open for writing in another program, such as a notebook or a viewer: close it "
        "there, then run again."
    )


def _failure(error: Exception, path: Path, what: str) -> Exception:
    """What a failure of HDF5 is: the system's if it has the system's number, else damage."""
    number = getattr(error, "errno", None)
    return (
        corrupt(path, what) if number is None else OSError(number, os.strerror(number), str(path))
    )


def check(path: Path, schema: str) -> str:
    """The SHA-256 of the artifact ``path`` after checking that it is right and of this schema.

    Raises:
        InputError: as :func:`reading`.
    """
    recorded = recorded_sha256(path, schema)
    with path.open("rb", buffering=0) as stream:
        if content_sha256(stream) != recorded:
            # HDF5 marks a file as open, in the file, and takes the mark away as it closes it.
            free = try_lock(stream.fileno(), path, shared=True)
            raise corrupt(path, _locate(path)) if free else _busy(path)
    return recorded


def _locate(path: Path) -> str:
    """Say which dataset is damaged, by reading in another process: HDF5 may hang or crash."""
    code = "import sys; from pfl.artifacts.hdf5 import damaged; print(damaged(sys.argv[1]))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path.absolute())],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=Path(pfl.__file__).parents[1],  # so that this very package is imported
        )
    except subprocess.TimeoutExpired:
        return STRUCTURE
    if done.returncode > 0:  # That process failed by itself; this much is known without it.
        return CHANGED
    return done.stdout.strip() or STRUCTURE


def damaged(path: str) -> str:
    """What is wrong with a changed file: the first dataset whose checksum fails, if any does."""
    names: list[str] = []
    try:
        with h5py.File(path, "r", locking=False) as file:
            if foreign(file):
                return STRUCTURE
            file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
            for name in names:
                try:
                    file[name][()]
                except (OSError, RuntimeError):
                    return f"dataset '{name}' is damaged"
    except (OSError, RuntimeError, KeyError):
        return STRUCTURE
    return CHANGED


def read(file: h5py.Group, name: str, rows: slice = slice(None)) -> np.ndarray:
    """Read rows of a dataset; a failure names the file and the dataset."""
    try:
        values: np.ndarray = file[name][rows]
    except (KeyError, OSError, RuntimeError) as error:
        place = f"{file.name.rstrip('/')}/{name}"
        what = f"dataset '{place}' is missing or damaged"
        raise _failure(error, Path(file.file.filename), what) from error
    return values


def read_text(file: h5py.Group, name: str) -> tuple[str, ...]:
    """Read strings stored by :func:`put_text`."""
    return tuple(value.decode() for value in read(file, name).tolist())
