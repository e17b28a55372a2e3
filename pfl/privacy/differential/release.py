"""Differentially private sums: Gaussian noise on what the server adds up, and the ridge for it.

Sources: Y.-X. Wang, "Revisiting Differentially Private Linear Regression: Optimal and Adaptive
Prediction & Estimation in Unbounded Domain", UAI 2018, arXiv 1803.02596 (AdaSSP: noisy sums, with a
ridge as large as the noise demands); calibration as in :mod:`pfl.privacy.differential.gaussian`.

Two data sets are neighbours if one has one labelled sample more. The server is trusted with the
exact sums; what it gives away is private. No sample's features are longer than C, which is stated,
not measured.

Notes:
    **Sensitivity.** One more sample (x, y) changes

        FᵀF by xxᵀ,                 ‖xxᵀ‖_F = ‖x‖² ≤ C²,
        FᵀY by xyᵀ, y one-hot,      ‖xyᵀ‖_F = ‖x‖ ≤ C,
        the class counts by y,      ‖y‖ = 1,
        the least eigenvalue λ of FᵀF by at most ‖x‖² ≤ C² (Weyl).

    In the units C², C, 1/w and C²/w they are one vector, of which a sample changes each part by no
    more than 1, 1, w and w: its sensitivity is Δ = √(2 + 2w²). One Gaussian mechanism on it, all
    entries with noise of σ = Δ · multiplier(ε, δ), is (ε, δ)-private. It needs √3 less noise than
    three mechanisms of ε/3 and δ/3 each, as AdaSSP has them.

    **The triangle.** FᵀF is a vector by its diagonal and √2 times its upper triangle: then the
    vector's length is the Frobenius norm. So entries of the diagonal get noise of σC², those beside
    it of σC²/√2, the same above as below.

    **The ridge.** Such a noise matrix E (Gaussian orthogonal ensemble, v = σC²/√2) has
    ‖E‖ ≤ b = 2v(√m + √log(2/ρ)) but for a chance of ρ (Davidson & Szarek 2001, Theorem 2.11). With
    λ̃ a lower bound on λ, as likely true, the ridge max(0, 2b − λ̃) makes bI at most half of what
    FᵀF and the ridge are, so no direction of the noisy system is weaker than half the true one.
    AdaSSP has √(m log(2m²/ρ)) in place of this b and no factor 2.

    All that follows, rounding to integers and repair included, only processes what is private.
"""

import math
from dataclasses import dataclass

import numpy as np

from pfl.artifacts.hdf5 import Attribute
from pfl.errors import InputError
from pfl.fedhip.moments import Moments
from pfl.privacy.differential.gaussian import Bytes, noise_multiplier, normals
from pfl.ridge.linalg import diagonal_positions, least_eigenvalue

LARGEST_NORMAL = 9.0  # above all that 52 bits make, 8.2
WEIGHT = 0.1  # w: counts and λ are large beside their noise, and cost little privacy so
CHANCE = 0.05  # ρ, of a ridge too small
LEAST_DELTA = 1e-12  # below it float64 cannot tell δ from 0
LARGEST_NOISE = 2.0**61  # in units of an integer sum: 64 bits hold it beside the sum


@dataclass(frozen=True)
class Privacy:
    """What is promised.

    Attributes:
        epsilon: ε > 0.
        delta: δ, between ``LEAST_DELTA`` and 1.
        norm: C, which no sample's features exceed in length.

    Raises:
        InputError: one of them is out of its range; a norm of 0 stands for none stated.
    """

    epsilon: float
    delta: float
    norm: float

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 < self.epsilon < math.inf:
            raise InputError(
                f"aggregate.privacy.epsilon is {self.epsilon:g}: set it above 0, or to none."
            )
        if not LEAST_DELTA <= self.delta < 1:
            raise InputError(
                f"aggregate.privacy.delta is {self.delta:g}: set it below 1, best below one over "
                f"the number of samples, but to no less than {LEAST_DELTA:g}."
            )
        if not 0 < self.norm < math.inf:
            raise InputError(
                "Without a limit on the length of features no noise makes sums private: set "
                "features.norm to a number, 1 for example, that you did not take from the data."
            )

    @property
    def facts(self) -> dict[str, Attribute]:
        """What the artifact records of it."""
        return {
            "privacy-epsilon": self.epsilon,
            "privacy-delta": self.delta,
            "privacy-norm": self.norm,
        }

    @property
    def noise(self) -> float:
        """σ, in the units of the module's notes."""
        return math.sqrt(2 + 2 * WEIGHT**2) * noise_multiplier(self.epsilon, self.delta)


@dataclass(frozen=True)
class Released:
    """Private sums, fit for everything that is done with exact ones.

    ``sums`` are noisy integers: the Gram matrix has been raised by a multiple of I until positive
    semidefinite, counts until not negative. ``beta`` is the rest of the ridge, above 0.
    """

    sums: Moments
    beta: float


def release(total: Moments, privacy: Privacy, source: Bytes) -> Released:
    """Add noise to exact sums, in which no sample is longer than ``privacy.norm``.

    Whoever can tell the random bytes of the source can take the noise off.

    Raises:
        InputError: ε is so small that 64-bit integers cannot hold the noise.
    """
    m, unit, sigma = total.features, privacy.norm / total.step, privacy.noise
    largest = sigma * max(unit, unit**2) * (2 * math.sqrt(m) + LARGEST_NORMAL)
    if largest > LARGEST_NOISE:
        raise InputError(
            f"aggregate.privacy.epsilon = {privacy.epsilon:g} takes more noise than integers of "
            "64 bits hold: set it higher."
        )
    square = sigma * privacy.norm**2
    stds = np.full(total.gram.shape, sigma * unit**2 / math.sqrt(2))
    stds[diagonal_positions(m)] *= math.sqrt(2)
    cross = sigma * unit * normals(total.cross.size, source)
    count = sigma / WEIGHT * normals(total.count.size, source)
    sums = Moments(
        total.gram + _whole(stds * normals(stds.size, source)),
        total.cross + _whole(cross).reshape(total.cross.shape),
        np.maximum(total.count + _whole(count), 0),
        total.step,
    )
    least = least_eigenvalue(total.gram_matrix()) + square / WEIGHT * normals(1, source)[0]
    surely = max(0.0, least - square / WEIGHT * math.sqrt(2 * math.log(1 / CHANCE)))
    bound = math.sqrt(2) * square * (math.sqrt(m) + math.sqrt(math.log(2 / CHANCE)))
    return _repaired(sums, max(0.0, 2 * bound - surely), square)


def _repaired(sums: Moments, ridge: float, least: float) -> Released:
    """Split the ridge: what makes the Gram matrix positive semidefinite, and the rest as β.

    β is at least ``least``, for the rare noise that the ridge does not outweigh.
    """
    negative = min(0.0, least_eigenvalue(sums.gram_matrix()))
    raised = math.ceil(-negative / sums.step**2)
    gram = sums.gram.copy()
    gram[diagonal_positions(sums.features)] += raised
    beta = max(ridge - raised * sums.step**2, least)
    return Released(Moments(gram, sums.cross, sums.count, sums.step), beta)


def _whole(noise: np.ndarray) -> np.ndarray:
    return np.rint(noise).astype(np.int64)
