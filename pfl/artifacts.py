"""HDF5 artifacts that are complete, checked and equal in bytes when equal in content.

- A file appears under its final name only when it is whole: it is written to ``<name>.part``,
  synced to disk, then renamed. A failure removes the part and leaves the previous file alone.
- Same content, same bytes: earliest file format, no times, no compression, rows in order.
- The first 512 bytes are a user block, which HDF5 leaves to us: one line of text with the schema
  and the SHA-256 of all bytes after it. HDF5's own structures have no checksum in this format, and
  the library may hang on damaged ones, so a file is only given to it after its hash was checked.
- Every dataset has HDF5's Fletcher-32 checksum too: it names the dataset in which a byte changed,
  and protects readers that do not know the first line.
"""

import errno
import hashlib
import importlib.metadata
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pfl.containment import foreign
from pfl.errors import InputError

SCHEMA_VERSION = 1
CHUNK_ROWS = 256
CHUNK_BYTES = 1 << 20
USER_BLOCK = 512
FIRST_LINE = re.compile(rb"pfl artifact ([!-~]+/[0-9]+) sha256 ([0-9a-f]{64})\n\0*")

VIEW = "feature-"  # how names of attributes begin that tell of the features' view

Attribute = str | int | float


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
        _sync(folder)


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
        line = f"pfl artifact {schema}/{SCHEMA_VERSION} sha256 {_sha256(stream)}\n"
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


def _sha256(stream: io.FileIO) -> str:
    """SHA-256 of everything after the user block, in hex."""
    stream.seek(USER_BLOCK)
    return hashlib.file_digest(stream, "sha256").hexdigest()


def put(file: h5py.Group, name: str, values: np.ndarray) -> None:
    """Store a whole array as a checksummed dataset."""
    reserve(file, name, values.shape, values.dtype)[...] = values


def reserve(
    file: h5py.Group, name: str, shape: tuple[int, ...], dtype: np.dtype | type | str
) -> h5py.Dataset:
    """Make an empty dataset to be filled by rows in ascending order.

    Chunks are ``CHUNK_ROWS`` rows, fewer when a row is large, split when one row exceeds
    ``CHUNK_BYTES``. A dataset without elements has nothing to check and is stored plain.
    """
    dtype = np.dtype(dtype)
    if math.prod(shape) == 0:
        return file.create_dataset(name, shape, dtype, track_times=False)
    return file.create_dataset(
        name, shape, dtype, chunks=_chunks(shape, dtype), fletcher32=True, track_times=False
    )


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
            no artifact does (:mod:`pfl.containment`).
    """
    check(path, schema)
    try:
        file = h5py.File(path, "r")
    except (OSError, RuntimeError) as error:
        raise _corrupt(path, "its structure is damaged") from error
    with file:
        what = foreign(file)
        if what:
            raise InputError(
                f"{path} was not made by this pipeline: {what}. Take the file that its stage wrote."
            )
        yield file


def check(path: Path, schema: str) -> str:
    """The SHA-256 of the artifact ``path`` after checking that it is right and of this schema.

    Raises:
        InputError: as :func:`reading`.
    """
    recorded = recorded_sha256(path, schema)
    with path.open("rb", buffering=0) as stream:
        if _sha256(stream) != recorded:
            raise _corrupt(path, _locate(path))
    return recorded


def recorded_sha256(path: Path, schema: str) -> str:
    """The SHA-256 in the first line of an artifact: the name of its content.

    It is what the artifact's products record of their origin. Whether the content is still so,
    :func:`check` and :func:`reading` find out.

    Raises:
        InputError: the file is missing, no artifact or of another schema.
    """
    found, sha256 = first_line(path)
    if found != f"{schema}/{SCHEMA_VERSION}":
        raise InputError(
            f"{path} has the schema '{found}' but '{schema}/{SCHEMA_VERSION}' is needed: "
            "run `dvc repro`, which rebuilds it."
        )
    return sha256


def first_line(path: Path) -> tuple[str, str]:
    """What any artifact says of itself: ``<schema>/<version>``, and the SHA-256 of its content.

    Raises:
        InputError: the file is missing or no artifact.
    """
    if not path.is_file():
        raise unusable_file(path)
    with path.open("rb", buffering=0) as stream:
        line = FIRST_LINE.fullmatch(stream.read(USER_BLOCK))
    if line is None:
        raise _corrupt(path, "it does not begin like an artifact")
    return line[1].decode(), line[2].decode()


def origin(file: h5py.File, source: str) -> str:
    """What ``file`` records of the artifact it was made from; empty where it records nothing."""
    return str(file.attrs.get(f"{source}-sha256", ""))


def recorded_view(file: h5py.File) -> dict[str, Attribute]:
    """What ``file`` records of how features were mapped; empty where it records nothing."""
    return {name: file.attrs[name].item() for name in file.attrs if name.startswith(VIEW)}


def check_origin(product: str, recorded: str, source: str, actual: str) -> None:
    """Refuse a product next to another source than the one it was made from.

    Args:
        product: what to call the product in a message.
        recorded: SHA-256 of its source, by :func:`origin`; empty for what was made in memory.
        source: what to call the source.
        actual: SHA-256 of the source at hand; empty likewise.

    Raises:
        InputError: the two are known and differ.
    """
    if recorded and actual and recorded != actual:
        raise InputError(
            f"The {product} and the {source} belong to different runs ({recorded[:8]}… against "
            f"{actual[:8]}…): run `dvc repro`, which makes them anew from one another."
        )


def unusable_file(path: Path) -> InputError:
    """The error that there is no regular file at ``path``."""
    if path.is_dir():
        return InputError(f"{path} is a folder, not a file: name the artifact in it.")
    if path.exists():
        return InputError(f"{path} is no regular file (a pipe, socket or device): name another.")
    return InputError(f"{path} does not exist: run `dvc repro`, which makes it.")


def _locate(path: Path) -> str:
    """Say which dataset is damaged, by reading in another process: HDF5 may hang or crash."""
    code = "import sys; from pfl.artifacts import damaged; print(damaged(sys.argv[1]))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            cwd=Path(__file__).parents[1],
        )
    except subprocess.SubprocessError:
        return "its structure is damaged"
    return done.stdout.strip()


def damaged(path: str) -> str:
    """What is wrong with a changed file: the first dataset whose checksum fails, if any does."""
    with h5py.File(path, "r") as file:
        if foreign(file):
            return "its structure is damaged"
        names: list[str] = []
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        for name in names:
            try:
                file[name][()]
            except (OSError, RuntimeError):
                return f"dataset '{name}' is damaged"
    return "it was changed after it was written"


def read(file: h5py.Group, name: str, rows: slice = slice(None)) -> np.ndarray:
    """Read rows of a dataset; a failure names the file and the dataset."""
    try:
        values: np.ndarray = file[name][rows]
    except (KeyError, OSError, RuntimeError) as error:
        place = f"{file.name.rstrip('/')}/{name}"
        raise _corrupt(
            Path(file.file.filename), f"dataset '{place}' is missing or damaged"
        ) from error
    return values


def read_text(file: h5py.Group, name: str) -> tuple[str, ...]:
    """Read strings stored by :func:`put_text`."""
    return tuple(value.decode() for value in read(file, name).tolist())


def _corrupt(path: Path, what: str) -> InputError:
    return InputError(
        f"{path} is corrupt or truncated: {what}. Delete the file and run `dvc repro`, "
        "which restores it from the cache or makes it again."
    )
