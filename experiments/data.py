"""What studies read of a run: samples, clients, sums, and the server's answer to them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pfl.data.client_features.by_client import ClientSamples
from pfl.data.partition.partition import PartitionSettings, Scheme, partition_samples
from pfl.data.samples.clients import Clients, read_clients
from pfl.data.samples.index import Index, read_index
from pfl.fedhip.closed_form import Knowledge, aggregate
from pfl.fedhip.moments import Moments, moments, total
from pfl.ridge.gcv import choose_beta, global_path
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order

IID = "iid"
FEWEST = 10  # training samples that every client has at least


def deal(folder: Path, clients: int, concentration: str, seed: int) -> tuple[Index, Clients]:
    """The samples of a folder, and who holds which when they are dealt anew.

    ``concentration`` is that of a Dirichlet partition, or ``IID``.
    """
    index = read_index(folder / "index.h5")
    scheme = Scheme(IID) if concentration == IID else Scheme("dirichlet")
    alpha = 1.0 if concentration == IID else float(concentration)
    settings = PartitionSettings(scheme, clients, alpha, 2, FEWEST, "")
    return index, partition_samples(index, settings, np.random.default_rng(seed))


def read_samples(folder: Path, clients: Path | None = None) -> tuple[Index, Clients]:
    """The samples of a run, and who holds which of them, if not as another file has it."""
    return read_index(folder / "index.h5"), read_clients(clients or folder / "clients.h5")


def summed(clients: Iterable[ClientSamples], zero: Moments) -> Moments:
    """Sums over clients, which are computed on all cores; ``zero`` has their sizes."""
    classes = len(zero.count)
    sent = in_order(lambda own: moments(own.rows, own.labels, classes, zero.step), clients, cores())
    return total(sent, zero)


def tuned(sums: Moments) -> Knowledge:
    """The server's answer, its β by generalized cross-validation."""
    return aggregate(sums, choose_beta(global_path(*sums.ridge_sums())))
