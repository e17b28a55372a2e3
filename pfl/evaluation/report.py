"""What is told of FedHiP's heads: few numbers for all clients, and a line a client."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from pfl.data.samples.clients import Clients
from pfl.evaluation.accuracies import ClientAccuracies, clients_csv, metrics
from pfl.evaluation.metrics import (
    EQUATION_14,
    EXTERNAL_TEST,
    FEDHIP_PREFIX,
    HEADS,
    LOCAL,
    LOCAL_TEST,
    MEAN,
    MEAN_SCORE,
    PERSONALIZED,
)
from pfl.fedhip.families.table import FAMILIES, Candidate
from pfl.fedhip.heads import Heads

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
    """Facts of the run: how many clients there are, and what their personalized heads are of.

    All but ``clients-left-out`` are of the clients that did not leave.
    """
    stayed = heads.stayed
    return {
        "families": families(heads.stack[stayed]),
        "clients": int(stayed.sum()),
        "clients-without-test": int((clients.test.sizes[stayed] == 0).sum()),
        "clients-left-out": int((~stayed).sum()),
    }


def families(stack: Float[np.ndarray, "clients families"]) -> dict[str, int]:
    """How many clients' personalized heads have a part of each family."""
    counts = np.count_nonzero(stack > 0, axis=0).tolist()
    return {family.value: n for family, n in zip(FAMILIES, counts, strict=True) if n}


def choice_columns(
    stack: Float[np.ndarray, "clients families"],
    prior: Float[np.ndarray, " clients"],
    chosen_local: Choices,
    chosen_paper: Choices,
) -> dict[str, list[object]]:
    """How each client's heads came about, NaN for one that left.

    How often each family is in the personalized head, and the power γ of the client's class prior
    there; the ridge of L_k and the α of the head of (14).
    """
    columns: dict[str, list[object]] = {
        f"stack-{family.value}": stack[:, i].tolist()
        for i, family in enumerate(FAMILIES)
        if np.any(stack[:, i] > 0)
    }
    columns["prior"] = prior.tolist()
    columns["local-beta"] = [getattr(candidate, "beta", math.nan) for candidate in chosen_local]
    columns["alpha"] = [getattr(candidate, "alpha", math.nan) for candidate in chosen_paper]
    return columns


def heads_csv(accuracies: Mapping[str, ClientAccuracies], heads: Heads, clients: Clients) -> str:
    """``per_client.csv`` of FedHiP's heads; of a client that left only the samples are told."""
    train, test = clients.train, clients.test
    facts = {
        "client": range(train.clients),
        "train": train.sizes.tolist(),
        "test": test.sizes.tolist(),
        "classes": (train.count > 0).sum(1).tolist(),
        **choice_columns(
            heads.stack, heads.prior(PERSONALIZED), heads.chosen(LOCAL), heads.chosen(EQUATION_14)
        ),
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
