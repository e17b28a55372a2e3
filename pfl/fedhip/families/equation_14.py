"""The personalized head of the paper, equation (14): everybody's samples, one's own weighing more.

    C = FᵀF + βI + αF_kᵀF_k,    R = FᵀY + αF_kᵀY_k

It solves the objective (1); see :mod:`pfl.fedhip.closed_form`.
"""

import numpy as np
from jaxtyping import Float, Int

from pfl.errors import InputError
from pfl.fedhip.affine_head import AffineHead, linear
from pfl.fedhip.closed_form import Knowledge, one_hot
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.family import HeadFamily, NormalEquations, Parameters, Scores
from pfl.ridge.grid import decades
from pfl.ridge.leave_one_out import left_out
from pfl.ridge.linalg import condition, factor, ridged, syrk
from pfl.ridge.smoother import ROUNDED

ALPHAS = (1e0, 1e3, 1)  # values per factor of ten
APART = 2.0**-8  # 16 ε of 4,096


def personalized_head(
    knowledge: Knowledge,
    features: Float[np.ndarray, "n m"],
    labels: Int[np.ndarray, " n"],
    alpha: float,
) -> Float[np.ndarray, "m d"]:
    """P_k = (A + α F_kᵀF_k)⁻¹ (B + α F_kᵀY_k), equation (14), by the cheaper of two equal routes.

    The weight α ≥ 0 is that of the client's own samples; 0 gives the global head.

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
    system = factor(gram, knowledge.beta, remedy=_lower(alpha, knowledge.beta))
    return system.solve(knowledge.cross + alpha * (features.T @ targets))


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
    system = factor(alpha * syrk(whitened), 1.0, remedy=_lower(alpha, knowledge.beta))
    weights = system.solve(residuals)
    return knowledge.head + alpha * knowledge.factor.half_solve_transposed(whitened @ weights)


def _lower(alpha: float, beta: float) -> str:
    return (
        f"alpha = {alpha:g} is too large beside beta = {beta:g} for float64 to solve equation "
        "(14): set alpha lower, or beta higher."
    )


def path_of_equation_14(problem: ClientProblem) -> Scores:
    """Left-out scores of P_k(α) at the server's β, for each α.

    Notes:
        Let R = (I + αK_A)⁻¹. By Woodbury, Y_k − F_k P_k = R E. The sample, in both terms of
        the objective (1), has weight 1 + α and f_iᵀ(A + αF_kᵀF_k)⁻¹f_i = (K_A R)_ii. Since
        I − (1 + α) K_A R = (I − K_A) R, the residual is

            (R E)_i / (R_ii − (K_A R)_ii).

        An error of A moves K_A by at most ``condition``·ε of itself, and the difference by at most
        that of R_ii; rounding in R moves it by at most κ α (K_A R)_ii + 1 times ε, with κ = 1
        where I + αK_A is solved. Where I + αVᵀV is, κ is its condition, and ``APART`` of that of A
        beside it, since rows of V and VᵀV do not round alike.

        With V Vᵀ = K_A and more samples than features, R = I − αV (I + αVᵀV)⁻¹Vᵀ.
    """
    fit, targets = problem.global_fit, problem.judged_targets
    smooth = _tall if problem.tall else _whole

    def scores_at(alpha: float) -> Float[np.ndarray, "j d"]:
        errors, rest, leverages, kappa = smooth(problem, alpha)
        noise = ROUNDED * (1.0 + kappa * alpha * leverages + fit.condition * rest)
        return targets - left_out(errors, rest - leverages, noise)

    return lambda alphas: np.stack([scores_at(float(alpha)) for alpha in alphas], axis=1)


# R E, and the diagonals of R and K_A R, of the judged samples; and κ.
_Smoothed = tuple[Float[np.ndarray, "j d"], Float[np.ndarray, " j"], Float[np.ndarray, " j"], float]


def _whole(problem: ClientProblem, alpha: float) -> _Smoothed:
    """From the (n, n) system, all samples being judged."""
    kernel = problem.mixed
    smooth = factor(alpha * kernel, 1.0, "alpha").solve(np.eye(len(kernel)))
    return smooth @ problem.global_fit.errors, np.diag(smooth), np.sum(smooth * kernel, axis=1), 1.0


def _tall(problem: ClientProblem, alpha: float) -> _Smoothed:
    """From the (m, m) system."""
    fit = problem.global_fit
    system = factor(alpha * problem.whitened_gram, 1.0, "alpha")
    leverages = np.sum(system.half_solve(fit.whitened.T) ** 2, axis=0)
    explained = fit.whitened @ system.solve(problem.pooled.whitener.T @ problem.moment)
    kappa = condition(ridged(alpha * problem.whitened_gram, 1.0), system) + APART * fit.condition
    return fit.errors - alpha * explained, 1.0 - alpha * leverages, leverages, kappa


def _client_head(one: Parameters, problem: ClientProblem) -> AffineHead:
    """The head by what leave-one-out has made of the samples, where there are few of them.

    P_k = G + α U (Λ + βI)^(−1/2) VᵀR E.
    """
    if problem.tall or one.alpha == 0 or len(problem.labels) == 0:
        return linear(
            personalized_head(problem.server, problem.features, problem.labels, one.alpha)
        )
    with np.errstate(over="ignore", invalid="ignore"):
        remedy = _lower(one.alpha, problem.server.beta)
        weights = factor(one.alpha * problem.mixed, 1.0, remedy=remedy).solve(problem.errors)
        moved = problem.pooled.whitener @ (problem.global_fit.whitened.T @ weights)
    return linear(problem.server.head + one.alpha * moved)


EQUATION_14 = HeadFamily(
    head=_client_head,
    leave_one_out=lambda problem, _: path_of_equation_14(problem),
    normal_equations=lambda one, own, server: NormalEquations(
        ridged(server.gram + one.alpha * own.gram_matrix(), server.beta),
        server.cross + one.alpha * own.cross_matrix(),
        server.head,
    ),
    locality=3,
    grids={"alpha": lambda scale: decades(*ALPHAS)},
)
