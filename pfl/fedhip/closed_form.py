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

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.class_scatter import ClassScatter, class_scatter
from pfl.fedhip.moments import Moments
from pfl.ridge.linalg import Factor, definite, factor, ridged


@dataclass(frozen=True)
class Knowledge:
    """What the server gives back to every client: the sums of all clients and the global head.

    Attributes:
        gram: FᵀF = Σ F_kᵀF_k.
        factor: Cholesky factor of A = FᵀF + βI.
        cross: B = Σ F_kᵀY_k.
        head: the global head G.
        beta: the ridge β.
        count: n_c, everybody's samples of each class.
    """

    gram: Float[np.ndarray, "m m"]
    factor: Factor
    cross: Float[np.ndarray, "m d"]
    head: Float[np.ndarray, "m d"]
    beta: float
    count: Int[np.ndarray, " d"]

    @property
    def samples(self) -> int:
        """N."""
        return int(self.count.sum())

    @cached_property
    def scatter(self) -> ClassScatter:
        """Class means and the scatter within classes."""
        return class_scatter(self.gram, self.cross, self.count.astype(np.float64))

    @cached_property
    def _factors(self) -> dict[float, Factor]:
        return {}

    def within(self, shrinkage: float) -> Factor:
        """Cholesky factor of W + λvI of the discriminant, made once for every λ.

        Raises:
            InputError: with noise in the sums it is not positive definite.
        """
        if shrinkage not in self._factors:
            matrix = ridged(self.scatter.within, shrinkage * self.scatter.variance)
            self._factors[shrinkage] = definite(matrix, lambda _: _no_discriminant(shrinkage))
        return self._factors[shrinkage]


def _no_discriminant(shrinkage: float) -> str:
    return (
        f"With noise in the sums there is no discriminant at shrinkage = {shrinkage:g}: set "
        "personalize.shrinkage higher, or personalize.family to another than lda."
    )


def aggregate(total: Moments, beta: float) -> Knowledge:
    """Phase 2, equations (9) to (12), from the sum of all clients' moments.

    S_K M_K telescopes to Σ F_kᵀY_k (Lemma 1), so that after removing the K ridges from S_K but one,
    (12) is the pooled ridge G = A⁻¹B: one factorization whatever K. The recursion that telescopes
    is in :mod:`pfl.fedhip.paper_recursion`.
    """
    gram, cross = total.gram_matrix(), total.cross_matrix()
    system = factor(gram, beta)
    return Knowledge(gram, system, cross, system.solve(cross), beta, total.count)


def received(total: Moments, head: Float[np.ndarray, "m d"], beta: float) -> Knowledge:
    """What a client makes of the sums, G and β that it was sent; G is not solved for again."""
    gram = total.gram_matrix()
    return Knowledge(gram, factor(gram, beta), total.cross_matrix(), head, beta, total.count)


def with_beta(knowledge: Knowledge, beta: float) -> Knowledge:
    """What the same sums give at another β; at the same β the same object."""
    if beta == knowledge.beta:
        return knowledge
    system = factor(knowledge.gram, beta)
    return replace(knowledge, factor=system, head=system.solve(knowledge.cross), beta=beta)


def one_hot(labels: Int[np.ndarray, " n"], classes: int) -> Float[np.ndarray, "n d"]:
    """Y: a one in each row at the sample's class."""
    return np.eye(classes)[labels]
