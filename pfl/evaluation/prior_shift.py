"""How often classes occur where samples have no labels: their prior by EM, and whether it moved.

A classifier's posterior r(c | x) holds for samples whose classes have the shares p, its source
prior. At another site classes come in shares q and look the same; then p(x | c) ∝ r(c | x)/p_c, and
the samples there have, but for a constant, the log-likelihood

    L(q) = Σ_i log Σ_c q_c r(c | x_i)/p_c,        L(p) = 0,

which is concave in q. EM finds its maximum from q = p by [Saerens, Latinne & Decaestecker 2002,
"Adjusting the outputs of a classifier to new a priori probabilities: a simple procedure",
equation 2.9]

    f_i(c) = q_c r(c | x_i)/p_c / Σ_j q_j r(j | x_i)/p_j,        q_c ← (1/n) Σ_i f_i(c).

Where q = p already, 2 L(q̂) is χ² with one degree of freedom less than there are classes, for many
samples [there, the likelihood ratio test]: a small p-value says that the prior moved.

Notes:
    With g_c = (1/n) Σ_i r(c | x_i)/p_c / Σ_j q_j r(j | x_i)/p_j, a step is q_c ← q_c g_c, and as L
    is concave max L − L(q) ≤ n (max_c g_c − 1), which tells when to stop.

    All rests on r being calibrated and on classes that look as they did: a classifier that is too
    sure, or images of another kind, move q as well. The χ² is of shares inside the simplex; with
    shares near 0 the test rejects less often than its level.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2

from pfl.errors import InputError

LEVEL = 0.05  # of the test
CLOSE = 1e-5  # nats that the likelihood may be below its maximum
MOST = 10_000  # steps


@dataclass(frozen=True, eq=False)
class PriorEstimate:
    """Class shares of unlabelled samples.

    Attributes:
        shares: q̂; 0 for a class that the source prior excludes.
        statistic: 2 L(q̂) ≥ 0.
        p_value: how often chance alone would give as large a statistic at the source prior.
        iterations: steps of EM.
    """

    shares: Float[np.ndarray, " d"]
    statistic: float
    p_value: float
    iterations: int

    @property
    def differs(self) -> bool:
        """Whether the shares differ from the source prior at the level ``LEVEL``."""
        return self.p_value < LEVEL


def estimate_prior(
    log_posteriors: Float[np.ndarray, "n d"], source_prior: Float[np.ndarray, " d"]
) -> PriorEstimate:
    """Estimate the class shares of n samples from their posteriors under the source prior.

    Args:
        log_posteriors: log r(c | x_i), but for a constant of each sample; −∞ is a probability of 0.
        source_prior: p, shares that add up to 1. A class of share 0 keeps it.

    Raises:
        InputError: there are no samples, or one whose posterior is no number or 0 for all classes.
    """
    possible = source_prior > 0
    ratio = likelihood_ratios(log_posteriors[:, possible], source_prior[possible])
    start = source_prior[possible]
    prior, iterations, gain = start, 0, np.inf
    while gain > CLOSE and iterations < MOST:
        growth = (ratio / (ratio @ prior)[:, None]).mean(axis=0)
        prior, iterations = prior * growth, iterations + 1
        gain = len(ratio) * (growth.max() - 1.0)
    statistic = 2.0 * float(np.log((ratio @ prior) / (ratio @ start)).sum())
    statistic = max(statistic, 0.0)  # rounding
    shares = np.zeros(len(source_prior))
    shares[possible] = prior / prior.sum()
    freedom = max(int(possible.sum()) - 1, 1)
    return PriorEstimate(shares, statistic, float(chi2.sf(statistic, freedom)), iterations)


def likelihood_ratios(
    log_posteriors: Float[np.ndarray, "n d"], source_prior: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """p(x_i | c) ∝ r(c | x_i)/p_c, over the largest of each sample."""
    if len(log_posteriors) == 0:
        raise InputError("There are no samples to estimate class shares from: give some.")
    log_ratio = log_posteriors.astype(np.float64) - np.log(source_prior)
    largest = log_ratio.max(axis=1)
    if not np.isfinite(largest).all():
        raise InputError(
            "A sample has no finite class scores, so it says nothing of class shares: leave it out."
        )
    return np.exp(log_ratio - largest[:, None])
