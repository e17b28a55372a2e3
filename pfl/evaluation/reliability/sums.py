"""How far class probabilities can be believed: their negative log-likelihood, their calibration.

A model gives each sample probabilities p(c); c* is the class with the largest, the lowest of them
on a tie, and p(c*) its confidence. Over n samples with labels y_i

    NLL = −(1/n) Σ_i log p_i(y_i)                         in nats, log d for d equal probabilities,
    ECE = Σ_b (n_b/n) |acc_b − conf_b|                    of 0 … 1,

where the samples are in 15 bins of equal width by confidence, (b/15, (b+1)/15], and acc_b and
conf_b are the share of hits and the mean confidence of the n_b samples of bin b: the expected
calibration error of the top label [Naeini, Cooper & Hauskrecht 2015; Guo et al. 2017, arXiv
1706.04599, equation 3].

Notes:
    A label with probability 0 would make the mean infinite, and one with less than float64's least
    normal number, 2.2e-308, cannot be told from it: either costs ``-FLOOR``, 708.4 nats.

    The ECE of few samples is too large: with n_b of them acc_b scatters around conf_b by about
    1/(2√n_b), and the absolute values add up. Compare clients' means between methods on the same
    samples; whether the probabilities hold is told by all samples pooled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Num

from pfl.errors import InputError

BINS = 15
FLOOR = float(np.log(np.finfo(np.float64).tiny))  # of a log-probability, in nats


@dataclass(frozen=True)
class Reliability:
    """Sums over K clients' samples; a commutative monoid over disjoint sets of samples.

    Whatever the split of the samples, the sums of its parts add up to those of the whole: counts
    exactly, sums of float64 to rounding.

    Attributes:
        loss: Σ −log p(y), in nats.
        count: samples in each bin of confidence.
        confidence: sum of their confidences.
        hits: how many of them are predicted correctly.
    """

    loss: Float[np.ndarray, " clients"]
    count: Int[np.ndarray, "clients bins"]
    confidence: Float[np.ndarray, "clients bins"]
    hits: Int[np.ndarray, "clients bins"]

    def __add__(self, other: "Reliability") -> "Reliability":
        """Of the same clients, on the union of two disjoint sets of samples."""
        return Reliability(
            self.loss + other.loss,
            self.count + other.count,
            self.confidence + other.confidence,
            self.hits + other.hits,
        )

    @staticmethod
    def zero(clients: int) -> "Reliability":
        """Of clients without samples."""
        bins = (clients, BINS)
        whole = np.zeros(bins, np.int64)
        return Reliability(np.zeros(clients), whole, np.zeros(bins), whole)

    @property
    def samples(self) -> Int[np.ndarray, " clients"]:
        """How many samples each client has."""
        return self.count.sum(1)

    @property
    def nll(self) -> Float[np.ndarray, " clients"]:
        """Mean negative log-likelihood in nats; NaN for a client without samples."""
        return _mean(self.loss, self.samples)

    @property
    def ece(self) -> Float[np.ndarray, " clients"]:
        """Expected calibration error; NaN for a client without samples.

        Since n_b acc_b is a number of hits, Σ_b n_b |acc_b − conf_b| = Σ_b |hits − Σ confidence|.
        """
        return _mean(np.abs(self.hits - self.confidence).sum(1), self.samples)

    def pooled(self) -> "Reliability":
        """All clients' samples together, as of one client."""
        return Reliability(
            self.loss.sum(keepdims=True),
            self.count.sum(0, keepdims=True),
            self.confidence.sum(0, keepdims=True),
            self.hits.sum(0, keepdims=True),
        )


def joined(parts: Sequence[Reliability]) -> Reliability:
    """The clients of one part after those of another; not none of them."""
    return Reliability(
        np.concatenate([part.loss for part in parts]),
        np.concatenate([part.count for part in parts]),
        np.concatenate([part.confidence for part in parts]),
        np.concatenate([part.hits for part in parts]),
    )


def log_probabilities(scores: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Log-softmax log p(c) = s_c − log Σ_j exp s_j, in float64, without overflow for any size.

    A score of −∞ is a probability of 0.

    Raises:
        InputError: a score is NaN or +∞, or all of a sample are −∞.
    """
    shifted = scores.astype(np.float64)
    with np.errstate(invalid="ignore"):  # ∞ − ∞: told below
        shifted -= shifted.max(axis=1, keepdims=True)
    result: Float[np.ndarray, "n d"] = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    if np.isnan(result).any():
        raise InputError(
            "A model's class scores are no finite numbers, so they give no probabilities: its "
            "training diverged. Lower the learning rate, or make features and labels anew."
        )
    return result


def reliability(
    log_probability: Float[np.ndarray, "n d"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    clients: int,
) -> Reliability:
    """The sums of n samples that ``clients`` clients hold.

    Args:
        log_probability: log p(c), as of :func:`log_probabilities`; −∞ is allowed.
        label: y, of 0 … d − 1.
        owner: the client of each sample, −1 for nobody.
        clients: K.
    """
    mine = owner >= 0
    wide, label, owner = log_probability[mine].astype(np.float64), label[mine], owner[mine]
    rows = np.arange(len(wide))
    top = wide.argmax(1)
    loss = -np.maximum(wide[rows, label], FLOOR)
    confidence = np.exp(wide[rows, top])
    cell = owner * BINS + np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    bins = (clients, BINS)
    return Reliability(
        _sums(owner, loss, clients),
        _sums(cell, np.ones(len(cell), np.int64), clients * BINS).reshape(bins),
        _sums(cell, confidence, clients * BINS).reshape(bins),
        _sums(cell, (top == label).astype(np.int64), clients * BINS).reshape(bins),
    )


def _sums(
    place: Int[np.ndarray, " n"], value: Num[np.ndarray, " n"], places: int
) -> Num[np.ndarray, " places"]:
    """The values of each place added up, in order, in their own type."""
    return np.bincount(place, value, places).astype(value.dtype)


def _mean(
    total: Float[np.ndarray, " clients"], samples: Int[np.ndarray, " clients"]
) -> Float[np.ndarray, " clients"]:
    values = np.full(len(samples), np.nan)
    np.divide(total, samples, out=values, where=samples > 0)
    return values
