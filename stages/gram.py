"""Phase 1 on the clients: exact integer moments of every client's training features."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.client_features.feature_map import open_mapped_features
from pfl.data.features.features import Features
from pfl.data.samples.clients import Assignment, read_clients
from pfl.data.samples.index import Index, read_index
from pfl.fedhip.moments import Moments, moments
from pfl.fedhip.uploads import create_uploads
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory
from pfl.runtime.progress import progress
from stages._artifacts import ClientsFile, FeaturesFile, IndexFile
from stages._feature_map import Lift, Norm, Project, Seed, feature_map
from stages._run import run


def gram(
    index: IndexFile, clients_file: ClientsFile, features: FeaturesFile,
    out: Annotated[Path, typer.Option(help="Output: what every client sends.")],
    project: Project, lift: Lift, norm: Norm, seed: Seed,
) -> None:  # fmt: skip
    """Compute what every client sends: Gram matrix, class sums and counts, as exact integers."""
    seen = feature_map(project, lift, norm, seed)
    keep_memory()
    samples, clients = read_index(index), read_clients(clients_file)
    count = clients.train.clients
    with open_mapped_features(features, seen) as source:
        shape = (count, source.m, len(samples.classes))
        origins = (source.sha256, clients.sha256)
        sent = progress(client_moments(source, clients.train, samples), count, "clients", "gram")
        with create_uploads(out, *shape, source.step, *origins, seen.facts) as uploads:
            for client, upload in enumerate(sent):
                uploads.add(client, upload)


def client_moments(source: Features, assignment: Assignment, samples: Index) -> Iterator[Moments]:
    """Moments of each client in order, computed by one thread per core."""

    def work(own: ClientSamples) -> Moments:
        return moments(own.rows, own.labels, len(samples.classes), source.step)

    return in_order(work, by_client(source, samples, assignment), cores())


if __name__ == "__main__":
    run(gram, "out")
