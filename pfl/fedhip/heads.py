"""What each client keeps, as the artifact ``heads.h5``.

``local`` and ``personalized`` are the heads L_k and P_k, (K, m, d), stored as float32 after being
computed in float64. How they came about: the group ``candidate`` lists ``family``, ``alpha``,
``beta`` and ``rho`` of every head a client could choose, NaN where a family has no such parameter.
``choice`` and ``local-choice`` are the numbers of those chosen for P_k and L_k. ``leave-one-out``
is the loss of every candidate at every client, (K, candidates), NaN where none was computed.

A client that left has no heads: its choices are ``NO_CHOICE`` and its rows NaN.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Bool, Float

from pfl.artifacts.hdf5 import Attribute, create, put, put_text, read, read_text, reading, reserve
from pfl.artifacts.provenance import UNKNOWN, Origins
from pfl.fedhip.families.family import Parameters
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.selection.choice import Chosen

NO_CHOICE = -1
NOTHING = {
    **dict.fromkeys(("local", "personalized", "leave-one-out"), np.nan),
    **dict.fromkeys(("local-choice", "choice"), NO_CHOICE),
}
PARAMETERS = tuple(parameter.name for parameter in fields(Parameters))


@dataclass(frozen=True)
class HeadWriter:
    """Adds clients, in ascending order, to an open ``heads.h5``."""

    file: h5py.File

    def add(self, client: int, chosen: Chosen | None) -> None:
        """Store one client's heads, or that it left."""
        values: Mapping[str, object] = NOTHING
        if chosen is not None:
            values = {
                "local": chosen.local,
                "personalized": chosen.personalized,
                "local-choice": chosen.local_choice,
                "choice": chosen.choice,
                "leave-one-out": chosen.losses,
            }
        for name, value in values.items():
            self.file[name][client] = value


@contextmanager
def create_heads(
    path: Path,
    shape: tuple[int, int, int],
    candidates: Sequence[Candidate],
    attributes: Mapping[str, Attribute],
    origins: Origins = UNKNOWN,
) -> Iterator[HeadWriter]:
    """Create ``heads.h5`` of shape (K, m, d) for these candidates, and say what it is made from."""
    facts = {**attributes, **origins.attributes()}
    with create(path, "heads", facts, packages=("numpy", "scipy")) as file:
        group = file.create_group("candidate")
        put_text(group, "family", [candidate.family.value for candidate in candidates])
        for name in PARAMETERS:
            put(group, name, np.array([getattr(candidate, name) for candidate in candidates]))
        for name in ("local", "personalized"):
            reserve(file, name, shape, np.float32)
        for name in ("local-choice", "choice"):
            reserve(file, name, shape[:1], np.int32)
        reserve(file, "leave-one-out", (shape[0], len(candidates)), np.float64)
        yield HeadWriter(file)


@dataclass(frozen=True)
class Heads:
    """An open ``heads.h5``; heads are read a range of clients at a time.

    Attributes:
        candidates: what a client could choose.
        origins: what the heads were made from.
    """

    file: h5py.File
    candidates: tuple[Candidate, ...]
    origins: Origins

    @property
    def shape(self) -> tuple[int, int, int]:
        """(K, m, d)."""
        clients, features, classes = self.file["local"].shape
        return clients, features, classes

    def local(self, start: int, stop: int) -> Float[np.ndarray, "k m d"]:
        """L_k of clients ``start`` to ``stop``."""
        return read(self.file, "local", slice(start, stop))

    def personalized(self, start: int, stop: int) -> Float[np.ndarray, "k m d"]:
        """P_k of clients ``start`` to ``stop``."""
        return read(self.file, "personalized", slice(start, stop))

    @property
    def chosen(self) -> tuple[Candidate | None, ...]:
        """What each P_k is; None for a client that left."""
        return self._chosen("choice")

    @property
    def chosen_local(self) -> tuple[Candidate | None, ...]:
        """What each L_k is; None likewise."""
        return self._chosen("local-choice")

    @property
    def stayed(self) -> Bool[np.ndarray, " clients"]:
        """Which clients did not leave."""
        return np.array(read(self.file, "choice") != NO_CHOICE, bool)

    def _chosen(self, name: str) -> tuple[Candidate | None, ...]:
        numbers = read(self.file, name).tolist()
        return tuple(None if i == NO_CHOICE else self.candidates[i] for i in numbers)

    @property
    def losses(self) -> Float[np.ndarray, "clients candidates"]:
        """Leave-one-out loss of every candidate at every client."""
        return read(self.file, "leave-one-out")


@contextmanager
def open_heads(path: Path) -> Iterator[Heads]:
    """Open ``heads.h5`` for reading."""
    with reading(path, "heads") as file:
        group = file["candidate"]
        columns = [read(group, name).tolist() for name in PARAMETERS]
        candidates = (
            Candidate(Family(family), **dict(zip(PARAMETERS, row, strict=True)))
            for family, *row in zip(read_text(group, "family"), *columns, strict=True)
        )
        yield Heads(file, tuple(candidates), Origins.of(file))
