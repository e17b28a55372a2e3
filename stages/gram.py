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
from stages._run import run
from stages._view import Lift, Norm, Project, Seed, feature_map


def gram(
    index: Annotated[Path, typer.Option(help="The sample index.")],
    clients_file: Annotated[Path, typer.Option(help="Who holds which samples.")],
    features: Annotated[Path, typer.Option(help="The fixed-point features.")],
    out: Annotated[Path, typer.Option(help="Output: what every client sends.")],
    project: Project,
    lift: Lift,
    norm: Norm,
    seed: Seed,
) -> None:
    """Compute what every client sends: Gram matrix, class sums and counts, as exact integers."""
    seen = feature_map(project, lift, norm, seed)
    keep_memory()
    samples, clients = read_index(index), read_clients(clients_file)
    held, classes = clients.train, len(samples.classes)
    with (
        open_mapped_features(features, seen) as source,
        create_uploads(
            out,
            held.clients,
            source.m,
            classes,
            source.step,
            source.sha256,
            clients.sha256,
            seen.facts,
        ) as uploads,
    ):
        sent = progress(client_moments(source, held, samples), held.clients, "clients", "gram")
        for client, upload in enumerate(sent):
            uploads.add(client, upload)


def client_moments(source: Features, held: Assignment, samples: Index) -> Iterator[Moments]:
    """Moments of each client in order, computed by one thread per core."""

    def work(own: ClientSamples) -> Moments:
        return moments(own.rows, own.labels, len(samples.classes), source.step)

    return in_order(work, by_client(source, samples, held), cores())


if __name__ == "__main__":
    run(gram, "out")
