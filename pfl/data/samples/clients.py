"""Who holds which samples: the artifact ``clients.h5``.

Per split, ``sample`` lists sample numbers sorted by (client, label, sample number) and
``offset[k] : offset[k + 1]`` is client k's part, so that a client's rows, and within it each
class's rows, are contiguous and nobody needs fancy indexing. ``external`` lists the samples of
the group that takes no part, if there is one.
"""

from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Int

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import create, put, read, reading
from pfl.artifacts.provenance import origin
from pfl.errors import InputError


@dataclass(frozen=True)
class Assignment:
    """Who of K clients holds which samples of one split.

    Attributes:
        sample: sample numbers sorted by (client, label, sample number).
        offset: client k holds ``sample[offset[k]:offset[k + 1]]``.
        count: samples per client and class.
        index_sha256: of the index whose samples it lists; empty where it is not known.
    """

    sample: Int[np.ndarray, " n"]
    offset: Int[np.ndarray, " clients_plus_1"]
    count: Int[np.ndarray, "clients classes"]
    index_sha256: str = ""

    def of(self, client: int) -> Int[np.ndarray, " n_k"]:
        """Sample numbers of one client, sorted by label, then number."""
        return self.sample[self.offset[client] : self.offset[client + 1]]

    @property
    def clients(self) -> int:
        """Number of clients K."""
        return len(self.offset) - 1

    @property
    def sizes(self) -> Int[np.ndarray, " clients"]:
        """Samples per client."""
        return np.diff(self.offset)


@dataclass(frozen=True)
class Clients:
    """Who holds which training and which test samples, of the same K clients.

    Attributes:
        train: the training samples.
        test: the test samples.
        external: ascending numbers of the samples that nobody holds because their group takes no
            part, see :mod:`pfl.data.samples.external_group`; none where all groups do.
        sha256: of their own file; empty where there is none yet.
    """

    train: Assignment
    test: Assignment
    external: Int[np.ndarray, " e"] = field(default_factory=lambda: np.empty(0, np.int64))
    sha256: str = ""


def assign(
    owner: Int[np.ndarray, " n"],
    sample: Int[np.ndarray, " n"],
    label: Int[np.ndarray, " n"],
    clients: int,
    classes: int,
) -> Assignment:
    """Sort samples by owner, label and number; samples owned by -1 belong to nobody."""
    owned = owner >= 0
    owner, sample, label = owner[owned], sample[owned], label[owned]
    order = np.lexsort((sample, label, owner))
    count = np.bincount(owner * classes + label, minlength=clients * classes)
    count = count.reshape(clients, classes).astype(np.int64)
    offset = np.concatenate(([0], np.cumsum(count.sum(1)))).astype(np.int64)
    return Assignment(sample[order].astype(np.int64), offset, count)


def write_clients(path: Path, clients: Clients, attributes: dict[str, str | int | float]) -> None:
    """Store both assignments as the artifact ``clients.h5``."""
    with create(path, "clients", attributes) as file:
        for name, part in (("train", clients.train), ("test", clients.test)):
            group = file.create_group(name)
            put(group, "sample", part.sample)
            put(group, "offset", part.offset)
            put(group, "count", part.count)
        if len(clients.external):
            put(file, "external", clients.external.astype(np.int64))


def read_clients(path: Path) -> Clients:
    """Load ``clients.h5``."""
    with reading(path, "clients") as file:
        made_from = origin(file, "index")
        train, test = (_read_assignment(file[part], made_from) for part in ("train", "test"))
        external = read(file, "external") if "external" in file else np.empty(0, np.int64)
        return Clients(train, test, external, recorded_sha256(path, "clients"))


def _read_assignment(group: h5py.Group, index_sha256: str) -> Assignment:
    return Assignment(
        read(group, "sample"), read(group, "offset"), read(group, "count"), index_sha256
    )


def check_number(client: int, clients: int) -> None:
    """Refuse the number of a client that is not one of K.

    Raises:
        InputError: it is not in 0 … K-1.
    """
    if not 0 <= client < clients:
        raise InputError(
            f"There is no client {client}: the {clients} clients have the numbers 0 to "
            f"{clients - 1}."
        )
