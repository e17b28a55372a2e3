"""What a kernel ridge fit leaves of its targets, for every ridge, from one spectrum."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pfl.ridge.linalg import small_gram, spectrum

ROUNDED = 2.0**-40  # 4,096 ε: below so much of its size a difference has lost its digits


@dataclass(frozen=True)
class Smoother:
    """R(w) = (I + wK)⁻¹ for K = F Fᵀ and every weight w ≥ 0.

    A ridge fit with penalty ρ to targets E leaves the residuals R(1/ρ) E. With no more samples than
    features, n ≤ m, the (n, n) matrix K = Q Λ Qᵀ is decomposed, else FᵀF = U Λ Uᵀ, (m, m). In both
    cases R(w) = o·I + Z diag(c) Zᵀ and K R(w) = Z diag(v) Zᵀ with

        n ≤ m:  Z = Q,   (n, n),  o = 0,  c = 1/(1 + wλ),   v = λ/(1 + wλ)
        n > m:  Z = F U, (n, m),  o = 1,  c = −w/(1 + wλ),  v = 1/(1 + wλ),

    so a diagonal costs n·min(n, m) and R(w) E, (n, d), costs d times that. Methods take several
    weights at once: their products then are those of large matrices.

    Attributes:
        vectors: the eigenvectors, Q or U.
        basis: Z, or some of its rows.
        squares: Z ∘ Z.
        values: λ.
        whole: whether Z is an orthonormal basis of all samples (n ≤ m).
    """

    vectors: Float[np.ndarray, "r r"]
    basis: Float[np.ndarray, "n r"]
    squares: Float[np.ndarray, "n r"]
    values: Float[np.ndarray, " r"]
    whole: bool

    def project(
        self, targets: Float[np.ndarray, "n d"], moment: Float[np.ndarray, "m d"] | None = None
    ) -> Float[np.ndarray, "r d"]:
        """ZᵀE over all samples, the same for every weight.

        From E of the rows; and where these are not all samples, from FᵀE of all.
        """
        return self.basis.T @ targets if moment is None else self.vectors.T @ moment

    def residuals(
        self,
        weights: Float[np.ndarray, " b"],
        targets: Float[np.ndarray, "n d"],
        projected: Float[np.ndarray, "r d"],
    ) -> Float[np.ndarray, "n b d"]:
        """R(w) E from E and ZᵀE."""
        weighted = self._diagonal(weights)[:, :, None] * projected[:, None, :]
        inside = self.basis @ weighted.reshape(len(projected), -1)
        inside = inside.reshape(len(targets), len(weights), -1)
        return inside if self.whole else targets[:, None, :] + inside

    def diagonal(self, weights: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b"]:
        """Diagonals of R(w): 1 − h_i for the ridge fit's leverages h."""
        inside = self.squares @ self._diagonal(weights)
        return inside if self.whole else 1.0 + inside

    def leverages(self, weights: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b"]:
        """Diagonals of K R(w)."""
        damped = 1.0 + self.values[:, None] * weights
        return self.squares @ ((self.values[:, None] if self.whole else 1.0) / damped)

    def overlap(
        self, factor: Float[np.ndarray, "n p"], mixed: Float[np.ndarray, "q r"]
    ) -> Float[np.ndarray, "n r"]:
        """Z ∘ (C Z) for C = V Vᵀ, to be handed to :meth:`diagonal_with`.

        ``factor`` is V of the rows, ``mixed`` is C (n ≤ m), or VᵀF over all samples, (p, r).
        """
        turned = mixed @ self.vectors
        result: np.ndarray = self.basis * (turned if self.whole else factor @ turned)
        return result

    def diagonal_with(
        self,
        weights: Float[np.ndarray, " b"],
        diagonal: Float[np.ndarray, " n"],
        overlap: Float[np.ndarray, "n r"],
    ) -> Float[np.ndarray, "n b"]:
        """Diagonals of R(w) C from that of C and :meth:`overlap`."""
        inside = overlap @ self._diagonal(weights)
        return inside if self.whole else diagonal[:, None] + inside

    def noise(self, weights: Float[np.ndarray, " b"]) -> Float[np.ndarray, "n b"]:
        """Up to what size the diagonals of R(w) are no more than rounding.

        Notes:
            Eigenvalues and vectors are those of a matrix that is off by about ελ_max. This moves
            R_ii by ελ_max · w(R²)_ii (n ≤ m), or ελ_max · w²f_iᵀ(I + wFᵀF)⁻²f_i; without its
            factor w the former is, like the latter, Σ_j z_ij² c_j². Adding up the diagonal rounds
            by another ε‖R‖. A size of ``ROUNDED``/ε times both has lost its digits.
        """
        inside = self._diagonal(weights)
        moved = self.squares @ inside**2 * (self.values[-1] * (weights if self.whole else 1.0))
        return ROUNDED * (moved + (np.abs(inside).max(axis=0) if self.whole else 1.0))

    def _diagonal(self, weights: Float[np.ndarray, " b"]) -> Float[np.ndarray, "r b"]:
        """The numbers c, in columns."""
        return (1.0 if self.whole else -weights) / (1.0 + self.values[:, None] * weights)


def smoother(features: Float[np.ndarray, "n m"]) -> Smoother:
    """Decompose F Fᵀ by the smaller of its two Gram matrices."""
    samples, width = features.shape
    return smoother_of(small_gram(features), features if samples > width else None)


def smoother_of(
    small: Float[np.ndarray, "r r"], rows: Float[np.ndarray, "j m"] | None = None
) -> Smoother:
    """The same from the smaller Gram matrix: F Fᵀ, or FᵀF and some rows of F.

    Residuals and diagonals are those of these rows, of the fit to all samples.
    """
    eigen = spectrum(small)
    basis = eigen.vectors if rows is None else rows @ eigen.vectors
    return Smoother(eigen.vectors, basis, basis**2, eigen.values, rows is None)
