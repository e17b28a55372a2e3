"""The anchored head: ridge regression on a client's own samples, drawn to the global head.

    min_P ‖Y_k − F_k P‖² + ρ ‖P − G‖²,    C = F_kᵀF_k + ρI,    R = F_kᵀY_k + ρG

Where FedHiP's objective (1) lets everybody's samples pull at the head, here only their outcome G
does. Of the server's answer a client needs G alone, m·d numbers instead of m² + m·d. As ρ → ∞ the
head becomes G, as ρ → 0 least squares on the own samples (of those, the nearest to G).
"""

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.affine_head import linear
from pfl.fedhip.closed_form import one_hot
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.family import HeadFamily, NormalEquations, Scores, ridge_grid
from pfl.fedhip.families.global_head import global_residuals
from pfl.ridge.leave_one_out import left_out
from pfl.ridge.linalg import ridge_fit, ridged


def anchored_head(
    anchor: Float[np.ndarray, "m d"],
    features: Float[np.ndarray, "n m"],
    labels: Int[np.ndarray, " n"],
    rho: float,
    small: Float[np.ndarray, "r r"] | None = None,
) -> Float[np.ndarray, "m d"]:
    """P_k = G + (F_kᵀF_k + ρI)⁻¹ F_kᵀ (Y_k − F_k G).

    With no samples it is the anchor G. That depends on sums only, so Theorem 3 holds for P_k as it
    does for (14). ρ > 0 has the unit of squared features. ``small`` is
    :func:`pfl.ridge.linalg.small_gram` of F_k, where it is at hand.

    Raises:
        InputError: ρ is not positive, or lost beside F_kᵀF_k in float64.
    """
    errors = one_hot(labels, anchor.shape[1]) - features @ anchor
    return anchor + ridge_fit(features, errors, rho, "rho", small)


def anchored_path(problem: ClientProblem) -> Scores:
    """Left-out scores of the head anchored with ρ, for each ρ.

    Notes:
        For a fixed anchor the residuals are those of a ridge fit to E: R E over diag R at w = 1/ρ.
        But without sample i the anchor is (*) of :func:`global_residuals`, and E becomes
        E + c_i t_iᵀ with c_i column i of K_A. A fit that leaves i out does so whatever its target,
        so the identity of :mod:`pfl.ridge.leave_one_out` holds with E + c_i t_iᵀ for E:

            ((R E)_i + (R K_A)_ii t_i) / R_ii.

        Only the diagonal of R K_A is needed. As ρ → ∞, R → I, and t_i comes out.
    """
    own, fit, targets = problem.own_fit, problem.global_fit, problem.judged_targets
    overlap = own.overlap(fit.whitened, problem.mixed)
    projected, without = (
        own.project(fit.errors, problem.moment if problem.tall else None),
        global_residuals(fit),
    )

    def scores(rhos: Float[np.ndarray, " b"]) -> Float[np.ndarray, "j b d"]:
        weights = 1.0 / rhos
        errors = own.residuals(weights, fit.errors, projected)
        moved = own.diagonal_with(weights, fit.leverages, overlap)
        errors += moved[:, :, None] * without[:, None, :]
        residuals = left_out(errors, own.diagonal(weights), own.noise(weights))
        return targets[:, None, :] - residuals

    return scores


ANCHORED_HEAD = HeadFamily(
    head=lambda one, problem: linear(
        anchored_head(problem.server.head, problem.features, problem.labels, one.rho, problem.small)
    ),
    leave_one_out=lambda problem, _: anchored_path(problem),
    normal_equations=lambda one, own, server: NormalEquations(
        ridged(own.gram_matrix(), one.rho), own.cross_matrix() + one.rho * server.head, server.head
    ),
    locality=2,
    grids={"rho": ridge_grid},
)
