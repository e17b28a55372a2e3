"""Accuracy per client, what to say of all clients together, and the words reports have for it.

The tests of a client's model or head: ``local-test``, on the client's own test samples;
``global-test``, on the test samples of all; and of the ensemble of all clients' models:
``new-test``, on the test samples of all, and ``external-test``, on a group that took no part.
``client-mean`` beside the latter is the mean over clients of each one's own model there.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Float, Int

LOCAL_TEST, GLOBAL_TEST = "local-test", "global-test"
NEW_TEST, EXTERNAL_TEST = "new-test", "external-test"
CLIENT_MEAN = "client-mean"
MEAN_SCORE, MEAN_PROBABILITY = "mean-score", "mean-probability"  # ensembles in tables
EXTERNAL_EACH = f"{EXTERNAL_TEST}:{CLIENT_MEAN}"
VALIDATION = "validation"
HEAD_PREFIX = "heads:"  # of what was trained by gradients on cached features, beside fedhip:
UPLOAD_BYTES = "upload-bytes"  # what all clients sent in all rounds together

# FedHiP's heads: L_k, G and P_k.
LOCAL, GLOBAL, PERSONALIZED = "local", "global", "personalized"
HEADS = (LOCAL, GLOBAL, PERSONALIZED)

WORST_SHARE = 10


class HeadKind(StrEnum):
    """Which head of a client, where one is to be chosen."""

    personalized = PERSONALIZED
    local = LOCAL
    shared = GLOBAL


def accuracy(
    hits: Int[np.ndarray, " clients"], samples: Int[np.ndarray, " clients"]
) -> Float[np.ndarray, " clients"]:
    """Share of each client's test samples that were classified correctly.

    a_k = h_k / n_k, and NaN (unknown, neither 0 nor 1) for a client without test samples.
    """
    values = np.full(len(samples), np.nan)
    np.divide(hits, samples, out=values, where=samples > 0)
    return values


@dataclass(frozen=True)
class Summary:
    """Accuracy over the clients that have test samples; all NaN when none has.

    Attributes:
        mean: plain mean over clients: every client counts the same.
        weighted: mean weighted by test samples: every sample counts the same.
        std: standard deviation over clients (of these clients, not an estimate: divided by their
            number).
        worst_decile: mean over the worst tenth of clients, see :func:`worst_decile`.
    """

    mean: float
    weighted: float
    std: float
    worst_decile: float


def summarize(
    values: Float[np.ndarray, " clients"], samples: Int[np.ndarray, " clients"]
) -> Summary:
    """Summarize the accuracy of each client with its number of test samples.

    Clients without test samples are left out, whatever their value.
    """
    tested = samples > 0
    values, weights = values[tested], samples[tested]
    if len(values) == 0:
        return Summary(math.nan, math.nan, math.nan, math.nan)
    return Summary(
        mean=float(values.mean()),
        weighted=float(np.average(values, weights=weights)),
        std=float(values.std()),
        worst_decile=worst_decile(values),
    )


def worst_decile(values: Float[np.ndarray, " clients"]) -> float:
    """Mean of the ⌈n/10⌉ smallest of n ≥ 1 values: the worst 10 % of clients, at least one."""
    count = -(-len(values) // WORST_SHARE)
    return float(np.sort(values)[:count].mean())
