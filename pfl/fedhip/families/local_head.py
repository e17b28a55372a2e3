"""The local head, equations (6) and (7): ridge regression on a client's own samples alone.

C = F_kᵀF_k + βI,    R = F_kᵀY_k
"""

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.closed_form import one_hot
from pfl.fedhip.families.family import HeadFamily, NormalEquations, Residuals, ridge_grid
from pfl.ridge.leave_one_out import left_out
from pfl.ridge.linalg import ridge_fit, ridged
from pfl.ridge.smoother import Smoother


def local_head(
    features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"], classes: int, beta: float
) -> Float[np.ndarray, "m d"]:
    """L_k = (F_kᵀF_k + βI)⁻¹ F_kᵀY_k.

    Without samples the head is zero, the minimum of β‖L‖².
    """
    return ridge_fit(features, one_hot(labels, classes), beta)


def local_path(fit: Smoother, targets: Float[np.ndarray, "n d"]) -> Residuals:
    """Leave-one-out residuals of L_k(β), for each β: R Y_k over the diagonal of R at w = 1/β."""
    projected = fit.project(targets)

    def residuals(betas: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b d"]:
        weights = 1.0 / betas
        errors = fit.residuals(weights, targets, projected)
        return left_out(errors, fit.diagonal(weights), fit.noise(weights))

    return residuals


LOCAL_HEAD = HeadFamily(
    head=lambda one, server, features, labels: local_head(
        features, labels, server.head.shape[1], one.beta
    ),
    leave_one_out=lambda problem, _: local_path(problem.own_fit, problem.targets),
    normal_equations=lambda one, own, _: NormalEquations(
        ridged(own.gram_matrix(), one.beta), own.cross_matrix()
    ),
    locality=3,
    grids={"beta": ridge_grid},
)
