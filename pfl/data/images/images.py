"""The artifact ``images.h5``: every image of a data set, as pixels or as its original file's bytes.

Two layouts, told apart by the root attribute ``layout``:

- ``pixels``: dataset ``pixels`` (n, h, w, c) uint8, c = 1 or 3, for sources whose images are arrays
  of one size. Nothing is decoded later.
- ``encoded``: dataset ``encoded`` (total,) uint8 holds the files end to end, image i being
  ``encoded[offset[i]:offset[i + 1]]``, with ``offset`` (n + 1,) int64 and ``name`` (n,) text. Kept
  as they came, photographs stay small and lose nothing to a second compression.

Where sites take their pictures differently (:mod:`pfl.data.images.site_shift`), ``site`` (n,)
int32 tells each one's, and the root attributes ``skew``, ``strength``, ``sites`` and ``skew-seed``
how: readers make the change.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Int, UInt8

from pfl.artifacts.hdf5 import (
    CHUNK_BYTES,
    Attribute,
    create,
    open_checked,
    put,
    put_text,
    read,
    read_text,
    reading,
    reserve,
)
from pfl.data.images.decoding import check, decode
from pfl.data.images.site_shift import Kind, Skew
from pfl.errors import InputError
from pfl.runtime.machine import cores
from pfl.runtime.progress import progress

BATCH_FILES = 64  # read and checked together while preparing: bounds what is held in memory
THREADS = 8  # that check them: more only wait for the interpreter's lock


@dataclass(frozen=True)
class PixelArray:
    """Images of one size, in memory: grey (c = 1) or RGB (c = 3), 0 … 255."""

    pixels: UInt8[np.ndarray, "n h w c"]

    def __len__(self) -> int:
        """Count of images n."""
        return len(self.pixels)

    def take(self, order: np.ndarray) -> "PixelArray":
        """The images numbered ``order``, in that order."""
        return PixelArray(self.pixels[order])


@dataclass(frozen=True)
class ImageFiles:
    """Image files ``root / name``; names are relative, with ``/`` between parts on any system."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        """Count of images n."""
        return len(self.names)

    def take(self, order: np.ndarray) -> "ImageFiles":
        """The files numbered ``order``, in that order."""
        return ImageFiles(self.root, tuple(self.names[i] for i in order.tolist()))


@dataclass(frozen=True)
class Sites:
    """Who took each image, and how sites differ."""

    site: Int[np.ndarray, " n"]
    skew: Skew


def write_images(
    path: Path,
    source: PixelArray | ImageFiles,
    attributes: Mapping[str, Attribute],
    sites: Sites | None = None,
) -> None:
    """Store all images of ``source``, in its order, as ``images.h5``.

    Files are read a few at a time, and each is decoded once, so that a damaged one stops here and
    not in the middle of feature extraction. With ``sites``, readers see each image as its site
    takes it.

    Raises:
        InputError: a file is no image, is damaged, or changed meanwhile; it is named.
    """
    layout = "pixels" if isinstance(source, PixelArray) else "encoded"
    # Pillow decodes every file here, and whether it can depends on its version.
    packages = ("numpy",) if isinstance(source, PixelArray) else ("numpy", "pillow")
    facts = {**attributes, "layout": layout, **_facts(sites)}
    with create(path, "images", facts, packages) as file:
        if sites is not None:
            put(file, "site", sites.site.astype(np.int32))
        if isinstance(source, PixelArray):
            put(file, "pixels", source.pixels)
        else:
            _write_files(file, source)


def _facts(sites: Sites | None) -> dict[str, Attribute]:
    if sites is None:
        return {}
    skew = sites.skew
    return {"skew": skew.kind.value, "strength": skew.strength, "sites": skew.sites,
            "skew-seed": skew.seed}  # fmt: skip


def _read_sites(file: h5py.File) -> Sites | None:
    if "site" not in file:
        return None
    kind, strength, sites, seed = (
        file.attrs[name] for name in ("skew", "strength", "sites", "skew-seed")
    )
    skew = Skew(Kind(kind), float(strength), int(sites), int(seed))
    return Sites(read(file, "site"), skew)


def _write_files(file: h5py.File, source: ImageFiles) -> None:
    sizes = [(source.root / name).stat().st_size for name in source.names]
    offset = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64)
    put(file, "offset", offset)
    put_text(file, "name", source.names)
    encoded = reserve(file, "encoded", (int(offset[-1]),), np.uint8)
    start = 0
    for block in _blocks(_checked_files(source, sizes)):
        encoded[start : start + len(block)] = np.frombuffer(block, np.uint8)
        start += len(block)


def _checked_files(source: ImageFiles, sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield each file's bytes after decoding it on one of a few threads."""

    def load(number: int) -> bytes:
        name = source.names[number]
        data = (source.root / name).read_bytes()
        check(data, str(source.root / name))
        if len(data) != sizes[number]:
            raise InputError(
                f"{source.root / name} changed while it was read: run again when nothing writes "
                f"to {source.root} any more."
            )
        return data

    total = len(source)
    with ThreadPoolExecutor(min(THREADS, cores())) as pool:
        starts = range(0, total, BATCH_FILES)
        for start in progress(starts, total, "image", "Checking", step=BATCH_FILES):
            yield from pool.map(load, range(start, min(start + BATCH_FILES, total)))


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join pieces into blocks of one HDF5 chunk, so that every chunk is written once."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        full = len(buffer) - len(buffer) % CHUNK_BYTES
        for start in range(0, full, CHUNK_BYTES):
            yield bytes(buffer[start : start + CHUNK_BYTES])
        del buffer[:full]
    if buffer:
        yield bytes(buffer)


class Images:
    """The images of an open ``images.h5``.

    It may be pickled, and used in forked workers: each process opens the file for itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = ExitStack()
        self._h5 = self._stack.enter_context(reading(path, "images"))
        self._process = os.getpid()
        self.encoded = self._h5.attrs["layout"] == "encoded"
        if self.encoded:
            self._offset = read(self._h5, "offset")
            self._names = read_text(self._h5, "name")
        self._sites = _read_sites(self._h5)

    @property
    def _file(self) -> h5py.File:
        if self._process != os.getpid():
            # A forked worker must not share the file's position; its parent checked the bytes.
            self._h5 = self._stack.enter_context(open_checked(self.path))
            self._process = os.getpid()
        return self._h5

    def __reduce__(self) -> tuple[type["Images"], tuple[Path]]:
        """Pickle the path alone."""
        return Images, (self.path,)

    def close(self) -> None:
        """Close this process's file."""
        self._stack.close()

    def __len__(self) -> int:
        """Count of images n."""
        return len(self._offset) - 1 if self.encoded else len(self._file["pixels"])

    @property
    def decoded(self) -> bool:
        """Whether Pillow has a part in what :meth:`rgb` gives."""
        return self.encoded or self._sites is not None

    def name(self, sample: int) -> str:
        """What to call a sample in a message: its file's name, or its number."""
        return self._names[sample] if self.encoded else f"sample {sample}"

    def rgb(
        self, start: int, stop: int
    ) -> UInt8[np.ndarray, "b h w 3"] | list[UInt8[np.ndarray, "_ _ 3"]]:
        """Images ``start`` to ``stop - 1`` in RGB, 0 … 255, as their sites take them.

        One array from the pixel layout; a list of arrays of their own sizes from encoded files.

        Raises:
            InputError: the artifact is damaged.
        """
        images = self.stored(start, stop)
        if self._sites is None:
            return images
        sites, change = self._sites.site[start:stop].tolist(), self._sites.skew.change
        changed = [change(image, site) for image, site in zip(images, sites, strict=True)]
        return changed if self.encoded else np.stack(changed)

    def stored(
        self, start: int, stop: int
    ) -> UInt8[np.ndarray, "b h w 3"] | list[UInt8[np.ndarray, "_ _ 3"]]:
        """As :meth:`rgb`, but as the data set has them, whatever the sites make of them."""
        if not self.encoded:
            pixels = read(self._file, "pixels", slice(start, stop))
            # A grey image is the same value in each of the three channels.
            return np.repeat(pixels, 3, axis=3) if pixels.shape[3] == 1 else pixels
        return [
            decode(data, self.name(start + i)) for i, data in enumerate(self._bytes(start, stop))
        ]

    def _bytes(self, start: int, stop: int) -> Iterator[bytes]:
        file = self._file
        edges = self._offset[start : stop + 1]
        data = read(file, "encoded", slice(int(edges[0]), int(edges[-1]))).tobytes()
        for left, right in zip(edges[:-1] - edges[0], edges[1:] - edges[0], strict=True):
            yield data[left:right]


def open_images(path: Path) -> closing[Images]:
    """Open ``images.h5`` for reading.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    return closing(Images(path))
