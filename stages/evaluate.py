"""Measure what each client gains: accuracy of its local, the global and its personalized head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from pfl.artifacts.files import write_text
from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.json import json_text
from pfl.artifacts.provenance import Origins
from pfl.data.client_features.feature_map import check_feature_map, open_mapped_features
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.evaluation.figures import draw_accuracy, draw_gain
from pfl.evaluation.heads import head_accuracies
from pfl.evaluation.metrics import FEDHIP_PREFIX, GLOBAL_PRIOR, LOCAL, PERSONALIZED
from pfl.evaluation.reliability.bins import bins_csv, bins_of
from pfl.evaluation.reliability.figure import draw_reliability
from pfl.evaluation.report import brief, clients_told, heads_csv, heads_metrics
from pfl.evaluation.stack_figure import draw_stack
from pfl.fedhip.families.table import FAMILIES
from pfl.fedhip.heads import open_heads
from pfl.fedhip.members import read_upload
from pfl.fedhip.server import read_server
from pfl.runtime.machine import cores
from stages._artifacts import ClientsFile, FeaturesFile, HeadsFile, IndexFile, ServerFile
from stages._feature_map import Lift, Norm, Project, Seed, feature_map
from stages._run import run


def evaluate(
    index: IndexFile, clients_file: ClientsFile, features: FeaturesFile, server: ServerFile,
    heads: HeadsFile,
    upload: Annotated[Path, typer.Option(help="How many bytes the clients sent.")],
    report: Annotated[
        Path,
        typer.Option(help="Output folder: metrics.json, summary.json, per_client.csv and figures."),
    ],
    project: Project, lift: Lift, norm: Norm, seed: Seed,
) -> None:  # fmt: skip
    """Test all heads on each client's own test samples and on everybody's."""
    seen = feature_map(project, lift, norm, seed)
    samples, owners = read_index(index), read_clients(clients_file)
    _, knowledge = read_server(server)
    with open_mapped_features(features, seen) as rows, open_heads(heads) as own:
        given = Origins(recorded_sha256(server, "server"), owners.sha256, rows.sha256)
        own.origins.check("heads", given)
        check_feature_map("heads", own.file.attrs, seen)
        accuracies = head_accuracies(samples, owners, rows, knowledge, own, cores())
        facts, stack = clients_told(own, owners), own.stack
        tested = np.where(own.stayed, owners.test.sizes, 0)
        table = heads_csv(accuracies, own, owners)
    numbers = heads_metrics(accuracies, read_upload(upload), facts)
    write_text(report / "metrics.json", json_text(numbers))
    write_text(report / "summary.json", json_text(brief(numbers)))
    write_text(report / "per_client.csv", table)
    local = {head: of.local.clients for head, of in accuracies.items()}
    draw_accuracy(report / "accuracy.png", local, _title(facts))
    baselines = {name: local[name] for name in (GLOBAL_PRIOR, LOCAL)}
    draw_gain(report / "gain.png", local[PERSONALIZED], baselines, tested, PERSONALIZED)
    draw_stack(report / "stack.png", stack, [family.value for family in FAMILIES])
    told = {f"{FEDHIP_PREFIX}{head}": of.local.reliability for head, of in accuracies.items()}
    bins = bins_of(told)
    if bins:
        write_text(report / "reliability.csv", bins_csv(bins))
        draw_reliability(report / "reliability.png", bins)


def _title(facts: Mapping[str, object]) -> str:
    missing, left = facts["clients-without-test"], facts["clients-left-out"]
    title = f"FedHiP: accuracy of each client's heads, {facts['clients']} clients"
    title += f", {missing} of them without test samples" if missing else ""
    return f"{title}; {left} left out" if left else title


if __name__ == "__main__":
    run(evaluate, "report")
