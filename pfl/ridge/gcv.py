"""The global ridge path from sums alone: every β from one decomposition, and its choice by GCV.

Generalized cross-validation [Golub, Heath & Wahba 1979] needs of the N samples only FᵀF, B = FᵀY
and N, so a server that never sees a feature can choose β.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pfl.errors import InputError
from pfl.ridge.grid import decades
from pfl.ridge.linalg import Spectrum, spectrum

STEPS = 10  # values of β per factor of ten
LOWEST = 1e-8  # smallest β tried, relative to the largest eigenvalue of FᵀF
RESOLVED = 1e-12  # relative to ‖Y‖² = N: smaller residuals are rounding


@dataclass(frozen=True)
class GlobalPath:
    """G(β) = U (Λ + βI)⁻¹ UᵀB for every β, where FᵀF = U Λ Uᵀ.

    Attributes:
        spectrum: Λ and U.
        cross: UᵀB.
        samples: N.
    """

    spectrum: Spectrum
    cross: Float[np.ndarray, "m d"]
    samples: int

    def head(self, beta: float) -> Float[np.ndarray, "m d"]:
        """UᵀG(β), the global head in the coordinates of the eigenvectors."""
        return self.cross / (self.spectrum.values + beta)[:, None]

    def gcv(self, beta: float) -> float:
        """GCV(β) = N·RSS / (N − Σ λ/(λ+β))², for one-hot labels.

        Notes:
            With W = G(β), RSS = ‖Y − FW‖² = N − 2 tr(WᵀB) + tr(WᵀFᵀFW), where ‖Y‖² = N. In the
            coordinates of U, with b_j the rows of UᵀB, this is
            N − Σ ‖b_j‖² (λ_j + 2β)/(λ_j + β)².
            The difference is known to about N·ε; it is never taken below N·``RESOLVED``, so that
            a residual of pure rounding cannot win. Of the eigenvalues no more than N are not
            zero; the others, which are rounding, would outweigh a small N − Σ λ/(λ+β).
        """
        values, samples = self.spectrum.values, self.samples
        fitted = np.sum(self.cross**2, axis=1) @ ((values + 2 * beta) / (values + beta) ** 2)
        rest = max(samples - float(fitted), RESOLVED * samples)
        nonzero = values[-samples:] if samples < len(values) else values
        freedom = samples - float(np.sum(nonzero / (nonzero + beta)))
        return samples * rest / freedom**2


def global_path(
    gram: Float[np.ndarray, "m m"], cross: Float[np.ndarray, "m d"], samples: int
) -> GlobalPath:
    """Decompose FᵀF, once; with it B = FᵀY, and N."""
    eigen = spectrum(gram)
    return GlobalPath(eigen, eigen.vectors.T @ cross, samples)


def choose_beta(path: GlobalPath) -> float:
    """The β of least GCV on a grid of ``STEPS`` round values per factor of ten; ties to the larger.

    The grid reaches from ``LOWEST`` times the largest eigenvalue of FᵀF up to it. A value counts if
    the next smaller one is no better, and the smallest one if all others lead down to it.

    Raises:
        InputError: the features are all zero, or there are no samples.

    Notes:
        So a true minimum is not lost to a false one at the grid's end: where N ≤ m and some samples
        are repeated, the rank r is below N, and for β → 0 residuals vanish while N − r degrees of
        freedom stay, so that GCV → 0 although the head gets worse.
    """
    largest = float(path.spectrum.values.max(initial=0.0))
    if not largest > 0:
        raise InputError(
            "beta cannot be chosen from features that are all zero: set aggregate.beta to a number."
        )
    betas = decades(LOWEST * largest, largest, STEPS)[::-1]
    scores = [path.gcv(beta) for beta in betas]
    pairs = enumerate(itertools.pairwise(scores))
    least = [i for i, (here, below) in pairs if here <= below] or [len(betas) - 1]
    return betas[min(least, key=scores.__getitem__)]
