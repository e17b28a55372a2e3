"""What each client keeps, as the artifact ``heads.h5``.

``local`` and ``personalized`` are the heads L_k and P_k, (K, m, d), stored as float32 after being
computed in float64; ``alpha`` is the weight each client's P_k was made with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float

from pfl.artifacts import create, read, reading, reserve


@dataclass(frozen=True)
class HeadWriter:
    """Adds clients, in ascending order, to an open ``heads.h5``."""

    file: h5py.File

    def add(
        self,
        client: int,
        local: Float[np.ndarray, "m d"],
        personalized: Float[np.ndarray, "m d"],
        alpha: float,
    ) -> None:
        """Store one client's heads."""
        self.file["local"][client] = local
        self.file["personalized"][client] = personalized
        self.file["alpha"][client] = alpha


@contextmanager
def create_heads(path: Path, shape: tuple[int, int, int], beta: float) -> Iterator[HeadWriter]:
    """Create ``heads.h5`` of shape (K, m, d)."""
    with create(path, "heads", {"beta": beta}, packages=("numpy", "scipy")) as file:
        for name in ("local", "personalized"):
            reserve(file, name, shape, np.float32)
        reserve(file, "alpha", shape[:1], np.float64)
        yield HeadWriter(file)


@dataclass(frozen=True)
class Heads:
    """An open ``heads.h5``; heads are read a range of clients at a time."""

    file: h5py.File

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
    def alpha(self) -> Float[np.ndarray, " clients"]:
        """The weight α_k of each client."""
        return read(self.file, "alpha")


@contextmanager
def open_heads(path: Path) -> Iterator[Heads]:
    """Open ``heads.h5`` for reading."""
    with reading(path, "heads") as file:
        yield Heads(file)
