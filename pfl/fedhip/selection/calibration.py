"""Probabilities from class scores: a temperature, and how far the client's class prior counts.

A head's scores z become log-probabilities, up to a constant of each sample, as

    s z + γ r,        r_c = log p_k(c)/π_c    (:mod:`pfl.runtime.class_prior`),

with s and γ of least cross-entropy on left-out scores and left-out priors, by
:mod:`pfl.fedhip.selection.logistic`. Temperature scaling is that of Guo et al. 2017, "On
calibration of modern neural networks"; γ = 1 corrects a calibrated head exactly, by Bayes' rule.

The penalty draws σ = s/s₀ and γ to 1. The scale s₀ is where a sample's highest score is ``SIZE``
nats above the mean of its others, in the mean over samples. So multiplying a head by a number
changes nothing, and a head whose scores differ in all of many classes, as a discriminant's do, is
about as sure as one with a high score among equal ones. ``PENALTY`` nats are what either may gain
by going from 1 to 0; a client of ten samples stays near (1, 1).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.selection.logistic import fit
from pfl.ridge.smoother import ROUNDED

SIZE = 6.0
PENALTY = 4.0


@dataclass(frozen=True)
class Calibration:
    """s and γ of b heads.

    Attributes:
        scale: s ≥ 0.
        prior: γ ≥ 0.
        objective: penalized leave-one-out cross-entropy of all samples, in nats; infinite where a
            score is not a number.
    """

    scale: Float[np.ndarray, " b"]
    prior: Float[np.ndarray, " b"]
    objective: Float[np.ndarray, " b"]


def unit_scale(scores: Float[np.ndarray, "n b d"]) -> Float[np.ndarray, " b"]:
    """s₀ of each head; 0 for one whose scores are all the same up to rounding, or not numbers."""
    mean = scores.mean(axis=2)
    classes = scores.shape[2]
    lead = (scores.max(axis=2) - mean).mean(axis=0) * classes / max(classes - 1, 1)
    size = np.zeros(len(lead))
    least = np.maximum(ROUNDED * np.abs(mean).mean(axis=0), np.finfo(np.float64).tiny)
    np.divide(SIZE, lead, out=size, where=lead > least)
    return size


def calibrate(
    scores: Float[np.ndarray, "n b d"],
    labels: Int[np.ndarray, " n"],
    log_ratio: Float[np.ndarray, "n d"] | None,
) -> Calibration:
    """Find s and γ of b heads from their left-out scores of n ≥ 1 samples; γ = 0 without a prior.

    A head that says nothing costs the entropy of the prior, which every useful head is below.
    """
    units = unit_scale(scores)
    terms = [units[:, None] * scores]
    if log_ratio is not None:
        terms.append(log_ratio[:, None, :])
    ones = np.ones(len(terms))
    found = fit(terms, labels, ones, PENALTY * ones)
    sound = np.isfinite(found.objective)
    weights = np.where(sound[:, None], found.weights, 0.0)
    prior = weights[:, 1] if log_ratio is not None else np.zeros(len(units))
    return Calibration(units * weights[:, 0], prior, found.objective)
