"""Rows computed so far, in small atomic files that survive a killed stage.

A block ``<start>-<stop>.h5`` holds the fixed-point features of images start … stop - 1. A block
that is half-written, damaged or of another shape counts as never made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int16

from pfl.artifacts.hdf5 import create, put, read, reading
from pfl.data.features.fixed_point import Quantized
from pfl.errors import InputError


@dataclass(frozen=True)
class Block:
    """One finished block: images ``start`` to ``stop - 1``."""

    path: Path
    start: int
    stop: int
    saturated: int
    largest: float


def write_block(folder: Path, start: int, pieces: Sequence[Quantized]) -> Block:
    """Store consecutive pieces, the first of which begins with sample ``start``."""
    values = np.concatenate([piece.values for piece in pieces])
    saturated = sum(piece.saturated for piece in pieces)
    largest = max(piece.largest for piece in pieces)
    stop = start + len(values)
    block = Block(_path(folder, start, stop), start, stop, saturated, largest)
    with create(block.path, "block", {"saturated": saturated, "largest": largest}) as file:
        put(file, "feature", values)
    return block


def load_blocks(folder: Path, m: int) -> list[Block]:
    """All whole blocks of ``folder``, by sample number; whatever else is there is deleted."""
    blocks = []
    for path in sorted(folder.iterdir()):
        block = _load(path, m)
        if block is None:
            path.unlink()
        else:
            blocks.append(block)
    return sorted(blocks, key=lambda block: block.start)


def _load(path: Path, m: int) -> Block | None:
    try:
        start, stop = (int(number) for number in path.stem.split("-"))
        with reading(path, "block") as file:
            values = read(file, "feature")
            saturated, largest = int(file.attrs["saturated"]), float(file.attrs["largest"])
    except (InputError, ValueError):  # ValueError: the name is not that of a block.
        return None
    whole = path == _path(path.parent, start, stop) and values.shape == (stop - start, m)
    return Block(path, start, stop, saturated, largest) if whole else None


def _path(folder: Path, start: int, stop: int) -> Path:
    return folder / f"{start}-{stop}.h5"


def read_blocks(blocks: Sequence[Block], start: int, stop: int) -> Int16[np.ndarray, "b m"]:
    """Rows of images ``start`` to ``stop - 1``, all of which the ordered blocks have."""
    parts = []
    for block in blocks:
        low, high = max(start, block.start), min(stop, block.stop)
        if low < high:
            with reading(block.path, "block") as file:
                parts.append(read(file, "feature", slice(low - block.start, high - block.start)))
    return np.concatenate(parts)
