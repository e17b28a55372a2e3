"""Linear discriminant analysis: classes as Gaussians that share a covariance, from the same sums.

With W the scatter within classes (:mod:`pfl.fedhip.class_scatter`), v = tr W / m its mean variance
and a ridge λv, a sample is near the class mean at the least distance under A = W + λvI:

    z_c(x) = (x − μ̄)ᵀ A⁻¹ d_c − ½ d_cᵀ A⁻¹ d_c,        d_c = ν_c − μ̄,
    ν_c = (n_kc μ_kc + κ μ_c) / (n_kc + κ),

so that A V = D and b_c = −½ d_cᵀ V_c − μ̄ᵀ V_c, where D has the columns d_c. Source: Friedman 1989,
"Regularized discriminant analysis". The covariance is everybody's; each mean ν_c is drawn from the
client's own, μ_kc of its n_kc samples, to everybody's μ_c with the weight of κ samples. At κ = ∞
the head is the same for all clients. A class that nobody has is taken to have the mean μ̄. The
usual factor N of A⁻¹ is left to the calibration that follows.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.affine_head import AffineHead
from pfl.fedhip.class_scatter import ClassScatter
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.family import HeadFamily, NormalEquations, Parameters, Scores
from pfl.fedhip.moments import Moments
from pfl.ridge.leave_one_out import left_out
from pfl.ridge.linalg import ridged, try_cholesky
from pfl.ridge.smoother import ROUNDED

SHRINKAGES = [3.0, 1.0, 0.3, 0.1]
PULLS = [math.inf, 100.0]


def pulled_deviations(
    deviations: Float[np.ndarray, "d m"],
    center: Float[np.ndarray, " m"],
    own_sums: Float[np.ndarray, "d m"],
    own_count: Int[np.ndarray, " d"],
    pull: float,
) -> Float[np.ndarray, "d m"]:
    """d_c = μ_c − μ̄ + (n_kc μ_kc − n_kc μ_c) / (n_kc + κ), in any coordinates.

    ``deviations`` are μ_c − μ̄, ``center`` μ̄ and ``own_sums`` a client's n_kc μ_kc.
    """
    count = own_count[:, None]
    own = own_sums - count * (center + deviations)
    return deviations + own / np.where(count > 0, count + pull, 1.0)


def _of_client(
    scatter: ClassScatter, own_sums: np.ndarray, own_count: np.ndarray, pull: float
) -> Float[np.ndarray, "d m"]:
    return pulled_deviations(scatter.deviations, scatter.center, own_sums, own_count, pull)


def discriminant(
    server: Knowledge,
    own_sums: Float[np.ndarray, "d m"],
    own_count: Int[np.ndarray, " d"],
    shrinkage: float,
    pull: float,
) -> AffineHead:
    """V and b, from everybody's sums and a client's class sums and counts.

    Raises:
        InputError: with noise in the sums A is not positive definite.
    """
    deviations = _of_client(server.scatter, own_sums, own_count, pull)
    weight = server.within(shrinkage).solve(deviations.T)
    return AffineHead(weight, _bias(server.scatter, deviations, weight))


def _bias(
    scatter: ClassScatter, deviations: Float[np.ndarray, "d m"], weight: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, " d"]:
    bias: np.ndarray = -0.5 * np.sum(deviations.T * weight, axis=0) - scatter.center @ weight
    return bias


class _Products:
    """Products under A⁻¹ of samples x − μ̄ with themselves and with deviations, at one ridge.

    The deviations are everybody's μ_c − μ̄, then the client's ν_c − μ̄.

    Notes:
        U Λ Uᵀ = FᵀF being at hand, A = FᵀF + ρI − P Pᵀ, where P has the columns √N μ̄ and
        √n_c (μ_c − μ̄). With H = (FᵀF + ρI)⁻¹ and S = I − PᵀHP, by Woodbury,
        A⁻¹ = H + H P S⁻¹ PᵀH. So one rotation of the samples serves every ridge.
    """

    def __init__(self, problem: ClientProblem, pull: float) -> None:
        pooled = problem.pooled
        self.taken, self.values = pooled.taken, pooled.spectrum.values
        self.rows, self.squares = problem.centered, problem.squares
        drawn = pulled_deviations(
            pooled.deviations, pooled.center, problem.own_sums, problem.count, pull
        )
        self.deviations = np.vstack([pooled.deviations, drawn])

    def norms(self, ridges: Float[np.ndarray, " b"]) -> Float[np.ndarray, "j b"]:
        """(x − μ̄)ᵀH(x − μ̄) for each ridge."""
        norms: np.ndarray = self.squares @ (1.0 / (self.values[:, None] + ridges))
        return norms

    def at(
        self, ridge: float, norms: Float[np.ndarray, " j"]
    ) -> tuple[Float[np.ndarray, " j"], Float[np.ndarray, "j e"], Float[np.ndarray, "e e"]] | None:
        """(x−μ̄, x−μ̄), (x−μ̄, d) and (d, d); None where A is not positive definite."""
        inverse = 1.0 / (self.values + ridge)
        part = self.taken * inverse
        schur = try_cholesky(np.eye(len(part)) - part @ self.taken.T)
        if schur is None:
            return None
        rows, means = (
            schur.half_solve(part @ self.rows.T),
            schur.half_solve(part @ self.deviations.T),
        )
        weight = self.deviations * inverse
        return (
            norms + np.sum(rows**2, axis=0),
            self.rows @ weight.T + rows.T @ means,
            self.deviations @ weight.T + means.T @ means,
        )


def discriminant_path(problem: ClientProblem, pull: float) -> Scores:
    """Left-out scores of the discriminant with λ, for each λ, up to a constant of each sample.

    Notes:
        z_c = −½ (x − ν_c)ᵀA⁻¹(x − ν_c) and a constant. Sample i of class c, n = n_c, leaves W, μ_c
        and μ_kc; v stays as it is. With δ = x − μ_c and g = n/(n − 1), W loses g δδᵀ, so that for
        u, w and (u, w) = uᵀA⁻¹w the product without the sample is (Sherman-Morrison)

            (u, w) + g (u, δ)(δ, w) / (1 − g (δ, δ)).

        Of the other classes the means stay; x − ν_c becomes (1 + b) δ − r (ν_c − μ_c), where
        r = (n_kc + κ)/(n_kc − 1 + κ) and b = (1 + κ/(n − 1)) / (n_kc − 1 + κ), in the limit κ → ∞
        1 and 1/(n − 1). The only sample of a class leaves none, so that μ̄ takes the place of its
        mean, and μ̄ itself moves: x − μ̄ becomes N/(N − 1) times itself.
    """
    scatter, classes = problem.server.scatter, len(problem.count)
    products = _Products(problem, pull)
    moved = scatter.samples / max(scatter.samples - 1.0, 1.0)
    labels = problem.judged_labels
    size, own = scatter.count[labels], problem.count[labels]
    alone = size <= 1
    others = np.maximum(size - 1.0, 1.0)
    gain = np.where(alone, 0.0, size / others)
    drawn = (own + pull) / (own - 1.0 + pull) if pull < math.inf else np.ones(len(own))
    step = (1.0 + pull / others) / (own - 1.0 + pull) if pull < math.inf else 1.0 / others
    every = np.arange(len(labels))

    def scores_at(ridge: float, norms: Float[np.ndarray, " j"]) -> Float[np.ndarray, "j d"]:
        found = products.at(ridge, norms)
        if found is None:
            return np.full((len(labels), classes), np.nan)
        square, mixed, among = found
        pooled, pulled = among[:classes, :classes], among[classes:, classes:]
        across = among[:classes, classes:]  # (d_c, ν_c' − μ̄)
        at_pooled, at_pulled = mixed[:, :classes], mixed[:, classes:]
        to_mean = at_pooled[every, labels]
        spread = square - 2.0 * to_mean + np.diag(pooled)[labels]  # (δ, δ)
        far = square[:, None] - 2.0 * at_pulled + np.diag(pulled)
        along = square[:, None] - to_mean[:, None] - at_pulled + across[labels]
        shift = at_pulled[every, labels] - to_mean - across[labels, labels] + pooled[labels, labels]
        pulled_by = pulled[labels, labels] - 2.0 * across[labels, labels] + pooled[labels, labels]
        own_far = (1 + step) ** 2 * spread - 2 * (1 + step) * drawn * shift + drawn**2 * pulled_by
        own_along = (1 + step) * spread - drawn * shift
        far[every, labels], along[every, labels] = own_far, own_along
        rest = 1.0 - gain * spread
        far += left_out(gain[:, None] * along**2, rest, ROUNDED * np.ones(len(rest)))
        far[:, ~scatter.present] *= moved**2
        far[alone, labels[alone]] = moved**2 * square[alone]
        return -0.5 * far

    def scores(shrinkages: Float[np.ndarray, " b"]) -> Float[np.ndarray, "j b d"]:
        ridges = shrinkages * scatter.variance
        norms = products.norms(ridges)
        return np.stack([scores_at(*pair) for pair in zip(ridges, norms.T, strict=True)], axis=1)

    return scores


def _equations(one: Parameters, own: Moments, server: Knowledge) -> NormalEquations:
    scatter = server.scatter
    deviations = _of_client(scatter, own.cross_matrix().T, own.count, one.pull)
    return NormalEquations(ridged(scatter.within, one.shrinkage * scatter.variance), deviations.T)


DISCRIMINANT = HeadFamily(
    head=lambda one, problem: discriminant(
        problem.server, problem.cross.T, problem.count, one.shrinkage, one.pull
    ),
    leave_one_out=lambda problem, first: discriminant_path(problem, first.pull),
    normal_equations=_equations,
    bias=lambda one, weight, own, server: _bias(
        server.scatter,
        _of_client(server.scatter, own.cross_matrix().T, own.count, one.pull),
        weight,
    ),
    locality=1,
    grids={"shrinkage": lambda scale: SHRINKAGES, "pull": lambda scale: PULLS},
)
