"""FedHiP: personalized heads in closed form, in one communication round.

Source: J. Tang et al., "FedHiP: Heterogeneity-Invariant Personalized Federated Learning Through
Closed-Form Solutions", arXiv 2508.04470. Equation numbers are the paper's.

Objective (1) of client k, over all N samples and its own N_k once more with weight α:

    min_P ‖Y − F P‖² + α ‖Y_k − F_k P‖² + β ‖P‖²

Its solution (14), P_k = (A + α F_kᵀF_k)⁻¹ (B + α B_k) with A = FᵀF + βI and B = FᵀY, needs of the
other clients only the sums FᵀF = Σ F_jᵀF_j and B = Σ B_j.

Notes:
    Errata of the paper that this code does not follow: (26) should read S_K M_K = F_{1:K}ᵀY_{1:K};
    Lemma 1 says S_K where it means M_K; Theorem 2 says Ĝ_k for P̂_k; (33) says P for A; the global
    head G of (12) is (m, d), not (m, m).

    β > 0 makes every matrix here positive definite, so no system is singular, whatever the
    samples.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.moments import Moments
from pfl.ridge.linalg import Factor, factor


@dataclass(frozen=True)
class Knowledge:
    """What the server gives back to every client: the sums of all clients and the global head.

    Attributes:
        gram: FᵀF = Σ F_kᵀF_k.
        factor: Cholesky factor of A = FᵀF + βI.
        cross: B = Σ F_kᵀY_k.
        head: the global head G.
        beta: the ridge β.
    """

    gram: Float[np.ndarray, "m m"]
    factor: Factor
    cross: Float[np.ndarray, "m d"]
    head: Float[np.ndarray, "m d"]
    beta: float


def aggregate(total: Moments, beta: float) -> Knowledge:
    """Phase 2, equations (9) to (12), from the sum of all clients' moments.

    S_K M_K telescopes to Σ F_kᵀY_k (Lemma 1), so that after removing the K ridges from S_K but one,
    (12) is the pooled ridge G = A⁻¹B: one factorization whatever K. The recursion that telescopes
    is in :mod:`pfl.fedhip.paper_recursion`.
    """
    return _knowledge(total.gram_matrix(), total.cross_matrix(), beta)


def received(total: Moments, head: Float[np.ndarray, "m d"], beta: float) -> Knowledge:
    """What a client makes of the sums, G and β that it was sent; G is not solved for again."""
    gram = total.gram_matrix()
    return Knowledge(gram, factor(gram, beta), total.cross_matrix(), head, beta)


def with_beta(knowledge: Knowledge, beta: float) -> Knowledge:
    """What the same sums give at another β; at the same β the same object."""
    if beta == knowledge.beta:
        return knowledge
    return _knowledge(knowledge.gram, knowledge.cross, beta)


def _knowledge(
    gram: Float[np.ndarray, "m m"], cross: Float[np.ndarray, "m d"], beta: float
) -> Knowledge:
    ridged = factor(gram, beta)
    return Knowledge(gram, ridged, cross, ridged.solve(cross), beta)


def one_hot(labels: Int[np.ndarray, " n"], classes: int) -> Float[np.ndarray, "n d"]:
    """Y: a one in each row at the sample's class."""
    return np.eye(classes)[labels]
