"""Class means and the scatter of samples about them, from the sums that clients send.

    μ_c = B_c / n_c,    W = FᵀF − Σ_c n_c μ_c μ_cᵀ = Σ_i (x_i − μ_c(i)) (x_i − μ_c(i))ᵀ

All of it follows from the moments of :mod:`pfl.fedhip.moments`; no sample is seen. Differences are
taken about the mean of all samples, μ̄, so that an offset that all features share costs no digits.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from pfl.ridge.smoother import ROUNDED


@dataclass(frozen=True, eq=False)
class ClassScatter:
    """Means of classes and the scatter within them.

    Attributes:
        within: W.
        center: μ̄, the mean of all samples.
        deviations: μ_c − μ̄, 0 for a class without samples.
        count: n_c; 0 where noise made it negative.
    """

    within: Float[np.ndarray, "m m"]
    center: Float[np.ndarray, " m"]
    deviations: Float[np.ndarray, "d m"]
    count: Float[np.ndarray, " d"]

    @property
    def present(self) -> Bool[np.ndarray, " d"]:
        """Which classes have samples."""
        return self.count > 0

    @property
    def samples(self) -> float:
        """N."""
        return float(self.count.sum())

    @cached_property
    def variance(self) -> float:
        """The unit of the ridge of W: tr W / m, above 0.

        Where every class has one sample, or all samples of a class are equal, W is 0, or what
        rounding leaves of FᵀF: the scatter of the means stands in for it, and 1 where all samples
        are equal.
        """
        features = len(self.center)
        within = float(np.trace(self.within))
        between = float(self.count @ np.sum(self.deviations**2, axis=1))
        rounding = ROUNDED * (within + between + self.samples * float(self.center @ self.center))
        for total in (within, between):
            if total > max(rounding, 0.0):
                return total / features
        return 1.0


def class_scatter(
    gram: Float[np.ndarray, "m m"], cross: Float[np.ndarray, "m d"], count: Float[np.ndarray, " d"]
) -> ClassScatter:
    """What FᵀF, B and n_c, of a client or of everybody, say of classes.

    Notes:
        With T = FᵀF − N μ̄ μ̄ᵀ the scatter about μ̄, W = T − Σ n_c (μ_c − μ̄)(μ_c − μ̄)ᵀ.
    """
    held = np.maximum(np.asarray(count, np.float64), 0.0)
    samples, present = held.sum(), held > 0
    center = cross[:, present].sum(axis=1) / max(samples, 1.0)
    deviations = np.zeros((len(held), len(gram)))
    deviations[present] = cross.T[present] / held[present, None] - center
    weighted = np.sqrt(held)[:, None] * deviations
    within = gram - samples * np.outer(center, center) - weighted.T @ weighted
    return ClassScatter((within + within.T) / 2, center, deviations, held)
