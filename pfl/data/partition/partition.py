"""Who holds which samples: training samples by a scheme, test samples after the training ones."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Int

from pfl.data.partition import schemes
from pfl.data.partition.apportion import deal_in_proportion
from pfl.data.samples.clients import Clients, assign
from pfl.data.samples.external_group import inside, outside
from pfl.data.samples.index import Index


class Scheme(StrEnum):
    """How training samples are spread over clients; see :mod:`pfl.data.partition.schemes`."""

    IID = "iid"
    DIRICHLET = "dirichlet"
    PATHOLOGICAL = "pathological"
    QUANTITY = "quantity"
    NATURAL = "natural"


@dataclass(frozen=True)
class PartitionSettings:
    """The parameters of a partition.

    Attributes:
        scheme: which of the schemes.
        clients: number of clients K.
        concentration: of the Dirichlet (``dirichlet`` and ``quantity``).
        classes_per_client: at most so many (``pathological``).
        min_samples: training samples that every client has at least.
        external_group: name of a group whose samples no client gets; empty for none.
    """

    scheme: Scheme
    clients: int
    concentration: float
    classes_per_client: int
    min_samples: int
    external_group: str = ""

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
        if self.external_group:
            facts["external-group"] = self.external_group
        return facts


@dataclass(frozen=True)
class _Pool:
    """Samples of one split that clients may get, and the groups that take part."""

    label: Int[np.ndarray, " n"]
    group: Int[np.ndarray, " n"]
    groups: tuple[str, ...]


_SCHEMES: dict[Scheme, Callable[[_Pool, PartitionSettings, np.random.Generator], np.ndarray]] = {
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


def partition_samples(
    index: Index, settings: PartitionSettings, rng: np.random.Generator
) -> Clients:
    """Deal all training samples to K clients, and the test samples after them.

    Samples of the external group are set aside first, and dealt to nobody.

    Each client's test set follows its own training distribution: of the test samples of class c it
    gets its share of the training samples of class c (within the same group when the scheme is
    ``natural``), rounded down or up without bias. Test samples of a class that nobody trains on
    belong to no client. Parameters that the scheme does not use change nothing. Training and test
    samples have each a stream of random numbers of their own.

    Raises:
        InputError: the parameters do not fit the data.
    """
    train_rng, test_rng = rng.spawn(2)
    aside = outside(index, settings.external_group)
    train, test = np.flatnonzero(index.train & ~aside), np.flatnonzero(index.test & ~aside)
    pool, tests = (_pool(index, rows, settings.external_group) for rows in (train, test))
    owner = _SCHEMES[settings.scheme](pool, settings, train_rng)
    clients, classes = settings.clients, len(index.classes)
    training = assign(owner, train, pool.label, clients, classes)
    blocks = len(tests.groups) if settings.scheme is Scheme.NATURAL else 1
    block = tests.group if blocks > 1 else np.zeros(len(test), np.int64)
    owner = deal_test(training.count, tests.label, block, blocks, test_rng)
    dealt = assign(owner, test, tests.label, clients, classes)
    return Clients(training, dealt, np.flatnonzero(aside))


def _pool(index: Index, rows: Int[np.ndarray, " n"], external_group: str) -> _Pool:
    return _Pool(index.label[rows], *inside(index.group[rows], index.groups, external_group))


def deal_test(
    count: Int[np.ndarray, "clients classes"],
    label: Int[np.ndarray, " n"],
    block: Int[np.ndarray, " n"],
    blocks: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Give each test sample a client, or -1, in proportion to the clients' training counts.

    Clients form ``blocks`` consecutive runs of equal length; samples of block b go to run b only,
    where they are dealt by :func:`pfl.data.partition.apportion.deal_in_proportion`.
    """
    each = len(count) // blocks
    owner = np.full(len(label), -1, np.int64)
    for b in range(blocks):
        members = np.flatnonzero(block == b)
        dealt = deal_in_proportion(count[b * each : (b + 1) * each], label[members], rng)
        owner[members] = np.where(dealt < 0, -1, dealt + b * each)
    return owner
