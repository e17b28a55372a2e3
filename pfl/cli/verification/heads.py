"""What must hold of the clients' heads: that they solve their systems and give what is reported."""

import csv
import io
from functools import partial
from pathlib import Path

import numpy as np

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.json import load_report
from pfl.artifacts.project import Project
from pfl.artifacts.provenance import Origins
from pfl.cli.verification.normal_equations import FLOAT32, sum_error
from pfl.data.client_features.feature_map import FeatureMap, open_mapped_features
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.errors import InputError
from pfl.evaluation.heads import head_accuracies
from pfl.evaluation.metrics import PERSONALIZED
from pfl.evaluation.report import clients_told, families, heads_csv, heads_metrics
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.heads import WEIGHTED, Heads, open_heads
from pfl.fedhip.members import read_members, read_upload
from pfl.fedhip.moments import Moments
from pfl.fedhip.server import read_server
from pfl.fedhip.uploads import open_uploads
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order


def origins(project: Project) -> str:
    """Heads of all members and nobody else, of the server's shape, made from what is there."""
    clients = read_clients(project.artifact("clients"))
    server, features = project.artifact("server"), project.artifact("features")
    _, knowledge = read_server(server)
    made = Origins(
        recorded_sha256(server, "server"), clients.sha256, recorded_sha256(features, "features")
    )
    member = read_members(project.artifact("members")).member
    with (
        open_heads(project.artifact("heads")) as heads,
        open_uploads(project.artifact("uploads")) as sent,
    ):
        heads.origins.check("heads", made)
        if FeatureMap.of(heads.file.attrs) != FeatureMap.of(sent.view):
            raise InputError(
                "heads.h5 and uploads.h5 are of features through different maps: run `dvc repro`."
            )
        expected = (clients.train.clients, *knowledge.head.shape)
        if heads.shape != expected:
            raise InputError(
                f"heads.h5 has the shape {heads.shape}, but clients.h5 and server.h5 {expected}: "
                "run `dvc repro personalize`."
            )
        made_of = families(heads.stack[heads.stayed])
        if heads.stayed.tolist() != member.tolist():
            raise InputError(
                "heads.h5 has heads of others than the members of members.h5: run `dvc repro "
                "personalize`."
            )
    counts = ", ".join(f"{count} {name}" for name, count in made_of.items())
    return f"{member.sum()} clients, whose heads have parts of: {counts}"


def equations(project: Project) -> str:
    """Every head solves its normal equations, or is the sum of heads that do."""
    _, knowledge = read_server(project.artifact("server"))
    worst = 0.0
    with (
        open_uploads(project.artifact("uploads")) as sent,
        open_heads(project.artifact("heads")) as heads,
    ):
        clients = ((k, sent.of(k)) for k in range(sent.clients))
        work = partial(_errors, heads, knowledge)
        for client, errors in enumerate(in_order(work, clients, cores())):
            for name, (error, limit) in errors.items():
                worst = max(worst, error)
                if not error <= limit:
                    raise InputError(
                        f"The {name} head of client {client} in heads.h5 misses its normal "
                        f"equations by {error:.2g}, relatively, where {limit:.2g} is allowed: "
                        "run `dvc repro personalize`."
                    )
    return f"largest backward error {worst:.2g}, allowed {FLOAT32:.2g}"


def _errors(
    heads: Heads, server: Knowledge, sent: tuple[int, Moments]
) -> dict[str, tuple[float, float]]:
    """Backward error of a client's heads, and what is allowed, which takes longer to tell."""
    client, own = sent
    if not heads.stayed[client]:
        return {}
    errors = {}
    for kind in WEIGHTED:
        stored = heads.of(kind, server.head, client, client + 1)
        weight, bias = (array[0].astype(np.float64) for array in (stored.weight, stored.bias))
        if kind == PERSONALIZED:
            parts = [(one, factor) for one, factor in heads.made_of(client).values()]
        else:
            parts = [(one, 1.0) for one in heads.chosen(kind)[client : client + 1] if one]
        errors[kind] = sum_error(parts, own, server, weight, bias)
    return errors


def accuracies(project: Project) -> str:
    """The reported accuracies are those that the heads have."""
    _, knowledge = read_server(project.artifact("server"))
    with (
        open_heads(project.artifact("heads")) as heads,
        open_mapped_features(
            project.artifact("features"), FeatureMap.of(heads.file.attrs)
        ) as features,
    ):
        index = read_index(project.artifact("index"))
        clients = read_clients(project.artifact("clients"))
        recomputed = head_accuracies(index, clients, features, knowledge, heads, cores())
        facts, expected = clients_told(heads, clients), heads_csv(recomputed, heads, clients)
    _check_table(project.report / "per_client.csv", expected)
    path = project.report / "metrics.json"
    reported = load_report(path)
    sent = read_upload(project.upload)
    for name, value in heads_metrics(recomputed, sent, facts).items():
        if reported.get(name) != value:
            raise InputError(
                f"{path} reports {reported.get(name)} as '{name}', but the heads have {value}: "
                "run `dvc repro evaluate`."
            )
    return "recomputed from the heads: metrics.json and per_client.csv are the same"


def _check_table(path: Path, expected: str) -> None:
    """Name the first client whose reported line is another."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is missing or damaged ({error}): run `dvc repro evaluate`."
        ) from error
    if text == expected:
        return
    lines = zip(csv.DictReader(io.StringIO(text)), csv.DictReader(io.StringIO(expected)))  # noqa: B905 (a shorter one is wrong as well)
    for old, new in lines:
        if old != new:
            columns = ", ".join(
                f"{name} {old.get(name)} for {value}"
                for name, value in new.items()
                if old.get(name) != value
            )
            raise InputError(
                f"{path} reports other values than the heads have of client {new['client']} "
                f"({columns}): run `dvc repro evaluate`."
            )
    raise InputError(f"{path} has other lines than there are clients: run `dvc repro evaluate`.")
