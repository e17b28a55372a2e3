"""The global head G itself, equation (12): what the server sent, and nothing of the client's own.

C = FᵀF + βI,    R = FᵀY
"""

import numpy as np
from jaxtyping import Float

from pfl.fedhip.affine_head import linear
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.client_problem import ClientProblem, GlobalFit
from pfl.fedhip.families.family import HeadFamily, NormalEquations, Scores
from pfl.ridge.leave_one_out import left_out
from pfl.ridge.linalg import ridged
from pfl.ridge.smoother import ROUNDED


def global_residuals(fit: GlobalFit) -> Float[np.ndarray, "j d"]:
    """t_i = e_i / (1 − (K_A)_ii); without sample i the head is G⁽⁻ⁱ⁾ = G − A⁻¹ f_i t_iᵀ.  (*)."""
    return left_out(fit.errors, 1.0 - fit.leverages, ROUNDED * (1.0 + fit.strain))


def global_path(problem: ClientProblem) -> Scores:
    """Left-out scores, y_i − t_i; the same at every point of a path, of which there is one."""
    scores = problem.judged_targets - global_residuals(problem.global_fit)
    return lambda values: np.repeat(scores[:, None, :], len(values), axis=1)


def global_normal_equations(server: Knowledge) -> NormalEquations:
    """C and R."""
    return NormalEquations(ridged(server.gram, server.beta), server.cross)


GLOBAL_HEAD = HeadFamily(
    head=lambda _, problem: linear(problem.server.head.copy()),
    leave_one_out=lambda problem, _: global_path(problem),
    normal_equations=lambda _, own, server: global_normal_equations(server),
    locality=0,
)
