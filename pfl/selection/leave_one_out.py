"""Exact leave-one-out residuals of every head a client may choose, along whole paths.

A residual y_i − f_iᵀP⁽⁻ⁱ⁾ is that of a head made without sample i: the sample leaves the client
*and* the sums over all clients, so the global head changes, too. Nothing is refitted. Notation:
G the global head at β, A = FᵀF + βI over all samples, E = Y_k − F_k G, K = F_k F_kᵀ,
K_A = F_k A⁻¹ F_kᵀ, R(α) = (I + αK)⁻¹ as in :mod:`pfl.selection.smoother`.

Notes:
    All follow from one identity [Allen 1974]: for a weighted ridge fit with the system matrix H in
    which sample i has weight w and residual e_i, taking it out leaves e_i / (1 − w f_iᵀH⁻¹f_i)
    (Sherman-Morrison). Hence, first, the global head leaves t_i = e_i / (1 − (K_A)_ii), and

        G⁽⁻ⁱ⁾ = G − A⁻¹ f_i t_iᵀ.                                                        (*)
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pfl.selection.smoother import Smoother, smoother


def global_residuals(
    errors: Float[np.ndarray, "n d"], leverages: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n d"]:
    """t_i = e_i / (1 − (K_A)_ii), the global head's."""
    return errors / _kept(1.0 - leverages)[:, None]


def _kept(rest: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """1 − h, NaN where a leverage h reaches 1: possible only where noise hides samples in the sums.

    A head with such a residual cannot be judged and is not chosen.
    """
    return np.where(rest > 0, rest, np.nan)


@dataclass(frozen=True)
class LocalPath:
    """Local heads L_k(β), equation (7), for every β: R Y_k over the diagonal of R at 1/β."""

    fit: Smoother
    targets: Float[np.ndarray, "n d"]
    projected: Float[np.ndarray, "r d"]

    def residuals(self, betas: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b d"]:
        """Leave-one-out residuals of L_k(β), for each β."""
        left = self.fit.residuals(1.0 / betas, self.targets, self.projected)
        return left / self.fit.diagonal(1.0 / betas)[:, :, None]


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
        return left / self.fit.diagonal(1.0 / rhos)[:, :, None]


def anchored_path(
    fit: Smoother, errors: Float[np.ndarray, "n d"], whitened: Float[np.ndarray, "n m"]
) -> AnchoredPath:
    """The path of anchored heads.

    Args:
        fit: the spectrum of K.
        errors: E, what the global head leaves.
        whitened: any V with V Vᵀ = K_A, such as F_k L⁻ᵀ where A = L Lᵀ.
    """
    leverages = np.sum(whitened**2, axis=1)
    without = global_residuals(errors, leverages)
    overlap = fit.overlap(whitened)
    return AnchoredPath(fit, errors, fit.project(errors), without, leverages, overlap)


@dataclass(frozen=True)
class FedhipPath:
    """Personalized heads P_k(α), equation (14), at one β and for every α.

    Notes:
        Let R = (I + αK_A)⁻¹. By Woodbury, Y_k − F_k P_k = R E. The sample, in both terms of
        the objective (1), has weight 1 + α and f_iᵀ(A + αF_kᵀF_k)⁻¹f_i = (K_A R)_ii. Since
        I − (1 + α) K_A R = (I − K_A) R, the residual is

            (R E)_i / (R_ii − (K_A R)_ii).
    """

    fit: Smoother
    errors: Float[np.ndarray, "n d"]
    projected: Float[np.ndarray, "r d"]

    def residuals(self, alphas: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b d"]:
        """Leave-one-out residuals of P_k(α), for each α."""
        left = self.fit.residuals(alphas, self.errors, self.projected)
        kept = _kept(self.fit.diagonal(alphas) - self.fit.leverages(alphas))
        return left / kept[:, :, None]


def fedhip_path(whitened: Float[np.ndarray, "n m"], errors: Float[np.ndarray, "n d"]) -> FedhipPath:
    """The path of personalized heads, from any V with V Vᵀ = K_A and from E = Y_k − F_k G."""
    fit = smoother(whitened)
    return FedhipPath(fit, errors, fit.project(errors))
