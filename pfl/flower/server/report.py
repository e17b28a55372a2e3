"""What the server may tell of FedHiP's heads: sums that the clients sent, never a sample."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import RecordDict

from pfl.artifacts.files import write_text
from pfl.artifacts.json import json_text
from pfl.errors import InputError
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies, clients_csv
from pfl.evaluation.metrics import EQUATION_14, EXTERNAL_TEST, HEADS, LOCAL, accuracy
from pfl.evaluation.reliability.sums import Reliability, joined
from pfl.evaluation.report import choice_columns, families, heads_metrics
from pfl.fedhip.closed_form import received
from pfl.fedhip.families.table import FAMILIES
from pfl.fedhip.selection.candidates import personalize_settings
from pfl.fedhip.selection.choice import prepare_choice
from pfl.flower.client.fedhip import BY_BIN, HITS, METRICS, ServerAnswer
from pfl.flower.messages.reliability import reliability_of
from pfl.flower.server.exchange import Exchange
from pfl.flower.server.traffic import traffic_csv

CHOICES = tuple(f"choice:{kind}" for kind in (LOCAL, EQUATION_14))
OUTSIDE = tuple(f"{EXTERNAL_TEST}:{name}" for name in HEADS)
COUNTS = ("train", "test", EXTERNAL_TEST, *OUTSIDE, *(f"{name}:{HITS}" for name in HEADS))
LISTS = ("member", "stack")  # a number for each family

# One client's answer: counts of samples and correct predictions, the candidates that its heads are
# and their weights, and the sums that tell how reliable its probabilities are.
Told = Mapping[str, int | float | list[int] | list[float]]
Columns = dict[str, list[Any]]  # the same of all clients


def parse_told(node: int, content: RecordDict) -> Told:
    """A client's answer.

    Raises:
        InputError: it cannot be.
    """
    del node  # every way to parse an answer has the same signature
    sent = dict(content.metric_records[METRICS].items())
    counts = {name: sent.get(name) for name in (*COUNTS, *CHOICES)}
    whole = {name: value for name, value in counts.items() if isinstance(value, int)}
    right = [(f"{name}:{HITS}", "test") for name in HEADS]
    right += [(name, EXTERNAL_TEST) for name in OUTSIDE]
    if len(whole) < len(counts) or not all(0 <= whole[hits] <= whole[of] for hits, of in right):
        raise InputError(f"it counts {counts}, which cannot be")
    for name in (*LISTS, "prior"):
        value = np.asarray(sent.get(name, np.nan), np.float64)
        shape = () if name == "prior" else (len(FAMILIES),)
        if value.shape != shape or not np.isfinite(value).all():
            raise InputError(f"its '{name}' is {sent.get(name)}, which cannot be")
    for name in HEADS:
        if reliability_of(sent, f"{name}:{BY_BIN}").samples[0] != whole["test"]:
            raise InputError("its sums of probabilities are of more or fewer samples than its test")
    return sent


def write_report(
    folder: Path,
    answer: ServerAnswer,
    told: Mapping[int, Told],
    upload_bytes: int,
    net: Exchange,
) -> None:
    """Write ``metrics.json``, ``per_client.csv`` and ``traffic.csv``, in the pipeline's form.

    The tests that take everybody's samples, global and new, are not made.

    Raises:
        InputError: a client names a head that there is not.
    """
    server = received(answer.total, answer.head, answer.beta)
    every = prepare_choice(server, personalize_settings(answer.section)).candidates
    clients = sorted(told)
    column: Columns = {name: [told[client][name] for client in clients] for name in _NAMES}
    numbers = np.array([column[name] for name in CHOICES], np.int64).ravel()
    if ((numbers < 0) | (numbers >= len(every))).any():
        raise InputError(
            f"A client names a head that is none of the {len(every)} there are: let all sites "
            "install the same version of this package."
        )
    local, paper = ([every[i] for i in row] for row in numbers.reshape(len(CHOICES), -1).tolist())
    stack = np.array(column["stack"], np.float64).reshape(len(clients), len(FAMILIES))
    facts: dict[str, Sequence[object]] = {
        "client": clients, "train": column["train"], "test": column["test"],
    }  # fmt: skip
    chosen = choice_columns(stack, np.array(column["prior"], np.float64), local, paper)
    accuracies = {head: _accuracies(told, column, head) for head in HEADS}
    run = {
        "families": families(stack),
        "clients": len(clients),
        "clients-without-test": column["test"].count(0),
        "faults": net.faults,
    }
    write_text(folder / "per_client.csv", clients_csv(facts | chosen, accuracies))
    write_text(folder / "metrics.json", json_text(heads_metrics(accuracies, upload_bytes, run)))
    write_text(folder / "traffic.csv", traffic_csv(net.traffic))


_NAMES = (*COUNTS, *CHOICES, *LISTS, "prior")


def _accuracies(told: Mapping[int, Told], column: Columns, head: str) -> ClientAccuracies:
    """The tests that clients make by themselves; the external one in simulations alone."""

    def made(hits: str, samples: str, reliable: Reliability | None = None) -> Accuracies:
        counted = np.array(column[samples], np.int64)
        values = accuracy(np.array(column[hits], np.int64), counted)
        return Accuracies(values, counted, reliability=reliable)

    sums = joined([reliability_of(told[k], f"{head}:{BY_BIN}") for k in sorted(told)])
    tested = any(column[EXTERNAL_TEST])
    external = made(f"{EXTERNAL_TEST}:{head}", EXTERNAL_TEST) if tested else None
    return ClientAccuracies(local=made(f"{head}:{HITS}", "test", sums), external=external)
