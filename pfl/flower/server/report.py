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
from pfl.evaluation.reliability import BINS, Reliability
from pfl.evaluation.report import choice_columns, families, heads_metrics
from pfl.fedhip.closed_form import received
from pfl.fedhip.families.table import FAMILIES
from pfl.fedhip.selection.candidates import personalize_settings
from pfl.fedhip.selection.choice import NO_CHOICE, prepare_choice
from pfl.flower.client.fedhip import METRICS, ServerAnswer
from pfl.flower.server.exchange import Exchange
from pfl.flower.server.traffic import traffic_csv

CHOICES = tuple(f"choice:{kind}" for kind in (LOCAL, EQUATION_14))
OUTSIDE = tuple(f"{EXTERNAL_TEST}:{name}" for name in HEADS)
COUNTS = ("train", "test", EXTERNAL_TEST, *OUTSIDE, *(f"{name}:hits" for name in HEADS))
BY_BIN = ("bins", "confidence", "hits-by-bin")

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
    if not all(isinstance(value, int) for value in counts.values()) or not _possible(sent):
        raise InputError(f"it tells {sent}, which cannot be")
    return sent


def _possible(sent: Told) -> bool:
    """Whether counts and sums are of the right form, and no more is right than was tested."""
    try:
        lists = {f"{name}:{part}": BINS for name in HEADS for part in BY_BIN}
        lists |= {"member": len(FAMILIES), "stack": len(FAMILIES)}
        numbers = {name: np.asarray(sent[name], np.float64) for name in (*lists, *COUNTS)}
        single = [np.asarray(sent[n], np.float64) for n in ("prior", *(f"{h}:loss" for h in HEADS))]
    except (KeyError, ValueError, TypeError):
        return False
    shapes = all(numbers[name].shape == (size,) for name, size in lists.items())
    known = [*numbers.values(), *single]
    if not shapes or not all(np.isfinite(value).all() for value in known):
        return False
    right = [(f"{name}:hits", "test") for name in HEADS]
    right += [(name, EXTERNAL_TEST) for name in OUTSIDE]
    return (
        all(0 <= numbers[hits] <= numbers[samples] for hits, samples in right)
        and all(numbers[f"{name}:bins"].sum() == numbers["test"] for name in HEADS)
        and bool((numbers["member"] >= NO_CHOICE).all())
    )


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
    accuracies = {head: _accuracies(column, head) for head in HEADS}
    run = {
        "families": families(stack),
        "clients": len(clients),
        "clients-without-test": column["test"].count(0),
        "faults": net.faults,
    }
    write_text(folder / "per_client.csv", clients_csv(facts | chosen, accuracies))
    write_text(folder / "metrics.json", json_text(heads_metrics(accuracies, upload_bytes, run)))
    write_text(folder / "traffic.csv", traffic_csv(net.traffic))


_NAMES = (
    *COUNTS, *CHOICES, "stack", "prior",
    *(f"{head}:{part}" for head in HEADS for part in ("loss", *BY_BIN)),
)  # fmt: skip


def _accuracies(column: Columns, head: str) -> ClientAccuracies:
    """The tests that clients make by themselves; the external one in simulations alone."""

    def made(hits: str, samples: str, reliable: Reliability | None = None) -> Accuracies:
        counted = np.array(column[samples], np.int64)
        values = accuracy(np.array(column[hits], np.int64), counted)
        return Accuracies(values, counted, reliability=reliable)

    def sums(part: str, kind: type) -> np.ndarray:
        return np.array(column[f"{head}:{part}"], kind)

    bins = (len(column["test"]), BINS)
    reliable = Reliability(
        sums("loss", np.float64),
        *(sums(part, kind).reshape(bins) for part, kind in zip(BY_BIN, _KINDS, strict=True)),
    )
    tested = any(column[EXTERNAL_TEST])
    external = made(f"{EXTERNAL_TEST}:{head}", EXTERNAL_TEST) if tested else None
    return ClientAccuracies(local=made(f"{head}:hits", "test", reliable), external=external)


_KINDS = (np.int64, np.float64, np.int64)  # of ``BY_BIN``
