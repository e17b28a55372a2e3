"""The artifact ``features.h5``: fixed-point features of every image, by image number.

Dataset ``feature`` (n, m) int16; the features are ``feature · step``. Root attributes say which
backbone, weights and transform made them, how many values saturated, and the largest magnitude.
They say nothing of clients: features do not depend on how samples are dealt.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Bool, Int, Int16

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import CHUNK_ROWS, Attribute, create, read, reading, reserve
from pfl.artifacts.provenance import origin

# What the value of a feature depends on, besides its image.
RECIPE = ("backbone", "weights-sha256", "transform", "image-size", "precision", "step")
WRITE_ROWS = 16 * CHUNK_ROWS  # whole chunks, so that each is written once
RowMap = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Features:
    """The features of an open ``features.h5``, as stored or through maps of each row.

    Attributes:
        m: features per image.
        step: the power of two that one unit stands for.
        backbone: name of the backbone.
        saturated: how many values were clipped.
        sha256: of this file.
        images_sha256: of the images that the features are of, as far as it is known.
    """

    m: int
    step: float
    backbone: str
    saturated: int
    sha256: str
    images_sha256: str
    _file: h5py.File
    _maps: tuple[RowMap, ...] = ()

    def __len__(self) -> int:
        """Images n."""
        return len(self._file["feature"])

    @property
    def recipe(self) -> dict[str, str]:
        """How these features come about: whose recipes are equal, their features are comparable."""
        return {name: str(self._file.attrs.get(name, "")) for name in RECIPE}

    def rows(
        self,
        start: int,
        stop: int,
        chosen: Int[np.ndarray, " b"] | Bool[np.ndarray, " n"] | None = None,
    ) -> Int16[np.ndarray, "b m"]:
        """Fixed-point features of images ``start`` to ``stop - 1``, or the chosen ones of them.

        Maps are computed for the chosen ones only.

        Raises:
            InputError: the artifact is damaged there.
        """
        rows = read(self._file, "feature", slice(start, stop))
        if chosen is not None:
            rows = rows[chosen]
        for row_map in self._maps:
            rows = row_map(rows)
        return rows

    def blocks(self, rows: int = 4096) -> Iterator[Int16[np.ndarray, "b m"]]:
        """All features in order, so many rows at a time."""
        for start in range(0, len(self), rows):
            yield self.rows(start, min(start + rows, len(self)))

    def mapped(self, rows: RowMap, m: int, step: float) -> "Features":
        """The same images with one more map, applied to all rows that are read.

        ``rows`` maps int16 rows to int16 rows of width ``m`` in units of ``step``, each by itself.
        """
        return replace(self, m=m, step=step, _maps=(*self._maps, rows))


@contextmanager
def open_features(path: Path) -> Iterator[Features]:
    """Open ``features.h5`` for reading.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    with reading(path, "features") as file:
        yield Features(
            m=int(file["feature"].shape[1]),
            step=float(file.attrs["step"]),
            backbone=str(file.attrs["backbone"]),
            saturated=int(file.attrs["saturated"]),
            sha256=recorded_sha256(path, "features"),
            images_sha256=origin(file, "images"),
            _file=file,
        )


def write_features(
    path: Path,
    shape: tuple[int, int],
    rows: Callable[[int, int], Int16[np.ndarray, "b m"]],
    attributes: Mapping[str, Attribute],
    packages: tuple[str, ...] = ("numpy",),
) -> None:
    """Store ``shape`` = (n, m) features, asking ``rows(start, stop)`` for them in order.

    ``attributes`` hold at least ``step``, ``backbone`` and ``saturated``; the versions of
    ``packages`` are recorded.
    """
    with create(path, "features", attributes, packages) as file:
        stored = reserve(file, "feature", shape, np.int16)
        for start in range(0, shape[0], WRITE_ROWS):
            stop = min(start + WRITE_ROWS, shape[0])
            stored[start:stop] = rows(start, stop)
