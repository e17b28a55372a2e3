"""Measure what each client gains: accuracy of its local, the global and its personalized head."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pfl.artifacts.files import write_text
from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.provenance import Origins
from pfl.data.client_features.feature_map import check_feature_map, open_mapped_features
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.evaluation.alpha_curve import accuracy_curves
from pfl.evaluation.alpha_figure import draw_curves
from pfl.evaluation.figures import draw_accuracy, draw_gain
from pfl.evaluation.heads import Evaluation
from pfl.evaluation.heads import evaluate as measure
from pfl.evaluation.metrics import GLOBAL, LOCAL, PERSONALIZED
from pfl.evaluation.report import brief, metrics, table
from pfl.fedhip.heads import open_heads
from pfl.fedhip.server import read_server
from pfl.runtime.machine import cores
from stages._run import run
from stages._view import Lift, Norm, Project, Seed, feature_map


def evaluate(
    index: Annotated[Path, typer.Option(help="The sample index.")],
    clients_file: Annotated[Path, typer.Option(help="Who holds which samples.")],
    features: Annotated[Path, typer.Option(help="The fixed-point features.")],
    server: Annotated[Path, typer.Option(help="What the server sent back: the global head.")],
    heads: Annotated[Path, typer.Option(help="The clients' local and personalized heads.")],
    report: Annotated[
        Path,
        typer.Option(help="Output folder: metrics.json, summary.json, per_client.csv and figures."),
    ],
    project: Project,
    lift: Lift,
    norm: Norm,
    seed: Seed,
) -> None:
    """Test all heads on each client's own test samples and on everybody's."""
    seen = feature_map(project, lift, norm, seed)
    samples, held = read_index(index), read_clients(clients_file)
    _, knowledge = read_server(server)
    with open_mapped_features(features, seen) as rows, open_heads(heads) as own:
        given = Origins(recorded_sha256(server, "server"), held.sha256, rows.sha256)
        own.origins.check("heads", given)
        check_feature_map("heads", own.file.attrs, seen)
        result = measure(samples, held, rows, knowledge.head, own, cores())
        curves = accuracy_curves(samples, held, rows, knowledge, result.stayed, cores())
    told = metrics(result)
    for name, part in (("metrics.json", told), ("summary.json", brief(told))):
        write_text(report / name, json.dumps(part, indent=2, allow_nan=False) + "\n")
    write_text(report / "per_client.csv", table(result))
    draw_accuracy(report / "accuracy.png", result.own, _title(result))
    baselines = {name: result.own[name] for name in (GLOBAL, LOCAL)}
    draw_gain(report / "gain.png", result.own[PERSONALIZED], baselines, result.tested, PERSONALIZED)
    draw_curves(report / "path.png", curves, result.chosen, result.own)


def _title(result: Evaluation) -> str:
    stayed = result.stayed
    missing, left = int((result.tested[stayed] == 0).sum()), int((~stayed).sum())
    title = f"FedHiP: accuracy of each client's heads, {stayed.sum()} clients"
    title += f", {missing} of them without test samples" if missing else ""
    return f"{title}; {left} left out" if left else title


if __name__ == "__main__":
    run(evaluate, "report")
