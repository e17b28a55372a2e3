"""What the server may tell of FedHiP's heads: counts that the clients sent, never a sample."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from flwr.app import RecordDict

from pfl.artifacts.files import write_text
from pfl.artifacts.json import json_text
from pfl.errors import InputError
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies, clients_csv
from pfl.evaluation.metrics import EXTERNAL_TEST, HEADS, accuracy
from pfl.evaluation.report import choice_columns, families, heads_metrics
from pfl.fedhip.selection.candidates import candidates
from pfl.fedhip.selection.choice import scale_of
from pfl.flower.client.fedhip import METRICS, ServerAnswer
from pfl.flower.parameters import personalize_settings
from pfl.flower.server.exchange import Exchange
from pfl.flower.server.traffic import traffic_csv

OUTSIDE = tuple(f"{EXTERNAL_TEST}:{name}" for name in HEADS)
COUNTS = ("train", "test", "choice", "local-choice", EXTERNAL_TEST, *HEADS, *OUTSIDE)

# One client's answer, by ``COUNTS``: samples, the candidates that its heads are, and correct
# predictions.
Counts = Mapping[str, int]


def parse_counts(node: int, content: RecordDict) -> Counts:
    """A client's counts.

    Raises:
        InputError: they are none.
    """
    del node  # every way to parse an answer has the same signature
    sent = content.metric_records[METRICS]
    counts = {name: sent[name] for name in COUNTS}
    whole = {name: value for name, value in counts.items() if isinstance(value, int)}
    if len(whole) < len(COUNTS) or not all(
        0 <= whole[name] <= whole[samples]
        for samples, names in (("test", HEADS), (EXTERNAL_TEST, OUTSIDE))
        for name in names
    ):
        raise InputError(f"it counts {counts}, which cannot be")
    return whole


def write_report(
    folder: Path,
    answer: ServerAnswer,
    counts: Mapping[int, Counts],
    upload_bytes: int,
    net: Exchange,
) -> None:
    """Write ``metrics.json``, ``per_client.csv`` and ``traffic.csv``, in the pipeline's form.

    The tests that take everybody's samples, global and new, are not made.
    """
    settings, _ = personalize_settings(answer.section)
    every = candidates(settings, scale_of(answer.total.gram_matrix(), answer.total.samples))
    clients = sorted(counts)
    column = {name: [counts[client][name] for client in clients] for name in COUNTS}
    chosen = [every[number] for number in column["choice"]]
    local = [every[number] for number in column["local-choice"]]
    facts = {"client": clients, "train": column["train"], "test": column["test"]}
    accuracies = {head: _accuracies(column, head) for head in HEADS}
    run = {
        "families": families(chosen),
        "clients": len(clients),
        "clients-without-test": column["test"].count(0),
        "faults": net.faults,
    }
    table = clients_csv({**facts, **choice_columns(chosen, local)}, accuracies)
    write_text(folder / "per_client.csv", table)
    write_text(folder / "metrics.json", json_text(heads_metrics(accuracies, upload_bytes, run)))
    write_text(folder / "traffic.csv", traffic_csv(net.traffic))


def _accuracies(column: Mapping[str, list[int]], head: str) -> ClientAccuracies:
    """The tests that clients make by themselves; the external one in simulations alone."""

    def made(hits: str, samples: str) -> Accuracies:
        counted = np.array(column[samples], np.int64)
        return Accuracies(accuracy(np.array(column[hits], np.int64), counted), counted)

    tested = any(column[EXTERNAL_TEST])
    external = made(f"{EXTERNAL_TEST}:{head}", EXTERNAL_TEST) if tested else None
    return ClientAccuracies(local=made(head, "test"), external=external)
