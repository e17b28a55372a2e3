"""Exact leave-one-out residuals of every head a client may choose, along whole paths.

A residual y_i − f_iᵀP⁽⁻ⁱ⁾ is that of a head made without sample i: the sample leaves the client
*and* the sums over all clients, so the global head changes, too. Nothing is refitted. Notation:
G the global head at β, A = FᵀF + βI over all samples, E = Y_k − F_k G, K = F_k F_kᵀ,
K_A = F_k A⁻¹ F_kᵀ, R(α) = (I + αK)⁻¹ as in :mod:`pfl.ridge.smoother`.

Notes:
    All follow from one identity [Allen 1974]: for a weighted ridge fit with the system matrix H in
    which sample i has weight w and residual e_i, taking it out leaves e_i / (1 − w f_iᵀH⁻¹f_i)
    (Sherman-Morrison). Hence, first, the global head leaves t_i = e_i / (1 − (K_A)_ii), and

        G⁽⁻ⁱ⁾ = G − A⁻¹ f_i t_iᵀ.                                                        (*)
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from pfl.ridge.smoother import ROUNDED, Smoother, smoother


@dataclass(frozen=True)
class Shared:
    """What the global head at one β says of a client's samples.

    Attributes:
        errors: E.
        whitened: any V with V Vᵀ = K_A, such as F_k L⁻ᵀ where A = L Lᵀ.
        strain: ‖A‖ ‖A⁻¹f_i‖² of each sample, by which rounding in A moves (K_A)_ii.
        condition: ‖A‖ ‖A⁻¹‖.
    """

    errors: Float[np.ndarray, "n d"]
    whitened: Float[np.ndarray, "n m"]
    strain: Float[np.ndarray, " n"]
    condition: float

    @cached_property
    def leverages(self) -> Float[np.ndarray, " n"]:
        """Diagonal of K_A."""
        return np.sum(self.whitened**2, axis=1)


def global_residuals(shared: Shared) -> Float[np.ndarray, "n d"]:
    """t_i = e_i / (1 − (K_A)_ii), the global head's."""
    kept = _kept(1.0 - shared.leverages, ROUNDED * (1.0 + shared.strain))
    return shared.errors / kept[:, None]


def _kept(
    rest: Float[np.ndarray, "*shape"], noise: Float[np.ndarray, "*values"]
) -> Float[np.ndarray, "*shape"]:
    """1 − h, NaN where it is no more than noise: where a leverage h is 1 up to rounding.

    Without such a sample nothing but a tiny ridge says how its direction is weighed, or noise hides
    the sample in the sums. A head with such a residual cannot be judged and is not chosen.
    """
    return np.where(rest > noise, rest, np.nan)


@dataclass(frozen=True)
class LocalPath:
    """Local heads L_k(β), equation (7), for every β: R Y_k over the diagonal of R at 1/β."""

    fit: Smoother
    targets: Float[np.ndarray, "n d"]
    projected: Float[np.ndarray, "r d"]

    def residuals(self, betas: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b d"]:
        """Leave-one-out residuals of L_k(β), for each β."""
        left = self.fit.residuals(1.0 / betas, self.targets, self.projected)
        kept = _kept(self.fit.diagonal(1.0 / betas), self.fit.noise(1.0 / betas))
        return left / kept[:, :, None]


def local_path(fit: Smoother, targets: Float[np.ndarray, "n d"]) -> LocalPath:
    """The path of local heads, given the spectrum of K."""
    return LocalPath(fit, targets, fit.project(targets))


@dataclass(frozen=True)
class AnchoredPath:
    """Heads P = G + (F_kᵀF_k + ρI)⁻¹ F_kᵀ E for every ρ.

    Notes:
        For a fixed anchor the residuals are those of a ridge fit to E: R E over diag R at α = 1/ρ.
        But without sample i the anchor is (*), and E becomes E + c_i t_iᵀ with c_i column i of K_A.
        A fit that leaves i out does so whatever its target, so the identity holds with E + c_i t_iᵀ
        for E:

            ((R E)_i + (R K_A)_ii t_i) / R_ii.

        Only the diagonal of R K_A is needed. As ρ → ∞, R → I, and t_i comes out.
    """

    fit: Smoother
    errors: Float[np.ndarray, "n d"]
    projected: Float[np.ndarray, "r d"]
    without: Float[np.ndarray, "n d"]
    leverages: Float[np.ndarray, " n"]
    overlap: Float[np.ndarray, "n r"]

    def residuals(self, rhos: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b d"]:
        """Leave-one-out residuals of the head anchored with ρ, for each ρ."""
        left = self.fit.residuals(1.0 / rhos, self.errors, self.projected)
        moved = self.fit.diagonal_with(1.0 / rhos, self.leverages, self.overlap)
        left += moved[:, :, None] * self.without[:, None, :]
        kept = _kept(self.fit.diagonal(1.0 / rhos), self.fit.noise(1.0 / rhos))
        return left / kept[:, :, None]


def anchored_path(fit: Smoother, shared: Shared) -> AnchoredPath:
    """The path of anchored heads, given the spectrum of K."""
    errors, overlap = shared.errors, fit.overlap(shared.whitened)
    without, projected = global_residuals(shared), fit.project(errors)
    return AnchoredPath(fit, errors, projected, without, shared.leverages, overlap)


@dataclass(frozen=True)
class FedhipPath:
    """Personalized heads P_k(α), equation (14), at one β and for every α.

    Notes:
        Let R = (I + αK_A)⁻¹. By Woodbury, Y_k − F_k P_k = R E. The sample, in both terms of
        the objective (1), has weight 1 + α and f_iᵀ(A + αF_kᵀF_k)⁻¹f_i = (K_A R)_ii. Since
        I − (1 + α) K_A R = (I − K_A) R, the residual is

            (R E)_i / (R_ii − (K_A R)_ii).

        An error of A moves K_A by at most ``condition``·ε of itself, and the difference by at most
        that of R_ii.
    """

    fit: Smoother
    errors: Float[np.ndarray, "n d"]
    projected: Float[np.ndarray, "r d"]
    condition: float

    def residuals(self, alphas: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b d"]:
        """Leave-one-out residuals of P_k(α), for each α."""
        left = self.fit.residuals(alphas, self.errors, self.projected)
        whole = self.fit.diagonal(alphas)
        noise = self.fit.noise(alphas) + ROUNDED * self.condition * whole
        kept = _kept(whole - self.fit.leverages(alphas), noise)
        return left / kept[:, :, None]


def fedhip_path(shared: Shared) -> FedhipPath:
    """The path of personalized heads."""
    fit = smoother(shared.whitened)
    return FedhipPath(fit, shared.errors, fit.project(shared.errors), shared.condition)
