"""What every client sends, as the artifact ``uploads.h5``: one group a client, integers only.

``client/<number>/gram`` is the packed upper triangle of the client's Gram matrix; ``class``,
``count`` and ``cross`` list the classes the client has, its samples and its sum of features for
each. Units: ``gram`` in step², ``cross`` in step.

Both are in the smallest integer type that holds them. Few need all of 64 bits: beyond 32,
``<name>`` has the low 32 bits and ``<name>-high`` the rest, the value being low + high · 2³².
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Int, Int64

from pfl.artifacts import create, origin, put, read, reading
from pfl.errors import InputError
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
        put_integers(group, "gram", sent.gram)
        put(group, "class", present.astype(np.int32))
        put(group, "count", sent.count[present])
        put_integers(group, "cross", sent.cross[present])


@contextmanager
def create_uploads(
    path: Path, clients: int, features: int, classes: int, step: float, features_sha256: str = ""
) -> Iterator[UploadWriter]:
    """Create ``uploads.h5`` for K clients, m features and d classes.

    ``features_sha256`` is that of the features that the uploads are made from, if of a file.
    """
    facts = {"clients": clients, "features": features, "classes": classes, "step": step}
    with create(path, "uploads", {**facts, "features-sha256": features_sha256}) as file:
        yield UploadWriter(file)


@dataclass(frozen=True)
class Uploads:
    """An open ``uploads.h5``.

    Attributes:
        clients: number of clients K.
        zero: the moments of no samples, in this file's shape and step.
        features_sha256: of the features that they were made from; empty where it is not known.
    """

    file: h5py.File
    clients: int
    zero: Moments
    features_sha256: str

    def of(self, client: int) -> Moments:
        """What one client sent."""
        name = _name(client)
        if name not in self.file:
            raise InputError(
                f"{self.file.filename} holds nothing of client {client}: run `dvc repro gram`."
            )
        group = self.file[name]
        present = read(group, "class")
        cross, count = np.zeros_like(self.zero.cross), np.zeros_like(self.zero.count)
        cross[present] = read_integers(group, "cross")
        count[present] = read(group, "count")
        return Moments(read_integers(group, "gram"), cross, count, self.zero.step)


@contextmanager
def open_uploads(path: Path) -> Iterator[Uploads]:
    """Open ``uploads.h5`` for reading."""
    with reading(path, "uploads") as file:
        facts = file.attrs
        zero = Moments.zero(int(facts["features"]), int(facts["classes"]), float(facts["step"]))
        yield Uploads(file, int(facts["clients"]), zero, origin(file, "features"))


def put_integers(group: h5py.Group, name: str, values: Int64[np.ndarray, "*shape"]) -> None:
    """Store integers in as few bytes as hold them all: one dataset, or two beyond 32 bits."""
    narrow = smallest(values)
    if narrow.dtype != np.int64:
        put(group, name, narrow)
        return
    put(group, name, (values & 0xFFFFFFFF).astype(np.uint32))
    put(group, f"{name}-high", smallest(values >> 32))


def read_integers(group: h5py.Group, name: str) -> Int64[np.ndarray, "*shape"]:
    """Read what :func:`put_integers` stored."""
    values = read(group, name).astype(np.int64)
    if f"{name}-high" in group:
        values += read(group, f"{name}-high").astype(np.int64) << 32
    return values


def smallest(values: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """The same integers in the smallest signed type that holds them all."""
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    fits = (t for t in TYPES if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return values.astype(next(fits))


def _name(client: int) -> str:
    return f"client/{client:06d}"
