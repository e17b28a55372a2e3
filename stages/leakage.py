"""Attack what every client sends, as the server could, and count the samples that this exposes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from pfl.artifacts.files import write_text
from pfl.artifacts.json import json_text
from pfl.artifacts.provenance import check_origin
from pfl.data.client_features.feature_map import check_feature_map, open_mapped_features
from pfl.data.samples.clients import Assignment, assign, read_clients
from pfl.data.samples.index import Index, read_index
from pfl.fedhip.moments import Moments, total
from pfl.fedhip.uploads import Uploads, open_uploads
from pfl.privacy.leakage.attack import Intercepted
from pfl.privacy.leakage.figure import draw_exposure
from pfl.privacy.leakage.report import metrics, table, words
from pfl.privacy.leakage.score import survey
from pfl.runtime.machine import cores
from pfl.runtime.process import keep_memory
from pfl.runtime.progress import progress
from stages._artifacts import ClientsFile, FeaturesFile, IndexFile, UploadsFile
from stages._feature_map import Lift, Norm, Project, Seed, feature_map
from stages._run import run


def leakage(
    index: IndexFile, clients_file: ClientsFile, features: FeaturesFile, uploads: UploadsFile,
    report: Annotated[
        Path,
        typer.Option(help="Output folder: leakage.md, metrics.json, per_client.csv, leakage.png."),
    ],
    project: Project, lift: Lift, norm: Norm, seed: Seed,
) -> None:  # fmt: skip
    """Run the attacks on every client's upload and on their sum, and compare with the truth.

    The attacks see the uploads alone; index, clients and features are the truth.
    """
    seen = feature_map(project, lift, norm, seed)
    keep_memory()
    samples, owners = read_index(index), read_clients(clients_file)
    # The findings do not depend on these numbers, so their seed is no parameter.
    rng = np.random.default_rng(0)
    with open_mapped_features(features, seen) as source, open_uploads(uploads) as sent:
        check_origin("uploads", sent.features_sha256, "features", source.sha256)
        check_origin("uploads", sent.clients_sha256, "clients", owners.sha256)
        check_feature_map("uploads", sent.view, seen)
        summed = total((sent.of(client) for client in range(sent.clients)), sent.zero)
        each = progress(intercept(sent), sent.clients, "clients", "leakage")
        clients = survey(source, samples, owners.train, each, rng, cores())
        everybody = together(owners.train, samples)
        (of_sum,) = survey(source, samples, everybody, [without_counts(summed)], rng, 1)
        width = source.m
    write_text(report / "metrics.json", json_text(metrics(clients, of_sum)))
    write_text(report / "per_client.csv", table(clients, of_sum))
    write_text(report / "leakage.md", words(clients, of_sum, width))
    draw_exposure(report / "leakage.png", clients, of_sum, width)


def intercept(sent: Uploads) -> Iterator[Intercepted]:
    """What the attacker looks at, client by client."""
    return (without_counts(sent.of(client)) for client in range(sent.clients))


def without_counts(sent: Moments) -> Intercepted:
    """An upload as the paper has it, without class counts."""
    return Intercepted(sent.gram, sent.cross)


def together(assignment: Assignment, samples: Index) -> Assignment:
    """The same samples as if one client had them all."""
    sample = assignment.sample
    owner = np.zeros(len(sample), np.int64)
    merged = assign(owner, sample, samples.label[sample], 1, len(samples.classes))
    return Assignment(merged.sample, merged.offset, merged.count, assignment.index_sha256)


if __name__ == "__main__":
    run(leakage, "report")
