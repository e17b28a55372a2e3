"""The first line of every HDF5 artifact: its schema, and the SHA-256 of all that follows it.

The line is text in the first 512 bytes, the user block, which HDF5 leaves to us. The hash is the
name of the content: products record it as their origin (:mod:`pfl.artifacts.provenance`), and
readers check it before HDF5 sees the file.
"""

import hashlib
import io
import re
from pathlib import Path

from pfl.errors import InputError

SCHEMA_VERSION = 1
USER_BLOCK = 512
FIRST_LINE = re.compile(rb"pfl artifact ([!-~]+/[0-9]+) sha256 ([0-9a-f]{64})\n\0*")


def content_sha256(stream: io.FileIO) -> str:
    """SHA-256 of everything after the user block, in hex."""
    stream.seek(USER_BLOCK)
    return hashlib.file_digest(stream, "sha256").hexdigest()


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
        raise corrupt(path, "it does not begin like an artifact")
    return line[1].decode(), line[2].decode()


def recorded_sha256(path: Path, schema: str) -> str:
    """The SHA-256 in the first line of an artifact: the name of its content.

    Products of the artifact record it. Whether the content still has it,
    :func:`pfl.artifacts.hdf5.check` finds out.

    Raises:
        InputError: the file is missing, no artifact or of another schema.
    """
    actual, sha256 = first_line(path)
    if actual != f"{schema}/{SCHEMA_VERSION}":
        raise InputError(
            f"{path} has the schema '{actual}' but '{schema}/{SCHEMA_VERSION}' is needed: "
            "run `dvc repro`, which rebuilds it."
        )
    return sha256


def unusable_file(path: Path) -> InputError:
    """The error that there is no regular file at ``path``."""
    if path.is_dir():
        return InputError(f"{path} is a folder, not a file: name the artifact in it.")
    if path.exists():
        return InputError(f"{path} is no regular file (a pipe, socket or device): name another.")
    return InputError(f"{path} does not exist: run `dvc repro`, which makes it.")


def corrupt(path: Path, what: str) -> InputError:
    """The error that ``path`` is not as it was written."""
    return InputError(
        f"{path} is corrupt or truncated: {what}. Delete the file and run `dvc repro`, "
        "which restores it from the cache or makes it again."
    )
