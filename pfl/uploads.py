"""What every client sends, as the artifact ``uploads.h5``: one group a client, integers only.

``client/<number>/gram`` is the packed upper triangle of the client's Gram matrix in the smallest
integer type that holds it; ``class``, ``count`` and ``cross`` list the classes the client has, its
samples and its sum of features for each. Units: ``gram`` in step², ``cross`` in step.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Int

from pfl.artifacts import create, put, read, reading
from pfl.moments import Moments

TYPES = (np.int8, np.int16, np.int32, np.int64)


@dataclass(frozen=True)
class UploadWriter:
    """Adds clients, in ascending order, to an open ``uploads.h5``."""

    file: h5py.File

    def add(self, client: int, sent: Moments) -> None:
        """Store what client number ``client`` sends."""
        group = self.file.create_group(_name(client))
        present = np.flatnonzero(sent.count)
        put(group, "gram", smallest(sent.gram))
        put(group, "class", present.astype(np.int32))
        put(group, "count", sent.count[present])
        put(group, "cross", smallest(sent.cross[present]))


@contextmanager
def create_uploads(
    path: Path, clients: int, features: int, classes: int, step: float
) -> Iterator[UploadWriter]:
    """Create ``uploads.h5`` for K clients, m features and d classes."""
    shape = {"clients": clients, "features": features, "classes": classes, "step": step}
    with create(path, "uploads", shape) as file:
        yield UploadWriter(file)


@dataclass(frozen=True)
class Uploads:
    """An open ``uploads.h5``.

    Attributes:
        clients: number of clients K.
        zero: the moments of no samples, in this file's shape and step.
    """

    file: h5py.File
    clients: int
    zero: Moments

    def of(self, client: int) -> Moments:
        """What one client sent."""
        group = self.file[_name(client)]
        present = read(group, "class")
        cross, count = np.zeros_like(self.zero.cross), np.zeros_like(self.zero.count)
        cross[present] = read(group, "cross")
        count[present] = read(group, "count")
        return Moments(read(group, "gram").astype(np.int64), cross, count, self.zero.step)


@contextmanager
def open_uploads(path: Path) -> Iterator[Uploads]:
    """Open ``uploads.h5`` for reading."""
    with reading(path, "uploads") as file:
        facts = file.attrs
        zero = Moments.zero(int(facts["features"]), int(facts["classes"]), float(facts["step"]))
        yield Uploads(file, int(facts["clients"]), zero)


def smallest(values: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """The same integers in the smallest signed type that holds them all."""
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    fits = (t for t in TYPES if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return values.astype(next(fits))


def _name(client: int) -> str:
    return f"client/{client:06d}"
