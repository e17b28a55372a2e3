"""The names of tests, heads and numbers in reports, and what is said of many clients' accuracy.

The tests of a client's model or head: ``local-test``, on the client's own test samples;
``global-test``, on the test samples of all; ``validation``, on what was put aside of its training
samples; ``external-test``, on a group that took no part. The ensemble of all clients' models is
tested on the test samples of all, ``new-test``, and in ``external-test``.

A head that counts its client's class prior has even shares of all classes in its place on samples
that are not the client's; ``global-test-own-prior`` is the global test with the prior all the same.
"""

import math
from enum import StrEnum

import numpy as np
from jaxtyping import Float, Int

LOCAL_TEST, GLOBAL_TEST = "local-test", "global-test"
NEW_TEST, EXTERNAL_TEST = "new-test", "external-test"
GLOBAL_TEST_OWN_PRIOR = "global-test-own-prior"
VALIDATION = "validation"
TESTS = (
    LOCAL_TEST, GLOBAL_TEST, GLOBAL_TEST_OWN_PRIOR, NEW_TEST, EXTERNAL_TEST, VALIDATION,
)  # fmt: skip

MEAN, WEIGHTED, STD, WORST_DECILE = "mean", "weighted", "std", "worst-decile"
# Of probabilities, see pfl/evaluation/reliability/; the worst are those of the worst decile.
NLL, ECE, WORST_NLL, WORST_ECE = "nll", "ece", "worst-nll", "worst-ece"
# Ways to form an ensemble. The first is what tables show: of models the mean of probabilities, of
# linear heads, which have none, that of scores.
MEAN_PROBABILITY, MEAN_SCORE = "mean-probability", "mean-score"
MEAN_LOG_PROBABILITY, VOTE, WEIGHT_AVERAGE = "mean-log-probability", "vote", "weight-average"
UPLOAD_BYTES = "upload-bytes"  # what all clients sent in all rounds together
RUN = "run"  # beside the methods of metrics.json: facts of the whole run

# FedHiP's heads: the paper's L_k, G and P_k (14); G with the client's class prior; and the head
# that the client uses, by `personalize.family`.
LOCAL, GLOBAL, GLOBAL_PRIOR = "local", "global", "global-prior"
EQUATION_14, PERSONALIZED = "equation-14", "personalized"
HEADS = (LOCAL, GLOBAL, GLOBAL_PRIOR, EQUATION_14, PERSONALIZED)
FEDHIP_PREFIX = "fedhip:"  # of these, in the names of methods
HEAD_PREFIX = "heads:"  # of what was trained by gradients on cached features

WORST_SHARE = 10


class HeadKind(StrEnum):
    """Which head of a client, where one is to be chosen."""

    personalized = PERSONALIZED
    local = LOCAL
    shared = GLOBAL
    prior = GLOBAL_PRIOR
    paper = EQUATION_14


def accuracy(
    hits: Int[np.ndarray, " clients"], samples: Int[np.ndarray, " clients"]
) -> Float[np.ndarray, " clients"]:
    """Share of each client's test samples that were classified correctly.

    a_k = h_k / n_k, and NaN (unknown, neither 0 nor 1) for a client without test samples.
    """
    values = np.full(len(samples), np.nan)
    np.divide(hits, samples, out=values, where=samples > 0)
    return values


def summarize(
    values: Float[np.ndarray, " clients"], samples: Int[np.ndarray, " clients"] | None
) -> dict[str, float]:
    """What is said of the accuracy of each client, given its number of test samples.

    ``mean`` is the plain mean over clients, so that every client counts the same, and ``weighted``
    the mean weighted by test samples, so that every sample does (NaN where ``samples`` is None);
    ``std`` is the standard deviation over clients (of these clients, not an estimate: divided by
    their number), ``worst-decile`` the mean over the worst tenth of them. Clients with NaN or
    without test samples are left out; all is NaN where nobody is left.
    """
    tested = ~np.isnan(values) & (True if samples is None else samples > 0)
    known = values[tested]
    if len(known) == 0:
        return dict.fromkeys((MEAN, WEIGHTED, STD, WORST_DECILE), math.nan)
    weighted = math.nan if samples is None else np.average(known, weights=samples[tested])
    return {
        MEAN: float(known.mean()),
        WEIGHTED: float(weighted),
        STD: float(known.std()),
        WORST_DECILE: worst_decile(known),
    }


def summarize_losses(values: Float[np.ndarray, " clients"]) -> tuple[float, float]:
    """Mean over clients of what is better the smaller it is, and over the worst tenth of them.

    These are the ⌈n/10⌉ largest of n values. NaN are left out; both are NaN where nothing is left.
    """
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return math.nan, math.nan
    return float(known.mean()), -worst_decile(-known)


def worst_decile(values: Float[np.ndarray, " clients"]) -> float:
    """Mean of the ⌈n/10⌉ smallest of n ≥ 1 values: the worst 10 % of clients, at least one."""
    count = -(-len(values) // WORST_SHARE)
    return float(np.sort(values)[:count].mean())
