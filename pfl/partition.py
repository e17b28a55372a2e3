"""Who holds which samples: training samples by a scheme, test samples after the training ones."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Int

from pfl import schemes
from pfl.apportion import follow
from pfl.clients import Clients, deal
from pfl.index import Index


class Scheme(StrEnum):
    """How training samples are spread over clients; see :mod:`pfl.schemes`."""

    IID = "iid"
    DIRICHLET = "dirichlet"
    PATHOLOGICAL = "pathological"
    QUANTITY = "quantity"
    NATURAL = "natural"


@dataclass(frozen=True)
class Settings:
    """The parameters of a partition.

    Attributes:
        scheme: which of the schemes.
        clients: number of clients K.
        concentration: of the Dirichlet (``dirichlet`` and ``quantity``).
        classes_per_client: at most so many (``pathological``).
        min_samples: training samples that every client has at least.
    """

    scheme: Scheme
    clients: int
    concentration: float
    classes_per_client: int
    min_samples: int

    def used(self) -> dict[str, str | int | float]:
        """Return the parameters that the scheme uses, by the names of their flags."""
        facts: dict[str, str | int | float] = {
            "scheme": self.scheme.value,
            "clients": self.clients,
            "min-samples": self.min_samples,
        }
        if self.scheme in (Scheme.DIRICHLET, Scheme.QUANTITY):
            facts["concentration"] = self.concentration
        if self.scheme is Scheme.PATHOLOGICAL:
            facts["classes-per-client"] = self.classes_per_client
        return facts


@dataclass(frozen=True)
class _Pool:
    """The training samples of an index."""

    label: Int[np.ndarray, " n"]
    group: Int[np.ndarray, " n"]
    groups: tuple[str, ...]


_SCHEMES: dict[Scheme, Callable[[_Pool, Settings, np.random.Generator], np.ndarray]] = {
    Scheme.IID: lambda pool, s, rng: schemes.iid(len(pool.label), s.clients, s.min_samples, rng),
    Scheme.DIRICHLET: lambda pool, s, rng: schemes.dirichlet(
        pool.label, s.clients, s.concentration, s.min_samples, rng
    ),
    Scheme.PATHOLOGICAL: lambda pool, s, rng: schemes.pathological(
        pool.label, s.clients, s.classes_per_client, s.min_samples, rng
    ),
    Scheme.QUANTITY: lambda pool, s, rng: schemes.quantity(
        len(pool.label), s.clients, s.concentration, s.min_samples, rng
    ),
    Scheme.NATURAL: lambda pool, s, rng: schemes.natural(
        pool.group, pool.groups, s.clients, s.min_samples, rng
    ),
}


def partition(index: Index, settings: Settings, rng: np.random.Generator) -> Clients:
    """Deal all training samples to K clients, and the test samples after them.

    Each client's test set follows its own training distribution: of the test samples of class c it
    gets its share of the training samples of class c (within the same group when the scheme is
    ``natural``), rounded down or up without bias. Test samples of a class that nobody trains on
    belong to no client.

    Args:
        index: the samples.
        settings: scheme and parameters; those that the scheme does not use change nothing.
        rng: split into one stream for the training and one for the test samples.

    Raises:
        InputError: the parameters do not fit the data.
    """
    train_rng, test_rng = rng.spawn(2)
    train, test = np.flatnonzero(index.train), np.flatnonzero(index.test)
    pool = _Pool(index.label[train], index.group[train], index.groups)
    owner = _SCHEMES[settings.scheme](pool, settings, train_rng)
    clients, classes = settings.clients, len(index.classes)
    training = deal(owner, train, index.label[train], clients, classes)
    blocks = len(index.groups) if settings.scheme is Scheme.NATURAL else 1
    block = index.group[test] if blocks > 1 else np.zeros(len(test), np.int64)
    owner = deal_test(training.count, index.label[test], block, blocks, test_rng)
    return Clients(training, deal(owner, test, index.label[test], clients, classes))


def deal_test(
    count: Int[np.ndarray, "clients classes"],
    label: Int[np.ndarray, " n"],
    block: Int[np.ndarray, " n"],
    blocks: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Give each test sample a client, or -1, in proportion to the clients' training counts.

    Clients form ``blocks`` consecutive runs of equal length; samples of block b go to run b only,
    where they are dealt by :func:`pfl.apportion.follow`.
    """
    each = len(count) // blocks
    owner = np.full(len(label), -1, np.int64)
    for b in range(blocks):
        members = np.flatnonzero(block == b)
        dealt = follow(count[b * each : (b + 1) * each], label[members], rng)
        owner[members] = np.where(dealt < 0, -1, dealt + b * each)
    return owner
