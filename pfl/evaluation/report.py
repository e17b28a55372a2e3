"""What is told of FedHiP's heads: few numbers for all clients, and a line a client."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pfl.data.samples.clients import Clients
from pfl.evaluation.accuracies import ClientAccuracies, clients_csv, metrics
from pfl.evaluation.metrics import (
    EXTERNAL_TEST,
    FEDHIP_PREFIX,
    HEADS,
    LOCAL,
    LOCAL_TEST,
    MEAN,
    MEAN_SCORE,
)
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.heads import PARAMETERS, Heads

# Of a client: the candidate that its head is, None where it left.
Choices = Sequence[Candidate | None]


def heads_metrics(
    accuracies: Mapping[str, ClientAccuracies], upload_bytes: int, run: Mapping[str, object]
) -> dict[str, Any]:
    """``metrics.json`` of FedHiP's heads.

    Args:
        accuracies: by the kind of head.
        upload_bytes: what all clients sent; for the local heads nothing is sent.
        run: facts of the run.
    """
    methods = {
        f"{FEDHIP_PREFIX}{head}": (accuracies[head], 0 if head == LOCAL else upload_bytes)
        for head in HEADS
    }
    return metrics(methods, run)


def clients_told(heads: Heads, clients: Clients) -> dict[str, object]:
    """Facts of the run: how many clients there are, and what their personalized heads are.

    All but ``clients-left-out`` are of the clients that did not leave.
    """
    stayed = heads.stayed
    return {
        "families": families(heads.chosen),
        "clients": int(stayed.sum()),
        "clients-without-test": int((clients.test.sizes[stayed] == 0).sum()),
        "clients-left-out": int((~stayed).sum()),
    }


def families(chosen: Choices) -> dict[str, int]:
    """How many clients' heads are of each family."""
    names = [candidate.family for candidate in chosen if candidate is not None]
    return {name.value: names.count(name) for name in Family if name in names}


def choice_columns(chosen: Choices, chosen_local: Choices) -> dict[str, list[object]]:
    """Family and parameters of each client's P_k, and the ridge of its L_k; NaN if not used."""
    columns: dict[str, list[object]] = {
        name: [getattr(candidate, name, math.nan) for candidate in chosen]
        for name in ("family", *PARAMETERS)
    }
    columns["local-beta"] = [getattr(candidate, "beta", math.nan) for candidate in chosen_local]
    return columns


def heads_csv(accuracies: Mapping[str, ClientAccuracies], heads: Heads, clients: Clients) -> str:
    """``per_client.csv`` of FedHiP's heads; of a client that left only the samples are told."""
    train, test = clients.train, clients.test
    facts = {
        "client": range(train.clients),
        "train": train.sizes.tolist(),
        "test": test.sizes.tolist(),
        "classes": (train.count > 0).sum(1).tolist(),
        **choice_columns(heads.chosen, heads.chosen_local),
    }
    return clients_csv(facts, accuracies)


def brief(metrics_of_heads: Mapping[str, Any]) -> dict[str, object]:
    """Few columns for `dvc exp show`: the mean of each kind of head, and its external test.

    Of the latter the first ensemble, and only where a group takes no part.
    """
    numbers = {head: metrics_of_heads[f"{FEDHIP_PREFIX}{head}"] for head in HEADS}
    few: dict[str, object] = {"fedhip": {h: of[LOCAL_TEST][MEAN] for h, of in numbers.items()}}
    if all(of[EXTERNAL_TEST] for of in numbers.values()):
        few["fedhip-external"] = {h: of[EXTERNAL_TEST][MEAN_SCORE] for h, of in numbers.items()}
    return few
