"""The local head, equations (6) and (7): ridge regression on a client's own samples alone.

C = F_kᵀF_k + βI,    R = F_kᵀY_k
"""

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.affine_head import linear
from pfl.fedhip.closed_form import one_hot
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.family import HeadFamily, NormalEquations, Scores, ridge_grid
from pfl.ridge.leave_one_out import left_out
from pfl.ridge.linalg import ridge_fit, ridged


def local_head(
    features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"], classes: int, beta: float
) -> Float[np.ndarray, "m d"]:
    """L_k = (F_kᵀF_k + βI)⁻¹ F_kᵀY_k.

    Without samples the head is zero, the minimum of β‖L‖².
    """
    return ridge_fit(features, one_hot(labels, classes), beta)


def local_path(problem: ClientProblem) -> Scores:
    """Left-out scores of L_k(β), for each β; residuals are R Y_k over the diagonal of R at 1/β."""
    fit, targets = problem.own_fit, problem.judged_targets
    projected = fit.project(targets, problem.cross if problem.tall else None)

    def scores(betas: Float[np.ndarray, " b"]) -> Float[np.ndarray, "j b d"]:
        weights = 1.0 / betas
        errors = fit.residuals(weights, targets, projected)
        residuals = left_out(errors, fit.diagonal(weights), fit.noise(weights))
        return targets[:, None, :] - residuals

    return scores


LOCAL_HEAD = HeadFamily(
    head=lambda one, problem: linear(
        ridge_fit(problem.features, problem.targets, one.beta, small=problem.small)
    ),
    leave_one_out=lambda problem, _: local_path(problem),
    normal_equations=lambda one, own, _: NormalEquations(
        ridged(own.gram_matrix(), one.beta), own.cross_matrix()
    ),
    locality=4,
    grids={"beta": ridge_grid},
)
