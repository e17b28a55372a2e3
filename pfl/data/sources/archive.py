"""Arrays of an ``.npz`` file from anywhere: no pickles, and nothing that is too large.

What an array's header claims is compared with what the archive holds, and with the memory of this
machine, before anything is read: a small file can claim, or unpack to, any size.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from pfl.errors import InputError, of_system, one_line
from pfl.runtime.machine import memory

BROKEN = (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as np.savez and np.savez_compressed do
ENCRYPTED = 1  # bit of a member's flags
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
LONGEST = 200  # of what a library says
COPIES = 2  # that prepare holds of the arrays at its peak


def names_in(path: Path) -> list[str]:
    """The names of the arrays in an ``.npz`` file.

    Raises:
        InputError: it is none.
    """
    try:
        with path.open("rb") as stream:
            single = stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
        if single:
            raise InputError(f"{path} is a single array: save several by name with `np.savez`.")
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except BROKEN as error:
        if isinstance(error, InputError) or of_system(error):
            raise
        raise InputError(
            f"{path} is damaged, truncated or no .npz file ({one_line(error, LONGEST)}): "
            "write it again with `np.savez`."
        ) from error


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read arrays by name.

    Raises:
        InputError: one of them is damaged, is not what its header claims, holds Python objects, or
            all together are too large for this machine.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(_checked_size(path, archive, name) for name in names)
        _check_room(path, size)
        try:
            return {name: _array(path, archive, name) for name in names}
        except MemoryError as error:
            raise _too_large(path, size, "more than is free") from error


def _checked_size(path: Path, archive: zipfile.ZipFile, name: str) -> int:
    """Bytes of an array as both its header and the archive's directory have it."""
    with _readable(path, name):
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type not in PACKED or member.flag_bits & ENCRYPTED:
            raise ValueError("it is packed as np.savez packs nothing")
        claimed, offset = _header(archive, member)
        stored = member.file_size - offset
        if claimed != stored:
            raise ValueError(f"it claims {claimed:,} bytes and holds {stored:,}")
    return claimed


@contextmanager
def _readable(path: Path, name: str) -> Iterator[None]:
    """Say of a failure that it is this array's, unless it is the system's."""
    try:
        yield
    except BROKEN as error:
        if of_system(error):
            raise
        raise InputError(
            f"{path}: array '{name}' cannot be read ({one_line(error, LONGEST)}): write it again "
            "with `np.savez`, as an array of numbers or strings rather than of Python objects."
        ) from error


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, int]:
    """Bytes that an array's header claims, and that the header has itself."""
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        if version not in HEADERS:
            raise ValueError(f"its format {version} is none of plain arrays")
        try:
            shape, _, dtype = HEADERS[version](stream)
        except ValueError as error:  # NumPy quotes the header, and advises to trust it.
            raise ValueError("its header is damaged") from error
        length = stream.tell()
    if dtype.hasobject:
        raise ValueError("Python objects could run a program when they are read")
    if any(side < 0 for side in shape):
        raise ValueError(f"its shape is {shape}")
    return math.prod(shape) * dtype.itemsize, length


def _check_room(path: Path, size: int) -> None:
    room = memory()
    if room is not None and COPIES * size > room:
        raise _too_large(path, size, f"which has {room / 2**30:,.1f} GiB")


def _too_large(path: Path, size: int, room: str) -> InputError:
    return InputError(
        f"{path} unpacks to {size / 2**30:,.1f} GiB, and {COPIES} times that must fit into "
        f"memory, {room}: give fewer or smaller images, or a folder of image files, which are read "
        "a few at a time."
    )


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with _readable(path, name), archive.open(f"{name}.npy") as stream:
        array: np.ndarray = npy.read_array(stream, allow_pickle=False)
        stream.read()  # to the end, where the checksum is compared
    return array
