"""What every client sends, as the artifact ``uploads.h5``: one group a client, integers only.

``client/<number>/gram`` is the packed upper triangle of the client's Gram matrix; ``class``,
``count`` and ``cross`` list the classes the client has, its samples and its sum of features for
each. Units: ``gram`` in step², ``cross`` in step.

Both are in the smallest integer type that holds them. Few need all of 64 bits: beyond 32,
``<name>`` has the low 32 bits and ``<name>-high`` the rest, the value being low + high · 2³².
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import h5py
import numpy as np
from jaxtyping import Int, Int64, Integer

from pfl.artifacts.hdf5 import Attribute, create, put, read, reading
from pfl.artifacts.provenance import VIEW, origin, recorded_view
from pfl.errors import InputError
from pfl.fedhip.moments import Moments

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
    path: Path,
    clients: int,
    features: int,
    classes: int,
    step: float,
    features_sha256: str = "",
    clients_sha256: str = "",
    view: Mapping[str, Attribute] = MappingProxyType({}),
) -> Iterator[UploadWriter]:
    """Create ``uploads.h5`` for K clients, m features and d classes.

    ``features_sha256`` is that of the features that the uploads are made from, if of a file, and
    ``clients_sha256`` that of who holds which samples; ``view`` tells how features were mapped
    before, in attributes whose names begin with ``VIEW``.
    """
    facts = {"clients": clients, "features": features, "classes": classes, "step": step}
    made_from = {"features-sha256": features_sha256, "clients-sha256": clients_sha256}
    with create(path, "uploads", {**facts, **view, **made_from}) as file:
        yield UploadWriter(file)


@dataclass(frozen=True)
class Uploads:
    """An open ``uploads.h5``.

    Attributes:
        clients: number of clients K.
        zero: the moments of no samples, in this file's shape and step.
        features_sha256: of the features that they were made from; empty where it is not known.
        clients_sha256: of who holds which samples; empty likewise.
        view: how features were mapped before.
    """

    file: h5py.File
    clients: int
    zero: Moments
    features_sha256: str
    clients_sha256: str
    view: Mapping[str, Attribute]

    @property
    def norm(self) -> float:
        """Length that no sample's features exceed; 0 where none is stated."""
        return float(self.view.get(f"{VIEW}norm", 0.0))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the clients in the file, ascending."""
        return tuple(int(name) for name in self.file.get("client", ()))

    def _span(self) -> str:
        numbers = self.numbers
        if len(numbers) < 2:
            return f"client {numbers[0]}" if numbers else "nobody"
        return f"{len(numbers)} clients, the first {numbers[0]} and the last {numbers[-1]}"

    def of(self, client: int) -> Moments:
        """What one client sent."""
        name = _name(client)
        if name not in self.file:
            raise InputError(
                f"{self.file.filename} holds nothing of client {client}, but of {self._span()}: "
                "name one of those, or run `dvc repro gram`, which makes it again."
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
        features, clients = (origin(file, source) for source in ("features", "clients"))
        view = recorded_view(file)
        yield Uploads(file, int(facts["clients"]), zero, features, clients, view)


def read_uploads(paths: Sequence[Path], clients: Sequence[int]) -> list[Moments]:
    """What some clients sent, each in memory: the only client of each file, or some of one file.

    Raises:
        InputError: a client or a file is missing or named twice, or it is not said which is meant.
    """
    for what, names in (("file", paths), ("client", clients)):
        for name, times in Counter(names).items():
            if times > 1:
                raise InputError(f"The {what} {name} is named {times} times: name each once.")
    if clients and len(paths) > 1:
        raise InputError("Clients are named by --client in one file only: give one file a time.")
    sent = []
    for path in paths:
        with open_uploads(path) as uploads:
            sent += [uploads.of(client) for client in clients or [_only(uploads)]]
    return sent


def _only(uploads: Uploads) -> int:
    """The number of the one client in a file."""
    if len(uploads.numbers) != 1:
        raise InputError(
            f"{uploads.file.filename} holds {len(uploads.numbers)} clients: name one with --client."
        )
    return uploads.numbers[0]


def copy_upload(source: Path, client: int, out: Path) -> None:
    """Store what one client sent in a file of its own, under its number.

    Raises:
        InputError: there is no such client.
    """
    with open_uploads(source) as uploads:
        sent, made_from = uploads.of(client), (uploads.features_sha256, uploads.clients_sha256)
        shape = (1, sent.features, len(sent.count))
        with create_uploads(out, *shape, sent.step, *made_from, uploads.view) as copy:
            copy.add(client, sent)


def put_integers(group: h5py.Group, name: str, values: Int64[np.ndarray, "*shape"]) -> None:
    """Store integers in as few bytes as hold them all: one dataset, or two beyond 32 bits."""
    for part, narrow in narrowed(name, values).items():
        put(group, part, narrow)


def read_integers(group: h5py.Group, name: str) -> Int64[np.ndarray, "*shape"]:
    """Read what :func:`put_integers` stored."""
    high = read(group, _high(name)) if _high(name) in group else None
    return widened(read(group, name), high)


def packed(sent: Moments) -> dict[str, np.ndarray]:
    """What a client sends: packed Gram triangle, and count and class sums of its classes alone."""
    present = np.flatnonzero(sent.count)
    return {
        **narrowed("gram", sent.gram),
        "class": present.astype(np.int32),
        **narrowed("count", sent.count[present]),
        **narrowed("cross", sent.cross[present]),
    }


def packed_bytes(sent: Moments) -> int:
    """Size of an upload: its numbers alone, without what a file or a message puts around them."""
    return sum(part.nbytes for part in packed(sent).values())


def narrowed(name: str, values: Int64[np.ndarray, "*shape"]) -> dict[str, np.ndarray]:
    """The integers under ``name`` in as few bytes as hold them all, with a high part if need be."""
    narrow = smallest(values)
    if narrow.dtype != np.int64:
        return {name: narrow}
    return {name: (values & 0xFFFFFFFF).astype(np.uint32), _high(name): smallest(values >> 32)}


def widened(
    low: Integer[np.ndarray, "*shape"], high: Integer[np.ndarray, "*shape"] | None
) -> Int64[np.ndarray, "*shape"]:
    """Inverse of :func:`narrowed`."""
    values = low.astype(np.int64)
    return values if high is None else values + (high.astype(np.int64) << 32)


def _high(name: str) -> str:
    return f"{name}-high"


def smallest(values: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """The same integers in the smallest signed type that holds them all."""
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    fits = (t for t in TYPES if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return values.astype(next(fits))


def _name(client: int) -> str:
    return f"client/{client:06d}"
