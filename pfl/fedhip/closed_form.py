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

from pfl.errors import InputError
from pfl.fedhip.moments import Moments
from pfl.ridge.linalg import Factor, factor, ridge_fit, syrk


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


def local_head(
    features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"], classes: int, beta: float
) -> Float[np.ndarray, "m d"]:
    """L_k = (F_kᵀF_k + βI)⁻¹ F_kᵀY_k, equations (6) and (7).

    Without samples the head is zero, the minimum of β‖L‖².
    """
    return ridge_fit(features, one_hot(labels, classes), beta)


def aggregate(total: Moments, beta: float) -> Knowledge:
    """Phase 2, equations (9) to (12), from the sum of all clients' moments.

    S_K M_K telescopes to Σ F_kᵀY_k (Lemma 1), so that after removing the K ridges from S_K but one,
    (12) is the pooled ridge G = A⁻¹B: one factorization whatever K. The recursion that telescopes
    is in :mod:`pfl.fedhip.paper_recursion`.
    """
    return _knowledge(total.gram_matrix(), total.cross_matrix(), beta)


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


def personalized_head(
    knowledge: Knowledge,
    features: Float[np.ndarray, "n m"],
    labels: Int[np.ndarray, " n"],
    alpha: float,
) -> Float[np.ndarray, "m d"]:
    """P_k = (A + α F_kᵀF_k)⁻¹ (B + α F_kᵀY_k), equation (14), by the cheaper of two equal routes.

    Args:
        knowledge: what the server sent.
        features: F_k, the client's own training features.
        labels: their classes.
        alpha: weight α ≥ 0 of the client's own samples; 0 gives the global head.

    Raises:
        InputError: α is so large that float64 cannot solve the system.
    """
    targets = one_hot(labels, knowledge.cross.shape[1])
    if alpha == 0 or len(features) == 0:
        return knowledge.head.copy()
    route = _update_head if _update_is_cheaper(*features.shape) else _refit_head
    with np.errstate(over="ignore", invalid="ignore"):
        head = route(knowledge, features, targets, alpha)
    if not np.isfinite(head).all():
        raise InputError(_lower(alpha, knowledge.beta))
    return head


def _update_is_cheaper(samples: int, width: int) -> bool:
    """Flops beyond the m²n that both routes share: n²m + n³/3 (update) against m³/3 (refit)."""
    return samples**2 * (3 * width + samples) < width**3


def _refit_head(
    knowledge: Knowledge,
    features: Float[np.ndarray, "n m"],
    targets: Float[np.ndarray, "n d"],
    alpha: float,
) -> Float[np.ndarray, "m d"]:
    """Equation (14) as it stands: one Cholesky factorization of the (m, m) system."""
    gram = knowledge.gram + alpha * syrk(features)
    ridged = factor(gram, knowledge.beta, remedy=_lower(alpha, knowledge.beta))
    return ridged.solve(knowledge.cross + alpha * (features.T @ targets))


def _update_head(
    knowledge: Knowledge,
    features: Float[np.ndarray, "n m"],
    targets: Float[np.ndarray, "n d"],
    alpha: float,
) -> Float[np.ndarray, "m d"]:
    """Equation (14) as a correction of the global head, from the (n, n) system.

    Notes:
        By the Woodbury identity, with K_k = F_k A⁻¹ F_kᵀ and the residuals E = Y_k − F_k G,

            P_k = G + α A⁻¹ F_kᵀ (I + α K_k)⁻¹ E.

        With A = L Lᵀ and V = L⁻¹F_kᵀ, K_k = VᵀV and A⁻¹F_kᵀ = L⁻ᵀV.
    """
    whitened = knowledge.factor.half_solve(features.T)
    residuals = targets - features @ knowledge.head
    ridged = factor(alpha * syrk(whitened), 1.0, remedy=_lower(alpha, knowledge.beta))
    weights = ridged.solve(residuals)
    return knowledge.head + alpha * knowledge.factor.half_solve_transposed(whitened @ weights)


def _lower(alpha: float, beta: float) -> str:
    return (
        f"alpha = {alpha:g} is too large beside beta = {beta:g} for float64 to solve equation "
        "(14): set alpha lower, or beta higher."
    )


def one_hot(labels: Int[np.ndarray, " n"], classes: int) -> Float[np.ndarray, "n d"]:
    """Y: a one in each row at the sample's class."""
    targets = np.zeros((len(labels), classes))
    targets[np.arange(len(labels)), labels] = 1.0
    return targets
